package cli

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/build"
	"cardquota.dev/operator/internal/policy"
	"cardquota.dev/operator/internal/simulation"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
)

// sharedFleet is two nodes of 8 cards, on one of which a job of training runs.
func sharedFleet() []client.Object {
	keeps := false
	gives := true
	chat := builder.Queue("chat-queue").Quota(`{"NVIDIA-H200":12}`).ServiceType("inference").Capability("64", "1Ti").Priority(80000).Obj()
	research := builder.Queue("research").Quota(`{"NVIDIA-H200":16}`).ServiceType("training").Capability("64", "1Ti").Priority(20000).Obj()
	chat.Name = "chat"
	chat.Spec.Reclaimable = &keeps

	research.Spec.Reclaimable = &gives
	objects := []client.Object{
		builder.Namespace("lab"), builder.Node("h200-0").GPUs("NVIDIA-H200", 8).Obj(), builder.Node("h200-1").GPUs("NVIDIA-H200", 8).Obj(),
		builder.Queue("root").Obj(), builder.Queue("default").Obj(), chat, research,
		builder.CardQuota("research-quota").Queue("research").Obj(),
	}

	job := builder.Gang("lab", "train", 2, builder.Pod("lab", "train").Scheduler("volcano").Card("NVIDIA-H200").GPUs(4).CPU("1").Memory("1Gi")).Queue("research").Obj()
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(job)
	if err != nil {
		panic(err)
	}

	manifest := &unstructured.Unstructured{Object: content}
	manifest.SetAPIVersion("batch.volcano.sh/v1alpha1")
	manifest.SetKind("Job")
	made, err := simulation.NewWorkloads(&simulation.Cluster{
		Schedulers: []string{"volcano"}, Namespaces: []*corev1.Namespace{builder.Namespace("lab")}, Queues: []*v1beta1.Queue{research},
	}, []*unstructured.Unstructured{manifest}, "lab")
	if err != nil {
		panic(err)
	}

	made[0].Group.Status.Phase = v1beta1.PodGroupRunning
	made[0].Group.Annotations = map[string]string{v1alpha1.AnnotationCheckpointTime: at.Add(-90 * time.Minute).Format(time.RFC3339)}
	objects = append(objects, job, made[0].Group)
	for _, pod := range made[0].Pods {
		began := metav1.NewTime(time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)) // longer than the minimum runtime on any clock
		pod.Spec.NodeName = "h200-0"
		pod.Status.Phase = corev1.PodRunning
		pod.Status.StartTime = &began
		objects = append(objects, pod)
	}

	return objects
}

func TestWhatIf(t *testing.T) {
	for name, tc := range map[string]struct {
		args []string
		code int
	}{
		"displaces": {[]string{"-f", "testdata/serve.yaml", "-o", "wide"}, exitOK},
		"waits":     {[]string{"-f", "testdata/serve.yaml", "--quota", "chat:NVIDIA-H200=4"}, exitWaits},
		"nodes":     {[]string{"-f", "testdata/serve.yaml", "--add-nodes", "1:NVIDIA-H200"}, exitOK},
		"drain":     {[]string{"--drain", "h200-0"}, exitOK},
		"quota":     {[]string{"-f", "testdata/serve.yaml", "--drain", "h200-0", "--quota", "research-quota:NVIDIA-H200=0"}, exitWaits},
		"yaml":      {[]string{"-f", "testdata/serve.yaml", "-o", "yaml"}, exitOK},
	} {
		t.Run(name, func(t *testing.T) {
			r := execute(t, sharedFleet(), interceptor.Funcs{}, append([]string{"whatif", "--namespace", "lab"}, tc.args...)...).exits(tc.code)

			compareGolden(t, "whatif-"+name, r.out+r.errOut)
			if name != "displaces" && name != "yaml" {
				checkColumns(t, r.out+r.errOut)
			}
		})
	}
}

// TestWhatIfADrainedNodeIsMissed: a script must not drain a node whose pods find no other one.
func TestWhatIfADrainedNodeIsMissed(t *testing.T) {
	alone := builder.Pod("lab", "alone").Scheduler("volcano").Running("h200-1").Obj()
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"no other node":   {[]string{"--drain", "h200-0", "--drain", "h200-1"}, `"drainedPlaced": 0`},
		"a pod that ends": {[]string{"--drain", "h200-1"}, `"drainedEnded": 1`},
	} {
		r := execute(t, append(sharedFleet(), alone), interceptor.Funcs{}, append([]string{"whatif", "-o", "json"}, tc.args...)...).exits(exitWaits)
		check.Contains(t, name, r.out, `"runs": false`, tc.want)

		execute(t, append(sharedFleet(), alone), interceptor.Funcs{}, append([]string{"whatif"}, tc.args...)...).lacks("Nothing would be displaced")
	}
}

// TestWhatIfNamesWhatADrainCosts: the work of its gang since the last checkpoint is lost.
func TestWhatIfNamesWhatADrainCosts(t *testing.T) {
	execute(t, sharedFleet(), interceptor.Funcs{}, "whatif", "--drain", "h200-0", "-o", "json").
		prints(`"drained": true`, `"cardSeconds": 43200`, `"lostCardSeconds": 43200`, `"restarted": 2`)
	execute(t, sharedFleet(), interceptor.Funcs{}, "whatif", "--drain", "h200-0", "-o", "wide").
		prints("Job lab/train", "12.0", "the drain", "In all, 12.000 card-hours of work would be lost.")
}

// simulating is a program whose simulation runs until it has reported what it does, or is canceled.
func simulating(ctx context.Context, t *testing.T, isTerminal bool, simulate Simulator, after <-chan time.Time) result {
	c := newCluster(t, sharedFleet(), interceptor.Funcs{})
	return runProgram(ctx, t, func(p *program) {
		p.connect = func() (client.WithWatch, error) { return c, nil }
		p.isTerminal = func(w io.Writer) bool { return isTerminal && w == p.streams.ErrOut }
		p.simulate = simulate
		p.after = func(time.Duration) <-chan time.Time { return after }
	}, "whatif", "--drain", "h200-0")
}

// TestWhatIfEndsAtOnce: Ctrl-C does not wait for the session that runs.
func TestWhatIfEndsAtOnce(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	hangs := make(chan struct{})
	defer close(hangs)
	simulating(ctx, t, true, func(context.Context, *simulation.Cluster, []simulation.Workload, string, time.Time) (simulation.Result, error) {
		cancel()
		<-hangs
		return simulation.Result{}, nil
	}, nil).exits(exitError).printsNothing().silently()
}

// TestWhatIfSaysThatItSimulates: to a person, if it takes long, and only once.
func TestWhatIfSaysThatItSimulates(t *testing.T) {
	for isTerminal, want := range map[bool]string{true: "The scheduler runs on a snapshot of 2 nodes and 2 pods. Ctrl-C ends it.\n", false: ""} {
		after := make(chan time.Time)
		r := simulating(t.Context(), t, isTerminal, func(context.Context, *simulation.Cluster, []simulation.Workload, string, time.Time) (simulation.Result, error) {
			after <- at
			return simulation.Result{IsSettled: true}, nil
		}, after)
		check.Equal(t, "output", "\nNothing would be displaced.\n", r.exits(exitOK).out)
		check.Equal(t, "notes", want, r.errOut)
	}

	simulating(t.Context(), t, true, func(context.Context, *simulation.Cluster, []simulation.Workload, string, time.Time) (simulation.Result, error) {
		return simulation.Result{IsSettled: true}, nil
	}, nil).silently()
}

func TestWhatIfRefuses(t *testing.T) {
	written := func(name, text string) string {
		path := filepath.Join(t.TempDir(), name)
		check.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}

	for t, tc := range check.Cases(t, map[string]struct {
		args []string
		want string
	}{
		"nothing":       {nil, "nothing is asked"},
		"quota":         {[]string{"--quota", "chat=4"}, "write NAME:CARD=N"},
		"negative":      {[]string{"--quota", "chat:NVIDIA-H200=-4"}, "--quota chat:NVIDIA-H200=-4"},
		"no queue":      {[]string{"--quota", "none:NVIDIA-H200=4"}, "no CardQuota and no Queue none"},
		"no node":       {[]string{"--drain", "none"}, "there is no node none"},
		"additions":     {[]string{"--add-nodes", "H200"}, "write N:CARD"},
		"no card":       {[]string{"--add-nodes", "1:NVIDIA-H20"}, "no node has NVIDIA-H20"},
		"no file":       {[]string{"-f", "testdata/none.yaml"}, "none.yaml"},
		"no card name":  {[]string{"--quota", "chat:H 200=4"}, "--quota chat:H 200=4: "},
		"two numbers":   {[]string{"--quota", "chat:NVIDIA-H200=4,5"}, `"4,5" is no number of cards`},
		"any script":    {[]string{"--quota", "研究:NVIDIA-H200=4"}, "no CardQuota and no Queue 研究"},
		"nothing in it": {[]string{"-f", written("empty.yaml", "")}, "no objects"},
		"only comments": {[]string{"-f", written("comments.yaml", "# nothing\n---\n")}, "no objects"},
		"no manifest":   {[]string{"-f", written("text.yaml", "some words")}, "text.yaml"},
		"another kind":  {[]string{"-f", written("service.yaml", "apiVersion: v1\nkind: Service\nmetadata: {name: x}\n")}, "is no kind that whatif knows"},
		"no such kind":  {[]string{"-f", written("kind.yaml", "apiVersion: example.com/v1\nkind: 任务\nmetadata: {name: x}\n")}, "example.com/v1, Kind=任务 is no kind that whatif knows"},
	}) {
		execute(t, sharedFleet(), interceptor.Funcs{}, append([]string{"whatif"}, tc.args...)...).exits(exitError).printsNothing().reports(tc.want)
	}
}

// TestWhatIfNamesMissingRights: without all of the cluster there is no answer, and every missing right is
// named.
func TestWhatIfNamesMissingRights(t *testing.T) {
	refuse := interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
		switch list.(type) {
		case *corev1.NodeList:
			return forbidden("list", schema.GroupResource{Resource: "nodes"})
		case *corev1.PodList:
			return forbidden("list", schema.GroupResource{Resource: "pods"})
		}
		return c.List(ctx, list, options...)
	}}

	execute(t, sharedFleet(), refuse, "whatif", "--drain", "h200-0").exits(exitError).printsNothing().reports("may not list nodes", "may not list pods")
}

// TestWhatIfFindsTheConfiguration: that of another namespace is no secret, and another one than the
// cluster's is said.
func TestWhatIfFindsTheConfiguration(t *testing.T) {
	const missing = "note: namespace volcano-system has no ConfigMap cardquota-scheduler-configmap, so the answer is that of the configuration that the operator would write. If Cardquota is in another namespace, write --system-namespace"
	rendered := policy.RenderConfiguration(policy.Effective(v1alpha1.ServiceTypePolicySpec{}), policy.BaseFor(policy.Effective(v1alpha1.ServiceTypePolicySpec{}), "volcano-system"), nil, nil, "").Text
	configuration := func(namespace, text string) client.Object {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: policy.ConfigMapName}, Data: map[string]string{policy.ConfigMapKey: text}}
	}

	manager := func(namespace string) client.Object {
		d := deployment("cardquota-manager", "cardquota-manager:v0.2.0")
		d.SetNamespace(namespace)
		return d
	}

	changed := rendered + "# changed\n"
	deployments := schema.GroupResource{Group: "apps", Resource: "deployments"}
	for name, tc := range map[string]struct {
		objects    []client.Object
		intercept  interceptor.Funcs
		args       []string
		want, note string
	}{
		"before the installation":     {nil, interceptor.Funcs{}, nil, rendered, ""},
		"where it is by default":      {[]client.Object{policyOf(""), configuration("volcano-system", changed)}, interceptor.Funcs{}, nil, changed, ""},
		"in a namespace of its own":   {[]client.Object{policyOf(""), manager("cards"), configuration("cards", changed)}, interceptor.Funcs{}, nil, changed, ""},
		"which the user names":        {[]client.Object{policyOf(""), configuration("cards", changed)}, forbid(deployments, &appsv1.DeploymentList{}), []string{"--system-namespace", "cards"}, changed, ""},
		"which the user may not find": {[]client.Object{policyOf(""), manager("cards"), configuration("cards", changed)}, forbid(deployments, &appsv1.DeploymentList{}), nil, rendered, missing},
		"not written yet":             {[]client.Object{policyOf(""), manager("volcano-system")}, interceptor.Funcs{}, nil, rendered, missing},
	} {
		c := newCluster(t, append(sharedFleet(), tc.objects...), tc.intercept)
		used := ""
		r := runProgram(t.Context(), t, func(p *program) {
			p.connect = func() (client.WithWatch, error) { return c, nil }
			p.simulate = func(_ context.Context, _ *simulation.Cluster, _ []simulation.Workload, configuration string, _ time.Time) (simulation.Result, error) {
				used = configuration
				return simulation.Result{IsSettled: true}, nil
			}
		}, append([]string{"whatif", "--drain", "h200-0"}, tc.args...)...).exits(exitOK)
		check.Equal(t, name+": configuration", tc.want, used)
		check.Equal(t, name, tc.note, strings.Join(strings.Fields(r.errOut), " "))
	}
}

// TestWhatIfSaysThatTheSchedulerIsAnotherRelease: the answer is that of the plugin's own scheduler.
func TestWhatIfSaysThatTheSchedulerIsAnotherRelease(t *testing.T) {
	defer func(version string) { build.Version = version }(build.Version)
	build.Version = "v0.2.1"
	configuration := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "volcano-system", Name: policy.ConfigMapName}, Data: map[string]string{
		policy.ConfigMapKey: policy.RenderConfiguration(policy.Effective(v1alpha1.ServiceTypePolicySpec{}), policy.BaseFor(policy.Effective(v1alpha1.ServiceTypePolicySpec{}), "volcano-system"), nil, nil, "").Text}}

	for version, want := range map[string]string{
		"v0.2.0": "",
		"":       "",
		"v0.1.0": "note: kubectl cardquota v0.2.1 does not fit cardquota-scheduler v0.1.0:",
		"v0.3.0": "note: kubectl cardquota v0.2.1 does not fit cardquota-scheduler v0.3.0:",
	} {
		r := execute(t, append(sharedFleet(), policyOf(version), configuration), interceptor.Funcs{}, "whatif", "--drain", "h200-0")
		text := strings.Join(strings.Fields(r.errOut), " ")
		check.That(t, r.code == exitOK && strings.HasPrefix(text, want) && (want == "") == (text == ""), "%s: exit code %d, %s", version, r.code, text)
		checkColumns(t, r.errOut)
	}
}

func TestWhatIfNeedsTheScheduler(t *testing.T) {
	_, err := newProgram(streams()).answerWhatIf(t.Context(), &whatIf{})
	check.Says(t, err, errNoSimulator.Error())
}

// waitingFor is a pod of a queue that waits for cards since an hour.
func waitingFor(name, queue string, count int) []client.Object {
	group := &v1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "lab", Name: name, CreationTimestamp: metav1.NewTime(at.Add(-time.Hour))},
		Spec: v1beta1.PodGroupSpec{Queue: queue, MinMember: 1}}
	group.Status.Phase = v1beta1.PodGroupInqueue
	pod := builder.Pod("lab", name).Scheduler("volcano").Card("NVIDIA-H200").GPUs(count).CPU("1").Memory("1Gi").PodGroup(name).Obj()
	return []client.Object{group, pod}
}

// TestWhatIfNamesTheWaitingWorkloadsThatWouldRun: without files the question is about what waits already.
func TestWhatIfNamesTheWaitingWorkloadsThatWouldRun(t *testing.T) {
	waits := append(waitingFor("first", "chat", 8), waitingFor("second", "chat", 8)...)
	for name, tc := range map[string]struct {
		objects []client.Object
		args    []string
		want    []string
		not     string
	}{
		"more nodes do not help": {waits, []string{"--quota", "chat:NVIDIA-H200=4", "--add-nodes", "2:NVIDIA-H200"},
			[]string{"Nothing that waits now would run:", "Pod lab/first", "Pod lab/second", "chat", "8 NVIDIA-H200", "QuotaExhausted", "Queue <chat> has insufficient", "Nothing would be displaced."}, "RUNS"},
		"one runs": {waits, []string{"--add-nodes", "1:NVIDIA-H200"},
			[]string{"1 pod that waits now would run:", "RUNS", "Pod lab/first  chat", "These would still wait:", "Pod lab/second"}, "too"},
		"all run": {waits, []string{"--quota", "chat:NVIDIA-H200=16", "--add-nodes", "2:NVIDIA-H200"},
			[]string{"2 pods that wait now would run:", "Pod lab/first", "Pod lab/second", "Nothing else waits."}, "QuotaExhausted"},
		"nothing waits": {nil, []string{"--add-nodes", "1:NVIDIA-H200"}, []string{"Nothing waits now."}, "WAITS"},
		"beside files": {waits, []string{"-f", "testdata/serve.yaml", "--quota", "chat:NVIDIA-H200=32", "--add-nodes", "4:NVIDIA-H200"},
			[]string{"2 pods of the cluster that wait now would run too:", "Pod lab/first", "It would run."}, "WAITS"},
	} {
		r := execute(t, append(sharedFleet(), tc.objects...), interceptor.Funcs{}, append([]string{"whatif", "-n", "lab"}, tc.args...)...).exits(exitOK)
		check.Contains(t, name, r.out, tc.want...)
		check.That(t, !strings.Contains(r.out, tc.not), "%s: %q in %s", name, tc.not, r.out)
		checkColumns(t, r.out)
	}

	execute(t, append(sharedFleet(), waits...), interceptor.Funcs{}, "whatif", "--add-nodes", "1:NVIDIA-H200", "-o", "json").
		prints(`"others": [`, `"nodes": [`, `"name": "first"`, `"waiting": [`, `"reason": "QuotaExhausted"`)
}
