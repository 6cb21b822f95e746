package cardquota

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/cardquota"
	"cardquota.dev/operator/internal/conditions"
	shared "cardquota.dev/operator/internal/controller"
	"cardquota.dev/operator/internal/policy"
	"cardquota.dev/operator/internal/queueusage"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
)

// withLateCache returns a client that reads each object of a kind as *cached, while that is not nil.
func withLateCache[T any, P interface {
	*T
	client.Object
	DeepCopyInto(into *T)
}](api client.WithWatch, cached *P) client.Client {
	return interceptor.NewClient(api, interceptor.Funcs{Get: func(ctx context.Context, api client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
		if typed, isKind := object.(P); isKind && *cached != nil {
			(*cached).DeepCopyInto(typed)
			return nil
		}
		return api.Get(ctx, key, object, options...)
	}})
}

// newLLMReconciler returns a Reconciler of CardQuota llm and its Queue, and the client of its API server.
func newLLMReconciler(t *testing.T) (*Reconciler, client.WithWatch) {
	r := newFakeReconciler(t, builder.CardQuota("llm").Card("H200", 8).Obj(), builder.Queue("llm").Obj())
	return r, r.client.(client.WithWatch)
}

// setUsage lets the next count find cards and CPU in use by queue llm.
func (r *Reconciler) setUsage(used card.Count, milliCPU int64) {
	usage := queueusage.Usage{Used: map[card.Name]card.Count{"H200": used}, Pending: map[card.Name]card.Count{}, MilliCPU: milliCPU}
	queues := map[string]queueusage.Usage{"llm": usage}
	r.usage.last.Store(&usageCount{queues: queues, subtrees: queues, tree: cardquota.Flat})
}

// llm asks for a Reconcile of CardQuota llm.
var llm = ctrl.Request{NamespacedName: client.ObjectKey{Name: "llm"}}

// llmOf returns CardQuota llm as the API server has it.
func llmOf(t *testing.T, api client.Reader) *v1alpha1.CardQuota {
	return fetch(t, api, "llm", &v1alpha1.CardQuota{})
}

// TestStatusIsRightAfterALateWatch: the used CPU changes from 1 to 2 and back to 1 before the cache shows the 2. A
// patch that is computed against the cache would leave the CPU out, so the stored 2 would stay, and no event would
// follow. So the operator writes no status until the cache has its own last write.
func TestStatusIsRightAfterALateWatch(t *testing.T) {
	r, api := newLLMReconciler(t)

	var cached *v1alpha1.CardQuota // nil while the cache is up to date
	r.client = withLateCache(api, &cached)
	// reconcile reconciles until nothing asks for more. With a late cache that is never so: after 20 times the cache
	// catches up.
	reconcile := func() {
		for range 20 {
			result := check.Value(r.Reconcile(t.Context(), llm))(t)
			if result.IsZero() {
				return
			}
		}

		check.That(t, cached != nil, "each reconcile asks for another one")
		cached = nil
		for range 3 {
			check.Value(r.Reconcile(t.Context(), llm))(t)
		}
	}

	for range 3 { // enough to follow the events of the first writes, such as that of the finalizer
		r.setUsage(1, 1000) // 1 card, and 1000 milli-CPU
		reconcile()
	}

	late := llmOf(t, api)
	check.Equal(t, "CPU at first", "1", late.Status.CPU.Used.String())
	r.setUsage(2, 2000)
	reconcile()
	check.Equal(t, "CPU of the second count", "2", llmOf(t, api).Status.CPU.Used.String())

	cached = late
	r.setUsage(3, 1000)
	reconcile()
	check.Equal(t, "cards of the third count", int64(3), llmOf(t, api).Status.Cards[0].Used)
	check.Equal(t, "CPU of the third count, the same as at first", "1", llmOf(t, api).Status.CPU.Used.String())
}

// TestAQueueIsReadFromTheAPIServerOnlyWhenTheCacheIsLate: the operator writes the annotation card.allocated of a Queue
// often. Before a write it must know its last one. Else it would report its own last write as a change by another
// manager. It reads the Queue from the API server only while the cache may lack that write, and from the cache
// otherwise.
func TestAQueueIsReadFromTheAPIServerOnlyWhenTheCacheIsLate(t *testing.T) {
	r, api := newLLMReconciler(t)

	reads := 0
	r.live = interceptor.NewClient(api, interceptor.Funcs{Get: func(ctx context.Context, api client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
		reads++
		return api.Get(ctx, key, object, options...)
	}})

	var cached *v1beta1.Queue // nil while the cache is up to date
	r.client = withLateCache(api, &cached)
	queue := func() *v1beta1.Queue { return fetch(t, api, "llm", &v1beta1.Queue{}) }

	// After a start no write is known.
	r.setUsage(1, 0) // 1 card, and no CPU
	r.reconcileAll(t)
	check.That(t, reads > 0, "the operator writes a Queue that it has not read from the API server")
	late := queue()

	// The cache is up to date: neither another usage nor another spec is a reason to read.
	reads = 0
	r.setUsage(2, 0)
	r.reconcileAll(t)
	check.Equal(t, "allocated", `{"H200":2}`, queue().Annotations[v1alpha1.AnnotationCardAllocated])

	quota := llmOf(t, api)
	quota.Spec.StopPolicy = v1alpha1.StopPolicyHold
	quota.Generation++
	check.NoError(t, api.Update(t.Context(), quota))
	r.reconcileAll(t)
	check.Equal(t, "stop policy", "Hold", queue().Annotations[v1alpha1.AnnotationStopPolicy])
	check.Equal(t, "reads of a Queue whose last write the cache has", 0, reads)

	// The cache has the Queue of before these writes.
	late.ResourceVersion = "1" // the fake client makes no new version when it applies
	cached = late
	r.reconcileAll(t)
	check.That(t, reads > 0, "a Queue without the last write is not read from the API server")

	// No event says that another manager changed the Queue.
	events := r.events.(*record.FakeRecorder).Events
	for len(events) > 0 {
		check.Text(t, "event", <-events).Lacks(v1alpha1.ReasonForeignChangeReplaced)
	}
}

// TestAChangeOfAnotherManagerIsReportedDespiteALateStatus: condition QueueSynced reports that another manager changed
// the Queue, and that the operator replaced the change. The operator finds a change by comparing the Queue with the
// last status. Here another manager raises the quota from 8 to 9 while the cache still has the CardQuota without a
// status. The condition has the report after the cache has the status.
func TestAChangeOfAnotherManagerIsReportedDespiteALateStatus(t *testing.T) {
	r, api := newLLMReconciler(t)
	var cached *v1alpha1.CardQuota // nil while the cache is up to date
	r.client = withLateCache(api, &cached)

	reason := func() string {
		return conditions.Get(llmOf(t, api).Status.Conditions, v1alpha1.ConditionQueueSynced).Reason
	}

	check.Value(r.Reconcile(t.Context(), llm))(t)
	late := llmOf(t, api)
	late.Status = v1alpha1.CardQuotaStatus{}
	late.ResourceVersion = "1" // older than each write
	r.reconcileAll(t)
	check.Equal(t, "reason before the change", v1alpha1.ReasonSynced, reason())

	queue := fetch(t, api, "llm", &v1beta1.Queue{})
	queue.Annotations[v1alpha1.AnnotationCardQuota] = `{"H200":9}`
	check.NoError(t, api.Update(t.Context(), queue))
	cached = late
	check.Value(r.Reconcile(t.Context(), llm))(t)

	cached = nil
	r.reconcileAll(t)
	check.Equal(t, "reason after the change", v1alpha1.ReasonForeignChangeReplaced, reason())
}

// TestAFailedApplyForgetsTheLastWrite: an apply that fails may have been stored all the same, when only the
// answer was lost. Then the last version that the operator knows is too old, so it is forgotten. The operator
// must read the Queue from the API server next time.
func TestAFailedApplyForgetsTheLastWrite(t *testing.T) {
	r, api := newLLMReconciler(t)
	r.reconcileAll(t)
	// isKnown reports whether a write of Queue llm is known, by a version that is newer than all writes.
	isKnown := func() bool { return r.queueWrites.CacheHasWrite("llm", "999999") }
	check.Equal(t, "the write of an applied Queue is known", true, isKnown())

	r.client = interceptor.NewClient(api, interceptor.Funcs{Apply: func(context.Context, client.WithWatch, runtime.ApplyConfiguration, ...client.ApplyOption) error {
		return errors.New("timeout")
	}})

	quota := llmOf(t, api)
	quota.Spec.Cards[0].Quota = ptr.To[int64](9)
	check.NoError(t, api.Update(t.Context(), quota))

	_, err := r.Reconcile(t.Context(), llm)
	check.Says(t, err, "timeout")
	check.Equal(t, "the write before a failed apply is known", false, isKnown())
}

// TestTheWritesOfAGoneCardQuotaAreForgotten: a user removed the finalizer of CardQuota llm by hand, so the operator
// only sees that it is gone. It forgets which queue CardQuota llm had. It also forgets the writes of Queue llm, unless
// CardQuota "next" has that queue now.
func TestTheWritesOfAGoneCardQuotaAreForgotten(t *testing.T) {
	next := builder.CardQuota("next").Card("H200", 8).With(func(q *v1alpha1.CardQuota) { q.Spec.QueueName = "llm" }).Obj()
	for t, tc := range check.Cases(t, map[string]struct {
		left      []client.Object
		wantKnown bool
	}{
		"the Queue is left":                          {[]client.Object{builder.Queue("llm").Obj()}, false},
		"the Queue is left, and has a new CardQuota": {[]client.Object{builder.Queue("llm").Obj(), next}, true},
	}) {
		r, _ := newLLMReconciler(t)
		r.reconcileAll(t)
		without := newFakeReconciler(t, tc.left...)
		r.client = without.client
		r.live = without.live

		check.Value(r.Reconcile(t.Context(), llm))(t)

		// Version 999999 is newer than all writes, so a write is unknown only if it was forgotten.
		check.Equal(t, "a write of Queue llm is known", tc.wantKnown, r.queueWrites.CacheHasWrite("llm", "999999"))
		_, isKnown := r.writtenQueues.Load("llm")
		check.Equal(t, "the queue of CardQuota llm is known", false, isKnown)
	}
}

// TestAnApplyRecordsTheVersionOfTheAnswer: the real client decodes the answer of an apply in another way than
// the fake one. So this test has an HTTP server that answers with version 1234. A cache with that version has
// the write.
func TestAnApplyRecordsTheVersionOfTheAnswer(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		check.Equal(t, "request", "PATCH /apis/scheduling.volcano.sh/v1beta1/queues/llm", request.Method+" "+request.URL.Path)
		w.Header().Set("Content-Type", "application/json")
		check.Value(io.WriteString(w, `{"apiVersion":"scheduling.volcano.sh/v1beta1","kind":"Queue","metadata":{"name":"llm","resourceVersion":"1234"}}`))(t)
	}))
	defer server.Close()

	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(v1beta1.SchemeGroupVersion.WithKind("Queue"), meta.RESTScopeRoot)
	api := check.Value(client.New(&rest.Config{Host: server.URL}, client.Options{Scheme: newScheme(t), Mapper: mapper}))(t)

	r := &reconciliation{Reconciler: &Reconciler{client: api, queueWrites: shared.NewLastWrites()}, quota: builder.CardQuota("llm").Obj(), tree: cardquota.Flat}
	config := cardquota.NewDesiredQueue(r.quota, cardquota.PolicyInput{Types: policy.ServiceTypes(nil)}, nil, "", r.tree.Placement(r.quota, "root")).Config
	check.NoError(t, r.applyAndRecord(t.Context(), config))

	check.Equal(t, "version 1234 has the write", true, r.queueWrites.CacheHasWrite("llm", "1234"))
	check.Equal(t, "version 1233 has the write", false, r.queueWrites.CacheHasWrite("llm", "1233"))
}
