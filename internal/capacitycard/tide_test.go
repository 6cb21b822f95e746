package capacitycard

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/framework"
	"volcano.sh/volcano/pkg/scheduler/uthelper"

	"cardquota.dev/operator/internal/card"
)

// tidal is a session with a training job of four cards that runs, and one pod of
// inference that waits for more than are left.
func tidal(t *testing.T, queues []*v1beta1.Queue, args framework.Arguments, others ...*corev1.Pod) *framework.Session {
	return run(t, &uthelper.TestCommonStruct{
		Nodes: []*corev1.Node{cardNode("h200", "NVIDIA-H200"), cardNode("h800", "NVIDIA-H800")}, Queues: queues,
		PodGroups: []*v1beta1.PodGroup{group("t", "tra", 1, "Running", "1"), group("i", "inf", 1, "Inqueue", "1"), group("other", "tra", 1, "Running", "1")},
		Pods:      concat(pods(4, "t", "1", "NVIDIA-H200", "h200"), pods(1, "i", "5", "NVIDIA-H200", ""), others),
	}, args)
}

const fullTide = `{"NVIDIA-H200":8}`

func TestTideOfTheOpenSessionOnly(t *testing.T) {
	var old *framework.Session
	t.Run("open", func(t *testing.T) {
		ssn := tidal(t, tide(fullTide, fullTide), nil)
		if _, ok := TideOf(ssn); !ok {
			t.Error("the open session has no rules")
		}
		if _, ok := TideOf(&framework.Session{}); ok {
			t.Error("another session has rules")
		}
		opened.notReady = "not everything was seen yet"
		if _, ok := TideOf(ssn); ok {
			t.Error("there are rules before everything was seen")
		}
		opened.notReady, old = "", ssn
	})
	if _, ok := TideOf(old); ok {
		t.Error("a closed session has rules")
	}
	t.Run("bad arguments", func(t *testing.T) {
		if _, ok := TideOf(tidal(t, tide(fullTide, fullTide), framework.Arguments{"overCommitFactor": 0.5})); ok {
			t.Error("there are rules although the arguments are refused")
		}
	})
}

func TestTakes(t *testing.T) {
	tests := map[string]struct {
		queues []*v1beta1.Queue
		change func(*corev1.Pod)
		want   bool
	}{
		"inference with room":      {tide(fullTide, fullTide), nil, true},
		"the quota is just enough": {tide(`{"NVIDIA-H200":5}`, fullTide), nil, true},
		"the quota is too small":   {tide(`{"NVIDIA-H200":4}`, fullTide), nil, false},
		"training":                 {changed(tide(fullTide, fullTide), func(i, _ *v1beta1.Queue) { i.Annotations["volcano.sh/service.type"] = "training" }), nil, false},
		"a closed queue":           {changed(tide(fullTide, fullTide), func(i, _ *v1beta1.Queue) { i.Status.State = v1beta1.QueueStateClosed }), nil, false},
		"no cards":                 {tide(fullTide, fullTide), func(p *corev1.Pod) { delete(p.Spec.Containers[0].Resources.Requests, gpu) }, false},
		"a name that is none":      {tide(fullTide, fullTide), func(p *corev1.Pod) { p.Annotations["volcano.sh/card.name"] = "NVIDIA H200" }, false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			ssn := tidal(t, tc.queues, nil)
			task := ssn.Jobs["ns/i"].Tasks["i-0"]
			if tc.change != nil {
				pod := task.Pod.DeepCopy()
				tc.change(pod)
				task = task.Clone()
				task.Pod = pod
			}
			rules, _ := TideOf(ssn)
			if got := rules.Takes(task); got != tc.want {
				t.Errorf("takes %v, want %v", got, tc.want)
			}
		})
	}
	t.Run("a job that is not in the session", func(t *testing.T) {
		ssn := tidal(t, tide(fullTide, fullTide), nil)
		stray := ssn.Jobs["ns/i"].Tasks["i-0"].Clone()
		stray.Job = "ns/none"
		if rules, _ := TideOf(ssn); rules.Takes(stray) || rules.GivesWay(stray, ssn.Jobs["ns/t"].Tasks["t-h2000"]) || rules.TypeOf(stray) != "" {
			t.Error("a pod of no job takes cards")
		}
	})
}

func TestRoomAndCards(t *testing.T) {
	for quota, want := range map[string]card.Count{fullTide: 4, `{"NVIDIA-H200":5}`: 1, `{"NVIDIA-H200":3}`: 0, `{"NVIDIA-H800":9}`: 0, `nonsense`: 0} {
		rules, _ := TideOf(tidal(t, tide(fullTide, quota), nil))
		if got := rules.Room("tra", "NVIDIA-H200"); got != want {
			t.Errorf("quota %s of which 4 are used: room for %d, want %d", quota, got, want)
		}
	}
}

// TestWhatATideSaysOfPods asks about a pod that waits, one that runs, and one
// that asks for no card.
func TestWhatATideSaysOfPods(t *testing.T) {
	free := changed(tide(fullTide, fullTide), func(_, tra *v1beta1.Queue) { delete(tra.Annotations, "volcano.sh/card.quota") })
	ssn := tidal(t, free, framework.Arguments{"unmanagedQueues": "Ignore"}, pods(1, "other", "0", "", "h200")...)
	rules, _ := TideOf(ssn)
	if got := rules.Room("tra", "NVIDIA-H200"); got != card.MaxCount {
		t.Errorf("a queue that is not limited has room for %d", got)
	}
	waits, runs, without := ssn.Jobs["ns/i"].Tasks["i-0"], ssn.Jobs["ns/t"].Tasks["t-h2000"], ssn.Jobs["ns/other"].Tasks["other-h2000"]
	for node, want := range map[string]card.Name{"h200": "NVIDIA-H200", "h800": "", "none": ""} {
		if got, ok := rules.CardOn(waits, node); ok != (want != "") || ok && got != want {
			t.Errorf("on node %s the pod uses %q (%v), want %q", node, got, ok, want)
		}
	}
	if got, ok := rules.CardOn(without, "h800"); got != "" || !ok {
		t.Errorf("a pod without cards uses %q on h800 (%v), want none", got, ok)
	}
	if held := [3]card.Count{rules.Cards(waits), rules.Cards(runs), rules.Cards(without)}; held != [3]card.Count{0, 1, 0} {
		t.Errorf("the pod that waits, the one that runs and the one without hold %v cards", held)
	}
	if with, without := rules.Resource(waits), rules.Resource(without); with != gpu || without != "" {
		t.Errorf("the pods ask for %q and %q", with, without)
	}
	if ask := rules.Ask(waits); ask.Count != 5 || len(ask.Names) != 1 || ask.MilliCPU != 1000 {
		t.Errorf("the pod asks for %+v", ask)
	}
}

func TestFitsCPUMemory(t *testing.T) {
	rules, _ := TideOf(tidal(t, tide(fullTide, fullTide), nil)) // 100 cores and 1 Ti, of which four pods use one core and 1 Gi each
	const gi = 1 << 30
	for name, tc := range map[string]struct {
		milli, memory int64
		want          bool
	}{
		"nothing": {0, 0, true}, "all that is left": {96_000, 1020 * gi, true}, "too much CPU": {96_001, 0, false}, "too much memory": {0, 1020*gi + 1, false},
	} {
		if got := rules.FitsCPUMemory("tra", tc.milli, tc.memory); got != tc.want {
			t.Errorf("%s: fits %v, want %v", name, got, tc.want)
		}
	}
}

func TestGivesWay(t *testing.T) {
	set := func(change func(inference, training *v1beta1.Queue)) []*v1beta1.Queue {
		return changed(tide(fullTide, fullTide), change)
	}
	tests := map[string]struct {
		queues []*v1beta1.Queue
		want   bool
	}{
		"training to inference":  {tide(fullTide, fullTide), true},
		"a queue that gives not": {set(func(_, tra *v1beta1.Queue) { *tra.Spec.Reclaimable = false }), false},
		"an equal priority":      {set(func(inf, tra *v1beta1.Queue) { tra.Spec.Priority = inf.Spec.Priority }), false},
		"a higher priority":      {set(func(inf, tra *v1beta1.Queue) { tra.Spec.Priority = inf.Spec.Priority + 1 }), false},
		"inference to inference": {set(func(_, tra *v1beta1.Queue) { tra.Annotations["volcano.sh/service.type"] = "inference" }), false},
		"an unknown type":        {set(func(_, tra *v1beta1.Queue) { tra.Annotations["volcano.sh/service.type"] = "batch" }), false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			ssn := tidal(t, tc.queues, nil)
			rules, _ := TideOf(ssn)
			waits, runs := ssn.Jobs["ns/i"].Tasks["i-0"], ssn.Jobs["ns/t"].Tasks["t-h2000"]
			if got := rules.GivesWay(waits, runs); got != tc.want {
				t.Errorf("gives way %v, want %v", got, tc.want)
			}
			if rules.GivesWay(runs, waits) || rules.GivesWay(runs, runs) {
				t.Error("training takes from somebody")
			}
		})
	}
	t.Run("protected pods", func(t *testing.T) {
		ssn := tidal(t, tide(fullTide, fullTide), nil, each(pods(1, "other", "1", "NVIDIA-H200", "h200"), preemptable("false"))...)
		rules, _ := TideOf(ssn)
		if rules.GivesWay(ssn.Jobs["ns/i"].Tasks["i-0"], ssn.Jobs["ns/other"].Tasks["other-h2000"]) {
			t.Error("a protected pod gives way")
		}
	})
}

func TestMinimumRuntimeOfAPod(t *testing.T) {
	args := framework.Arguments{"serviceTypes": map[string]any{
		"inference": map[string]any{"reclaimFrom": []any{"training"}}, "training": map[string]any{"reclaimable": true, "minimumRuntime": "90s"},
	}}
	ssn := tidal(t, tide(fullTide, fullTide), args)
	rules, _ := TideOf(ssn)
	if got := rules.MinimumRuntime(ssn.Jobs["ns/t"].Tasks["t-h2000"]); got != 90*time.Second {
		t.Errorf("training runs for %s at least, want 90s", got)
	}
	if got := rules.MinimumRuntime(ssn.Jobs["ns/i"].Tasks["i-0"]); got != 0 {
		t.Errorf("inference runs for %s at least, want 0", got)
	}
	if since := RunningSince(ssn.Jobs["ns/i"]); since.Before(time.Now().AddDate(1, 0, 0)) {
		t.Errorf("a job of which nothing runs has run since %s", since)
	}
	if got := ssn.Jobs["ns/t"].TaskStatusIndex[api.Running]; len(got) != 4 {
		t.Errorf("%d pods of training run, want 4", len(got))
	}
}
