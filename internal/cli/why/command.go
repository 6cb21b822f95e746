// Package why is kubectl cardquota why: it reads what is known about a workload that waits. Package explanation
// says why it waits, and what would help.
package why

import (
	"fmt"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"cardquota.dev/operator/internal/cli/program"
	"cardquota.dev/operator/internal/cli/why/explanation"
)

// NewCommand returns the command why.
func NewCommand(p *program.Program) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "why (POD | KIND/NAME | KIND NAME)",
		Short: "Say why a workload waits, and what would help",
		Long: program.Paragraphs("Says why a pod, Job, Deployment, StatefulSet, Volcano job or PodGroup waits: what it requests, the answer of each gate, who holds the cards, and what would help. "+
			"The reason is that of status.blocked of its CardQuota.",
			"Where you may not list the nodes and pods of the cluster, it says so and uses what CardQuota and CardInventory say.",
			fmt.Sprintf("The exit code is 0 if nothing of it waits, %d if it waits, and 1 if it could not look.", program.ExitWaits)),
		Example:           "  kubectl cardquota why train-worker-0 -n lab\n  kubectl cardquota why deployment/chat\n  kubectl cardquota why vcjob train -o yaml",
		Args:              needWorkload,
		ValidArgsFunction: completePendingPods(p),
		RunE: func(cmd *cobra.Command, args []string) error {
			target, err := parseTarget(args)
			if err != nil {
				return err
			}

			target.namespace, err = p.Namespace()
			if err != nil {
				return err
			}

			r, err := p.NewReader()
			if err != nil {
				return err
			}

			input, err := readInput(cmd.Context(), r, target, p.NodeRefusals, p.Now())
			if err != nil {
				return err
			}

			document := explanation.Explain(input)
			if err := p.Print(document, document.Render); err != nil {
				return err
			}
			if document.Waits {
				return program.ExitCode(program.ExitWaits)
			}

			return nil
		},
	}

	p.AddOutputFlag(cmd)
	return cmd
}

// completePendingPods completes the name of one pod in phase Pending, which every pod without a node has.
func completePendingPods(p *program.Program) cobra.CompletionFunc {
	return func(cmd *cobra.Command, taken []string, _ string) ([]string, cobra.ShellCompDirective) {
		namespace, err := p.Namespace()
		if err != nil || len(taken) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return p.CompleteNames(cmd, &corev1.PodList{}, nil, client.InNamespace(namespace), client.MatchingFields{"status.phase": string(corev1.PodPending)})
	}
}
