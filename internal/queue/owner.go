package queue

import (
	"cmp"
	"slices"

	"cardquota.dev/operator/api/v1alpha1"
)

// Owner picks, of all CardQuotas for one queue, the one that has it: the
// oldest, of equally old ones the first by name. It returns nil for none. A
// CardQuota that is being deleted has its queue until it is gone.
func Owner(rivals []*v1alpha1.CardQuota) *v1alpha1.CardQuota {
	if len(rivals) == 0 {
		return nil
	}
	return slices.MinFunc(rivals, func(a, b *v1alpha1.CardQuota) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
}

// Successor picks, of all CardQuotas for one queue, the one that will have it
// when the given one is gone, nil for none.
func Successor(of *v1alpha1.CardQuota, rivals []*v1alpha1.CardQuota) *v1alpha1.CardQuota {
	return Owner(slices.DeleteFunc(slices.Clone(rivals), func(c *v1alpha1.CardQuota) bool {
		return c.Name == of.Name || c.DeletionTimestamp != nil
	}))
}
