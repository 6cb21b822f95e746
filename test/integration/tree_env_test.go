package integration

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime/pprof"
	"strings"
	"testing"
	"time"

	"github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/missing"
	"cardquota.dev/operator/test/cluster"
	"cardquota.dev/operator/test/framework"
)

// treeEnv is a cluster with Volcano's controllers and webhooks, in which the operator keeps queues, mostly a tree of
// them.
type treeEnv struct {
	framework.Framework
	g      *gomega.WithT
	server *cluster.Cluster
	// stopOperator stops the operator that runs.
	stopOperator *func() error
}

// newTreeEnv starts the cluster and the operator, which stop with the test, with a policy of a tree.
func newTreeEnv(t *testing.T) *treeEnv {
	e := newVolcanoEnv(t)
	e.g.Expect(e.Create(t.Context(), builder.ServiceTypePolicy().Obj())).To(gomega.Succeed())
	e.setHierarchy(t, v1alpha1.QueueHierarchyTree)
	return e
}

// newVolcanoEnv starts the cluster and the operator, which stop with the test, without a policy.
func newVolcanoEnv(t *testing.T) *treeEnv {
	requireControlPlane(t)
	g := framework.NewGomega(t)

	server, err := cluster.Start(t.Context(), cluster.Options{WithoutKwok: true})
	if errors.Is(err, cluster.ErrNotBuilt) {
		missing.Skip(t, err)
	}

	g.Expect(err).NotTo(gomega.HaveOccurred())
	t.Cleanup(func() { g.Expect(server.Stop()).To(gomega.Succeed()) })

	e := &treeEnv{g: g, server: server, stopOperator: new(func() error)}
	e.Framework = check.Value(framework.New(server.Config()))(t)
	installPrerequisites(t.Context(), t, server, e.Framework)

	e.startOperator(t)
	t.Cleanup(func() { g.Expect((*e.stopOperator)()).To(gomega.Succeed()) })
	return e
}

// on returns the environment with the assertions of a subtest.
func (e *treeEnv) on(t *testing.T) *treeEnv {
	return &treeEnv{e.Framework, framework.NewGomega(t), e.server, e.stopOperator}
}

// startOperator starts a new operator, which outlives the test.
func (e *treeEnv) startOperator(t *testing.T) {
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	mgr := newOperator(ctx, t, e.Framework, prometheus.NewPedanticRegistry())
	stopped := make(chan error, 1)
	go func() { stopped <- mgr.Start(ctx) }()
	*e.stopOperator = func() error {
		stop()
		late := time.AfterFunc(10*time.Second, func() { _ = pprof.Lookup("goroutine").WriteTo(os.Stderr, 2) }) // it says who does not end
		defer late.Stop()

		return <-stopped
	}
}

// setHierarchy changes the policy and waits until it is in force.
func (e *treeEnv) setHierarchy(t *testing.T, hierarchy v1alpha1.QueueHierarchy) {
	policy := &v1alpha1.ServiceTypePolicy{}
	e.g.Expect(e.Get(t.Context(), client.ObjectKey{Name: v1alpha1.PolicyName}, policy)).To(gomega.Succeed())
	base := policy.DeepCopy()
	policy.Spec.QueueHierarchy = hierarchy
	e.g.Expect(e.Patch(t.Context(), policy, client.MergeFrom(base))).To(gomega.Succeed())
	e.g.Eventually(e.hierarchyInForce(t)).Should(gomega.Equal(hierarchy))
}

// hierarchyInForce reads which hierarchy the policy has put into force.
func (e *treeEnv) hierarchyInForce(t *testing.T) func() (v1alpha1.QueueHierarchy, error) {
	return framework.Read(t.Context(), e, client.ObjectKey{Name: v1alpha1.PolicyName}, func(policy *v1alpha1.ServiceTypePolicy) v1alpha1.QueueHierarchy {
		return policy.Status.QueueHierarchy
	})
}

// branch describes a CardQuota of a tree: its quota, deserved and guarantee of NVIDIA-H200 are also
// its CPUs. A CardQuota without a service type is a parent.
type branch struct {
	name, parent               string
	quota, deserved, guarantee int64
	isLeaf                     bool
}

func (b branch) object() *v1alpha1.CardQuota {
	q := builder.CardQuota(b.name).Resources(fmt.Sprint(b.quota), "64Gi").Obj()
	q.Spec.Parent = b.parent
	q.Spec.NamespaceSelector = &metav1.LabelSelector{}
	q.Spec.Cards = []v1alpha1.Card{{Name: "NVIDIA-H200", Quota: ptr.To(b.quota), Deserved: ptr.To(b.deserved), Guarantee: ptr.To(b.guarantee)}}
	q.Spec.Resources.Deserved = &v1alpha1.ResourceAmounts{CPU: parseQuantity(fmt.Sprint(b.deserved)), Memory: parseQuantity("1Gi")}
	q.Spec.Resources.Guarantee = &v1alpha1.ResourceAmounts{CPU: parseQuantity(fmt.Sprint(b.guarantee))}
	if !b.isLeaf {
		q.Spec.ServiceType = ""
		q.Spec.Resources.Deserved.Memory = parseQuantity("4Gi")
	}

	if b.parent == "" {
		q.Spec.Resources.Deserved.Memory = parseQuantity("64Gi")
	}

	return q
}

// tenantBranches are a tenant with two projects: lab is a queue itself, and web has the queues chat and search. The
// numbers are the quota, deserved and guarantee of each.
func tenantBranches(prefix string) []branch {
	of := func(name, parent string, quota, deserved, guarantee int64, isLeaf bool) branch {
		if parent != "" {
			parent = prefix + parent
		}
		return branch{prefix + name, parent, quota, deserved, guarantee, isLeaf}
	}
	return []branch{
		of("tenant", "", 16, 16, 8, false), of("web", "tenant", 12, 8, 4, false), of("lab", "tenant", 16, 8, 0, true),
		of("chat", "web", 8, 4, 4, true), of("search", "web", 8, 4, 0, true),
	}
}

// createTenant creates tenantBranches and waits until each of them is placed.
func (e *treeEnv) createTenant(t *testing.T, prefix string) []branch {
	branches := tenantBranches(prefix)
	e.create(t, branches)
	e.expectPlaced(t, branches)

	return branches
}

// expectPlaced expects that the Queue of each branch is below its parent's, with all its numbers, and
// that the CardQuota says so.
func (e *treeEnv) expectPlaced(t *testing.T, branches []branch) {
	for _, b := range branches {
		parent := b.parent
		if parent == "" {
			parent = "root"
		}
		e.g.Eventually(e.describeQueue(t, b.name)).Should(gomega.Equal(fmt.Sprintf(
			`below %s: {"NVIDIA-H200":%d} {"NVIDIA-H200":%d} {"NVIDIA-H200":%d}, CPU %d %d %d`, parent, b.quota, b.deserved, b.guarantee, b.quota, b.deserved, b.guarantee)), b.name)
		e.g.Eventually(e.Condition(t, b.object(), "QueueSynced")).Should(gomega.HavePrefix("True/"), b.name)
		e.g.Eventually(e.Condition(t, b.object(), "HierarchyValid")).Should(gomega.HavePrefix("True/HierarchyValid"), b.name)
	}
}

// describeQueue returns where a Queue is and what it carries, for use in Eventually.
func (e *treeEnv) describeQueue(t *testing.T, name string) func() (string, error) {
	return framework.Read(t.Context(), e, client.ObjectKey{Name: name}, func(queue *v1beta1.Queue) string {
		cpu := func(list corev1.ResourceList) string { return list.Cpu().String() }
		return fmt.Sprintf("below %s: %s %s %s, CPU %s %s %s", queue.Spec.Parent, queue.Annotations[v1alpha1.AnnotationCardQuota],
			queue.Annotations[v1alpha1.AnnotationCardDeserved], queue.Annotations[v1alpha1.AnnotationCardGuarantee],
			cpu(queue.Spec.Capability), cpu(queue.Spec.Deserved), cpu(queue.Spec.Guarantee.Resource))
	})
}

// change changes the spec of a CardQuota.
func (e *treeEnv) change(t *testing.T, name string, change func(*v1alpha1.CardQuota)) {
	q := framework.Fetch[v1alpha1.CardQuota](t, e, client.ObjectKey{Name: name})
	base := q.DeepCopy()
	change(q)
	e.g.Expect(e.Patch(t.Context(), q, client.MergeFrom(base))).To(gomega.Succeed())
}

// create creates CardQuotas in the given order, and deletes them after the test.
func (e *treeEnv) create(t *testing.T, branches []branch) {
	for _, b := range branches {
		q := b.object()
		e.g.Expect(e.Create(t.Context(), q)).To(gomega.Succeed())
		t.Cleanup(func() {
			e.g.Expect(client.IgnoreNotFound(e.Delete(context.WithoutCancel(t.Context()), q))).To(gomega.Succeed())
		})
	}
}

// quotaCondition returns a condition, for use in Eventually.
func (e *treeEnv) quotaCondition(t *testing.T, name, kind string) func() (string, error) {
	return e.Condition(t, newQuota(name, nil), kind)
}

// expectQuiet expects that the operator changes nothing more: neither statuses nor Queues.
func (e *treeEnv) expectQuiet(t *testing.T, branches []branch) {
	versions := func() (string, error) {
		var all []string
		for _, b := range branches {
			q := b.object()
			queue := &v1beta1.Queue{}
			if err := errors.Join(e.Get(t.Context(), client.ObjectKeyFromObject(q), q), e.Get(t.Context(), client.ObjectKeyFromObject(q), queue)); err != nil {
				return "", err
			}

			for _, kind := range []string{v1alpha1.ConditionInventorySatisfied, v1alpha1.ConditionCardsKnown} { // they depend on other tests
				meta.RemoveStatusCondition(&q.Status.Conditions, kind)
			}
			for i := range q.Status.Cards {
				q.Status.Cards[i].Physical = 0 // other tests add nodes
			}

			text, err := json.Marshal(q.Status)
			if err != nil {
				return "", err
			}
			all = append(all, string(text), fmt.Sprint(queue.Generation, queue.Annotations))
		}

		return strings.Join(all, " "), nil
	}

	var last string
	e.g.Eventually(func() (bool, error) { // what changed before may still be on its way
		before := last
		var err error
		last, err = versions()
		return before == last, err
	}).WithPolling(2 * time.Second).Should(gomega.BeTrue())
	e.g.Consistently(versions).Should(gomega.Equal(last))
}
