package cardreclaim

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/session"
)

// chargedTo charges the pods of a job to a queue, as the binding of a pod records it.
func chargedTo(job, queue string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		if strings.HasPrefix(p.Name, job+"-") {
			p.Annotations["cardquota.dev/charged-queue"] = queue
		}
	}
}

// TestMovedPodGroupsStayVictims: pods that use the quota of training are reclaimed by the rules of
// that queue, wherever their PodGroup was moved since.
func TestMovedPodGroupsStayVictims(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct{ text, from, to, goes string }{
		"not moved":                          {"job t queue=tra min=4 running=n*4 age=24h; job i queue=inf min=1 pending=1", "tra", "tra", "t*4"},
		"to the queue that reclaims":         {"job t queue=tra min=4 running=n*4 age=24h; job i queue=inf min=1 pending=1", "tra", "inf", "t*4"},
		"to a queue that keeps its pods":     {"job t queue=tra min=4 running=n*4 age=24h; job i queue=inf min=1 pending=1", "tra", "kept", "t*4"},
		"to training, and charged elsewhere": {"job t queue=inf min=4 running=n*4 age=24h; job i queue=inf min=1 pending=1", "inf", "tra", ""},
		"to one of a higher priority":        {"job t queue=tra min=1 running=n*2 age=24h; job u queue=low min=1 running=n*2 age=24h; job i queue=inf min=2 pending=2", "tra", "lower", "u*2"},
	}) {
		w := newScene("node n model=A cards=4; queue kept quota=PLENTY reclaimable=false cpu=1000; queue low quota=PLENTY priority=10000 serviceType=training cpu=1000; queue lower quota=PLENTY priority=5000 serviceType=training cpu=1000; "+tc.text, chargedTo("t", tc.from))
		for _, group := range w.Groups {
			if group.Name == "t" {
				group.Spec.Queue = tc.to
			}
		}

		w.runAction(t)
		goes, _ := w.Outcome()
		check.Equal(t, "go", session.Spell(tc.goes), goes)
	}
}

// TestMovedPodGroupsAreDrained: a drain evicts the pods that use the quota of its queue.
func TestMovedPodGroupsAreDrained(t *testing.T) {
	for _, to := range []string{"q", "inf"} {
		w := newScene("node n model=A cards=4; queue q quota=PLENTY serviceType=training stopPolicy=HoldAndDrain cpu=1000; job t queue=q min=4 running=n*4 age=24h", chargedTo("t", "q"))
		w.Groups[0].Spec.Queue = to
		w.runAction(t)
		check.Equal(t, "drained from q, of a job of "+to, 4, len(w.In(api.Releasing)))
		w.Close()
	}
}

// TestNothingIsEvictedForANodeThatIsNotReady: pods there cannot end, and none can start, until the
// node is back.
func TestNothingIsEvictedForANodeThatIsNotReady(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		status corev1.ConditionStatus
		goes   int
	}{
		"ready":     {corev1.ConditionTrue, 4},
		"unknown":   {corev1.ConditionUnknown, 0},
		"not ready": {corev1.ConditionFalse, 0},
	}) {
		w := newScene("node n model=A cards=4; job t queue=tra min=4 running=n*4 age=1h; job i queue=inf min=1 pending=1")
		w.Nodes[0].Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: tc.status}}

		w.runAction(t)
		check.Equal(t, "evicted pods", tc.goes, len(w.In(api.Releasing)))
	}
}
