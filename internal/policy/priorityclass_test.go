package policy

import (
	"testing"

	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/testing/check"
)

const marked = `{"f:metadata":{"f:annotations":{".":{},"f:cardquota.dev/created-by":{}}}}`

// class is a PriorityClass whose mark, if any, the manager wrote.
func class(name string, value int32, mark, manager string) schedulingv1.PriorityClass {
	c := schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Value: value}
	if mark != "" {
		c.Annotations = map[string]string{"cardquota.dev/created-by": mark}
		c.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: manager, FieldsType: "FieldsV1", FieldsV1: &metav1.FieldsV1{Raw: []byte(marked)}}}
	}
	return c
}

func TestPlanPriorityClasses(t *testing.T) {
	owner := &v1alpha1.ServiceTypePolicy{ObjectMeta: metav1.ObjectMeta{Name: "default", UID: "this"}}
	high := []v1alpha1.PriorityClass{{Name: "pc-high", Value: 80000}}
	cases := map[string]struct {
		wanted                []v1alpha1.PriorityClass
		live                  []schedulingv1.PriorityClass
		create, deleted, kept []string
	}{
		"a missing one is made":                      {wanted: high, create: []string{"pc-high"}},
		"ours is there":                              {wanted: high, live: []schedulingv1.PriorityClass{class("pc-high", 80000, "default", "cardquota")}},
		"another client's of the same value is kept": {wanted: high, live: []schedulingv1.PriorityClass{class("pc-high", 80000, "", "")}},
		"another client's of another value is kept":  {wanted: high, live: []schedulingv1.PriorityClass{class("pc-high", 5, "", "")}, kept: []string{"pc-high"}},
		"ours of another value is replaced":          {wanted: high, live: []schedulingv1.PriorityClass{class("pc-high", 5, "default", "cardquota")}, create: []string{"pc-high"}, deleted: []string{"pc-high"}},
		"ours that is not wanted any more goes":      {live: []schedulingv1.PriorityClass{class("pc-high", 80000, "default", "cardquota")}, deleted: []string{"pc-high"}},
		"another client's that is not wanted stays":  {live: []schedulingv1.PriorityClass{class("gold", 80000, "", "")}},
		"a copied label does not make it ours":       {live: []schedulingv1.PriorityClass{class("gold", 80000, "default", "kubectl-create")}},
		"a copied mark on a wanted one":              {wanted: high, live: []schedulingv1.PriorityClass{class("pc-high", 5, "default", "kubectl-create")}, kept: []string{"pc-high"}},
	}

	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			plan := PlanPriorityClasses(owner, tc.wanted, tc.live)
			var create, deleted, kept []string
			for _, c := range plan.Create {
				create = append(create, c.Name)
				check.That(t, c.Value == 80000 && c.Annotations["cardquota.dev/created-by"] == "default", "made as %+v", c)
				check.That(t, len(c.OwnerReferences) == 1 && c.OwnerReferences[0].UID == "this" && c.OwnerReferences[0].Kind == "ServiceTypePolicy", "it belongs to %v", c.OwnerReferences)
			}

			for _, c := range plan.Delete {
				deleted = append(deleted, c.Name)
			}
			for name := range plan.Conflicts {
				kept = append(kept, name)
			}

			check.Equal(t, "made, deleted, kept", [][]string{tc.create, tc.deleted, tc.kept}, [][]string{create, deleted, kept})
		})
	}

	kept := PlanPriorityClasses(owner, high, []schedulingv1.PriorityClass{class("pc-high", 5, "", "")}).Conflicts["pc-high"]
	want := "PriorityClass pc-high has value 5 and was not created by the operator, and this policy says 80000: it is left as it is; delete it or write 5 here"
	check.That(t, kept == want, "got\n%s\nwant\n%s", kept, want)
}
