package capacitycard

import (
	"maps"
	"testing"

	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/cache"
)

// TestABindingSaysWhoPays: with the request that binds a pod goes the queue that
// it is charged to, and the pod that everybody reads stays as it is.
func TestABindingSaysWhoPays(t *testing.T) {
	world := oneJobWorld()
	world.Queues = append(world.Queues, quotaQueue("second", `{"NVIDIA-H200":4}`))
	job := run(t, world, nil).Jobs["ns/j"]
	for what, tc := range map[string]struct {
		change func(*api.TaskInfo)
		want   string
	}{
		"charged":                       {func(*api.TaskInfo) {}, "q"},
		"without annotations":           {func(task *api.TaskInfo) { task.Pod.Annotations = nil }, "q"},
		"its maker wrote another queue": {func(task *api.TaskInfo) { task.Pod.Annotations["cardquota.dev/charged-queue"] = "second" }, "q"},
		"its PodGroup was just moved":   {func(*api.TaskInfo) { job.Queue = "second" }, "q"},
		"not charged":                   {func(task *api.TaskInfo) { task.UID = "of-nobody" }, ""},
	} {
		t.Run(what, func(t *testing.T) {
			task := job.Tasks["j-h2000"].Clone()
			task.Pod = task.Pod.DeepCopy()
			tc.change(task)
			binding, before := &cache.BindContext{TaskInfo: task}, maps.Clone(task.Pod.Annotations)
			opened.SetupBindContextExtension(nil, binding)
			if !maps.Equal(task.Pod.Annotations, before) {
				t.Errorf("the informer's pod bears %v now", task.Pod.Annotations)
			}
			bound := binding.TaskInfo
			if got := bound.Pod.Annotations["cardquota.dev/charged-queue"]; got != tc.want {
				t.Errorf("bound with queue %q, want %q", got, tc.want)
			}
			if bound.UID != task.UID || bound.NodeName != task.NodeName || bound.Pod.UID != task.Pod.UID || bound.Job != task.Job {
				t.Errorf("another task is bound: %v", bound)
			}
		})
	}
}

// TestAnEvictionGivesBackToWhoPays: a pod that another queue pays for makes no
// room in the queue that its PodGroup is in now.
func TestAnEvictionGivesBackToWhoPays(t *testing.T) {
	task := run(t, oneJobWorld(), nil).Jobs["ns/j"].Tasks["j-h2000"]
	if give := opened.given(task, "q", "NVIDIA-H200"); give[quotaCards] != 1 {
		t.Errorf("its queue gets back %v, want a card", give)
	}
	if give := opened.given(task, "second", "NVIDIA-H200"); give[quotaCards] != 0 || give[quotaCPU] != 0 || give[quotaMemory] != 0 {
		t.Errorf("another queue gets back %v", give)
	}
}
