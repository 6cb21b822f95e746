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

// minuteScene is a scene in which a session runs each minute, from minute 0 on. The pods that a session binds run in the
// next one.
type minuteScene struct {
	*scene
	// reserved are the jobs that had their reservation when the last session ended.
	reserved map[string]bool
	minute   int
	// bound are the pods that the last session bound, with their nodes.
	bound string
}

func newMinuteScene(s *scene) *minuteScene { return &minuteScene{scene: s.useClock(), minute: -1} }

// runMinute runs the session of the next minute.
func (m *minuteScene) runMinute() {
	m.minute++
	m.clock = m.clock.Add(time.Minute)
	m.Cache = nil
	m.enqueueAndAllocate()
	placed := m.In(api.Binding)
	m.bound = session.Names(placed)

	for _, g := range m.Groups {
		if job := m.Job(g.Name); job != nil {
			g.Status.Phase = v1beta1.PodGroupPhase(job.PodGroup.Status.Phase)
		}
	}

	m.reserved = map[string]bool{}
	for _, g := range m.Groups {
		m.reserved[g.Name] = m.m.Reservations[g.UID].IsReserved(m.clock)
	}

	m.Close()
	for _, task := range placed {
		pod := m.Pod(task.Name)
		pod.Spec.NodeName = task.NodeName
		pod.Status.Phase = corev1.PodRunning
	}
}

// endPodOf ends one pod of a job, if it has any.
func (m *minuteScene) endPodOf(job string) {
	first := slices.IndexFunc(m.Pods, func(p *corev1.Pod) bool { return strings.HasPrefix(p.Name, job+"-") })
	if first >= 0 {
		m.Pods = slices.Delete(m.Pods, first, first+1)
	}
}

// group returns the PodGroup of a job.
func (m *minuteScene) group(job string) *v1beta1.PodGroup {
	return m.Groups[slices.IndexFunc(m.Groups, func(g *v1beta1.PodGroup) bool { return g.Name == job })]
}

// TestReservationKeepsCards: an enqueued gang that lacks cards reserves its part of the quota, so that smaller jobs do not
// get it piece by piece. The reservation ends after five minutes, and begins again when more cards are free than before.
//
// A session runs each minute. The first minutesWithout of these sessions bind no pod, and the next one binds wantBound.
// Job small has phase=Pending: it is not enqueued until quota is free for it, and a session places only enqueued jobs. The
// other jobs are enqueued. minCards are the cards in the minResources of a PodGroup.
func TestReservationKeepsCards(t *testing.T) {
	const allOfGang = "gang-0@a gang-1@a gang-2@a gang-3@a gang-4@a gang-5@a gang-6@a gang-7@a"

	for t, tc := range check.Cases(t, map[string]struct {
		text   string
		args   framework.Arguments
		change func(*corev1.Pod)
		// freesCards is set if one pod of job runs ends each minute, and its card is free.
		freesCards     bool
		minutesWithout int
		wantBound      string
	}{
		"2 of 8 cards are free: job small gets one when the gang's reservation of the whole quota has ended": {
			text: `node a model=A cards=8
				queue q quota={"A":8}; queue o quota={"A":8}
				job runs queue=o min=1 running=a*6
				job gang queue=q min=8 pending=8 minCards=8
				job small queue=q min=1 pending=1 minCards=1 phase=Pending`,
			minutesWithout: 5, wantBound: "small-0@a",
		},
		"one more card is free each minute: the reservation begins again, and the gang has all 8 after 8 minutes": {
			text: `node a model=A cards=8
				queue q quota={"A":8}; queue o quota={"A":8}
				job runs queue=o min=1 running=a*8
				job gang queue=q min=8 pending=8 minCards=8
				job small queue=q min=1 pending=1 minCards=1 phase=Pending`,
			freesCards: true, minutesWithout: 8, wantBound: allOfGang,
		},
		"two gangs reserve the quota of 16: free cards prolong only the first one's reservation, and small gets quota of the second": {
			// They are inference, which reclaims. Of gangs that reclaim nothing the scheduler looks at the first one only.
			text: `node a model=A cards=8
				queue q quota={"A":16} priority=80000 serviceType=inference; queue o quota={"A":8} priority=80000 serviceType=inference
				job runs queue=o min=1 running=a*8
				job first queue=q min=8 pending=8 minCards=8
				job second queue=q min=8 pending=8 minCards=8
				job small queue=q min=1 pending=1 minCards=1 phase=Pending`,
			freesCards: true, minutesWithout: 5, wantBound: "small-0@a",
		},
		"job j runs with 4 cards, and reserves the fifth of the quota for the one pod that role ps needs, which fits no node": {
			text: `node a model=A cards=8
				queue q quota={"A":5}
				job j queue=q min=4 running=a*4 pending=1 task=w,pods:4,min:3 task=ps,pods:1,min:1
				job small queue=q min=1 pending=1 minCards=1 phase=Pending`,
			change:         changePod("j-4", func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"zone": "nowhere"} }),
			minutesWithout: 5, wantBound: "small-0@a",
		},
		"in a tree: the 2 free cards are kept for gang c, whose queue deserves them; then queue x borrows them for job b": {
			text: `node a model=A cards=6
				queue x quota={"A":8} serviceType=training deserved={"A":3}; queue y quota={"A":8} serviceType=training deserved={"A":4}
				job runs queue=x min=1 running=a*4
				job b queue=x min=1 pending=2
				job c queue=y min=3 pending=3`,
			args:           framework.Arguments{"queueHierarchy": "Tree", "cardUnlimitedCpuMemory": true}, // no limit of CPU
			minutesWithout: 5, wantBound: "b-0@a b-1@a",
		},
	}) {
		s := newMinuteScene(newScene(t, tc.text, tc.change).withArguments(tc.args))
		for range tc.minutesWithout {
			s.runMinute()
			check.Equal(t, fmt.Sprintf("bound in minute %d", s.minute), "", s.bound)
			if tc.freesCards {
				s.endPodOf("runs")
			}
		}

		s.runMinute()
		check.Equal(t, fmt.Sprintf("bound in minute %d", s.minute), tc.wantBound, s.bound)
	}
}

// newChangingScene has a job gang that needs all 8 cards A. Job r uses 7 of them, and job f uses the eighth in every other
// minute. The gang is an hour old and reserves the quota of queue q, for which job small waits.
func newChangingScene(t *testing.T, args framework.Arguments) *minuteScene {
	s := newMinuteScene(newScene(t, `node a model=A cards=8; node b model=B cards=8
		queue q quota={"A":8}; queue o quota={"A":8}
		job r queue=o min=1 running=a*7
		job f queue=o min=1 running=a
		job gang queue=q min=8 pending=8 minCards=8
		job small queue=q min=1 pending=1 minCards=1 phase=Pending`).withArguments(args))
	s.group("gang").CreationTimestamp = metav1.NewTime(s.clock.Add(-time.Hour))
	return s
}

// runChangingMinute runs the session of the next minute. Then job f ends, or begins again.
func (m *minuteScene) runChangingMinute() {
	m.runMinute()
	if m.minute%2 == 0 {
		m.endPodOf("f")
	} else {
		m.addObjects("job f queue=o min=1 running=a")
	}
}

// TestFreeCardsProlongAReservationForAnHour: a reservation lasts five minutes, and begins again when more cards are free
// than before. The argument maxReservation, by default an hour, is the most time for which that prolongs a reservation.
// So a gang that never starts does not keep others waiting.
//
// The gang needs all 8 cards of node a. Job r uses 7 of them, and job f uses the eighth in every other minute, so a card
// becomes free again and again. Job small waits until the gang no longer reserves the whole quota.
func TestFreeCardsProlongAReservationForAnHour(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		args framework.Arguments
		// least and atMost are the wanted minute, with a tolerance of two.
		least, atMost int
	}{
		"by default: an hour": {nil, 58, 62},
		"maxReservation 20m":  {framework.Arguments{"maxReservation": "20m"}, 18, 22},
	}) {
		s := newChangingScene(t, tc.args)
		for s.bound == "" && s.minute < 100 { // 100 minutes if no pod is ever bound
			s.runChangingMinute()
		}

		check.Equal(t, "the pods that are bound first", "small-0@a", s.bound)
		check.That(t, s.minute >= tc.least && s.minute <= tc.atMost, "the reservation ends in minute %d, want %d to %d", s.minute, tc.least, tc.atMost)
	}
}

// TestTheNextGangHasItsTimeAfterTheFirst: two gangs of queue q wait for 8 cards each, within its quota of 16. A card
// becomes free in every other minute, when job f ends. That prolongs the reservation of the older gang for
// maxReservation, 20 minutes, then that of the younger gang for as long. So in minute 12 the older gang has its
// reservation, in minute 32 the younger one, and in minute 60 neither.
func TestTheNextGangHasItsTimeAfterTheFirst(t *testing.T) {
	s := newMinuteScene(newScene(t, `node a model=A cards=8
		queue q quota={"A":16}; queue o quota={"A":8}
		job r queue=o min=1 running=a*7
		job f queue=o min=1 running=a
		job older queue=q min=8 pending=8 minCards=8
		job younger queue=q min=8 pending=8 minCards=8`).withArguments(framework.Arguments{"maxReservation": "20m"}))
	s.group("older").CreationTimestamp = metav1.NewTime(s.clock.Add(-time.Hour))
	s.group("younger").CreationTimestamp = metav1.NewTime(s.clock)

	for _, tc := range []struct {
		untilMinute  int
		wantReserved map[string]bool
	}{
		{12, map[string]bool{"older": true, "younger": false}},
		{32, map[string]bool{"older": false, "younger": true}},
		{60, map[string]bool{"older": false, "younger": false}},
	} {
		for s.minute < tc.untilMinute {
			s.runChangingMinute()
		}

		for job, want := range tc.wantReserved {
			check.Equal(t, fmt.Sprintf("job %s has its reservation in minute %d", job, s.minute), want, s.reserved[job])
		}
	}
}

// TestJobWithoutReservationComesAfterItsEquals: a gang needs all 8 cards, but job r uses 7 of them and job f the eighth in
// every other minute (runChangingMinute). So the gang never starts, and its reservation ends after the 6 minutes of
// maxReservation. From then on the gang comes after a younger job of its priority, so that it does not block that job. The
// gang comes first again when it requests something else, here 7 cards.
func TestJobWithoutReservationComesAfterItsEquals(t *testing.T) {
	s := newChangingScene(t, framework.Arguments{"maxReservation": "6m"})
	for range 20 { // minutes, far more than the 6 of maxReservation
		s.runChangingMinute()
	}
	check.That(t, s.m.Reservations[s.group("gang").UID].IsExhausted, "the gang still has a reservation after 20 minutes")

	s.Cache = nil // the next session reads the changed objects
	s.addObjects("job young queue=q min=1 pending=1")
	s.group("young").CreationTimestamp = metav1.NewTime(s.clock)
	s.openSession()
	check.That(t, s.Ssn.JobOrderFn(s.Job("young"), s.Job("gang")), "the gang of 8 comes before the younger job")
	s.Close()

	s.Cache = nil
	s.Pods = slices.DeleteFunc(s.Pods, func(p *corev1.Pod) bool { return p.Name == "gang-7" }) // the eighth pod
	s.group("gang").Spec.MinMember = 7
	s.openSession()
	check.That(t, s.Ssn.JobOrderFn(s.Job("gang"), s.Job("young")), "the gang of 7 comes after the younger job")
	s.Close()
}

// TestJobWithoutReservationGetsItAgain: a gang of 8 lost its reservation after the 6 minutes of maxReservation,
// because jobs r and f use the cards that the gang needs. Then all pods of r and f are deleted, and the pods of the
// gang are pipelined: Volcano pipelines them to the cards of the terminating pods. With that the gang has a
// reservation again.
func TestJobWithoutReservationGetsItAgain(t *testing.T) {
	s := newChangingScene(t, framework.Arguments{"maxReservation": "6m"})
	// Job small would take the card of job f.
	s.Pods = slices.DeleteFunc(s.Pods, func(p *corev1.Pod) bool { return p.Name == "small-0" })
	for range 20 { // minutes, far more than the 6 of maxReservation
		s.runChangingMinute()
	}
	check.That(t, s.m.Reservations[s.group("gang").UID].IsExhausted, "the gang still has a reservation after 20 minutes")

	for _, pod := range s.Pods {
		if pod.Spec.NodeName != "" {
			pod.DeletionTimestamp = ptr.To(metav1.NewTime(s.clock))
		}
	}

	s.runMinute()
	s.runMinute() // the gang still has its reservation in the second session
	check.That(t, !s.m.Reservations[s.group("gang").UID].IsExhausted, "the gang has no reservation, although it waits for terminating pods only")
}

// TestJobBelowItsMinimumComesFirst: a gang that lost a pod uses cards with which it cannot work. So the gang gets the next
// free card before jobs of equal priority that do not run, even older ones. That is so also after its reservation of
// five minutes has ended: the card of job r becomes free after 3 minutes, or after 7.
//
// Gang g needs 8 pods and runs 7; Volcano's phase for that is Unknown. Job other is an hour older. A row says where g comes
// in the order. Queues have priority 0 unless a row states one.
func TestJobBelowItsMinimumComesFirst(t *testing.T) {
	const (
		queues = `node a model=A cards=8; queue q quota={"A":8}; queue o quota={"A":8}
			`
		gang = `job g queue=q min=8 running=a*7 pending=1 minCards=8; job r queue=o min=1 running=a
			`
	)

	for t, tc := range check.Cases(t, map[string]struct{ text, wantBound string }{
		"before a job of its own queue": {queues + gang + "job other queue=q min=1 pending=1 minCards=1 phase=Pending", "g-7@a"},
		"before a job of another queue": {queues + gang + "job other queue=o min=1 pending=1", "g-7@a"},
		"before a job of a queue that uses nothing of a quota of 80": {
			queues + gang + `queue p quota={"A":80}; job other queue=p min=1 pending=1`, "g-7@a"},
		"after a job of a queue of higher priority": {
			queues + gang + `queue p quota={"A":8} priority=30000; job other queue=p min=1 pending=1`, "other-0@a"},
		"after a job of higher priority in its own queue": {queues + gang + "job other queue=q min=1 pending=1 priorityClass=high", "other-0@a"},
		"a free card B, which g cannot use, goes to a job that needs B": {
			queues + gang + `node b model=B cards=1; queue o quota={"A":8,"B":8}; job other queue=o min=1 pending=1 card=B`, "other-0@b"},
	}) {
		for _, freeAfter := range []int{3, 7} {
			s := newMinuteScene(newScene(t, tc.text))
			for _, g := range s.Groups {
				g.CreationTimestamp = metav1.NewTime(s.clock)
			}
			s.group("other").CreationTimestamp = metav1.NewTime(s.clock.Add(-time.Hour))
			s.group("g").Status.Phase = v1beta1.PodGroupUnknown

			for s.bound == "" && s.minute < 12 { // 12 minutes if no pod is ever bound
				if s.minute+1 == freeAfter {
					s.endPodOf("r")
				}
				s.runMinute()
			}

			check.Equal(t, fmt.Sprintf("bound first, with a card that is free after %d minutes", freeAfter), tc.wantBound, s.bound)
		}
	}
}

// TestWhatIsDeservedComesBeforeAJobBelowItsMinimum: in a tree of queues a card is first for a queue that deserves it,
// and then for one that borrows it. That rule comes before another: a gang below its minimum comes before jobs that do
// not run. Gang g of queue q lost one of its 8 pods, and job other of queue o does not run. Queue o deserves the only
// free card.
func TestWhatIsDeservedComesBeforeAJobBelowItsMinimum(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct{ deserved, wantBound string }{
		"queue q deserves 7 and would borrow the eighth card": {"7", "other-0@a"},
		"queue q deserves 8, too: the gang comes first":       {"8", "g-7@a"},
	}) {
		s := newMinuteScene(newTreeScene(t, `node a model=A cards=8
			queue q quota={"A":8} serviceType=training deserved={"A":`+tc.deserved+`}
			queue o quota={"A":8} serviceType=training deserved={"A":1}
			job g queue=q min=8 running=a*7 pending=1 minCards=8
			job other queue=o min=1 pending=1`))
		s.group("g").Status.Phase = v1beta1.PodGroupUnknown
		s.runMinute()

		check.Equal(t, "bound", tc.wantBound, s.bound)
	}
}

// TestCardsAreKeptForAJobBelowItsMinimum: gang g lost some of its 8 pods; Volcano's phase for that is Unknown. Free cards
// are kept for g from jobs that do not run, until its reservation ends after five minutes. From then on g does not come
// before other queues while a job of higher priority waits in its own queue: that job would get the card.
//
// For minutesWithout sessions, one each minute, no card is free. Then two more sessions follow. Before each of them a
// pod of job r ends, if r still has one, so that a card is free. wantBound are the pods that each of the two sessions
// binds.
func TestCardsAreKeptForAJobBelowItsMinimum(t *testing.T) {
	const queues = `node a model=A cards=8; queue q quota={"A":8}; queue o quota={"A":8}
		`
	for t, tc := range check.Cases(t, map[string]struct {
		jobs           string
		minutesWithout int
		wantBound      []string
	}{
		"the gang lacks 2 pods: the first free card is kept for it from jobs that do not run, until the second is free": {queues + `
			job g queue=q min=8 running=a*6 pending=2 minCards=8
			job r queue=o min=1 running=a*2
			job other queue=o min=1 pending=1
			job another queue=o min=1 pending=1`, 1, []string{"", "g-6@a g-7@a"}},
		"the gang lacks 2 pods, and only one card gets free: a job that runs gets it, for a pod above its minimum": {queues + `
			job g queue=q min=8 running=a*6 pending=2 minCards=8
			job runs queue=o min=1 running=a pending=1
			job r queue=o min=1 running=a`, 1, []string{"runs-1@a", ""}},
		"after the reservation, and job high waits in the queue of g: queue o, which uses less, gets the card": {queues + `
			job g queue=q min=8 running=a*7 pending=1 minCards=8
			job r queue=o min=1 running=a
			job high queue=q min=1 pending=1 priorityClass=high
			job other queue=o min=1 pending=1`, 7, []string{"other-0@a", ""}},
	}) {
		s := newMinuteScene(newScene(t, tc.jobs))
		s.group("g").Status.Phase = v1beta1.PodGroupUnknown
		for range tc.minutesWithout {
			s.runMinute()
			check.Equal(t, fmt.Sprintf("bound in minute %d", s.minute), "", s.bound)
		}

		for _, want := range tc.wantBound {
			s.endPodOf("r")
			s.runMinute()
			check.Equal(t, fmt.Sprintf("bound in minute %d", s.minute), want, s.bound)
		}
	}
}

// TestCardsAreKeptFromReclaimableJobs: 2 of 4 cards are free, and gang g of inference needs all 4. The free cards are kept
// for g from job t only if g could reclaim cards from t: t is training, in a queue of lower priority. Such a job t would
// only be evicted again. Any other job t gets a card. With unmanagedQueues: Ignore a queue without a quota may use any
// card, but reclaims none. A row says what t is.
func TestCardsAreKeptFromReclaimableJobs(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct{ text, wantBound string }{
		"training in a queue of priority 20000: kept from it": {"job t queue=tra min=1 pending=1", ""},
		"a queue without a service type, which is not reclaimable": {
			`queue note quota={"A":8} priority=20000 reclaimable=false; job t queue=note min=1 pending=1`, "t-0@a"},
		"inference of lower priority": {
			`queue low quota={"A":8} priority=70000 serviceType=inference; job t queue=low min=1 pending=1`, "t-0@a"},
		"training in a queue of higher priority": {
			`queue high quota={"A":8} priority=90000 serviceType=training; job t queue=high min=1 pending=1`, "t-0@a"},
		"training in a queue of equal priority": {
			`queue equal quota={"A":8} priority=80000 serviceType=training; job t queue=equal min=1 pending=1`, "t-0@a"},
		"a job of the same queue":                     {"job t queue=inf min=1 pending=1", "t-0@a"},
		"a job of the same queue, of higher priority": {"job t queue=inf min=1 pending=1 priorityClass=high", "t-0@a"},
		"training, but the queue of g has no quota, so g reclaims nothing": {`
			queue inf priority=80000 serviceType=inference
			job t queue=tra min=1 pending=1`, "t-0@a"},
		"training, and a gang of a queue without a quota waits beside g: kept from it": {`
			queue free priority=90000
			job f queue=free min=4 pending=4 minCards=4 serviceType=inference
			job t queue=tra min=1 pending=1`, ""},
	}) {
		s := newMinuteScene(newScene(t, `node a model=A cards=4
			queue inf quota={"A":8} priority=80000 serviceType=inference
			queue tra quota={"A":8} priority=20000 serviceType=training
			job r queue=tra min=1 running=a*2
			job g queue=inf min=4 pending=4 minCards=4
			`+tc.text).withArguments(framework.Arguments{"unmanagedQueues": "Ignore"}))
		s.runMinute()

		check.Equal(t, "bound", tc.wantBound, s.bound)
	}
}

// TestCardsAreKeptOnlyForAGangThatFitsTheNodes: free cards are kept from training for gang g of inference only if g fits
// the nodes. All pods of g must fit once the pods are gone from which g may reclaim. Otherwise the cards would be idle in
// vain.
//
// Nodes a and b have 4 cards each, and training uses 2 cards of node a. Job t of training needs 2 cards. The plugin fills
// used nodes first, so t gets the 2 free cards of node a. If cards are kept for g, no node has 2 cards for t. A row says
// which pods g needs.
func TestCardsAreKeptOnlyForAGangThatFitsTheNodes(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		jobs string
		// hasHostPort is set if all pods of g use one host port, so that each needs a node of its own.
		hasHostPort bool
		wantBound   string
	}{
		"2 pods of 3 cards fit, one on each node: kept": {
			"job g queue=inf min=2 pending=2 cards=3", false, ""},
		"2 pods of 3 cards on different nodes fit: kept": {
			"job g queue=inf min=2 pending=2 cards=3", true, ""},
		"3 pods of 2 cards on different nodes do not fit": {
			"job g queue=inf min=3 pending=3 cards=2", true, "t-0@a"},
		"3 pods of 2 cards fit, 2 on node a and 1 beside the training on node b: kept": {
			"job s queue=tra min=1 running=b; job g queue=inf min=3 pending=3 cards=2", false, ""},
		"5 pods of 2 cards do not fit, since the nodes have 8": {
			"job g queue=inf min=5 pending=5 cards=2", false, "t-0@a"},
		"3 pods of 3 cards do not fit, since a node has cards for only one": {
			"job g queue=inf min=3 pending=3 cards=3", false, "t-0@a"},
		"node b is full of training, from which g may reclaim: kept": {
			"job s queue=tra min=1 running=b*4; job g queue=inf min=2 pending=2 cards=3", false, ""},
		"node b is full of inference, from which g may not reclaim": {
			"job s queue=inf min=1 running=b*4; job g queue=inf min=2 pending=2 cards=3", false, "t-0@a"},
		"inference uses 2 cards of node b, and 3 pods of 2 cards fit beside it: kept": {
			"job s queue=inf min=1 running=b*2; job g queue=inf min=3 pending=3 cards=2", false, ""},
		"3 pods of 3 cards fit with a third node: kept": {
			"node c model=A cards=4; job g queue=inf min=3 pending=3 cards=3", false, ""},
		"a pod of g runs on node b, and 2 more fit on node a once its training is gone: kept": {
			"job s queue=tra min=1 running=b; job g queue=inf min=3 running=b pending=2 cards=2", false, ""},
		"a pod of g runs on node b, and 2 more do not fit on different nodes": {
			"job g queue=inf min=3 running=b pending=2 cards=2", true, "t-0@a"},
	}) {
		s := newMinuteScene(newScene(t, `node a model=A cards=4; node b model=A cards=4
			queue inf quota={"A":20} priority=80000 serviceType=inference
			queue tra quota={"A":20} priority=20000 serviceType=training
			job t queue=tra min=1 pending=1 cards=2
			job r queue=tra min=1 running=a*2
			`+tc.jobs, func(p *corev1.Pod) {
			if tc.hasHostPort && strings.HasPrefix(p.Name, "g-") {
				wantsPort(p) // the same for all pods
			}
		}))

		s.runMinute()

		check.Equal(t, "bound", tc.wantBound, s.bound)
	}
}

// TestNoCardIsKeptWithoutQuota: gang g of inference may run on A or B. The 2 free cards A are kept for g from job t of
// training only if the queue of g has quota for A.
func TestNoCardIsKeptWithoutQuota(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct{ quota, wantBound string }{
		"quota for B only: training gets both cards A": {`{"B":8}`, "t-0@a t-1@a"},
		"quota for A and B: both cards A are kept":     {`{"A":8,"B":8}`, ""},
	}) {
		s := newMinuteScene(newScene(t, `node a model=A cards=8
			queue inf quota=`+tc.quota+` priority=80000 serviceType=inference
			queue tra quota={"A":8} priority=20000 serviceType=training
			job r queue=tra min=1 running=a*6
			job t queue=tra min=1 pending=2
			job g queue=inf min=4 pending=4 card=A|B`))
		s.runMinute()

		check.Equal(t, "bound", tc.wantBound, s.bound)
	}
}
