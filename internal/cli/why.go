package cli

import (
	"fmt"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/internal/cli/explanation"
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
		Args:              needWorkload,
		ValidArgsFunction: p.completePendingPods,
		RunE: func(cmd *cobra.Command, args []string) error {
			target, err := parseTarget(args)
			if err != nil {
				return err
			}

			target.namespace, _, err = p.flags.ToRawKubeConfigLoader().Namespace()
			if err != nil {
				return err
			}

			c, err := p.connect()
			if err != nil {
				return err
			}

			input, err := readWhy(cmd.Context(), &reader{client: c}, target, p.now())
			if err != nil {
				return err
			}

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

func newPodList() client.ObjectList      { return &corev1.PodList{} }
func newPodGroupList() client.ObjectList { return &v1beta1.PodGroupList{} }
