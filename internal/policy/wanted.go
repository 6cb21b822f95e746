package policy

import (
	"time"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/schedulerconf"
)

// reclaimActions are the scheduler's actions that take cards back.
var reclaimActions = map[v1alpha1.ReclaimMode]string{
	v1alpha1.ReclaimGangs: schedulerconf.CardReclaim,
	v1alpha1.ReclaimPods:  "reclaim",
	v1alpha1.ReclaimOff:   "",
}

// WantedOf returns what a valid effective spec demands of the scheduler's
// configuration. Every argument that a policy can set is in it, also with its
// default: what a text says by hand would hold otherwise.
func WantedOf(spec v1alpha1.ServiceTypePolicySpec) schedulerconf.Wanted {
	types := make(map[string]any, len(spec.ServiceTypes))
	for _, t := range spec.ServiceTypes {
		row := map[string]any{}
		if t.ReclaimPolicy == v1alpha1.ReclaimWhenNeeded {
			row["reclaimable"] = true
		}
		if len(t.ReclaimFrom) > 0 {
			row["reclaimFrom"] = t.ReclaimFrom
		}
		if t.MinimumRuntimeSeconds != 0 {
			row["minimumRuntime"] = (time.Duration(t.MinimumRuntimeSeconds) * time.Second).String()
		}
		types[t.Name] = row
	}
	owners := make(map[string]any, len(spec.Owners))
	for _, o := range spec.Owners {
		owners[o.Kind] = o.ServiceType
	}
	classes := make(map[string]any, len(spec.PriorityClasses))
	for _, class := range spec.PriorityClasses {
		classes[class.Name] = class.Value
	}
	return schedulerconf.Wanted{
		Reclaim: reclaimActions[spec.Reclaim],
		Preempt: spec.Preempt == v1alpha1.PreemptInQueue,
		Arguments: map[string]any{
			"cardUnlimitedCpuMemory":         spec.ComputeQuota == v1alpha1.ComputeQuotaIgnoreForCardPods,
			"serviceTypes":                   types,
			"podOwnerReferenceToServiceType": owners,
			"unmanagedQueues":                string(spec.UnmanagedQueues),
			"overCommitFactor":               factor(spec.OverCommitPercent),
			"nodeOrderWeight":                factor(spec.NodeOrderWeightPercent),
			"victimOrder":                    string(spec.VictimOrder),
			"priorityClasses":                classes,
		},
	}
}

// factor is a percentage as the plugin wants it.
func factor(percent int32) any {
	if percent%100 == 0 {
		return int(percent / 100)
	}
	return float64(percent) / 100
}
