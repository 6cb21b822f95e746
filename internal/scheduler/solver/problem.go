package solver

import (
	"cmp"
	"math"
	"time"
)

// Amounts are quantities of the resources in a Problem, by index. The caller chooses the unit
// of each resource and uses it everywhere.
type Amounts []float64

// Problem asks which pods to evict so that the pending pods can run. Its caller sends indexes that exist,
// and no number below 0 except of what is free or left. An amount may be as large as an API object can
// state. No running pod has amounts of more resources than the nodes and pod sets.
type Problem struct {
	Nodes []Node
	// Quotas are what the pending pods may use in total: one for each card name, and for CPU
	// and memory if those are limited.
	Quotas []Quota
	// PodSets are the pending pods.
	PodSets []PodSet
	// Jobs are the candidates for eviction. Among jobs of equal loss, and among their pods,
	// the first is evicted first: the caller decides that order.
	Jobs []Job
	// TakeLimits bound what victims may be taken, see Pod.Takes.
	TakeLimits []TakeLimit
}

// Quota is what the pending pods may use of a card name, of CPU or of memory. The caller
// chooses the unit.
type Quota struct {
	// Levels is what they may use at each level of the tree of queues: in their own queue, in
	// its parent, and so on up to the root. Less than 0 is what victims must release before the
	// pods may use any. A flat queue has one level.
	Levels []int64
}

// QuotaAmount is an amount of a quota.
type QuotaAmount struct {
	// Quota is an index in Problem.Quotas.
	Quota  int
	Amount int64
}

// TakeLimit bounds what victims may be taken from a queue and all below it.
type TakeLimit struct {
	// Most is the most that may be taken.
	Most int64
	// Borrowed allows the last victim to exceed Most: an elastic pod, or a job as a whole, may
	// be taken while less than Most was taken before it. Of a whole job, the pods that it can
	// spare count as taken before the rest. Some order of taking the victims must allow each of
	// them by all its limits.
	Borrowed bool
}

// TakeAmount is how much a victim counts against a limit.
type TakeAmount struct {
	// Limit is an index in Problem.TakeLimits.
	Limit  int
	Amount int64
}

// Node is a node that may run the pods, or on which victims run.
type Node struct {
	// Free is what is free now or will be when terminating pods are gone.
	Free Amounts
	// Quota is the index of the node's card in Problem.Quotas.
	Quota int
}

// withoutEmptyPodSets returns the problem without pod sets of which no pod is pending, so that
// they cost no work, and for each pod set that stays its index in p.
func (p *Problem) withoutEmptyPodSets() (*Problem, []int) {
	pending := *p
	indexes := []int(nil)
	pending.PodSets = nil
	for i := range p.PodSets {
		if p.PodSets[i].Count > 0 {
			pending.PodSets = append(pending.PodSets, p.PodSets[i])
			indexes = append(indexes, i)
		}
	}
	return &pending, indexes
}

// PodSet is a group of identical pending pods.
type PodSet struct {
	// Request is what each pod needs on its node, 0 for a resource that it does not need.
	Request Amounts
	// Cards is how many cards each pod uses of its node's quota.
	Cards int64
	// Uses is what each pod uses of quotas wherever it runs.
	Uses  []QuotaAmount
	Count int
	// Nodes are the nodes that the pods could run on if there were enough free, the preferred
	// ones first.
	Nodes []int
}

// Job is a running job.
type Job struct {
	// Pods are the pods that use resources.
	Pods []Pod
	// Elastic is how many of its pods can be evicted while the job runs on: those above its
	// minimum. It is 0 for a job that is evicted as a whole or not at all.
	Elastic int
	// RoleElastic is the same for each of its roles. It is nil if roles do not matter.
	RoleElastic []int
	// Whole reports whether the job may be evicted as a whole: none of its pods is protected.
	Whole bool
	// WholeLoss is what the eviction of the whole job destroys beside the loss of its pods.
	WholeLoss int64
	// Rank is the rank of the job as a whole, at least the highest of its pods. No rank loses
	// anything if lower ranks suffice.
	Rank int
	// Level is the first level of Quota.Levels that counts the job: 1 for a sibling of the
	// pending pods' queue, 2 for a queue below its parent's parent. Its victims release what
	// they use there and at all levels above.
	Level int
}

// Pod is a running pod.
type Pod struct {
	Node int
	// Usage is what its node gets back.
	Usage Amounts
	// Releases is what quotas get back, see Job.Level.
	Releases []QuotaAmount
	// Takes are the limits that the pod counts against. A pod that counts too much to add up is
	// never evicted.
	Takes []TakeAmount
	// OnlyCounts reports whether limits of what is borrowed count the pod without refusing it: it may
	// be taken by another rule. What it counts comes before other victims of these limits.
	OnlyCounts bool
	// Loss is the work that its eviction destroys, in card-seconds.
	Loss int64
	// Role is the index of its role in Job.RoleElastic.
	Role int
	// Protected pods are never evicted.
	Protected bool
	// Rank is the rank of the pod if it is evicted alone, see Job.Rank.
	Rank int
}

// Plan is a solution of a Problem.
type Plan struct {
	Victims []JobVictims
	// Places are the nodes of the pods that can run then, by pod set. A pod that cannot run
	// has no node.
	Places [][]int
	Loss   Loss
}

// JobVictims are the victims of one job.
type JobVictims struct {
	// Job is the index of the job in Problem.Jobs.
	Job int
	// Whole reports whether all pods are victims. Otherwise Pods has the indexes of the
	// victims.
	Whole bool
	Pods  []int
}

// Placed returns how many pending pods the plan places.
func (p *Plan) Placed() int {
	n := 0
	for _, nodes := range p.Places {
		n += len(nodes)
	}
	return n
}

// Loss is what a plan costs. Jobs that are evicted as a whole count first: elastic pods are
// evicted before any job is.
type Loss struct {
	// JobSeconds is the loss of jobs that are evicted as a whole, in card-seconds.
	JobSeconds int64
	// PodSeconds is the loss of elastic pods, in card-seconds.
	PodSeconds int64
	// Jobs is how many jobs are evicted as a whole. It decides between equal JobSeconds,
	// before PodSeconds. A job that has just started loses nothing, but elastic pods are still
	// evicted before it.
	Jobs int
}

// compare orders losses: whole jobs decide first, then their number, then elastic pods.
func (l Loss) compare(other Loss) int {
	return cmp.Or(cmp.Compare(l.JobSeconds, other.JobSeconds), cmp.Compare(l.Jobs, other.Jobs), cmp.Compare(l.PodSeconds, other.PodSeconds))
}

func (l Loss) plus(other Loss) Loss {
	return Loss{JobSeconds: l.JobSeconds + other.JobSeconds, PodSeconds: l.PodSeconds + other.PodSeconds, Jobs: l.Jobs + other.Jobs}
}

func (l Loss) minus(other Loss) Loss {
	return Loss{JobSeconds: l.JobSeconds - other.JobSeconds, PodSeconds: l.PodSeconds - other.PodSeconds, Jobs: l.Jobs - other.Jobs}
}

// lossRate is a loss divided by what the eviction frees: JobSeconds, Jobs and PodSeconds, in the order in which they
// decide.
type lossRate [3]float64

func (l Loss) ratePer(gain float64) lossRate {
	return lossRate{float64(l.JobSeconds) / gain, float64(l.Jobs) / gain, float64(l.PodSeconds) / gain}
}

func (l lossRate) compare(other lossRate) int {
	return cmp.Or(cmp.Compare(l[0], other[0]), cmp.Compare(l[1], other[1]), cmp.Compare(l[2], other[2]))
}

// addSaturating returns a + b, or the largest number where that would overflow.
func addSaturating(a, b int64) int64 {
	if b > 0 && a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// PodLoss returns the loss of a pod in card-seconds: its cards times the whole seconds since
// its start or its job's checkpoint. A checkpoint before the start counts as the start, one in
// the future as now. A pod that has not started loses nothing.
func PodLoss(cards int64, started, checkpoint, now time.Time) int64 {
	if started.IsZero() || cards <= 0 {
		return 0
	}
	since := started
	if checkpoint.After(since) {
		since = checkpoint
	}

	seconds := int64(now.Sub(since) / time.Second)
	if seconds <= 0 {
		return 0
	}
	if cards > math.MaxInt64/seconds {
		return math.MaxInt64
	}

	return cards * seconds
}
