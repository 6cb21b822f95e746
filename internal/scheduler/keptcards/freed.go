package keptcards

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
	"volcano.sh/volcano/pkg/scheduler/api"
)

// Freed are the cards that evictions freed for pending pods, and the nodes that these pods wait for, as
// the sessions know them.
type Freed struct {
	// Nominations are the nodes of pipelined pods, by UID.
	Nominations map[types.UID]Nomination
	// Reclaimed are the nodes on which cards were reclaimed for pending pods, by UID. The node is
	// "" once the quota no longer allows them.
	Reclaimed map[types.UID]Nomination
	// Preempted are the nodes on which preempt freed cards for pending pods, by UID.
	Preempted map[types.UID]Nomination
}

// NewFreed returns no cards.
func NewFreed() *Freed {
	return &Freed{Nominations: map[types.UID]Nomination{}, Reclaimed: map[types.UID]Nomination{}, Preempted: map[types.UID]Nomination{}}
}

// Nomination is the node to which a pod was pipelined first, or on which cards were reclaimed
// for it.
type Nomination struct {
	Node  string
	Since time.Time
	// preempts reports whether the action preempt evicted pods for the pod.
	preempts bool
	// from are the queues from which pods were evicted for the pod by cardreclaim.
	from map[api.QueueID]bool
	// plan has all evictions for the pod and for those that were placed with it, nil for a node without
	// kept cards.
	plan *evictionPlan
}

// evictedPod is a pod that was evicted.
type evictedPod struct {
	uid  types.UID
	key  api.TaskID
	node string
}

// evictionPlan are the evictions with which cards were freed for the pods of a job. Its first cards may be
// free long before its last ones, which the gang needs as well.
type evictionPlan struct {
	began   time.Time
	victims []evictedPod
	// lastSeen is when a session saw a victim last that was not overdue. session is the last session that
	// looked for them.
	lastSeen time.Time
	session  uint64
}
