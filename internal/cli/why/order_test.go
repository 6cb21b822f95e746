package why

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/cli/reader"
	"cardquota.dev/operator/internal/cli/why/explanation"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/kubectl"
	"cardquota.dev/operator/internal/testing/seed"
	"cardquota.dev/operator/internal/testing/session"
	"cardquota.dev/operator/internal/workload"
)

// waitingJob is a Volcano job of queue roomy that waits, with one pod or with none. Its PodGroup is some minutes old.
type waitingJob struct {
	name, class string // of the PriorityClass
	minutes     int
	noPods      bool
	succeeded   int32 // pods
}

func (q waitingJob) objects() []client.Object {
	group := builder.PodGroup("lab", q.name).Queue("roomy").Owner("batch.volcano.sh/v1alpha1", "Job", q.name).
		Phase(v1beta1.PodGroupInqueue).Request(`{"NVIDIA-H200":2}`).Created(kubectl.At.Add(-time.Duration(q.minutes) * time.Minute)).Obj()
	group.Spec.PriorityClassName = q.class
	group.Status.Succeeded = q.succeeded
	if q.noPods {
		return []client.Object{group}
	}
	pod := builder.Pod("lab", q.name+"-0").PodGroup(q.name).Card("NVIDIA-H200").GPUs(2).Owner("batch.volcano.sh/v1alpha1", "Job", q.name).
		Unschedulable(kubectl.SaysFull).Obj()
	return []client.Object{group, pod}
}

// TestWhyKnowsTheOrderOfTheQueue: Volcano tries the PodGroups of a queue by their PriorityClass, then by age.
// Job own has priority 0 and is 5 minutes old. Before it come 2 jobs of class high and 3 older ones. Of these
// one has no pods, and one has a class that does not exist, which counts as 0. Jobs of class high that run,
// have ended, or are of another queue or scheduler are not in the order. A fourth older job comes later: a
// pod of it has succeeded, which is its minimum. A user who may not list PriorityClasses knows only
// status.blocked, which is empty here, so no other job is known to wait longer.
func TestWhyKnowsTheOrderOfTheQueue(t *testing.T) {
	roomy := kubectl.CountedQuota("roomy", "llm", "training", v1alpha1.CardStatus{Name: "NVIDIA-H200", Quota: 8, Free: 8, Physical: 8}).Obj()
	objects := append(kubectl.ClusterWithOneFreeCard()[:4], roomy, // policy, inventory, namespace and node
		builder.PriorityClass("high", 1000), builder.PriorityClass("low", -5))
	for _, job := range []waitingJob{
		{name: "own", minutes: 5},
		{name: "higher", class: "high", minutes: 1},
		{name: "higher-podless", class: "high", minutes: 3, noPods: true},
		{name: "older", minutes: 9},
		{name: "half-done", minutes: 9, succeeded: 1},
		{name: "podless", minutes: 8, noPods: true},
		{name: "unknown-class", class: "gone", minutes: 7},
		{name: "lower", class: "low", minutes: 9},
		{name: "younger", minutes: 2},
	} {
		objects = append(objects, job.objects()...)
	}

	runs := waitingJob{name: "runs", class: "high", minutes: 9}.objects()
	runs[1].(*corev1.Pod).Spec.NodeName = "h200-0"
	ofOtherQueue := waitingJob{name: "of-other-queue", class: "high", minutes: 9}.objects()
	ofOtherQueue[0].(*v1beta1.PodGroup).Spec.Queue = "free"
	ofOtherScheduler := waitingJob{name: "of-other-scheduler", class: "high", minutes: 9}.objects()
	ofOtherScheduler[1].(*corev1.Pod).Spec.SchedulerName = "default-scheduler"
	ended := waitingJob{name: "ended", class: "high", minutes: 9, noPods: true}.objects()
	ended[0].(*v1beta1.PodGroup).Status.Phase = v1beta1.PodGroupCompleted
	objects = slices.Concat(objects, runs, ofOtherQueue, ofOtherScheduler, ended)

	const gate = "order in the queue Yes " // a line of the explanation: what a pod must pass, and whether it does
	for job, want := range map[string]string{
		"own":            gate + "priority 0, 2 workloads of higher priority and 3 older than it come first ",
		"higher-podless": gate + "priority 1000 (high), nothing in the queue comes first",
		"older":          gate + "priority 0, 2 workloads of higher priority come first ",
	} {
		execute(t, objects, kubectl.MayReadAll, "why -n lab vcjob/"+job).Prints(want)
	}

	execute(t, objects, kubectl.Forbid(schedulingv1.Resource("priorityclasses"), &schedulingv1.PriorityClassList{}), "why -n lab vcjob/own").
		Prints(gate+"priority 0, nothing in the queue waits longer", "may not list priorityclasses.scheduling.k8s.io")
}

// TestAheadIsThePlaceInTheOrderOfVolcano: up to six jobs of a queue wait, with random PriorityClasses, minimums and
// running pods, each of another age. For each job why counts what comes first. The oracle opens a session of Volcano
// with its plugins priority and gang, and counts the jobs that its JobOrderFn places before. The cluster is written as
// a text: "min=2 running=n*3 pending=1" is a gang that needs 2 pods, of which 3 run on node n and 1 waits.
func TestAheadIsThePlaceInTheOrderOfVolcano(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		standard := rapid.Int32Range(-1, 1).Draw(t, "standard")
		classes := priorities{values: map[string]int32{"standard": standard}, standard: standard}
		jobs := rapid.IntRange(1, 6).Draw(t, "jobs")
		ages := rapid.Permutation([]int{0, 1, 2, 3, 4, 5}).Draw(t, "ages") // Volcano orders jobs of one age by their uid

		// the cluster
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

		cluster := session.New(text)
		for i, group := range cluster.Groups {
			group.CreationTimestamp = metav1.NewTime(cluster.Now.Add(-time.Duration(ages[i]) * time.Minute))
			owner := metav1.OwnerReference{APIVersion: "batch.volcano.sh/v1alpha1", Kind: "Job", Name: group.Name, Controller: ptr.To(true)}
			group.OwnerReferences = []metav1.OwnerReference{owner}
		}

		// the PriorityClasses
		cluster.Begin()
		ofAll := builder.PriorityClass("standard", standard)
		ofAll.GlobalDefault = true
		cluster.Cache.AddPriorityClass(ofAll)
		for _, name := range []string{"urgent", "lazy"} {
			classes.values[name] = rapid.Int32Range(-2, 2).Draw(t, name)
			cluster.Cache.AddPriorityClass(builder.PriorityClass(name, classes.values[name]))
		}

		// the session of Volcano, and what why reads of the same cluster
		ssn := cluster.Open([][]string{{"priority", "gang"}}, nil)
		defer cluster.Close()

		w := &inputReader{Reader: &reader.Reader{}, resolver: workload.Resolver{}, loaded: reader.Workloads{Pods: cluster.Pods, PodGroups: cluster.Groups}}
		w.input.Queue = "q"

		// the comparison for each job
		turns := w.waitingTurns(classes)
		check.Equal(t, "jobs that wait", jobs, len(turns))
		for reference := range turns {
			w.input.Workload = reference
			w.setOrder(turns)
			want := 0
			for other := range turns {
				if other != reference && ssn.JobOrderFn(cluster.Job(other.Name), cluster.Job(reference.Name)) {
					want++
				}
			}

			ahead := *w.input.Ahead
			check.Must(t, ahead.Higher+ahead.Incomplete+ahead.Older == want, "Volcano tries %d before %s of %s, not %+v", want, reference.Name, text, ahead)
		}
	})
}

// TestWhyAnotherJobComesFirst: Volcano orders jobs by priority, then those whose minimum of pods is not ready (plugin
// gang), then by age. The explanation counts another job by the first of these reasons for which it comes before the
// own one, or not at all.
func TestWhyAnotherJobComesFirst(t *testing.T) {
	const (
		isReady    = true // its minimum runs
		isNotReady = false
	)
	job := func(priority int32, isReady bool, minutesOld time.Duration) turn {
		return turn{priority, isReady, kubectl.TimeAgo(minutesOld * time.Minute)}
	}

	for t, tc := range check.Cases(t, map[string]struct {
		own, other turn
		want       explanation.Ahead
	}{
		"the other is older":                                    {job(0, isNotReady, 1), job(0, isNotReady, 2), explanation.Ahead{Older: 1}},
		"the other is younger":                                  {job(0, isNotReady, 2), job(0, isNotReady, 1), explanation.Ahead{}},
		"both are of one age":                                   {job(0, isNotReady, 1), job(0, isNotReady, 1), explanation.Ahead{}},
		"the other has a higher priority":                       {job(0, isNotReady, 2), job(1, isNotReady, 1), explanation.Ahead{Higher: 1}},
		"the other has a lower priority, and is older":          {job(1, isNotReady, 1), job(0, isNotReady, 2), explanation.Ahead{}},
		"the own minimum runs, and the other is younger":        {job(0, isReady, 2), job(0, isNotReady, 1), explanation.Ahead{Incomplete: 1}},
		"the minimum of the other runs, and it is older":        {job(0, isNotReady, 1), job(0, isReady, 2), explanation.Ahead{}},
		"both minimums run, and the other is older":             {job(0, isReady, 1), job(0, isReady, 2), explanation.Ahead{Older: 1}},
		"the other has a higher priority, and its minimum runs": {job(0, isNotReady, 1), job(1, isReady, 2), explanation.Ahead{Higher: 1}},
		"the other has a higher priority, the own minimum runs": {job(0, isReady, 1), job(1, isNotReady, 2), explanation.Ahead{Higher: 1}},
		"the other has a lower priority, the own minimum runs":  {job(1, isReady, 1), job(0, isNotReady, 2), explanation.Ahead{}},
		"the other has a lower priority, and its minimum runs":  {job(1, isNotReady, 1), job(0, isReady, 2), explanation.Ahead{}},
	}) {
		own := v1alpha1.WorkloadReference{Name: "own"}
		other := v1alpha1.WorkloadReference{Name: "other"}
		w := &inputReader{Reader: &reader.Reader{}, resolver: workload.Resolver{}}
		w.input.Queue = "q"
		w.input.Workload = own

		w.setOrder(map[v1alpha1.WorkloadReference]turn{own: tc.own, other: tc.other})
		check.Equal(t, "ahead", tc.want, *w.input.Ahead)
	}
}

// TestWhichPodsCountForAMinimum: Volcano counts a pod for the minimum of its PodGroup if it has a node or has
// succeeded. The PodGroup states how many have succeeded, so such a pod does not count twice. Volcano also
// counts a pod that requests nothing, because that may run anywhere. A pod that has failed, terminates or has
// a scheduling gate does not count.
func TestWhichPodsCountForAMinimum(t *testing.T) {
	pod := func() *builder.PodBuilder { return builder.Pod("lab", "p").CPU("1") }

	for t, tc := range check.Cases(t, map[string]struct {
		pod  *builder.PodBuilder
		want bool
	}{
		"without a node": {pod(), false},
		"without a node, and it requests nothing": {builder.Pod("lab", "p"), true},
		"with a node, not running yet":            {pod().Node("n"), true},
		"running":                                 {pod().Running("n"), true},
		"succeeded":                               {pod().Running("n").Phase(corev1.PodSucceeded), false},
		"failed":                                  {pod().Running("n").Phase(corev1.PodFailed), false},
		"terminating":                             {pod().Running("n").Deleted(kubectl.At), false},
		"with a scheduling gate":                  {pod().Gated(), false},
	}) {
		check.Equal(t, "counts", tc.want, isReady(tc.pod.Obj()))
	}
}

// TestAPodGroupWithoutAClassHasTheDefaultPriority: PriorityClass standard, with priority 7, is the default of the
// cluster. It counts for a PodGroup without a class, or with one that does not exist. The PodGroup needs 2 pods, so
// with 2 ready pods its minimum runs, and with 1 it does not.
func TestAPodGroupWithoutAClassHasTheDefaultPriority(t *testing.T) {
	standard := builder.PriorityClass("standard", 7)
	standard.GlobalDefault = true
	objects := []client.Object{standard, builder.PriorityClass("high", 1000)}
	classes, isRead := readPriorities(t.Context(), reader.New(kubectl.NewCluster(t, objects, kubectl.MayReadAll)))
	check.Must(t, isRead, "the PriorityClasses are not read")

	for class, want := range map[string]int32{"": 7, "gone": 7, "high": 1000, "standard": 7} {
		group := builder.PodGroup("lab", "g").MinMember(2).Created(kubectl.At).Obj()
		group.Spec.PriorityClassName = class
		for readyPods, isReady := range map[int32]bool{1: false, 2: true} {
			got := classes.turnOf(group, readyPods)
			check.That(t, got == turn{want, isReady, kubectl.TimeAgo(0)}, "class %q, %d ready pods: %+v", class, readyPods, got)
		}
	}
}
