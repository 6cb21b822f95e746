// Package victims selects which pods of a node must be evicted for another pod, and says what their evictions cost.
package victims

import (
	"fmt"
	"slices"

	"k8s.io/klog/v2"
	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/scheduler/keptcards"
	"cardquota.dev/operator/internal/scheduler/snapshot"
	"cardquota.dev/operator/internal/workload"
)

// Selection selects victims on one node for a pod.
type Selection struct {
	*snapshot.Session
	kept *keptcards.Kept
	// mostBorrowed is how many cards the queue whose pods preempt now may borrow, by name.
	mostBorrowed map[card.Name]int64
}

// NewSelection returns the selection of a session. Nothing that is kept for others counts as free.
func NewSelection(s *snapshot.Session, kept *keptcards.Kept) *Selection {
	return &Selection{Session: s, kept: kept}
}

// Select selects from candidates the victims on a node for a pod: all that conflict with
// it by anti-affinity or host port, and as few others as release what is missing, the first candidates first. It returns
// the conflicting ones alone, and all. breaks are the candidates whose eviction leaves their gang too small, so that all of
// it ends. useful is false if the pod could not run there in spite of the evictions. name is that of the node's card.
func (s *Selection) Select(preemptor *api.TaskInfo, node *api.NodeInfo, name card.Name, candidates []*api.TaskInfo, breaks map[api.TaskID]bool) (conflicting, all []*api.TaskInfo, useful bool) {
	queue := s.Volcano.Jobs[preemptor.Job].Queue
	missing := s.MissingAmounts(preemptor, node)
	// The conflicting pods go in any case, so the others need to release only what is missing without them.
	conflicting, rest, useful := s.SplitConflicting(preemptor, node, candidates)
	released := s.releasedByEach(slices.Concat(conflicting, rest), breaks, queue, name)
	for _, amounts := range released[:len(conflicting)] {
		missing.add(amounts, -1)
	}

	needed := map[api.TaskID]bool{}
	broken := map[api.JobID]bool{}
	for _, i := range irreducibleSubset(missing, released[len(conflicting):]) {
		needed[rest[i].UID] = true
		broken[rest[i].Job] = broken[rest[i].Job] || breaks[rest[i].UID]
	}

	// All pods of a broken gang end, also its elastic ones: as long as one of these stays, the gang has
	// enough pods.
	all = slices.Clone(conflicting)
	for _, task := range rest {
		if needed[task.UID] || broken[task.Job] {
			all = append(all, task)
		}
	}

	// irreducibleSubset selects nothing if nothing is missing, and also if the others together do not
	// suffice.
	return conflicting, all, useful && (len(all) > len(conflicting) || missing.IsZero())
}

// SplitConflicting splits candidates into those that conflict with an incoming pod on the node, by
// anti-affinity or host port, and the rest. useful is false if pods that are no candidates conflict too: the
// incoming pod could not run there then. Pods that are being evicted do not count.
func (s *Selection) SplitConflicting(incoming *api.TaskInfo, node *api.NodeInfo, candidates []*api.TaskInfo) (conflicting, rest []*api.TaskInfo, useful bool) {
	conflicts := map[api.TaskID]bool{}
	for _, task := range node.Tasks {
		if task.UID != incoming.UID && workload.ConflictOnNode(incoming.Pod, task.Pod) && !s.IsBeingEvicted(task) {
			conflicts[task.UID] = true
		}
	}

	if len(conflicts) == 0 {
		return nil, candidates, true
	}

	for _, candidate := range candidates {
		if conflicts[candidate.UID] {
			conflicting = append(conflicting, candidate)
		} else {
			rest = append(rest, candidate)
		}
	}

	return conflicting, rest, len(conflicting) == len(conflicts)
}

// HasNoConflicts reports whether no pod that stays on a node conflicts with another pod that is to run there.
func (s *Selection) HasNoConflicts(task *api.TaskInfo, node *api.NodeInfo) bool {
	_, _, fits := s.SplitConflicting(task, node, nil)
	return fits
}

// CheckConflicts returns why a pod conflicts with pods that stay on a node, nil if it does not.
func (s *Selection) CheckConflicts(task *api.TaskInfo, node *api.NodeInfo) error {
	if !s.HasNoConflicts(task, node) {
		return fmt.Errorf("pod %s conflicts with another pod on node %s by anti-affinity or host port", klog.KObj(task.Pod), node.Name)
	}
	return nil
}

// ExceedsEvictionHeadroom reports whether victims use more of a card than may terminate in a
// queue at the same time. Then neither the preemptor nor any other pod of the queue could be placed until they
// end: terminating pods may use as much as the quota at most.
func (s *Selection) ExceedsEvictionHeadroom(queue api.QueueID, name card.Name, victims []*api.TaskInfo) bool {
	released := s.ReleasedBy(queue, victims...)
	released.Evicted = true // these pods count as terminating, not as gone
	request := quota.Request{Names: []card.Name{name}, Count: 1}
	return !s.Ledger.Fits(string(queue), request, quota.Within{Bound: quota.TerminatingLeft, Released: released})
}
