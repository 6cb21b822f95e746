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

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/cardquota"
	shared "cardquota.dev/operator/internal/controller"
	"cardquota.dev/operator/internal/localquota"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/fieldowner"
)

// counted is the last count of every queue, nil before the first one.
type counted map[string]cardquota.Usage

func (c counted) QueueUsage(name string) (own, subtree cardquota.Usage, isCounted bool) {
	return c[name], c[name], c != nil
}

// QueuesBelow returns a tree in which chat-below is below chat.
func (c counted) QueuesBelow(name string) []string {
	if name == "chat" {
		return []string{name, "chat-below"}
	}
	return []string{name}
}

type fixture struct {
	*testing.T
	client.Client
	reconciler *Reconciler
}

func newFixture(t *testing.T, interval time.Duration, objects ...client.Object) *fixture {
	c := fieldowner.CheckStatus(t, fake.NewClientBuilder().WithScheme(builder.Scheme(t, corev1.AddToScheme, v1alpha1.AddToScheme)).
		WithObjects(objects...).WithStatusSubresource(&v1alpha1.LocalCardQuota{}, &v1alpha1.CardQuota{}).
		WithIndex(&corev1.Namespace{}, shared.NamespaceLabelIndex, shared.NamespaceLabels).
		WithIndex(&v1alpha1.LocalCardQuota{}, nameIndex, func(object client.Object) []string { return []string{object.GetName()} }).Build())
	return &fixture{t, c, &Reconciler{client: c, usage: counted{}, interval: time.Minute, throttle: shared.NewStatusThrottle(interval), selectors: shared.NewQuotaSelectors()}}
}

// reconcile reconciles until every view is written, and returns the last result.
func (f *fixture) reconcile(times int) time.Duration {
	var again time.Duration
	for range times {
		again = check.Value(f.reconciler.Reconcile(f.Context(), shared.RequestFor("chat")))(f).RequeueAfter
	}
	return again
}

// views returns namespace, queue and blocked workloads of each view.
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

func TestViewsFollowTheSelector(t *testing.T) {
	f := newFixture(t, 0, chatQuota(chatNamespaces), builder.Namespace("a", "team", "chat"), builder.Namespace("b", "team", "chat"), builder.Namespace("c"))
	f.reconciler.usage = counted{"chat": {BlockedTotal: 3, Local: map[string]localquota.Waiting{"a": {Total: 1}}}}
	check.Equal(t, "looks again where the CardQuota is older than the count", time.Minute, f.reconcile(2))
	check.Equal(t, "views", []string{"a/chat chat 1+2", "b/chat chat 0+3"}, f.views())

	check.NoError(t, f.Update(f.Context(), builder.Namespace("b", "team", "search")))
	check.NoError(t, f.Update(f.Context(), builder.Namespace("c", "team", "chat")))
	f.reconciler.usage = counted{}
	check.Equal(t, "nothing waits", time.Duration(0), f.reconcile(3))
	check.Equal(t, "views of other namespaces", []string{"a/chat chat 0+0", "c/chat chat 0+0"}, f.views())

	check.NoError(t, f.Delete(f.Context(), chatQuota(nil)))
	f.reconcile(1)
	check.Equal(t, "views without a CardQuota", nil, f.views())
}

func TestViewsEndWithTheirCardQuota(t *testing.T) {
	before := chatQuota(chatNamespaces)
	before.UID = "before"
	byTenant := localquota.New(before, "a")
	byTenant.OwnerReferences = nil
	f := newFixture(t, 0, chatQuota(chatNamespaces), builder.Namespace("a", "team", "chat"), builder.Namespace("b", "team", "chat"), byTenant, localquota.New(before, "b"))
	f.reconcile(3)

	var list v1alpha1.LocalCardQuotaList
	check.NoError(t, f.List(t.Context(), &list))
	check.Equal(t, "views", 2, len(list.Items))
	for _, view := range list.Items {
		check.That(t, ownedBy(&view, chatQuota(nil)), "%s belongs to %v", view.Namespace, view.OwnerReferences)
	}
}

func TestAtMostFiftyViews(t *testing.T) {
	objects := []client.Object{chatQuota(chatNamespaces)}
	for i := range 60 {
		objects = append(objects, builder.Namespace(fmt.Sprintf("n%02d", i), "team", "chat"))
	}
	f := newFixture(t, 0, objects...)
	f.reconcile(2)
	views := f.views()
	check.That(t, len(views) == 50 && views[49] == "n49/chat chat 0+0", "%d views: %v", len(views), views)
}

func TestAViewIsWrittenOncePerInterval(t *testing.T) {
	f := newFixture(t, time.Hour, chatQuota(chatNamespaces), builder.Namespace("a", "team", "chat"))
	f.reconcile(2)
	f.reconciler.usage = counted{"chat": {BlockedTotal: 1}}
	again := f.reconcile(1)
	check.Equal(t, "views", []string{"a/chat chat 0+0"}, f.views())
	check.That(t, again > 0 && again <= time.Hour, "tries again after %s", again)
}

// TestAViewFollowsTheNextCount: a CardQuota that gets a selector has views before a count has what
// waits in their namespaces, and that count changes nothing of its status.
func TestAViewFollowsTheNextCount(t *testing.T) {
	quota := chatQuota(chatNamespaces)
	quota.Status.BlockedTotal = 3
	f := newFixture(t, 0, quota, builder.Namespace("a", "team", "chat"))
	f.reconciler.usage = counted{"chat": {BlockedTotal: 3}}
	check.Equal(t, "looks again after a write", time.Minute, f.reconcile(2))
	f.reconciler.usage = counted{"chat": {BlockedTotal: 3, Local: map[string]localquota.Waiting{"a": {Total: 2}}}}
	check.Equal(t, "looks again after another write", time.Minute, f.reconcile(1))
	check.Equal(t, "views", []string{"a/chat chat 2+1"}, f.views())
	check.Equal(t, "looks again when it is right", 0, f.reconcile(1))
}

// TestAViewLooksAgainWhereMoreWaitsThanIsListed: changes of what is not listed are no event.
func TestAViewLooksAgainWhereMoreWaitsThanIsListed(t *testing.T) {
	for what, usage := range map[string]cardquota.Usage{
		"more workloads": {BlockedTotal: cardquota.MaxBlocked + 1}, "more entries of one workload": {BlockedTotal: 1, Blocked: make([]v1alpha1.BlockedStatus, cardquota.MaxBlocked)},
	} {
		quota := chatQuota(chatNamespaces)
		quota.Status.BlockedTotal = int32(usage.BlockedTotal)
		f := newFixture(t, 0, quota, builder.Namespace("a", "team", "chat"))
		f.reconciler.usage = counted{"chat": usage}
		f.reconcile(2)
		check.Equal(t, what+": looks again", time.Minute, f.reconcile(1))
	}
}

// TestADeletedViewIsForgotten: a view also ends with its namespace, when the controller deletes
// nothing itself.
func TestADeletedViewIsForgotten(t *testing.T) {
	f := newFixture(t, time.Hour, chatQuota(chatNamespaces), builder.Namespace("a", "team", "chat"))
	f.reconcile(2)
	var view v1alpha1.LocalCardQuota
	check.NoError(t, f.Get(t.Context(), client.ObjectKey{Namespace: "a", Name: "chat"}, &view))
	check.That(t, f.reconciler.throttle.Wait(shared.ThrottleKey(&view)) > 0, "the write was not recorded")
	queue := workqueue.NewTypedRateLimitingQueue(newRateLimiter(time.Minute))
	defer queue.ShutDown()
	f.reconciler.viewEvents().Delete(t.Context(), event.DeleteEvent{Object: &view}, queue)
	check.Equal(t, "wait for a view that is gone", time.Duration(0), f.reconciler.throttle.Wait(shared.ThrottleKey(&view)))
	check.Equal(t, "requests", 1, queue.Len())
}

func TestNothingIsWrittenBeforeTheFirstCount(t *testing.T) {
	f := newFixture(t, 0, chatQuota(chatNamespaces), builder.Namespace("a", "team", "chat"))
	f.reconciler.usage = counted(nil)
	check.Equal(t, "tries again", time.Second, f.reconcile(2))
	check.Equal(t, "views", []string{"a/chat  0+0"}, f.views())
}

func TestRequestsForNamespaces(t *testing.T) {
	f := newFixture(t, 0, chatQuota(chatNamespaces), builder.CardQuota("all").Obj())
	for _, tc := range []struct {
		namespace *corev1.Namespace
		want      []string
	}{{builder.Namespace("a", "team", "chat"), []string{"/chat"}}, {builder.Namespace("b", "team", "search"), nil}} {
		var names []string
		for _, request := range f.reconciler.requestsForNamespace(t.Context(), tc.namespace) {
			names = append(names, request.String())
		}
		check.Equal(t, "requests for "+tc.namespace.Name, tc.want, names)
	}
}

// TestANamespaceThatRefusesItsViewDelaysNoOther: "a" refuses every write. The others get, keep and
// lose their views all the same, and the error makes the controller try again.
func TestANamespaceThatRefusesItsViewDelaysNoOther(t *testing.T) {
	team := []string{"team", "chat"}
	f := newFixture(t, 0, chatQuota(chatNamespaces), builder.Namespace("a", team...), builder.Namespace("b", team...), builder.Namespace("c", team...))
	refused := "create"

	refusal := errors.New("exceeded quota")
	refuse := func(verb string, view client.Object) error {
		if view.GetNamespace() == "a" && verb == refused {
			return refusal
		}
		return nil
	}

	inner := f.Client.(client.WithWatch)
	f.reconciler.client = interceptor.NewClient(inner, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.CreateOption) error {
			if err := refuse("create", o); err != nil {
				return err
			}
			return c.Create(ctx, o, options...)
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.DeleteOption) error {
			if err := refuse("delete", o); err != nil {
				return err
			}
			return c.Delete(ctx, o, options...)
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, patch client.Patch, options ...client.SubResourcePatchOption) error {
			if err := refuse("patch", o); err != nil {
				return err
			}
			return c.SubResource(sub).Patch(ctx, o, patch, options...)
		},
	})

	reconcile := func(when string, refuses bool, views ...string) {
		_, _ = f.reconciler.Reconcile(t.Context(), shared.RequestFor("chat")) // a view gets its status after it exists
		_, err := f.reconciler.Reconcile(t.Context(), shared.RequestFor("chat"))
		check.Equal(t, when+": refused", refuses, errors.Is(err, refusal))
		check.Equal(t, when, views, f.views())
	}

	reconcile("no view can be created", true, "b/chat chat 0+0", "c/chat chat 0+0")
	refused = "patch"
	f.reconciler.usage = counted{"chat": {BlockedTotal: 1}}
	reconcile("no status can be written", true, "a/chat  0+0", "b/chat chat 0+1", "c/chat chat 0+1")
	refused = ""

	reconcile("nothing is refused", false, "a/chat chat 0+1", "b/chat chat 0+1", "c/chat chat 0+1")
	refused = "delete"
	check.NoError(t, f.Delete(t.Context(), chatQuota(nil)))
	reconcile("no view can be deleted", true, "a/chat chat 0+1")
}

// TestErrorsAreRetriedWithinTheInterval: a refusal that lasts must not make other views old.
func TestErrorsAreRetriedWithinTheInterval(t *testing.T) {
	limiter := newRateLimiter(10 * time.Second)
	for range 50 {
		wait := limiter.When(shared.RequestFor("chat"))
		check.Must(t, wait > 0 && wait <= 10*time.Second, "tries again after %s", wait)
	}
}
