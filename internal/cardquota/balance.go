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
)

// Balance compares what all CardQuotas grant together with the healthy cards of
// the cluster, per card name. It does not change after it was made.
type Balance struct {
	healthy map[card.Name]card.Count
	// granted is by card and queue; a CardQuota that waits for its queue or is
	// being deleted grants nothing, and a Queue that no CardQuota has what is
	// written on it.
	granted map[card.Name]map[string]Share
	sums    map[card.Name]card.Count
}

// Share is what one CardQuota, or a Queue that none has, grants of a card.
type Share struct {
	// By is the name of the CardQuota, or says which Queue it is.
	By    string
	Count card.Count
}

// Unowned returns the quotas that are written on Queues which no CardQuota has: they
// were retained, or written by hand, and the scheduler honours them.
func Unowned(quotas []*v1alpha1.CardQuota, queues []*v1beta1.Queue) map[string]card.Quota {
	taken := make(map[string]bool, len(quotas))
	for _, quota := range quotas {
		taken[quota.QueueName()] = true
	}
	out := map[string]card.Quota{}
	for _, q := range queues {
		if text, written := q.Annotations[v1alpha1.AnnotationCardQuota]; written && !taken[q.Name] {
			if quota, err := card.ParseQuota(text); err == nil && len(quota) > 0 {
				out[q.Name] = quota
			}
		}
	}
	return out
}

// NewBalance balances all CardQuotas of the cluster, and what Unowned found, against
// its healthy cards.
func NewBalance(quotas []*v1alpha1.CardQuota, unowned map[string]card.Quota, healthy map[card.Name]card.Count) *Balance {
	rivals := map[string][]*v1alpha1.CardQuota{}
	for _, quota := range quotas {
		if quota.DeletionTimestamp == nil {
			rivals[quota.QueueName()] = append(rivals[quota.QueueName()], quota)
		}
	}
	b := &Balance{healthy: healthy, granted: map[card.Name]map[string]Share{}, sums: map[card.Name]card.Count{}}
	for name, all := range rivals {
		owner := Owner(all)
		b.grant(name, owner.Name, QuotaOf(owner))
	}
	for name, quota := range unowned {
		b.grant(name, "queue "+name+", which has no CardQuota", quota)
	}
	return b
}

func (b *Balance) grant(queue, by string, quota card.Quota) {
	for name, count := range quota {
		if b.granted[name] == nil {
			b.granted[name] = map[string]Share{}
		}
		b.granted[name][queue] = Share{by, count}
		b.sums[name] = b.sums[name].Add(count)
	}
}

// Moved lists the queues whose condition InventorySatisfied says another thing than
// before, sorted: those that grant a card of which too many are or were granted, and
// whose numbers are others now. turned reports whether too many of some card are granted
// now and were not before, or the other way round, or whether there are more or fewer cards.
func (b *Balance) Moved(before *Balance) (queues []string, turned bool) {
	moved := map[string]bool{}
	for _, side := range []*Balance{before, b} {
		for name := range side.granted {
			cards := before.healthy[name] != b.healthy[name]
			was, is := before.sums[name] > before.healthy[name], b.sums[name] > b.healthy[name]
			turned = turned || cards || was != is
			if !was && !is || !cards && maps.Equal(before.granted[name], b.granted[name]) {
				continue
			}
			for queue := range side.granted[name] {
				moved[queue] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(moved)), turned
}

// Excess is a card of which all CardQuotas together grant more than there are
// healthy ones.
type Excess struct {
	Card card.Name
	// Quota is what the CardQuota in question grants, Granted what it and all
	// others do, Healthy how many cards there are.
	Quota, Granted, Healthy card.Count
	// Others are the other CardQuotas that grant this card, the largest share
	// first, then by name.
	Others []Share
}

// By is how many cards too many are granted.
func (e Excess) By() card.Count { return e.Granted.Sub(e.Healthy) }

// OverAllocated lists the cards, sorted, of which a CardQuota grants some and
// all together grant too many. The CardQuota counts as it is given, in place of
// the one that has its queue in the balance.
func (b *Balance) OverAllocated(quota *v1alpha1.CardQuota) []Excess {
	if quota.DeletionTimestamp != nil {
		return nil
	}
	var found []Excess
	for name, count := range QuotaOf(quota) {
		others := b.sums[name].Sub(b.granted[name][quota.QueueName()].Count)
		excess := Excess{Card: name, Quota: count, Granted: others.Add(count), Healthy: b.healthy[name]}
		if count > 0 && excess.By() > 0 {
			excess.Others = b.others(name, quota.QueueName())
			found = append(found, excess)
		}
	}
	slices.SortFunc(found, func(x, y Excess) int { return cmp.Compare(x.Card, y.Card) })
	return found
}

// others lists who else grants a card, the largest share first.
func (b *Balance) others(name card.Name, than string) []Share {
	var others []Share
	for of, share := range b.granted[name] {
		if of != than && share.Count > 0 {
			others = append(others, share)
		}
	}
	slices.SortFunc(others, func(x, y Share) int {
		return cmp.Or(cmp.Compare(y.Count, x.Count), cmp.Compare(x.By, y.By))
	})
	return others
}

// Denied lists for which cards a CardQuota with overAllocation Deny may not be
// made or changed as given: those whose quota is raised, or new, while all
// together would grant too many. before is the CardQuota as it was, nil when it
// is new. What was granted may always stay, and be lowered; another
// overAllocation denies nothing.
func (b *Balance) Denied(before, after *v1alpha1.CardQuota) []Excess {
	if after.Spec.OverAllocation != v1alpha1.OverAllocationDeny {
		return nil
	}
	var had card.Quota
	if before != nil {
		had = QuotaOf(before)
	}
	return slices.DeleteFunc(b.OverAllocated(after), func(e Excess) bool { return e.Quota <= had[e.Card] })
}

// namedShares is how many other CardQuotas a sentence names.
const namedShares = 3

// String is one clause: "NVIDIA-H200: 12 granted, 8 healthy, 4 too many (6 here,
// 4 by search, 2 by ads)".
func (e Excess) String() string {
	parts := []string{fmt.Sprintf("%d here", e.Quota)}
	for i, other := range e.Others {
		if i == namedShares {
			parts = append(parts, fmt.Sprintf("the rest by %d more", len(e.Others)-i))
			break
		}
		parts = append(parts, fmt.Sprintf("%d by %s", other.Count, other.By))
	}
	return fmt.Sprintf("%s: %d granted, %d healthy, %d too many (%s)", e.Card, e.Granted, e.Healthy, e.By(), strings.Join(parts, ", "))
}

// Clauses joins the clauses of several cards.
func Clauses(excesses []Excess) string {
	texts := make([]string, len(excesses))
	for i, e := range excesses {
		texts[i] = e.String()
	}
	return strings.Join(texts, "; ")
}
