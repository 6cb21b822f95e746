package quotausage

import (
	"fmt"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/seed"
)

func quota(name, tenant, parent string, inTree bool) *v1alpha1.CardQuota {
	b := builder.CardQuota(name).Tenant(tenant).Parent(parent)
	if inTree {
		b.Condition(v1alpha1.ConditionHierarchyValid, metav1.ConditionTrue, v1alpha1.ReasonHierarchyValid, "ok")
	}
	return b.Obj()
}

func namesOf(list List) []string {
	var names []string
	for _, usage := range list.Items {
		names = append(names, fmt.Sprintf("%d %s", usage.Level, usage.Name))
	}
	return names
}

func TestOrder(t *testing.T) {
	flat := []*v1alpha1.CardQuota{quota("b", "x", "", false), quota("a", "y", "b", false), quota("c", "x", "", false)}
	tree := []*v1alpha1.CardQuota{quota("leaf", "x", "mid", true), quota("other", "a", "", true), quota("mid", "x", "top", true), quota("top", "x", "", true)}
	early := []*v1alpha1.CardQuota{quota("leaf", "a", "mid", true), quota("mid", "x", "top", true), quota("top", "x", "", true)}
	cycle := []*v1alpha1.CardQuota{quota("a", "x", "b", true), quota("b", "x", "a", true)}

	orphan := []*v1alpha1.CardQuota{quota("a", "x", "gone", true)}
	for t, tc := range check.Cases(t, map[string]struct {
		quotas        []*v1alpha1.CardQuota
		names         []string
		want, missing []string
	}{
		"flat: by tenant, a parent has no effect": {flat, nil, []string{"0 b", "0 c", "0 a"}, nil},
		"a tree":                                {tree, nil, []string{"0 other", "0 top", "1 mid", "2 leaf"}, nil},
		"what is below a parent":                {tree, []string{"mid"}, []string{"0 mid", "1 leaf"}, nil},
		"a parent and its child":                {tree, []string{"mid", "leaf"}, []string{"0 mid", "1 leaf"}, nil},
		"the child is sorted first":             {early, []string{"top", "leaf"}, []string{"0 top", "1 mid", "2 leaf"}, nil},
		"both of a cycle":                       {cycle, []string{"b", "a"}, []string{"0 a", "1 b"}, nil},
		"one below a cycle":                     {append(cycle, quota("c", "x", "a", true)), []string{"c"}, []string{"0 c"}, nil},
		"flat: a parent has no effect on names": {flat, []string{"a", "b"}, []string{"0 b", "0 a"}, nil},
		"a cycle":                               {cycle, nil, []string{"0 a", "1 b"}, nil},
		"a missing parent":                      {orphan, nil, []string{"0 a"}, nil},
		"a missing name":                        {flat, []string{"a", "z"}, []string{"0 a"}, []string{"z"}},
	}) {
		list, missing := NewList(tc.quotas, tc.names...)
		check.Equal(t, "order", tc.want, namesOf(list))
		check.Equal(t, "missing", tc.missing, missing)
	}
}

// Whatever the parents are, every CardQuota is shown once.
func TestEveryCardQuotaIsShownOnce(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		names := []string{"a", "b", "c", "d", "e"}
		var quotas []*v1alpha1.CardQuota
		for _, name := range names {
			parent := rapid.SampledFrom(append(names, "", "gone")).Draw(t, "parent of "+name)
			quotas = append(quotas, quota(name, rapid.SampledFrom([]string{"x", "y"}).Draw(t, "tenant"), parent, true))
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

func TestQuotasBeforeTheFirstCount(t *testing.T) {
	q := quota("a", "x", "", false)
	three := int64(3)
	two := int64(2)
	q.Spec.Cards = []v1alpha1.Card{{Name: "A", Quota: &three, Deserved: &two}, {Name: "B", Deserved: &two}, {Name: "C"}}
	list, _ := NewList([]*v1alpha1.CardQuota{q})
	check.Equal(t, "cards", []Card{{Name: "A", Quota: 3}, {Name: "B", Quota: 2}, {Name: "C"}}, list.Items[0].Cards)
	check.That(t, !list.Items[0].Counted && list.Items[0].Reason == "NotObserved", "it is %+v", list.Items[0])
}
