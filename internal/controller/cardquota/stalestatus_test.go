package cardquota

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
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
	usage := cardquota.Usage{Used: map[card.Name]card.Count{"H200": used}, Pending: map[card.Name]card.Count{}, MilliCPU: milliCPU}
	r.usage.queues = map[string]cardquota.Usage{"llm": usage}
	r.usage.subtrees = r.usage.queues
}

// llm asks for a Reconcile of CardQuota llm.
var llm = ctrl.Request{NamespacedName: client.ObjectKey{Name: "llm"}}

// llmOf returns CardQuota llm as the API server has it.
func llmOf(t *testing.T, api client.Reader) *v1alpha1.CardQuota {
	return fetch(t, api, "llm", &v1alpha1.CardQuota{})
}

// TestStatusIsRightAfterALateWatch: a number changes and changes back before the cache shows the
// first change. A patch against the cache would leave out that number, and no event would follow.
func TestStatusIsRightAfterALateWatch(t *testing.T) {
	r, api := newLLMReconciler(t)

	var cached *v1alpha1.CardQuota // nil while the cache is up to date
	r.client = withLateCache(api, &cached)
	// reconcile reconciles until nothing asks for more, 20 times at most while the cache is late.
	reconcile := func() {
		for range 20 {
			result := check.Value(r.Reconcile(t.Context(), llm))(t)
			if result.IsZero() {
				return
			}
		}

		check.That(t, cached != nil, "it is reconciled for ever")
		cached = nil
		for range 3 {
			check.Value(r.Reconcile(t.Context(), llm))(t)
		}
	}

	for range 3 { // the finalizer is an event of its own
		r.setUsage(1, 1000)
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

// TestQueueIsReadOnlyFromALateCache: the operator writes card.allocated often. It asks the API server
// for a Queue only while the cache may not have its own last write.
func TestQueueIsReadOnlyFromALateCache(t *testing.T) {
	r, api := newLLMReconciler(t)

	reads := 0
	r.live = interceptor.NewClient(api, interceptor.Funcs{Get: func(ctx context.Context, api client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
		reads++
		return api.Get(ctx, key, object, options...)
	}})

	var cached *v1beta1.Queue // nil while the cache is up to date
	r.client = withLateCache(api, &cached)
	queue := func() *v1beta1.Queue {
		return fetch(t, api, "llm", &v1beta1.Queue{})
	}

	r.setUsage(1, 0)
	r.reconcileAll(t)
	check.That(t, reads > 0, "the first write is of a Queue that was not read from the API server")

	late := queue()
	reads = 0
	r.setUsage(2, 0)
	r.reconcileAll(t)
	check.Equal(t, "reads of a Queue with the last write", 0, reads)
	check.Equal(t, "allocated", `{"H200":2}`, queue().Annotations[v1alpha1.AnnotationCardAllocated])

	quota := llmOf(t, api)
	quota.Spec.StopPolicy = v1alpha1.StopPolicyHold
	quota.Generation++
	check.NoError(t, api.Update(t.Context(), quota))

	r.reconcileAll(t)
	check.Equal(t, "reads of a Queue with the last write after a change of the spec", 0, reads)
	check.Equal(t, "stop policy", "Hold", queue().Annotations[v1alpha1.AnnotationStopPolicy])

	late.ResourceVersion = "1" // the fake client makes no new version when it applies
	cached = late
	r.reconcileAll(t)
	check.That(t, reads > 0, "a Queue without the last write is not read again")

	events := r.events.(*record.FakeRecorder).Events
	for len(events) > 0 {
		event := <-events
		check.That(t, !strings.Contains(event, v1alpha1.ReasonForeignChangeReplaced), "its own write is another manager's: %s", event)
	}
}

// TestAForeignChangeBesideALateStatusIsNamed: another manager changes the Queue before the cache has the
// status that says what the Queue carried.
func TestAForeignChangeBesideALateStatusIsNamed(t *testing.T) {
	r, api := newLLMReconciler(t)
	var cached *v1alpha1.CardQuota // nil while the cache is up to date
	r.client = withLateCache(api, &cached)

	check.Value(r.Reconcile(t.Context(), llm))(t)

	late := llmOf(t, api)
	late.Status = v1alpha1.CardQuotaStatus{}
	late.ResourceVersion = "1"
	r.reconcileAll(t)
	check.Equal(t, "condition before", v1alpha1.ReasonSynced, conditions.Get(llmOf(t, api).Status.Conditions, v1alpha1.ConditionQueueSynced).Reason)

	queue := fetch(t, api, "llm", &v1beta1.Queue{})
	queue.Annotations[v1alpha1.AnnotationCardQuota] = `{"H200":9}`
	check.NoError(t, api.Update(t.Context(), queue))
	cached = late

	check.Value(r.Reconcile(t.Context(), llm))(t)
	cached = nil
	r.reconcileAll(t)

	check.Equal(t, "condition", v1alpha1.ReasonForeignChangeReplaced, conditions.Get(llmOf(t, api).Status.Conditions, v1alpha1.ConditionQueueSynced).Reason)
}

// TestAFailedApplyIsNotKnown: an answer may be lost, so the next difference is read from the API server.
func TestAFailedApplyIsNotKnown(t *testing.T) {
	r, api := newLLMReconciler(t)
	r.reconcileAll(t)
	known := func() bool { return r.queueWrites.CacheHasWrite("llm", "999999") }
	check.That(t, known(), "an applied Queue is not known")

	r.client = interceptor.NewClient(api, interceptor.Funcs{Apply: func(context.Context, client.WithWatch, runtime.ApplyConfiguration, ...client.ApplyOption) error {
		return errors.New("timeout")
	}})

	quota := llmOf(t, api)
	quota.Spec.Cards[0].Quota = ptr.To[int64](9)
	check.NoError(t, api.Update(t.Context(), quota))

	_, err := r.Reconcile(t.Context(), llm)
	check.Says(t, err, "timeout")
	check.That(t, !known(), "the version before a failed apply is known")
}

// TestTheWriteOfAGoneCardQuotaIsForgotten: a user may remove its finalizer by hand. Its queue stays known if
// another CardQuota has it now.
func TestTheWriteOfAGoneCardQuotaIsForgotten(t *testing.T) {
	for _, hasSuccessor := range []bool{false, true} {
		r, _ := newLLMReconciler(t)
		r.reconcileAll(t)
		rest := newFakeReconciler(t, builder.Queue("llm").Obj())
		if hasSuccessor {
			rest = newFakeReconciler(t, builder.Queue("llm").Obj(), builder.CardQuota("next").Card("H200", 8).With(func(q *v1alpha1.CardQuota) { q.Spec.QueueName = "llm" }).Obj())
		}

		r.client = rest.client
		r.live = rest.live // without CardQuota llm
		check.Value(r.Reconcile(t.Context(), llm))(t)
		check.Equal(t, "known", hasSuccessor, r.queueWrites.CacheHasWrite("llm", "999999"))

		_, isLeft := r.writtenQueues.Load("llm")
		check.That(t, !isLeft, "the CardQuota is not forgotten")
	}
}

// TestAnApplyTellsTheVersion with the real client, which decodes answers in another way than the fake one.
func TestAnApplyTellsTheVersion(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		check.Equal(t, "request", "PATCH /apis/scheduling.volcano.sh/v1beta1/queues/llm", request.Method+" "+request.URL.Path)
		w.Header().Set("Content-Type", "application/json")
		check.Value(io.WriteString(w, `{"apiVersion":"scheduling.volcano.sh/v1beta1","kind":"Queue","metadata":{"name":"llm","resourceVersion":"1234"}}`))(t)
	}))
	defer server.Close()

	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(v1beta1.SchemeGroupVersion.WithKind("Queue"), meta.RESTScopeRoot)
	api := check.Value(client.New(&rest.Config{Host: server.URL}, client.Options{Scheme: newScheme(t), Mapper: mapper}))(t)

	r := &reconciliation{Reconciler: &Reconciler{client: api, queueWrites: shared.NewLastWrites()}, quota: builder.CardQuota("llm").Obj()}
	config := cardquota.NewDesiredQueue(r.quota, cardquota.PolicyInput{Types: policy.ServiceTypes(nil)}, nil, "", nil).Config
	check.NoError(t, r.applyAndRecord(t.Context(), config))
	check.That(t, r.queueWrites.CacheHasWrite("llm", "1234") && !r.queueWrites.CacheHasWrite("llm", "1233"), "the version of the answer is not known")
}
