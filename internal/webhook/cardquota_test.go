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

// eightCards is an inventory of 8 healthy cards A.
type eightCards struct{ noCards }

func (eightCards) Healthy() map[card.Name]card.Count { return map[card.Name]card.Count{"A": 8} }

// newQuotaOf8A returns a CardQuota of 8 cards A.
func newQuotaOf8A(name string, policy v1alpha1.OverAllocation) *v1alpha1.CardQuota {
	return &v1alpha1.CardQuota{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.CardQuotaSpec{
		Tenant: name, ServiceType: "training", NamespaceSelector: &metav1.LabelSelector{}, OverAllocation: policy,
		Cards: []v1alpha1.Card{{Name: "A", Quota: ptr.To(int64(8))}},
	}}
}

// newHandlersWithLateCache returns handlers whose API server has one object more, or another version of it, than the cache.
func newHandlersWithLateCache(t *testing.T, build func(*testing.T) *handlers, stored client.Object) *handlers {
	h := build(t)
	fresh := build(t).cached.(client.Client)
	_ = fresh.Delete(t.Context(), stored.DeepCopyObject().(client.Object))
	check.NoError(t, fresh.Create(t.Context(), stored))
	h.live = fresh
	return h
}

// TestDenyCountsWhatTheCacheDoesNotHaveYet: a CardQuota with overAllocation Deny is refused if all CardQuotas together grant
// more cards than the nodes have, here 8 A. The second CardQuota of one kubectl apply follows the first one within
// milliseconds, before the cache has the first one. So the webhook reads all CardQuotas from the API server, where "first"
// has 8 A. CardQuota "second" wants 8 A more. It is refused only with Deny, and only if it wants more than before.
func TestDenyCountsWhatTheCacheDoesNotHaveYet(t *testing.T) {
	newHandlersOf8A := func(t *testing.T) *handlers {
		webhooks := newHandlers(t, &v1alpha1.ServiceTypePolicy{})
		webhooks.inventory = eightCards{}
		return webhooks
	}

	for t, tc := range check.Cases(t, map[string]struct {
		before       *v1alpha1.CardQuota
		policy       v1alpha1.OverAllocation
		wantRefusals int
	}{
		"a new CardQuota with Deny: refused": {policy: v1alpha1.OverAllocationDeny, wantRefusals: 1},
		"a CardQuota that changes from Warn to Deny, and has 8 A as before": {
			before: newQuotaOf8A("second", v1alpha1.OverAllocationWarn),
			policy: v1alpha1.OverAllocationDeny,
		},
		"a new CardQuota with Allow": {policy: v1alpha1.OverAllocationAllow},
		"a new CardQuota with Warn":  {policy: v1alpha1.OverAllocationWarn},
	}) {
		webhooks := newHandlersWithLateCache(t, newHandlersOf8A, newQuotaOf8A("first", v1alpha1.OverAllocationDeny))
		result := check.Value(webhooks.validateCardQuota(t.Context(), newQuotaOf8A("second", tc.policy), tc.before))(t)
		check.Equal(t, "refusals", tc.wantRefusals, len(result.Errors))
	}
}

// TestRaisedParentCountsBeforeTheCacheHasIt: a user raises parent chat from 8 to 16 cards and then its child search.
// Before the webhook refuses the child, it reads the parent from the API server, because the cache still has the old
// one. So search may have 16 cards, but not 17.
func TestRaisedParentCountsBeforeTheCacheHasIt(t *testing.T) {
	newTree := func(t *testing.T) *handlers { return newTreeHandlers(t, v1alpha1.QueueHierarchyTree) }
	webhooks := newHandlersWithLateCache(t, newTree, newTreeQuota("chat", "", 16))

	for quota, wantRefusals := range map[int64]int{16: 0, 17: 1} {
		result := check.Value(webhooks.validateCardQuota(t.Context(), newTreeQuota("search", "chat", quota), newTreeQuota("search", "chat", 8)))(t)
		check.Equal(t, fmt.Sprintf("refusals of child search with %d cards", quota), wantRefusals, len(result.Errors))
	}
}

// TestNewServiceTypeCountsBeforeTheCacheHasIt: a user adds service type batch to the policy and then a CardQuota with
// it. The cache still has the old policy. Before the webhook refuses the CardQuota, it reads the policy from the API
// server.
func TestNewServiceTypeCountsBeforeTheCacheHasIt(t *testing.T) {
	newFlat := func(t *testing.T) *handlers { return newHandlers(t, &v1alpha1.ServiceTypePolicy{}) }
	defined := &v1alpha1.ServiceTypePolicy{
		ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.PolicyName},
		Spec:       v1alpha1.ServiceTypePolicySpec{ServiceTypes: []v1alpha1.ServiceType{{Name: "batch"}}},
	}
	webhooks := newHandlersWithLateCache(t, newFlat, defined)

	quota := newQuotaOf8A("batch", v1alpha1.OverAllocationAllow)
	quota.Spec.ServiceType = "batch"

	check.Equal(t, "refusals", nil, check.Value(webhooks.validateCardQuota(t.Context(), quota, nil))(t).Errors)
}

// cachedReader lists as the cache does: everything, and a token with which nothing can be continued.
type cachedReader struct{ client.Reader }

func (c cachedReader) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	err := c.Reader.List(ctx, list, options...)
	list.SetContinue("continue-not-supported")
	return err
}

// TestListsOfTheCacheAreNotContinued: a list from the API server may have a token, with which the next page is read.
// The cache returns everything at once, and always a token with which nothing can be continued. If the webhook
// continued such a list, it would never end.
func TestListsOfTheCacheAreNotContinued(t *testing.T) {
	webhooks := newHandlers(t, &v1alpha1.ServiceTypePolicy{})
	webhooks.inventory = eightCards{}
	webhooks.cached = cachedReader{webhooks.live}

	done := make(chan error, 1)
	go func() {
		_, err := webhooks.validateCardQuota(t.Context(), newQuotaOf8A("a", v1alpha1.OverAllocationWarn), nil)
		done <- err
	}()

	select {
	case err := <-done:
		check.NoError(t, err)
	case <-time.After(20 * time.Second):
		t.Fatal("the list never ends")
	}
}

// TestAllPagesAreReadLive: the API server sends a long list in pages, here three with one CardQuota each. All of them count.
func TestAllPagesAreReadLive(t *testing.T) {
	pages := 0
	paged := pagingReader{next: func(list client.ObjectList) {
		pages++
		quotas := list.(*v1alpha1.CardQuotaList)
		quotas.Items = []v1alpha1.CardQuota{*newQuotaOf8A(fmt.Sprint("page-", pages), v1alpha1.OverAllocationWarn)}
		if pages < 3 {
			quotas.SetContinue("more")
		}
	}}

	var names []string
	const isLive = true // the list is one of the API server, not of the cache
	check.NoError(t, listPages(t.Context(), paged, isLive, func(list *v1alpha1.CardQuotaList) {
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
