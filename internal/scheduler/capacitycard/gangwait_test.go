package capacitycard

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/framework"

	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/session"
)

// waitScene is a scene of which a session runs each minute. What a session places runs in the next one.
type waitScene struct {
	*scene
	clock  time.Time
	minute int
	bound  string
}

func newWaitScene(s *scene) *waitScene {
	w := &waitScene{scene: s, clock: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), minute: -1}
	s.m.now = func() time.Time { return w.clock }
	return w
}

// runMinute runs the session of the next minute.
func (w *waitScene) runMinute() {
	w.minute++
	w.clock = w.clock.Add(time.Minute)
	w.Cache = nil
	w.enqueueAndAllocate()
	w.bound = session.Names(w.In(api.Binding))

	placed := map[string]string{}
	for _, task := range w.In(api.Binding) {
		placed[task.Name] = task.NodeName
	}

	for _, g := range w.Groups {
		if job := w.Job(g.Name); job != nil {
			g.Status.Phase = v1beta1.PodGroupPhase(job.PodGroup.Status.Phase)
		}
	}

	w.Close()
	for name, node := range placed {
		pod := w.Pod(name)
		pod.Spec.NodeName = node
		pod.Status.Phase = corev1.PodRunning
	}
}

// endPods ends pods by a prefix of their names, at most some.
func (w *waitScene) endPods(prefix string, most int) {
	w.Pods = slices.DeleteFunc(w.Pods, func(p *corev1.Pod) bool {
		ends := most > 0 && strings.HasPrefix(p.Name, prefix)
		if ends {
			most--
		}
		return ends
	})
}

// TestKeptCardsEndWithTheReservation: a gang that gets no more cards loses those that are kept for it after
// five minutes.
func TestKeptCardsEndWithTheReservation(t *testing.T) {
	w := newWaitScene(newTreeScene(t, `node a model=A cards=6; queue x quota={"A":8} serviceType=training deserved={"A":3}; queue y quota={"A":8} serviceType=training deserved={"A":4}
		job runs queue=x min=1 running=a*4; job b queue=x min=1 pending=2; job c queue=y min=3 pending=3`))
	for range 5 {
		w.runMinute()
		check.Equal(t, fmt.Sprintf("bound in minute %d", w.minute), "", w.bound)
	}
	w.runMinute()
	check.Equal(t, "bound after five minutes", "b-0@a b-1@a", w.bound)
}

// TestFreeCardsProlongAReservation: a gang of eight waits while the pods of another queue end, one a minute.
// Small jobs of its own queue do not take the cards that become free, because it keeps its reservation.
func TestFreeCardsProlongAReservation(t *testing.T) {
	text := `node a model=A cards=8; queue q quota={"A":8} cpu=100; queue o quota={"A":8} cpu=100; job r queue=o min=1 running=a*8; job gang queue=q min=8 pending=8 minCards=8`
	for i := range 8 {
		text += fmt.Sprintf("; job s%d queue=q min=1 pending=1 minCards=1 phase=Pending", i)
	}

	w := newWaitScene(newScene(t, text))
	for range 8 {
		w.runMinute()
		check.Equal(t, fmt.Sprintf("bound in minute %d", w.minute), "", w.bound)
		w.endPods("r-", 1)
	}

	w.runMinute()
	check.That(t, strings.HasPrefix(w.bound, "gang-0@a gang-1@a"), "bound when eight cards are free: %q", w.bound)
}

// TestFreeCardsProlongOnlyOneReservationOfAQueue: two gangs of a queue wait while cards become free, one a
// minute. Only the first one keeps its reservation, so a small job gets a card after five minutes.
func TestFreeCardsProlongOnlyOneReservationOfAQueue(t *testing.T) {
	w := newWaitScene(newScene(t, `node a model=A cards=8; queue q quota={"A":16} priority=80000 serviceType=inference cpu=100; queue o quota={"A":8} priority=80000 serviceType=inference cpu=100
		job r queue=o min=1 running=a*8; job first queue=q min=8 pending=8 minCards=8; job second queue=q min=8 pending=8 minCards=8; job small queue=q min=1 pending=1 minCards=1 phase=Pending`))
	for range 5 {
		w.runMinute()
		check.Equal(t, fmt.Sprintf("bound in minute %d", w.minute), "", w.bound)
		w.endPods("r-", 1)
	}
	w.runMinute()
	check.Equal(t, "bound after five minutes", "small-0@a", w.bound)
}

// TestReservationEndsWithoutMoreFreeCards: it also ends if the number of free cards only falls, and if as
// many are free as before.
func TestReservationEndsWithoutMoreFreeCards(t *testing.T) {
	w := newWaitScene(newScene(t, `node a model=A cards=8; queue q quota={"A":8} cpu=100; queue o quota={"A":8} cpu=100; job r queue=o min=1 running=a*6; job gang queue=q min=8 pending=8 minCards=8; job small queue=q min=1 pending=1 minCards=1 phase=Pending`))
	for range 5 {
		w.runMinute()
		check.Equal(t, fmt.Sprintf("bound in minute %d", w.minute), "", w.bound)
	}
	w.runMinute()
	check.Equal(t, "bound after five minutes", "small-0@a", w.bound)
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
		w.endPods("f-", 1)
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

	gang := w.m.reservations[w.Groups[2].UID]
	check.That(t, gang != nil && gang.isExhausted, "the gang still has a reservation")

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

	gang := w.m.reservations[w.Groups[2].UID]
	check.Must(t, gang != nil && gang.isExhausted, "the gang still has a reservation")

	deleted := metav1.NewTime(w.clock)
	for _, pod := range w.Pods {
		if pod.Spec.NodeName != "" {
			pod.DeletionTimestamp = &deleted
		}
	}

	w.runMinute()
	w.runMinute()
	gang = w.m.reservations[w.Groups[2].UID]
	check.That(t, gang != nil && !gang.isExhausted, "the gang has no reservation although it waits for terminating pods only")
}

// TestReservationOfARunningJobEnds: a job runs with as many pods as its minimum, but a role lacks one that
// fits no node. Its reservation keeps no card from other jobs after five minutes.
func TestReservationOfARunningJobEnds(t *testing.T) {
	w := newWaitScene(newScene(t, `node a model=A cards=8; queue q quota={"A":5}; job j queue=q min=4 pending=1 running=a*4 task=ps,pods:1,min:1 task=w,pods:4,min:3; job small queue=q min=1 pending=1 minCards=1 phase=Pending`))
	w.Pods[0].Spec.NodeSelector = map[string]string{"zone": "nowhere"}
	for range 5 {
		w.runMinute()
		check.Equal(t, fmt.Sprintf("bound in minute %d", w.minute), "", w.bound)
	}
	w.runMinute()
	check.Equal(t, "bound after five minutes", "small-0@a", w.bound)
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
					w.endPods("r-", 1)
				}
				w.runMinute()
			}

			check.Equal(t, fmt.Sprintf("bound first, with a card that is free after %d minutes", freeAfter), tc.bound, w.bound)
		}
	}
}

// TestQueueOfAJobBelowItsMinimumServesItsHigherJobInTurn: in the queue of a job below its minimum, a job of
// higher priority waits. It would get the card, so the queue does not come before others.
func TestQueueOfAJobBelowItsMinimumServesItsHigherJobInTurn(t *testing.T) {
	w := newWaitScene(newScene(t, `node a model=A cards=8; queue q quota={"A":8} cpu=100; queue o quota={"A":8} cpu=100; job g queue=q min=8 running=a*7 pending=1 minCards=8; job r queue=o min=1 running=a; job high queue=q min=1 pending=1 priorityClass=high; job other queue=o min=1 pending=1`))
	w.Groups[0].Status.Phase = v1beta1.PodGroupUnknown
	for range 7 { // the reservation of g ends
		w.runMinute()
		check.Equal(t, fmt.Sprintf("bound in minute %d", w.minute), "", w.bound)
	}
	w.endPods("r-", 1)
	w.runMinute()
	check.Equal(t, "bound", "other-0@a", w.bound)
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

// TestCardsAreKeptForAJobBelowItsMinimum: it lacks two pods, and one card is free. A job of another queue
// that does not run yet does not take it.
func TestCardsAreKeptForAJobBelowItsMinimum(t *testing.T) {
	w := newWaitScene(newScene(t, `node a model=A cards=8; queue q quota={"A":8} cpu=100; queue o quota={"A":8} cpu=100; job g queue=q min=8 running=a*6 pending=2 minCards=8; job r queue=o min=1 running=a*2; job other queue=o min=1 pending=1; job runs queue=o min=1 pending=1`))
	w.Groups[0].Status.Phase = v1beta1.PodGroupUnknown
	w.runMinute()
	w.endPods("r-", 1)
	w.runMinute()
	check.Equal(t, "bound while one card is free", "", w.bound)
	w.endPods("r-", 1)
	w.runMinute()
	check.Equal(t, "bound when both are free", "g-6@a g-7@a", w.bound)
}

// TestNoCardIsKeptFromJobsThatRun: a job below its minimum lacks two pods, and one card is free. A job that
// runs already gets it for a pod above its minimum.
func TestNoCardIsKeptFromJobsThatRun(t *testing.T) {
	w := newWaitScene(newScene(t, `node a model=A cards=8; queue q quota={"A":8} cpu=100; queue o quota={"A":8} cpu=100; job g queue=q min=8 running=a*6 pending=2 minCards=8; job runs queue=o min=1 running=a pending=1; job r queue=o min=1 running=a`))
	w.Groups[0].Status.Phase = v1beta1.PodGroupUnknown
	w.runMinute()
	w.endPods("r-", 1)
	w.runMinute()
	check.Equal(t, "bound", "runs-1@a", w.bound)
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
		w := newWaitScene(newScene(t, fleet+tc.text))
		for _, pod := range w.Pods {
			if tc.isApart && strings.HasPrefix(pod.Name, "g-") {
				pod.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 80, HostPort: 80, Protocol: corev1.ProtocolTCP}}
			}
		}

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
