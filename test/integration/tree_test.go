package integration

import (
	"fmt"
	"slices"
	"testing"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/seed"
	"cardquota.dev/operator/test/framework"
)

// TestATreeOfQueuesIsKeptInSpiteOfVolcanosWebhooks: the operator keeps a tree of queues in spite of Volcano's
// webhooks, which refuse a child without a parent, or with more than its parent. The subtests share one cluster, and
// each has a tree of its own. The last two change the policy for all trees, so they run one after the other.
func TestATreeOfQueuesIsKeptInSpiteOfVolcanosWebhooks(t *testing.T) {
	e := newTreeEnv(t)
	t.Run("in parallel", func(t *testing.T) {
		for name, test := range map[string]func(*testing.T, *treeEnv){
			"any order of creation and deletion":     testAnyOrder,
			"numbers rise and fall in the same tree": testRaisingAndLowering,
			"queues move to other parents":           testMoving,
			"a refused write is reported":            testRefusedChild,
			"a parent waits for its children":        testParentWaitsForChildren,
			"a parent sums its subtree":              testParentSums,
			"another manager's parent stays":         testOtherManagersParent,
			"a Queue is adopted into a tree":         testAdoption,
			"numbers above the parent are scaled":    testExcessIsScaledDown,
			"a Queue written by hand counts":         testQueueByHand,
			"limits that are not set":                testUnsetLimits,
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()

				test(t, e.on(t))
			})
		}
	})

	t.Run("tree, flat, tree", func(t *testing.T) { testSwitching(t, e.on(t)) })
	t.Run("a policy that is created again", func(t *testing.T) { testPolicyCreatedAgain(t, e.on(t)) })
}

// testAnyOrder: users apply and delete a folder of CardQuotas in any order. Children before their parents, parents
// before their children, or shuffled: all Queues are placed in the end, and all are gone after the deletion. The first
// round creates children first and deletes parents first. Two more rounds are shuffled.
func testAnyOrder(t *testing.T, e *treeEnv) {
	random := seed.Rand(t)
	for i := range 3 {
		branches := tenantBranches(fmt.Sprintf("order%d-", i))
		shuffled := slices.Clone(branches)
		slices.Reverse(shuffled)
		if i > 0 {
			random.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		}

		e.create(t, shuffled)
		e.expectPlaced(t, branches)
		random.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		if i == 0 { // parents first
			shuffled = branches
		}

		for _, b := range shuffled {
			e.g.Expect(e.Delete(t.Context(), b.object())).To(gomega.Succeed())
		}

		for _, b := range branches {
			e.g.Eventually(e.IsGone(t.Context(), b.object())).Should(gomega.BeTrue(), b.name)
			e.g.Expect(e.Get(t.Context(), client.ObjectKey{Name: b.name}, &v1beta1.Queue{})).To(framework.NotFound())
		}
	}
}

// testRaisingAndLowering: a user changes the numbers of a tenant and of the queues below together. CPU and memory
// change in opposite directions, so that neither a parent nor a child can be written first. In both orders all
// Queues have the new numbers in the end, and no write counts as another manager's.
func testRaisingAndLowering(t *testing.T, e *treeEnv) {
	branches := e.createTenant(t, "resize-")
	resize := func(order []branch, cpu, memory int64) {
		for _, b := range order {
			e.change(t, b.name, func(q *v1alpha1.CardQuota) {
				r := q.Spec.Resources
				r.CPU = resource.NewQuantity(b.quota*cpu, resource.DecimalSI)
				r.Memory = resource.NewQuantity(64*memory, resource.BinarySI)
				r.Deserved.CPU = resource.NewQuantity(b.deserved*cpu, resource.DecimalSI)
				r.Deserved.Memory = resource.NewQuantity(memory, resource.BinarySI)
				r.Guarantee.CPU = resource.NewQuantity(b.guarantee*cpu, resource.DecimalSI)

				switch {
				case b.parent == "":
					r.Deserved.Memory = resource.NewQuantity(64*memory, resource.BinarySI)
				case !b.isLeaf:
					r.Deserved.Memory = resource.NewQuantity(4*memory, resource.BinarySI)
				}
			})
		}

		for _, b := range branches {
			e.g.Eventually(framework.Read(t.Context(), e, client.ObjectKey{Name: b.name}, func(queue *v1beta1.Queue) string {
				return fmt.Sprint(queue.Spec.Capability.Cpu().Value(), queue.Spec.Deserved.Cpu().Value(), queue.Spec.Guarantee.Resource.Cpu().Value(), queue.Spec.Capability.Memory().Value())
			})).Should(gomega.Equal(fmt.Sprint(b.quota*cpu, b.deserved*cpu, b.guarantee*cpu, 64*memory)), b.name)
			e.g.Eventually(e.quotaCondition(t, b.name, "QueueSynced")).Should(gomega.HavePrefix("True/Synced"), b.name)
		}
	}

	backward := slices.Clone(branches)
	slices.Reverse(backward)
	resize(branches, 3, 1<<28)
	resize(backward, 5, 1<<24)
	resize(branches, 1, 1<<30)
	resize(backward, 2, 1<<26)

	for _, b := range branches { // nothing of this is a change by another manager
		e.g.Expect(e.EventMessages(t, b.object(), "ForeignChangeReplaced")()).To(gomega.BeEmpty(), b.name)
	}
}

// testMoving: a leaf moves to another parent. Then tenant and web change places: tenant above web becomes web above
// tenant, by way of a cycle, in which the operator leaves the Queue where it is. Last, chat moves below a parent
// that does not exist yet.
func testMoving(t *testing.T, e *treeEnv) {
	e.createTenant(t, "move-")
	parentOf := func(name string) func() (string, error) {
		return framework.Read(t.Context(), e, client.ObjectKey{Name: name}, func(queue *v1beta1.Queue) string {
			return queue.Spec.Parent
		})
	}

	move := func(name, parent string) {
		e.change(t, name, func(q *v1alpha1.CardQuota) { q.Spec.Parent = parent })
	}
	move("move-search", "move-tenant")
	e.g.Eventually(parentOf("move-search")).Should(gomega.Equal("move-tenant"))

	// Of tenant above web, web above tenant. Never is one Queue below itself.
	move("move-tenant", "move-web")
	e.g.Eventually(e.quotaCondition(t, "move-tenant", "HierarchyValid")).Should(gomega.HavePrefix("False/ParentCycle"))
	e.g.Eventually(e.quotaCondition(t, "move-tenant", "QueueSynced")).Should(gomega.HavePrefix("False/ParentCycle: queue move-tenant stays at the top level"))
	move("move-web", "")
	e.g.Eventually(parentOf("move-web")).Should(gomega.Equal("root"))
	e.g.Eventually(parentOf("move-tenant")).Should(gomega.Equal("move-web"))

	// To a parent that comes later.
	move("move-chat", "move-new")
	e.g.Eventually(e.quotaCondition(t, "move-chat", "QueueSynced")).Should(gomega.HavePrefix("False/ParentNotFound: queue move-chat stays below queue move-web: spec.parent names CardQuota move-new, which does not exist"))
	e.create(t, []branch{{name: "move-new", quota: 8, deserved: 8, guarantee: 8}})
	e.g.Eventually(parentOf("move-chat")).Should(gomega.Equal("move-new"))
	e.g.Eventually(e.quotaCondition(t, "move-chat", "QueueSynced")).Should(gomega.HavePrefix("True/Synced"))
}

// testRefusedChild: Volcano's webhook refuses to make a parent of a queue that has pods, here 1. The status of the
// child has the words of the webhook. When the pod is gone, the child is placed.
func testRefusedChild(t *testing.T, e *treeEnv) {
	parent := branch{name: "refused-parent", quota: 8, deserved: 8, guarantee: 8}
	child := branch{name: "refused-child", parent: "refused-parent", quota: 8, deserved: 8, guarantee: 8, isLeaf: true}
	e.create(t, []branch{parent})
	e.expectPlaced(t, []branch{parent})
	setPods := func(count string) {
		queue := framework.Fetch[v1beta1.Queue](t, e, client.ObjectKey{Name: parent.name})
		base := queue.DeepCopy()
		queue.Status.Allocated = corev1.ResourceList{"pods": resource.MustParse(count)}
		e.g.Expect(e.Status().Patch(t.Context(), queue, client.MergeFrom(base))).To(gomega.Succeed())
	}

	setPods("1")
	e.create(t, []branch{child})
	e.g.Eventually(e.quotaCondition(t, child.name, "QueueSynced")).Should(gomega.SatisfyAll(
		gomega.HavePrefix("False/QueueRefused: queue refused-child could not be written"), gomega.ContainSubstring("because it has allocated Pods: 1")))

	setPods("0")
	e.expectPlaced(t, []branch{parent, child})
}

// testParentWaitsForChildren: Volcano refuses to delete a Queue with children. A deleted parent, web, keeps its
// quota of 12 until chat and search are gone or have another parent, and its status names those that are left.
func testParentWaitsForChildren(t *testing.T, e *treeEnv) {
	branches := e.createTenant(t, "wait-")
	e.g.Expect(e.Delete(t.Context(), branches[1].object())).To(gomega.Succeed()) // web
	e.g.Eventually(e.quotaCondition(t, "wait-web", "QueueSynced")).Should(gomega.Equal(
		"False/WaitingForChildren: being deleted: queue wait-web keeps its quota until its child queues are gone: wait-chat, wait-search; delete their CardQuotas, or give them another parent"))

	e.g.Consistently(e.describeQueue(t, "wait-web")).Should(gomega.HavePrefix(`below wait-tenant: {"NVIDIA-H200":12}`))
	e.change(t, "wait-search", func(q *v1alpha1.CardQuota) { q.Spec.Parent = "wait-tenant" })
	e.g.Eventually(e.quotaCondition(t, "wait-web", "QueueSynced")).Should(gomega.ContainSubstring("its child queues are gone: wait-chat"))
	e.g.Expect(e.Delete(t.Context(), branches[3].object())).To(gomega.Succeed()) // chat
	e.g.Eventually(e.IsGone(t.Context(), branches[1].object())).Should(gomega.BeTrue())
	e.g.Expect(e.Get(t.Context(), client.ObjectKey{Name: "wait-web"}, &v1beta1.Queue{})).To(framework.NotFound())
}

// testParentSums: the status and the Queue of a parent sum up what the queues below use and wait for. Chat uses 3
// cards, search 5 and lab 2, and each has one pending pod of 1 card. Search deserves 4, so it has borrowed 1. Then
// nothing more is written.
func testParentSums(t *testing.T, e *treeEnv) {
	branches := e.createTenant(t, "sum-")
	const model = "NVIDIA-H200"
	e.CreateWithCleanup(t, builder.Node("sum-node").GPUs(model, 16).Obj())

	running := map[string]int{"sum-chat": 3, "sum-search": 5, "sum-lab": 2}
	for queue, count := range running {
		e.CreateWithCleanup(t, builder.Pod(labNamespace, queue).Queue(queue).Card(model).CPU("2").Memory("1Gi").GPUs(count).Node("sum-node").Obj())
		e.CreateWithCleanup(t, builder.Pod(labNamespace, queue+"-pending").Queue(queue).Card(model).GPUs(1).Obj())
	}

	for parent, below := range map[string][]string{"sum-tenant": {"sum-chat", "sum-search", "sum-lab"}, "sum-web": {"sum-chat", "sum-search"}, "sum-lab": {"sum-lab"}} {
		used := 0
		for _, queue := range below {
			used += running[queue]
		}

		e.g.Eventually(func() (string, error) {
			q := &v1alpha1.CardQuota{}
			if err := e.Get(t.Context(), client.ObjectKey{Name: parent}, q); err != nil || len(q.Status.Cards) == 0 {
				return "", err
			}
			c := q.Status.Cards[0]
			// Each running pod uses 2 CPU. No pending pod says why it waits, so none is blocked.
			return fmt.Sprint(c.Used, c.Pending, c.Free, q.Status.CPU.Used.Value(), q.Status.BlockedTotal), nil
		}).Should(gomega.Equal(fmt.Sprint(used, len(below), quotaOfBranch(branches, parent)-int64(used), 2*len(below), 0)), parent)
		e.g.Eventually(framework.Read(t.Context(), e, client.ObjectKey{Name: parent}, func(queue *v1beta1.Queue) string {
			return queue.Annotations[v1alpha1.AnnotationCardAllocated]
		})).Should(gomega.Equal(fmt.Sprintf(`{"NVIDIA-H200":%d}`, used)), parent)
	}

	search := framework.Read(t.Context(), e, client.ObjectKey{Name: "sum-search"}, func(q *v1alpha1.CardQuota) v1alpha1.CardStatus {
		return q.Status.Cards[0]
	})

	e.g.Eventually(search).Should(gomega.SatisfyAll(gomega.HaveField("Deserved", int64(4)), gomega.HaveField("Borrowed", int64(1)), gomega.HaveField("Quota", int64(8))))
	e.expectQuiet(t, branches)
	e.g.Eventually(e.quotaCondition(t, "sum-web", "InventorySatisfied")).Should(gomega.HavePrefix("True/InventorySatisfied: the quota of parent sum-tenant contains this one"))
}

func quotaOfBranch(branches []branch, name string) int64 {
	return branches[slices.IndexFunc(branches, func(b branch) bool { return b.name == name })].quota
}

// testOtherManagersParent: another manager moved Queue held-search below the tenant. The operator reports the
// conflict and leaves the parent as it is, because it would fight another tool over the structure of the tree.
func testOtherManagersParent(t *testing.T, e *treeEnv) {
	e.createTenant(t, "held-")
	// The tenant deserves 16 CPU. With 4 instead of 8 for lab it has enough for web and search beside each other.
	e.change(t, "held-lab", func(q *v1alpha1.CardQuota) { q.Spec.Resources.Deserved.CPU = parseQuantity("4") })
	e.g.Eventually(e.describeQueue(t, "held-lab")).Should(gomega.HaveSuffix("CPU 16 4 0"))

	queue := framework.Fetch[v1beta1.Queue](t, e, client.ObjectKey{Name: "held-search"})
	base := queue.DeepCopy()
	queue.Spec.Parent = "held-tenant"
	e.g.Expect(e.Patch(t.Context(), queue, client.MergeFrom(base), client.FieldOwner("kubectl-edit"))).To(gomega.Succeed())
	e.g.Eventually(e.quotaCondition(t, "held-search", "QueueSynced")).Should(gomega.HavePrefix(
		"True/ParentConflict: queue held-search carries this quota, but spec.parent is managed by kubectl-edit and was left alone instead of becoming held-web"))
	e.g.Consistently(e.describeQueue(t, "held-search")).Should(gomega.HavePrefix("below held-tenant: "))
}

// testAdoption: a user created Queue adopt-child, and Volcano's controller wrote root as its parent. A CardQuota
// adopts it and moves it below its own parent: the value of the controller is a default, and no conflict.
func testAdoption(t *testing.T, e *treeEnv) {
	e.create(t, []branch{{name: "adopt-parent", quota: 8, deserved: 8, guarantee: 8}})
	queue := builder.Queue("adopt-child").Obj()
	queue.Spec.Weight = 1
	e.CreateWithCleanup(t, queue)
	e.g.Eventually(e.describeQueue(t, "adopt-child")).Should(gomega.HavePrefix("below root: "))
	child := branch{name: "adopt-child", parent: "adopt-parent", quota: 8, deserved: 8, guarantee: 8, isLeaf: true}
	e.create(t, []branch{child})
	e.expectPlaced(t, []branch{child})
}

// testExcessIsScaledDown: the quota of web falls to 6, deserved to 6, guarantee to 3, of cards and of CPU. Its child
// chat still writes a quota of 8, and 4 deserved and 4 guaranteed. Its sibling deserves 4, too, but has no guarantee.
// The Queue of chat keeps its numbers of cards, which our scheduler scales, and has 6, 3 and 3 CPU, which Volcano
// accepts. A condition reports that. describeQueue has quota, deserved and guarantee of cards, and then of CPU.
func testExcessIsScaledDown(t *testing.T, e *treeEnv) {
	e.createTenant(t, "excess-")
	e.change(t, "excess-web", func(q *v1alpha1.CardQuota) {
		q.Spec.Cards[0].Quota = ptr.To(int64(6))
		q.Spec.Cards[0].Deserved = ptr.To(int64(6))
		q.Spec.Cards[0].Guarantee = ptr.To(int64(3))
		q.Spec.Resources.CPU = parseQuantity("6")
		q.Spec.Resources.Deserved.CPU = parseQuantity("6")
		q.Spec.Resources.Guarantee.CPU = parseQuantity("3")
	})

	e.g.Eventually(e.describeQueue(t, "excess-chat")).Should(gomega.Equal(`below excess-web: {"NVIDIA-H200":8} {"NVIDIA-H200":4} {"NVIDIA-H200":4}, CPU 6 3 3`))
	e.g.Eventually(e.describeQueue(t, "excess-web")).Should(gomega.Equal(`below excess-tenant: {"NVIDIA-H200":6} {"NVIDIA-H200":6} {"NVIDIA-H200":3}, CPU 6 6 3`))
	e.g.Eventually(e.quotaCondition(t, "excess-chat", "QueueSynced")).Should(gomega.HavePrefix("True/Synced"))
	e.g.Eventually(e.quotaCondition(t, "excess-chat", "HierarchyValid")).Should(gomega.SatisfyAll(
		gomega.HavePrefix("False/QuotaAboveParent: "), gomega.ContainSubstring("NVIDIA-H200: quota is 8, but parent excess-web has 6, which is in force"),
		gomega.ContainSubstring("NVIDIA-H200: deserved is 4, but the children of excess-web have 8 together and it has 6, so 3 is in force")))
	e.g.Eventually(e.quotaCondition(t, "excess-tenant", "HierarchyValid")).Should(gomega.HavePrefix("True/"))
}

// testQueueByHand: an administrator writes a Queue without a CardQuota below hand-parent. Its 8 deserved cards
// count there: the parent has 8 for 16, so 4 are in force for the other child. Its used cards count in the parent's
// status.
func testQueueByHand(t *testing.T, e *treeEnv) {
	parent := branch{name: "hand-parent", quota: 8, deserved: 8, guarantee: 0}
	child := branch{name: "hand-child", parent: "hand-parent", quota: 8, deserved: 8, guarantee: 0, isLeaf: true}
	e.create(t, []branch{parent, child})
	e.expectPlaced(t, []branch{parent, child})

	queue := builder.Queue("hand-queue").Quota(`{"NVIDIA-H200":8}`).Annotation(v1alpha1.AnnotationCardDeserved, `{"NVIDIA-H200":8}`).Obj()
	queue.Spec.Parent = "hand-parent"
	queue.Spec.Weight = 1
	e.CreateWithCleanup(t, queue)
	e.g.Eventually(e.quotaCondition(t, "hand-child", "HierarchyValid")).Should(gomega.HavePrefix(
		"False/Scaled: NVIDIA-H200: deserved is 8, but the children of hand-parent have 16 together and it has 8, so 4 is in force"))

	e.g.Eventually(e.quotaCondition(t, "hand-parent", "HierarchyValid")).Should(gomega.HavePrefix("True/HierarchyValid: this CardQuota is at the top level; it has 2 children: hand-child, queue hand-queue"))
	e.CreateWithCleanup(t, builder.Node("hand-node").GPUs("NVIDIA-H200", 8).Obj())
	e.CreateWithCleanup(t, builder.Pod(labNamespace, "hand-pod").Queue("hand-queue").Card("NVIDIA-H200").GPUs(2).Node("hand-node").Obj())
	e.g.Eventually(framework.Read(t.Context(), e, client.ObjectKey{Name: "hand-parent"}, func(q *v1alpha1.CardQuota) string {
		return q.Status.Summary
	})).Should(gomega.Equal("2/8 NVIDIA-H200"))
}

// testSwitching: with QueueHierarchy Flat every leaf is at the top level with its own quota, parents have none, and
// no field of a tree is left. Back in a tree everything is as before, and no write counts as another manager's.
func testSwitching(t *testing.T, e *treeEnv) {
	branches := e.createTenant(t, "switch-")
	e.setHierarchy(t, v1alpha1.QueueHierarchyFlat)
	for _, b := range branches {
		want := fmt.Sprintf(`below root: {"NVIDIA-H200":%d}  , CPU %d 0 0`, b.quota, b.quota)
		if !b.isLeaf {
			want = `below root: {}  , CPU 0 0 0`
		}

		e.g.Eventually(e.describeQueue(t, b.name)).Should(gomega.Equal(want), b.name)
		e.g.Eventually(e.quotaCondition(t, b.name, "QueueSynced")).Should(gomega.HavePrefix("True/TreeFieldsUnused"), b.name)
		e.g.Eventually(framework.Read(t.Context(), e, client.ObjectKey{Name: b.name}, func(q *v1alpha1.CardQuota) int {
			return len(slices.DeleteFunc(q.Status.Conditions, func(c metav1.Condition) bool { return c.Type != "HierarchyValid" }))
		})).Should(gomega.BeZero(), b.name)
	}

	e.setHierarchy(t, v1alpha1.QueueHierarchyTree)
	e.expectPlaced(t, branches)
	for _, b := range branches {
		e.g.Expect(e.EventMessages(t, b.object(), "ForeignChangeReplaced")()).To(gomega.BeEmpty(), b.name)
	}
}

// testPolicyCreatedAgain: the tree outlives the deletion of its policy and a restart of the operator. A new policy
// without queueHierarchy keeps it, because the API server adds no default. A written Flat ends it.
func testPolicyCreatedAgain(t *testing.T, e *treeEnv) {
	branches := e.createTenant(t, "again-")

	e.DeleteAndWait(t, builder.ServiceTypePolicy().Obj())
	e.g.Expect((*e.stopOperator)()).To(gomega.Succeed())
	e.startOperator(t)
	e.change(t, "again-lab", func(q *v1alpha1.CardQuota) { q.Spec.Priority = ptr.To[int32](1) }) // the new operator writes its Queue
	e.g.Eventually(framework.Read(t.Context(), e, client.ObjectKey{Name: "again-lab"}, func(q *v1alpha1.CardQuota) int64 {
		return q.Generation - q.Status.ObservedGeneration
	})).Should(gomega.BeZero())
	e.expectPlaced(t, branches)

	created := builder.ServiceTypePolicy().Obj()
	e.g.Expect(e.Create(t.Context(), created)).To(gomega.Succeed())
	e.g.Expect(created.Spec.QueueHierarchy).To(gomega.BeEmpty(), "the API server adds a default")
	e.g.Eventually(e.hierarchyInForce(t)).Should(gomega.Equal(v1alpha1.QueueHierarchyTree))
	e.expectPlaced(t, branches)
	e.expectQuiet(t, branches)

	e.setHierarchy(t, v1alpha1.QueueHierarchyFlat)
	for _, b := range branches {
		e.g.Eventually(e.describeQueue(t, b.name)).Should(gomega.HavePrefix("below root: "), b.name)
	}
}
