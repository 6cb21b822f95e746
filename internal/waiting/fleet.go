package waiting

import (
	"slices"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/workload"
)

// Fleet is the free cards of all nodes. It is immutable.
type Fleet struct {
	inventory *card.Inventory
	cards     map[card.Name]*cardCapacity
	// mostFree returns how many cards may be free at most, where it is not known which nodes have them, else it is nil.
	mostFree func(card.Name) card.Count
}

// cardCapacity is the free cards of one name.
type cardCapacity struct {
	// free is the sum on nodes that are ready and take pods, most the highest number on one
	// ready node.
	free, most card.Count
	// nodes are the ready nodes.
	nodes []nodeCapacity
}

// nodeCapacity is how many cards of one name are free on a node.
type nodeCapacity struct {
	name       string
	free       card.Count
	isCordoned bool
}

// NodeCard is a card of a node.
type NodeCard struct {
	Node string
	Name card.Name
}

// NewFleet returns the free cards of the nodes that are ready: used are those that pods use, also terminating ones.
func NewFleet(inventory *card.Inventory, nodes []card.NodeState, used map[NodeCard]card.Count) *Fleet {
	f := &Fleet{inventory: inventory, cards: map[card.Name]*cardCapacity{}}
	for i := range nodes {
		node := &nodes[i]
		if !node.IsReady {
			continue
		}

		for _, offered := range node.Cards {
			capacity := f.cards[offered.Name]
			if capacity == nil {
				capacity = &cardCapacity{}
				f.cards[offered.Name] = capacity
			}

			onNode := nodeCapacity{node.Name, offered.Count.Sub(used[NodeCard{node.Name, offered.Name}]), node.IsCordoned}
			capacity.nodes = append(capacity.nodes, onNode)
			capacity.most = max(capacity.most, onNode.free)
			if !onNode.isCordoned {
				capacity.free = capacity.free.Add(onNode.free)
			}
		}
	}

	return f
}

// NewHiddenFleet returns the free cards for a reader who may not read nodes: mostFree returns how many may be free at
// most.
func NewHiddenFleet(inventory *card.Inventory, mostFree func(card.Name) card.Count) *Fleet {
	return &Fleet{inventory: inventory, mostFree: mostFree}
}

// knowsAny reports whether a node has one of the cards, ready or not.
func (f *Fleet) knowsAny(names []card.Name) bool { return slices.ContainsFunc(names, f.knows) }

// knows reports whether a node has the card, ready or not.
func (f *Fleet) knows(name card.Name) bool { return len(f.inventory.ResourcesFor(name)) > 0 }

// Taken is what pods of a gang would take, by node. It remembers what that leaves of each card of a Fleet:
// a gang of thousands of pods requests the same. nil takes nothing. It is not safe for concurrent use.
type Taken struct {
	byNode map[string]card.Count
	fleet  *Fleet
	left   map[card.Name]leftCards
}

// leftCards are free cards of one name: in sum, and the most on one ready node.
type leftCards struct{ free, most card.Count }

// NewTaken returns what is taken by node.
func NewTaken(byNode map[string]card.Count) *Taken { return &Taken{byNode: byNode} }

// freeFor returns the free cards of a name beside those that pods of the same gang would take: in sum, and
// the most on one ready node.
func (f *Fleet) freeFor(name card.Name, taken *Taken) (free, most card.Count) {
	capacity := f.cards[name]
	switch {
	case capacity == nil:
		return 0, 0
	case taken == nil || len(taken.byNode) == 0:
		return capacity.free, capacity.most
	}

	// What was counted for another fleet is void.
	if taken.fleet != f {
		taken.fleet = f
		taken.left = map[card.Name]leftCards{}
	}

	left, isKnown := taken.left[name]
	if !isKnown {
		left = capacity.beside(taken.byNode)
		taken.left[name] = left
	}

	return left.free, left.most
}

// beside returns what is left when pods take some cards of each node.
func (c *cardCapacity) beside(taken map[string]card.Count) (sum leftCards) {
	for _, node := range c.nodes {
		left := node.free.Sub(taken[node.name])
		sum.most = max(sum.most, left)
		if !node.isCordoned {
			sum.free = sum.free.Add(left)
		}
	}
	return sum
}

// freeForAny returns the most free cards of one name in all, and the most of one name on a ready node, cordoned or not.
func (f *Fleet) freeForAny(names []card.Name, taken *Taken) (free, most card.Count) {
	for _, name := range names {
		left, onNode := f.freeFor(name, taken)
		free = max(free, left)
		most = max(most, onNode)
	}
	return free, most
}

// Shortage returns what the nodes lack for so many of one of the cards, "" if a ready node has them.
// taken is what pods of the same gang would take, by node.
func (f *Fleet) Shortage(names []card.Name, count card.Count, taken map[string]card.Count) v1alpha1.BlockedReason {
	if !f.knowsAny(names) {
		return v1alpha1.BlockedUnknownCard
	}
	free, most := f.freeForAny(names, NewTaken(taken))
	switch {
	case most >= count:
		return ""
	case free >= count:
		return v1alpha1.BlockedFragmented
	}
	return v1alpha1.BlockedNoFreeCard
}

// Request is what a waiting pod requests, or a job without pods.
type Request struct {
	// Names are the cards that it may run on, Named those that its annotation names. Without the annotation Named is
	// empty, and Names are all cards that the requested resource can be.
	Names, Named []card.Name
	// Count is how many of one name it requests, 0 for no cards.
	Count card.Count
	// IsJob reports whether Count is for all pods of a job, so that it may be spread.
	IsJob bool
	// Taken is what other pods of the gang would take.
	Taken *Taken
}

// mayUse reports whether the request names a card, or may run on it.
func (r *Request) mayUse(name card.Name) bool {
	return slices.Contains(r.Names, name) || slices.Contains(r.Named, name)
}

// ReasonFor returns why a pod or job waits. What the scheduler states decides. If it states only that no node takes the
// pod, what the nodes lack is counted. fleet returns their free cards, and is called only if they matter.
func ReasonFor(s *StatedReason, r *Request, fleet func() *Fleet) v1alpha1.BlockedReason {
	switch {
	case s.Refusal != nil:
		return reasonForRefusal(s.Refusal, r, fleet)
	case s.Node != "" || s.LacksPods: // it has a place, or its gang has too few pods
		return v1alpha1.BlockedGangIncomplete
	case s.AwaitsRelease: // terminating pods still have its place
		return v1alpha1.BlockedCardsTerminating
	case s.LacksObject: // such as a PersistentVolumeClaim
		return v1alpha1.BlockedOther
	case r.Count > 0:
		return fleet().reasonForNodes(s, r)
	case s.RefusedOtherwise:
		return v1alpha1.BlockedNodesUnsuitable
	}

	return v1alpha1.BlockedOther
}

// reasonForRefusal returns the reason of a refusal on every node, with two corrections: a missing quota for a card that
// no node has is a misspelt card, and an unknown card that some node has does not belong to the requested resource. A
// refusal of other cards than r requests is about other pods of the gang, or about another request of the job.
func reasonForRefusal(refusal *workload.Refusal, r *Request, fleet func() *Fleet) v1alpha1.BlockedReason {
	stated := refusal.Blocked()
	cards := refusal.CardNames()
	switch {
	case len(cards) > 0 && !slices.ContainsFunc(cards, r.mayUse):
		return v1alpha1.BlockedGangIncomplete
	case stated == v1alpha1.BlockedNoQuota && len(r.Names) > 0 && !fleet().knowsAny(r.Names):
		return v1alpha1.BlockedUnknownCard
	case stated == v1alpha1.BlockedUnknownCard && fleet().knowsAny(r.Named):
		return v1alpha1.BlockedWrongCombination
	}
	return stated
}

// reasonForNodes returns what the nodes lack for a request for cards that our scheduler does not refuse on every node.
func (f *Fleet) reasonForNodes(s *StatedReason, r *Request) v1alpha1.BlockedReason {
	if !f.knowsAny(r.Names) {
		return v1alpha1.BlockedUnknownCard
	}

	// Cards that the queue refuses are no help, even if nodes have them free.
	names := slices.DeleteFunc(slices.Clone(r.Names), func(name card.Name) bool { return !f.knows(name) || s.refusesCard(name) })
	if len(names) == 0 {
		return s.FirstRefusal().Blocked()
	}

	if f.mostFree != nil {
		return f.reasonForHiddenNodes(names, r.Count)
	}

	free, most := f.freeForAny(names, r.Taken) // cards of cordoned nodes count in most only
	return s.reasonForFree(r, free >= r.Count, most >= r.Count)
}

// reasonForFree returns why a request waits that needs only cards with quota left. isEnough reports whether all nodes
// together have enough of them free, fitsNode whether one node has, also a cordoned one.
func (s *StatedReason) reasonForFree(r *Request, isEnough, fitsNode bool) v1alpha1.BlockedReason {
	switch {
	// A job's total may come from many nodes, so no single node decides.
	case r.IsJob && isEnough:
		return v1alpha1.BlockedOther
	case r.IsJob:
		return v1alpha1.BlockedNoFreeCard
	case fitsNode && s.RefusedOtherwise:
		return v1alpha1.BlockedNodesUnsuitable
	case fitsNode && isEnough:
		return s.reasonWhereCardsSuffice()
	case isEnough:
		return v1alpha1.BlockedFragmented
	}

	return v1alpha1.BlockedNoFreeCard
}

// reasonForHiddenNodes returns what the nodes certainly lack for so many of one of the cards. Which node has them, and
// what else it refuses, is not known.
func (f *Fleet) reasonForHiddenNodes(names []card.Name, count card.Count) v1alpha1.BlockedReason {
	if slices.ContainsFunc(names, func(name card.Name) bool { return f.mostFree(name) >= count }) {
		return v1alpha1.BlockedOther
	}
	return v1alpha1.BlockedNoFreeCard
}

// reasonWhereCardsSuffice returns why a pod waits for which a node has enough cards, and which no node
// refused for another reason.
func (s *StatedReason) reasonWhereCardsSuffice() v1alpha1.BlockedReason {
	switch {
	case s.RepeatsOther: // the nodes refused what another pod requests
		return v1alpha1.BlockedGangIncomplete
	case s.RefusedByNodes: // cards were released after the nodes refused it
		return v1alpha1.BlockedNoFreeCard
	}
	return v1alpha1.BlockedOther // not tried yet
}
