package cardreclaim

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/session"
)

// TestTheNextSession: until the victims are gone, the pipelined pods keep their places, and no
// pod is evicted twice.
func TestTheNextSession(t *testing.T) {
	for t, vcjob := range check.Cases(t, map[string]string{"deleted": "", "replaced": "owner=vcjob"}) {
		w := newScene(fmt.Sprintf("node n model=A cards=8; job t queue=tra min=4 running=n*4 age=1h %s; job u queue=tra min=4 running=n*4 age=24h %s; job i queue=inf min=3 pending=3", vcjob, vcjob))
		w.runAction(t).expectEvictedAndPlaced(t, "t*4", "i@n*3")
		for range 3 {
			w.openSession().expectEvictedAndPlaced(t, "t*4", "") // before any decision
			w.executeActions()
			w.expectEvictedAndPlaced(t, "t*4", "i@n*3")
		}

		w.addToCache("job late queue=inf min=2 pending=2")

		// One card of t is left over, and one is missing.
		w.runAction(t).expectEvictedAndPlaced(t, "t*4 u*4", "i@n*3 late@n*2")
		w.runAction(t).expectEvictedAndPlaced(t, "t*4 u*4", "i@n*3 late@n*2")
	}
}

// TestReclaimWaitsForTerminatingPods: a pod that only terminating pods keep off a node
// reclaims no cards elsewhere.
func TestReclaimWaitsForTerminatingPods(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		pods                string // maximum of the node
		training, reclaimer func(*corev1.Pod)
	}{
		"its port":                     {"110", hostPort(80), hostPort(80)},
		"it avoids them":               {"110", withLabelAndAntiAffinity("t", ""), applyAll(withLabelAndAntiAffinity("i", "t"), hostPort(80))},
		"they avoid it":                {"110", withLabelAndAntiAffinity("t", "i"), applyAll(withLabelAndAntiAffinity("i", ""), hostPort(80))},
		"as many pods as there may be": {"4", nil, nil},
	}) {
		w := newScene("node n,m model=A cards=4; job t queue=tra min=4 running=n*4 age=1h; job u queue=tra min=4 running=m*4 age=24h; job i queue=inf min=1 pending=1", applyAll(onJob("t", tc.training), onJob("u", tc.training), onJob("i", tc.reclaimer)))
		for _, n := range w.Nodes {
			n.Status.Allocatable["pods"] = amount(tc.pods)
		}

		w.runAction(t).expectEvictedAndPlaced(t, "t*4", "i-0@n")
		for range 2 {
			goes, _ := w.runAction(t).Outcome()
			check.Must(t, goes == "t-0 t-1 t-2 t-3", "%q go, want those of the first session", goes)
		}
	}

	t.Run("the next pod takes from others", func(t *testing.T) {
		w := newScene("node n,m model=A cards=4; node o model=A cards=1; job t queue=tra min=4 running=n*4 age=1h; job u queue=tra min=4 running=m*4 age=24h; job i queue=inf min=1 running=o pending=2 age=24h", hostPort(80))
		second := w.Pods[len(w.Pods)-1]
		w.Pods = w.Pods[:len(w.Pods)-1]
		w.runAction(t).expectEvictedAndPlaced(t, "t*4", "i-1@n")
		w.Cache.AddPod(second)
		w.runAction(t).expectEvictedAndPlaced(t, "t*4 u*4", "i-2@m")
	})
}

// TestSessionIsReproducible: Go iterates over maps in another order each time.
func TestSessionIsReproducible(t *testing.T) {
	outcome := func() string {
		w := newScene(`node n,m model=A cards=8; node o model=B cards=8; queue inf2 quota={"A":3,"B":2} priority=80000 serviceType=inference cpu=1000; queue tra2 quota=PLENTY priority=20000 serviceType=training cpu=1000
			job a queue=tra min=4 running=n*4 age=24h owner=vcjob; job b queue=tra2 min=4 running=n*4 age=24h task=ps,pods:1,min:1 task=w,pods:3,min:3; job c queue=tra min=2 running=m*4 age=24h owner=vcjob; job d queue=tra2 min=4 running=m*4 age=24h task=ps,pods:1,min:1 task=w,pods:3,min:3
			job e queue=tra min=4 running=o*4 card=B age=24h owner=vcjob; job f queue=tra2 min=2 running=o*4 card=B age=24h task=ps,pods:1,min:1 task=w,pods:3,min:3
			job i queue=inf min=2 pending=5 card=A|B; job j queue=inf2 min=3 pending=3 card=B|A; job k queue=inf2 min=1 pending=3; job l queue=inf min=1 pending=1 cards=4`).openSession()
		defer w.Close()
		w.action.Execute(w.Ssn)
		goes, come := w.Outcome()
		return "go: " + goes + "\ncome: " + come
	}

	first := outcome()
	for range 20 {
		again := outcome()
		check.Must(t, again == first, "first\n%s\nthen\n%s", first, again)
	}
}

// TestUnsolvableNeedsAreRemembered: needs that no eviction helps are tried once a session for
// each reclaimerKey.
func TestUnsolvableNeedsAreRemembered(t *testing.T) {
	w := newScene(`node n,m model=A cards=4; queue other quota=PLENTY priority=20000 serviceType=batch; queue mixed quota=PLENTY priority=80000 reclaimable=true; job p queue=tra min=4 running=n*4 age=24h preemptable=false; job t queue=other min=4 running=m*4 age=24h
		job a queue=mixed min=1 pending=1 serviceType=inference; job b queue=mixed min=1 pending=1 serviceType=inference; job c queue=mixed min=1 pending=1 serviceType=urgent`)
	w.args = map[string]any{"serviceTypes": map[string]any{
		"inference": map[string]any{"reclaimFrom": []any{"training"}}, "urgent": map[string]any{"reclaimFrom": []any{"batch"}},
		"training": map[string]any{"reclaimable": true}, "batch": map[string]any{"reclaimable": true},
	}}
	w.runAction(t).expectEvictedAndPlaced(t, "t*4", "c-0@m")
}

// TestCardsOfPodsThatHangAreNotWaitedFor: a pod that should have been gone for an hour has the
// card that would suffice, so training loses one.
func TestCardsOfPodsThatHangAreNotWaitedFor(t *testing.T) {
	since := ago(hour)
	runScenes(t, map[string]sceneCase{
		"on its node":           {text: "node n model=A cards=4; job h queue=inf min=1 running=n age=24h; job t queue=tra min=1 running=n*3 age=24h; job i queue=inf min=1 pending=1", goes: "h-0 t-0", pipelined: "i-0@n", change: onPod("h-0", func(p *corev1.Pod) { p.DeletionTimestamp = &since })},
		"no pod may be evicted": {text: "node n model=A cards=4; job h queue=inf min=1 running=n age=24h; job t queue=inf min=1 running=n*3 age=24h; job i queue=inf min=1 pending=1", goes: "h-0", pipelined: "", change: onPod("h-0", func(p *corev1.Pod) { p.DeletionTimestamp = &since })},
	})
}

// TestFreedCardsAreHeldForTheirGang: a gang of two pods has reclaimed the cards of two nodes,
// one of which is cordoned for a moment. Training does not get the free cards back meanwhile.
func TestFreedCardsAreHeldForTheirGang(t *testing.T) {
	w := newScene("node n,m model=A cards=4; job t queue=tra min=4 running=n*4 age=1h; job u queue=tra min=4 running=m*4 age=1h; job v queue=tra min=4 pending=4; job i queue=inf min=2 pending=2 cards=4")
	w.runAction(t).expectEvictedAndPlaced(t, "t*4 u*4", "i-0@n i-1@m")
	for _, pod := range w.podsOf("t") {
		w.Cache.DeletePod(pod)
	}

	away := w.Nodes[1].DeepCopy()
	away.Spec.Unschedulable = true
	check.NoError(t, w.Cache.AddOrUpdateNode(away))
	for range 3 {
		w.runAction(t)
		check.Equal(t, "placed while a node is away", "", session.Names(w.In(api.Binding)))
	}

	check.NoError(t, w.Cache.AddOrUpdateNode(w.Nodes[1]))
	for _, pod := range w.podsOf("u") {
		w.Cache.DeletePod(pod)
	}

	w.runAction(t)
	check.Equal(t, "pods that are placed when both nodes are there and free", 2, len(w.In(api.Binding)))
}
