package capacitycard

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/actions/preempt"
	"volcano.sh/volcano/pkg/scheduler/actions/reclaim"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/conf"
	"volcano.sh/volcano/pkg/scheduler/framework"
	"volcano.sh/volcano/pkg/scheduler/uthelper"
)

// deleted has a pod end within an hour.
func deleted(p *corev1.Pod) {
	now, hour := metav1.Now(), int64(3600)
	p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &now, &hour
}

// restarted is a queue with a quota of two cards, so many pods that end and one
// that takes their place, on nodes with plenty of cards.
func restarted(t *testing.T, ending int, change func(*corev1.Pod)) *framework.Session {
	t.Helper()
	ends := each(pods(ending, "j", "1", "NVIDIA-H200", "h200"), deleted)
	if change != nil {
		ends = each(ends, change)
	}
	return run(t, &uthelper.TestCommonStruct{
		Nodes:     []*corev1.Node{cardNode("h200", "NVIDIA-H200"), cardNode("free", "NVIDIA-H200")},
		Queues:    []*v1beta1.Queue{quotaQueue("q", `{"NVIDIA-H200":2}`)},
		PodGroups: []*v1beta1.PodGroup{group("j", "q", 1, "Running", "1")},
		Pods:      concat(ends, pods(1, "j", "1", "NVIDIA-H200", "")),
	}, nil)
}

// TestARestartWaitsForTheOneBefore: a queue may be restarted as a whole at once.
// Who does it again and again within the grace period would hold ever more cards.
func TestARestartWaitsForTheOneBefore(t *testing.T) {
	for name, tc := range map[string]struct {
		ending int
		change func(*corev1.Pod)
		placed int
	}{
		"nothing ends":             {0, nil, 1},
		"the whole quota ends":     {2, nil, 1},
		"more than the quota ends": {3, nil, 0},
		"they have finished":       {3, func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }, 1},
		"they have failed":         {3, func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }, 1},
		"they never had a node":    {3, func(p *corev1.Pod) { p.Spec.NodeName = ""; p.Status.Phase = corev1.PodPending }, 1},
		"their node is gone":       {3, func(p *corev1.Pod) { p.Spec.NodeName = "gone" }, 1},
		"they are starting":        {3, func(p *corev1.Pod) { p.Status.Phase = corev1.PodPending }, 0},
		"they ask for no cards":    {3, func(p *corev1.Pod) { delete(p.Spec.Containers[0].Resources.Requests, gpu) }, 1},
	} {
		t.Run(name, func(t *testing.T) {
			ssn := restarted(t, tc.ending, tc.change)
			got := 0
			for _, n := range placed(ssn, "j") {
				got += n
			}
			if got != tc.placed {
				t.Errorf("%d pods are placed, want %d", got, tc.placed)
			}
			if used := opened.account.Used("q", "NVIDIA-H200"); int(used) != tc.placed {
				t.Errorf("%d cards are used, want %d: what ends is not counted", used, tc.placed)
			}
		})
	}
}

// TestEachGateKnowsWhatEnds: Volcano may skip any of them.
func TestEachGateKnowsWhatEnds(t *testing.T) {
	ssn := restarted(t, 3, nil)
	task, queue := ssn.Jobs["ns/j"].Tasks["j-0"], ssn.Queues["q"]
	if opened.allocatable(queue, task) {
		t.Error("allocatable permits it")
	}
	const why = "ueue <q> gets no more <NVIDIA-H200> while pods that are being deleted hold more than its quota: ending <3>, but capability is <2>; " +
		"they end within 3600 s, sooner with a shorter terminationGracePeriodSeconds"
	if got := ssn.Jobs["ns/j"].NodesFitErrors[task.UID].Error(); !strings.Contains(got, "Q"+why) {
		t.Errorf("the pod is told %q", got)
	}
	var unfit *api.FitError
	if err := opened.predicate(task, ssn.Nodes["free"]); !errors.As(err, &unfit) || !strings.Contains(err.Error(), "q"+why) {
		t.Errorf("predicate says %v", err)
	} else if unfit.Status[0].Code != api.UnschedulableAndUnresolvable {
		t.Error("preemption is asked for help, which only makes more pods end")
	}
	placement := task.Clone()
	placement.NodeName, placement.Status = "free", api.Allocated
	event := &framework.Event{Task: placement}
	if opened.allocated(event); event.Err == nil || !strings.Contains(event.Err.Error(), "Q"+why) {
		t.Errorf("a placement all the same: %v", event.Err)
	}
	opened.deallocated(event)
}

// TestWhatEndsIsToldOnce, not whenever one of many pods is gone.
func TestWhatEndsIsToldOnce(t *testing.T) {
	ssn := restarted(t, 4, nil)
	task := ssn.Jobs["ns/j"].Tasks["j-0"]
	said := func() string { return opened.memory.voice.said[task.Pod.UID].text }
	before := said()
	opened.account.Gone("j-h2000")
	opened.allocatable(ssn.Queues["q"], task)
	if before == "" || said() != before {
		t.Errorf("it was told %q and now %q", before, said())
	}
}

func TestPodsThatEndOutsideTheSession(t *testing.T) {
	run(t, oneJobWorld(), nil) // two of four cards are used
	orphans := each(pods(5, "gone", "1", "NVIDIA-H200", "h200"), deleted)
	for _, p := range orphans {
		p.Annotations["scheduling.volcano.sh/queue-name"] = "q"
	}
	listed(t, orphans[:4]...)
	if !opened.account.FitsOn("q", "NVIDIA-H200", 2) || opened.account.FitsOn("q", "NVIDIA-H200", 3) {
		t.Error("what ends is counted")
	}
	listed(t, orphans[4])
	if opened.account.FitsOn("q", "NVIDIA-H200", 1) {
		t.Error("a card fits although five end and the quota is four")
	}
	store := opened.ssn.InformerFactory().Core().V1().Nodes().Informer().GetIndexer()
	for what, tc := range map[string]struct {
		ready corev1.ConditionStatus
		want  bool
	}{"does not work": {corev1.ConditionFalse, true}, "is not heard of": {corev1.ConditionUnknown, true}, "works again": {corev1.ConditionTrue, false}} {
		node := cardNode("h200", "NVIDIA-H200")
		node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: tc.ready}}
		if err := store.Add(node); err != nil {
			t.Fatal(err)
		}
		opened.openBooks()
		if got := opened.account.FitsOn("q", "NVIDIA-H200", 1); got != tc.want {
			t.Errorf("their node %s: a card fits %v, want %v", what, got, tc.want)
		}
	}
}

// TestPreemptEvictsNobodyInVain: evictions make more pods end, and when more do
// than the quota is large, whoever they made room for would wait as well.
func TestPreemptEvictsNobodyInVain(t *testing.T) {
	for name, tc := range map[string]struct {
		ending            int
		asks              string
		evicted, promised string
	}{
		"nothing ends":                  {0, "2", "old-h2000 old-h2001", "new-0@h200"},
		"as much ends as may":           {1, "1", "old-h2001", "new-0@h200"},
		"more would end":                {1, "2", "", ""},
		"more would end for the second": {1, "1 1", "old-h2001", "new-0@h200"},
		"the whole quota ends already":  {2, "1", "", ""},
		"more than the quota ends":      {3, "1", "", ""},
		"who asks for no cards is free": {3, "0", "old-h2001", "new-0@h200"},
	} {
		for _, topologyAware := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/topologyAware=%v", name, topologyAware), func(t *testing.T) {
				queue := quotaQueue("q", `{"NVIDIA-H200":2}`)
				if tc.asks == "0" {
					queue.Spec.Capability["cpu"] = resource.MustParse("2")
				}
				var wanting []*corev1.Pod
				for i, asks := range strings.Fields(tc.asks) {
					p := pods(1, "new", asks, "NVIDIA-H200", "")[0]
					p.Name = fmt.Sprint("new-", i)
					p.UID = types.UID(p.Name)
					wanting = append(wanting, p)
				}
				ends := each(pods(tc.ending, "ended", "1", "NVIDIA-H200", "h200"), deleted)
				ssn := evict(t, &uthelper.TestCommonStruct{
					Nodes: []*corev1.Node{cardNode("h200", "NVIDIA-H200")}, Queues: []*v1beta1.Queue{queue},
					PodGroups: []*v1beta1.PodGroup{ranked("low", group("old", "q", 1, "Running", "1")), ranked("low", group("ended", "q", 1, "Running", "1")), ranked("high", group("new", "q", 1, "Inqueue", "1"))},
					Pods:      aged(concat(pods(2, "old", "1", "NVIDIA-H200", "h200"), wanting, ends)),
				}, preempt.New(), conf.Configuration{Name: "preempt", Arguments: map[string]any{preempt.EnableTopologyAwarePreemptionKey: topologyAware}})
				evicted, promised := outcome(ssn)
				var gone []string
				for _, pod := range evicted {
					if !strings.HasPrefix(pod, "ended-") {
						gone = append(gone, pod)
					}
				}
				if len(promised) == 1 && strings.HasPrefix(promised[0], "new-") && tc.promised != "" {
					promised[0] = tc.promised // which of equal pods is Volcano's choice
				}
				if len(gone) != len(strings.Fields(tc.evicted)) || strings.Join(promised, " ") != tc.promised {
					t.Errorf("evicted %v, promised %v, want %q and %q", gone, promised, tc.evicted, tc.promised)
				}
			})
		}
	}
}

// TestTheTideWaitsForWhatEnds: a queue whose own pods end takes cards from nobody
// for pods that could not be placed.
func TestTheTideWaitsForWhatEnds(t *testing.T) {
	for name, tc := range map[string]struct {
		ending int
		takes  bool
	}{"the whole quota ends": {2, true}, "more ends": {3, false}} {
		t.Run(name, func(t *testing.T) {
			world := &uthelper.TestCommonStruct{
				Nodes: []*corev1.Node{cardNode("h200", "NVIDIA-H200")}, Queues: tide(`{"NVIDIA-H200":2}`, fullTide),
				PodGroups: []*v1beta1.PodGroup{group("t", "tra", 1, "Running", "1"), group("i", "inf", 1, "Running", "1")},
				Pods:      concat(pods(8, "t", "1", "NVIDIA-H200", "h200"), pods(1, "i", "2", "NVIDIA-H200", "")),
			}
			for i := range tc.ending { // on a node each, where too few cards become free
				node := fmt.Sprint("old", i)
				world.Nodes = append(world.Nodes, cardNode(node, "NVIDIA-H200"))
				world.Pods = concat(world.Pods, each(pods(1, "i", "1", "NVIDIA-H200", node), deleted), pods(7, "ghost", "1", "NVIDIA-H200", node))
			}
			aged(world.Pods)
			ssn := evict(t, world, reclaim.New())
			evicted, _ := outcome(ssn)
			taken := 0
			for _, pod := range evicted {
				if strings.HasPrefix(pod, "t-") {
					taken++
				}
			}
			if (taken > 0) != tc.takes {
				t.Errorf("%d pods were taken, want any: %v", taken, tc.takes)
			}
			if taken > 0 {
				return
			}
			rules, ok := TideOf(ssn)
			if !ok {
				t.Fatal("no rules")
			}
			if room := rules.Room("inf", "NVIDIA-H200"); room != 0 {
				t.Errorf("there is room for %d", room)
			}
			if rules.Takes(ssn.Jobs["ns/i"].Tasks["i-0"]) {
				t.Error("its pod takes from others")
			}
		})
	}
}

// TestDeletingAgainAndAgainHoldsNoMoreThanTwice lives through the attack: pods
// ignore that they are told to end, and are deleted and made again for ever.
func TestDeletingAgainAndAgainHoldsNoMoreThanTwice(t *testing.T) {
	process = newMemory()
	var all []*corev1.Pod
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for round := range 8 {
		for _, p := range pods(2, fmt.Sprint("j", round), "1", "NVIDIA-H200", "") {
			p.Annotations["scheduling.k8s.io/group-name"] = "j"
			all = append(all, p)
		}
		var world []*corev1.Pod
		for _, p := range all {
			world = append(world, p.DeepCopy())
		}
		ssn := runAgain(t, &uthelper.TestCommonStruct{
			Nodes:     []*corev1.Node{cardNode("h200", "NVIDIA-H200"), cardNode("more", "NVIDIA-H200")},
			Queues:    []*v1beta1.Queue{quotaQueue("q", `{"NVIDIA-H200":2}`)},
			PodGroups: []*v1beta1.PodGroup{group("j", "q", 1, "Running", "1")}, Pods: world,
		}, nil)
		held := 0
		for _, p := range all {
			if task := ssn.Jobs["ns/j"].Tasks[api.TaskID(p.UID)]; p.Spec.NodeName == "" && task != nil && api.AllocatedStatus(task.Status) {
				p.Spec.NodeName, p.Status.Phase = task.NodeName, corev1.PodRunning
			}
			if p.Spec.NodeName != "" {
				held++
				deleted(p)
				p.DeletionTimestamp = &metav1.Time{Time: now.Add(time.Hour)}
			}
		}
		// Four after the second round; then those of the first two are ending.
		if want := min(2*(round+1), 4); held > 4 || round < 2 && held != want {
			t.Fatalf("%d cards are held in round %d with a quota of 2", held, round)
		}
	}
}
