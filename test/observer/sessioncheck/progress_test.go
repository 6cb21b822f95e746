package sessioncheck

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"cardquota.dev/operator/internal/testing/check"
)

// TestAWorkloadThatFitsAndDoesNotStartIsFound: a pod or job that fits the quota of its queue and the nodes must start
// within three sessions of the scheduler. Otherwise the observer reports it. Here sessions close and start nothing;
// "nothingFound" checks that nothing is reported so far. Queue q has a quota of 4 H200; nodes h200-0 and rtx4090-0
// have 8 cards each. "single" is a pod with a PodGroup of its own. PodGroup phase Inqueue means that Volcano lets the
// job place its pods. A job that fits may not stay in phase Pending either. Each object must be reported once, and
// not again after many more sessions.
func TestAWorkloadThatFitsAndDoesNotStartIsFound(t *testing.T) {
	// A quota of 16, and a gang of 2 pods with 8 cards each, of which only one fits on the node. The small job waits too.
	const gangFitsPartly = `
		write queue q quota=H200:16
		gang g queue=q pods=2 cards=8
		write group small queue=q request=H200:1 phase=Pending
	`

	for t, tc := range check.Cases(t, map[string]struct{ steps, wantObjects string }{
		"a pod with 1 card": {`single a queue=q cards=1`, "pod/test/a"},
		"a pod with 4 cards, whose PodGroup is Pending": {`
			write group g queue=q phase=Pending
			write pod a group=g cards=4 card=H200`, "pod/test/a"},
		"a gang of 2 pods with 2 cards each":               {`gang g queue=q pods=2 cards=2`, "podgroup/test/g"},
		"a PodGroup without pods, which announces 4 cards": {`write group g queue=q request=H200:4 phase=Pending`, "podgroup/test/g"},
		"a pod that wants H200 or RTX4090, and only RTX4090 fit": {`
			write node h200-0 model=other
			write queue q quota=RTX4090:4
			single a queue=q cards=1 card=H200|RTX4090`, "pod/test/a"},
		"two pods with 2 cards each": {`single a queue=q cards=2; single b queue=q cards=2`, "pod/test/a pod/test/b"},
		"a second pod of a job that runs with one": {`
			single a queue=q cards=1
			write pod a node=h200-0
			write pod b group=group-of-a cards=1 card=H200`, "pod/test/b"},
		"a pod with 4 H200, beside one that does not fit and wants RTX4090": {`
			write queue r quota=RTX4090:1
			single b queue=r cards=2 card=RTX4090
			single a queue=q cards=4`, "pod/test/a"},
		"a pod with 4 cards, after the pod that used all 8 is gone": {`
			write queue r quota=H200:8
			single victim queue=r cards=8
			write pod victim node=h200-0
			single a queue=q cards=4
			manySessions
			nothingFound
			remove pod victim`, "pod/test/a"},
		"a small job beside a gang that fits only partly, whose reservation ends after 5 minutes": {gangFitsPartly + `
			sessions 300
			nothingFound`, "podgroup/test/small"},
		"a small job beside a gang of 4 without a node, which reserves nothing once the quota is lowered to 2": {`
			gang g queue=q pods=4 cards=1 nodeSelector=zone=nowhere
			write group small queue=q request=H200:1 phase=Pending
			manySessions
			nothingFound
			write queue q quota=H200:2`, "podgroup/test/small"},
	}) {
		s := newSceneWithQuotaOfFour(t, Options{}).playScript(tc.steps).playScript(`manySessions`)
		s.expectViolations(Progress, strings.Fields(tc.wantObjects)...)
		s.playScript(`manySessions; nothingFound`)
	}
}

// TestAWorkloadThatDoesNotFitMayWait: the observer must not report a workload that does not fit, or that may not
// start. Queue q has a quota of 4 H200, 10 cores and 10 GiB; nodes h200-0 and rtx4090-0 have 8 cards and 16 cores
// each. Each row has one reason to wait, or the pod starts or no longer fits in time. Then many sessions close, one a
// second, and nothing is reported. "single" is a pod with a PodGroup of its own.
func TestAWorkloadThatDoesNotFitMayWait(t *testing.T) {
	const fivePodsTerminate = `
		write pod old-0 group=g cards=1 card=H200 node=h200-0 charged=q deleted=true
		write pod old-1 group=g cards=1 card=H200 node=h200-0 charged=q deleted=true
		write pod old-2 group=g cards=1 card=H200 node=h200-0 charged=q deleted=true
		write pod old-3 group=g cards=1 card=H200 node=h200-0 charged=q deleted=true
		write pod old-4 group=g cards=1 card=H200 node=h200-0 charged=q deleted=true
	`

	for t, steps := range check.Cases(t, map[string]string{
		"a is placed after four sessions, of which the first may not know a yet": `
			single a queue=q cards=1
			sessions 4
			write pod a node=h200-0`,
		"a wants 5 cards of a quota of 4": `single a queue=q cards=5`,
		"a wants 1 card, and b uses all 4 of the quota": `
			single b queue=q cards=4
			write pod b node=h200-0
			single a queue=q cards=1`,
		"a gang wants 6 cards of a quota of 4":                      `gang g queue=q pods=2 cards=3`,
		"a PodGroup without pods announces 5 cards of a quota of 4": `write group g queue=q request=H200:5 phase=Pending`,
		"the request of a PodGroup cannot be read":                  `write group g queue=q request=H200:-4 cards=1 phase=Pending`,
		"a PodGroup is Inqueue, and has no pods yet":                `write group g queue=q request=H200:4`,
		"no node has the card":                                      `write node h200-0 model=other; single a queue=q cards=1`,
		"a wants 3 cards, and 2 of 8 are free on the node": `
			write queue r quota=H200:8
			single b queue=r cards=6
			write pod b node=h200-0
			single a queue=q cards=3`,
		"the node has half a core":             `write node h200-0 cpu=500m; single a queue=q cards=1`,
		"the node takes no pods":               `write node h200-0 pods=0; single a queue=q cards=1`,
		"the node is cordoned":                 `write node h200-0 cordoned=true; single a queue=q cards=1`,
		"the node is not ready":                `write node h200-0 ready=Unknown; single a queue=q cards=1`,
		"the node is tainted":                  `write node h200-0 tainted=true; single a queue=q cards=1`,
		"the node selector of a names no node": `single a queue=q cards=1 nodeSelector=zone=b`,
		"a has a scheduling gate":              `single a queue=q cards=1 gated=true`,
		"a has no PodGroup yet":                `write pod a cards=1 card=H200`,
		"the gang needs 2 pods, and has 1":     `write group g queue=q min=2; write pod a group=g cards=1 card=H200`,
		"a is of another scheduler":            `single a queue=q cards=1 scheduler=other`,
		"the queue is closed":                  `write queue q state=Closed; single a queue=q cards=1`,
		"the queue does not exist":             `single a queue=gone cards=1`,
		"the queue does not select the namespace": `
			write queue q namespaceSelector={"matchLabels":{"a":"b"}}
			single a queue=q cards=1`,
		"the queue has half a core":                 `write queue q cpu=500m; single a queue=q cards=1`,
		"a and b want 3 cards each of a quota of 4": `single a queue=q cards=3; single b queue=q cards=3`,
		"a pod of another queue may take the last node": `
			write queue r quota=H200:8
			single b queue=r cards=8
			single a queue=q cards=3`,
		"a gang that fits only partly has a reservation for 5 minutes": `
			write queue q quota=H200:16
			gang g queue=q pods=2 cards=8
			write group small queue=q request=H200:1 phase=Pending
			sessions 240`,
		"5 cards of q terminate, and 4 are its quota": fivePodsTerminate + `single a queue=q cards=1`,
		"a fits for 3 sessions, again and again, while the quota changes": `single a queue=q cards=4;` + strings.Repeat(`
			sessions 3
			write queue q quota=H200:3
			write queue q quota=H200:4
		`, 10) + `remove pod a`,
	}) {
		newSceneWithQuotaOfFour(t, Options{}).playScript(steps).playScript(`manySessions; nothingFound`)
	}
}

// TestAPodMayWaitForAnotherPodWithAntiAffinity: the observer does not judge anti-affinity. Pod b may run, and keeps
// others off its node, so a has a reason to wait there although its card fits.
func TestAPodMayWaitForAnotherPodWithAntiAffinity(t *testing.T) {
	s := newSceneWithQuotaOfFour(t, Options{}).playScript(`single b queue=q cards=1`)
	b := s.Pod("b", "node=h200-0")
	b.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{LabelSelector: &metav1.LabelSelector{}, TopologyKey: corev1.LabelHostname}},
	}}
	s.writeObject(b)

	s.playScript(`
		single a queue=q cards=1
		manySessions
		nothingFound`)
}

// TestOnlySessionsThatDecideCount: pod a fits, and must start within three sessions of one scheduler. Sessions that
// decide nothing, as those of a scheduler that is not ready, do not count. Nor do sessions of different processes add
// up. In the second row each reading is of another process, and its number of closed sessions is one higher. Twenty
// readings of each kind report nothing.
func TestOnlySessionsThatDecideCount(t *testing.T) {
	for t, reading := range check.Cases(t, map[string]func(i int) Reading{
		"no session decides":                 func(i int) Reading { return Reading{Closed: 5 + i} },
		"each session is of another process": func(i int) Reading { return Reading{Process: i, Closed: 50 + i, Decides: true} },
	}) {
		s := newSceneWithQuotaOfFour(t, Options{}).playScript(`single a queue=q cards=1`)
		for i := range 20 {
			s.clock = s.clock.Add(time.Second)
			s.addReading(reading(i))
		}
		s.playScript(`nothingFound`)
	}
}

// TestAQueueWithoutCPUTakesPodsWithCardsWhenTheseAreUnlimited: with the plugin argument cardUnlimitedCpuMemory,
// CPU and memory of pods with cards do not count in their queue. So pod a fits a queue without CPU and memory,
// and must start.
func TestAQueueWithoutCPUTakesPodsWithCardsWhenTheseAreUnlimited(t *testing.T) {
	s := newSceneWithQuotaOfFour(t, Options{UnlimitedCPUMemory: true}).playScript(`
		write queue q cpu= memory=
		single a queue=q cards=1
		manySessions`)
	s.expectViolations(Progress, "pod/test/a")
}

// TestPodsOfOtherTestsAreNotReported: tests share a cluster, and the observer of a test reports only what
// concerns it. Pods a and b fit and do not start, and a is of another test.
func TestPodsOfOtherTestsAreNotReported(t *testing.T) {
	newSceneWithQuotaOfFour(t, Options{Concerns: func(object string) bool { return object != "pod/test/a" }}).playScript(`
		single a queue=q cards=1
		single b queue=q cards=1
		manySessions`).expectViolations(Progress, "pod/test/b")
}

// TestCheckReturnsThePodsWhoseDeadlineIsStillToCome: a test waits until no pod is left whose deadline is still
// to come. Pod a fits, and two of three sessions have closed, so it is left. If no session closes for a minute,
// waiting would not help, and none is left.
func TestCheckReturnsThePodsWhoseDeadlineIsStillToCome(t *testing.T) {
	s := newSceneWithQuotaOfFour(t, Options{}).playScript(`single a queue=q cards=1; sessions 2`)
	check.Equal(t, "pods with a deadline to come", 1, len(s.checker.Check(s.clock)))
	check.Equal(t, "pods with a deadline to come, when no session closes", 0, len(s.checker.Check(s.clock.Add(time.Minute))))
}
