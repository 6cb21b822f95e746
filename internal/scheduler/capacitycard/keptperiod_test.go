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
// already are kept for the gang, until five minutes after the last session that counts. A session counts if a victim is
// still there, and is not overdue. A victim is overdue when its grace period is over, or if it is not deleted a minute
// after the eviction. So a victim that never ends does not keep cards for ever. Minute 0, that of the eviction, counts
// always. The rule is the same for cardreclaim and for preempt.
//
// A plan of evictions has freed the card of node a for pod i-0 of inference. A scheduling gate keeps i-0 from taking
// it. The plan also evicts old-0 on node b, whose card another pod gets. A session runs each minute, from minute 0
// on. Pod v-0 of training waits for the card of node a. It gets the card in minute wantBound, which is 5 minutes
// after the last minute that counts. A row says what happens to the victim old-0; its numbers are minutes.
func TestFreedCardsAreKeptUntilAllVictimsEnd(t *testing.T) {
	const never = 100

	for t, tc := range check.Cases(t, map[string]struct {
		victim    victim
		wantBound int
	}{
		"deleted and gone at once: minute 0 counts last":                               {victim{deletedIn: 0, grace: 10, goneIn: 0}, 0 + 5},
		"gone in minute 3, within its grace period: minute 2 counts last":              {victim{deletedIn: 0, grace: 10, goneIn: 3}, 2 + 5},
		"gone when its grace period of 10 ends: minute 9 counts last":                  {victim{deletedIn: 0, grace: 10, goneIn: 10}, 9 + 5},
		"stays beyond its grace period of 10: minute 9 counts last":                    {victim{deletedIn: 0, grace: 10, goneIn: never}, 9 + 5},
		"has no grace period, and stays: minute 0 counts last":                         {victim{deletedIn: 0, grace: 0, goneIn: never}, 0 + 5},
		"deleted in minute 4, while the card is kept, gone in 6: minute 5 counts last": {victim{deletedIn: 4, grace: 3, goneIn: 6}, 5 + 5},
		"never deleted, so overdue after a minute: minute 0 counts last":               {victim{deletedIn: never, grace: 0, goneIn: never}, 0 + 5},
		"deleted in minute 6, when the card is no longer kept: minute 0 counts last":   {victim{deletedIn: 6, grace: 30, goneIn: never}, 0 + 5},
	}) {
		for _, action := range []string{"cardreclaim", "preempt"} {
			bound := newKeptScene(t, action, onePlan).runUntilBound(tc.victim)
			check.Equal(t, fmt.Sprintf("the minute in which training gets what %s freed", action), tc.wantBound, bound)
		}
	}
}

// TestASecondPlanKeepsWhatTheFirstOneFreed: a first plan of evictions freed the card of node a for pod i-0, and
// evicts old-0 on node b. Before minute 0 a second plan for i-0 follows (twoPlans), here without victims. The card of
// node a stays kept as by the first plan, whose victim is gone in minute 3. A session sees the victim last in minute
// 2. Five minutes later pod v-0 of training gets the card. Nothing else keeps it: training has the higher priority
// here.
func TestASecondPlanKeepsWhatTheFirstOneFreed(t *testing.T) {
	for _, action := range []string{"cardreclaim", "preempt"} {
		bound := newKeptScene(t, action, twoPlans).runUntilBound(victim{deletedIn: 0, grace: 10, goneIn: 3})
		check.Equal(t, fmt.Sprintf("the minute in which training gets what %s freed", action), 2+5, bound)
	}
}

// victim is when the pod old-0 is deleted and gone, and its grace period, in minutes.
type victim struct{ deletedIn, grace, goneIn int }

// keptScene has nodes a and b with one card each. A plan of evictions has freed the card of node a for pod i-0 of
// inference, and evicts old-0 of training on node b. Pod v-0 of training waits for a card.
type keptScene struct{ *scene }

// plans are the plans before minute 0. With two, the second one evicts no pod. The queue of training then has a higher
// priority than inference, so inference cannot reclaim from it. The card is kept from training only because training lost
// it by the first plan.
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
			s.p.Kept.KeepPreemptedCards(waiting, victims)
		} else {
			s.pluginForActions().Kept.KeepReclaimedCards(waiting, victims)
		}
	}

	s.Close()
	// A scheduling gate keeps i-0 itself from using the card.
	s.Pod("i-0").Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "wait"}}
	return &keptScene{s}
}

// changeVictim deletes the victim in its minute, or removes it. Then another pod uses the card of node b.
func (k *keptScene) changeVictim(minute int, of victim) {
	isVictim := func(pod *corev1.Pod) bool { return pod.Name == "old-0" }
	switch minute {
	case of.goneIn:
		k.Pods = slices.DeleteFunc(k.Pods, isVictim)
		k.addObjects("job blocks queue=inf min=1 running=b")
	case of.deletedIn:
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
