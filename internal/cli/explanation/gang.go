package explanation

import (
	"cmp"
	"fmt"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	batchv1alpha1 "volcano.sh/apis/pkg/apis/batch/v1alpha1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/cli/output"
)

// Gang counts the pods of a PodGroup.
type Gang struct {
	// Minimum is how many pods must be there together, Pods how many exist and have not failed.
	Minimum, Pods int
}

// lacksPods reports whether fewer pods exist than the gang needs.
func (g Gang) lacksPods() bool { return g.Pods > 0 && g.Pods < g.Minimum }

// describe says how many pods the gang lacks.
func (g Gang) describe() string {
	verb := "exist"
	if g.Pods == 1 {
		verb = "exists"
	}
	return fmt.Sprintf("the gang needs %d pods, %d %s", g.Minimum, g.Pods, verb)
}

// Scale is how many pods a controller creates.
type Scale struct {
	// Desired is how many pods it wants beside each other. Field says so, "" where no field does.
	Desired int
	Field   string
	// IsImmutable reports whether Field cannot be changed.
	IsImmutable bool
	// IsOrdered reports whether it creates a pod only when the one before it is ready.
	IsOrdered bool
}

// writeCommand returns the command of kubectl for a workload.
func writeCommand(verb string, reference v1alpha1.WorkloadReference) string {
	kind := strings.ToLower(reference.Kind)
	switch reference.APIGroup {
	case batchv1alpha1.GroupName:
		kind = "job.batch.volcano.sh"
	case batchv1.GroupName:
		kind = "job.batch"
	}
	return fmt.Sprintf("kubectl -n %s %s %s %s", reference.Namespace, verb, kind, reference.Name)
}

// isVCJob reports whether the workload is a Volcano job, whose controller owns the PodGroup.
func (in *Input) isVCJob() bool {
	return in.Workload.APIGroup == batchv1alpha1.GroupName && in.Workload.Kind == "Job"
}

// adviseGang says what helps a gang that lacks pods.
func (in *Input) adviseGang() []string {
	what := output.DescribeWorkload(in.Workload)

	missing := countPods(in.Gang.Minimum - in.Gang.Pods)
	switch {
	case in.Creation != nil && in.Creation.Failure != "":
		return nil // its controller wants them, and the failure has its own advice
	case in.Workload.Kind == "Pod", in.Workload.Kind == "PodGroup":
		group := cmp.Or(in.PodGroup, "of its pods")
		return []string{fmt.Sprintf("Create %s more of PodGroup %s, or lower its minMember to %d.", missing, group, in.Gang.Pods)}
	case in.Scale != nil && in.Scale.Desired < in.Gang.Minimum:
		return []string{in.adviseScale()}
	case in.Rollout != nil && in.Rollout.startsTooFew(in.Gang.Minimum):
		return []string{in.adviseSurge()}
	case in.Scale != nil && in.Scale.IsOrdered:
		return []string{fmt.Sprintf("%s creates a pod only when the one before it is ready, so its gang of %d never starts. "+
			"Delete it and create it again with spec.podManagementPolicy: Parallel, which cannot be changed. Or leave out scheduling.volcano.sh/group-min-member.", what, in.Gang.Minimum)}
	default:
		return []string{fmt.Sprintf("%s has to create %s more. Its events say why it has not: %s.", what, missing, writeCommand("describe", in.Workload))}
	}
}

// adviseScale says what helps a gang that is larger than its controller.
func (in *Input) adviseScale() string {
	text := fmt.Sprintf("%s wants %s, and its gang needs %d: ", output.DescribeWorkload(in.Workload), countPods(in.Scale.Desired), in.Gang.Minimum)
	if in.isVCJob() {
		return text + fmt.Sprintf("raise %s, or lower spec.minAvailable to %d: %s.", in.Scale.Field, in.Scale.Desired, writeCommand("edit", in.Workload))
	}

	lower := fmt.Sprintf("lower its annotation scheduling.volcano.sh/group-min-member to %d", in.Scale.Desired)
	switch {
	case in.Scale.Field == "":
		text += lower
	case in.Scale.IsImmutable:
		text += fmt.Sprintf("%s, or create it again with %s: %d", lower, in.Scale.Field, in.Gang.Minimum)
	default:
		text += fmt.Sprintf("raise %s to %d, or %s", in.Scale.Field, in.Gang.Minimum, lower)
	}

	return text + ": " + writeCommand("edit", in.Workload) + "."
}

// startsTooFew reports whether a rollout never has as many new pods as their gang needs before one of
// them runs, as far as that is known.
func (r *Rollout) startsTooFew(minimum int) bool {
	return !r.IsKnown || r.MaxSurge+r.MaxUnavailable < minimum
}

// adviseSurge says what helps a gang of new pods that a rollout starts one after another.
func (in *Input) adviseSurge() string {
	text := fmt.Sprintf("Deployment %s adds too few new pods at once for a gang of %d: set", in.Workload.Name, in.Gang.Minimum)
	if !in.Rollout.IsKnown {
		text = fmt.Sprintf("Deployment %s may add too few new pods at once for a gang of %d. If so, set", in.Workload.Name, in.Gang.Minimum)
	}
	return text + fmt.Sprintf(" spec.strategy.rollingUpdate.maxSurge to %d or more. Or leave out scheduling.volcano.sh/group-min-member.", in.Gang.Minimum)
}
