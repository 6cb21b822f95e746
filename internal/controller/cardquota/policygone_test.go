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
	t.Helper()
	b := fake.NewClientBuilder().WithScheme(newScheme(t)).WithObjects(objects...).WithStatusSubresource(&v1alpha1.CardQuota{}).WithReturnManagedFields().
		WithIndex(&v1alpha1.CardQuota{}, queueIndex, func(object client.Object) []string {
			if quota, ok := object.(*v1alpha1.CardQuota); ok {
				return []string{quota.QueueName()}
			}
			return nil
		}).
		WithInterceptorFuncs(interceptor.Funcs{Delete: func(ctx context.Context, api client.WithWatch, object client.Object, options ...client.DeleteOption) error {
			_, isPolicy := object.(*v1alpha1.ServiceTypePolicy)
			check.That(t, isPolicy, "%T %s is deleted", object, object.GetName())
			return api.Delete(ctx, object, options...)
		}})
	check.NoError(t, indexTree(t.Context(), fakeIndexer{b}))
	api := b.Build()
	return &Reconciler{client: api, live: api, events: record.NewFakeRecorder(1000), usage: newUsageCollector(nil, time.Second, nil),
		throttle: shared.NewStatusThrottle(0), metrics: newMetricsCollector(), memberCounts: newMemberCounts()}
}

// reconcileAll reconciles every CardQuota several times, as watches do after each write.
func (r *Reconciler) reconcileAll(t *testing.T) {
	t.Helper()
	for range 6 {
		for _, request := range r.requestsForQueue(t.Context(), allQueues) {
			_, err := r.Reconcile(t.Context(), request)
			check.NoError(t, err)
		}
	}
}

// TestTreeIsFlatWithoutItsPolicy: when the ServiceTypePolicy is deleted, every Queue goes to the
// top level with its own quota, the conditions say so, and no object is deleted.
func TestTreeIsFlatWithoutItsPolicy(t *testing.T) {
	count := func(n int64) *int64 { return &n }
	quota := func(name, parent, serviceType string, deserved int64) *v1alpha1.CardQuota {
		return builder.CardQuota(name).With(func(q *v1alpha1.CardQuota) {
			q.Spec.Parent, q.Spec.ServiceType = parent, serviceType
			q.Spec.Cards = []v1alpha1.Card{{Name: "H200", Quota: count(8), Deserved: count(deserved)}}
		}).Obj()
	}
	policy := builder.ServiceTypePolicy().Obj()
	policy.Status.QueueHierarchy = v1alpha1.QueueHierarchyTree
	objects := []client.Object{policy, quota("tenant", "", "", 8), quota("web", "tenant", "training", 4), quota("lab", "tenant", "training", 4)}
	for _, name := range []string{"tenant", "web", "lab"} {
		objects = append(objects, builder.Queue(name).Obj())
	}
	r := newFakeReconciler(t, objects...)
	describe := func(name string) string {
		queue, q := &v1beta1.Queue{}, &v1alpha1.CardQuota{}
		check.NoError(t, r.client.Get(t.Context(), client.ObjectKey{Name: name}, queue))
		check.NoError(t, r.client.Get(t.Context(), client.ObjectKey{Name: name}, q))
		synced := conditions.Get(q.Status.Conditions, v1alpha1.ConditionQueueSynced)
		return fmt.Sprintf("below %s: %s %s, %s/%s, hierarchy %v", queue.Spec.Parent, queue.Annotations[v1alpha1.AnnotationCardQuota],
			queue.Annotations[v1alpha1.AnnotationCardDeserved], synced.Status, synced.Reason, meta.FindStatusCondition(q.Status.Conditions, v1alpha1.ConditionHierarchyValid) != nil)
	}
	r.reconcileAll(t)
	check.Equal(t, "a parent in a tree", `below root: {"H200":8} {"H200":8}, True/Synced, hierarchy true`, describe("tenant"))
	check.Equal(t, "a leaf in a tree", `below tenant: {"H200":8} {"H200":4}, True/Synced, hierarchy true`, describe("web"))
	check.NoError(t, r.client.Delete(t.Context(), policy))
	r.reconcileAll(t)
	check.Equal(t, "a parent without a policy", `below root: {} , True/TreeFieldsUnused, hierarchy false`, describe("tenant"))
	for _, leaf := range []string{"web", "lab"} {
		check.Equal(t, "a leaf without a policy", `below root: {"H200":8} , True/TreeFieldsUnused, hierarchy false`, describe(leaf))
	}
}
