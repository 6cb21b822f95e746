package snapshot

import "volcano.sh/volcano/pkg/scheduler/api"

// IsTree reports whether the queues form a tree that is deeper than flat queues.
func (s *Session) IsTree() bool { return !s.Cache.Tree.IsFlat() }

// Level returns how far the lowest common ancestor of two queues is above the reclaimer's: 1
// for siblings and for flat queues.
func (s *Session) Level(reclaimer, victim api.QueueID) int {
	return s.Cache.Tree.Level(string(reclaimer), string(victim))
}

// PathBelow returns the victim's queue and its ancestors below the lowest common ancestor of
// both queues. It is empty if the victim's queue is an ancestor of the reclaimer's. The caller
// must not change it.
func (s *Session) PathBelow(reclaimer, victim api.QueueID) []string {
	return s.Cache.Tree.PathBelow(string(reclaimer), string(victim))
}

// TreeVersion returns a number that changes whenever the tree of queues does. It is 0 if the
// queues are flat.
func (s *Session) TreeVersion() uint64 { return s.Cache.Tree.Version }
