package capacitycard

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/actions/allocate"
	"volcano.sh/volcano/pkg/scheduler/actions/preempt"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/conf"
	"volcano.sh/volcano/pkg/scheduler/framework"
	"volcano.sh/volcano/pkg/scheduler/plugins/gang"
	"volcano.sh/volcano/pkg/scheduler/plugins/predicates"
	"volcano.sh/volcano/pkg/scheduler/plugins/priority"
	"volcano.sh/volcano/pkg/scheduler/uthelper"
)

// evict runs allocate and then an action that evicts, with the plugins that a
// configuration for it has.
func evict(t *testing.T, world *uthelper.TestCommonStruct, action framework.Action, configurations ...conf.Configuration) *framework.Session {
	t.Helper()
	return evictWith(t, world, nil, action, configurations...)
}

func evictWith(t *testing.T, world *uthelper.TestCommonStruct, args framework.Arguments, action framework.Action, configurations ...conf.Configuration) *framework.Session {
	t.Helper()
	process = newMemory()
	world.PriClass = []*schedulingv1.PriorityClass{
		{ObjectMeta: metav1.ObjectMeta{Name: "high"}, Value: 80000}, {ObjectMeta: metav1.ObjectMeta{Name: "low"}, Value: 20000},
	}
	world.Plugins = map[string]framework.PluginBuilder{
		PluginName: func(a framework.Arguments) framework.Plugin {
			opened = New(a).(*plugin)
			return opened
		},
		gang.PluginName: gang.New, predicates.PluginName: predicates.New, priority.PluginName: priority.New,
	}
	yes := true
	ordering := conf.PluginOption{Name: priority.PluginName, EnabledJobOrder: &yes, EnabledTaskOrder: &yes, EnabledJobStarving: &yes}
	ganging := conf.PluginOption{Name: gang.PluginName, EnabledJobReady: &yes, EnabledJobPipelined: &yes, EnabledSubJobReady: &yes, EnabledSubJobPipelined: &yes}
	filtering := conf.PluginOption{Name: predicates.PluginName, EnabledPredicate: &yes}
	card := conf.PluginOption{Name: PluginName, EnabledQueueOrder: &yes, EnabledPredicate: &yes, EnabledAllocatable: &yes, EnabledJobEnqueued: &yes,
		EnabledPreemptable: &yes, EnabledReclaimable: &yes, EnablePreemptive: &yes, EnabledNodeOrder: &yes, EnabledBestNode: &yes, Arguments: args}
	ssn := world.RegisterSession([]conf.Tier{{Plugins: []conf.PluginOption{ordering, ganging, card, filtering}}}, configurations)
	t.Cleanup(world.Close)
	world.Run([]framework.Action{allocate.New(), action})
	return ssn
}

// outcome tells what became of the pods: evicted and promised a node, each
// written pod or pod@node.
func outcome(ssn *framework.Session) (evicted, promised []string) {
	for _, job := range ssn.Jobs {
		for _, task := range job.Tasks {
			switch task.Status {
			case api.Releasing:
				evicted = append(evicted, task.Name)
			case api.Pipelined:
				promised = append(promised, task.Name+"@"+task.NodeName)
			}
		}
	}
	slices.Sort(evicted)
	slices.Sort(promised)
	return evicted, promised
}

func ranked(class string, g *v1beta1.PodGroup) *v1beta1.PodGroup {
	g.Spec.PriorityClassName = class
	return g
}

func prioritised(value int32, list []*corev1.Pod) []*corev1.Pod {
	for _, p := range list {
		p.Spec.Priority = &value
	}
	return list
}

// each applies a change to every pod of a list.
func each(list []*corev1.Pod, change func(*corev1.Pod)) []*corev1.Pod {
	for _, p := range list {
		change(p)
	}
	return list
}

func preemptable(value string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Annotations["volcano.sh/preemptable"] = value }
}

// expect compares an outcome, each side written "a b c".
func expect(t *testing.T, ssn *framework.Session, wantEvicted, wantPromised string) {
	t.Helper()
	evicted, promised := outcome(ssn)
	if got := strings.Join(evicted, " "); got != wantEvicted {
		t.Errorf("evicted %q, want %q", got, wantEvicted)
	}
	if got := strings.Join(promised, " "); got != wantPromised {
		t.Errorf("promised %q, want %q", got, wantPromised)
	}
}

func TestPreemptStaysWithinTheQueueAndItsQuota(t *testing.T) {
	h200, h800 := cardNode("h200", "NVIDIA-H200"), cardNode("h800", "NVIDIA-H800")
	low := func(name string, phase v1beta1.PodGroupPhase) *v1beta1.PodGroup {
		return ranked("low", group(name, "q", 1, phase, "1"))
	}
	high := func(name string) *v1beta1.PodGroup { return ranked("high", group(name, "q", 1, "Inqueue", "1")) }
	tests := map[string]struct {
		quota             string
		groups            []*v1beta1.PodGroup
		pods              []*corev1.Pod
		evicted, promised string
		alsoTopologyAware bool
		// cpu is the queue's, "" for plenty.
		cpu string
		// anyOrder tells that which pod of the gang goes where is open.
		anyOrder bool
	}{
		"a full quota is preempted although cards are free": {
			quota: `{"NVIDIA-H200":4}`, groups: []*v1beta1.PodGroup{low("old", "Running"), high("new")},
			pods:    concat(pods(4, "old", "1", "NVIDIA-H200", "h200"), pods(1, "new", "1", "NVIDIA-H200", "")),
			evicted: "old-h2000", promised: "new-0@h200", alsoTopologyAware: true,
		},
		"with alternatives the node's own card decides": {
			quota: `{"NVIDIA-H200":4,"NVIDIA-H800":2}`, groups: []*v1beta1.PodGroup{low("old", "Running"), high("new")},
			pods: concat(pods(4, "old", "1", "NVIDIA-H200", "h200"), pods(8, "ghost", "1", "NVIDIA-H800", "h800"), // of no queue: quota is free there, cards are not
				pods(1, "new", "2", "NVIDIA-H200|NVIDIA-H800", "")),
			evicted: "old-h2000 old-h2001", promised: "new-0@h200", alsoTopologyAware: true,
		},
		"an equal priority is not preempted": {
			quota: `{"NVIDIA-H200":4}`, groups: []*v1beta1.PodGroup{ranked("high", group("old", "q", 1, "Running", "1")), high("new")},
			pods: concat(pods(4, "old", "1", "NVIDIA-H200", "h200"), pods(1, "new", "1", "NVIDIA-H200", "")),
		},
		"nobody is evicted when it would not be enough": {
			quota: `{"NVIDIA-H200":4}`, groups: []*v1beta1.PodGroup{low("old", "Running"), high("new")},
			pods: concat(pods(4, "old", "1", "NVIDIA-H200", "h200"), pods(1, "new", "5", "NVIDIA-H200", "")),
		},
		"another card is never evicted": {
			quota: `{"NVIDIA-H200":0,"NVIDIA-H800":4}`, groups: []*v1beta1.PodGroup{low("old", "Running"), high("new")},
			pods: concat(pods(4, "old", "1", "NVIDIA-H800", "h800"), pods(1, "new", "1", "NVIDIA-H200", "")),
		},
		"a pod without cards gives nothing and stays": {
			quota: `{"NVIDIA-H200":2}`, groups: []*v1beta1.PodGroup{low("cpu", "Running"), low("old", "Running"), high("new")},
			pods: concat(each(pods(2, "cpu", "0", "", "h200"), func(p *corev1.Pod) { p.Labels = map[string]string{"note": "no cards"} }),
				pods(2, "old", "1", "NVIDIA-H200", "h200"), pods(1, "new", "2", "NVIDIA-H200", "")),
			evicted: "old-h2000 old-h2001", promised: "new-0@h200", alsoTopologyAware: true,
		},
		"pods that say so are not evicted": {
			quota: `{"NVIDIA-H200":2}`, groups: []*v1beta1.PodGroup{low("old", "Running"), high("new")},
			pods: concat(each(pods(2, "old", "1", "NVIDIA-H200", "h200"), preemptable("false")), pods(1, "new", "1", "NVIDIA-H200", "")),
		},
		"pods whose PodGroup says so are not evicted": {
			quota: `{"NVIDIA-H200":2}`, groups: []*v1beta1.PodGroup{func() *v1beta1.PodGroup {
				g := low("old", "Running")
				g.Annotations["volcano.sh/preemptable"] = "false"
				return g
			}(), high("new")},
			pods: concat(pods(2, "old", "1", "NVIDIA-H200", "h200"), pods(1, "new", "1", "NVIDIA-H200", "")),
		},
		"pods that keep the cluster alive are not evicted": {
			quota: `{"NVIDIA-H200":2}`, groups: []*v1beta1.PodGroup{low("old", "Running"), high("new")},
			pods: concat(each(pods(2, "old", "1", "NVIDIA-H200", "h200"), func(p *corev1.Pod) { p.Spec.PriorityClassName = "system-node-critical" }),
				pods(1, "new", "1", "NVIDIA-H200", "")),
		},
		"a gang takes the place of one larger pod": {
			quota: `{"NVIDIA-H200":2}`, groups: []*v1beta1.PodGroup{low("old", "Running"), ranked("high", group("new", "q", 2, "Inqueue", "2"))},
			pods:    concat(pods(1, "old", "2", "NVIDIA-H200", "h200"), pods(2, "new", "1", "NVIDIA-H200", "")),
			evicted: "old-h2000", promised: "new-0@h200 new-1@h200",
		},
		"a gang uses what is free and takes the rest": {
			quota: `{"NVIDIA-H200":8,"NVIDIA-H800":8}`, groups: []*v1beta1.PodGroup{low("old", "Running"), ranked("high", group("new", "q", 3, "Inqueue", "3"))},
			pods: concat(pods(2, "old", "1", "NVIDIA-H200", "h200"), pods(6, "ghost", "1", "NVIDIA-H200", "h200"), pods(7, "ghost", "1", "NVIDIA-H800", "h800"),
				pods(3, "new", "1", "NVIDIA-H200|NVIDIA-H800", "")),
			evicted: "old-h2000 old-h2001", promised: "new-0@h200 new-1@h200 new-2@h800", anyOrder: true,
		},
		"the smaller victim stays when the larger one is enough": {
			quota: `{"NVIDIA-H200":5}`, groups: []*v1beta1.PodGroup{low("small", "Running"), low("large", "Running"), high("new")},
			pods:    concat(pods(1, "large", "4", "NVIDIA-H200", "h200"), pods(1, "small", "1", "NVIDIA-H200", "h200"), pods(1, "new", "4", "NVIDIA-H200", "")),
			evicted: "large-h2000", promised: "new-0@h200", alsoTopologyAware: true,
		},
		"nobody is evicted for cards when CPU is short as well": {
			quota: `{"NVIDIA-H200":2}`, cpu: "2", groups: []*v1beta1.PodGroup{group("j", "q", 1, "Running", "1")},
			pods: concat(prioritised(1, pods(2, "j", "1", "NVIDIA-H200", "h200")),
				prioritised(10, each(pods(1, "j", "1", "NVIDIA-H200", ""), func(p *corev1.Pod) {
					p.Spec.Containers[0].Resources.Requests["cpu"] = resource.MustParse("4")
				}))), alsoTopologyAware: true,
		},
		"inside a job the pod of higher priority wins": {
			quota: `{"NVIDIA-H200":2}`, groups: []*v1beta1.PodGroup{group("j", "q", 1, "Running", "1")},
			pods:    concat(prioritised(1, pods(2, "j", "1", "NVIDIA-H200", "h200")), prioritised(10, pods(1, "j", "1", "NVIDIA-H200", ""))),
			evicted: "j-h2000", promised: "j-0@h200",
		},
	}
	for name, tc := range tests {
		aware := []bool{false}
		if tc.alsoTopologyAware {
			aware = append(aware, true)
		}
		for _, topologyAware := range aware {
			t.Run(fmt.Sprintf("%s/topologyAware=%v", name, topologyAware), func(t *testing.T) {
				configuration := conf.Configuration{Name: "preempt", Arguments: map[string]any{preempt.EnableTopologyAwarePreemptionKey: topologyAware}}
				queue := quotaQueue("q", tc.quota)
				if tc.cpu != "" {
					queue.Spec.Capability["cpu"] = resource.MustParse(tc.cpu)
				}
				ssn := evict(t, &uthelper.TestCommonStruct{
					Nodes: []*corev1.Node{h200, h800}, Queues: []*v1beta1.Queue{queue}, PodGroups: tc.groups, Pods: aged(tc.pods),
				}, preempt.New(), configuration)
				if evicted, _ := outcome(ssn); len(evicted) > 0 && len(strings.Fields(tc.evicted)) == len(evicted) {
					// Which of equal pods goes is Volcano's choice.
					tc.evicted = sameJobs(tc.evicted, evicted)
				}
				if _, promised := outcome(ssn); tc.anyOrder {
					tc.promised = sameNodes(tc.promised, promised)
				}
				expect(t, ssn, tc.evicted, tc.promised)
			})
		}
	}
}

// sameNodes returns the promises if they are as many on every node as expected.
func sameNodes(want string, promised []string) string {
	count := func(promises []string) map[string]int {
		on := map[string]int{}
		for _, promise := range promises {
			_, node, _ := strings.Cut(promise, "@")
			on[node]++
		}
		return on
	}
	if !maps.Equal(count(strings.Fields(want)), count(promised)) {
		return want
	}
	return strings.Join(promised, " ")
}

// sameJobs returns the evicted pods if they are of the jobs that are expected,
// in which all pods are equal.
func sameJobs(want string, evicted []string) string {
	job := func(pod string) string { name, _, _ := strings.Cut(pod, "-"); return name }
	for i, pod := range strings.Fields(want) {
		if job(pod) != job(evicted[i]) {
			return want
		}
	}
	return strings.Join(evicted, " ")
}

// aged gives pods different ages, the first the oldest.
func aged(list []*corev1.Pod) []*corev1.Pod {
	for i, p := range list {
		p.CreationTimestamp = metav1.NewTime(time.Date(2026, 1, 1, 0, i, 0, 0, time.UTC))
	}
	return list
}
