package victims

import (
	"cmp"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/scheduler/gang"
	"cardquota.dev/operator/internal/scheduler/loss"
	"cardquota.dev/operator/internal/scheduler/snapshot"
	"cardquota.dev/operator/internal/workload"
)

// Prices are what evictions cost jobs.
type Prices struct {
	*snapshot.Session
	prices jobPrices
}

// NewPrices returns the prices of a session.
func NewPrices(s *snapshot.Session) *Prices {
	return &Prices{Session: s, prices: jobPrices{jobs: map[api.JobID]*jobPrice{}}}
}

// PriceOf returns what evictions cost a job. The losses are in the order of tasks, which are all of its
// placed pods. Work before the latest checkpoint of its PodGroup and of these pods is not lost.
func (p *Prices) PriceOf(job *api.JobInfo, tasks []*api.TaskInfo) loss.Price {
	var checkpoints []map[string]string
	if job.PodGroup != nil {
		checkpoints = append(checkpoints, job.PodGroup.Annotations)
	}
	for _, task := range tasks {
		checkpoints = append(checkpoints, task.Pod.Annotations)
	}

	price := loss.PriceOf(job.Namespace, p.podsToPrice(job, tasks), loss.LatestCheckpoint(checkpoints...), p.Cache.Now(), p.Cache.FailureLimits)
	price.Pods = price.Pods[:len(tasks)] // without the pods that ended
	return price
}

// EvictionsLeft returns how many pods of each Kubernetes Job in a PodGroup may be evicted while that Job runs
// on, by its UID, nil if no pod belongs to one.
func (p *Prices) EvictionsLeft(job *api.JobInfo) map[types.UID]int {
	if !hasBatchJob(job) {
		return nil
	}
	left := map[types.UID]int{}
	for uid, batchJob := range loss.BatchJobsIn(p.podsToPrice(job, placedTasks(job))) {
		left[uid] = batchJob.EvictionsLeft(job.Namespace, uid, p.Cache.FailureLimits)
	}
	return left
}

// podsToPrice returns the placed pods of a job, and after them its pods that ended or terminate and belong to
// a Kubernetes Job.
func (p *Prices) podsToPrice(job *api.JobInfo, placed []*api.TaskInfo) []loss.Pod {
	pods := make([]loss.Pod, 0, len(placed))
	for _, task := range placed {
		pods = append(pods, p.podToPrice(task, p.CardCount(task), loss.Placed))
	}

	// Pods that ended count against the backoffLimit of their Kubernetes Job, and the work of those that
	// succeeded is lost if the Job fails.
	for _, task := range job.Tasks {
		state := loss.Ended
		switch task.Status {
		case api.Releasing, api.Failed:
		case api.Succeeded:
			state = loss.Succeeded
		default:
			continue
		}

		// Pods that ended have no charge, so their request counts. Tenants can write any number into it.
		if workload.BatchJobOwner(task.Pod) != nil {
			pods = append(pods, p.podToPrice(task, min(p.RequestFor(task).Count, card.MaxCount), state))
		}
	}

	return pods
}

// podToPrice returns a pod as its price counts it. CPU counts only if it is reclaimed too.
func (p *Prices) podToPrice(task *api.TaskInfo, cards card.Count, state loss.State) loss.Pod {
	pod := loss.Pod{Pod: task.Pod, State: state, Cards: int64(cards)}
	if p.ReclaimsAll() {
		pod.MilliCPU = int64(task.Resreq.MilliCPU)
	}
	return pod
}

// placedTasks returns the placed pods of a job.
func placedTasks(job *api.JobInfo) (placed []*api.TaskInfo) {
	for task := range gang.TasksIn(job, api.AllocatedStatus) {
		placed = append(placed, task)
	}
	return placed
}

// hasBatchJob reports whether some pod of a PodGroup belongs to a Kubernetes Job.
func hasBatchJob(job *api.JobInfo) bool {
	for _, task := range job.Tasks {
		if workload.BatchJobOwner(task.Pod) != nil {
			return true
		}
	}
	return false
}

// jobPrices keeps what evictions cost each job until one of its pods is placed or evicted. It has a lock, because
// topology-aware preemption asks from several goroutines.
type jobPrices struct {
	sync.Mutex
	jobs map[api.JobID]*jobPrice
}

// jobPrice is what evictions cost one job.
type jobPrice struct {
	// pods is the loss of each placed pod, whole that of all together.
	pods  map[api.TaskID]int64
	whole int64
	// evictionsLeft and isFailing are those of loss.Price.
	evictionsLeft int
	isFailing     bool
}

// priceFor returns what evictions cost a job now. It keeps that until ForgetPrice.
func (p *Prices) priceFor(job *api.JobInfo) *jobPrice {
	p.prices.Lock()
	defer p.prices.Unlock()

	if known := p.prices.jobs[job.UID]; known != nil {
		return known
	}

	placed := placedTasks(job)
	price := p.PriceOf(job, placed)
	made := &jobPrice{pods: make(map[api.TaskID]int64, len(placed)), whole: price.Whole(), evictionsLeft: price.EvictionsLeft, isFailing: price.IsFailing}
	for i, task := range placed {
		made.pods[task.UID] = price.Pods[i]
	}

	p.prices.jobs[job.UID] = made

	return made
}

// ForgetPrice forgets what evictions cost a job, whose pods changed.
func (p *Prices) ForgetPrice(job api.JobID) {
	p.prices.Lock()
	defer p.prices.Unlock()
	delete(p.prices.jobs, job)
}

// IsFailing reports whether a Kubernetes Job of a PodGroup fails because of the pods that ended already.
func (p *Prices) IsFailing(job *api.JobInfo) bool { return p.priceFor(job).isFailing }

// lossOfPod returns what is lost if a pod is evicted and its job runs on.
func (p *Prices) lossOfPod(task *api.TaskInfo) int64 {
	return p.priceFor(p.Volcano.Jobs[task.Job]).pods[task.UID]
}

// LossOfEviction returns what is lost if a pod is evicted. breaks are the pods whose eviction leaves their gang too small:
// with such a pod, the work of the whole job is lost.
func (p *Prices) LossOfEviction(task *api.TaskInfo, breaks map[api.TaskID]bool) int64 {
	if breaks[task.UID] {
		return p.priceFor(p.Volcano.Jobs[task.Job]).whole
	}
	return p.lossOfPod(task)
}

// CompareByLoss orders pods that may be evicted alone: the smallest loss first, then the lowest priority of queue, job and
// pod, then the youngest. Inside of a queue, precedence.go of package preemption asks it after priorities. Between queues,
// victimorder.go of package cardreclaim has an order of its own.
func (p *Prices) CompareByLoss(a, b *api.TaskInfo) int {
	x := p.Volcano.Jobs[a.Job]
	y := p.Volcano.Jobs[b.Job]
	return cmp.Or(
		cmp.Compare(p.lossOfPod(a), p.lossOfPod(b)),
		cmp.Compare(p.Volcano.Queues[x.Queue].Queue.Spec.Priority, p.Volcano.Queues[y.Queue].Queue.Spec.Priority),
		cmp.Compare(x.Priority, y.Priority),
		cmp.Compare(a.Priority, b.Priority),
		b.Pod.CreationTimestamp.Compare(a.Pod.CreationTimestamp.Time),
		cmp.Compare(a.UID, b.UID),
	)
}

// CompareBool orders false before true: it returns -1, 0 or 1 like cmp.Compare.
func CompareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	default:
		return 1
	}
}
