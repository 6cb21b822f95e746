package explanation

import (
	"strings"
	"testing"
	"time"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/testing/check"
)

// withMinimumRuntime is inference that waits for cards, which training keeps for ten minutes at least.
func withMinimumRuntime() Input {
	in := waiting(v1alpha1.BlockedNoFreeCard, "0/4 nodes are unavailable: 4 Insufficient nvidia.com/gpu.")
	in.Path = []*v1alpha1.CardQuota{granted("llm", 8, 2)}
	in.Path[0].Spec.ServiceType = "inference"
	in.Policy.Status.ServiceTypes = []v1alpha1.ServiceTypeStatus{
		{Name: "inference", Priority: 80000, ReclaimPolicy: v1alpha1.ReclaimNever, ReclaimFrom: []string{"training"}},
		{Name: "training", Priority: 20000, ReclaimPolicy: v1alpha1.ReclaimWhenNeeded, MinimumRuntimeSeconds: 600},
	}

	in.Running = map[v1alpha1.WorkloadReference]Running{
		ofJob("late"): {Since: at.Add(-2 * time.Minute)}, ofJob("early"): {Since: at.Add(-6 * time.Minute)}, ofJob("old"): {Since: at.Add(-time.Hour)},
	}
	in.Entries[0].Holders = []v1alpha1.CardHolder{holder("early", "lab", 6)}
	return in
}

// TestMinimumRuntimeIsNamedOnlyIfItsEndHelps breaks each rule by which a reclaimer takes cards.
func TestMinimumRuntimeIsNamedOnlyIfItsEndHelps(t *testing.T) {
	const words = "Job lab/early holds 6 NVIDIA-H200 and ends its minimum runtime in 4m. It may then be reclaimed: inference takes cards back from training."
	advice := func(in Input) string { return strings.Join(Explain(in).Advice, "\n") }
	check.Contains(t, "advice", advice(withMinimumRuntime()), words)

	early := ofJob("early")
	for name, change := range map[string]func(*Input){
		"no policy":               func(in *Input) { in.Policy = nil },
		"reclaim is off":          func(in *Input) { in.Policy.Status.Reclaim = v1alpha1.ReclaimOff },
		"no CardQuota":            func(in *Input) { in.Path = nil },
		"another type":            func(in *Input) { in.Path[0].Spec.ServiceType = "training" },
		"an unknown type":         func(in *Input) { in.Entries[0].Holders[0].ServiceType = "batch" },
		"no type":                 func(in *Input) { in.Entries[0].Holders[0].ServiceType = "" },
		"it takes from others":    func(in *Input) { in.Policy.Status.ServiceTypes[0].ReclaimFrom = []string{"batch"} },
		"not reclaimable":         func(in *Input) { in.Policy.Status.ServiceTypes[1].ReclaimPolicy = v1alpha1.ReclaimNever },
		"no lower priority":       func(in *Input) { in.Policy.Status.ServiceTypes[1].Priority = 80000 },
		"no minimum":              func(in *Input) { in.Policy.Status.ServiceTypes[1].MinimumRuntimeSeconds = 0 },
		"preemptionPolicy: Never": func(in *Input) { in.Request.TakesNone = true },
		"protected":               func(in *Input) { in.Running[early] = Running{Since: at, IsProtected: true} },
		"not started":             func(in *Input) { in.Running[early] = Running{} },
		"it ended already":        func(in *Input) { in.Running[early] = Running{Since: at.Add(-10 * time.Minute)} },
		"its pods are unknown":    func(in *Input) { in.Running = nil },
		"quota is missing":        func(in *Input) { in.Entries[0].Reason = v1alpha1.BlockedQuotaExhausted },
		"it is the one":           func(in *Input) { in.Workload = early },
		"another namespace": func(in *Input) {
			in.NamesOthers = false
			in.Workload.Namespace = "other"
		},
	} {
		in := withMinimumRuntime()
		change(&in)
		check.That(t, !strings.Contains(advice(in), "minimum runtime"), "%s: %s", name, advice(in))
	}
}
