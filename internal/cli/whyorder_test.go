package cli

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"pgregory.net/rapid"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/cli/explanation"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/seed"
	"cardquota.dev/operator/internal/workload"
)

// queued is a job of queue roomy that waits, with one pod or with none. Its PodGroup is some minutes old.
type queued struct {
	name, class string
	minutes     int
	noPods      bool
}

func (q queued) objects() []client.Object {
	group := builder.PodGroup("lab", q.name).Queue("roomy").Owner("batch.volcano.sh/v1alpha1", "Job", q.name).Phase(v1beta1.PodGroupInqueue).Request(`{"NVIDIA-H200":2}`).Obj()
	group.CreationTimestamp, group.Spec.PriorityClassName = timeAgo(time.Duration(q.minutes)*time.Minute), q.class
	if q.noPods {
		return []client.Object{group}
	}
	pod := builder.Pod("lab", q.name+"-0").PodGroup(q.name).Card("NVIDIA-H200").GPUs(2).Owner("batch.volcano.sh/v1alpha1", "Job", q.name).
		Unschedulable("0/1 nodes are unavailable: 1 Insufficient nvidia.com/gpu.").Obj()
	return []client.Object{group, pod}
}

// TestWhyKnowsTheOrder: Volcano orders the PodGroups of a queue by their PriorityClass, then by age.
func TestWhyKnowsTheOrder(t *testing.T) {
	objects := busyCluster()[:4]
	objects = append(objects, counted("roomy", "llm", "training", v1alpha1.CardStatus{Name: "NVIDIA-H200", Quota: 8, Free: 8, Physical: 8}).Obj(), builder.PriorityClass("high", 1000), builder.PriorityClass("low", -5))
	for _, q := range []queued{
		{name: "own", minutes: 5}, {name: "higher", class: "high", minutes: 1}, {name: "older", minutes: 9}, {name: "lower", class: "low", minutes: 9}, {name: "younger", minutes: 2},
		{name: "podless", minutes: 8, noPods: true}, {name: "higher-podless", class: "high", minutes: 3, noPods: true}, {name: "unknown-class", class: "gone", minutes: 7},
	} {
		objects = append(objects, q.objects()...)
	}
	runs := queued{name: "runs", class: "high", minutes: 9}.objects()
	runs[1].(*corev1.Pod).Spec.NodeName = "h200-0"
	elsewhere := queued{name: "elsewhere", class: "high", minutes: 9}.objects()
	elsewhere[0].(*v1beta1.PodGroup).Spec.Queue = "free"
	foreign := queued{name: "foreign", class: "high", minutes: 9}.objects()
	foreign[1].(*corev1.Pod).Spec.SchedulerName = "default-scheduler"
	ended := queued{name: "ended", class: "high", minutes: 9, noPods: true}.objects()
	ended[0].(*v1beta1.PodGroup).Status.Phase = v1beta1.PodGroupCompleted
	objects = slices.Concat(objects, runs, elsewhere, foreign, ended)
	order := func(intercept interceptor.Funcs, name string) string {
		out := strings.Join(strings.Fields(execute(t, objects, intercept, "why", "-n", "lab", "vcjob/"+name).out), " ")
		_, gate, _ := strings.Cut(out, "order in the queue Yes ")
		return gate
	}
	for name, want := range map[string]string{
		"own":            "priority 0, 2 workloads of higher priority and 3 older come first",
		"higher-podless": "priority 1000 (high), nothing in the queue comes first",
		"older":          "priority 0, 2 workloads of higher priority come first",
	} {
		check.That(t, strings.HasPrefix(order(interceptor.Funcs{}, name)+" ", want), "%s: %s", name, order(interceptor.Funcs{}, name))
	}
	refused := forbid(schema.GroupResource{Group: schedulingv1.GroupName, Resource: "priorityclasses"}, &schedulingv1.PriorityClassList{})
	check.Contains(t, "without the right", order(refused, "own"), "priority 0, nothing in the queue waits longer", "may not list priorityclasses.scheduling.k8s.io")
}

// TestAheadIsThePlaceInTheOrder: what comes first is what stands before a job in the sorted queue.
func TestAheadIsThePlaceInTheOrder(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		classes := priorities{values: map[string]int32{"high": rapid.Int32Range(-2, 2).Draw(t, "high"), "low": rapid.Int32Range(-2, 2).Draw(t, "low")}, standard: rapid.Int32Range(-1, 1).Draw(t, "standard")}
		w := &whyReader{reader: &reader{}, resolver: workload.Resolver{}}
		w.input.Queue = "roomy"
		type place struct{ priority, age int }
		places := map[string]place{}
		for i := range rapid.IntRange(1, 6).Draw(t, "jobs") {
			q := queued{name: fmt.Sprint("job-", i), class: rapid.SampledFrom([]string{"", "high", "low", "gone"}).Draw(t, "class"), minutes: rapid.IntRange(0, 3).Draw(t, "age"), noPods: rapid.Bool().Draw(t, "no pods")}
			for _, object := range q.objects() {
				switch object := object.(type) {
				case *v1beta1.PodGroup:
					w.world.podGroups = append(w.world.podGroups, object)
				case *corev1.Pod:
					w.world.pods = append(w.world.pods, object)
				}
			}
			priority, known := classes.values[q.class]
			if !known {
				priority = classes.standard
			}
			places[q.name] = place{int(priority), q.minutes}
		}
		turns := w.waitingTurns(classes)
		check.Equal(t, "jobs", len(places), len(turns))
		for reference := range turns {
			w.input.Workload = reference
			w.setAhead(turns)
			want := explanation.Ahead{}
			for _, other := range places {
				own := places[reference.Name]
				if other.priority > own.priority {
					want.Higher++
				} else if other.priority == own.priority && other.age > own.age {
					want.Older++
				}
			}
			check.Equal(t, reference.Name, want, *w.input.Ahead)
		}
	})
}

// TestTheStandardPriority: a PodGroup without a class has that of the default class.
func TestTheStandardPriority(t *testing.T) {
	standard := builder.PriorityClass("standard", 7)
	standard.GlobalDefault = true
	classes, ok, err := readPriorities(t.Context(), &reader{client: newCluster(t, []client.Object{standard, builder.PriorityClass("high", 1000)}, interceptor.Funcs{})})
	check.That(t, ok && err == nil, "error %v", err)
	for class, want := range map[string]int32{"": 7, "gone": 7, "high": 1000, "standard": 7} {
		group := &v1beta1.PodGroup{Spec: v1beta1.PodGroupSpec{PriorityClassName: class}, ObjectMeta: metav1.ObjectMeta{CreationTimestamp: timeAgo(0)}}
		got := classes.turnOf(group)
		check.That(t, got == turn{want, timeAgo(0)}, "class %q: %+v", class, got)
	}
}
