package capacitycard

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/internal/testing/check"
)

// TestFreedCardsAreKeptUntilAllVictimsEnd plays a session each minute. A plan evicts a pod on node a, which ends
// at once, and the pod old-0 on node b. The card of node a is kept for five minutes after the last session in
// which old-0 was there and not overdue, for cardreclaim as for preempt.
func TestFreedCardsAreKeptUntilAllVictimsEnd(t *testing.T) {
	const never = 100

	for t, tc := range check.Cases(t, map[string]struct {
		victim victim
		kept   int
	}{
		"it ends at once":                           {victim{0, 10, 0}, 5},
		"it ends after three minutes":               {victim{0, 10, 3}, 7},
		"it ends at the end of its grace period":    {victim{0, 10, 10}, 14},
		"it does not end after its grace period":    {victim{0, 10, never}, 14},
		"it has no grace period, and does not end":  {victim{0, 0, never}, 5},
		"it is deleted late":                        {victim{4, 3, 6}, 10},
		"it is never deleted":                       {victim{never, 0, never}, 5},
		"it is deleted when nothing is kept longer": {victim{6, 30, never}, 5},
	}) {
		for _, action := range []string{"cardreclaim", "preempt"} {
			bound := newKeptScene(t, action, false).playUntilBound(tc.victim)
			check.Equal(t, fmt.Sprintf("the minute in which training gets what %s freed", action), tc.kept, bound)
		}
	}
}

// TestASecondPlanKeepsWhatTheFirstOneFreed: a gang whose other node is lost gets a second plan, with other victims. The
// pod that stays on its node keeps the card there as before, from the queue that lost it.
func TestASecondPlanKeepsWhatTheFirstOneFreed(t *testing.T) {
	for _, action := range []string{"cardreclaim", "preempt"} {
		bound := newKeptScene(t, action, true).playUntilBound(victim{0, 10, 3})
		check.Equal(t, fmt.Sprintf("the minute in which training gets what %s freed", action), 7, bound)
	}
}

// victim is deleted in a minute, with a grace period, and is gone in a minute.
type victim struct{ deleted, grace, gone int }

// keptScene has a card of node a that is kept for the pod i-0, and the pod v-0, which waits for a card.
type keptScene struct {
	*scene
}

// newKeptScene returns the scene after a session with a plan that evicts old-0. A second plan
// without it follows, and the card is kept from training only because training lost it.
func newKeptScene(t *testing.T, action string, isPlannedAnew bool) *keptScene {
	priority := 20000
	if isPlannedAnew {
		priority = 90000
	}

	s := newReclaimScene(t, fmt.Sprintf("queue tra quota={\"A\":8} priority=%d serviceType=training cpu=1000;", priority)+`queue inf quota={"A":8} priority=80000 serviceType=inference cpu=1000
		node a model=A cards=1; node b model=A cards=1; job old queue=tra min=1 running=b; job i queue=inf min=1 pending=1; job v queue=tra min=1 pending=1`)

	s.useClock().openSession()
	waiting := []*api.TaskInfo{s.Task("i-0")}
	plans := [][]*api.TaskInfo{{s.Task("old-0")}}
	waiting[0].NodeName = "a"

	if isPlannedAnew {
		plans = append(plans, nil)
	}

	for _, victims := range plans {
		if action == "preempt" {
			plan := s.p.newEvictionPlan(victims, waiting, s.m.preemptedCards)
			s.m.preemptedCards[waiting[0].Pod.UID] = nomination{node: "a", since: s.clock, plan: plan}
		} else {
			s.reclaimPolicy().KeepReclaimedCards(waiting, victims)
		}
	}

	s.Close()
	// The pod itself waits as long as its gate is there.
	s.Pod("i-0").Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "wait"}}

	return &keptScene{s}
}

// change deletes or removes the victim, if its minute has come.
func (k *keptScene) change(minute int, of victim) {
	for i, pod := range k.Pods {
		switch {
		case pod.Name != "old-0":
		case minute >= of.gone:
			k.Pods = append(k.Pods[:i:i], k.Pods[i+1:]...)
			k.addObjects("job blocks queue=inf min=1 running=b")

			return
		case minute >= of.deleted:
			pod.DeletionTimestamp = ptr.To(metav1.NewTime(k.Now.Add(time.Duration(of.deleted+of.grace) * time.Minute)))
		}
	}
}

// playUntilBound plays sessions, and returns the minute in which v-0 gets a node.
func (k *keptScene) playUntilBound(of victim) int {
	for minute := range 30 {
		k.change(minute, of)
		k.clock = k.Now.Add(time.Duration(minute) * time.Minute)
		k.Cache = nil
		isBound := k.enqueueAndAllocate().podsByNode("v") != ""
		k.Close()
		if isBound {
			return minute
		}
	}
	return -1
}
