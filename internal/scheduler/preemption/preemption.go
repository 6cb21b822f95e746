// Package preemption decides which pods Volcano's action preempt evicts inside of a queue, and for which pods.
package preemption

import (
	"sync"
	"sync/atomic"

	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/framework"

	"cardquota.dev/operator/internal/scheduler/cache"
	"cardquota.dev/operator/internal/scheduler/keptcards"
	"cardquota.dev/operator/internal/scheduler/snapshot"
	"cardquota.dev/operator/internal/scheduler/victims"
)

// Preemption decides what Volcano's action preempt evicts inside of a queue.
type Preemption struct {
	*snapshot.Session
	precedence *precedence
	prices     *victims.Prices
	stuck      *snapshot.StuckPods
	kept       *keptcards.Kept
	victims    *victims.Selection
	// run is what the action evicts, nil unless it runs.
	run *preemptRun
	// attempt is the pod and node that it tries now, nil if none.
	attempt atomic.Pointer[preemptionAttempt]
	// ignoringQuota is the pod that the predicate checks without quota now.
	ignoringQuota quotaIgnorer
	// search is the node search that Volcano started last, nil for none.
	search atomic.Pointer[preemptSearch]
}

// New returns the preemption of a session.
func New(s *snapshot.Session, prices *victims.Prices, stuck *snapshot.StuckPods, kept *keptcards.Kept, selection *victims.Selection) *Preemption {
	return &Preemption{Session: s, precedence: &precedence{s, prices}, prices: prices, stuck: stuck, kept: kept, victims: selection}
}

// IsRunning reports whether Volcano's action preempt runs.
func (p *Preemption) IsRunning() bool { return p.run != nil }

// Hooks are what the action preempt knows and the plugin does not.
type Hooks struct {
	// PolicyFor returns how a Volcano job handles evictions, false if that is not known.
	PolicyFor cache.EvictionPolicies
	// Begin is called before the first search, if some pod may preempt others. MaySearch
	// reports whether preempt may search a node for a pod. generation changes with each eviction
	// and each undone one. Without these two, every pod has its search.
	Begin     func()
	MaySearch func(task *api.TaskInfo, generation int) bool
}

// preemptRun is what Volcano's action preempt evicts in one session. Volcano evicts single pods
// and could leave a gang running below its minimum. The plugin evicts the rest of such a gang
// in the session, so that later preemptors use what it releases.
type preemptRun struct {
	preemption *Preemption
	hooks      Hooks
	// lowest is the lowest priority of a job with pods to evict, by queue. isAsked are the jobs
	// for which Volcano asked whether they starve.
	lowest  map[api.QueueID]int32
	isAsked map[api.JobID]bool
	// evicted are the pods that Volcano evicts, by job.
	evicted map[api.JobID]map[api.TaskID]*api.TaskInfo
	// evictedFor is the job for which a pod is evicted.
	evictedFor map[api.TaskID]api.JobID
	// restOfGangs are the other pods of jobs that are evicted as a whole.
	restOfGangs map[api.JobID]*restOfGang
	// allowances caches what each job can lose while evictions is unchanged. Volcano calls the
	// plugin for each node, and a large gang is on many.
	allowances struct {
		sync.Mutex
		evictions int
		jobs      map[api.JobID]*victims.Allowance
	}
	// elsewhere caches the last answer of cheapestEvictions.
	elsewhere struct {
		sync.Mutex
		pod       api.TaskID
		evictions int
		least     *evictionCost
	}
	// evictions counts evictions and undone evictions.
	evictions int
	// evictingRest is set while the rest of a gang is evicted or restored.
	evictingRest bool
}

// restOfGang are the pods of a gang that are evicted because others of it are.
type restOfGang struct {
	// statement is never committed: the caller evicts the whole gang together.
	statement *framework.Statement
	tasks     []*api.TaskInfo
	// bound are the pods that had not started.
	bound []*api.TaskInfo
}

// preemptionAttempt is the pod and node that Volcano's action preempt tries now. Volcano then
// calls allocatable without the node, and quota of another card than the node's would end the
// evictions too early or prevent them.
type preemptionAttempt struct {
	pod  api.TaskID
	node string // "" if nothing can be evicted there, since Volcano then does not name it
	// refused is set if the pod must not be pipelined to the node, even if Volcano finds room.
	refused bool
	// conflicting are the pods that must be evicted before the pod can be there.
	conflicting []*api.TaskInfo
}

// preemptSearch is a node search for a pod.
type preemptSearch struct {
	snapshot.CheckInput
	// mayReclaim is set if the pod may reclaim cards from other queues in this search.
	mayReclaim bool
	// awaitsNominated is the answer of AwaitsNominatedNode, computed once.
	awaitsNominated bool
	awaitsOnce      sync.Once
	// preemptsJobs is the answer of preemptsJobs, computed once.
	preemptsJobs bool
	preemptsOnce sync.Once
}

// quotaIgnorer tells the predicate for which pod it ignores the quota. Topology-aware preemption asks
// about several nodes at once, all for the same pod.
type quotaIgnorer struct {
	pod atomic.Pointer[api.TaskID] // nil while the quota counts for all

	mu     sync.Mutex
	checks int // of the pod that have begun and not ended
}

// evictionCost is what evictions on a node cost. First their highest priority decides, then whether a
// gang breaks, then what is lost.
type evictionCost struct {
	job, pod   int32
	breaksGang bool
	loss       int64
}
