package cardquota

import (
	"context"
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/conditions"
	shared "cardquota.dev/operator/internal/controller"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/fieldowner"
)

// fakeIndexer adds the controller's indexes to a fake client.
type fakeIndexer struct{ *fake.ClientBuilder }

func (f fakeIndexer) IndexField(_ context.Context, object client.Object, field string, values client.IndexerFunc) error {
	f.WithIndex(object, field, values)
	return nil
}

// newFakeReconciler returns a Reconciler of these objects. It fails the test if the Reconciler
// deletes something.
func newFakeReconciler(t *testing.T, objects ...client.Object) *Reconciler {
	b := fake.NewClientBuilder().WithScheme(newScheme(t)).WithObjects(objects...).WithStatusSubresource(&v1alpha1.CardQuota{}).WithReturnManagedFields().
		WithInterceptorFuncs(interceptor.Funcs{Delete: func(ctx context.Context, api client.WithWatch, object client.Object, options ...client.DeleteOption) error {
			_, isPolicy := object.(*v1alpha1.ServiceTypePolicy)
			check.That(t, isPolicy, "%T %s is deleted", object, object.GetName())
			return api.Delete(ctx, object, options...)
		}})

	check.NoError(t, addIndexes(t.Context(), fakeIndexer{b}))
	api := fieldowner.CheckStatus(t, b.Build())
	return &Reconciler{client: api, live: api, events: record.NewFakeRecorder(1000), usage: newUsageCollector(nil, time.Second, nil), inventory: &tracked{},
		throttle: shared.NewStatusThrottle(0), queueWrites: shared.NewLastWrites(), selectors: shared.NewQuotaSelectors(), metrics: newMetricsCollector(), memberCounts: newMemberCounts()}
}

// reconcileAll reconciles every CardQuota six times, as watches do after each write.
func (r *Reconciler) reconcileAll(t *testing.T) {
	for range 6 {
		for _, request := range r.requestsForQueue(t.Context(), allQueues) {
			check.Value(r.Reconcile(t.Context(), request))(t)
		}
	}
}

// newFamily returns CardQuota tenant and two leaves below it, web and lab, with their Queues. Each has a quota of 8 H200.
// The parent deserves 8 of them, each leaf 4.
func newFamily() []client.Object {
	quota := func(name, parent, serviceType string, deserved int64) *v1alpha1.CardQuota {
		return builder.CardQuota(name).Parent(parent).ServiceType(serviceType).Card("H200", 8).Deserves(deserved).Obj()
	}

	objects := []client.Object{quota("tenant", "", "", 8), quota("web", "tenant", "training", 4), quota("lab", "tenant", "training", 4)}
	for _, name := range []string{"tenant", "web", "lab"} {
		objects = append(objects, builder.Queue(name).Obj())
	}

	return objects
}

// fetch returns an object as an API server has it.
func fetch[O client.Object](t *testing.T, api client.Reader, name string, object O) O {
	check.NoError(t, api.Get(t.Context(), client.ObjectKey{Name: name}, object))
	return object
}

// describe returns what the Queue and the conditions of a CardQuota say.
func (r *Reconciler) describe(t *testing.T, name string) string {
	queue := fetch(t, r.client, name, &v1beta1.Queue{})
	q := fetch(t, r.client, name, &v1alpha1.CardQuota{})
	synced := conditions.Get(q.Status.Conditions, v1alpha1.ConditionQueueSynced)
	return fmt.Sprintf("below %s: %s %s, priority %d, %s/%s, hierarchy %v", queue.Spec.Parent, queue.Annotations[v1alpha1.AnnotationCardQuota],
		queue.Annotations[v1alpha1.AnnotationCardDeserved], queue.Spec.Priority, synced.Status, synced.Reason,
		meta.FindStatusCondition(q.Status.Conditions, v1alpha1.ConditionHierarchyValid) != nil)
}

// policyInForce returns a policy that has taken effect.
func policyInForce(hierarchy v1alpha1.QueueHierarchy, priority int32) *v1alpha1.ServiceTypePolicy {
	return builder.ServiceTypePolicy().Hierarchy(hierarchy).With(func(p *v1alpha1.ServiceTypePolicy) {
		p.Status.ServiceTypes = []v1alpha1.ServiceTypeStatus{{Name: "training", Priority: priority}}
	}).Obj()
}

// TestTreeOutlivesItsPolicy: while the ServiceTypePolicy is deleted or created again, the scheduler keeps the
// tree of queues and the priority 500 of training. So do the Queues. Only condition Enforced says at once
// that there is no policy. CardQuota tenant deserves 8 H200, and has priority 0, as it has no service type.
// Its leaves web and lab are of training, and deserve 4 each. Only a policy in force that says Flat ends the
// tree. Then a parent has no quota, leaves are below root with priority 700, and the fields of the tree are
// reported as unused. The texts of the checks have parent, quota, deserved cards and priority of a Queue.
// Then come condition QueueSynced of its CardQuota, and whether that has condition HierarchyValid.
func TestTreeOutlivesItsPolicy(t *testing.T) {
	policy := policyInForce(v1alpha1.QueueHierarchyTree, 500)
	r := newFakeReconciler(t, append(newFamily(), policy)...)
	expectTree := func(when string) {
		r.reconcileAll(t)
		check.Equal(t, when+": Queue tenant", `below root: {"H200":8} {"H200":8}, priority 0, True/Synced, hierarchy true`, r.describe(t, "tenant"))
		check.Equal(t, when+": Queue web", `below tenant: {"H200":8} {"H200":4}, priority 500, True/Synced, hierarchy true`, r.describe(t, "web"))
	}

	expectTree("the policy is in force")
	check.NoError(t, r.client.Delete(t.Context(), policy))
	expectTree("the policy is deleted")
	enforced := conditions.Get(fetch(t, r.client, "web", &v1alpha1.CardQuota{}).Status.Conditions, v1alpha1.ConditionEnforced)
	check.Equal(t, "reason of condition Enforced without a policy", v1alpha1.ReasonNoPolicy, enforced.Reason)

	created := builder.ServiceTypePolicy().Obj()
	check.NoError(t, r.client.Create(t.Context(), created))
	expectTree("the policy is created again, and not in force yet")

	created.Status = policyInForce(v1alpha1.QueueHierarchyFlat, 700).Status
	check.NoError(t, r.client.Update(t.Context(), created))
	r.reconcileAll(t)
	check.Equal(t, "the policy says Flat: Queue tenant", `below root: {} , priority 0, True/TreeFieldsUnused, hierarchy false`, r.describe(t, "tenant"))
	for _, leaf := range []string{"web", "lab"} {
		check.Equal(t, "the policy says Flat: Queue "+leaf, `below root: {"H200":8} , priority 700, True/TreeFieldsUnused, hierarchy false`, r.describe(t, leaf))
	}
}

// TestQueueRootIsNeverWritten: Volcano needs queue root as it is. The schema refuses a CardQuota of that name, but one may
// be older than the schema. It says only that it cannot have the queue (QueueReserved). Queue root stays without
// parent, quota, deserved cards and priority.
func TestQueueRootIsNeverWritten(t *testing.T) {
	r := newFakeReconciler(t, builder.CardQuota("root").Card("H200", 8).Obj(), builder.Queue("root").Obj())
	r.reconcileAll(t)
	check.Equal(t, "Queue root", "below :  , priority 0, False/QueueReserved, hierarchy false", r.describe(t, "root"))
}

// TestQueuesAreFlatBeforeAnyPolicy: before a policy takes effect the scheduler has no configuration, or one
// without a tree. A tree in the Queues would then be wrong. CardQuota web states the parent tenant and a quota
// of 8 H200. It is of training, which has the default priority 20000. The texts of the checks have parent,
// quota, deserved cards (none) and priority of a Queue. Then come condition QueueSynced of its CardQuota, and
// whether that has condition HierarchyValid.
func TestQueuesAreFlatBeforeAnyPolicy(t *testing.T) {
	const flat = `below root: {"H200":8} , priority 20000, True/TreeFieldsUnused, hierarchy false`
	r := newFakeReconciler(t, newFamily()...)

	r.reconcileAll(t)
	check.Equal(t, "Queue web without a policy", flat, r.describe(t, "web"))

	created := builder.ServiceTypePolicy().Obj()
	created.Spec.QueueHierarchy = v1alpha1.QueueHierarchyTree
	check.NoError(t, r.client.Create(t.Context(), created))
	r.reconcileAll(t)
	check.Equal(t, "Queue web with a policy of a tree that has not taken effect", flat, r.describe(t, "web"))
}

// TestCountsOutliveThePolicy: a count uses the tree of the last policy in force, and the scheduler names of the
// present or the last policy. Pod p of queue web requests 2 cards under schedulerName "other". Its cards are
// pending as long as no policy says which schedulers are ours. Once there is a policy, our scheduler is
// volcano, as none of these policies names another one. It will not place the pod, so no card is pending.
func TestCountsOutliveThePolicy(t *testing.T) {
	stores := newObjectStores()
	stores.quotas = newStore(builder.CardQuota("web").Card("H200", 8).Obj())
	stores.pods = newStore(builder.Pod("lab", "p").Queue("web").Card("H200").GPUs(2).Scheduler("other").Obj())
	collector := newCollector(trackNodes(builder.Node("a").GPUs("H200", 8).Obj()))

	tree := policyInForce(v1alpha1.QueueHierarchyTree, 500)
	created := builder.ServiceTypePolicy().Obj()
	for _, step := range []struct {
		name   string
		change func() error
		want   string
	}{
		{"before any policy", func() error { return nil }, "tree false, pending 2"},
		{"a policy is created", func() error { return stores.policies.Add(created) }, "tree false, pending 0"},
		{"a tree is in force", func() error { return stores.policies.Update(tree) }, "tree true, pending 0"},
		{"the policy is deleted", func() error { return stores.policies.Delete(tree) }, "tree true, pending 0"},
		{"a policy is created again, and not in force yet", func() error { return stores.policies.Add(created) }, "tree true, pending 0"},
		{"Flat is in force", func() error { return stores.policies.Update(policyInForce(v1alpha1.QueueHierarchyFlat, 500)) }, "tree false, pending 0"},
	} {
		check.NoError(t, step.change())
		collector.countUsage(stores)
		usage, _, _ := collector.QueueUsage("web")
		tree, isFresh := collector.FreshTree()
		check.Equal(t, step.name, step.want, fmt.Sprintf("tree %v, pending %d", isFresh && !tree.IsFlat(), usage.Pending["H200"]))
	}
}
