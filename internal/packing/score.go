// Package packing scores how well a node packs the cards of a pod and of the gang that the
// pod belongs to.
package packing

// Pod is the pod that is placed.
type Pod struct {
	// Cards is how many cards the pod asks for, above 0.
	Cards float64
	// RestCards is how many the pods of its gang ask for that have no node yet, this pod
	// included. It is Cards for a pod that belongs to no gang.
	RestCards float64
}

// Node is a node that the pod may run on. Its cards are those of the resource that the pod
// asks for.
type Node struct {
	// Total is how many cards the node has, Idle how many of them no pod holds.
	Total, Idle float64
	// Avoided reports whether the node has a taint PreferNoSchedule that the pod does not
	// tolerate.
	Avoided bool
	// HoldsGang reports whether pods of the gang are on the node.
	HoldsGang bool
	// FitsRest reports whether all pods of the gang fit that have no node yet.
	FitsRest bool
	// Pods is how many pods such as this one fit.
	Pods int
}

// The score has three steps: a node that holds pods of the gang, a node on which the whole
// rest of the gang fits, any other node. Between two steps is a gap as large as a step, so
// that scores of other plugins that differ by less than the gap never split a gang.
const (
	step      = 0.2
	holdsGang = 0.8
	fitsRest  = 0.4
)

// Score is from 0 to 1. Within the two upper steps it is the part of the node's cards that is
// in use when the pods are placed: whole nodes stay free for pods that need whole nodes. Where
// only a part of the gang fits, the larger part is better: the gang takes fewer nodes. A node
// to be avoided is packed by no pod and scores 0.
func Score(n Node, p Pod) float64 {
	switch {
	case n.Avoided:
		return 0
	case n.HoldsGang:
		return holdsGang + step*n.usedWith(p.Cards)
	case n.FitsRest:
		return fitsRest + step*n.usedWith(p.RestCards)
	case n.Pods > 0:
		return step * float64(n.Pods) / float64(n.Pods+1)
	default: // the pod waits for cards that others hold
		return step * n.usedWith(p.Cards)
	}
}

// usedWith is the part of the node's cards that is in use with so many more, from 0 to 1.
func (n Node) usedWith(cards float64) float64 {
	if n.Total <= 0 {
		return 0
	}
	return max(0, min(1, (n.Total-n.Idle+cards)/n.Total))
}
