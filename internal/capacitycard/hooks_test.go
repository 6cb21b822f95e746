package capacitycard

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/framework"
	"volcano.sh/volcano/pkg/scheduler/uthelper"
)

// TestEveryHookHoldsByItself asks hooks directly what Volcano's actions already
// keep from them: each has to be right when it is the only one that is asked.
func TestEveryHookHoldsByItself(t *testing.T) {
	const full = `{"NVIDIA-H200":8}`
	open := func(t *testing.T, queues []*v1beta1.Queue, count string) (*framework.Session, *api.TaskInfo, []*api.TaskInfo) {
		ssn := run(t, &uthelper.TestCommonStruct{
			Nodes: []*corev1.Node{cardNode("h200", "NVIDIA-H200")}, Queues: queues,
			PodGroups: []*v1beta1.PodGroup{group("t", "tra", 1, "Running", "1"), group("i", "inf", 1, "Pending", "1")},
			Pods:      concat(pods(8, "t", "1", "NVIDIA-H200", "h200"), pods(1, "i", count, "NVIDIA-H200", "")),
		}, nil)
		var victims []*api.TaskInfo
		for _, task := range ssn.Jobs["ns/t"].Tasks {
			victims = append(victims, task)
		}
		return ssn, ssn.Jobs["ns/i"].Tasks["i-0"], victims
	}
	t.Run("reclaimable asks the queue whether it gives", func(t *testing.T) {
		queues := changed(tide(full, full), func(_, training *v1beta1.Queue) { *training.Spec.Reclaimable = false })
		_, reclaimer, victims := open(t, queues, "1")
		if got, _ := opened.reclaimable(reclaimer, victims); len(got) != 0 {
			t.Errorf("%d pods would be evicted", len(got))
		}
	})
	t.Run("reclaimable gives as much as is needed", func(t *testing.T) {
		_, reclaimer, victims := open(t, tide(full, full), "3")
		if got, _ := opened.reclaimable(reclaimer, victims); len(got) != 3 {
			t.Errorf("%d pods would be evicted, want 3", len(got))
		}
	})
	t.Run("reclaimable asks the quota of the taker", func(t *testing.T) {
		_, reclaimer, victims := open(t, tide(`{"NVIDIA-H200":1}`, full), "2")
		if got, _ := opened.reclaimable(reclaimer, victims); len(got) != 0 {
			t.Errorf("%d pods would be evicted", len(got))
		}
	})
	t.Run("preemptive asks the quota of the taker", func(t *testing.T) {
		for quota, want := range map[string]bool{`{"NVIDIA-H200":1}`: false, `{"NVIDIA-H200":2}`: true} {
			ssn, reclaimer, _ := open(t, tide(quota, full), "2")
			if got := opened.preemptive(ssn.Queues["inf"], reclaimer); got != want {
				t.Errorf("quota %s: preemptive %v, want %v", quota, got, want)
			}
		}
	})
	t.Run("preemptive does not know candidates of another type", func(t *testing.T) {
		ssn, reclaimer, _ := open(t, tide(full, full), "1")
		if opened.preemptive(ssn.Queues["inf"], []*api.TaskInfo{reclaimer}) || opened.preemptive(nil, reclaimer) {
			t.Error("permitted without knowing what")
		}
	})
}

// TestAPlacementBeyondTheQuotaIsUndone: whatever way a placement takes, the
// session does not keep it.
func TestAPlacementBeyondTheQuotaIsUndone(t *testing.T) {
	ssn := run(t, &uthelper.TestCommonStruct{
		Nodes:     []*corev1.Node{cardNode("h200", "NVIDIA-H200"), cardNode("h800", "NVIDIA-H800")},
		Queues:    []*v1beta1.Queue{quotaQueue("q", `{"NVIDIA-H200":2}`)},
		PodGroups: []*v1beta1.PodGroup{group("j", "q", 3, "Pending", "3")}, // never admitted
		Pods:      pods(3, "j", "1", "NVIDIA-H200", ""),
	}, nil)
	place := func(pod, node string, status api.TaskStatus) error {
		task := ssn.Jobs["ns/j"].Tasks[api.TaskID(pod)].Clone()
		task.NodeName, task.Status = node, status
		event := &framework.Event{Task: task}
		opened.allocated(event)
		if event.Err != nil {
			opened.deallocated(event) // as Volcano does
		}
		return event.Err
	}
	if err := place("j-0", "h800", api.Allocated); err == nil || !strings.Contains(err.Error(), "card of node h800") {
		t.Errorf("a pod on a card it does not name: %v", err)
	}
	for _, pod := range []string{"j-1", "j-2", "j-1"} { // the last event is repeated
		if err := place(pod, "h200", api.Pipelined); err != nil {
			t.Errorf("pod %s within the quota: %v", pod, err)
		}
	}
	if err := place("j-0", "h200", api.Allocated); err == nil || !strings.Contains(err.Error(), "requested <1>, total would be <3>, but capability is <2>") {
		t.Errorf("the third pod of a quota of 2: %v", err)
	}
	if err := place("j-0", "h200", api.Running); err != nil {
		t.Errorf("a pod whose eviction failed was placed before: %v", err)
	}
}
