package localquota

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"cardquota.dev/operator/api/v1alpha1"
	shared "cardquota.dev/operator/internal/controller"
	"cardquota.dev/operator/internal/localquota"
	"cardquota.dev/operator/internal/queueusage"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/fieldowner"
	"cardquota.dev/operator/internal/waiting"
)

// counted is the last count of every queue, nil before the first one.
type counted map[string]queueusage.Usage

func (c counted) QueueUsage(name string) (own, subtree queueusage.Usage, isCounted bool) {
	return c[name], c[name], c != nil
}

// QueuesBelow returns a tree in which chat-below is below chat.
func (c counted) QueuesBelow(name string) []string {
	if name == "chat" {
		return []string{name, "chat-below"}
	}
	return []string{name}
}

// fixture is an API server and the controller of the views, the LocalCardQuotas that show tenants their CardQuota in
// each namespace that it selects.
type fixture struct {
	*testing.T
	client.Client
	reconciler *Reconciler
}

// writtenAtOnce is no interval between two writes of a view.
const writtenAtOnce = time.Duration(0)

// newFixture has no usage, and an interval between two writes of a view.
func newFixture(t *testing.T, interval time.Duration, objects ...client.Object) *fixture {
	c := fieldowner.CheckStatus(t, fake.NewClientBuilder().WithScheme(builder.Scheme(t, corev1.AddToScheme, v1alpha1.AddToScheme)).
		WithObjects(objects...).WithStatusSubresource(&v1alpha1.LocalCardQuota{}, &v1alpha1.CardQuota{}).
		WithIndex(&corev1.Namespace{}, shared.NamespaceLabelIndex, shared.NamespaceLabels).
		WithIndex(&v1alpha1.LocalCardQuota{}, nameIndex, func(object client.Object) []string { return []string{object.GetName()} }).Build())
	return &fixture{t, c, &Reconciler{client: c, usage: counted{}, interval: time.Minute, throttle: shared.NewStatusThrottle(interval), selectors: shared.NewQuotaSelectors()}}
}

// reconcileTimes reconciles CardQuota chat some times, since a view is created and then written. It returns after which
// time the last one asks for another.
func (f *fixture) reconcileTimes(times int) time.Duration {
	var again time.Duration
	for range times {
		again = check.Value(f.reconciler.Reconcile(f.Context(), shared.RequestFor("chat")))(f).RequeueAfter
	}
	return again
}

// views returns each view as "namespace/name queue blocked+elsewhere": the workloads of queue that are blocked in the
// namespace of the view, and those of other namespaces.
func (f *fixture) views() (lines []string) {
	var list v1alpha1.LocalCardQuotaList
	check.NoError(f, f.List(f.Context(), &list))
	for _, v := range list.Items {
		lines = append(lines, fmt.Sprint(v.Namespace, "/", v.Name, " ", v.Status.Queue, " ", v.Status.BlockedTotal, "+", v.Status.BlockedElsewhere))
	}
	slices.Sort(lines)
	return lines
}

func chatQuota(selector *metav1.LabelSelector) *v1alpha1.CardQuota {
	return builder.CardQuota("chat").With(func(q *v1alpha1.CardQuota) { q.Spec.NamespaceSelector = selector }).Obj()
}

var chatNamespaces = &metav1.LabelSelector{MatchLabels: map[string]string{"team": "chat"}}

// TestViewsFollowTheSelector: each namespace that the selector team=chat of CardQuota chat selects has a view
// (LocalCardQuota). It shows how many of the 3 blocked workloads are in that namespace, and how many elsewhere.
// Then b leaves the team, c joins it, and nothing is blocked. In the end the CardQuota is deleted. A view such
// as "a/chat chat 1+2" is that of queue chat in namespace a: 1 workload is blocked there, and 2 elsewhere. A new count is
// no event, so after a write of a view the controller looks again after a minute.
func TestViewsFollowTheSelector(t *testing.T) {
	f := newFixture(t, writtenAtOnce, chatQuota(chatNamespaces), builder.Namespace("a", "team", "chat"), builder.Namespace("b", "team", "chat"), builder.Namespace("c"))
	f.reconciler.usage = counted{"chat": {Summary: waiting.Summary{BlockedTotal: 3, Local: map[string]waiting.Entries{"a": {Total: 1}}}}}
	check.Equal(t, "delay after the views were written", time.Minute, f.reconcileTimes(2)) // creates the views, and writes them
	check.Equal(t, "views of a and b", []string{"a/chat chat 1+2", "b/chat chat 0+3"}, f.views())

	check.NoError(t, f.Update(f.Context(), builder.Namespace("b", "team", "search")))
	check.NoError(t, f.Update(f.Context(), builder.Namespace("c", "team", "chat")))
	f.reconciler.usage = counted{}
	check.Equal(t, "delay when nothing was written", time.Duration(0), f.reconcileTimes(3)) // the last one changes nothing
	check.Equal(t, "views of a and c", []string{"a/chat chat 0+0", "c/chat chat 0+0"}, f.views())

	check.NoError(t, f.Delete(f.Context(), chatQuota(nil)))
	f.reconcileTimes(1)
	check.Equal(t, "views without a CardQuota", nil, f.views())
}

// TestViewsAreReplacedWithTheirCardQuota: CardQuota chat was deleted and created again. The view
// (LocalCardQuota) of namespace b belongs to the deleted CardQuota. The view of namespace a belongs to none,
// since a tenant created it. The controller replaces both by views that belong to the present CardQuota, with
// which Kubernetes deletes them.
func TestViewsAreReplacedWithTheirCardQuota(t *testing.T) {
	before := chatQuota(chatNamespaces)
	before.UID = "before"
	byTenant := localquota.New(before, "a")
	byTenant.OwnerReferences = nil
	f := newFixture(t, writtenAtOnce, chatQuota(chatNamespaces),
		builder.Namespace("a", "team", "chat"), byTenant,
		builder.Namespace("b", "team", "chat"), localquota.New(before, "b"))

	f.reconcileTimes(3) // enough to delete, create and write the views

	var list v1alpha1.LocalCardQuotaList
	check.NoError(t, f.List(t.Context(), &list))
	check.Equal(t, "views", 2, len(list.Items))
	for _, view := range list.Items {
		check.That(t, isOwnedBy(&view, chatQuota(nil)), "%s belongs to %v", view.Namespace, view.OwnerReferences)
	}
}

// TestACardQuotaHasAtMostFiftyViews: a selector may select any number of namespaces, and each view
// (LocalCardQuota) is written after each count. Of 60 namespaces the first 50 by name, n00 to n49, have a view.
// "n49/chat chat 0+0" is the view of queue chat in namespace n49, with no blocked workload there or elsewhere.
func TestACardQuotaHasAtMostFiftyViews(t *testing.T) {
	objects := []client.Object{chatQuota(chatNamespaces)}
	for i := range 60 {
		objects = append(objects, builder.Namespace(fmt.Sprintf("n%02d", i), "team", "chat"))
	}
	f := newFixture(t, writtenAtOnce, objects...)
	f.reconcileTimes(2) // creates the views, and writes them

	views := f.views()
	check.Must(t, len(views) == 50, "%d views: %v", len(views), views)
	check.Equal(t, "the last view", "n49/chat chat 0+0", views[49])
}

// TestAViewIsWrittenOncePerInterval: the view (LocalCardQuota) of queue chat was written in this interval of an
// hour. Then a workload is blocked. The view in namespace a still shows 0 blocked workloads there and 0
// elsewhere ("0+0"), and is reconciled again when the interval ends.
func TestAViewIsWrittenOncePerInterval(t *testing.T) {
	f := newFixture(t, time.Hour, chatQuota(chatNamespaces), builder.Namespace("a", "team", "chat"))
	f.reconcileTimes(2) // creates the view, and writes it

	f.reconciler.usage = counted{"chat": {Summary: waiting.Summary{BlockedTotal: 1}}}
	again := f.reconcileTimes(1)

	check.Equal(t, "views", []string{"a/chat chat 0+0"}, f.views())
	check.That(t, again > 0 && again <= time.Hour, "the view is reconciled again after %s", again)
}

// TestAViewFollowsTheNextCount: a CardQuota that gets a selector has views (LocalCardQuotas) before a count has
// found which of its 3 blocked workloads are in their namespaces. That count changes nothing in the status of
// the CardQuota, so no event follows. So after each write of a view the CardQuota is reconciled again a minute
// later, until nothing changes. "a/chat chat 2+1" is the view of queue chat in namespace a: 2 workloads are
// blocked there, and 1 elsewhere.
func TestAViewFollowsTheNextCount(t *testing.T) {
	quota := chatQuota(chatNamespaces)
	quota.Status.BlockedTotal = 3
	f := newFixture(t, writtenAtOnce, quota, builder.Namespace("a", "team", "chat"))

	f.reconciler.usage = counted{"chat": {Summary: waiting.Summary{BlockedTotal: 3}}}
	check.Equal(t, "delay after a write", time.Minute, f.reconcileTimes(2)) // creates the view, and writes it

	f.reconciler.usage = counted{"chat": {Summary: waiting.Summary{BlockedTotal: 3, Local: map[string]waiting.Entries{"a": {Total: 2}}}}}
	check.Equal(t, "delay after another write", time.Minute, f.reconcileTimes(1))
	check.Equal(t, "views", []string{"a/chat chat 2+1"}, f.views())
	check.Equal(t, "delay without a change", 0, f.reconcileTimes(1))
}

// TestAViewIsReconciledAgainWhenMoreIsBlockedThanIsListed: the status of a CardQuota lists at most MaxBlocked
// blocked workloads. A change of the workloads that it does not list causes no event. A full list may lack
// some. So the view (LocalCardQuota) is reconciled again after a minute, though nothing was written.
func TestAViewIsReconciledAgainWhenMoreIsBlockedThanIsListed(t *testing.T) {
	for t, usage := range check.Cases(t, map[string]queueusage.Usage{
		"one workload more than is listed":                     {Summary: waiting.Summary{BlockedTotal: waiting.MaxBlocked + 1}},
		"one workload with as many entries as a list can have": {Summary: waiting.Summary{BlockedTotal: 1, Blocked: make([]v1alpha1.BlockedStatus, waiting.MaxBlocked)}},
	}) {
		quota := chatQuota(chatNamespaces)
		quota.Status.BlockedTotal = int32(usage.BlockedTotal)
		f := newFixture(t, writtenAtOnce, quota, builder.Namespace("a", "team", "chat"))
		f.reconciler.usage = counted{"chat": usage}
		f.reconcileTimes(2)                                       // creates the view, and writes it
		check.Equal(t, "delay", time.Minute, f.reconcileTimes(1)) // writes nothing
	}
}

// TestADeletedViewIsForgotten: a view (LocalCardQuota) is written at most once in an interval, here of an hour. It is
// also deleted with its namespace, without a deletion by the controller. The event of the deletion ends the interval
// of the view, so that a new one is written at once. It also asks for a reconcile of the CardQuota.
func TestADeletedViewIsForgotten(t *testing.T) {
	f := newFixture(t, time.Hour, chatQuota(chatNamespaces), builder.Namespace("a", "team", "chat"))
	f.reconcileTimes(2) // creates the view, and writes it
	var view v1alpha1.LocalCardQuota
	check.NoError(t, f.Get(t.Context(), client.ObjectKey{Namespace: "a", Name: "chat"}, &view))
	check.That(t, f.reconciler.throttle.Wait(shared.ThrottleKey(&view)) > 0, "the write was not recorded")

	queue := workqueue.NewTypedRateLimitingQueue(newRateLimiter(time.Minute))
	defer queue.ShutDown()
	f.reconciler.viewEvents().Delete(t.Context(), event.DeleteEvent{Object: &view}, queue)

	check.Equal(t, "wait for a view that is gone", time.Duration(0), f.reconciler.throttle.Wait(shared.ThrottleKey(&view)))
	check.Equal(t, "requests", 1, queue.Len())
}

// TestNothingIsWrittenBeforeTheFirstCount: before the first count of the pods the controller does not know what
// is blocked. It creates the view (LocalCardQuota), leaves its status empty, and tries again after a second.
func TestNothingIsWrittenBeforeTheFirstCount(t *testing.T) {
	f := newFixture(t, writtenAtOnce, chatQuota(chatNamespaces), builder.Namespace("a", "team", "chat"))
	f.reconciler.usage = counted(nil)
	check.Equal(t, "delay", time.Second, f.reconcileTimes(2)) // creates the view, and cannot write it yet
	check.Equal(t, "the view chat of namespace a, without a queue and with no blocked workload", []string{"a/chat  0+0"}, f.views())
}

// TestANamespaceReconcilesTheCardQuotasThatSelectIt: a new or changed namespace may need a view
// (LocalCardQuota). CardQuota chat selects the namespaces of team chat. CardQuota all has no selector, so it
// has no views.
func TestANamespaceReconcilesTheCardQuotasThatSelectIt(t *testing.T) {
	f := newFixture(t, writtenAtOnce, chatQuota(chatNamespaces), builder.CardQuota("all").Obj())

	ofTeam := f.reconciler.requestsForNamespace(t.Context(), builder.Namespace("a", "team", "chat"))
	check.Equal(t, "requests for a namespace of team chat", []reconcile.Request{shared.RequestFor("chat")}, ofTeam)

	ofOther := f.reconciler.requestsForNamespace(t.Context(), builder.Namespace("b", "team", "search"))
	check.Equal(t, "requests for a namespace of another team", 0, len(ofOther))
}

// TestANamespaceThatRefusesItsViewDelaysNoOther: namespaces a, b and c are of team chat. In namespace a, the
// API server refuses creates, then writes of the status, then deletes, as a ResourceQuota or a webhook of the
// tenant may. Namespaces b and c get, keep and lose their views (LocalCardQuotas) all the same, and the error
// makes the controller try again. "b/chat chat 0+1" is the view of queue chat in b: no workload is blocked
// there, and 1 elsewhere. A view without a status names no queue between the two blanks: "a/chat  0+0".
func TestANamespaceThatRefusesItsViewDelaysNoOther(t *testing.T) {
	team := []string{"team", "chat"}
	f := newFixture(t, writtenAtOnce, chatQuota(chatNamespaces), builder.Namespace("a", team...), builder.Namespace("b", team...), builder.Namespace("c", team...))

	refusal := errors.New("exceeded quota")
	refused := ""
	// write makes a write unless its verb is refused in namespace a.
	write := func(verb string, view client.Object, write func() error) error {
		if view.GetNamespace() == "a" && verb == refused {
			return refusal
		}
		return write()
	}
	f.reconciler.client = interceptor.NewClient(f.Client.(client.WithWatch), interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.CreateOption) error {
			return write("create", o, func() error { return c.Create(ctx, o, options...) })
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.DeleteOption) error {
			return write("delete", o, func() error { return c.Delete(ctx, o, options...) })
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, patch client.Patch, options ...client.SubResourcePatchOption) error {
			return write("patch", o, func() error { return c.SubResource(sub).Patch(ctx, o, patch, options...) })
		},
	})

	// expectViews reconciles twice, since a view gets its status after it exists.
	expectViews := func(wantError error, views ...string) {
		_, _ = f.reconciler.Reconcile(t.Context(), shared.RequestFor("chat"))
		_, err := f.reconciler.Reconcile(t.Context(), shared.RequestFor("chat"))
		check.That(t, errors.Is(err, wantError), "%q is refused: error %v", refused, err)
		check.Equal(t, fmt.Sprintf("views while %q is refused", refused), views, f.views())
	}

	refused = "create"
	expectViews(refusal, "b/chat chat 0+0", "c/chat chat 0+0") // a has no view
	refused = "patch"
	f.reconciler.usage = counted{"chat": {Summary: waiting.Summary{BlockedTotal: 1}}}
	expectViews(refusal, "a/chat  0+0", "b/chat chat 0+1", "c/chat chat 0+1") // a has a view without a status
	refused = ""
	expectViews(nil, "a/chat chat 0+1", "b/chat chat 0+1", "c/chat chat 0+1")
	refused = "delete"
	check.NoError(t, f.Delete(t.Context(), chatQuota(nil)))
	expectViews(refusal, "a/chat chat 0+1") // the view of a is left
}

// TestErrorsAreRetriedWithinTheInterval: a namespace may refuse its view (LocalCardQuota) for ever, and each
// retry also reconciles the views of the other namespaces. So the delay of each of 50 retries is at most the
// interval, 10 seconds here.
func TestErrorsAreRetriedWithinTheInterval(t *testing.T) {
	limiter := newRateLimiter(10 * time.Second)
	for range 50 {
		wait := limiter.When(shared.RequestFor("chat"))
		check.Must(t, wait > 0 && wait <= 10*time.Second, "the delay is %s", wait)
	}
}
