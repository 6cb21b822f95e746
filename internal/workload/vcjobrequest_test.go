package workload

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"
	batch "volcano.sh/apis/pkg/apis/batch/v1alpha1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/seed"
)

// gpus is a list with so many GPUs.
func gpus(count string) corev1.ResourceList {
	return corev1.ResourceList{gpu: resource.MustParse(count)}
}

// noMinimum is the minimum of a task without one.
const noMinimum = -1

// vcTask is a task of so many pods, each with a limit of cards. minAvailable is its own minimum, noMinimum for none.
func vcTask(replicas, minAvailable int32, named, count string) batch.TaskSpec {
	task := batch.TaskSpec{Replicas: replicas}
	if minAvailable >= 0 {
		task.MinAvailable = &minAvailable
	}
	if named != "" {
		task.Template.Annotations = map[string]string{v1alpha1.AnnotationCardName: named}
	}
	task.Template.Spec.Containers = []corev1.Container{{Resources: corev1.ResourceRequirements{Limits: gpus(count)}}}
	return task
}

// writeJobRequest writes a request, "A|B:2 C:1".
func writeJobRequest(request quota.JobRequest) string {
	var words []string
	for _, d := range request.Cards {
		words = append(words, fmt.Sprintf("%s:%d", card.Join(d.Names, "|"), d.Count))
	}
	return strings.Join(words, " ")
}

// TestVCJobRequestsTheCardsOfItsMinimum: before its pods exist, a Volcano job requests the cards of as many pods as
// it needs to start: minAvailable of the job. Each task adds the pods of its own minimum first, then others. Where
// the job needs fewer than these minimums together, they do not count. The task of highest priority comes first, else
// the first one written. card.request counts where it is more. A task is vcTask(replicas, minimum, card name, cards
// of a pod). Cards A and B are both of nvidia.com/gpu. A card name that is not valid for the request counts as none.
func TestVCJobRequestsTheCardsOfItsMinimum(t *testing.T) {
	const slice = "nvidia.com/mig-1g.10gb"
	resolver := &Resolver{Inventory: card.NewInventory(map[string]card.Node{
		"a": {
			Model: "A",
			Cards: []card.NodeCard{{Name: "A", Resource: gpu, Count: 8}, {Name: "A/mig-1g.10gb-mixed", Resource: slice, Count: 7}},
		},
		"b": {Model: "B", Cards: []card.NodeCard{{Name: "B", Resource: gpu, Count: 8}}},
	})}

	priorities := map[string]int32{"high": 9}
	withClass := func(task batch.TaskSpec, class string) batch.TaskSpec {
		task.Template.Spec.PriorityClassName = class
		return task
	}

	withSpec := func(task batch.TaskSpec, change func(*corev1.PodSpec)) batch.TaskSpec {
		change(&task.Template.Spec)
		return task
	}

	for t, tc := range check.Cases(t, map[string]struct {
		minAvailable int32
		tasks        []batch.TaskSpec
		cardRequest  string
		want         string
	}{
		"2 pods with a limit of 4: 8": {
			minAvailable: 2,
			tasks:        []batch.TaskSpec{vcTask(2, 2, "A", "4")},
			want:         "A:8",
		},
		"2 pods with a request of 3 and a limit of 4: 6": {
			minAvailable: 2,
			tasks: []batch.TaskSpec{withSpec(vcTask(2, 2, "A", "4"),
				func(s *corev1.PodSpec) { s.Containers[0].Resources.Requests = gpus("3") })},
			want: "A:6",
		},
		"the template names no card: A or B": {
			minAvailable: 2,
			tasks:        []batch.TaskSpec{vcTask(2, 2, "", "4")},
			want:         "A|B:8",
		},
		"two tasks with two cards: 1 x 2 A and 2 x 5 B": {
			minAvailable: 3,
			tasks:        []batch.TaskSpec{vcTask(1, 1, "A", "2"), vcTask(2, 2, "B", "5")},
			want:         "A:2 B:10",
		},
		"two tasks with the same card: one sum": {
			minAvailable: 2,
			tasks:        []batch.TaskSpec{vcTask(1, 1, "A", "2"), vcTask(1, 1, "A", "5")},
			want:         "A:7",
		},
		"10 pods, of which the job needs 3": {
			minAvailable: 3,
			tasks:        []batch.TaskSpec{vcTask(10, 0, "A", "1")},
			want:         "A:3",
		},
		"a task of 4 pods without a minimum: all": {
			minAvailable: 4,
			tasks:        []batch.TaskSpec{vcTask(4, noMinimum, "A", "2")},
			want:         "A:8",
		},
		"the job needs 3, the tasks 1 and 2: these": {
			minAvailable: 3,
			tasks:        []batch.TaskSpec{vcTask(5, 1, "A", "1"), vcTask(5, 2, "B", "1")},
			want:         "A:1 B:2",
		},
		"the job needs 5, the tasks 1 and 2: 2 more of the first": {
			minAvailable: 5,
			tasks:        []batch.TaskSpec{vcTask(5, 1, "A", "1"), vcTask(5, 2, "B", "1")},
			want:         "A:3 B:2",
		},
		"the job needs 2, the tasks 1 and 4, which is more: 2 of the first": {
			minAvailable: 2,
			tasks:        []batch.TaskSpec{vcTask(5, 1, "A", "1"), vcTask(5, 4, "B", "1")},
			want:         "A:2",
		},
		"the job needs 2, the tasks 1 and 4, and the second has higher priority: 2 of the second": {
			minAvailable: 2,
			tasks:        []batch.TaskSpec{vcTask(5, 1, "A", "1"), withClass(vcTask(5, 4, "B", "1"), "high")},
			want:         "B:2",
		},
		"the job needs 0": {
			tasks: []batch.TaskSpec{vcTask(5, 0, "A", "1")},
		},
		"card.request says 4, the job needs 2": {
			minAvailable: 2,
			tasks:        []batch.TaskSpec{vcTask(4, 2, "A", "1")},
			cardRequest:  `{"A":4}`,
			want:         "A:4",
		},
		"card.request says 2, the job needs 4": {
			minAvailable: 4,
			tasks:        []batch.TaskSpec{vcTask(4, 4, "A", "1")},
			cardRequest:  `{"A":2}`,
			want:         "A:4",
		},
		"a sidecar of 1 beside an init container of 4: 5": {
			minAvailable: 1,
			tasks: []batch.TaskSpec{withSpec(vcTask(1, 1, "A", "1"), func(s *corev1.PodSpec) {
				s.InitContainers = []corev1.Container{
					{RestartPolicy: ptr.To(corev1.ContainerRestartPolicyAlways), Resources: corev1.ResourceRequirements{Limits: gpus("1")}},
					{Resources: corev1.ResourceRequirements{Limits: gpus("4")}},
				}
			})},
			want: "A:5",
		},
		"the template names a slice and requests whole cards: A or B": {
			minAvailable: 1,
			tasks:        []batch.TaskSpec{vcTask(1, 1, "A/mig-1g.10gb-mixed", "1")},
			want:         "A|B:1",
		},
		"the template's card name is not valid: A or B": {
			minAvailable: 1,
			tasks:        []batch.TaskSpec{vcTask(1, 1, "|", "1")},
			want:         "A|B:1",
		},
		"2^30 pods with 9E cards each, which is not valid: a million and one each of A or B": {
			minAvailable: 1 << 30,
			tasks:        []batch.TaskSpec{vcTask(1<<30, 1<<30, "A", "9E")},
			want:         fmt.Sprintf("A|B:%d", (int64(card.MaxCount)+1)<<30),
		},
	}) {
		job := &batch.Job{Spec: batch.JobSpec{MinAvailable: tc.minAvailable, Tasks: tc.tasks}}
		request, refusal := resolver.VCJobRequest(tc.cardRequest, tc.cardRequest != "", StripVCJob(job),
			func(class string) int32 { return priorities[class] })
		check.That(t, refusal == nil, "refused: %v", refusal)
		check.Equal(t, "request", tc.want, writeJobRequest(request))
	}
}

// TestVCJobMinimumIsVolcanos: Volcano's job controller creates a PodGroup whose minimum it counts pod by pod, by
// the priority of their tasks. First come the pods of the tasks' own minimums, unless the job needs fewer than
// these together. A task without a minimum counts with all its pods in that sum, and yet none of them comes first.
// The test counts in this way. On random jobs, minimumPods has the same number of pods of each task.
func TestVCJobMinimumIsVolcanos(t *testing.T) {
	priorities := map[string]int32{"low": -1, "": 0, "high": 1}

	seed.Check(t, func(t *rapid.T) {
		job := drawVCJob(t)
		order := make([]int, len(job.Spec.Tasks)) // of tasks, the higher priority first
		minimumOfTasks := int32(0)
		for i, task := range job.Spec.Tasks {
			order[i] = i
			least := task.Replicas
			if task.MinAvailable != nil {
				least = *task.MinAvailable
			}
			minimumOfTasks += least
		}

		slices.SortStableFunc(order, func(a, b int) int {
			return int(priorities[job.Spec.Tasks[b].Template.Spec.PriorityClassName] - priorities[job.Spec.Tasks[a].Template.Spec.PriorityClassName])
		})

		var first, rest []int // the task of each pod
		for _, i := range order {
			for n := range job.Spec.Tasks[i].Replicas {
				least := job.Spec.Tasks[i].MinAvailable
				if job.Spec.MinAvailable < minimumOfTasks || (least != nil && n < *least) {
					first = append(first, i)
				} else {
					rest = append(rest, i)
				}
			}
		}

		all := append(first, rest...)
		want := make([]int64, len(job.Spec.Tasks))
		for _, i := range all[:min(len(all), int(job.Spec.MinAvailable))] {
			want[i]++
		}

		got := minimumPods(job, func(class string) int32 { return priorities[class] })
		check.Must(t, slices.Equal(got, want), "of each task %v pods are the minimum of %+v, want %v", got, job.Spec, want)
	})
}

// drawVCJob draws a job with a few tasks.
func drawVCJob(t *rapid.T) *batch.Job {
	job := &batch.Job{}
	total := 0
	for range rapid.IntRange(1, 4).Draw(t, "tasks") {
		task := batch.TaskSpec{Replicas: rapid.Int32Range(0, 5).Draw(t, "replicas")}
		if rapid.Bool().Draw(t, "has a minimum") {
			least := rapid.Int32Range(0, task.Replicas).Draw(t, "minimum")
			task.MinAvailable = &least
		}

		total += int(task.Replicas)
		task.Template.Spec.PriorityClassName = rapid.SampledFrom([]string{"", "low", "high"}).Draw(t, "class")
		job.Spec.Tasks = append(job.Spec.Tasks, task)
	}

	job.Spec.MinAvailable = int32(rapid.IntRange(0, total+1).Draw(t, "least"))
	return job
}

// TestStripVCJobKeepsWhatDecides: the scheduler keeps thousands of jobs, whose templates are large. StripVCJob keeps
// only what decides: its name and version, the minimums, policies and card name, the PriorityClass and
// preemptionPolicy of a pod, and what it requests. The job itself does not change. Its task is vcTask(replicas,
// minimum, card name, cards of a pod).
func TestStripVCJobKeepsWhatDecides(t *testing.T) {
	task := vcTask(2, 1, "A", "4")
	task.Name = "w"
	task.Template.Labels = map[string]string{"app": "w"}
	task.Template.Spec.NodeName = "n"
	task.Template.Spec.PriorityClassName = "high"
	task.Template.Spec.PreemptionPolicy = ptr.To(corev1.PreemptNever)
	task.Template.Spec.Containers[0].Resources.Limits["cpu"] = resource.MustParse("3")
	task.Policies = policies("PodEvicted:RestartTask")
	job := &batch.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "j", UID: "u", ResourceVersion: "7", Labels: map[string]string{"l": "v"}},
		Spec:       batch.JobSpec{MinAvailable: 2, Queue: "q", Policies: policies("*:AbortJob"), Tasks: []batch.TaskSpec{task}},
		Status:     batch.JobStatus{RetryCount: 2},
	}

	before := job.DeepCopy()
	kept := StripVCJob(job)
	check.Equal(t, "the job itself", before, job)
	check.Equal(t, "policy", EvictionPolicyFor(job), EvictionPolicyFor(kept))

	want := batch.TaskSpec{Replicas: 2, MinAvailable: ptr.To(int32(1)), Policies: task.Policies}
	want.Template.Annotations = map[string]string{v1alpha1.AnnotationCardName: "A"}
	want.Template.Spec.PriorityClassName = "high"
	want.Template.Spec.PreemptionPolicy = ptr.To(corev1.PreemptNever)
	requests := corev1.ResourceList{gpu: resource.MustParse("4"), "cpu": resource.MustParse("3")} // of the limits
	want.Template.Spec.Containers = []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: requests}}}
	check.Equal(t, "kept", &batch.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "j", UID: "u", ResourceVersion: "7"},
		Spec:       batch.JobSpec{MinAvailable: 2, Policies: job.Spec.Policies, Tasks: []batch.TaskSpec{want}},
	}, kept)
}
