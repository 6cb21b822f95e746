package whatif

import (
	"context"
	"io"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/build"
	"cardquota.dev/operator/internal/cli/program"
	"cardquota.dev/operator/internal/policy"
	"cardquota.dev/operator/internal/scheduler/simulator"
	"cardquota.dev/operator/internal/simulation"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/kubectl"
)

// plugin is kubectl cardquota with this command alone.
var plugin = kubectl.Plugin{Commands: []program.Command{NewCommand}, Scheduler: simulator.New()}

// execute runs the command against a cluster with some objects.
var execute = plugin.Execute

// TestWhatIfAnswersFromASimulation: whatif runs the scheduler on a snapshot of the cluster. Two nodes have 8 H200
// each. Job train of queue research, whose service type is training, uses the 8 of h200-0. testdata/serve.yaml is a
// Volcano job of queue chat, whose service type is inference: a gang of 3 pods of 4 H200 each. The golden file of each
// row has what would happen if it were created, with another quota, with one more node, or if node h200-0 were drained.
// If the gang would wait, the exit code says so.
func TestWhatIfAnswersFromASimulation(t *testing.T) {
	for name, tc := range map[string]struct {
		command  string
		wantCode int
	}{
		"displaces": {"whatif -n lab -f testdata/serve.yaml -o wide", program.ExitOK},                       // 12 cards requested, 8 free: it takes those of job train
		"waits":     {"whatif -n lab -f testdata/serve.yaml --quota chat:NVIDIA-H200=4", program.ExitWaits}, // 12 cards requested of a quota of 4
		"nodes":     {"whatif -n lab -f testdata/serve.yaml --add-nodes 1:NVIDIA-H200", program.ExitOK},     // 8 + 8 cards are free
		"drain":     {"whatif -n lab --drain h200-0", program.ExitOK},                                       // job train moves to h200-1
		// 12 cards are requested, and the only other node has 8, so the gang waits. Queue research has no quota any more, so
		// the drained pods of train find no place.
		"quota": {"whatif -n lab -f testdata/serve.yaml --drain h200-0 --quota research-quota:NVIDIA-H200=0", program.ExitWaits},
		"yaml":  {"whatif -n lab -f testdata/serve.yaml -o yaml", program.ExitOK}, // as row displaces, in another format
	} {
		t.Run(name, func(t *testing.T) {
			r := execute(t, kubectl.TwoNodesWithTraining(), kubectl.MayReadAll, tc.command).Exits(tc.wantCode)
			kubectl.CompareGolden(t, "whatif-"+name, r.Out+r.ErrOut)

			if !strings.Contains(tc.command, " -o ") {
				r.FitsTerminal()
			}
		})
	}
}

// TestWhatIfSaysThatDrainedPodsFindNoPlace: a script must not drain a node whose pods find no other place, so the
// exit code is that of a workload that waits. Job train runs on h200-0, and there are two nodes. Without any node its
// pods find none. Pod alone on h200-1 has no controller that would create it again, so it ends. In neither case the
// answer is that nothing would be displaced.
func TestWhatIfSaysThatDrainedPodsFindNoPlace(t *testing.T) {
	objects := append(kubectl.TwoNodesWithTraining(), builder.Pod("lab", "alone").Scheduler("volcano").Running("h200-1").Obj())
	for command, want := range map[string]string{
		"whatif --drain h200-0 --drain h200-1": `"drainedPlaced": 0`,
		"whatif --drain h200-1":                `"drainedEnded": 1`,
	} {
		execute(t, objects, kubectl.MayReadAll, command+" -o json").Exits(program.ExitWaits).Prints(`"runs": false`, want)
		execute(t, objects, kubectl.MayReadAll, command).Lacks("Nothing would be displaced")
	}
}

// TestWhatIfNamesWhatADrainCosts: a drain of node h200-0 evicts the two pods of job train. They lose the work since
// the checkpoint 90 minutes ago: 8 cards * 5,400 s = 43,200 card-seconds, or 12 card-hours.
func TestWhatIfNamesWhatADrainCosts(t *testing.T) {
	execute(t, kubectl.TwoNodesWithTraining(), kubectl.MayReadAll, "whatif --drain h200-0 -o json").
		Prints(`"drained": true`, `"cardSeconds": 43200`, `"lostCardSeconds": 43200`, `"restarted": 2`)
	execute(t, kubectl.TwoNodesWithTraining(), kubectl.MayReadAll, "whatif --drain h200-0 -o wide").
		Prints("Job lab/train", "12.0", "the drain", "In all, 12.000 card-hours of work would be lost.")
}

// runWhatIf runs "whatif --drain h200-0" with another simulation. after is what the program waits for before it says
// that the simulation takes long.
func runWhatIf(ctx context.Context, t *testing.T, isTerminal bool, after <-chan time.Time, simulate func() simulation.Result) kubectl.Result {
	cluster := kubectl.NewCluster(t, kubectl.TwoNodesWithTraining(), kubectl.MayReadAll)
	return plugin.Run(ctx, t, func(p *program.Program) {
		p.Connect = func() (client.WithWatch, error) { return cluster, nil }
		p.IsTerminal = func(w io.Writer) bool { return isTerminal && w == p.Streams.ErrOut }
		p.Simulate = func(context.Context, *simulation.Cluster, []simulation.Workload, string, time.Time) (simulation.Result, error) {
			return simulate(), nil
		}
		p.After = func(time.Duration) <-chan time.Time { return after }
	}, "whatif", "--drain", "h200-0")
}

// TestWhatIfEndsAtOnce: Ctrl-C cancels the context, and the command must not wait for a simulation that still runs. Here
// the simulation cancels the context itself and then hangs until the test ends. The user ended the command, so it prints
// nothing.
func TestWhatIfEndsAtOnce(t *testing.T) {
	const isTerminal = true
	ctx, cancel := context.WithCancel(t.Context())
	hangs := make(chan struct{})
	defer close(hangs)

	// Without a channel (nil) the program does not say that the simulation takes long.
	runWhatIf(ctx, t, isTerminal, nil, func() simulation.Result {
		cancel()
		<-hangs
		return simulation.Result{}
	}).Exits(program.ExitError).PrintsNothing().ReportsNothing()
}

// TestWhatIfSaysThatItSimulates: if the simulation takes long, a person on a terminal reads what happens, once. A
// script does not, and nothing is said of a short simulation. The cluster is kubectl.TwoNodesWithTraining, with 2
// nodes and 2 pods.
func TestWhatIfSaysThatItSimulates(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		isTerminal, takesLong bool
		want                  string
	}{
		"a long simulation, on a terminal":  {true, true, "The scheduler runs on a snapshot of 2 nodes and 2 pods. Ctrl-C ends it.\n"},
		"a long simulation, in a script":    {false, true, ""},
		"a short simulation, on a terminal": {true, false, ""},
	}) {
		after := make(chan time.Time)
		r := runWhatIf(t.Context(), t, tc.isTerminal, after, func() simulation.Result {
			if tc.takesLong {
				after <- kubectl.At
			}
			return simulation.Result{IsSettled: true}
		}).Exits(program.ExitOK)

		check.Equal(t, "output", "\nNothing would be displaced.\n", r.Out)
		check.Equal(t, "notes", tc.want, r.ErrOut)
	}
}

// TestWhatIfRefusesWhatItCannotSimulate: the error names the flag or the file, and what to write. Nothing is printed.
func TestWhatIfRefusesWhatItCannotSimulate(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		args []string
		want string
	}{
		"no question":                           {nil, "nothing is asked"},
		"a quota without a card":                {[]string{"--quota", "chat=4"}, "write NAME:CARD=N"},
		"a negative quota":                      {[]string{"--quota", "chat:NVIDIA-H200=-4"}, "--quota chat:NVIDIA-H200=-4"},
		"a quota of a missing queue":            {[]string{"--quota", "none:NVIDIA-H200=4"}, "no CardQuota and no Queue none"},
		"a quota of a missing queue in Chinese": {[]string{"--quota", "研究:NVIDIA-H200=4"}, "no CardQuota and no Queue 研究"},
		"a quota of a name that no card has":    {[]string{"--quota", "chat:H 200=4"}, "--quota chat:H 200=4: "},
		"a quota of two numbers":                {[]string{"--quota", "chat:NVIDIA-H200=4,5"}, `"4,5" is no number of cards`},
		"a drain of a missing node":             {[]string{"--drain", "none"}, "there is no node none"},
		"new nodes without a number":            {[]string{"--add-nodes", "H200"}, "write N:CARD"},
		"new nodes with a missing card":         {[]string{"--add-nodes", "1:NVIDIA-H20"}, "no node has NVIDIA-H20"},
		"a missing file":                        {[]string{"-f", "testdata/none.yaml"}, "none.yaml"},
		"an empty file":                         {[]string{"-f", kubectl.WriteFile(t, "empty.yaml", "")}, "no objects"},
		"a file of comments":                    {[]string{"-f", kubectl.WriteFile(t, "comments.yaml", "# nothing\n---\n")}, "no objects"},
		"a file without manifests":              {[]string{"-f", kubectl.WriteFile(t, "text.yaml", "some words")}, "text.yaml"},
		"a Service, which has no pods": {
			[]string{"-f", kubectl.WriteFile(t, "service.yaml", "apiVersion: v1\nkind: Service\nmetadata: {name: x}\n")}, "is no kind that whatif knows",
		},
		"a kind that is unknown": {
			[]string{"-f", kubectl.WriteFile(t, "kind.yaml", "apiVersion: example.com/v1\nkind: 任务\nmetadata: {name: x}\n")},
			"example.com/v1, Kind=任务 is no kind that whatif knows",
		},
	}) {
		execute(t, kubectl.TwoNodesWithTraining(), kubectl.MayReadAll, "whatif", tc.args...).Exits(program.ExitError).PrintsNothing().Reports(tc.want)
	}
}

// TestWhatIfNamesMissingRights: a simulation without all nodes and pods would be wrong, so there is no answer. The
// error names each right that the user lacks, here two.
func TestWhatIfNamesMissingRights(t *testing.T) {
	refuse := interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
		switch list.(type) {
		case *corev1.NodeList:
			return kubectl.Forbidden("list", schema.GroupResource{Resource: "nodes"})
		case *corev1.PodList:
			return kubectl.Forbidden("list", schema.GroupResource{Resource: "pods"})
		}
		return c.List(ctx, list, options...)
	}}

	execute(t, kubectl.TwoNodesWithTraining(), refuse, "whatif --drain h200-0").Exits(program.ExitError).PrintsNothing().Reports("may not list nodes", "may not list pods")
}

// defaultConfiguration is what the operator writes for the scheduler by default.
func defaultConfiguration() string {
	byDefault := policy.Effective(v1alpha1.ServiceTypePolicySpec{})
	return policy.RenderConfiguration(byDefault, policy.BaseFor(byDefault, "volcano-system"), nil, nil, "").Text
}

// newConfiguration is the ConfigMap of the scheduler's configuration.
func newConfiguration(namespace, text string) client.Object {
	meta := metav1.ObjectMeta{Namespace: namespace, Name: policy.ConfigMapName}
	return &corev1.ConfigMap{ObjectMeta: meta, Data: map[string]string{policy.ConfigMapKey: text}}
}

// TestWhatIfFindsTheConfiguration: the simulated scheduler has the configuration of the cluster, which is in a
// ConfigMap in the namespace of the operator. Whatif looks for it in volcano-system, or in the namespace that the
// user names, and then beside the Deployment of the operator. If it finds none, the simulation takes what the
// operator would write, and a note says so. Before the installation, when there is no policy, there is no note.
func TestWhatIfFindsTheConfiguration(t *testing.T) {
	const note = "note: namespace volcano-system has no ConfigMap cardquota-scheduler-configmap, so the answer is that of the " +
		"configuration that the operator would write. If Cardquota is in another namespace, write --system-namespace"
	managerIn := func(namespace string) client.Object {
		d := kubectl.Deployment("cardquota-manager", "cardquota-manager:v0.2.0")
		d.SetNamespace(namespace)
		return d
	}

	written := defaultConfiguration()
	changed := written + "# changed\n"           // what the ConfigMap has
	installed := kubectl.PolicyWithScheduler("") // the policy
	noDeployments := kubectl.Forbid(schema.GroupResource{Group: "apps", Resource: "deployments"}, &appsv1.DeploymentList{})
	for t, tc := range check.Cases(t, map[string]struct {
		objects        []client.Object
		intercept      interceptor.Funcs
		args           []string
		want, wantNote string
	}{
		"nothing is installed": {want: written},
		"the ConfigMap is in volcano-system": {
			objects: []client.Object{installed, newConfiguration("volcano-system", changed)}, want: changed,
		},
		"operator and ConfigMap are in namespace cards": {
			objects: []client.Object{installed, managerIn("cards"), newConfiguration("cards", changed)}, want: changed,
		},
		"the ConfigMap is in namespace cards, which the user names": {
			objects: []client.Object{installed, newConfiguration("cards", changed)}, intercept: noDeployments,
			args: []string{"--system-namespace", "cards"}, want: changed,
		},
		"the ConfigMap is in namespace cards, and the user may not list Deployments": {
			objects: []client.Object{installed, managerIn("cards"), newConfiguration("cards", changed)}, intercept: noDeployments,
			want: written, wantNote: note,
		},
		"the operator has not written the ConfigMap yet": {
			objects: []client.Object{installed, managerIn("volcano-system")}, want: written, wantNote: note,
		},
	}) {
		cluster := kubectl.NewCluster(t, append(kubectl.TwoNodesWithTraining(), tc.objects...), tc.intercept)
		used := ""
		r := plugin.Run(t.Context(), t, func(p *program.Program) {
			p.Connect = func() (client.WithWatch, error) { return cluster, nil }
			p.Simulate = func(_ context.Context, _ *simulation.Cluster, _ []simulation.Workload, configuration string, _ time.Time) (simulation.Result, error) {
				used = configuration
				return simulation.Result{IsSettled: true}, nil
			}
		}, append([]string{"whatif", "--drain", "h200-0"}, tc.args...)...).Exits(program.ExitOK)

		check.Equal(t, "configuration", tc.want, used)
		check.Equal(t, "note", tc.wantNote, strings.Join(strings.Fields(r.ErrOut), " "))
	}
}

// TestWhatIfSaysThatTheSchedulerIsAnotherRelease: whatif v0.2.1 simulates with its own scheduler. If the one of the
// cluster is of another minor version, a note says that the answer may differ. A version that is unknown is not
// compared.
func TestWhatIfSaysThatTheSchedulerIsAnotherRelease(t *testing.T) {
	defer func(version string) { build.Version = version }(build.Version)
	build.Version = "v0.2.1"

	for t, tc := range check.Cases(t, map[string]struct{ ofCluster, wantNote string }{
		"another patch":      {"v0.2.0", ""},
		"an unknown version": {"", ""},
		"an older minor":     {"v0.1.0", "note: kubectl cardquota v0.2.1 does not fit cardquota-scheduler v0.1.0:"},
		"a newer minor":      {"v0.3.0", "note: kubectl cardquota v0.2.1 does not fit cardquota-scheduler v0.3.0:"},
	}) {
		objects := append(kubectl.TwoNodesWithTraining(), kubectl.PolicyWithScheduler(tc.ofCluster), newConfiguration("volcano-system", defaultConfiguration()))
		r := execute(t, objects, kubectl.MayReadAll, "whatif --drain h200-0").Exits(program.ExitOK).Reports(tc.wantNote).FitsTerminal()
		check.Equal(t, "has a note", tc.wantNote != "", r.ErrOut != "")
	}
}

// TestWhatIfNeedsTheScheduler: the program for Windows does not link the scheduler, so it says that it cannot
// simulate. The program of the test has no scheduler either.
func TestWhatIfNeedsTheScheduler(t *testing.T) {
	_, err := answerWhatIf(t.Context(), program.New(genericiooptions.NewTestIOStreamsDiscard()), &whatIf{})
	check.Says(t, err, errNoSimulator.Error())
}

// waitingFor is a pod of a queue that has waited for cards for an hour.
func waitingFor(name, queue string, count int) []client.Object {
	group := builder.PodGroup("lab", name).Queue(queue).Phase(v1beta1.PodGroupInqueue).Created(kubectl.At.Add(-time.Hour)).Obj()
	pod := builder.Pod("lab", name).Scheduler("volcano").Card("NVIDIA-H200").GPUs(count).CPU("1").Memory("1Gi").PodGroup(name).Obj()
	return []client.Object{group, pod}
}

// TestWhatIfNamesTheWaitingWorkloadsThatWouldRun: pods first and second of queue chat wait for 8 H200 each. The quota
// of chat is 12, and node h200-1 has 8 cards free. A question without a file is about what waits already, so the exit
// code is 0 also if something still waits. With a file, the answer adds what of that would run too. RUNS and WAITS
// are columns of the tables of what would run, and of what would still wait.
func TestWhatIfNamesTheWaitingWorkloadsThatWouldRun(t *testing.T) {
	wait := append(waitingFor("first", "chat", 8), waitingFor("second", "chat", 8)...)
	for t, tc := range check.Cases(t, map[string]struct {
		waiting []client.Object
		command string
		want    []string
		lacks   string
	}{
		"two more nodes, and the quota is lowered to 4": {
			wait, "whatif -n lab --quota chat:NVIDIA-H200=4 --add-nodes 2:NVIDIA-H200",
			[]string{
				"Nothing that waits now would run:", "Pod lab/first", "Pod lab/second", "chat", "8 NVIDIA-H200", "QuotaExhausted",
				"Queue <chat> has insufficient", "Nothing would be displaced.",
			}, "RUNS",
		},
		"one more node, and a quota of 12 for 8 + 8": {
			wait, "whatif -n lab --add-nodes 1:NVIDIA-H200",
			[]string{"1 pod that waits now would run:", "RUNS", "Pod lab/first  chat", "These would still wait:", "Pod lab/second"}, "too",
		},
		"two more nodes, and a quota of 16": {
			wait, "whatif -n lab --quota chat:NVIDIA-H200=16 --add-nodes 2:NVIDIA-H200",
			[]string{"2 pods that wait now would run:", "Pod lab/first", "Pod lab/second", "Nothing else waits."}, "QuotaExhausted",
		},
		"nothing waits": {nil, "whatif -n lab --add-nodes 1:NVIDIA-H200", []string{"Nothing waits now."}, "WAITS"},
		"a file, four more nodes, and a quota of 32": {
			wait, "whatif -n lab -f testdata/serve.yaml --quota chat:NVIDIA-H200=32 --add-nodes 4:NVIDIA-H200",
			[]string{"2 pods of the cluster that wait now would run too:", "Pod lab/first", "It would run."}, "WAITS",
		},
	}) {
		r := execute(t, append(kubectl.TwoNodesWithTraining(), tc.waiting...), kubectl.MayReadAll, tc.command).Exits(program.ExitOK)
		check.Text(t, "output", r.Out).Has(tc.want...).Lacks(tc.lacks)
		kubectl.CheckColumns(t, r.Out)
	}

	execute(t, append(kubectl.TwoNodesWithTraining(), wait...), kubectl.MayReadAll, "whatif --add-nodes 1:NVIDIA-H200 -o json").
		Prints(`"others": [`, `"nodes": [`, `"name": "first"`, `"waiting": [`, `"reason": "QuotaExhausted"`)
}
