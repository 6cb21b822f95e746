package keptcards

import (
	"cmp"
	"maps"
	"slices"
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

// jobWithFreedCards is a job and its pending pods for which cards were freed.
type jobWithFreedCards struct {
	job   *api.JobInfo
	tasks []*api.TaskInfo
}

// jobsWithFreedCards returns the jobs with pending pods for which cards were freed. Jobs and their
// pods come in the order in which that happened: a lowered quota ends what was freed last.
func (k *Kept) jobsWithFreedCards(freed map[types.UID]Nomination) []jobWithFreedCards {
	compare := func(a, b *api.TaskInfo) int {
		return cmp.Or(freed[a.Pod.UID].Since.Compare(freed[b.Pod.UID].Since), cmp.Compare(a.UID, b.UID))
	}

	var jobs []jobWithFreedCards
	for _, job := range k.Volcano.Jobs {
		var tasks []*api.TaskInfo
		for _, task := range job.TaskStatusIndex[api.Pending] {
			if _, known := freed[task.Pod.UID]; known {
				tasks = append(tasks, task)
			}
		}

		if len(tasks) > 0 {
			slices.SortFunc(tasks, compare)
			jobs = append(jobs, jobWithFreedCards{job, tasks})
		}
	}

	slices.SortFunc(jobs, func(a, b jobWithFreedCards) int { return compare(a.tasks[0], b.tasks[0]) })
	return jobs
}

// forgetFreedCards forgets the cards of all pods but those that wait, and those that are being bound: when a
// binding fails, the pod waits again.
func (k *Kept) forgetFreedCards(freed map[types.UID]Nomination, waiting map[types.UID]bool) {
	for _, job := range k.Volcano.Jobs {
		for _, task := range job.TaskStatusIndex[api.Binding] {
			waiting[task.Pod.UID] = true
		}
	}
	maps.DeleteFunc(freed, func(uid types.UID, _ Nomination) bool { return !waiting[uid] })
}
