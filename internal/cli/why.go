package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/cli/explanation"
	"cardquota.dev/operator/internal/workload"
)

// exitWaits is the exit code of why for a workload that waits.
const exitWaits = 2

func (p *program) newWhyCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "why (POD | KIND/NAME | KIND NAME)",
		Short: "Say why a workload waits, and what would help",
		Long: paragraphs("Says why a pod, Job, Deployment, StatefulSet, Volcano job or PodGroup waits: what it requests, the answer of each gate, who holds the cards, and what would help. "+
			"The reason is that of status.blocked of its CardQuota.",
			"Where you may not list the nodes and pods of the cluster, it says so and uses what CardQuota and CardInventory say.",
			fmt.Sprintf("The exit code is 0 if nothing of it waits, %d if it waits, and 1 if it could not look.", exitWaits)),
		Example:           "  kubectl cardquota why train-worker-0 -n lab\n  kubectl cardquota why deployment/chat\n  kubectl cardquota why vcjob train -o yaml",
		Args:              cobra.RangeArgs(1, 2),
		ValidArgsFunction: p.completePendingPods,
		RunE: func(cmd *cobra.Command, args []string) error {
			target, err := parseTarget(args)
			if err != nil {
				return err
			}
			if target.namespace, _, err = p.flags.ToRawKubeConfigLoader().Namespace(); err != nil {
				return err
			}
			c, err := p.connect()
			if err != nil {
				return err
			}
			input, err := readWhy(cmd.Context(), &reader{client: c}, target)
			if err != nil {
				return err
			}
			input.Now = p.now()
			document := explanation.Explain(input)
			if err := p.print(document, document.Write); err != nil {
				return err
			}
			if document.Waits {
				return exitCode(exitWaits)
			}
			return nil
		},
	}
	p.addOutputFlag(cmd)
	return cmd
}

// completePendingPods completes the names of pods without a node.
func (p *program) completePendingPods(cmd *cobra.Command, taken []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(taken) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	namespace, _, err := p.flags.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return p.completeNames(cmd, func() client.ObjectList { return &corev1.PodList{} }, nil, client.InNamespace(namespace), client.MatchingFields{"status.phase": string(corev1.PodPending)})
}

// target is the workload that a user names.
type target struct{ kind, group, namespace, name string }

// targetKinds are the kinds that a user may write, with kubectl's short names. Group "*" is any.
var targetKinds = map[string]target{
	"pod": {kind: "Pod"}, "po": {kind: "Pod"}, "pods": {kind: "Pod"},
	"job": {kind: "Job", group: "*"}, "jobs": {kind: "Job", group: "*"},
	"vcjob": {kind: "Job", group: "batch.volcano.sh"}, "vj": {kind: "Job", group: "batch.volcano.sh"}, "vcjobs": {kind: "Job", group: "batch.volcano.sh"},
	"deployment": {kind: "Deployment", group: "*"}, "deploy": {kind: "Deployment", group: "*"}, "deployments": {kind: "Deployment", group: "*"},
	"statefulset": {kind: "StatefulSet", group: "*"}, "sts": {kind: "StatefulSet", group: "*"}, "statefulsets": {kind: "StatefulSet", group: "*"},
	"replicaset": {kind: "ReplicaSet", group: "*"}, "rs": {kind: "ReplicaSet", group: "*"},
	"daemonset": {kind: "DaemonSet", group: "*"}, "ds": {kind: "DaemonSet", group: "*"},
	"podgroup": {kind: "PodGroup", group: "*"}, "pg": {kind: "PodGroup", group: "*"}, "podgroups": {kind: "PodGroup", group: "*"},
}

// parseTarget parses POD, KIND/NAME and KIND NAME. Any other kind than the known ones must be written
// as the owner of the pods has it, such as PyTorchJob/train.
func parseTarget(args []string) (target, error) {
	kind, name := "pod", args[0]
	if len(args) == 2 {
		kind, name = args[0], args[1]
	} else if before, after, ok := strings.Cut(args[0], "/"); ok {
		kind, name = before, after
	}
	if kind == "" || name == "" || strings.Contains(name, "/") {
		return target{}, fmt.Errorf("%q names no workload: write a pod, KIND/NAME or KIND NAME", strings.Join(args, " "))
	}
	kind, group, hasGroup := strings.Cut(kind, ".")
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

// matches reports whether a reference is the target.
func (t target) matches(w v1alpha1.WorkloadReference) bool {
	return strings.EqualFold(w.Kind, t.kind) && w.Name == t.name && w.Namespace == t.namespace && (t.group == "*" || t.group == w.APIGroup)
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

// whyObjects are the objects of the namespace that belong to a target.
type whyObjects struct {
	pods   []*corev1.Pod
	groups map[string]*v1beta1.PodGroup
	// group is the PodGroup of a job without pods.
	group *v1beta1.PodGroup
	ref   v1alpha1.WorkloadReference
}

// findTarget returns the pods of a workload and their PodGroups.
func findTarget(ctx context.Context, r *reader, t target) (whyObjects, error) {
	found := whyObjects{groups: map[string]*v1beta1.PodGroup{}}
	var groups []*v1beta1.PodGroup
	if _, err := listInto(ctx, r, newPodGroupList, &groups, client.InNamespace(t.namespace)); err != nil && !isNotInstalled(err) {
		return found, err
	}
	for _, group := range groups {
		found.groups[group.Name] = group
		if reference := workload.ControllerReference(group, v1beta1.GroupName, "PodGroup"); t.matches(reference) || t.kind == "PodGroup" && group.Name == t.name {
			found.group, found.ref = group, reference
		}
	}
	err := listAll(ctx, r.client, newPodList, func(pod *corev1.Pod) {
		if reference := workload.ReferenceFor(pod); t.matches(reference) || t.matchesPod(pod) {
			found.pods, found.ref = append(found.pods, pod), reference
		}
	}, client.InNamespace(t.namespace))
	if err == nil && len(found.pods) == 0 && found.group == nil {
		err = fmt.Errorf("namespace %s has no pod and no PodGroup of %s %s: check -n, or whether its controller has created pods", t.namespace, t.kind, t.name)
	}
	return found, err
}

func newPodList() client.ObjectList      { return &corev1.PodList{} }
func newPodGroupList() client.ObjectList { return &v1beta1.PodGroupList{} }
