package solver

import (
	"cmp"
	"math"
	"time"
)

// Amounts are quantities of the resources that a Problem is about, by their
// place in it. The unit of each is the caller's, the same everywhere.
type Amounts []float64

// Problem is one question: which pods must go, so that those who wait can run.
type Problem struct {
	Nodes []Node
	// Pools are the cards that the waiting pods may take together, by card name:
	// what is left of their queue's quota.
	Pools []int64
	// Claims wait. All of a claim's pods are alike.
	Claims []Claim
	// Jobs hold what could be taken. Among jobs that lose the same the first goes
	// first, and of their pods as well.
	Jobs []Job
}

// Node is where pods run.
type Node struct {
	// Room is what is free, and what will be because its pods are leaving.
	Room Amounts
	// Pool is the place of the node's card in Problem.Pools.
	Pool int
}

// Claim is a group of alike pods that wait.
type Claim struct {
	// Request is what each of them needs on its node, 0 of what it does not need.
	Request Amounts
	// Cards is how much of a pool each of them takes.
	Cards int64
	// Count is how many there are.
	Count int
	// Nodes are the nodes that they could run on if there were room, the preferred
	// first.
	Nodes []int
}

// Job is one that runs.
type Job struct {
	// Pods are those that hold something.
	Pods []Pod
	// Spare is how many of its pods can go without breaking it: those above its
	// minimum. 0 for a job that is taken whole or not at all.
	Spare int
	// RoleSpare is the same for each of its roles; nil when roles do not matter.
	RoleSpare []int
	// Whole tells that the job may be taken as a whole: none of its pods is
	// protected.
	Whole bool
	// Rank is that of the job when it is taken as a whole, at least the highest of
	// its pods. Nobody of a rank goes where those of lower ranks suffice.
	Rank int
}

// Pod is one that runs.
type Pod struct {
	// Node is where it runs.
	Node int
	// Gives is what its node gets back.
	Gives Amounts
	// Loss is what is lost with it, in card-seconds.
	Loss int64
	// Role is its place in Job.RoleSpare.
	Role int
	// Protected pods never go.
	Protected bool
	// Rank is that of the pod when the job can spare it, see Job.Rank.
	Rank int
}

// Plan is an answer.
type Plan struct {
	// Take is who goes.
	Take []Taking
	// Place is the node of every pod that can run then, by claim; one that cannot
	// is left out.
	Place [][]int
	// Loss is what is lost.
	Loss Loss
}

// Taking is what one job gives.
type Taking struct {
	// Job is its place in Problem.Jobs.
	Job int
	// Whole tells that all of its pods go, else those at the places in Pods do.
	Whole bool
	Pods  []int
}

// Placed is how many of the waiting pods the plan places.
func (p *Plan) Placed() int {
	n := 0
	for _, nodes := range p.Place {
		n += len(nodes)
	}
	return n
}

// Loss is what a plan costs. Jobs that are broken count first; pods above the
// minimum of their job go before any job is broken, and among themselves by what
// is lost with them.
type Loss struct {
	// Broken is what is lost with jobs that are taken whole, in card-seconds.
	Broken int64
	// Spared is what is lost with single pods of jobs that go on, in card-seconds.
	Spared int64
	// Jobs is how many jobs are taken whole. It decides where Broken is the same,
	// before Spared: a job that has just started loses nothing yet, and still pods
	// above a minimum go before it.
	Jobs int
}

// Total is all that is lost, in card-seconds.
func (l Loss) Total() int64 { return sum(l.Broken, l.Spared) }

func (l Loss) compare(other Loss) int {
	return cmp.Or(cmp.Compare(l.Broken, other.Broken), cmp.Compare(l.Jobs, other.Jobs), cmp.Compare(l.Spared, other.Spared))
}

func (l Loss) plus(other Loss) Loss {
	return Loss{Broken: l.Broken + other.Broken, Spared: l.Spared + other.Spared, Jobs: l.Jobs + other.Jobs}
}

func (l Loss) minus(other Loss) Loss {
	return Loss{Broken: l.Broken - other.Broken, Spared: l.Spared - other.Spared, Jobs: l.Jobs - other.Jobs}
}

// share is what a loss is for one unit of what it gives: broken, jobs and spared.
type share [3]float64

func (l Loss) over(gain float64) share {
	return share{float64(l.Broken) / gain, float64(l.Jobs) / gain, float64(l.Spared) / gain}
}

func (s share) compare(other share) int {
	return cmp.Or(cmp.Compare(s[0], other[0]), cmp.Compare(s[1], other[1]), cmp.Compare(s[2], other[2]))
}

func sum(a, b int64) int64 {
	if b > 0 && a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// PodLoss is what is lost with a pod, in card-seconds: its cards times the whole seconds
// since it started, or since its job last saved its work. A checkpoint before the start
// counts as the start, one in the future as now; a pod that has not started loses nothing.
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
