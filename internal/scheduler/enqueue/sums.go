package enqueue

import (
	"slices"

	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/scheduler/gang"
	"cardquota.dev/operator/internal/scheduler/snapshot"
)

// Sums are what is reserved in each queue, and what running jobs use there above their minimum.
type Sums struct {
	*snapshot.Session
	inqueue map[api.QueueID]*quota.Reservations
	// elasticUsages are what running jobs use above their minimum.
	elasticUsages map[api.JobID]quota.ElasticUsage
}

// NewSums returns the sums of a session, which knows its queues later.
func NewSums(s *snapshot.Session) *Sums { return &Sums{Session: s} }

// allQueues is the key of the reservations of all queues of a tree, which root has.
const allQueues api.QueueID = ""

// Reset begins the sums of a session: nothing is reserved in its queues yet.
func (s *Sums) Reset() {
	s.elasticUsages = map[api.JobID]quota.ElasticUsage{}
	s.inqueue = make(map[api.QueueID]*quota.Reservations, len(s.Volcano.Queues)+1)
	for id := range s.Volcano.Queues {
		s.inqueue[id] = &quota.Reservations{}
	}
	s.inqueue[allQueues] = &quota.Reservations{}
}

// Of returns the reservations of a queue.
func (s *Sums) Of(queue string) *quota.Reservations {
	return s.inqueue[api.QueueID(queue)]
}

// Reserve adds a request to the reservations of a queue and its ancestors, in a tree also to those of
// all queues. A queue that accepts no new pods reserves nothing of its ancestors.
func (s *Sums) Reserve(queue api.QueueID, request quota.JobRequest) {
	s.inqueue[queue].Add(request)
	if !s.IsTree() || s.QueueRules[queue].Refusal != nil {
		return
	}

	s.inqueue[allQueues].Add(request)
	for _, ancestor := range s.Cache.Tree.Ancestors(string(queue)) {
		s.inqueue[api.QueueID(ancestor)].Add(request)
	}
}

// addElastic adds what a running job uses above its minimum to the reservations of a queue and
// its ancestors, in a tree also to those of all queues.
func (s *Sums) addElastic(job *api.JobInfo, usage quota.ElasticUsage) {
	s.elasticUsages[job.UID] = usage
	s.inqueue[job.Queue].AddElastic(usage)
	if s.IsTree() {
		s.inqueue[allQueues].AddElastic(usage)
	}
	for _, ancestor := range s.Cache.Tree.Ancestors(string(job.Queue)) {
		s.inqueue[api.QueueID(ancestor)].AddElastic(usage)
	}
}

// fitsAlone reports whether a job would be enqueued if it had its queue to itself. A job
// enqueued under a larger quota cannot start, so it reserves nothing.
func (s *Sums) fitsAlone(job *api.JobInfo, request quota.JobRequest) bool {
	return s.Ledger.FitsAlone(string(job.Queue), s.jobCharges(job), request, s.Args.OverCommitFactor)
}

// jobCharges returns the charges of the job's placed pods in its queue.
func (s *Sums) jobCharges(job *api.JobInfo) (charges []*quota.Charge) {
	for task := range gang.TasksIn(job, api.AllocatedStatus) {
		if charge := s.ChargeInQueue(job.Queue, task); charge != nil {
			charges = append(charges, charge)
		}
	}
	return charges
}

// elasticUsage returns what a job uses, and how much of it is above the minimum: that of its smallest pods.
// aboveMinimum is how many pods that are.
func (s *Sums) elasticUsage(job *api.JobInfo, aboveMinimum int) quota.ElasticUsage {
	usage := quota.ElasticUsage{Used: map[card.Name]card.Count{}}
	var cards, milliCPU, memory []int64
	for task := range gang.TasksIn(job, api.AllocatedStatus) {
		charge := s.ChargeInQueue(job.Queue, task)
		if charge == nil {
			continue
		}

		for _, amount := range charge.Cards {
			usage.Used[amount.Name] = usage.Used[amount.Name].Add(amount.Count)
			cards = append(cards, int64(amount.Count))
		}

		milliCPU = append(milliCPU, charge.MilliCPU)
		memory = append(memory, charge.Memory)
	}

	// Any pods may be those above the minimum. The smallest ones count, so that no vote promises too much.
	usage.Elastic = card.Count(sumOfSmallest(cards, aboveMinimum))
	usage.MilliCPU = sumOfSmallest(milliCPU, aboveMinimum)
	usage.Memory = sumOfSmallest(memory, aboveMinimum)
	return usage
}

// sumOfSmallest returns the sum of the n smallest amounts.
func sumOfSmallest(amounts []int64, n int) (sum int64) {
	slices.Sort(amounts)
	for _, amount := range amounts[:min(n, len(amounts))] {
		sum = quota.AddSaturating(sum, amount)
	}
	return sum
}
