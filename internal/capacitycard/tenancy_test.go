package capacitycard

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8sframework "k8s.io/kubernetes/pkg/scheduler/framework"
	"volcano.sh/apis/pkg/apis/scheduling"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/framework"
	"volcano.sh/volcano/pkg/scheduler/plugins/util"
	"volcano.sh/volcano/pkg/scheduler/uthelper"
)

// ofTeam is the namespace of the tests, labelled with a team.
func ofTeam(name, team string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"team": team}}}
}

// chooses makes a queue choose its namespaces.
func chooses(queue *v1beta1.Queue, selector string) *v1beta1.Queue {
	if queue.Annotations == nil {
		queue.Annotations = map[string]string{}
	}
	queue.Annotations["volcano.sh/namespace-selector"] = selector
	return queue
}

// moved puts a job into another namespace.
func moved(namespace string, group *v1beta1.PodGroup, pods []*corev1.Pod) (*v1beta1.PodGroup, []*corev1.Pod) {
	group.Namespace = namespace
	for _, p := range pods {
		p.Namespace, p.UID = namespace, p.UID+"-moved"
	}
	return group, pods
}

const forChat = `{"matchLabels":{"team":"chat"}}`

func TestAQueueTakesTheNamespacesItChooses(t *testing.T) {
	const leftOut = "Namespace <ns> may not use queue <q>, which is only for namespaces with <team=chat>"
	full := func() *v1beta1.Queue { return quotaQueue("q", `{"NVIDIA-H200":8}`) }
	tests := map[string]struct {
		queue   *v1beta1.Queue
		known   []*corev1.Namespace
		cards   string
		wantWhy string // "" when the pods are placed
	}{
		"a queue that does not choose":                {full(), nil, "1", ""},
		"a namespace that is chosen":                  {chooses(full(), forChat), []*corev1.Namespace{ofTeam("ns", "chat")}, "1", ""},
		"every namespace":                             {chooses(full(), `{}`), []*corev1.Namespace{ofTeam("ns", "lab")}, "1", ""},
		"a namespace of another team":                 {chooses(full(), forChat), []*corev1.Namespace{ofTeam("ns", "lab")}, "1", leftOut},
		"another namespace is chosen":                 {chooses(full(), forChat), []*corev1.Namespace{ofTeam("ns", "lab"), ofTeam("other", "chat")}, "1", leftOut},
		"work without cards is left out as well":      {chooses(full(), forChat), []*corev1.Namespace{ofTeam("ns", "lab")}, "0", leftOut},
		"a queue without a quota chooses as well":     {chooses(quotaQueue("q", ""), forChat), []*corev1.Namespace{ofTeam("ns", "lab")}, "0", leftOut},
		"a namespace that is not known yet":           {chooses(full(), forChat), nil, "1", "Namespace <ns> is not known yet, and queue <q> is only for namespaces with <team=chat>"},
		"not known yet, and every namespace may":      {chooses(full(), `{}`), nil, "1", ""},
		"a selector that cannot be read is nobody's":  {chooses(full(), `{"matchLabel":{}}`), []*corev1.Namespace{ofTeam("ns", "chat")}, "1", "Queue <q> has an invalid volcano.sh/namespace-selector, so no namespace may use it"},
		"a selector that is no JSON is nobody's":      {chooses(full(), `team=chat`), []*corev1.Namespace{ofTeam("ns", "chat")}, "1", "is not valid JSON"},
		"an operator that does not exist is nobody's": {chooses(full(), `{"matchExpressions":[{"key":"team","operator":"Like","values":["chat"]}]}`), []*corev1.Namespace{ofTeam("ns", "chat")}, "1", "Like"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			world := func(phase v1beta1.PodGroupPhase, all []*corev1.Pod) *uthelper.TestCommonStruct {
				return &uthelper.TestCommonStruct{Nodes: []*corev1.Node{cardNode("h200", "NVIDIA-H200")}, Queues: []*v1beta1.Queue{tc.queue},
					PodGroups: []*v1beta1.PodGroup{group("j", "q", 1, phase, "")}, Pods: all}
			}
			// Before its pods exist, when they do, and when it was admitted earlier.
			t.Run("announced", func(t *testing.T) {
				job := run(t, world("Pending", nil), nil, tc.known...).Jobs["ns/j"]
				if admitted := job.PodGroup.Status.Phase == scheduling.PodGroupInqueue; admitted != (tc.wantWhy == "") {
					t.Errorf("admitted %v", admitted)
				}
				if !strings.Contains(job.JobFitErrors, tc.wantWhy) || tc.wantWhy != "" && !told(job.PodGroup, job.JobFitErrors) {
					t.Errorf("the PodGroup is told %q, want %q", job.JobFitErrors, tc.wantWhy)
				}
			})
			for _, phase := range []v1beta1.PodGroupPhase{"Pending", "Inqueue"} {
				t.Run(string(phase), func(t *testing.T) {
					ssn := run(t, world(phase, pods(2, "j", tc.cards, "NVIDIA-H200", "")), nil, tc.known...)
					want := 2
					if tc.wantWhy != "" {
						want = 0
					}
					if got := placed(ssn, "j")["h200"]; got != want {
						t.Errorf("%d pods placed, want %d", got, want)
					}
					job := ssn.Jobs["ns/j"]
					said := job.JobFitErrors
					for _, fit := range job.NodesFitErrors {
						said += fit.Error()
					}
					if !strings.Contains(said, tc.wantWhy) {
						t.Errorf("said %q, want %q", said, tc.wantWhy)
					}
				})
			}
		})
	}
}

// TestEveryHookAsksForTheNamespace asks each hook alone, in a tide that only the
// selector of the inference queue holds back.
func TestEveryHookAsksForTheNamespace(t *testing.T) {
	for _, tc := range []struct {
		selector string
		want     bool
	}{{`{"matchLabels":{"team":"lab"}}`, true}, {forChat, false}} {
		t.Run(tc.selector, func(t *testing.T) {
			queues := tide(`{"NVIDIA-H200":16}`, `{"NVIDIA-H200":8}`)
			chooses(queues[0], tc.selector)
			low, high := group("low", "inf", 1, "Running", "1"), group("i", "inf", 1, "Pending", "1")
			ssn := run(t, &uthelper.TestCommonStruct{
				Nodes: []*corev1.Node{cardNode("h200", "NVIDIA-H200")}, Queues: queues,
				PodGroups: []*v1beta1.PodGroup{group("t", "tra", 1, "Running", "1"), low, high},
				Pods:      concat(pods(4, "t", "1", "NVIDIA-H200", "h200"), pods(4, "low", "1", "NVIDIA-H200", "h200"), pods(1, "i", "2", "NVIDIA-H200", "")),
			}, nil, ofTeam("ns", "lab"))
			var victims, own []*api.TaskInfo
			for _, task := range ssn.Jobs["ns/t"].Tasks {
				victims = append(victims, task)
			}
			for _, task := range ssn.Jobs["ns/low"].Tasks {
				own = append(own, task)
			}
			job, queue, node := ssn.Jobs["ns/i"], ssn.Queues["inf"], ssn.Nodes["h200"]
			job.Priority = 10
			task := job.Tasks["i-0"]
			rules, ok := TideOf(ssn)
			if !ok {
				t.Fatal("the session has no rules of the tide")
			}
			state := k8sframework.NewCycleState()
			_ = opened.simulateRemove(context.Background(), state, task, own[0], node)
			event := &framework.Event{Task: task.Clone()}
			event.Task.NodeName, event.Task.Status = "h200", api.Allocated
			opened.allocated(event)
			opened.deallocated(event)
			for hook, permits := range map[string]func() bool{
				"jobEnqueueable":      func() bool { return opened.jobEnqueueable(job) == util.Permit },
				"predicate":           func() bool { return opened.predicate(task, node) == nil },
				"preemptive":          func() bool { return opened.preemptive(queue, task) },
				"reclaimable":         func() bool { got, _ := opened.reclaimable(task, victims); return len(got) > 0 },
				"allocated":           func() bool { return event.Err == nil },
				"simulatePredicate":   func() bool { return opened.simulatePredicate(context.Background(), state, task, node) == nil },
				"simulateAllocatable": func() bool { return opened.simulateAllocatable(context.Background(), state, queue, task) },
				"takes":               func() bool { return rules.Takes(task) },
			} {
				if got := permits(); got != tc.want {
					t.Errorf("%s permits: %v, want %v", hook, got, tc.want)
				}
			}
			// These two depend on what was asked before them.
			opened.attempt.Store(nil)
			if got := opened.allocatable(queue, task); got != tc.want {
				t.Errorf("allocatable permits: %v, want %v", got, tc.want)
			}
			if got, _ := opened.preemptable(task, own); (len(got) > 0) != tc.want {
				t.Errorf("preemptable gives %d pods, want some: %v", len(got), tc.want)
			}
			if got := opened.fitsAttempt(queue, task, "h200"); got != tc.want {
				t.Errorf("allocatable during an attempt permits: %v, want %v", got, tc.want)
			}
		})
	}
}

// TestALeftOutNamespaceKeepsWhatItHasAndNothingElse: its running pods stay
// charged, and what it waited for is free for others.
func TestALeftOutNamespaceKeepsWhatItHasAndNothingElse(t *testing.T) {
	queue := chooses(quotaQueue("q", `{"NVIDIA-H200":4}`), forChat)
	old, oldPods := moved("lab", group("old", "q", 1, "Running", "1"), pods(1, "old", "1", "NVIDIA-H200", "h200"))
	oldPods[0].Spec.SchedulerName = "volcano" // this scheduler let it in, whatever the queue is for now
	stuck, stuckPods := moved("lab", group("stuck", "q", 3, "Inqueue", "3"), pods(3, "stuck", "1", "NVIDIA-H200", ""))
	ssn := run(t, &uthelper.TestCommonStruct{
		Nodes: []*corev1.Node{cardNode("h200", "NVIDIA-H200")}, Queues: []*v1beta1.Queue{queue},
		PodGroups: []*v1beta1.PodGroup{old, stuck, group("j", "q", 1, "Pending", "1")},
		Pods:      concat(oldPods, stuckPods, pods(4, "j", "1", "NVIDIA-H200", "")),
	}, nil, ofTeam("ns", "chat"), ofTeam("lab", "lab"))
	if got := placed(ssn, "j")["h200"]; got != 3 {
		t.Errorf("%d pods of the chosen namespace placed, want the 3 cards that the left-out one does not hold", got)
	}
	if got := opened.account.Used("q", "NVIDIA-H200"); got != 4 {
		t.Errorf("%d cards are in use, want 4", got)
	}
	for _, task := range ssn.Jobs["lab/stuck"].Tasks {
		if task.Status != api.Pending {
			t.Errorf("pod %s is %s", task.Name, task.Status)
		}
	}
}

// TestAVerdictFollowsLabelsAndSelectorAndNothingElse: what did not change is not
// worked out again.
func TestAVerdictFollowsLabelsAndSelectorAndNothingElse(t *testing.T) {
	process = newMemory()
	queue, lab := chooses(quotaQueue("q", `{"NVIDIA-H200":8}`), forChat), ofTeam("ns", "lab")
	verdict := func(queue *v1beta1.Queue, namespace *corev1.Namespace) (got verdict) {
		t.Run("session", func(t *testing.T) { // its end closes the session
			runAgain(t, &uthelper.TestCommonStruct{
				Nodes: []*corev1.Node{cardNode("h200", "NVIDIA-H200")}, Queues: []*v1beta1.Queue{queue},
				PodGroups: []*v1beta1.PodGroup{group("j", "q", 1, "Pending", "1")}, Pods: pods(1, "j", "1", "NVIDIA-H200", ""),
			}, nil, namespace)
			got = process.tenants[tenant{"q", "ns"}]
		})
		return got
	}
	first := verdict(queue, lab)
	if first.refusal == nil {
		t.Fatal("a namespace of another team is not refused")
	}
	if again := verdict(queue, lab); again.refusal != first.refusal {
		t.Error("nothing changed, and the verdict is a new one")
	}
	if heartbeat := verdict(queue.DeepCopy(), lab); heartbeat.refusal != first.refusal {
		t.Error("the queue changed, its selector did not, and the verdict is a new one")
	}
	if other := verdict(chooses(queue.DeepCopy(), `{"matchLabels":{"team":"lab"}}`), lab); other.refusal != nil {
		t.Errorf("another selector chooses the namespace: %v", other.refusal)
	}
	if labelled := verdict(queue, ofTeam("ns", "chat")); labelled.refusal != nil {
		t.Errorf("the namespace is labelled: %v", labelled.refusal)
	}
	if unlabelled := verdict(queue, lab); unlabelled.refusal == nil {
		t.Error("the namespace lost its label and is not refused")
	}
	open := quotaQueue("q", `{"NVIDIA-H200":8}`)
	verdict(open, lab)
	if len(process.tenants) != 0 {
		t.Errorf("no queue chooses, and %d verdicts are kept", len(process.tenants))
	}
}

// TestQueuesThatDoNotChooseCostNothing: looking whether a job may use its queue
// allocates nothing, nor does a verdict that stays.
func TestQueuesThatDoNotChooseCostNothing(t *testing.T) {
	for name, selector := range map[string]string{"does not choose": "", "chooses": forChat} {
		t.Run(name, func(t *testing.T) {
			queue := quotaQueue("q", `{"NVIDIA-H200":8}`)
			if selector != "" {
				chooses(queue, selector)
			}
			ssn := run(t, &uthelper.TestCommonStruct{
				Nodes: []*corev1.Node{cardNode("h200", "NVIDIA-H200")}, Queues: []*v1beta1.Queue{queue},
				PodGroups: []*v1beta1.PodGroup{group("j", "q", 1, "Inqueue", "1")}, Pods: pods(1, "j", "1", "NVIDIA-H200", ""),
			}, nil, ofTeam("ns", "chat"))
			task, node := ssn.Jobs["ns/j"].Tasks["j-0"], ssn.Nodes["h200"]
			if opened.choosing != (selector != "") {
				t.Errorf("choosing %v", opened.choosing)
			}
			for gate, ask := range map[string]func(){
				"the next session": func() { opened.memory.session++; _ = opened.welcome("q", "ns") },
				"the gates":        func() { _ = opened.closedGate("q", "ns") },
				"a node": func() {
					if opened.predicate(task, node) != nil {
						t.Fatal("the node is refused")
					}
				},
			} {
				if got := testing.AllocsPerRun(100, ask); got != 0 {
					t.Errorf("%s: %v allocations", gate, got)
				}
			}
		})
	}
}
