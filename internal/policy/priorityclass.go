package policy

import (
	"bytes"
	"fmt"
	"slices"

	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"cardquota.dev/operator/api/v1alpha1"
)

// PriorityClassPlan has the changes of PriorityClasses that a policy needs.
type PriorityClassPlan struct {
	Create []*schedulingv1.PriorityClass
	// Delete are those that the operator created and that the policy no longer has, or has with
	// another value. The value of a PriorityClass is immutable, so the operator creates it
	// again. Pods keep the number they have.
	Delete []*schedulingv1.PriorityClass
	// Conflicts has a message by name for PriorityClasses that the operator did not create
	// and whose value differs from the policy.
	Conflicts map[string]string
}

// PlanPriorityClasses compares the PriorityClasses that an effective spec wants with those in the cluster,
// and returns which to create and to delete. It never deletes one that the operator did not create: another
// value there is a conflict. The policy owns those that it creates.
func PlanPriorityClasses(owner *v1alpha1.ServiceTypePolicy, wanted []v1alpha1.PriorityClass, live []schedulingv1.PriorityClass) PriorityClassPlan {
	plan := PriorityClassPlan{Conflicts: map[string]string{}}
	unmet := slices.Clone(wanted) // those that no class in the cluster has met so far
	for i := range live {
		class := &live[i]
		at := slices.IndexFunc(unmet, func(w v1alpha1.PriorityClass) bool { return w.Name == class.Name })
		switch {
		case at < 0:
			if CreatedByOperator(class) {
				plan.Delete = append(plan.Delete, class)
			}
			continue
		case unmet[at].Value == class.Value: // the policy has it, also if a user created it
		// It stays unmet, so it is also created again: the value of a PriorityClass is immutable.
		case CreatedByOperator(class):
			plan.Delete = append(plan.Delete, class)
			continue
		default:
			plan.Conflicts[class.Name] = fmt.Sprintf("PriorityClass %s has value %d and was not created by the operator, and this policy says %d: it is left as it is; delete it or write %d here",
				class.Name, class.Value, unmet[at].Value, class.Value)
		}

		unmet = slices.Delete(unmet, at, at+1)
	}

	for _, w := range unmet {
		plan.Create = append(plan.Create, &schedulingv1.PriorityClass{
			ObjectMeta: metav1.ObjectMeta{Name: w.Name, Annotations: map[string]string{v1alpha1.AnnotationCreatedBy: v1alpha1.PolicyName}, OwnerReferences: []metav1.OwnerReference{{
				APIVersion: v1alpha1.GroupVersion.String(), Kind: "ServiceTypePolicy", Name: owner.Name, UID: owner.UID,
			}}},
			Value:       w.Value,
			Description: fmt.Sprintf("Created for ServiceTypePolicy %s and deleted with it.", v1alpha1.PolicyName),
		})
	}

	return plan
}

// CreatedByOperator reports whether the operator created the object for a policy. The
// annotation alone is no proof: a user may have copied it.
func CreatedByOperator(object metav1.Object) bool {
	return object.GetAnnotations()[v1alpha1.AnnotationCreatedBy] != "" && OwnedByOperator(object, "metadata", "annotations", v1alpha1.AnnotationCreatedBy)
}

// OwnedByOperator reports whether the operator wrote the current value of a field.
func OwnedByOperator(object metav1.Object, field ...any) bool {
	return slices.ContainsFunc(object.GetManagedFields(), func(e metav1.ManagedFieldsEntry) bool {
		return e.Manager == v1alpha1.FieldManager && ownsField(e, field...)
	})
}

// ownsField reports whether a field belongs to an entry. An invalid entry owns nothing.
func ownsField(entry metav1.ManagedFieldsEntry, field ...any) bool {
	if entry.FieldsV1 == nil {
		return false
	}
	var set fieldpath.Set
	if err := set.FromJSON(bytes.NewReader(entry.FieldsV1.Raw)); err != nil {
		return false
	}
	return set.Has(fieldpath.MakePathOrDie(field...))
}
