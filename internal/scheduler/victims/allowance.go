package victims

import (
	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/internal/scheduler/gang"
)

// Allowance is what a job can lose.
type Allowance struct {
	// Elastic is how many pods it can lose and continue, ElasticByRole how many per task role,
	// nil if roles do not matter.
	Elastic       int32
	ElasticByRole map[string]int32
	// WholeJob is set if the job can be evicted as a whole.
	WholeJob bool
}

// TakeElastic uses up one elastic pod of a pod's task role, and reports whether there was one.
func (a *Allowance) TakeElastic(task *api.TaskInfo) bool {
	if a.Elastic <= 0 || (a.ElasticByRole != nil && a.ElasticByRole[task.TaskRole] <= 0) {
		return false
	}
	a.Elastic--
	if a.ElasticByRole != nil {
		a.ElasticByRole[task.TaskRole]--
	}
	return true
}

// ElasticPods returns how many pods a job can lose and continue: those above its minimum, and no more than
// its Kubernetes Jobs survive. roles is how many per task role, nil if roles do not matter.
func (p *Prices) ElasticPods(job *api.JobInfo) (all int32, roles map[string]int32) {
	all, roles = gang.ElasticPods(job)
	return int32(min(int(all), p.priceFor(job).evictionsLeft)), roles
}
