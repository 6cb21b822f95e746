package explanation

import (
	"testing"
	"time"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/testing/check"
)

// newWaitingInference waits for cards. Policy: inference reclaims cards from training, and training keeps them for ten
// minutes at least. Job early of training has run for 6 minutes, late for 2, and old for an hour. Job early uses 6 H200.
func newWaitingInference() Input {
	in := newWaitingJob(v1alpha1.BlockedNoFreeCard, "0/4 nodes are unavailable: 4 Insufficient nvidia.com/gpu.")
	in.Path = []*v1alpha1.CardQuota{newQuota("llm", 8, 2)}
	in.Path[0].Spec.ServiceType = "inference"
	in.Policy.Status.ServiceTypes = []v1alpha1.ServiceTypeStatus{
		{Name: "inference", Priority: 80000, ReclaimPolicy: v1alpha1.ReclaimNever, ReclaimFrom: []string{"training"}},
		{Name: "training", Priority: 20000, ReclaimPolicy: v1alpha1.ReclaimWhenNeeded, MinimumRuntimeSeconds: 600},
	}

	in.Running = map[v1alpha1.WorkloadReference]Running{
		ofJob("late"):  {Since: at.Add(-2 * time.Minute)},
		ofJob("early"): {Since: at.Add(-6 * time.Minute)},
		ofJob("old"):   {Since: at.Add(-time.Hour)},
	}
	in.Entries[0].Holders = []v1alpha1.CardHolder{holder("early", "lab", 6)}
	return in
}

// TestTheEndOfAMinimumRuntimeIsNamed: a job of inference waits for cards that job early of training uses. Training
// keeps its cards for ten minutes at least, and early has run for 6. So its minimum runtime ends in 10 - 6 = 4 minutes.
// From then on the scheduler may reclaim its cards, so the advice says when that is.
func TestTheEndOfAMinimumRuntimeIsNamed(t *testing.T) {
	check.Contains(t, "explanation", textOf(newWaitingInference()),
		"Job lab/early holds 6 NVIDIA-H200 and ends its minimum runtime in 4m. It may then be reclaimed: inference takes cards back from training.")
}

// TestAMinimumRuntimeIsNamedOnlyIfItsEndHelps: in newWaitingInference a job of inference waits for cards that job
// early of training uses, and the explanation names the end of the minimum runtime of early. Each row changes one
// thing. After it the scheduler would not reclaim the cards of early at that time, or the user may not know. So the
// end is not named.
func TestAMinimumRuntimeIsNamedOnlyIfItsEndHelps(t *testing.T) {
	early := ofJob("early")

	for t, change := range check.Cases(t, map[string]func(*Input){
		"the policy is not known":                func(in *Input) { in.Policy = nil },
		"reclaim is off":                         func(in *Input) { in.Policy.Status.Reclaim = v1alpha1.ReclaimOff },
		"the queue has no CardQuota":             func(in *Input) { in.Path = nil },
		"the job that waits is of training too":  func(in *Input) { in.Path[0].Spec.ServiceType = "training" },
		"early is of a type without policy":      func(in *Input) { in.Entries[0].Holders[0].ServiceType = "batch" },
		"early has no service type":              func(in *Input) { in.Entries[0].Holders[0].ServiceType = "" },
		"inference reclaims only from batch":     func(in *Input) { in.Policy.Status.ServiceTypes[0].ReclaimFrom = []string{"batch"} },
		"training is not reclaimable":            func(in *Input) { in.Policy.Status.ServiceTypes[1].ReclaimPolicy = v1alpha1.ReclaimNever },
		"training has the priority of inference": func(in *Input) { in.Policy.Status.ServiceTypes[1].Priority = 80000 },
		"training has no minimum runtime":        func(in *Input) { in.Policy.Status.ServiceTypes[1].MinimumRuntimeSeconds = 0 },
		"the waiting pods have preemption Never": func(in *Input) { in.Request.TakesNone = true },
		"early may not be evicted":               func(in *Input) { in.Running[early] = Running{Since: at, IsProtected: true} },
		"early has not started":                  func(in *Input) { in.Running[early] = Running{} },
		"the minimum of early ended just now":    func(in *Input) { in.Running[early] = Running{Since: at.Add(-10 * time.Minute)} },
		"the pods of early are not known":        func(in *Input) { in.Running = nil },
		"quota is missing, not cards":            func(in *Input) { in.Entries[0].Reason = v1alpha1.BlockedQuotaExhausted },
		"early is the job that waits":            func(in *Input) { in.Workload = early },
		"early is of a namespace that is hidden": func(in *Input) {
			in.NamesOthers = false
			in.Workload.Namespace = "other"
		},
	}) {
		in := newWaitingInference()
		change(&in)
		check.Text(t, "explanation", textOf(in)).Lacks("minimum runtime")
	}
}
