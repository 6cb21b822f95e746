package queueusage

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/waiting"
)

// TestNewBindings: NewBindings gives metrics the pods that were newly bound: queue, cards, and the wait from creation
// at 9:00 until condition PodScheduled. A pod without that condition is not counted. If the clock went back, the wait
// is 0. The node does not name its card, so it may be A or B. The charge lists B as Repeated, so only A counts.
func TestNewBindings(t *testing.T) {
	created := time.Date(2026, 11, 23, 9, 0, 0, 0, time.UTC)
	pod := func(uid, scheduler string, waited time.Duration, conditions ...corev1.PodConditionType) *corev1.Pod {
		p := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{UID: types.UID(uid), CreationTimestamp: metav1.NewTime(created)},
			Spec:       corev1.PodSpec{SchedulerName: scheduler},
		}

		for _, c := range conditions {
			p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{
				Type:               c,
				Status:             corev1.ConditionTrue,
				LastTransitionTime: metav1.NewTime(created.Add(waited)),
			})
		}
		return p
	}

	pods := []*corev1.Pod{
		pod("new", "volcano", time.Minute, corev1.PodReady, corev1.PodScheduled),
		pod("other", "default-scheduler", time.Minute, corev1.PodScheduled),
		pod("unknown time", "volcano", time.Minute), pod("clock went back", "volcano", -time.Minute, corev1.PodScheduled),
	}
	cards := []card.Amount{{Name: "A", Count: 2}}

	charge := &quota.Charge{
		Queue:    "q",
		Cards:    append(cards, card.Amount{Name: "B", Count: 2}),
		Repeated: []card.Amount{{Name: "B", Count: 2}},
	}

	facts := &PodFacts{}
	for _, p := range pods {
		facts.newlyCharged = append(facts.newlyCharged, waiting.ChargedPod{Pod: p, Charge: charge})
	}

	for t, tc := range check.Cases(t, map[string]struct {
		schedulers []string
		wantWaited []time.Duration
	}{
		"scheduler volcano: pod new, and the pod whose clock went back": {
			schedulers: []string{"volcano"},
			wantWaited: []time.Duration{time.Minute, 0},
		},
		"all schedulers: also pod other, of default-scheduler": {nil, []time.Duration{time.Minute, time.Minute, 0}},
		"scheduler x, which has no pods":                       {[]string{"x"}, nil},
	}) {
		var got []time.Duration
		for _, b := range facts.NewBindings(tc.schedulers) {
			check.Equal(t, "queue", "q", b.Queue)
			check.Equal(t, "cards", cards, b.Cards)
			got = append(got, b.Waited)
		}
		check.Equal(t, "waited", tc.wantWaited, got)
	}
}

// TestPodsAreNewOnce: a pod with cards is newly bound in the first count that finds it on a node. The first count
// after the start of the operator finds pods that ran before, so none of them is new. A pod is not new again when it
// or the nodes change. A pod without cards is never new.
func TestPodsAreNewOnce(t *testing.T) {
	running := func(name string, gpus int) *corev1.Pod {
		return builder.Pod("lab", name).UID(types.UID(name)).Queue("q").GPUs(gpus).Running("h200").Obj()
	}
	scene := Input{Pods: []*corev1.Pod{running("old", 1)}, Inventory: newInventory(), Facts: &PodFacts{}}

	count := func() (names []string) {
		_, scene.LastCharges = CountWithCharges(scene)
		for _, bound := range scene.Facts.newlyCharged {
			names = append(names, bound.Pod.Name)
		}
		return names
	}
	check.Equal(t, "new in the first count", nil, count())

	waits := builder.Pod("lab", "waits").UID("waits").Queue("q").GPUs(1).Obj()
	scene.Pods = append(scene.Pods, running("new", 2), running("cpu", 0), waits)
	check.Equal(t, "new once pods new and cpu run, and waits is pending", []string{"new"}, count())
	check.Equal(t, "new when nothing changed", nil, count())

	scene.Pods[0] = scene.Pods[0].DeepCopy()
	scene.Pods[1] = scene.Pods[1].DeepCopy()
	check.Equal(t, "new when pods old and new changed", nil, count())

	scene.Inventory = newInventory()
	check.Equal(t, "new when the nodes changed", nil, count())
	scene.Pods[3] = running("waits", 1)
	check.Equal(t, "new once waits runs", []string{"waits"}, count())
}
