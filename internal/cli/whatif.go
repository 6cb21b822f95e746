package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	batchv1alpha1 "volcano.sh/apis/pkg/apis/batch/v1alpha1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/cli/output"
	"cardquota.dev/operator/internal/cli/whatifview"
	"cardquota.dev/operator/internal/simulation"
)

// Simulator runs the scheduler with a configuration on a snapshot, see package simulator. It is nil where
// the scheduler cannot be built.
type Simulator func(ctx context.Context, c *simulation.Cluster, added []simulation.Workload, configuration string, now time.Time) (simulation.Result, error)

var errNoSimulator = errors.New("whatif contains Volcano's scheduler, which does not exist for this operating system: run kubectl cardquota on Linux or macOS")

// whatIf is what the user asks: workloads, and changes of the cluster.
type whatIf struct {
	files             manifestFiles
	systemNamespace   string
	quotas, additions []string
	drained           []string
}

func (p *program) newWhatIfCommand() *cobra.Command {
	asked := whatIf{systemNamespace: defaultSystemNamespace}
	cmd := &cobra.Command{
		Use:   "whatif -f FILE",
		Short: "Show where a job would run, and whom it would displace",
		Long: paragraphs("Runs the scheduler itself, with the configuration of the cluster, on a snapshot of the cluster in this process. It shows where the pods of a file would run or why they would wait, "+
			"which workloads would be evicted for them, and how much of their work would be lost. It writes nothing to the cluster.",
			"The files may have Volcano jobs, Jobs, Deployments, StatefulSets, Pods and PodGroups. With --quota, --drain and --add-nodes the snapshot changes first; each may be repeated. "+
				"Without files it shows which workloads that wait now would run, and why others would not.",
			"It knows what objects say, but not what the running scheduler remembers, such as cards that it keeps for a gang. It looks at no volumes, quotas of namespaces or network topology. "+
				"Pods that are terminating end at once, and running ones never. docs/kubectl.md lists all that it does not look at. It needs the rights to list nodes, namespaces, pods, Queues, PodGroups, Volcano jobs, PriorityClasses and PodDisruptionBudgets, and to get the ServiceTypePolicy and the scheduler's ConfigMap.",
			fmt.Sprintf("The exit code is 0 if all pods would run, %d if some would wait or a drain would end some for good, and 1 if it could not look.", exitWaits)),
		Example: "  kubectl cardquota whatif -f job.yaml\n  kubectl cardquota whatif -f job.yaml --quota research:NVIDIA-H200=16\n  kubectl cardquota whatif --drain h200-0\n  kubectl cardquota whatif -f job.yaml --add-nodes 2:NVIDIA-H200",
		Args:    refuseArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			result, err := p.answerWhatIf(cmd.Context(), &asked)
			if err != nil {
				return err
			}
			if err := p.print(result, result.Write); err != nil {
				return err
			}
			if !result.Runs {
				return exitCode(exitWaits)
			}
			return nil
		},
	}

	p.addOutputFlag(cmd)
	p.addSystemNamespaceFlag(cmd, &asked.systemNamespace)
	asked.files.addFlags(cmd, "Files, folders or URLs with workloads; - is the standard input.")
	cmd.Flags().StringArrayVar(&asked.quotas, "quota", nil, "Another quota of a CardQuota or Queue: NAME:CARD=N. In a tree, deserved stays as the CardQuota says it.")
	cmd.Flags().StringArrayVar(&asked.drained, "drain", nil, "A node that is drained.")
	cmd.Flags().StringArrayVar(&asked.additions, "add-nodes", nil, "Nodes that are added, like those with the card: N:CARD.")
	mustSucceed(cmd.RegisterFlagCompletionFunc("drain", func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		return p.completeNames(cmd, newNodeList, asked.drained)
	}))

	return cmd
}

func newNodeList() client.ObjectList { return &corev1.NodeList{} }

// answerWhatIf reads the cluster, changes the snapshot and simulates.
func (p *program) answerWhatIf(ctx context.Context, asked *whatIf) (whatifview.Result, error) {
	var none whatifview.Result
	if p.simulate == nil {
		return none, errNoSimulator
	}
	if len(asked.files.names)+len(asked.quotas)+len(asked.drained)+len(asked.additions) == 0 {
		return none, errors.New("nothing is asked: write --filename, --quota, --drain or --add-nodes")
	}

	objects, err := asked.readObjects(p.streams.In)
	if err != nil {
		return none, err
	}

	namespace, _, err := p.flags.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return none, err
	}

	c, err := p.connect()
	if err != nil {
		return none, err
	}

	r := &reader{client: c}
	cluster, configuration, err := readSimulated(ctx, r, asked.systemNamespace)
	if err != nil {
		return none, err
	}
	if err := asked.change(ctx, r, cluster); err != nil {
		return none, err
	}

	p.printNotes(r.notes)

	var added []simulation.Workload
	if len(objects) > 0 {
		added, err = simulation.NewWorkloads(cluster, objects, namespace)
		if err != nil {
			return none, err
		}
	}

	result, err := p.runSimulation(ctx, cluster, added, configuration)
	answer := whatifview.New(result)
	if len(asked.files.names)+len(asked.drained) > 0 {
		answer = answer.WithoutWaiting()
	}

	return answer, err
}

// readObjects returns the objects in the files. Files without any are an error.
func (asked *whatIf) readObjects(stdin io.Reader) ([]*unstructured.Unstructured, error) {
	objects, err := asked.files.readObjects(stdin)
	if err != nil {
		return nil, err
	}
	if len(asked.files.names) > 0 && len(objects) == 0 {
		return nil, errors.New("read --filename: the files have no objects")
	}
	return objects, nil
}

func (p *program) printNotes(notes []string) {
	for _, note := range notes {
		_, _ = fmt.Fprint(p.streams.ErrOut, output.Indent("note: "+note, "", "  "))
	}
}

// simulationNotice is after what time a person at a terminal is told why no answer comes.
const simulationNotice = 2 * time.Second

// runSimulation runs the scheduler. It returns as soon as ctx ends: a session of a large cluster takes
// seconds, and is left to end with the program.
func (p *program) runSimulation(ctx context.Context, cluster *simulation.Cluster, added []simulation.Workload, configuration string) (simulation.Result, error) {
	type outcome struct {
		result simulation.Result
		err    error
	}

	ended := make(chan outcome, 1)
	go func() {
		result, err := p.simulate(ctx, cluster, added, configuration, p.now())
		ended <- outcome{result, err}
	}()

	notice := p.after(simulationNotice)
	for {
		select {
		case done := <-ended:
			return done.result, done.err
		case <-ctx.Done():
			return simulation.Result{}, ctx.Err()
		case <-notice:
			if p.isTerminal(p.streams.ErrOut) {
				_, _ = fmt.Fprintf(p.streams.ErrOut, "The scheduler runs on a snapshot of %d nodes and %d pods. Ctrl-C ends it.\n", len(cluster.Nodes), len(cluster.Pods))
			}
		}
	}
}

// readSimulated reads all that the scheduler reads, and its configuration. Without all of it the answer
// would be another one than the scheduler's, so a missing right is an error.
func readSimulated(ctx context.Context, r *reader, systemNamespace string) (*simulation.Cluster, string, error) {
	c := &simulation.Cluster{}
	for _, read := range []func() (bool, error){
		func() (bool, error) { return listInto(ctx, r, newNodeList, &c.Nodes) },
		func() (bool, error) {
			return listInto(ctx, r, func() client.ObjectList { return &corev1.NamespaceList{} }, &c.Namespaces)
		},
		func() (bool, error) {
			return listInto(ctx, r, func() client.ObjectList { return &corev1.PodList{} }, &c.Pods)
		},
		func() (bool, error) { return listInto(ctx, r, newQueueList, &c.Queues) },
		func() (bool, error) {
			return listInto(ctx, r, func() client.ObjectList { return &v1beta1.PodGroupList{} }, &c.PodGroups)
		},
		func() (bool, error) {
			return listInto(ctx, r, func() client.ObjectList { return &batchv1alpha1.JobList{} }, &c.Jobs)
		},
		func() (bool, error) {
			return listInto(ctx, r, func() client.ObjectList { return &batchv1.JobList{} }, &c.KubernetesJobs)
		},
		func() (bool, error) {
			return listInto(ctx, r, func() client.ObjectList { return &schedulingv1.PriorityClassList{} }, &c.PriorityClasses)
		},
		func() (bool, error) {
			return listInto(ctx, r, func() client.ObjectList { return &policyv1.PodDisruptionBudgetList{} }, &c.Budgets)
		},
	} {
		if _, err := read(); err != nil {
			return nil, "", err
		}
	}

	configuration, err := readConfiguration(ctx, r, systemNamespace, c)
	if err != nil {
		return nil, "", err
	}
	if len(r.gaps) > 0 {
		return nil, "", fmt.Errorf("the scheduler decides by all of the cluster, and you may not read all of it: %s", strings.Join(r.gaps, "; "))
	}

	return c, configuration, nil
}

// change applies the flags to a snapshot: first what is added, then what is drained.
func (asked *whatIf) change(ctx context.Context, r *reader, cluster *simulation.Cluster) error {
	for _, text := range asked.additions {
		count, name, ok := strings.Cut(text, ":")
		n, err := strconv.Atoi(count)
		parsed, nameErr := card.ParseName(name)
		if !ok || err != nil || nameErr != nil {
			return fmt.Errorf("--add-nodes %s: write N:CARD, such as 2:NVIDIA-H200", text)
		}
		if err := cluster.AddNodes(n, parsed); err != nil {
			return fmt.Errorf("--add-nodes %s: %w", text, err)
		}
	}

	if err := asked.changeQuotas(ctx, r, cluster); err != nil {
		return err
	}

	for _, node := range asked.drained {
		if err := cluster.Drain(node); err != nil {
			return fmt.Errorf("--drain %s: %w", node, err)
		}
	}

	return nil
}

// changeQuotas applies --quota, and notes what it leaves and what admission would refuse.
func (asked *whatIf) changeQuotas(ctx context.Context, r *reader, cluster *simulation.Cluster) error {
	if len(asked.quotas) == 0 {
		return nil
	}
	changes, err := newQuotaChanges(ctx, r, cluster)
	if err != nil {
		return err
	}

	for _, text := range asked.quotas {
		if err := changes.apply(ctx, text); err != nil {
			return fmt.Errorf("--quota %s: %w", text, err)
		}
	}

	changes.judge()
	r.notes = append(r.notes, changes.notes...)
	return nil
}
