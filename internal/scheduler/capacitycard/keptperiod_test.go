package capacitycard

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/internal/testing/check"
)

// TestFreedCardsAreKeptUntilAllVictimsEnd: evictions for a gang free cards one after the other. The cards that are free
// already are kept for it for five minutes, counted from the last session in which a victim was still ending as it
// should. So a victim keeps cards while its grace period lasts, and for a minute until it is deleted, but not for ever.
//
// A card of node a is free at once, the victim old-0 on node b has the second one. A session runs each minute, from minute
// 0 on. Pod v-0 of training waits for the card of node a, and gets it in minute wantBound. For each victim the comment
// names the last minute that counts; the rule holds for cardreclaim and for preempt.
func TestFreedCardsAreKeptUntilAllVictimsEnd(t *testing.T) {
	const never = 100

	for t, tc := range check.Cases(t, map[string]struct {
		victim    victim
		wantBound int
	}{
		// Minute 0, in which it is gone.
		"the victim is deleted and gone at once": {victim{deletedIn: 0, grace: 10, goneIn: 0}, 5},
		// Minute 2, in which it is seen last.
		"the victim is gone after 3 minutes, within its grace period": {victim{deletedIn: 0, grace: 10, goneIn: 3}, 7},
		// Minute 9, before the grace period of 10 minutes is over.
		"the victim is gone when its grace period ends": {victim{deletedIn: 0, grace: 10, goneIn: 10}, 14},
		"the victim stays beyond its grace period":      {victim{deletedIn: 0, grace: 10, goneIn: never}, 14},
		// Minute 0, in which it should be gone.
		"the victim has no grace period, and stays": {victim{deletedIn: 0, grace: 0, goneIn: never}, 5},
		// Minute 5: deleted in minute 4, seen last in minute 5.
		"the victim is deleted after 4 minutes, while the card is kept": {victim{deletedIn: 4, grace: 3, goneIn: 6}, 10},
		// Minute 0: it is not deleted within a minute.
		"the victim is never deleted":                                     {victim{deletedIn: never, grace: 0, goneIn: never}, 5},
		"the victim is deleted after 6 minutes, when nothing is kept now": {victim{deletedIn: 6, grace: 30, goneIn: never}, 5},
	}) {
		for _, action := range []string{"cardreclaim", "preempt"} {
			bound := newKeptScene(t, action, onePlan).runUntilBound(tc.victim)
			check.Equal(t, fmt.Sprintf("the minute in which training gets what %s freed", action), tc.wantBound, bound)
		}
	}
}

// TestASecondPlanKeepsWhatTheFirstOneFreed: when a gang loses the node of its second pod, it gets a second plan, with other
// victims. The card on node a stays kept for the first pod as by the first plan, whose victim is gone after 3 minutes:
// it was seen last in minute 2, and five minutes later the card is free for training.
func TestASecondPlanKeepsWhatTheFirstOneFreed(t *testing.T) {
	for _, action := range []string{"cardreclaim", "preempt"} {
		bound := newKeptScene(t, action, twoPlans).runUntilBound(victim{deletedIn: 0, grace: 10, goneIn: 3})
		check.Equal(t, fmt.Sprintf("the minute in which training gets what %s freed", action), 7, bound)
	}
}

// victim is when the pod old-0 is deleted and gone, and its grace period, in minutes.
type victim struct{ deletedIn, grace, goneIn int }

// keptScene has nodes a and b with one card each. A plan of evictions has freed the card of node a for pod i-0 of inference,
// and evicts old-0 of training on node b. Pod v-0 of training waits for a card.
type keptScene struct{ *scene }

// plans are the plans before minute 0. With two, the second one evicts no pod. The queue of training then has a higher
// priority than inference, so that the card is kept from it only because training lost it by the first plan.
type plans struct{ count, trainingPriority int }

var (
	onePlan  = plans{1, 20000}
	twoPlans = plans{2, 90000}
)

func newKeptScene(t *testing.T, action string, made plans) *keptScene {
	s := newScene(t, fmt.Sprintf(`node a model=A cards=1; node b model=A cards=1
		queue inf quota={"A":8} priority=80000 serviceType=inference
		queue tra quota={"A":8} priority=%d serviceType=training
		job old queue=tra min=1 running=b
		job i queue=inf min=1 pending=1
		job v queue=tra min=1 pending=1`, made.trainingPriority)).useClock().openSession()

	waiting := []*api.TaskInfo{s.Task("i-0")}
	waiting[0].NodeName = "a"
	for _, victims := range [][]*api.TaskInfo{{s.Task("old-0")}, nil}[:made.count] {
		if action == "preempt" {
			plan := s.p.newEvictionPlan(victims, waiting, s.m.preemptedCards)
			s.m.preemptedCards[waiting[0].Pod.UID] = nomination{node: "a", since: s.clock, plan: plan}
		} else {
			s.reclaimPolicy().KeepReclaimedCards(waiting, victims)
		}
	}

	s.Close()
	// A gate keeps i-0 itself from using the card.
	s.Pod("i-0").Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "wait"}}
	return &keptScene{s}
}

// changeVictim deletes the victim in its minute, or removes it. Then another pod uses the card of node b.
func (k *keptScene) changeVictim(minute int, of victim) {
	isVictim := func(pod *corev1.Pod) bool { return pod.Name == "old-0" }
	switch {
	case minute == of.goneIn:
		k.Pods = slices.DeleteFunc(k.Pods, isVictim)
		k.addObjects("job blocks queue=inf min=1 running=b")
	case minute == of.deletedIn:
		end := k.Now.Add(time.Duration(of.deletedIn+of.grace) * time.Minute)
		k.Pod("old-0").DeletionTimestamp = ptr.To(metav1.NewTime(end))
	}
}

// runUntilBound runs a session each minute, and returns the minute in which v-0 gets a node, -1 if it gets none.
func (k *keptScene) runUntilBound(of victim) int {
	for minute := range 30 {
		k.changeVictim(minute, of)
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
