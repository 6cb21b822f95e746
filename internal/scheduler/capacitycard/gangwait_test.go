package capacitycard

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/framework"

	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/session"
)

// waitScene is a scene of which a session runs each minute. What a session places runs in the next one.
type waitScene struct {
	*scene
	minute int
	bound  string
}

func newWaitScene(s *scene) *waitScene { return &waitScene{scene: s.useClock(), minute: -1} }

// runMinute runs the session of the next minute.
func (w *waitScene) runMinute() {
	w.minute++
	w.clock = w.clock.Add(time.Minute)
	w.Cache = nil
	w.enqueueAndAllocate()
	placed := w.In(api.Binding)
	w.bound = session.Names(placed)

	for _, g := range w.Groups {
		if job := w.Job(g.Name); job != nil {
			g.Status.Phase = v1beta1.PodGroupPhase(job.PodGroup.Status.Phase)
		}
	}

	w.Close()
	for _, task := range placed {
		pod := w.Pod(task.Name)
		pod.Spec.NodeName = task.NodeName
		pod.Status.Phase = corev1.PodRunning
	}
}

// endPod ends the first pod whose name has a prefix.
func (w *waitScene) endPod(prefix string) {
	first := slices.IndexFunc(w.Pods, func(p *corev1.Pod) bool { return strings.HasPrefix(p.Name, prefix) })
	if first >= 0 {
		w.Pods = slices.Delete(w.Pods, first, first+1)
	}
}

// TestReservationKeepsCards: small jobs get the cards that a gang waits for when its reservation has ended, after
// five minutes. It goes on while more and more cards become free.
func TestReservationKeepsCards(t *testing.T) {
	const (
		small = "; job small queue=q min=1 pending=1 minCards=1 phase=Pending"
		alone = `node a model=A cards=8; queue q quota={"A":8} cpu=100; queue o quota={"A":8} cpu=100; job gang queue=q min=8 pending=8 minCards=8` + small
		two   = `node a model=A cards=8; queue q quota={"A":16} priority=80000 serviceType=inference cpu=100; queue o quota={"A":8} priority=80000 serviceType=inference cpu=100
			job first queue=q min=8 pending=8 minCards=8; job second queue=q min=8 pending=8 minCards=8` + small
		tree = `node a model=A cards=6; queue x quota={"A":8} serviceType=training deserved={"A":3}; queue y quota={"A":8} serviceType=training deserved={"A":4}
			job runs queue=x min=1 running=a*4; job b queue=x min=1 pending=2; job c queue=y min=3 pending=3`
		role = `node a model=A cards=8; queue q quota={"A":5}; job j queue=q min=4 running=a*4 pending=1 task=w,pods:4,min:3 task=ps,pods:1,min:1` + small
	)

	for t, tc := range check.Cases(t, map[string]struct {
		scene *scene
		// endsPods ends a pod of job r each minute.
		endsPods bool
		minutes  int
		bound    string
	}{
		"kept cards of a tree, too":                 {newTreeScene(t, tree), false, 5, "b-0@a b-1@a"},
		"no more cards become free":                 {newScene(t, alone+"; job r queue=o min=1 running=a*6"), false, 5, "small-0@a"},
		"one card becomes free each minute":         {newScene(t, alone+"; job r queue=o min=1 running=a*8"), true, 8, "gang-0@a gang-1@a gang-2@a gang-3@a gang-4@a gang-5@a gang-6@a gang-7@a"},
		"only one gang of a queue prolongs its own": {newScene(t, two+"; job r queue=o min=1 running=a*8"), true, 5, "small-0@a"},
		"a job runs, and a role of it fits no node": {newScene(t, role, changePod("j-4", func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"zone": "nowhere"} })), false, 5, "small-0@a"},
	}) {
		w := newWaitScene(tc.scene)
		for range tc.minutes {
			w.runMinute()
			check.Equal(t, fmt.Sprintf("bound in minute %d", w.minute), "", w.bound)
			if tc.endsPods {
				w.endPod("r-")
			}
		}

		w.runMinute()
		check.Equal(t, "bound in the end", tc.bound, w.bound)
	}
}

// flickering is a gang that waits for eight cards, of which one becomes free and is used again by turns.
func flickering(t *testing.T, args framework.Arguments) *waitScene {
	w := newWaitScene(newScene(t, `node a model=A cards=8; node b model=B; queue q quota={"A":8} cpu=100; queue o quota={"A":8} cpu=100; job r queue=o min=1 running=a*7; job f queue=o min=1 running=a; job gang queue=q min=8 pending=8 minCards=8; job small queue=q min=1 pending=1 minCards=1 phase=Pending priorityClass=low`).withArguments(args))
	w.Groups[2].CreationTimestamp = metav1.NewTime(w.clock.Add(-time.Hour))
	return w
}

// flicker runs a minute in which a card is free, or used.
func (w *waitScene) flicker() {
	w.runMinute()
	if w.minute%2 == 0 {
		w.endPod("f-")
	} else {
		w.addObjects("job f queue=o min=1 running=a")
	}
}

// TestFreeCardsProlongAReservationForAnHour: not longer, also if they become free again and again. The
// argument maxReservation sets another time.
func TestFreeCardsProlongAReservationForAnHour(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		args        framework.Arguments
		least, most int
	}{
		"an hour":        {nil, 58, 62},
		"twenty minutes": {framework.Arguments{"maxReservation": "20m"}, 18, 22},
	}) {
		w := flickering(t, tc.args)
		for w.bound == "" && w.minute < 100 {
			w.flicker()
		}

		check.Equal(t, "bound first", "small-0@a", w.bound)
		check.That(t, w.minute >= tc.least && w.minute <= tc.most, "the reservation ends in minute %d, want %d to %d", w.minute, tc.least, tc.most)
	}
}

// TestTheNextGangHasItsTimeAfterTheFirst: of two gangs of a queue that wait for cards that become free again
// and again, each keeps its reservation as long as allowed, one after the other.
func TestTheNextGangHasItsTimeAfterTheFirst(t *testing.T) {
	w := newWaitScene(newScene(t, `node a model=A cards=8; queue q quota={"A":16} cpu=100; queue o quota={"A":8} cpu=100; job r queue=o min=1 running=a*7; job f queue=o min=1 running=a; job first queue=q min=8 pending=8 minCards=8; job next queue=q min=8 pending=8 minCards=8`).
		withArguments(framework.Arguments{"maxReservation": "20m"}))

	w.Groups[2].CreationTimestamp = metav1.NewTime(w.clock.Add(-time.Hour))
	w.Groups[3].CreationTimestamp = metav1.NewTime(w.clock)
	for _, tc := range []struct {
		minute      int
		first, next bool
	}{{12, true, false}, {32, false, true}, {60, false, false}} {
		for w.minute < tc.minute {
			w.flicker()
		}

		for i, want := range map[int]bool{2: tc.first, 3: tc.next} {
			entry := w.m.reservations[w.Groups[i].UID]
			isReserved := entry != nil && !entry.isExhausted && w.clock.Sub(entry.waitingSince) < reservationTimeout
			check.Equal(t, fmt.Sprintf("%s has its reservation in minute %d", w.Groups[i].Name, w.minute), want, isReserved)
		}
	}
}

// TestJobWithoutReservationComesAfterItsEquals: a job that has waited as long as allowed gets no reservation
// and comes after younger jobs, until it requests something else.
func TestJobWithoutReservationComesAfterItsEquals(t *testing.T) {
	w := flickering(t, framework.Arguments{"maxReservation": "6m"})
	for range 20 {
		w.flicker()
	}

	check.That(t, w.m.reservations[w.Groups[2].UID].isExhausted, "the gang still has a reservation")
	w.Cache = nil
	w.addObjects("job young queue=q min=1 pending=1")
	w.Groups[len(w.Groups)-1].CreationTimestamp = metav1.NewTime(w.clock)
	w.openSession()
	check.That(t, w.Ssn.JobOrderFn(w.Job("young"), w.Job("gang")), "the gang still comes before a younger job")
	w.Close()

	w.Cache = nil
	w.Pods = slices.DeleteFunc(w.Pods, func(p *corev1.Pod) bool { return p.Name == "gang-7" })
	w.Groups[2].Spec.MinMember = 7
	w.openSession()
	check.That(t, w.Ssn.JobOrderFn(w.Job("gang"), w.Job("young")), "the gang comes last although it requests something else")
	w.Close()
}

// TestJobWithoutReservationGetsItAgain: once its pods have a node, on which the pods of others still
// terminate.
func TestJobWithoutReservationGetsItAgain(t *testing.T) {
	w := flickering(t, framework.Arguments{"maxReservation": "6m"})
	w.Pods = slices.DeleteFunc(w.Pods, func(p *corev1.Pod) bool { return p.Name == "small-0" })
	for range 20 {
		w.flicker()
	}

	check.That(t, w.m.reservations[w.Groups[2].UID].isExhausted, "the gang still has a reservation")
	for _, pod := range w.Pods {
		if pod.Spec.NodeName != "" {
			pod.DeletionTimestamp = ptr.To(metav1.NewTime(w.clock))
		}
	}

	w.runMinute()
	w.runMinute()
	check.That(t, !w.m.reservations[w.Groups[2].UID].isExhausted, "the gang has no reservation although it waits for terminating pods only")
}

// TestJobBelowItsMinimumComesFirst: seven pods of a gang of eight run, and the eighth was created again. It
// gets the next card before jobs that do not run yet, of its own queue and of another queue of equal
// priority, also if they are older and it has waited for longer than five minutes.
func TestJobBelowItsMinimumComesFirst(t *testing.T) {
	const gang = `node a model=A cards=8; queue q quota={"A":8} cpu=100; queue o quota={"A":8} cpu=100; job g queue=q min=8 running=a*7 pending=1 minCards=8; job r queue=o min=1 running=a; `
	for t, tc := range check.Cases(t, map[string]struct{ text, bound string }{
		"a job of its queue":                    {gang + "job other queue=q min=1 pending=1 minCards=1 phase=Pending", "g-7@a"},
		"a job of another queue":                {gang + "job other queue=o min=1 pending=1", "g-7@a"},
		"a job of another queue that uses less": {gang + `queue p quota={"A":80} cpu=100; job other queue=p min=1 pending=1`, "g-7@a"},
		"not before a queue of higher priority": {gang + `queue p quota={"A":8} priority=30000 cpu=100; job other queue=p min=1 pending=1`, "other-0@a"},
		"not before a job of higher priority":   {gang + "job other queue=q min=1 pending=1 priorityClass=high", "other-0@a"},
		"not on a node that it cannot use":      {gang + `node b model=B cards=1; queue o quota={"A":8,"B":8} cpu=100; job other queue=o min=1 pending=1 card=B`, "other-0@b"},
	}) {
		for _, freeAfter := range []int{3, 7} {
			s := newScene(t, tc.text)
			w := newWaitScene(s)
			for _, g := range s.Groups {
				g.CreationTimestamp = metav1.NewTime(w.clock)
				if g.Name == "other" {
					g.CreationTimestamp = metav1.NewTime(w.clock.Add(-time.Hour))
				}
			}

			s.Groups[0].Status.Phase = v1beta1.PodGroupUnknown
			for w.bound == "" && w.minute < 12 {
				if w.minute+1 == freeAfter {
					w.endPod("r-")
				}
				w.runMinute()
			}

			check.Equal(t, fmt.Sprintf("bound first, with a card that is free after %d minutes", freeAfter), tc.bound, w.bound)
		}
	}
}

// TestWhatIsDeservedComesBeforeAJobBelowItsMinimum: in a tree.
func TestWhatIsDeservedComesBeforeAJobBelowItsMinimum(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct{ deserved, bound string }{
		"it would borrow":      {"7", "other-0@a"},
		"it deserves the card": {"8", "g-7@a"},
	}) {
		w := newWaitScene(newTreeScene(t, `node a model=A cards=8; queue q quota={"A":8} serviceType=training deserved={"A":`+tc.deserved+`}; queue o quota={"A":8} serviceType=training deserved={"A":1}
			job g queue=q min=8 running=a*7 pending=1 minCards=8; job other queue=o min=1 pending=1`))
		w.Groups[0].Status.Phase = v1beta1.PodGroupUnknown
		w.runMinute()
		check.Equal(t, "bound", tc.bound, w.bound)
	}
}

// TestCardsForAJobBelowItsMinimum: pods of a gang were created again, and cards become free one a minute.
func TestCardsForAJobBelowItsMinimum(t *testing.T) {
	const queues = `node a model=A cards=8; queue q quota={"A":8} cpu=100; queue o quota={"A":8} cpu=100; `
	for t, tc := range check.Cases(t, map[string]struct {
		jobs    string
		minutes int // before the first card is free
		bound   string
	}{
		"a job that does not run yet gets none of two that are missing": {
			"job g queue=q min=8 running=a*6 pending=2 minCards=8; job r queue=o min=1 running=a*2; job other queue=o min=1 pending=1; job runs queue=o min=1 pending=1", 1, ", g-6@a g-7@a"},
		"a job that runs gets one for a pod above its minimum": {
			"job g queue=q min=8 running=a*6 pending=2 minCards=8; job runs queue=o min=1 running=a pending=1; job r queue=o min=1 running=a", 1, "runs-1@a, "},
		"its queue comes in turn where a job of higher priority would get the card": {
			"job g queue=q min=8 running=a*7 pending=1 minCards=8; job r queue=o min=1 running=a; job high queue=q min=1 pending=1 priorityClass=high; job other queue=o min=1 pending=1", 7, "other-0@a, "},
	}) {
		w := newWaitScene(newScene(t, queues+tc.jobs))
		w.Groups[0].Status.Phase = v1beta1.PodGroupUnknown
		for range tc.minutes {
			w.runMinute()
			check.Equal(t, fmt.Sprintf("bound in minute %d", w.minute), "", w.bound)
		}

		var bound []string
		for range 2 {
			w.endPod("r-")
			w.runMinute()
			bound = append(bound, w.bound)
		}
		check.Equal(t, "bound in the next two minutes", tc.bound, strings.Join(bound, ", "))
	}
}

// TestCardsAreKeptFromReclaimableJobs: two cards are free, and a gang of inference lacks two more. Only jobs
// from which it may take cards do not get them: of a reclaimable type, in a queue of lower priority.
func TestCardsAreKeptFromReclaimableJobs(t *testing.T) {
	const gang = `node a model=A cards=4; queue inf quota={"A":8} priority=80000 serviceType=inference cpu=100; queue tra quota={"A":8} priority=20000 serviceType=training cpu=100; job r queue=tra min=1 running=a*2; job g queue=inf min=4 pending=4 minCards=4; `

	for t, tc := range check.Cases(t, map[string]struct{ text, bound string }{
		"training":                                   {"job t queue=tra min=1 pending=1", ""},
		"a type that gives no cards":                 {`queue note quota={"A":8} priority=20000 reclaimable=false cpu=100; job t queue=note min=1 pending=1`, "t-0@a"},
		"inference of lower priority":                {`queue low quota={"A":8} priority=70000 serviceType=inference cpu=100; job t queue=low min=1 pending=1`, "t-0@a"},
		"training in a queue of higher priority":     {`queue high quota={"A":8} priority=90000 serviceType=training cpu=100; job t queue=high min=1 pending=1`, "t-0@a"},
		"training in a queue of equal priority":      {`queue equal quota={"A":8} priority=80000 serviceType=training cpu=100; job t queue=equal min=1 pending=1`, "t-0@a"},
		"a job of its own queue":                     {"job t queue=inf min=1 pending=1", "t-0@a"},
		"a job of its own queue, of higher priority": {"job t queue=inf min=1 pending=1 priorityClass=high", "t-0@a"},
	}) {
		w := newWaitScene(newScene(t, gang+tc.text))
		w.runMinute()
		check.Equal(t, "bound", tc.bound, boundOf("t-", w.bound))
	}
}

// TestCardsAreKeptOnlyForAGangThatFitsTheNodes: as a whole, once those pods are gone from which it may take
// cards. Otherwise training takes the free cards.
func TestCardsAreKeptOnlyForAGangThatFitsTheNodes(t *testing.T) {
	const fleet = `node a model=A cards=4; node b model=A cards=4; queue inf quota={"A":20} priority=80000 serviceType=inference cpu=100; queue tra quota={"A":20} priority=20000 serviceType=training cpu=100; job t queue=tra min=1 pending=1 cards=2; job r queue=tra min=1 running=a*2; `
	for t, tc := range check.Cases(t, map[string]struct {
		text    string
		isApart bool
		bound   string
	}{
		"two pods on two nodes":              {"job g queue=inf min=2 pending=2 cards=3", false, ""},
		"two pods apart on two nodes":        {"job g queue=inf min=2 pending=2 cards=3", true, ""},
		"three pods apart on two nodes":      {"job g queue=inf min=3 pending=3 cards=2", true, "t-0@a"},
		"three pods on two nodes":            {"job g queue=inf min=3 pending=3 cards=2", false, ""},
		"more cards than the nodes have":     {"job g queue=inf min=5 pending=5 cards=2", false, "t-0@a"},
		"pods of half a node and more":       {"job g queue=inf min=3 pending=3 cards=3", false, "t-0@a"},
		"beside training on a full node":     {"job s queue=tra min=1 running=b*4; job g queue=inf min=2 pending=2 cards=3", false, ""},
		"beside inference on a full node":    {"job s queue=inf min=1 running=b*4; job g queue=inf min=2 pending=2 cards=3", false, "t-0@a"},
		"beside inference on half a node":    {"job s queue=inf min=1 running=b*2; job g queue=inf min=3 pending=3 cards=2", false, ""},
		"a third node":                       {"node c model=A cards=4; job g queue=inf min=3 pending=3 cards=3", false, ""},
		"a part of it runs":                  {"job g queue=inf min=3 running=b pending=2 cards=2", false, ""},
		"a part of it runs, and needs apart": {"job g queue=inf min=3 running=b pending=2 cards=2", true, "t-0@a"},
	}) {
		w := newWaitScene(newScene(t, fleet+tc.text, func(p *corev1.Pod) {
			if tc.isApart && strings.HasPrefix(p.Name, "g-") {
				wantsPort(p)
			}
		}))

		w.runMinute()
		check.Equal(t, "bound of training", tc.bound, boundOf("t-", w.bound))
	}
}

// boundOf returns those of some bound pods whose names have a prefix.
func boundOf(prefix, bound string) string {
	return strings.Join(slices.DeleteFunc(strings.Fields(bound), func(pod string) bool { return !strings.HasPrefix(pod, prefix) }), " ")
}

// TestNoCardIsKeptWithoutQuota: a pod may run on A or B, its queue has quota for B only. A free A is not kept
// for it.
func TestNoCardIsKeptWithoutQuota(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct{ quota, bound string }{
		"without quota of A": {`{"B":8}`, "t-0@a t-1@a"},
		"with quota of A":    {`{"A":8,"B":8}`, ""},
	}) {
		w := newWaitScene(newScene(t, `node a model=A cards=8; queue inf quota=`+tc.quota+` priority=80000 serviceType=inference cpu=100; queue tra quota={"A":8} priority=20000 serviceType=training cpu=100
			job r queue=tra min=1 running=a*6; job t queue=tra min=1 pending=2; job g queue=inf min=4 pending=4 card=A|B`))
		w.runMinute()
		check.Equal(t, "bound", tc.bound, w.bound)
	}
}
