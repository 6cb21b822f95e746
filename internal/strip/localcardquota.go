package strip

import (
	"cardquota.dev/operator/api/v1alpha1"
)

// maxOwners bounds the owners of a LocalCardQuota. The operator makes it with one, and deletes one that has
// more.
const maxOwners = 2

// LocalCardQuota returns what the operator reads of a LocalCardQuota. Where tenants may create some, they
// may keep those that the operator deletes, by a finalizer. Of a LocalCardQuota that the operator did not
// make only the name and the owners are kept, which its deletion needs.
func LocalCardQuota(view *v1alpha1.LocalCardQuota) *v1alpha1.LocalCardQuota {
	kept := &v1alpha1.LocalCardQuota{TypeMeta: view.TypeMeta, ObjectMeta: stripMeta(&view.ObjectMeta, nil, nil)}
	kept.OwnerReferences = nil // stripMeta keeps a controller only
	for i := range view.OwnerReferences[:min(len(view.OwnerReferences), maxOwners)] {
		kept.OwnerReferences = append(kept.OwnerReferences, stripOwner(&view.OwnerReferences[i]))
	}
	if isMadeByOperator(kept) {
		kept.Status = view.Status // only the operator writes it, within its schema
	}
	return kept
}

// isMadeByOperator reports whether a LocalCardQuota has the one owner that the operator writes.
func isMadeByOperator(view *v1alpha1.LocalCardQuota) bool {
	if len(view.OwnerReferences) != 1 {
		return false
	}
	owner := &view.OwnerReferences[0]
	return owner.Kind == "CardQuota" && owner.Name == view.Name
}
