package capacitycard

import (
	"maps"

	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/internal/scheduler/gang"
)

// evictionAllowance is what a job can lose.
type evictionAllowance struct {
	// elastic is how many pods it can lose and continue, elasticByRole how many per task role,
	// nil if roles do not matter.
	elastic       int32
	elasticByRole map[string]int32
	// wholeJob is set if the job can be evicted as a whole.
	wholeJob bool
}

// allowanceFor returns what a job can lose, as a copy that the caller may change.
func (p *preemptRun) allowanceFor(job *api.JobInfo) *evictionAllowance {
	// Topology-aware preemption asks from several goroutines.
	p.allowances.Lock()
	defer p.allowances.Unlock()

	if p.allowances.jobs == nil || p.allowances.evictions != p.evictions {
		p.allowances.jobs = map[api.JobID]*evictionAllowance{}
		p.allowances.evictions = p.evictions
	}

	known := p.allowances.jobs[job.UID]
	if known == nil {
		known = &evictionAllowance{wholeJob: p.canEvictWholeJob(job)}
		if !p.isInelastic(job) {
			known.elastic, known.elasticByRole = p.p.prices.elasticPods(job)
		}
		p.allowances.jobs[job.UID] = known
	}

	return &evictionAllowance{elastic: known.elastic, elasticByRole: maps.Clone(known.elasticByRole), wholeJob: known.wholeJob}
}

// elasticPods returns how many pods a job can lose and continue: those above its minimum, and no more than
// its Kubernetes Jobs survive.
func (p *Prices) elasticPods(job *api.JobInfo) (all int32, roles map[string]int32) {
	all, roles = gang.ElasticPods(job)
	return int32(min(int(all), p.priceFor(job).evictionsLeft)), roles
}

// takeElastic uses up one elastic pod, and reports whether there was one.
func (e *evictionAllowance) takeElastic(task *api.TaskInfo) bool {
	if e.elastic <= 0 || (e.elasticByRole != nil && e.elasticByRole[task.TaskRole] <= 0) {
		return false
	}
	e.elastic--
	if e.elasticByRole != nil {
		e.elasticByRole[task.TaskRole]--
	}
	return true
}
