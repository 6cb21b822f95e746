package enforced

import (
	"cmp"
	"maps"
	"slices"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/enforcement"
	"cardquota.dev/operator/internal/heartbeat"
)

// verdicts are all that follow from one set of facts.
type verdicts struct {
	policy    enforcement.Verdict
	scheduler *v1alpha1.SchedulerStatus
	// queues holds the queues that pods came past our scheduler in; others is for
	// every other one.
	queues map[string]enforcement.Verdict
	others enforcement.Verdict
}

func judge(f enforcement.Facts) *verdicts {
	v := &verdicts{policy: enforcement.Judge(f), others: enforcement.Judge(f.Of(EveryQueue)), queues: map[string]enforcement.Verdict{}}
	for _, b := range f.Bypass {
		if _, ok := v.queues[b.Queue]; !ok && b.Queue != "" {
			v.queues[b.Queue] = enforcement.Judge(f.Of(b.Queue))
		}
	}
	v.scheduler = schedulerOf(f.Heartbeat)
	return v
}

// schedulerOf is what a policy shows of a report, nil without one.
func schedulerOf(report *heartbeat.Report) *v1alpha1.SchedulerStatus {
	if report == nil {
		return nil
	}
	return &v1alpha1.SchedulerStatus{Identity: report.Identity, Version: report.Version, ConfigHash: report.ConfigHash}
}

func (v *verdicts) ofQueue(name string) enforcement.Verdict {
	if verdict, ok := v.queues[name]; ok {
		return verdict
	}
	return v.others
}

// changes say whom a new verdict concerns.
type changes struct {
	queues []string
	policy bool
}

// since compares with the verdicts before, nil for none.
func (v *verdicts) since(before *verdicts) changes {
	if before == nil || !v.others.Same(before.others) {
		return changes{queues: []string{EveryQueue}, policy: before == nil || v.policyChanged(before)}
	}
	queues := map[string]bool{}
	for _, of := range []*verdicts{before, v} {
		for name := range of.queues {
			if !v.ofQueue(name).Same(before.ofQueue(name)) {
				queues[name] = true
			}
		}
	}
	return changes{queues: slices.Sorted(maps.Keys(queues)), policy: v.policyChanged(before)}
}

func (v *verdicts) policyChanged(before *verdicts) bool {
	none := &v1alpha1.SchedulerStatus{}
	return !v.policy.Same(before.policy) || *cmp.Or(v.scheduler, none) != *cmp.Or(before.scheduler, none)
}
