package top

import (
	"fmt"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/seed"
)

// newFlatQuota is a CardQuota of flat queues, in which spec.parent has no effect.
func newFlatQuota(name, tenant, parent string) *v1alpha1.CardQuota {
	return builder.CardQuota(name).Tenant(tenant).Parent(parent).Obj()
}

// newTreeQuota is a CardQuota of a tree of queues. Only there the operator sets HierarchyValid.
func newTreeQuota(name, tenant, parent string) *v1alpha1.CardQuota {
	b := builder.CardQuota(name).Tenant(tenant).Parent(parent)
	return b.Condition(v1alpha1.ConditionHierarchyValid, metav1.ConditionTrue, v1alpha1.ReasonHierarchyValid, "ok").Obj()
}

// TestCardQuotasAreListedByTenantOrAsATree: flat CardQuotas are in the order of tenant and name. In a tree each
// child stands below its parent, one level deeper. If the user names some, the list has each of them with all that is
// below it, once. In a cycle none is above the others. A cycle and a missing parent do not hide a CardQuota. Each
// wanted entry is the level and the name.
func TestCardQuotasAreListedByTenantOrAsATree(t *testing.T) {
	flat := []*v1alpha1.CardQuota{newFlatQuota("b", "x", ""), newFlatQuota("a", "y", "b"), newFlatQuota("c", "x", "")}
	tree := []*v1alpha1.CardQuota{
		newTreeQuota("leaf", "x", "middle"),
		newTreeQuota("other", "a", ""),
		newTreeQuota("middle", "x", "top"),
		newTreeQuota("top", "x", ""),
	}
	// By its tenant, the leaf would be listed before its parents.
	leafOfFirstTenant := []*v1alpha1.CardQuota{
		newTreeQuota("leaf", "a", "middle"),
		newTreeQuota("middle", "x", "top"),
		newTreeQuota("top", "x", ""),
	}
	cycle := []*v1alpha1.CardQuota{newTreeQuota("a", "x", "b"), newTreeQuota("b", "x", "a")}
	orphan := []*v1alpha1.CardQuota{newTreeQuota("a", "x", "gone")}

	for t, tc := range check.Cases(t, map[string]struct {
		quotas            []*v1alpha1.CardQuota
		names             []string // that the user wrote, all if empty
		want, wantMissing []string
	}{
		"flat, of tenants x and y":                {flat, nil, []string{"0 b", "0 c", "0 a"}, nil},
		"flat, a is named with its parent b":      {flat, []string{"a", "b"}, []string{"0 b", "0 a"}, nil},
		"flat, a is named and a missing one":      {flat, []string{"a", "z"}, []string{"0 a"}, []string{"z"}},
		"a tree of three levels beside a root":    {tree, nil, []string{"0 other", "0 top", "1 middle", "2 leaf"}, nil},
		"a parent is named: its leaf too":         {tree, []string{"middle"}, []string{"0 middle", "1 leaf"}, nil},
		"a parent and its leaf are named":         {tree, []string{"middle", "leaf"}, []string{"0 middle", "1 leaf"}, nil},
		"the root and a leaf of the first tenant": {leafOfFirstTenant, []string{"top", "leaf"}, []string{"0 top", "1 middle", "2 leaf"}, nil},
		"a and b are parents of each other":       {cycle, nil, []string{"0 a", "0 b"}, nil},
		"both of the cycle are named":             {cycle, []string{"b", "a"}, []string{"0 a", "0 b"}, nil},
		"a child of the cycle is named":           {append(cycle, newTreeQuota("c", "x", "a")), []string{"c"}, []string{"0 c"}, nil},
		"a of the cycle is named: its child too":  {append(cycle, newTreeQuota("c", "x", "a")), []string{"a"}, []string{"0 a", "1 c"}, nil},
		"the parent does not exist":               {orphan, nil, []string{"0 a"}, nil},
	}) {
		list, missing := NewList(tc.quotas, tc.names...)
		var got []string
		for _, usage := range list.Items {
			got = append(got, fmt.Sprintf("%d %s", usage.Level, usage.Name))
		}
		check.Equal(t, "list", tc.want, got)
		check.Equal(t, "missing names", tc.wantMissing, missing)
	}
}

// TestEveryCardQuotaIsShownOnce: the parents of five CardQuotas are random, also themselves and a missing one, in one
// or two tenants. Whatever cycles that makes, the list has each CardQuota once.
func TestEveryCardQuotaIsShownOnce(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		names := []string{"a", "b", "c", "d", "e"}
		var quotas []*v1alpha1.CardQuota
		for _, name := range names {
			parent := rapid.SampledFrom(append(names, "", "gone")).Draw(t, "parent of "+name)
			quotas = append(quotas, newTreeQuota(name, rapid.SampledFrom([]string{"x", "y"}).Draw(t, "tenant"), parent))
		}

		list, _ := NewList(quotas)
		var shown []string
		for _, usage := range list.Items {
			shown = append(shown, usage.Name)
		}
		slices.Sort(shown)
		check.Equal(t, "shown", names, shown)
	})
}

// TestANewCardQuotaShowsItsSpec: before the operator has counted, the list shows the cards of the spec: the quota,
// which is by default what the queue deserves, or 0. Reason NotObserved says that nothing is counted yet.
func TestANewCardQuotaShowsItsSpec(t *testing.T) {
	isNew := newFlatQuota("a", "x", "")
	isNew.Spec.Cards = []v1alpha1.Card{
		{Name: "A", Quota: ptr.To(int64(3)), Deserved: ptr.To(int64(2))},
		{Name: "B", Deserved: ptr.To(int64(2))},
		{Name: "C"},
	}

	list, _ := NewList([]*v1alpha1.CardQuota{isNew})
	check.Equal(t, "cards", []Card{{Name: "A", Quota: 3}, {Name: "B", Quota: 2}, {Name: "C"}}, list.Items[0].Cards)
	check.That(t, !list.Items[0].Counted, "the cards are counted")
	check.Equal(t, "reason", "NotObserved", list.Items[0].Reason)
}
