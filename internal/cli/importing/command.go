// Package importing is kubectl cardquota import: it makes CardQuotas from the Queues of a cluster.
package importing

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/cli/output"
	"cardquota.dev/operator/internal/cli/program"
	"cardquota.dev/operator/internal/cli/reader"
	"cardquota.dev/operator/internal/queueusage"
	"cardquota.dev/operator/internal/servicetype"
)

// NewCommand returns the command import.
func NewCommand(p *program.Program) *cobra.Command {
	input := Input{ServiceType: servicetype.Training}
	format := output.YAML
	cmd := &cobra.Command{
		Use:   "import [QUEUE...]",
		Short: "Print CardQuotas for the Queues that have none",
		Long: program.Paragraphs("Prints a CardQuota for each Volcano Queue that has none and uses cards, as YAML with comments, or as JSON with the comments on the error stream. It writes nothing to the cluster.",
			"The quotas are those of the annotation "+v1alpha1.AnnotationCardQuota+" of the Queue, else what its pods hold now. "+
				"CPU and memory are those of spec.capability. Queues without cards are left out, unless you name them.",
			"In a tree of queues (queueHierarchy Tree, or --tree) the CardQuotas have parents, and what a queue deserves is all of its quota. "+
				"While queues are flat, they have no parents, and a Queue that only has queues below it is left out."),
		Example:           "  kubectl cardquota import > quotas.yaml\n  kubectl cardquota import research --service-type inference",
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
			if err := readImportInput(cmd.Context(), r, &input); err != nil {
				return err
			}

			for _, name := range queues {
				if !slices.ContainsFunc(input.Queues, func(q *v1beta1.Queue) bool { return q.Name == name }) {
					return fmt.Errorf("there is no Queue %s", name)
				}
			}

			return showImport(p, NewPlan(input), format, r.Gaps)
		},
	}

	formats := []output.Format{output.YAML, output.JSON}
	cmd.Flags().VarP(output.FormatFlag{Value: &format, Allowed: formats}, "output", "o", "How to print: "+output.JoinWords(formats, "or")+".")
	program.CompleteFlag(cmd, "output", program.FixedCompletions(formats))
	cmd.Flags().StringVar(&input.ServiceType, "service-type", input.ServiceType, "The service type of queues that name none.")
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

// readImportInput reads Queues and CardQuotas, and counts what pods use. Without the right to list pods there are no
// counts, and without the right to list Queues or CardQuotas no import.
func readImportInput(ctx context.Context, r *reader.Reader, input *Input) error {
	if err := reader.List(ctx, r.Client, &v1beta1.QueueList{}, func(q *v1beta1.Queue) { input.Queues = append(input.Queues, q) }); err != nil {
		return err
	}

	// A missing right is an error: a Queue could get a second CardQuota.
	err := reader.List(ctx, r.Client, &v1alpha1.CardQuotaList{}, func(q *v1alpha1.CardQuota) { input.Quotas = append(input.Quotas, q) })
	if err != nil && !reader.IsNotInstalled(err) { // a user may import before Cardquota is installed
		return err
	}

	loaded := reader.ReadWorkloads(ctx, r)
	input.IsTree = input.IsTree || loaded.IsTree
	if loaded.IsComplete {
		input.Usage = queueusage.Count(queueusage.Input{Pods: loaded.Pods, PodGroups: loaded.PodGroups, Inventory: loaded.Tracker().Inventory()})
	}

	return r.Err()
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
		notes = slices.Insert(notes, 0, "There is nothing to import: every Queue that uses cards has a CardQuota.")
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
