package explanation

import (
	"cmp"
	"fmt"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	batchv1alpha1 "volcano.sh/apis/pkg/apis/batch/v1alpha1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/cli/output"
	"cardquota.dev/operator/internal/conditions"
)

// Gang counts the pods of a PodGroup. All are 0 if they are unknown.
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

// writeCommand returns the command of kubectl for a workload. Kubernetes and Volcano both have a kind Job, so the
// command names the group.
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
func (a adviser) isVCJob() bool {
	return a.Workload.APIGroup == batchv1alpha1.GroupName && a.Workload.Kind == "Job"
}

// adviseGang says what helps a gang that lacks pods: who creates its pods, and what keeps that one from
// creating enough.
func (a adviser) adviseGang() []string {
	what := output.DescribeWorkload(a.Workload)
	missing := conditions.CountThings(a.Gang.Minimum-a.Gang.Pods, "pod")

	switch {
	case a.Creation != nil && a.Creation.Failure != "":
		return nil // its controller wants them, and the failure has its own advice
	case a.Workload.Kind == "Pod", a.Workload.Kind == "PodGroup":
		group := cmp.Or(a.PodGroup, "of its pods")
		return []string{fmt.Sprintf("Create %s more of PodGroup %s, or lower its minMember to %d.", missing, group, a.Gang.Pods)}
	case a.Scale != nil && a.Scale.Desired < a.Gang.Minimum:
		return []string{a.adviseScale()}
	case a.Rollout != nil && a.Rollout.startsTooFew(a.Gang.Minimum):
		return []string{a.adviseSurge()}
	case a.Scale != nil && a.Scale.IsOrdered:
		return []string{fmt.Sprintf("%s creates a pod only when the one before it is ready, so its gang of %d never starts. "+
			"Delete it and create it again with spec.podManagementPolicy: Parallel, which cannot be changed. Or leave out scheduling.volcano.sh/group-min-member.", what, a.Gang.Minimum)}
	default:
		return []string{fmt.Sprintf("%s has to create %s more. Its events say why it has not: %s.", what, missing, writeCommand("describe", a.Workload))}
	}
}

// adviseScale says what helps a gang that is larger than its controller.
func (a adviser) adviseScale() string {
	text := fmt.Sprintf("%s wants %s, and its gang needs %d: ", output.DescribeWorkload(a.Workload), conditions.CountThings(a.Scale.Desired, "pod"), a.Gang.Minimum)
	if a.isVCJob() {
		return text + fmt.Sprintf("raise %s, or lower spec.minAvailable to %d: %s.", a.Scale.Field, a.Scale.Desired, writeCommand("edit", a.Workload))
	}

	lower := fmt.Sprintf("lower its annotation scheduling.volcano.sh/group-min-member to %d", a.Scale.Desired)
	switch {
	case a.Scale.Field == "":
		text += lower
	case a.Scale.IsImmutable:
		text += fmt.Sprintf("%s, or create it again with %s: %d", lower, a.Scale.Field, a.Gang.Minimum)
	default:
		text += fmt.Sprintf("raise %s to %d, or %s", a.Scale.Field, a.Gang.Minimum, lower)
	}

	return text + ": " + writeCommand("edit", a.Workload) + "."
}

// startsTooFew reports whether a rollout never has as many new pods as their gang needs before one of
// them runs, as far as that is known.
func (r *Rollout) startsTooFew(minimum int) bool {
	return !r.IsKnown || r.MaxSurge+r.MaxUnavailable < minimum
}

// adviseSurge says what helps a gang of new pods of which a rollout creates only some before one of them
// runs.
func (a adviser) adviseSurge() string {
	text := fmt.Sprintf("Deployment %s adds too few new pods at once for a gang of %d: set", a.Workload.Name, a.Gang.Minimum)
	if !a.Rollout.IsKnown {
		text = fmt.Sprintf("Deployment %s may add too few new pods at once for a gang of %d. If so, set", a.Workload.Name, a.Gang.Minimum)
	}
	return text + fmt.Sprintf(" spec.strategy.rollingUpdate.maxSurge to %d or more. Or leave out scheduling.volcano.sh/group-min-member.", a.Gang.Minimum)
}
