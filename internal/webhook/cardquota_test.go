package webhook

import (
	"context"
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/testing/check"
)

// eightCards is an inventory of eight healthy cards A.
type eightCards struct{ noCards }

func (eightCards) Healthy() map[card.Name]card.Count { return map[card.Name]card.Count{"A": 8} }

// grantingEight grants eight cards A.
func grantingEight(name string, policy v1alpha1.OverAllocation) *v1alpha1.CardQuota {
	return &v1alpha1.CardQuota{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.CardQuotaSpec{
		Tenant: name, ServiceType: "training", NamespaceSelector: &metav1.LabelSelector{}, OverAllocation: policy,
		Cards: []v1alpha1.Card{{Name: "A", Quota: ptr.To(int64(8))}},
	}}
}

// withLateCache returns handlers whose API server has one object more, or another version of it, than
// the cache.
func withLateCache(t *testing.T, build func(*testing.T) *handlers, stored client.Object) *handlers {
	h := build(t)
	fresh := build(t).cached.(client.Client)
	_ = fresh.Delete(t.Context(), stored.DeepCopyObject().(client.Object))
	check.NoError(t, fresh.Create(t.Context(), stored))
	h.live = fresh
	return h
}

// TestDenyCountsWhatTheCacheDoesNotHaveYet: the second CardQuota of one kubectl apply follows the first
// one within milliseconds.
func TestDenyCountsWhatTheCacheDoesNotHaveYet(t *testing.T) {
	build := func(t *testing.T) *handlers {
		h := handlersOf(t, &v1alpha1.ServiceTypePolicy{})
		h.inventory = eightCards{}
		return h
	}

	for t, tc := range check.Cases(t, map[string]struct {
		before *v1alpha1.CardQuota
		policy v1alpha1.OverAllocation
		errors int
	}{
		"a new one":             {nil, v1alpha1.OverAllocationDeny, 1},
		"one that says Deny":    {grantingEight("second", v1alpha1.OverAllocationWarn), v1alpha1.OverAllocationDeny, 0}, // it grants no more
		"one that is allowed":   {nil, v1alpha1.OverAllocationAllow, 0},
		"one that gets warning": {nil, v1alpha1.OverAllocationWarn, 0},
	}) {
		h := withLateCache(t, build, grantingEight("first", v1alpha1.OverAllocationDeny))
		result := check.Value(h.validateCardQuota(t.Context(), grantingEight("second", tc.policy), tc.before))(t)
		check.Equal(t, "refusals", tc.errors, len(result.Errors))
	}
}

// TestARefusalIsDecidedByTheAPIServer: what a command wrote before is admitted although the cache does
// not have it yet.
func TestARefusalIsDecidedByTheAPIServer(t *testing.T) {
	tree := func(t *testing.T) *handlers { return treeHandlers(t, v1alpha1.QueueHierarchyTree) } // chat 8, search 8 below it
	h := withLateCache(t, tree, treeQuota("chat", "", 16))
	result := check.Value(h.validateCardQuota(t.Context(), treeQuota("search", "chat", 16), treeQuota("search", "chat", 8)))(t)
	check.Equal(t, "refusals after the parent was raised", 0, len(result.Errors))

	result = check.Value(h.validateCardQuota(t.Context(), treeQuota("search", "chat", 17), treeQuota("search", "chat", 8)))(t)
	check.Equal(t, "refusals above the raised parent", 1, len(result.Errors))

	flat := func(t *testing.T) *handlers { return handlersOf(t, &v1alpha1.ServiceTypePolicy{}) }
	defined := &v1alpha1.ServiceTypePolicy{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.PolicyName}, Spec: v1alpha1.ServiceTypePolicySpec{ServiceTypes: []v1alpha1.ServiceType{{Name: "batch"}}}}
	h = withLateCache(t, flat, defined)

	quota := grantingEight("batch", v1alpha1.OverAllocationAllow)
	quota.Spec.ServiceType = "batch"
	result = check.Value(h.validateCardQuota(t.Context(), quota, nil))(t)
	check.Equal(t, "refusals after the service type was defined", 0, len(result.Errors))
}

// cachedReader lists as the cache does: everything, and a token with which nothing can be continued.
type cachedReader struct{ client.Reader }

func (c cachedReader) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	err := c.Reader.List(ctx, list, options...)
	list.SetContinue("continue-not-supported")
	return err
}

// TestTheCacheIsOnePage: a list of the cache has a token and no next page.
func TestTheCacheIsOnePage(t *testing.T) {
	h := handlersOf(t, &v1alpha1.ServiceTypePolicy{})
	h.inventory = eightCards{}
	h.cached = cachedReader{h.live}

	done := make(chan error, 1)
	go func() {
		_, err := h.validateCardQuota(t.Context(), grantingEight("a", v1alpha1.OverAllocationWarn), nil)
		done <- err
	}()

	select {
	case err := <-done:
		check.NoError(t, err)
	case <-time.After(20 * time.Second):
		t.Fatal("the list never ends")
	}
}

// TestAllPagesAreReadLive: an API server sends a page at a time.
func TestAllPagesAreReadLive(t *testing.T) {
	pages := 0
	paged := pagingReader{next: func(list client.ObjectList) {
		pages++
		quotas := list.(*v1alpha1.CardQuotaList)
		quotas.Items = []v1alpha1.CardQuota{*grantingEight(fmt.Sprint("page-", pages), v1alpha1.OverAllocationWarn)}
		if pages < 3 {
			quotas.SetContinue("more")
		}
	}}

	var names []string
	check.NoError(t, listPages(t.Context(), paged, true, func(list *v1alpha1.CardQuotaList) {
		for i := range list.Items {
			names = append(names, list.Items[i].Name)
		}
	}))
	check.Equal(t, "CardQuotas", []string{"page-1", "page-2", "page-3"}, names)
}

// pagingReader fills each list again.
type pagingReader struct {
	client.Reader
	next func(client.ObjectList)
}

func (p pagingReader) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	p.next(list)
	return nil
}
