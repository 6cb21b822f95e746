// Package importing is kubectl cardquota import: it makes CardQuotas from the Queues of a cluster, from ResourceQuotas and
// ClusterQueues of Kueue, and from what the pods of namespaces use.
package importing

import (
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/cli/output"
	"cardquota.dev/operator/internal/cli/program"
	"cardquota.dev/operator/internal/servicetype"
)

// NewCommand returns the command import.
func NewCommand(p *program.Program) *cobra.Command {
	input := Input{ServiceType: servicetype.Training}
	format := output.YAML
	var from []string
	cmd := &cobra.Command{
		Use:   "import [QUEUE...]",
		Short: "Print CardQuotas for Queues and namespaces that have none",
		Long: program.Paragraphs("Prints CardQuotas as YAML, with the reason of each value as a comment, or as JSON with the comments on the error stream. It writes nothing to the cluster. At the end it says what could not be carried over.",
			"It makes a CardQuota for each Volcano Queue that has none and uses cards, for each ClusterQueue of Kueue and each namespace with a ResourceQuota of cards, and for other namespaces whose pods use cards. "+
				"Pods in a Queue count for it alone, and a namespace gets one CardQuota: by a ClusterQueue, else by its ResourceQuotas, else by what its pods use. With --from it takes some of these sources.",
			"The quotas of a Queue are those of its annotation "+v1alpha1.AnnotationCardQuota+", else what its pods hold now. "+
				"CPU and memory are those of spec.capability. Queues without cards are left out, unless you name them.",
			"In a tree of queues (queueHierarchy Tree, or --tree) the CardQuotas have parents, and what a queue deserves is all of its quota. "+
				"While queues are flat, they have no parents, and a Queue that only has queues below it is left out."),
		Example: "  kubectl cardquota import > quotas.yaml\n  kubectl cardquota import research --service-type inference\n" +
			"  kubectl cardquota import --from kueue,resourcequotas",
		ValidArgsFunction: completeQueues(p),
		RunE: func(cmd *cobra.Command, queues []string) error {
			r, err := p.NewReader()
			if err != nil {
				return err
			}
			if !servicetype.IsName(input.ServiceType) {
				return fmt.Errorf("--service-type %q is no name of a service type: write lower-case letters, digits and dashes, at most 63", input.ServiceType)
			}

			input.Only = queues
			if err := input.setSources(from); err != nil {
				return err
			}

			namespace, err := p.Namespace()
			if err != nil {
				return err
			}
			if err := readImportInput(cmd.Context(), r, namespace, &input); err != nil {
				return err
			}

			for _, name := range queues {
				if !slices.ContainsFunc(input.Queues, func(q *v1beta1.Queue) bool { return q.Name == name }) {
					return fmt.Errorf("there is no Queue %s", name)
				}
			}

			plan := Plan{}
			if input.wantsSource(FromQueues) {
				plan = NewPlan(input)
			}
			plan.Propose(input)
			return showImport(p, plan, format, r.Gaps)
		},
	}

	formats := []output.Format{output.YAML, output.JSON}
	cmd.Flags().VarP(output.FormatFlag{Value: &format, Allowed: formats}, "output", "o", "How to print: "+output.JoinWords(formats, "or")+".")
	program.CompleteFlag(cmd, "output", program.FixedCompletions(formats))
	cmd.Flags().StringSliceVar(&from, "from", nil, "Where to take quotas from: "+output.JoinWords(Sources, "and")+". The default is all that the cluster has.")
	program.CompleteFlag(cmd, "from", program.FixedCompletions(Sources))
	cmd.Flags().StringVar(&input.ServiceType, "service-type", input.ServiceType, "The service type where nothing names one.")
	cmd.Flags().BoolVar(&input.IsTree, "tree", false, "Make CardQuotas for a tree, before queueHierarchy is Tree.")
	cmd.Flags().StringVar(&input.TenantLabel, "tenant-label", "", "The label of a Queue that names its tenant. Without it the tenant is the name of the queue.")
	return cmd
}

// completeQueues completes the names of Queues.
func completeQueues(p *program.Program) cobra.CompletionFunc {
	return func(cmd *cobra.Command, taken []string, _ string) ([]string, cobra.ShellCompDirective) {
		return p.CompleteNames(cmd, &v1beta1.QueueList{}, taken)
	}
}

// showImport prints the CardQuotas, and on the error stream what is left out and what could not be read
// (gaps). JSON has no comments, so those of the CardQuotas go to the error stream, too.
func showImport(p *program.Program, plan Plan, format output.Format, gaps []string) error {
	write := plan.Write
	notes := append(plan.Notes(), gaps...)
	if format == output.JSON {
		write = plan.WriteJSON
		notes = append(plan.Comments(), notes...)
	}

	if err := write(p.Streams.Out); err != nil {
		return err
	}

	switch {
	case len(plan.Imports) > 0:
	case plan.CoversAll:
		notes = slices.Insert(notes, 0, "There is nothing to import: every Queue and every namespace that uses cards has a CardQuota.")
	default:
		notes = slices.Insert(notes, 0, "No CardQuota is printed.")
	}

	for _, note := range notes {
		if _, err := fmt.Fprint(p.Streams.ErrOut, output.Indent(output.Clean(note), "", "")); err != nil {
			return err
		}
	}

	return nil
}
