package cardquota

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/workload"
)

// QuotaTotals compares, per card name, what all CardQuotas grant with the healthy cards of
// the cluster. It is immutable.
type QuotaTotals struct {
	healthy map[card.Name]card.Count
	// grants are by card and queue. A CardQuota that waits for its queue or is being
	// deleted grants nothing. A Queue without a CardQuota grants the quota in its
	// annotation.
	grants map[card.Name]map[string]Grant
	totals map[card.Name]card.Count
	// isTree reports whether only CardQuotas at the top level grant cards.
	isTree bool
}

// Grant is what one CardQuota, or a Queue without a CardQuota, grants of a card.
type Grant struct {
	// By is the name of the CardQuota, or a description of the Queue.
	By    string
	Count card.Count
}

// TopLevelQueues returns the Queues directly under root. In a tree only they grant cards.
func TopLevelQueues(queues []*v1beta1.Queue) []*v1beta1.Queue {
	return slices.DeleteFunc(slices.Clone(queues), func(q *v1beta1.Queue) bool {
		return q.Spec.Parent != "" && q.Spec.Parent != workload.RootQueue
	})
}

// UnownedQuotas returns the quotas of Queues without a CardQuota. They were retained, or
// written by hand, and the scheduler enforces them.
func UnownedQuotas(quotas []*v1alpha1.CardQuota, queues []*v1beta1.Queue) map[string]card.Quota {
	owned := make(map[string]bool, len(quotas))
	for _, quota := range quotas {
		owned[quota.QueueName()] = true
	}
	out := map[string]card.Quota{}
	for _, q := range queues {
		if text, written := q.Annotations[v1alpha1.AnnotationCardQuota]; written && !owned[q.Name] {
			if quota, err := card.ParseQuota(text); err == nil && len(quota) > 0 {
				out[q.Name] = quota
			}
		}
	}
	return out
}

// NewQuotaTotals compares all CardQuotas of the cluster, and the result of UnownedQuotas,
// with its healthy cards.
func NewQuotaTotals(quotas []*v1alpha1.CardQuota, unowned map[string]card.Quota, healthy map[card.Name]card.Count) *QuotaTotals {
	return newQuotaTotals(quotas, unowned, healthy, false)
}

// NewTreeTotals is NewQuotaTotals of a tree. Only CardQuotas at the top level count, because
// their quotas contain those below.
func NewTreeTotals(quotas []*v1alpha1.CardQuota, unowned map[string]card.Quota, healthy map[card.Name]card.Count) *QuotaTotals {
	return newQuotaTotals(quotas, unowned, healthy, true)
}

func newQuotaTotals(quotas []*v1alpha1.CardQuota, unowned map[string]card.Quota, healthy map[card.Name]card.Count, isTree bool) *QuotaTotals {
	candidates := map[string][]*v1alpha1.CardQuota{}
	for _, quota := range quotas {
		if quota.DeletionTimestamp == nil {
			candidates[quota.QueueName()] = append(candidates[quota.QueueName()], quota)
		}
	}
	b := &QuotaTotals{healthy: healthy, grants: map[card.Name]map[string]Grant{}, totals: map[card.Name]card.Count{}, isTree: isTree}
	for name, all := range candidates {
		owner := QueueOwner(all)
		b.addGrants(name, owner.Name, b.grantedBy(owner))
	}
	for name, quota := range unowned {
		b.addGrants(name, "queue "+name+", which has no CardQuota", quota)
	}
	return b
}

// grantedBy returns what a CardQuota grants beyond those that contain it.
func (q *QuotaTotals) grantedBy(quota *v1alpha1.CardQuota) card.Quota {
	switch {
	case !q.isTree:
		return QuotaOf(quota)
	case quota.Spec.Parent != "":
		return nil
	default:
		return cardsOf(TreeQueueFor(quota).Quota)
	}
}

func (q *QuotaTotals) addGrants(queue, by string, quota card.Quota) {
	for name, count := range quota {
		if q.grants[name] == nil {
			q.grants[name] = map[string]Grant{}
		}
		q.grants[name][queue] = Grant{by, count}
		q.totals[name] = q.totals[name].Add(count)
	}
}

// ChangedQueues returns, sorted, the queues whose condition InventorySatisfied may have
// changed. They grant a card that is or was over-allocated and whose numbers changed.
// turned reports whether a card became over-allocated or stopped being so. It is also true
// if the number of healthy cards changed.
func (q *QuotaTotals) ChangedQueues(before *QuotaTotals) (queues []string, turned bool) {
	moved := map[string]bool{}
	for _, side := range []*QuotaTotals{before, q} {
		for name := range side.grants {
			cards := before.healthy[name] != q.healthy[name]
			was, is := before.totals[name] > before.healthy[name], q.totals[name] > q.healthy[name]
			turned = turned || cards || was != is
			if !was && !is || !cards && maps.Equal(before.grants[name], q.grants[name]) {
				continue
			}
			for queue := range side.grants[name] {
				moved[queue] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(moved)), turned
}

// OverAllocatedCard is a card of which all CardQuotas together grant more than the healthy
// cards.
type OverAllocatedCard struct {
	Card card.Name
	// Quota is what this CardQuota grants, Granted what all CardQuotas grant together, and
	// Healthy the number of healthy cards.
	Quota, Granted, Healthy card.Count
	// Others are the grants of other CardQuotas, the largest first, then by name.
	Others []Grant
}

// Excess returns how many cards too many are granted.
func (o OverAllocatedCard) Excess() card.Count { return o.Granted.Sub(o.Healthy) }

// OverAllocated returns, sorted, the over-allocated cards that a CardQuota grants. The
// given CardQuota replaces the one that owns the same queue in the totals.
func (q *QuotaTotals) OverAllocated(quota *v1alpha1.CardQuota) []OverAllocatedCard {
	if quota.DeletionTimestamp != nil {
		return nil
	}
	var found []OverAllocatedCard
	for name, count := range q.grantedBy(quota) {
		others := q.totals[name].Sub(q.grants[name][quota.QueueName()].Count)
		excess := OverAllocatedCard{Card: name, Quota: count, Granted: others.Add(count), Healthy: q.healthy[name]}
		if count > 0 && excess.Excess() > 0 {
			excess.Others = q.otherGrants(name, quota.QueueName())
			found = append(found, excess)
		}
	}
	slices.SortFunc(found, func(x, y OverAllocatedCard) int { return cmp.Compare(x.Card, y.Card) })
	return found
}

// otherGrants returns the grants of a card by other queues, the largest first.
func (q *QuotaTotals) otherGrants(name card.Name, except string) []Grant {
	var others []Grant
	for queue, grant := range q.grants[name] {
		if queue != except && grant.Count > 0 {
			others = append(others, grant)
		}
	}
	slices.SortFunc(others, func(x, y Grant) int {
		return cmp.Or(cmp.Compare(y.Count, x.Count), cmp.Compare(x.By, y.By))
	})
	return others
}

// Denied returns the cards for which overAllocation Deny refuses a new or changed
// CardQuota: over-allocated cards whose quota is new or raised. before is nil for a new
// CardQuota. An existing quota may always stay or be lowered.
func (q *QuotaTotals) Denied(before, after *v1alpha1.CardQuota) []OverAllocatedCard {
	if after.Spec.OverAllocation != v1alpha1.OverAllocationDeny {
		return nil
	}
	var had card.Quota
	if before != nil {
		had = q.grantedBy(before)
	}
	return slices.DeleteFunc(q.OverAllocated(after), func(e OverAllocatedCard) bool { return e.Quota <= had[e.Card] })
}

// maxNamedGrants is the number of other CardQuotas that a message names.
const maxNamedGrants = 3

// String returns one clause, such as "NVIDIA-H200: 12 granted, 8 healthy, 4 too many (6
// here, 4 by search, 2 by ads)".
func (o OverAllocatedCard) String() string {
	parts := []string{fmt.Sprintf("%d here", o.Quota)}
	for i, other := range o.Others {
		if i == maxNamedGrants {
			parts = append(parts, fmt.Sprintf("the rest by %d more", len(o.Others)-i))
			break
		}
		parts = append(parts, fmt.Sprintf("%d by %s", other.Count, other.By))
	}
	return fmt.Sprintf("%s: %d granted, %d healthy, %d too many (%s)", o.Card, o.Granted, o.Healthy, o.Excess(), strings.Join(parts, ", "))
}

// DescribeOverAllocation returns the clauses of several cards in one text.
func DescribeOverAllocation(excesses []OverAllocatedCard) string {
	texts := make([]string, len(excesses))
	for i, e := range excesses {
		texts[i] = e.String()
	}
	return strings.Join(texts, "; ")
}
