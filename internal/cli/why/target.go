package why

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	batchv1alpha1 "volcano.sh/apis/pkg/apis/batch/v1alpha1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/cli/reader"
	"cardquota.dev/operator/internal/workload"
)

// target is the workload that a user names. Group "*" is any API group.
type target struct{ kind, group, namespace, name string }

// targetKinds are the kinds that a user may write, with kubectl's short names.
var targetKinds = map[string]target{
	"pod": {kind: "Pod"}, "po": {kind: "Pod"}, "pods": {kind: "Pod"},
	"job": {kind: "Job", group: "*"}, "jobs": {kind: "Job", group: "*"},
	"vcjob": {kind: "Job", group: "batch.volcano.sh"}, "vj": {kind: "Job", group: "batch.volcano.sh"}, "vcjobs": {kind: "Job", group: "batch.volcano.sh"},
	"deployment": {kind: "Deployment", group: "*"}, "deploy": {kind: "Deployment", group: "*"}, "deployments": {kind: "Deployment", group: "*"},
	"statefulset": {kind: "StatefulSet", group: "*"}, "sts": {kind: "StatefulSet", group: "*"}, "statefulsets": {kind: "StatefulSet", group: "*"},
	"replicaset": {kind: "ReplicaSet", group: "*"}, "rs": {kind: "ReplicaSet", group: "*"}, "replicasets": {kind: "ReplicaSet", group: "*"},
	"daemonset": {kind: "DaemonSet", group: "*"}, "ds": {kind: "DaemonSet", group: "*"}, "daemonsets": {kind: "DaemonSet", group: "*"},
	"podgroup": {kind: "PodGroup", group: "*"}, "pg": {kind: "PodGroup", group: "*"}, "podgroups": {kind: "PodGroup", group: "*"},
}

// parseTarget parses POD, KIND/NAME and KIND NAME. Any other kind than the known ones must be written
// as the owner of the pods has it, such as PyTorchJob/train.
func parseTarget(args []string) (target, error) {
	kind := "pod"
	name := args[0]
	if len(args) == 2 {
		kind = args[0]
		name = args[1]
	} else if before, after, ok := strings.Cut(args[0], "/"); ok {
		kind = before
		name = after
	}

	if kind == "" || name == "" || strings.Contains(name, "/") {
		return target{}, fmt.Errorf("%q names no workload: write a pod, KIND/NAME or KIND NAME", strings.Join(args, " "))
	}

	kind, group, hasGroup := strings.Cut(kind, ".")
	if !hasGroup {
		if err := refuseNoWorkload(kind, name); err != nil {
			return target{}, err
		}
	}

	found, ok := targetKinds[strings.ToLower(kind)]
	if !ok {
		found = target{kind: kind, group: "*"}
	}

	if hasGroup { // job.batch, as kubectl has it
		found.group = group
	}

	found.name = name
	return found, nil
}

// matches reports whether a reference is the target. Users may write the kind in lower case.
func (t target) matches(ref v1alpha1.WorkloadReference) bool {
	isOfGroup := t.group == "*" || t.group == ref.APIGroup
	return strings.EqualFold(ref.Kind, t.kind) && ref.Name == t.name && ref.Namespace == t.namespace && isOfGroup
}

// matchesPod reports whether a pod is named by something else than its reference: by its own name, its
// PodGroup, or its ReplicaSet, where the reference names the Deployment.
func (t target) matchesPod(pod *corev1.Pod) bool {
	switch t.kind {
	case "Pod":
		return pod.Name == t.name
	case "PodGroup":
		return workload.PodGroupName(pod) == t.name
	case "ReplicaSet":
		return t.matches(workload.ControllerReference(pod, "", "Pod"))
	default:
		return false
	}
}

// workloadObjects are the objects of a namespace that belong to one workload.
type workloadObjects struct {
	ref  v1alpha1.WorkloadReference
	pods []*corev1.Pod
	// groups are the PodGroups of the namespace by name, whatever workload they belong to.
	groups map[string]*v1beta1.PodGroup
	// namespacePods are the pods of the namespace that have not finished, whatever workload they belong to.
	namespacePods []*corev1.Pod
	// knowsGroups reports whether groups are all of the namespace.
	knowsGroups bool
	// group is the PodGroup of a job without pods.
	group *v1beta1.PodGroup
	// others are further workloads with pods in the PodGroup that the user names.
	others []v1alpha1.WorkloadReference
}

// isPending reports whether a pod of the workload waits, or the job without pods.
func (o *workloadObjects) isPending() bool {
	return slices.ContainsFunc(o.pods, workload.IsPending) || (len(o.pods) == 0 && isJobWaiting(o.group))
}

// isJobWaiting reports whether a job without pods waits for the scheduler. group is nil if it has no PodGroup.
func isJobWaiting(group *v1beta1.PodGroup) bool {
	return group != nil && group.Status.Phase != v1beta1.PodGroupRunning && group.Status.Phase != v1beta1.PodGroupCompleted
}

// targetSearch collects what belongs to a target.
type targetSearch struct {
	target
	found       []*workloadObjects
	groups      map[string]*v1beta1.PodGroup
	knowsGroups bool
	// unfinished are the pods of the namespace that have not finished, hasPods the PodGroups of those that
	// belong to the target.
	unfinished []*corev1.Pod
	hasPods    map[string]bool
}

// findTarget returns the pods of a workload and their PodGroups. A workload without both is found by its
// controller, which may not be able to create pods.
func findTarget(ctx context.Context, r *reader.Reader, t target) (workloadObjects, error) {
	search := &targetSearch{target: t, groups: map[string]*v1beta1.PodGroup{}, hasPods: map[string]bool{}}
	var groups []*v1beta1.PodGroup
	search.knowsGroups = reader.ListInto(ctx, r, &v1beta1.PodGroupList{}, &groups, client.InNamespace(t.namespace))
	r.IgnoreMissingKind()
	if err := r.Err(); err != nil {
		return workloadObjects{}, err
	}
	if err := reader.List(ctx, r.Client, &corev1.PodList{}, search.addPod, client.InNamespace(t.namespace)); err != nil {
		return workloadObjects{}, err
	}
	search.addGroups(groups)

	if len(search.found) == 0 {
		reference, exists := findController(ctx, r, t)
		if err := r.Err(); err != nil {
			return workloadObjects{}, err
		}
		if exists {
			search.addWorkload(reference)
		}
	}

	chosen, err := chooseWorkload(t, search.found)
	chosen.namespacePods = search.unfinished
	return chosen, err
}

// addWorkload returns the objects of a workload, which has none when it is added first.
func (s *targetSearch) addWorkload(ref v1alpha1.WorkloadReference) *workloadObjects {
	at := slices.IndexFunc(s.found, func(known *workloadObjects) bool { return known.ref == ref })
	if at < 0 {
		at = len(s.found)
		s.found = append(s.found, &workloadObjects{ref: ref, groups: s.groups, knowsGroups: s.knowsGroups})
	}
	return s.found[at]
}

// addPod adds a pod of the namespace: to the unfinished ones, and to its workload if that may be the target.
func (s *targetSearch) addPod(pod *corev1.Pod) {
	if !workload.IsFinished(pod) {
		s.unfinished = append(s.unfinished, pod)
	}
	reference := workload.ReferenceFor(pod)
	if s.matches(reference) || s.matchesPod(pod) {
		own := s.addWorkload(reference)
		own.pods = append(own.pods, pod)
		s.hasPods[workload.PodGroupName(pod)] = true
	}
}

// addGroups adds the PodGroups of the namespace, after its pods: one with pods of the target is theirs, and not
// that of a job without pods.
func (s *targetSearch) addGroups(groups []*v1beta1.PodGroup) {
	for _, group := range groups {
		s.groups[group.Name] = group
		reference := workload.ControllerReference(group, v1beta1.GroupName, "PodGroup")
		isNamed := s.kind == "PodGroup" && group.Name == s.name
		if !s.hasPods[group.Name] && (isNamed || s.matches(reference)) {
			s.addWorkload(reference).group = group
		}
	}
}

// chooseWorkload returns the workload that a target means. It is an error if there is none, if several of that
// name wait, or if several run and none waits. The workloads of one PodGroup are one target.
func chooseWorkload(t target, found []*workloadObjects) (workloadObjects, error) {
	if len(found) == 0 {
		return workloadObjects{}, fmt.Errorf("namespace %s has no pod and no PodGroup of %s %s: check -n, or whether its controller has created pods%s", t.namespace, t.kind, t.name, suggestKind(t.kind))
	}

	// The user asks why something waits, so a running workload of that name is not meant.
	waiting := slices.DeleteFunc(slices.Clone(found), func(o *workloadObjects) bool { return !o.isPending() })
	if len(waiting) == 0 {
		waiting = found
	}

	chosen := waiting[0]

	// Workloads of one PodGroup wait together, so one answer is for all of them.
	if len(waiting) > 1 && t.kind != "PodGroup" {
		var written []string
		for _, other := range waiting {
			written = append(written, writeTarget(other.ref))
		}
		slices.Sort(written)
		return workloadObjects{}, fmt.Errorf("namespace %s has more than one %s %s: write %s", t.namespace, t.kind, t.name, strings.Join(written, " or "))
	}

	for _, other := range found {
		if other != chosen {
			chosen.others = append(chosen.others, other.ref)
		}
	}

	return *chosen, nil
}

// writeTarget returns the words that name a workload and no other kind.
func writeTarget(ref v1alpha1.WorkloadReference) string {
	if ref.APIGroup == batchv1alpha1.GroupName && ref.Kind == "Job" {
		return "vcjob/" + ref.Name
	}
	return strings.TrimSuffix(strings.ToLower(ref.Kind)+"."+ref.APIGroup, ".") + "/" + ref.Name
}
