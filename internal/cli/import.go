package cli

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/cardquota"
	"cardquota.dev/operator/internal/cli/output"
	"cardquota.dev/operator/internal/cli/queueimport"
	"cardquota.dev/operator/internal/policy"
	"cardquota.dev/operator/internal/servicetype"
)

func (p *program) newImportCommand() *cobra.Command {
	input := queueimport.Input{ServiceType: servicetype.Training}
	format := output.YAML
	cmd := &cobra.Command{
		Use:   "import [QUEUE...]",
		Short: "Print CardQuotas for the Queues that have none",
		Long: paragraphs("Prints a CardQuota for each Volcano Queue that has none and uses cards, as YAML with comments, or as JSON with the comments on the error stream. It writes nothing to the cluster.",
			"The quotas are those of the annotation "+v1alpha1.AnnotationCardQuota+" of the Queue, else what its pods hold now. "+
				"CPU and memory are those of spec.capability. Queues without cards are left out, unless you name them.",
			"In a tree of queues (queueHierarchy Tree, or --tree) the CardQuotas have parents, and what a queue deserves is all of its quota. "+
				"While queues are flat, they have no parents, and a Queue that only has queues below it is left out."),
		Example:           "  kubectl cardquota import > quotas.yaml\n  kubectl cardquota import research --service-type inference",
		ValidArgsFunction: p.completeQueues,
		RunE: func(cmd *cobra.Command, queues []string) error {
			c, err := p.connect()
			if err != nil {
				return err
			}
			if !servicetype.IsName(input.ServiceType) {
				return fmt.Errorf("--service-type %q is no name of a service type: write lower-case letters, digits and dashes, at most 63", input.ServiceType)
			}

			input.Only = queues
			r := &reader{client: c}
			if err := readImportInput(cmd.Context(), r, &input); err != nil {
				return err
			}

			for _, name := range queues {
				if !slices.ContainsFunc(input.Queues, func(q *v1beta1.Queue) bool { return q.Name == name }) {
					return fmt.Errorf("there is no Queue %s", name)
				}
			}

			return p.showImport(queueimport.NewPlan(input), format, r.gaps)
		},
	}

	formats := []output.Format{output.YAML, output.JSON}
	cmd.Flags().VarP(output.FormatFlag{Value: &format, Allowed: formats}, "output", "o", "How to print: "+output.JoinWords(formats, "or")+".")
	mustSucceed(cmd.RegisterFlagCompletionFunc("output", immutableCompletions(formats)))
	cmd.Flags().StringVar(&input.ServiceType, "service-type", input.ServiceType, "The service type of queues that name none.")
	cmd.Flags().BoolVar(&input.IsTree, "tree", false, "Make CardQuotas for a tree, before queueHierarchy is Tree.")
	cmd.Flags().StringVar(&input.TenantLabel, "tenant-label", "", "The label of a Queue that names its tenant. Without it the tenant is the name of the queue.")
	return cmd
}

// completeQueues completes the names of Queues.
func (p *program) completeQueues(cmd *cobra.Command, taken []string, _ string) ([]string, cobra.ShellCompDirective) {
	return p.completeNames(cmd, func() client.ObjectList { return &v1beta1.QueueList{} }, taken)
}

// readImportInput reads Queues and CardQuotas, and counts what pods hold.
func readImportInput(ctx context.Context, r *reader, input *queueimport.Input) error {
	if err := listAll(ctx, r.client, newQueueList, func(q *v1beta1.Queue) { input.Queues = append(input.Queues, q) }); err != nil {
		return err
	}

	// Without them a Queue could get a second CardQuota.
	err := listAll(ctx, r.client, newCardQuotaList, func(q *v1alpha1.CardQuota) { input.Quotas = append(input.Quotas, q) })
	if err != nil && !isNotInstalled(err) { // import may come first
		return err
	}

	loaded, err := readWorkloads(ctx, r)
	if err != nil {
		return err
	}

	input.IsTree = input.IsTree || loaded.isTree
	if loaded.isComplete {
		input.Usage = cardquota.CountUsage(cardquota.CountInput{Pods: loaded.pods, PodGroups: loaded.podGroups, Inventory: loaded.tracker().Inventory()})
	}

	return nil
}

func newQueueList() client.ObjectList     { return &v1beta1.QueueList{} }
func newCardQuotaList() client.ObjectList { return &v1alpha1.CardQuotaList{} }

// workloads are the nodes of a cluster and what runs on them.
type workloads struct {
	nodes     []*corev1.Node
	pods      []*corev1.Pod
	podGroups []*v1beta1.PodGroup
	// mappings name the cards that labels of nodes do not name.
	mappings card.Mappings
	// isComplete reports whether all of these are known, knowsMappings whether the mappings are.
	isComplete, knowsMappings bool
	// isTree reports whether the queues form a tree.
	isTree bool
}

// readWorkloads reads all nodes, pods and PodGroups. Finished pods are left out.
func readWorkloads(ctx context.Context, r *reader) (workloads, error) {
	var w workloads
	mayListNodes, err := listInto(ctx, r, func() client.ObjectList { return &corev1.NodeList{} }, &w.nodes)
	if err != nil {
		return w, err
	}

	for _, node := range w.nodes {
		node.Status.Images = nil // as large as the rest, and only read by the simulated scheduler
	}

	var pods []*corev1.Pod
	mayListPods, err := listInto(ctx, r, newPodList, &pods)
	if err != nil {
		return w, err
	}

	for _, pod := range pods {
		if pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed {
			w.pods = append(w.pods, pod)
		}
	}

	mayListGroups, err := listInto(ctx, r, newPodGroupList, &w.podGroups)
	if err != nil {
		return w, err
	}

	w.knowsMappings, err = w.readPolicy(ctx, r)
	w.isComplete = mayListNodes && mayListPods && mayListGroups && w.knowsMappings
	return w, err
}

// readPolicy reads the mappings in force and whether queues form a tree. It reports whether the mappings
// are known. Before Cardquota is installed, there are none.
func (w *workloads) readPolicy(ctx context.Context, r *reader) (knowsMappings bool, err error) {
	p := &v1alpha1.ServiceTypePolicy{}
	_, knowsMappings, err = r.lookUpPolicy(ctx, p, w.nodes)
	w.mappings = policy.ExpectedMappings(p)
	w.isTree = policy.IsTree(p)
	return knowsMappings, err
}

// tracker returns the cards of all nodes.
func (w workloads) tracker() *card.Tracker {
	tracker := &card.Tracker{}
	tracker.SetMappings(w.mappings)
	for _, node := range w.nodes {
		tracker.Update(node)
	}
	return tracker
}

// showImport prints the CardQuotas, and on the error stream what is left out. JSON has no comments, so
// they are there too.
func (p *program) showImport(plan queueimport.Plan, format output.Format, gaps []string) error {
	write := plan.Write
	notes := append(plan.Notes(), gaps...)
	if format == output.JSON {
		write = plan.WriteJSON
		notes = append(plan.Comments(), notes...)
	}

	if err := write(p.streams.Out); err != nil {
		return err
	}

	switch {
	case len(plan.Imports) > 0:
	case plan.CoversAll:
		notes = append([]string{"There is nothing to import: every Queue that uses cards has a CardQuota."}, notes...)
	default:
		notes = append([]string{"No CardQuota is printed."}, notes...)
	}

	for _, note := range notes {
		if _, err := fmt.Fprint(p.streams.ErrOut, output.Indent(output.Clean(note), "", "")); err != nil {
			return err
		}
	}

	return nil
}
