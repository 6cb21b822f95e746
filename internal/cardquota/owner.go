package cardquota

import (
	"cmp"
	"slices"

	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
)

// QueueOwner returns which of all CardQuotas for one queue owns it: the oldest, then the
// first by name, nil for none. A CardQuota that is being deleted owns its queue until it is
// gone.
func QueueOwner(candidates []*v1alpha1.CardQuota) *v1alpha1.CardQuota {
	if len(candidates) == 0 {
		return nil
	}
	return slices.MinFunc(candidates, compareOwners)
}

// OwnersByQueue returns the CardQuota that owns each queue.
func OwnersByQueue(quotas []*v1alpha1.CardQuota) map[string]*v1alpha1.CardQuota {
	owners := make(map[string]*v1alpha1.CardQuota, len(quotas))
	for _, q := range quotas {
		name := q.QueueName()
		if owner := owners[name]; owner == nil || compareOwners(q, owner) < 0 {
			owners[name] = q
		}
	}
	return owners
}

// compareOwners puts the owner of a queue before other CardQuotas for it.
func compareOwners(a, b *v1alpha1.CardQuota) int {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
}

// NextOwner returns which of all CardQuotas for one queue owns it after the given one is
// deleted, nil for none.
func NextOwner(deleted *v1alpha1.CardQuota, candidates []*v1alpha1.CardQuota) *v1alpha1.CardQuota {
	return QueueOwner(slices.DeleteFunc(slices.Clone(candidates), func(c *v1alpha1.CardQuota) bool {
		return c.Name == deleted.Name || c.DeletionTimestamp != nil
	}))
}

// ServiceTypesByQueue returns the service type of each queue with a Queue or a CardQuota: that of its
// CardQuota, else its own annotation, "" for none.
func ServiceTypesByQueue(owners map[string]*v1alpha1.CardQuota, queues []*v1beta1.Queue) map[string]string {
	types := make(map[string]string, len(queues))
	for _, queue := range queues {
		types[queue.Name] = queue.Annotations[v1alpha1.AnnotationServiceType]
	}
	for queue, owner := range owners {
		types[queue] = owner.Spec.ServiceType
	}
	return types
}

// QuotaOf returns the quota that a CardQuota grants while queues are flat. A parent grants
// nothing, since its children have their own quotas. A card without a quota would inherit it
// in a tree; here its queue gets what it deserves.
func QuotaOf(quota *v1alpha1.CardQuota) card.Quota {
	out := make(card.Quota, len(quota.Spec.Cards))
	if quota.Spec.ServiceType == "" {
		return out
	}
	for _, c := range quota.Spec.Cards {
		if count := cmp.Or(c.Quota, c.Deserved); count != nil {
			out[card.Name(c.Name)] = card.Count(*count)
		}
	}
	return out
}
