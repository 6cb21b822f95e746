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
	// largest are the largest grants of each card: as many as a message names, and one for the
	// queue that it is about. granting counts the queues that grant at least one.
	largest  map[card.Name][]queueGrant
	granting map[card.Name]int
	// allows are the cards that CardQuotas grant: whether all of these allow over-allocation.
	allows map[card.Name]bool
	// denying are, by card, the youngest CardQuota that grants it with overAllocation Deny.
	denying map[card.Name]*v1alpha1.CardQuota
	// tree is that of the CardQuotas: only those at its top level grant cards.
	tree *Tree
}

// Grant is what one CardQuota, or a Queue without a CardQuota, grants of a card.
type Grant struct {
	// By is the name of the CardQuota, or a description of the Queue.
	By    string
	Count card.Count
}

// queueGrant is a grant with its queue.
type queueGrant struct {
	Grant
	queue string
}

// TopLevelQueues returns the Queues directly under root. In a tree only they grant cards.
func TopLevelQueues(queues []*v1beta1.Queue) []*v1beta1.Queue {
	return slices.DeleteFunc(slices.Clone(queues), func(q *v1beta1.Queue) bool {
		return q.Spec.Parent != "" && q.Spec.Parent != workload.RootQueue
	})
}

// UnownedQuotas returns the quotas of Queues without a CardQuota. They were retained, or
// written by hand, and the scheduler enforces them. One that cannot be parsed grants nothing.
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

// QuotaTotals compares what all CardQuotas of the cluster grant, and Queues without one (unowned, the UnownedQuotas of
// GrantingQueues), with its healthy cards. If the queues are not flat, only CardQuotas at the top level count, because
// their quotas contain those below.
func (t *Tree) QuotaTotals(quotas []*v1alpha1.CardQuota, unowned map[string]card.Quota, healthy map[card.Name]card.Count) *QuotaTotals {
	isDeleted := func(q *v1alpha1.CardQuota) bool { return q.DeletionTimestamp != nil }
	all := &QuotaTotals{healthy: healthy, grants: map[card.Name]map[string]Grant{}, totals: map[card.Name]card.Count{},
		largest: map[card.Name][]queueGrant{}, granting: map[card.Name]int{}, allows: map[card.Name]bool{}, denying: map[card.Name]*v1alpha1.CardQuota{}, tree: t}

	for name, owner := range OwnersByQueue(slices.DeleteFunc(slices.Clone(quotas), isDeleted)) {
		granted := all.grantedBy(owner)
		all.addGrants(name, owner.Name, granted)
		all.addAllowance(granted, owner.Spec.OverAllocation == v1alpha1.OverAllocationAllow)
		if owner.Spec.OverAllocation == v1alpha1.OverAllocationDeny {
			all.addDenying(granted, owner)
		}
	}

	// Queues without a CardQuota use the same cards, so a sum without them would promise too
	// many.
	for name, quota := range unowned {
		all.addGrants(name, "queue "+name+", which has no CardQuota", quota)
	}

	return all
}

// GrantingQueues returns the Queues whose quotas are contained in no other: all, or those at the top level.
func (t *Tree) GrantingQueues(queues []*v1beta1.Queue) []*v1beta1.Queue {
	if t.IsFlat() {
		return queues
	}
	return TopLevelQueues(queues)
}

// grantedBy returns what a CardQuota adds to all that is granted: nothing below a parent, whose quota contains its own.
func (q *QuotaTotals) grantedBy(quota *v1alpha1.CardQuota) card.Quota {
	switch {
	case q.tree.IsFlat():
		return QuotaOf(quota)
	case quota.Spec.Parent != "":
		return nil
	default:
		return TreeQueueFor(quota).Quota.Cards()
	}
}

// Granted returns what all CardQuotas, and Queues without one, grant of each card. The caller must
// not change the map.
func (q *QuotaTotals) Granted() map[card.Name]card.Count {
	if q == nil {
		return nil
	}
	return q.totals
}

// addGrants adds what a queue grants. by is what messages call the CardQuota or the queue.
func (q *QuotaTotals) addGrants(queue, by string, quota card.Quota) {
	for name, count := range quota {
		if q.grants[name] == nil {
			q.grants[name] = map[string]Grant{}
		}
		q.grants[name][queue] = Grant{by, count}
		q.totals[name] = q.totals[name].Add(count)
		if count > 0 {
			q.granting[name]++
			q.largest[name] = insertGrant(q.largest[name], queueGrant{Grant{by, count}, queue})
		}
	}
}

// addAllowance adds whether a CardQuota allows over-allocation of what it grants. A card is allowed only if all
// CardQuotas that grant it allow it.
func (q *QuotaTotals) addAllowance(granted card.Quota, isAllowed bool) {
	for name, count := range granted {
		if count <= 0 {
			continue
		}
		if wasAllowed, known := q.allows[name]; !known || wasAllowed {
			q.allows[name] = isAllowed
		}
	}
}

// addDenying records a CardQuota with overAllocation Deny for each card of which it is the youngest one.
func (q *QuotaTotals) addDenying(granted card.Quota, quota *v1alpha1.CardQuota) {
	for name, count := range granted {
		youngest := q.denying[name]
		if count > 0 && (youngest == nil || isYounger(quota, youngest)) {
			q.denying[name] = quota
		}
	}
}

// isYounger reports whether a CardQuota was created after another one. Of two that were created in
// the same second the one with the later name counts as younger.
func isYounger(quota, other *v1alpha1.CardQuota) bool {
	created := quota.CreationTimestamp
	before := other.CreationTimestamp
	return before.Before(&created) || (before.Equal(&created) && quota.Name > other.Name)
}

// nameOf returns the name of a CardQuota, "" for none.
func nameOf(quota *v1alpha1.CardQuota) string {
	if quota == nil {
		return ""
	}
	return quota.Name
}

// AllowsOverAllocation reports whether every CardQuota that grants a card allows its over-allocation.
// It is false for a card that none grants.
func (q *QuotaTotals) AllowsOverAllocation(name card.Name) bool { return q != nil && q.allows[name] }

// insertGrant adds a grant to the largest ones, the largest first, then by name. It keeps one more than a
// message names, because a message leaves out the queue that it is about.
func insertGrant(largest []queueGrant, added queueGrant) []queueGrant {
	at, _ := slices.BinarySearchFunc(largest, added, func(x, y queueGrant) int {
		return cmp.Or(cmp.Compare(y.Count, x.Count), cmp.Compare(x.By, y.By))
	})
	if at > maxNamedGrants {
		return largest
	}
	return slices.Insert(largest[:min(len(largest), maxNamedGrants)], at, added)
}

// ChangedQueues returns, sorted, the queues whose condition InventorySatisfied may have
// changed. They grant a card that is or was over-allocated and whose numbers changed.
// turned reports whether a card became over-allocated or stopped being so. The youngest CardQuota that denies
// over-allocation counts with the numbers, because the messages name it.
func (q *QuotaTotals) ChangedQueues(before *QuotaTotals) (queues []string, turned bool) {
	changed := map[string]bool{}
	for _, side := range []*QuotaTotals{before, q} {
		// Both sides count: a card that only one of them grants has appeared or gone.
		for name := range side.grants {
			hasSameCards := before.healthy[name] == q.healthy[name]
			hasSameGrants := maps.Equal(before.grants[name], q.grants[name]) && nameOf(before.denying[name]) == nameOf(q.denying[name])
			was := before.totals[name] > before.healthy[name]
			is := q.totals[name] > q.healthy[name]
			turned = turned || was != is
			if (!was && !is) || (hasSameCards && hasSameGrants) {
				continue
			}

			for queue := range side.grants[name] {
				changed[queue] = true
			}
		}
	}

	return slices.Sorted(maps.Keys(changed)), turned
}

// OverAllocatedCard is a card of which all CardQuotas together grant more than the healthy
// cards.
type OverAllocatedCard struct {
	Card card.Name
	// Quota is what this CardQuota grants, Granted what all CardQuotas grant together, and
	// Healthy the number of healthy cards.
	Quota, Granted, Healthy card.Count
	// Others are the maxNamedGrants largest grants of other CardQuotas, the largest first, then by
	// name. MoreOthers counts the rest.
	Others     []Grant
	MoreOthers int
	// Youngest is the youngest CardQuota that grants the card with overAllocation Deny, "" for none.
	// Two requests at the same moment do not see each other, and then that one is too much.
	Youngest string
}

// Excess returns how many cards too many are granted.
func (o OverAllocatedCard) Excess() card.Count { return o.Granted.Sub(o.Healthy) }

// OverAllocated returns, sorted, the over-allocated cards that a CardQuota grants, none for one that is being
// deleted. The given CardQuota replaces the one that owns the same queue in the totals.
func (q *QuotaTotals) OverAllocated(quota *v1alpha1.CardQuota) []OverAllocatedCard {
	if quota.DeletionTimestamp != nil {
		return nil
	}

	var found []OverAllocatedCard
	for name, count := range q.grantedBy(quota) {
		// Admission asks about a changed CardQuota that the totals do not have yet.
		others := q.totals[name].Sub(q.grants[name][quota.QueueName()].Count)
		excess := OverAllocatedCard{Card: name, Quota: count, Granted: others.Add(count), Healthy: q.healthy[name]}
		if count > 0 && excess.Excess() > 0 {
			excess.Others, excess.MoreOthers = q.otherGrants(name, quota.QueueName())
			excess.Youngest = nameOf(q.denying[name])
			found = append(found, excess)
		}
	}

	slices.SortFunc(found, func(x, y OverAllocatedCard) int { return cmp.Compare(x.Card, y.Card) })
	return found
}

// otherGrants returns the largest grants of a card by other queues, and the number of the rest.
func (q *QuotaTotals) otherGrants(name card.Name, except string) (others []Grant, more int) {
	for _, grant := range q.largest[name] {
		if grant.queue != except && len(others) < maxNamedGrants {
			others = append(others, grant.Grant)
		}
	}
	more = q.granting[name] - len(others)
	if q.grants[name][except].Count > 0 {
		more--
	}
	return others, more
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
	for _, other := range o.Others {
		parts = append(parts, fmt.Sprintf("%d by %s", other.Count, other.By))
	}
	if o.MoreOthers > 0 {
		parts = append(parts, fmt.Sprintf("the rest by %d more", o.MoreOthers))
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
