package explanation

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/cli/output"
)

// adviseMinimumRuntime names the holders from which the workload may reclaim cards as soon as they have run for
// the minimum of their service type, the earliest first. Those that have run for longer are left out: there it does not
// help to wait.
func (a adviser) adviseMinimumRuntime(holders []v1alpha1.CardHolder) []string {
	type ending struct {
		holder v1alpha1.CardHolder
		at     time.Time
	}

	var endings []ending
	for _, holder := range holders {
		runs, known := a.Running[holder.Workload]
		if !known || runs.IsProtected || runs.Since.IsZero() || holder.Workload == a.Workload {
			continue
		}

		minimum := a.minimumRuntime(holder.ServiceType)
		if at := runs.Since.Add(minimum); minimum > 0 && at.After(a.Now) {
			endings = append(endings, ending{holder, at})
		}
	}

	slices.SortStableFunc(endings, func(a, b ending) int { return a.at.Compare(b.at) })
	var advice []string
	for _, e := range endings {
		advice = append(advice, fmt.Sprintf("%s holds %d %s and ends its minimum runtime in %s. It may then be reclaimed: %s takes cards back from %s.",
			output.DescribeWorkload(e.holder.Workload), e.holder.Count, e.holder.Card, duration.HumanDuration(e.at.Sub(a.Now)), a.serviceType(), e.holder.ServiceType))
	}

	return advice
}

// serviceType returns that of the queue, "" if no CardQuota has it.
func (a adviser) serviceType() string {
	if len(a.Path) == 0 {
		return ""
	}
	return a.Path[0].Spec.ServiceType
}

// minimumRuntime returns how long workloads of a type keep cards that this workload may take back, 0
// if it may take back none, as a pod with preemptionPolicy Never.
func (a adviser) minimumRuntime(holderType string) time.Duration {
	if a.Policy == nil || a.Policy.Status.Reclaim == v1alpha1.ReclaimOff || a.Request.TakesNone {
		return 0
	}
	by := a.effectiveType(a.serviceType())
	from := a.effectiveType(holderType)
	if by == nil || from == nil || !canReclaim(by, from) {
		return 0
	}
	return time.Duration(from.MinimumRuntimeSeconds) * time.Second
}

// canReclaim reports whether workloads of one service type may take cards back from those of another.
func canReclaim(by, from *v1alpha1.ServiceTypeStatus) bool {
	return from.ReclaimPolicy == v1alpha1.ReclaimWhenNeeded && from.Priority < by.Priority && slices.Contains(by.ReclaimFrom, from.Name)
}

// effectiveType returns a service type as it is in force, nil for "" and for one that the policy does not
// have.
func (a adviser) effectiveType(name string) *v1alpha1.ServiceTypeStatus {
	types := a.Policy.Status.ServiceTypes
	if i := slices.IndexFunc(types, func(t v1alpha1.ServiceTypeStatus) bool { return name != "" && t.Name == name }); i >= 0 {
		return &types[i]
	}
	return nil
}
