package waiting

import (
	"cmp"
	"slices"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
)

// MaxHolders is how many holders of cards are named for one waiting workload.
const MaxHolders = 3

// Holders are the workloads that use cards, in all queues. The zero value has none. All are added
// before the first question.
type Holders struct {
	holders map[holderKey]*v1alpha1.CardHolder
	// inQueue and all are the holders of a card in a queue, and in all queues. They are sorted
	// when they are asked for.
	inQueue map[queueCard]*holderList
	all     map[card.Name]*holderList
	// inSubtree are the largest holders of a card in a queue and those below it, once they were
	// asked for.
	inSubtree map[queueCard]largestHolders
}

type holderKey struct {
	workload v1alpha1.WorkloadReference
	queue    string
	name     card.Name
}

type queueCard struct {
	queue string
	name  card.Name
}

type holderList struct {
	holders  []*v1alpha1.CardHolder
	isSorted bool
}

// Add adds cards that a pod of a workload uses. queue is the charged queue, "" for none, and
// serviceType is what is shown as its service type.
func (h *Holders) Add(workload v1alpha1.WorkloadReference, queue, serviceType string, name card.Name, count card.Count) {
	if count <= 0 {
		return
	}

	if h.holders == nil {
		h.holders = map[holderKey]*v1alpha1.CardHolder{}
		h.inQueue = map[queueCard]*holderList{}
		h.all = map[card.Name]*holderList{}
	}

	key := holderKey{workload, queue, name}
	known := h.holders[key]
	if known == nil {
		known = &v1alpha1.CardHolder{Workload: workload, Queue: queue, ServiceType: serviceType, Card: string(name)}
		h.holders[key] = known
		appendHolder(h.inQueue, queueCard{queue, name}, known)
		appendHolder(h.all, name, known)
	}
	known.Count = int64(card.Count(known.Count).Add(count))
}

// appendHolder appends a holder to the list of a key.
func appendHolder[K comparable](lists map[K]*holderList, key K, holder *v1alpha1.CardHolder) {
	if lists[key] == nil {
		lists[key] = &holderList{}
	}
	lists[key].holders = append(lists[key].holders, holder)
}

// InQueue returns the workloads of a queue that use most of the cards.
func (h *Holders) InQueue(queue string, names []card.Name) []v1alpha1.CardHolder {
	var largest largestHolders
	for _, name := range names {
		largest.insert(h.inQueue[queueCard{queue, name}].largest())
	}
	return largest.copyAll()
}

// InSubtree returns the workloads that use most of the cards in a queue and those below it.
// queuesBelow returns these queues. It is called once for each queue and card that some workload
// uses, because thousands of workloads may wait for the same ancestor.
func (h *Holders) InSubtree(queue string, queuesBelow func(queue string) []string, names []card.Name) []v1alpha1.CardHolder {
	var largest largestHolders
	for _, name := range names {
		largest.insert(h.largestInSubtree(queueCard{queue, name}, queuesBelow))
	}
	return largest.copyAll()
}

// largestInSubtree returns the workloads that use most of a card in a queue and those below it, and remembers them.
func (h *Holders) largestInSubtree(key queueCard, queuesBelow func(queue string) []string) largestHolders {
	if h.all[key.name] == nil { // a request can name any card
		return nil
	}
	if known, isKnown := h.inSubtree[key]; isKnown {
		return known
	}

	var largest largestHolders
	for _, below := range queuesBelow(key.queue) {
		largest.insert(h.inQueue[queueCard{below, key.name}].largest())
	}

	if h.inSubtree == nil {
		h.inSubtree = map[queueCard]largestHolders{}
	}
	h.inSubtree[key] = largest

	return largest
}

// Anywhere returns the workloads of all queues that use most of the cards.
func (h *Holders) Anywhere(names []card.Name) []v1alpha1.CardHolder {
	var largest largestHolders
	for _, name := range names {
		largest.insert(h.all[name].largest())
	}
	return largest.copyAll()
}

// largest returns the MaxHolders largest holders of the list, which it sorts at the first call, none of nil.
func (l *holderList) largest() []*v1alpha1.CardHolder {
	if l == nil {
		return nil
	}
	if !l.isSorted {
		slices.SortFunc(l.holders, compareHolders)
		l.isSorted = true
	}
	return l.holders[:min(len(l.holders), MaxHolders)]
}

// largestHolders are the MaxHolders largest of some holders, the largest first.
type largestHolders []*v1alpha1.CardHolder

// insert adds those of some other holders that are among the largest.
func (l *largestHolders) insert(others []*v1alpha1.CardHolder) {
	for _, holder := range others {
		if at, _ := slices.BinarySearchFunc(*l, holder, compareHolders); at < MaxHolders {
			*l = slices.Insert((*l)[:min(len(*l), MaxHolders-1)], at, holder)
		}
	}
}

// copyAll returns copies of the holders, nil for none.
func (l largestHolders) copyAll() []v1alpha1.CardHolder {
	var out []v1alpha1.CardHolder
	for _, holder := range l {
		out = append(out, *holder)
	}
	return out
}

// HideOthers returns holders of which those of other namespaces are sums by service type and card, the
// largest first: a tenant must not read names of other tenants' workloads. The sums are of the given holders alone.
func HideOthers(holders []v1alpha1.CardHolder, namespace string) []v1alpha1.CardHolder {
	var out []v1alpha1.CardHolder
	for _, holder := range holders {
		if holder.Workload.Namespace == namespace {
			out = append(out, holder)
			continue
		}

		same := func(known v1alpha1.CardHolder) bool {
			return known.Workload.Namespace == "" && known.ServiceType == holder.ServiceType && known.Card == holder.Card
		}
		if i := slices.IndexFunc(out, same); i >= 0 {
			out[i].Count += holder.Count
		} else {
			out = append(out, v1alpha1.CardHolder{ServiceType: holder.ServiceType, Card: holder.Card, Count: holder.Count})
		}
	}

	slices.SortStableFunc(out, func(a, b v1alpha1.CardHolder) int { return cmp.Compare(b.Count, a.Count) })
	return out
}

// compareHolders orders holders: the largest first, then by name.
func compareHolders(a, b *v1alpha1.CardHolder) int {
	return cmp.Or(cmp.Compare(b.Count, a.Count), CompareWorkloads(&a.Workload, &b.Workload), cmp.Compare(a.Queue, b.Queue), cmp.Compare(a.Card, b.Card))
}

// CompareWorkloads orders workloads by namespace, name, kind and API group.
func CompareWorkloads(a, b *v1alpha1.WorkloadReference) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.APIGroup, b.APIGroup))
}
