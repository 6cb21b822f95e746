package policy

import (
	"maps"
	"slices"
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

// TestOnlyOwnPriorityClassesAreReplaced: the operator creates the PriorityClasses that the policy lists. It
// replaces its own if their value is another one, and deletes its own that are not listed. It never touches
// those of other clients: a class is its own only if the operator itself has written the mark, as managed
// fields say. A class cannot be changed, so to replace it means to delete and create it. A listed class of
// another client with another value is a conflict. Helper class gets the name, the value, the mark and who
// wrote the mark: "cardquota" is the operator.
func TestOnlyOwnPriorityClassesAreReplaced(t *testing.T) {
	owner := &v1alpha1.ServiceTypePolicy{ObjectMeta: metav1.ObjectMeta{Name: "default", UID: "this"}}
	high := []v1alpha1.PriorityClass{{Name: "pc-high", Value: 80000}}
	for t, tc := range check.Cases(t, map[string]struct {
		wanted                    []v1alpha1.PriorityClass
		live                      []schedulingv1.PriorityClass
		create, delete, conflicts []string
	}{
		"listed, missing: created": {wanted: high, create: []string{"pc-high"}},
		"listed, our own has the value": {
			wanted: high,
			live:   []schedulingv1.PriorityClass{class("pc-high", 80000, "default", "cardquota")},
		},
		"listed, another client's has the value": {wanted: high, live: []schedulingv1.PriorityClass{class("pc-high", 80000, "", "")}},
		"listed, another client's has another value: a conflict": {
			wanted:    high,
			live:      []schedulingv1.PriorityClass{class("pc-high", 5, "", "")},
			conflicts: []string{"pc-high"},
		},
		"listed, our own has another value: replaced": {
			wanted: high,
			live:   []schedulingv1.PriorityClass{class("pc-high", 5, "default", "cardquota")},
			create: []string{"pc-high"},
			delete: []string{"pc-high"},
		},
		"not listed, our own: deleted": {
			live:   []schedulingv1.PriorityClass{class("pc-high", 80000, "default", "cardquota")},
			delete: []string{"pc-high"},
		},
		"not listed, another client's": {live: []schedulingv1.PriorityClass{class("gold", 80000, "", "")}},
		"not listed, another client's with a copy of our mark": {
			live: []schedulingv1.PriorityClass{class("gold", 80000, "default", "kubectl-create")},
		},
		"listed, another client's with a copy of our mark and another value: a conflict": {
			wanted:    high,
			live:      []schedulingv1.PriorityClass{class("pc-high", 5, "default", "kubectl-create")},
			conflicts: []string{"pc-high"},
		},
	}) {
		plan := PlanPriorityClasses(owner, tc.wanted, tc.live)
		var create, deleted []string
		for _, c := range plan.Create {
			create = append(create, c.Name)
			check.Equal(t, "value", 80000, c.Value)
			check.Equal(t, "mark", "default", c.Annotations["cardquota.dev/created-by"])
			check.Must(t, len(c.OwnerReferences) == 1, "owners %v", c.OwnerReferences)
			check.Equal(t, "owner", "ServiceTypePolicy this", c.OwnerReferences[0].Kind+" "+string(c.OwnerReferences[0].UID))
		}

		for _, c := range plan.Delete {
			deleted = append(deleted, c.Name)
		}

		check.Equal(t, "created", tc.create, create)
		check.Equal(t, "deleted", tc.delete, deleted)
		check.Equal(t, "conflicts", tc.conflicts, slices.Collect(maps.Keys(plan.Conflicts)))
	}

	conflict := PlanPriorityClasses(owner, high, []schedulingv1.PriorityClass{class("pc-high", 5, "", "")}).Conflicts["pc-high"]
	check.Equal(t, "text of a conflict", "PriorityClass pc-high has value 5 and was not created by the operator, and this policy says 80000: "+
		"it is left as it is; delete it or write 5 here", conflict)
}
