// Package whatif is kubectl cardquota whatif: where a job would run, and whom it would displace. The answer is
// that of the scheduler, on a snapshot of the cluster with changes.
package whatif

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"cardquota.dev/operator/internal/cli/output"
	"cardquota.dev/operator/internal/cli/program"
	"cardquota.dev/operator/internal/cli/reader"
	"cardquota.dev/operator/internal/simulation"
)

var errNoSimulator = errors.New("whatif contains Volcano's scheduler, which does not exist for this operating system: run kubectl cardquota on Linux or macOS")

// whatIf is what the user asks: workloads, and changes of the cluster as the flags have them.
type whatIf struct {
	files           program.ManifestFiles
	systemNamespace string
	// quotas are NAME:CARD=N, additions N:CARD for new nodes, and drained the names of nodes.
	quotas, additions, drained []string
}

// NewCommand returns the command whatif.
func NewCommand(p *program.Program) *cobra.Command {
	asked := whatIf{systemNamespace: reader.DefaultSystemNamespace}
	cmd := &cobra.Command{
		Use:   "whatif -f FILE",
		Short: "Show where a job would run, and whom it would displace",
		Long: program.Paragraphs("Runs the scheduler itself, with the configuration of the cluster, on a snapshot of the cluster in this process. It shows where the pods of a file would run or why they would wait, "+
			"which workloads would be evicted for them, and how much of their work would be lost. It writes nothing to the cluster.",
			"The files may have Volcano jobs, Jobs, Deployments, StatefulSets, Pods and PodGroups. With --quota, --drain and --add-nodes the snapshot changes first; each may be repeated. "+
				"Without files it shows which workloads that wait now would run, and why others would not.",
			"It knows what objects say, but not what the running scheduler remembers, such as cards that it keeps for a gang. It looks at no volumes, quotas of namespaces or network topology. "+
				"Pods that are terminating end at once, and running ones never. docs/kubectl.md lists all that it does not look at. It needs the rights to list nodes, namespaces, pods, Queues, PodGroups, Volcano jobs, PriorityClasses and PodDisruptionBudgets, and to get the ServiceTypePolicy and the scheduler's ConfigMap.",
			fmt.Sprintf("The exit code is 0 if all pods would run, %d if some would wait or a drain would end some for good, and 1 if it could not look.", program.ExitWaits)),
		Example: "  kubectl cardquota whatif -f job.yaml\n  kubectl cardquota whatif -f job.yaml --quota research:NVIDIA-H200=16\n  kubectl cardquota whatif --drain h200-0\n  kubectl cardquota whatif -f job.yaml --add-nodes 2:NVIDIA-H200",
		Args:    program.RefuseArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			result, err := answerWhatIf(cmd.Context(), p, &asked)
			if err != nil {
				return err
			}
			if err := p.Print(result, result.Render); err != nil {
				return err
			}
			if !result.Runs {
				return program.ExitCode(program.ExitWaits)
			}
			return nil
		},
	}

	p.AddOutputFlag(cmd)
	p.AddSystemNamespaceFlag(cmd, &asked.systemNamespace)
	asked.files.AddFlags(cmd, "Files, folders or URLs with workloads; - is the standard input.")
	cmd.Flags().StringArrayVar(&asked.quotas, "quota", nil, "Another quota of a CardQuota or Queue: NAME:CARD=N. In a tree, deserved stays as the CardQuota says it.")
	cmd.Flags().StringArrayVar(&asked.drained, "drain", nil, "A node that is drained.")
	cmd.Flags().StringArrayVar(&asked.additions, "add-nodes", nil, "Nodes that are added, like those with the card: N:CARD.")
	program.CompleteFlag(cmd, "drain", func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		return p.CompleteNames(cmd, &corev1.NodeList{}, asked.drained)
	})

	return cmd
}

// answerWhatIf reads the cluster, changes the snapshot and simulates. It reads the files first, so that a mistake
// in them costs no list of the cluster.
func answerWhatIf(ctx context.Context, p *program.Program, asked *whatIf) (Result, error) {
	var none Result
	if p.Simulate == nil {
		return none, errNoSimulator
	}
	if len(asked.files.Names)+len(asked.quotas)+len(asked.drained)+len(asked.additions) == 0 {
		return none, errors.New("nothing is asked: write --filename, --quota, --drain or --add-nodes")
	}

	objects, err := asked.readObjects(ctx, p)
	if err != nil {
		return none, err
	}

	namespace, err := p.Namespace()
	if err != nil {
		return none, err
	}

	r, err := p.NewReader()
	if err != nil {
		return none, err
	}

	cluster, configuration, err := readSimulated(ctx, r, asked.systemNamespace)
	if err != nil {
		return none, err
	}
	if err := asked.changeCluster(ctx, r, cluster); err != nil {
		return none, err
	}

	printNotes(p, r.Notes) // before the simulation, which takes seconds

	var added []simulation.Workload
	if len(objects) > 0 {
		added, err = simulation.NewWorkloads(cluster, objects, namespace)
		if err != nil {
			return none, err
		}
	}

	result, err := runSimulation(ctx, p, cluster, added, configuration)
	answer := NewResult(result)

	// What waits anyway matters only to a question about the cluster itself.
	answer.hidesWaiting = len(asked.files.Names)+len(asked.drained) > 0
	return answer, err
}

// readObjects returns the objects in the files. Files without any are an error.
func (asked *whatIf) readObjects(ctx context.Context, p *program.Program) ([]*unstructured.Unstructured, error) {
	objects, err := asked.files.ReadObjects(ctx, p)
	if err != nil {
		return nil, err
	}
	if len(asked.files.Names) > 0 && len(objects) == 0 {
		return nil, errors.New("read --filename: the files have no objects")
	}
	return objects, nil
}

// printNotes prints notes on the error stream, which keeps them out of a document.
func printNotes(p *program.Program, notes []string) {
	for _, note := range notes {
		_, _ = fmt.Fprint(p.Streams.ErrOut, output.Indent("note: "+note, "", "  "))
	}
}

// simulationNotice is after what time a person at a terminal is told why no answer comes.
const simulationNotice = 2 * time.Second

// runSimulation runs the scheduler. It returns as soon as ctx ends, and leaves the session of a large cluster,
// which takes seconds, to end with the program.
func runSimulation(ctx context.Context, p *program.Program, cluster *simulation.Cluster, added []simulation.Workload, configuration string) (simulation.Result, error) {
	type outcome struct {
		result simulation.Result
		err    error
	}

	// Room for one value lets the simulation end after Ctrl-C, when nothing receives any more.
	ended := make(chan outcome, 1)
	go func() {
		result, err := p.Simulate(ctx, cluster, added, configuration, p.Now())
		ended <- outcome{result, err}
	}()

	notice := p.After(simulationNotice)
	for {
		select {
		case done := <-ended:
			return done.result, done.err
		case <-ctx.Done():
			return simulation.Result{}, ctx.Err()
		case <-notice:
			if p.IsTerminal(p.Streams.ErrOut) {
				_, _ = fmt.Fprintf(p.Streams.ErrOut, "The scheduler runs on a snapshot of %d nodes and %d pods. Ctrl-C ends it.\n", len(cluster.Nodes), len(cluster.Pods))
			}
		}
	}
}
