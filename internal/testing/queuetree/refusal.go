package queuetree

import "maps"

// Pods are what the pods of a tree use of one resource.
type Pods struct {
	// Used is what pods use, and Unreclaimable the part of it that no other queue can reclaim. Terminating is what pods
	// that were deleted still have.
	Used, Unreclaimable, Terminating Use
	// Kept is what is kept for pods that wait, by their queue.
	Kept Use
	// Stopped are the queues that may not borrow, as cards were reclaimed from them a short time ago.
	Stopped map[string]bool
}

// Request is what one more pod requests of a resource.
type Request struct {
	Queue string
	Count int64
	// IsUnreclaimable reports whether no other queue could reclaim it.
	IsUnreclaimable bool
}

// Refusal returns which rule refuses one more pod, and in which queue of its path, such as "quota of q". It is "" if
// the pod fits.
func (t *Tree) Refusal(r Request, pods Pods) string {
	for _, at := range append(t.Path(r.Queue), "") {
		if rule := t.refusalAt(at, r, pods); rule != "" {
			return rule + " " + at
		}
	}
	return ""
}

// refusalAt returns which rule of one queue of the path refuses one more pod. Root has no quota of its own: the nodes
// have cards or not. But what others are guaranteed stays free there too.
func (t *Tree) refusalAt(at string, r Request, pods Pods) string {
	after := pods.Used.With(r.Queue, r.Count)
	kept := t.keptAgainst(at, r, pods)

	switch {
	case at != "" && t.isAboveQuotaWith(at, after, kept):
		return "quota of"
	case t.IsTerminatingAboveQuota(at, pods.Terminating):
		return "terminating in"
	case at != "" && r.IsUnreclaimable && t.IsAboveDeserved(at, pods.Unreclaimable.With(r.Queue, r.Count)):
		return "not reclaimable in"
	case pods.Stopped[at] && t.IsAboveDeserved(at, after) && t.isBorrowing(r.Queue, after):
		return "recently reclaimed from"
	case t.TakesGuarantee(at, pods.Used, after, kept):
		return "guaranteed in"
	}
	return ""
}

func (t *Tree) isAboveQuotaWith(queue string, use Use, kept int64) bool {
	quota := t.InForce(queue).Quota
	return quota != Unlimited && t.Used(queue, use)+kept > quota
}

// IsTerminatingAboveQuota reports whether cards of terminating pods alone exceed the quota of a queue.
func (t *Tree) IsTerminatingAboveQuota(queue string, terminating Use) bool {
	return queue != "" && t.IsCard && t.IsAboveQuota(queue, terminating)
}

// isBorrowing reports whether a queue uses more than it deserves. One that deserves any amount has nothing that it could
// take back, so it borrows too.
func (t *Tree) isBorrowing(queue string, use Use) bool {
	return t.InForce(queue).Deserved == Unlimited || t.IsAboveDeserved(queue, use)
}

// keptAgainst returns what is kept in a queue for pods to which one more pod must leave it: those of other queues, and
// those of its own queue if that borrows cards with it.
func (t *Tree) keptAgainst(at string, r Request, pods Pods) int64 {
	kept := maps.Clone(pods.Kept)
	if !t.IsCard || !t.IsAboveDeserved(r.Queue, pods.Used.With(r.Queue, r.Count)) {
		delete(kept, r.Queue)
	}
	return t.Used(at, kept)
}
