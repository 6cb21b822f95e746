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
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/cli/explanation"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/seed"
	"cardquota.dev/operator/internal/testing/session"
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
	group.CreationTimestamp = timeAgo(time.Duration(q.minutes) * time.Minute)
	group.Spec.PriorityClassName = q.class
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
		"own":            "priority 0, 2 workloads of higher priority and 3 older than it come first",
		"higher-podless": "priority 1000 (high), nothing in the queue comes first",
		"older":          "priority 0, 2 workloads of higher priority come first",
	} {
		check.That(t, strings.HasPrefix(order(interceptor.Funcs{}, name)+" ", want), "%s: %s", name, order(interceptor.Funcs{}, name))
	}

	refused := forbid(schema.GroupResource{Group: schedulingv1.GroupName, Resource: "priorityclasses"}, &schedulingv1.PriorityClassList{})
	check.Contains(t, "without the right", order(refused, "own"), "priority 0, nothing in the queue waits longer", "may not list priorityclasses.scheduling.k8s.io")
}

// TestAheadIsThePlaceInTheOrder: what comes first is what a session of Volcano tries first.
func TestAheadIsThePlaceInTheOrder(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		standard := rapid.Int32Range(-1, 1).Draw(t, "standard")
		classes := priorities{values: map[string]int32{"standard": standard}, standard: standard}
		jobs := rapid.IntRange(1, 6).Draw(t, "jobs")
		ages := rapid.Permutation([]int{0, 1, 2, 3, 4, 5}).Draw(t, "ages") // Volcano orders jobs of one age by their uid

		text := "node n model=A cards=100; queue q"
		for i := range jobs {
			pods := rapid.IntRange(0, 4).Draw(t, "pods")
			running := 0
			text += fmt.Sprintf("; job job-%d queue=q min=%d owner=vcjob", i, rapid.IntRange(1, 4).Draw(t, "minimum"))
			if pods > 0 {
				running = rapid.IntRange(0, pods-1).Draw(t, "running")
				text += fmt.Sprintf(" running=n*%d pending=%d", running, pods-running)
			}

			if class := rapid.SampledFrom([]string{"", "urgent", "lazy", "gone"}).Draw(t, "class"); class != "" {
				text += " priorityClass=" + class
			}
		}

		c := session.New(text)
		for i, group := range c.Groups {
			group.CreationTimestamp = metav1.NewTime(c.Now.Add(-time.Duration(ages[i]) * time.Minute))
			group.OwnerReferences = []metav1.OwnerReference{{APIVersion: "batch.volcano.sh/v1alpha1", Kind: "Job", Name: group.Name, Controller: ptr.To(true)}}
		}

		c.Begin()
		ofAll := builder.PriorityClass("standard", standard)
		ofAll.GlobalDefault = true
		c.Cache.AddPriorityClass(ofAll)
		for _, name := range []string{"urgent", "lazy"} {
			classes.values[name] = rapid.Int32Range(-2, 2).Draw(t, name)
			c.Cache.AddPriorityClass(builder.PriorityClass(name, classes.values[name]))
		}

		ssn := c.Open([][]string{{"priority", "gang"}}, nil)
		defer c.Close()

		w := &whyReader{reader: &reader{}, resolver: workload.Resolver{}, loaded: workloads{pods: c.Pods, podGroups: c.Groups}}
		w.input.Queue = "q"

		turns := w.waitingTurns(classes)
		check.Equal(t, "jobs that wait", jobs, len(turns))
		for reference := range turns {
			w.input.Workload = reference
			w.setAhead(turns)
			want := 0
			for other := range turns {
				if other != reference && ssn.JobOrderFn(c.Job(other.Name), c.Job(reference.Name)) {
					want++
				}
			}
			check.Must(t, w.input.Ahead.Higher+w.input.Ahead.Incomplete+w.input.Ahead.Older == want, "Volcano tries %d before %s of %s, not %+v", want, reference.Name, text, *w.input.Ahead)
		}
	})
}

// TestWhyComesFirst: a job whose minimum runs is the last of its priority.
func TestWhyComesFirst(t *testing.T) {
	w := &whyReader{reader: &reader{}, resolver: workload.Resolver{}}
	w.input.Queue = "q"
	at := func(priority int32, isReady bool, minutes int) turn {
		return turn{priority, isReady, timeAgo(time.Duration(minutes) * time.Minute)}
	}

	for name, tc := range map[string]struct {
		own, other turn
		want       explanation.Ahead
	}{
		"older":                         {at(0, false, 1), at(0, false, 2), explanation.Ahead{Older: 1}},
		"younger":                       {at(0, false, 2), at(0, false, 1), explanation.Ahead{}},
		"of one age":                    {at(0, false, 1), at(0, false, 1), explanation.Ahead{}},
		"higher":                        {at(0, false, 2), at(1, false, 1), explanation.Ahead{Higher: 1}},
		"lower":                         {at(1, false, 1), at(0, false, 2), explanation.Ahead{}},
		"its own minimum runs":          {at(0, true, 2), at(0, false, 1), explanation.Ahead{Incomplete: 1}},
		"the other's minimum runs":      {at(0, false, 1), at(0, true, 2), explanation.Ahead{}},
		"both minimums run":             {at(0, true, 1), at(0, true, 2), explanation.Ahead{Older: 1}},
		"higher, and its minimum runs":  {at(0, false, 1), at(1, true, 2), explanation.Ahead{Higher: 1}},
		"lower, and its own one runs":   {at(1, true, 1), at(0, false, 2), explanation.Ahead{}},
		"higher, and its own one runs":  {at(0, true, 1), at(1, false, 2), explanation.Ahead{Higher: 1}},
		"lower, and its minimum starts": {at(1, false, 1), at(0, true, 2), explanation.Ahead{}},
	} {
		own := v1alpha1.WorkloadReference{Name: "own"}
		other := v1alpha1.WorkloadReference{Name: "other"}
		w.input.Workload = own
		w.setAhead(map[v1alpha1.WorkloadReference]turn{own: tc.own, other: tc.other})
		check.Equal(t, name, tc.want, *w.input.Ahead)
	}
}

// TestWhichPodsAreReady: Volcano counts them for the minimum of a PodGroup.
func TestWhichPodsAreReady(t *testing.T) {
	pod := func() *builder.PodBuilder { return builder.Pod("lab", "p").CPU("1") }

	for name, tc := range map[string]struct {
		pod  *builder.PodBuilder
		want bool
	}{
		"waiting":          {pod(), false},
		"waits for a node": {builder.Pod("lab", "p"), true}, // it requests nothing
		"placed":           {pod().Node("n"), true},
		"running":          {pod().Running("n"), true},
		"succeeded":        {pod().Running("n").Phase(corev1.PodSucceeded), true},
		"failed":           {pod().Running("n").Phase(corev1.PodFailed), false},
		"terminating":      {pod().Running("n").Deleted(at), false},
		"gated":            {pod().Gated(), false},
	} {
		check.Equal(t, name, tc.want, isReady(tc.pod.Obj()))
	}
}

// TestTheStandardPriority: a PodGroup without a class has that of the default class.
func TestTheStandardPriority(t *testing.T) {
	standard := builder.PriorityClass("standard", 7)
	standard.GlobalDefault = true

	classes, ok, err := readPriorities(t.Context(), &reader{client: newCluster(t, []client.Object{standard, builder.PriorityClass("high", 1000)}, interceptor.Funcs{})})
	check.That(t, ok && err == nil, "error %v", err)
	for class, want := range map[string]int32{"": 7, "gone": 7, "high": 1000, "standard": 7} {
		group := &v1beta1.PodGroup{Spec: v1beta1.PodGroupSpec{PriorityClassName: class}, ObjectMeta: metav1.ObjectMeta{CreationTimestamp: timeAgo(0)}}
		group.Spec.MinMember = 2
		for ready, isReady := range map[int32]bool{1: false, 2: true} {
			got := classes.turnOf(group, ready)
			check.That(t, got == turn{want, isReady, timeAgo(0)}, "class %q: %+v", class, got)
		}
	}
}
