package capacitycard

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"volcano.sh/apis/pkg/apis/scheduling"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/cmd/scheduler/app/options"
	"volcano.sh/volcano/pkg/scheduler/actions/allocate"
	"volcano.sh/volcano/pkg/scheduler/actions/enqueue"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/conf"
	"volcano.sh/volcano/pkg/scheduler/framework"
	"volcano.sh/volcano/pkg/scheduler/plugins/gang"
	"volcano.sh/volcano/pkg/scheduler/plugins/predicates"
	"volcano.sh/volcano/pkg/scheduler/uthelper"
)

func TestMain(m *testing.M) {
	options.Default()
	options.ServerOpts.PercentageOfNodesToFind = 100 // as cmd/scheduler sets it
	options.ServerOpts.SchedulerNames = []string{"volcano"}
	os.Exit(m.Run())
}

const gpu = corev1.ResourceName("nvidia.com/gpu")

func cardNode(name, model string) *corev1.Node {
	allocatable := corev1.ResourceList{"cpu": resource.MustParse("64"), "memory": resource.MustParse("512Gi"), "pods": resource.MustParse("110"), gpu: resource.MustParse("8")}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"nvidia.com/gpu.product": model, "nvidia.com/gpu.memory": "143771"}},
		Status:     corev1.NodeStatus{Allocatable: allocatable, Capacity: allocatable},
	}
}

func quotaQueue(name, quota string) *v1beta1.Queue {
	q := &v1beta1.Queue{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: "uid"},
		Spec:       v1beta1.QueueSpec{Weight: 1, Capability: corev1.ResourceList{"cpu": resource.MustParse("100"), "memory": resource.MustParse("1Ti")}},
		Status:     v1beta1.QueueStatus{State: v1beta1.QueueStateOpen},
	}
	if quota != "" {
		q.Annotations = map[string]string{"volcano.sh/card.quota": quota}
	}
	return q
}

func group(name, queue string, minMember int32, phase v1beta1.PodGroupPhase, minCards string) *v1beta1.PodGroup {
	least := corev1.ResourceList{"cpu": resource.MustParse("1")}
	if minCards != "" {
		least[gpu] = resource.MustParse(minCards)
	}
	return &v1beta1.PodGroup{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ns", Annotations: map[string]string{}},
		Spec:       v1beta1.PodGroupSpec{Queue: queue, MinMember: minMember, MinResources: &least},
		Status:     v1beta1.PodGroupStatus{Phase: phase},
	}
}

// pods makes n pods of a group that ask for cards of one request; placed on a
// node they are running.
func pods(n int, group, cards, request, node string) []*corev1.Pod {
	var out []*corev1.Pod
	for i := range n {
		p := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: fmt.Sprintf("%s-%s%d", group, node, i), Annotations: map[string]string{"scheduling.k8s.io/group-name": group}},
			Spec: corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{"cpu": resource.MustParse("1"), "memory": resource.MustParse("1Gi"), gpu: resource.MustParse(cards)},
			}}}},
			Status: corev1.PodStatus{Phase: corev1.PodPending},
		}
		p.UID = types.UID(p.Name)
		if request != "" {
			p.Annotations["volcano.sh/card.name"] = request
		}
		if node != "" {
			p.Status.Phase = corev1.PodRunning
		}
		out = append(out, p)
	}
	return out
}

func concat(lists ...[]*corev1.Pod) []*corev1.Pod {
	var all []*corev1.Pod
	for _, l := range lists {
		all = append(all, l...)
	}
	return all
}

// opened is the plugin of the session that run opened last.
var opened *plugin

// run opens a session with fresh memory, runs enqueue and allocate, and returns
// the session before it is closed. The session's lister knows the namespaces that
// are given.
func run(t *testing.T, world *uthelper.TestCommonStruct, args framework.Arguments, known ...*corev1.Namespace) *framework.Session {
	t.Helper()
	process = newMemory()
	return runAgain(t, world, args, known...)
}

// runAgain is run with the memory of the last one.
func runAgain(t *testing.T, world *uthelper.TestCommonStruct, args framework.Arguments, known ...*corev1.Namespace) *framework.Session {
	t.Helper()
	world.Plugins = map[string]framework.PluginBuilder{PluginName: func(a framework.Arguments) framework.Plugin {
		opened = New(a).(*plugin)
		return listing{opened, known}
	}, gang.PluginName: gang.New, predicates.PluginName: predicates.New}
	yes := true
	option := func(name string) conf.PluginOption {
		return conf.PluginOption{Name: name, EnabledJobOrder: &yes, EnabledJobReady: &yes, EnabledJobPipelined: &yes, EnabledQueueOrder: &yes,
			EnabledPredicate: &yes, EnabledBestNode: &yes, EnabledAllocatable: &yes, EnabledJobEnqueued: &yes, EnabledSubJobReady: &yes, EnabledSubJobPipelined: &yes}
	}
	card := option(PluginName)
	card.Arguments = args
	ssn := world.RegisterSession([]conf.Tier{{Plugins: []conf.PluginOption{option(gang.PluginName), option(predicates.PluginName), card}}}, nil)
	t.Cleanup(world.Close)
	world.Run([]framework.Action{enqueue.New(), allocate.New()})
	return ssn
}

// listing is the plugin in a session whose lister knows some namespaces before
// it opens.
type listing struct {
	*plugin
	known []*corev1.Namespace
}

func (l listing) OnSessionOpen(ssn *framework.Session) {
	for _, namespace := range l.known {
		if err := ssn.InformerFactory().Core().V1().Namespaces().Informer().GetIndexer().Add(namespace); err != nil {
			panic(err)
		}
	}
	l.plugin.OnSessionOpen(ssn)
}

// placed counts the pods of a group per node, with what the session decided.
func placed(ssn *framework.Session, group string) map[string]int {
	count := map[string]int{}
	for _, task := range ssn.Jobs[api.JobID("ns/"+group)].Tasks {
		if api.AllocatedStatus(task.Status) {
			count[task.NodeName]++
		}
	}
	return count
}

func TestQuotaIsEnforcedByTheCardAPodLandsOn(t *testing.T) {
	nodes := []*corev1.Node{cardNode("h200", "NVIDIA-H200"), cardNode("h800", "NVIDIA-H800")}
	tests := map[string]struct {
		quota      string
		minMember  int32
		phase      v1beta1.PodGroupPhase
		pods       []*corev1.Pod
		want       map[string]int
		wantReason string
	}{
		"what fits runs": {`{"NVIDIA-H200":4}`, 1, "Inqueue", pods(2, "j", "2", "NVIDIA-H200", ""), map[string]int{"h200": 2}, ""},
		"the third pod waits although cards are free": {`{"NVIDIA-H200":4}`, 1, "Inqueue", pods(3, "j", "2", "NVIDIA-H200", ""), map[string]int{"h200": 2},
			"Queue <q> has insufficient <NVIDIA-H200> quota: requested <2>, total would be <6>, but capability is <4>"},
		"a gang that does not fit starts nothing": {`{"NVIDIA-H200":4}`, 3, "Inqueue", pods(3, "j", "2", "NVIDIA-H200", ""), map[string]int{},
			"requested <2>, total would be <6>, but capability is <4>"},
		"quota for another model does not help": {`{"NVIDIA-H800":8}`, 1, "Inqueue", pods(1, "j", "1", "NVIDIA-H200", ""), map[string]int{},
			"requested <1>, total would be <1>, but capability is <0>"},
		"without card.name only cards with quota are used": {`{"NVIDIA-H800":2}`, 1, "Inqueue", pods(3, "j", "1", "", ""), map[string]int{"h800": 2}, "capability is <2>"},
		"alternatives use both quotas and no more":         {`{"NVIDIA-H200":1,"NVIDIA-H800":2}`, 1, "Inqueue", pods(5, "j", "1", "NVIDIA-H200|NVIDIA-H800", ""), map[string]int{"h200": 1, "h800": 2}, "the other card it may use has no more room"},
		"running pods count":                               {`{"NVIDIA-H200":4}`, 1, "Running", concat(pods(3, "j", "1", "NVIDIA-H200", "h200"), pods(2, "j", "1", "NVIDIA-H200", "")), map[string]int{"h200": 4}, "total would be <5>"},
		"a lowered quota kills nothing and starts nothing": {`{"NVIDIA-H200":1}`, 1, "Running", concat(pods(3, "j", "1", "NVIDIA-H200", "h200"), pods(1, "j", "1", "NVIDIA-H200", "")), map[string]int{"h200": 3}, "total would be <4>"},
		"an unreadable quota withholds everything":         {`{"NVIDIA-H200":1.5}`, 1, "Inqueue", pods(1, "j", "1", "NVIDIA-H200", ""), map[string]int{}, "invalid volcano.sh/card.quota"},
		"an unmanaged queue has no cards":                  {``, 1, "Inqueue", pods(1, "j", "1", "NVIDIA-H200", ""), map[string]int{}, "capability is <0>"},
		"a bad card.name is refused with the reason":       {`{"NVIDIA-H200":8}`, 1, "Inqueue", pods(1, "j", "1", "NVIDIA H200", ""), map[string]int{}, "must be a label value"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			ssn := run(t, &uthelper.TestCommonStruct{
				Name: name, Nodes: nodes, Queues: []*v1beta1.Queue{quotaQueue("q", tc.quota)},
				PodGroups: []*v1beta1.PodGroup{group("j", "q", tc.minMember, tc.phase, "")}, Pods: tc.pods,
			}, nil)
			got := placed(ssn, "j")
			if fmt.Sprint(got) != fmt.Sprint(tc.want) {
				t.Errorf("placed %v, want %v", got, tc.want)
			}
			var reasons []string
			for _, fit := range ssn.Jobs["ns/j"].NodesFitErrors {
				reasons = append(reasons, fit.Error())
			}
			if all := strings.Join(reasons, "\n"); !strings.Contains(all, tc.wantReason) || tc.wantReason == "" && all != "" {
				t.Errorf("reasons %q, want %q", all, tc.wantReason)
			}
		})
	}
}

func TestPredicateAloneKeepsTheQuota(t *testing.T) {
	ssn := run(t, &uthelper.TestCommonStruct{
		Nodes:     []*corev1.Node{cardNode("h200", "NVIDIA-H200"), cardNode("h800", "NVIDIA-H800")},
		Queues:    []*v1beta1.Queue{quotaQueue("q", `{"NVIDIA-H200":1}`)},
		PodGroups: []*v1beta1.PodGroup{group("j", "q", 1, "Running", "")},
		Pods:      concat(pods(1, "j", "1", "NVIDIA-H200", "h200"), pods(1, "j", "1", "NVIDIA-H200", "")),
	}, nil)
	task := ssn.Jobs["ns/j"].Tasks["j-0"]
	codes := map[string]int{}
	for name, node := range ssn.Nodes {
		var fit *api.FitError
		if !errors.As(opened.predicate(task, node), &fit) {
			t.Fatalf("node %s passed or failed without a reason", name)
		}
		codes[name] = fit.Status[0].Code
	}
	if codes["h200"] != api.Unschedulable || codes["h800"] != api.UnschedulableAndUnresolvable {
		t.Errorf("codes %v: a full quota is Unschedulable, another card is unresolvable", codes)
	}
}

func TestEnqueue(t *testing.T) {
	withRequest := func(g *v1beta1.PodGroup, text string) *v1beta1.PodGroup {
		g.Annotations["volcano.sh/card.request"] = text
		return g
	}
	named := func(name string, g *v1beta1.PodGroup) *v1beta1.PodGroup { g.Name = name; return g }
	tests := map[string]struct {
		quota      string
		groups     []*v1beta1.PodGroup
		pods       []*corev1.Pod
		args       framework.Arguments
		wantPhase  scheduling.PodGroupPhase
		wantReason string
	}{
		"a vcjob that fits": {`{"NVIDIA-H200":2}`, []*v1beta1.PodGroup{withRequest(group("j", "q", 2, "Pending", "2"), `{"NVIDIA-H200":2}`)}, nil, nil, scheduling.PodGroupInqueue, ""},
		"a vcjob without pods is told why": {`{"NVIDIA-H200":3}`, []*v1beta1.PodGroup{withRequest(group("j", "q", 5, "Pending", "5"), `{"NVIDIA-H200":5}`)}, nil, nil, scheduling.PodGroupPending,
			"Queue <q> has insufficient <NVIDIA-H200> quota: requested <5>, total would be <5>, but capability is <3>"},
		"only the minimum is asked for":                 {`{"NVIDIA-H200":3}`, []*v1beta1.PodGroup{withRequest(group("j", "q", 3, "Pending", "3"), `{"NVIDIA-H200":5}`)}, nil, nil, scheduling.PodGroupInqueue, ""},
		"what was admitted before is reserved":          {`{"NVIDIA-H200":3}`, []*v1beta1.PodGroup{withRequest(group("j", "q", 2, "Pending", "2"), `{"NVIDIA-H200":2}`), withRequest(group("i", "q", 2, "Inqueue", "2"), `{"NVIDIA-H200":2}`)}, nil, nil, scheduling.PodGroupPending, "total would be <4>"},
		"over-commitment admits more than it gives":     {`{"NVIDIA-H200":3}`, []*v1beta1.PodGroup{withRequest(group("j", "q", 5, "Pending", "5"), `{"NVIDIA-H200":5}`)}, nil, framework.Arguments{"overCommitFactor": 2}, scheduling.PodGroupInqueue, ""},
		"without card.request any card with quota":      {`{"NVIDIA-H800":2}`, []*v1beta1.PodGroup{group("j", "q", 2, "Pending", "2")}, nil, nil, scheduling.PodGroupInqueue, ""},
		"without card.request and without quota":        {`{"NVIDIA-H800":1}`, []*v1beta1.PodGroup{group("j", "q", 2, "Pending", "2")}, nil, nil, scheduling.PodGroupPending, "<NVIDIA-H200|NVIDIA-H800>"},
		"a Deployment's pods tell, one by one":          {`{"NVIDIA-H200":1}`, []*v1beta1.PodGroup{group("j", "q", 1, "Pending", "1")}, pods(4, "j", "1", "NVIDIA-H200", ""), nil, scheduling.PodGroupInqueue, ""},
		"elastic pods make way for the next":            {`{"NVIDIA-H200":2}`, []*v1beta1.PodGroup{named("j", group("j", "q", 1, "Pending", "1")), group("i", "q", 1, "Running", "1")}, concat(pods(1, "j", "1", "NVIDIA-H200", ""), pods(2, "i", "1", "NVIDIA-H200", "h200")), nil, scheduling.PodGroupInqueue, ""},
		"a bad card.request is refused with the reason": {`{"NVIDIA-H200":8}`, []*v1beta1.PodGroup{withRequest(group("j", "q", 1, "Pending", "1"), `{"NVIDIA-H200":0.5}`)}, nil, nil, scheduling.PodGroupPending, "write a whole number"},
		"CPU beyond the capability": {`{}`, []*v1beta1.PodGroup{func() *v1beta1.PodGroup {
			g := group("j", "q", 1, "Pending", "")
			(*g.Spec.MinResources)["cpu"] = resource.MustParse("101")
			return g
		}()}, nil, nil, scheduling.PodGroupPending, "insufficient CPU quota: requested <101000m>"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			ssn := run(t, &uthelper.TestCommonStruct{
				Nodes:  []*corev1.Node{cardNode("h200", "NVIDIA-H200"), cardNode("h800", "NVIDIA-H800")},
				Queues: []*v1beta1.Queue{quotaQueue("q", tc.quota)}, PodGroups: tc.groups, Pods: tc.pods,
			}, tc.args)
			job := ssn.Jobs["ns/j"]
			if got := job.PodGroup.Status.Phase; got != tc.wantPhase {
				t.Errorf("phase %s, want %s (%s)", got, tc.wantPhase, job.JobFitErrors)
			}
			if !strings.Contains(job.JobFitErrors, tc.wantReason) || tc.wantReason == "" && job.JobFitErrors != "" {
				t.Errorf("reason %q, want %q", job.JobFitErrors, tc.wantReason)
			}
			if tc.wantReason != "" && len(tc.pods) == 0 && !told(job.PodGroup, job.JobFitErrors) {
				t.Errorf("the PodGroup's conditions do not tell why: %v", job.PodGroup.Status.Conditions)
			}
		})
	}
}

func TestCardPodsAreFreeOfCPULimitsWhenConfigured(t *testing.T) {
	queue := quotaQueue("q", `{"NVIDIA-H200":8}`)
	queue.Spec.Capability = nil
	for _, unlimited := range []bool{false, true} {
		ssn := run(t, &uthelper.TestCommonStruct{
			Nodes:     []*corev1.Node{cardNode("h200", "NVIDIA-H200")},
			Queues:    []*v1beta1.Queue{queue},
			PodGroups: []*v1beta1.PodGroup{group("j", "q", 1, "Inqueue", "1")},
			Pods:      pods(1, "j", "1", "NVIDIA-H200", ""),
		}, framework.Arguments{"cardUnlimitedCpuMemory": unlimited})
		if got := len(placed(ssn, "j")) == 1; got != unlimited {
			t.Errorf("cardUnlimitedCpuMemory %v: placed %v", unlimited, got)
		}
	}
}

func TestTwoQueuesDoNotDisturbEachOther(t *testing.T) {
	ssn := run(t, &uthelper.TestCommonStruct{
		Nodes:     []*corev1.Node{cardNode("h200", "NVIDIA-H200")},
		Queues:    []*v1beta1.Queue{quotaQueue("bad", `nonsense`), quotaQueue("full", `{"NVIDIA-H200":1}`), quotaQueue("q", `{"NVIDIA-H200":2}`)},
		PodGroups: []*v1beta1.PodGroup{group("a", "bad", 1, "Inqueue", "1"), group("b", "full", 1, "Inqueue", "1"), group("j", "q", 1, "Inqueue", "1"), group("l", "lost", 1, "Inqueue", "1")},
		Pods:      concat(pods(1, "a", "1", "NVIDIA-H200", ""), pods(3, "b", "1", "NVIDIA-H200", ""), pods(2, "j", "1", "NVIDIA-H200", ""), pods(1, "l", "1", "NVIDIA-H200", "")),
	}, nil)
	for job, want := range map[string]int{"a": 0, "b": 1, "j": 2} {
		if got := placed(ssn, job)["h200"]; got != want {
			t.Errorf("job %s has %d pods placed, want %d", job, got, want)
		}
	}
}

func TestInvalidArgumentsAdmitNothing(t *testing.T) {
	ssn := run(t, &uthelper.TestCommonStruct{
		Nodes:     []*corev1.Node{cardNode("h200", "NVIDIA-H200")},
		Queues:    []*v1beta1.Queue{quotaQueue("q", `{"NVIDIA-H200":8}`)},
		PodGroups: []*v1beta1.PodGroup{group("j", "q", 1, "Inqueue", "1")},
		Pods:      pods(1, "j", "1", "NVIDIA-H200", ""),
	}, framework.Arguments{"overCommitFactor": 0.5})
	if got := placed(ssn, "j"); len(got) != 0 {
		t.Errorf("placed %v with invalid arguments", got)
	}
}
