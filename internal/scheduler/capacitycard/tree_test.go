package capacitycard

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/framework"

	"cardquota.dev/operator/internal/testing/check"
)

// newTreeScene returns a scene whose queues form a tree, and whose pods with cards are free of
// CPU limits.
func newTreeScene(t testing.TB, text string, changes ...func(*corev1.Pod)) *scene {
	return newScene(t, text, changes...).withArguments(framework.Arguments{"queueHierarchy": "Tree", "cardUnlimitedCpuMemory": true})
}

// tenant is a tenant t with a quota of four cards A and a guarantee of two. The queues q and r below it deserve two each.
// Each may use all four, so it may borrow two. Node a has 8 cards A, node b 8 cards B.
const tenant = `node a model=A
	node b model=B
	queue t quota={"A":4} guarantee={"A":2}
	queue q quota={"A":4} serviceType=training parent=t deserved={"A":2}
	queue r quota={"A":4} serviceType=training parent=t deserved={"A":2}
	`

// chainOfQueues is a node with cards A and a chain of queues q1, q2 … so many levels below root.
func chainOfQueues(levels int) string {
	text := "node a model=A"
	parent := "root"
	for i := range levels {
		text += fmt.Sprintf(`
			queue q%d quota={"A":4} serviceType=training parent=%s`, i+1, parent)
		parent = fmt.Sprint("q", i+1)
	}
	return text + "\n"
}

// TestPodsInATreeStartWithinEachLimit: in a tree of queues a pod counts in its queue and in every ancestor,
// and starts if each has quota for it. A queue gets back what it deserves; what it uses beyond that is
// borrowed. What a queue is guaranteed stays free while it does not use it. Pods from which no queue can
// reclaim never borrow. A queue is at most 6 levels below root.
//
// In rows with the constant tenant, queue t has a quota of four cards A, and deserves all four. It is
// guaranteed two, so a row can guarantee them to its queues. Below it are queues q and r, which deserve two
// each and may use all four. Node a has 8 cards A. A queue or node that a row names again replaces the first
// one. Each row checks the session that places pods, and that the next session leaves them there.
func TestPodsInATreeStartWithinEachLimit(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		scene                  string
		wantPlaced, wantReason string // of job j; "a:2" is two pods on node a
	}{
		"q uses all 4 cards of t, 2 of them borrowed from r, which uses none: placed": {
			scene:      tenant + "job j queue=q min=1 pending=4",
			wantPlaced: "a:4",
		},
		"a parent without children is guaranteed 3, and no queue below it can use them: q gets all 4 cards": {
			scene: `node a model=A cards=4
				queue p quota={"A":4} parentOnly=true guarantee={"A":3}
				queue q quota={"A":4} serviceType=training
				job j queue=q min=1 pending=4`,
			wantPlaced: "a:4",
		},
		"a closed queue has a guarantee of 3, which it cannot use: q gets all 4 cards": {
			scene: `node a model=A cards=4
				queue p quota={"A":4} state=Closed guarantee={"A":3}
				queue q quota={"A":4} serviceType=training
				job j queue=q min=1 pending=4`,
			wantPlaced: "a:4",
		},
		"r uses 3 of the 4 cards of t: q gets 1, whatever its own quota is": {
			scene: tenant + `queue q quota={"A":8} serviceType=training parent=t deserved={"A":2}
				job i queue=r min=1 running=a*3
				job j queue=q min=1 pending=2`,
			wantPlaced: "a:1",
			wantReason: "Queue <t>, an ancestor of <q>, has insufficient <A> quota: requested <1>, total would be <5>, but " +
				"capability is <4>",
		},
		"the parent of t has a quota of 3, and r uses 2: q gets 1": {
			scene: tenant + `queue g quota={"A":3}
				queue t quota={"A":4} parent=g
				job i queue=r min=1 running=a*2
				job j queue=q min=1 pending=2`,
			wantPlaced: "a:1",
			wantReason: "Queue <g>, an ancestor of <q>, has insufficient <A> quota: requested <1>, total would be <4>, but " +
				"capability is <3>",
		},
		"r is guaranteed 1 of the 4 cards of t, and uses none: q gets 3": {
			scene: tenant + `queue r quota={"A":4} serviceType=training parent=t deserved={"A":2} guarantee={"A":1}
				job j queue=q min=1 pending=4`,
			wantPlaced: "a:3",
			wantReason: "Queue <q> cannot use <A> that are guaranteed to other queues: requested <1>, total with unused " +
				"guarantees would be <5>, but capability of <t> is <4>",
		},
		"r is guaranteed 1 of the 4 cards of t, and uses it: q gets 3": {
			scene: tenant + `queue r quota={"A":4} serviceType=training parent=t deserved={"A":2} guarantee={"A":1}
				job i queue=r min=1 running=a
				job j queue=q min=1 pending=4`,
			wantPlaced: "a:3", wantReason: "an ancestor of <q>",
		},
		"q itself is guaranteed 2 of the 4 cards of t, and r uses 2: q gets 2": {
			scene: tenant + `queue q quota={"A":4} serviceType=training parent=t deserved={"A":2} guarantee={"A":2}
				job i queue=r min=1 running=a*2
				job j queue=q min=1 pending=2`,
			wantPlaced: "a:2",
		},
		"r is guaranteed 1 card, but its stop policy Hold lets it start nothing: q gets all 4": {
			scene: tenant + `queue r quota={"A":4} serviceType=training parent=t deserved={"A":2} guarantee={"A":1} stopPolicy=Hold
				job j queue=q min=1 pending=4`,
			wantPlaced: "a:4",
		},
		"the nodes have 4 cards, and r, beside q at the top, is guaranteed 3: q gets 1": {
			scene: `node a model=A cards=4
				queue q quota={"A":4} serviceType=training
				queue r quota={"A":4} serviceType=training guarantee={"A":3}
				job j queue=q min=1 pending=4`,
			wantPlaced: "a:1",
			wantReason: "total with unused guarantees would be <5>, but the inventory is <4>",
		},
		"r is guaranteed 3 of the 4 cards of the nodes, and uses 2: q gets 1": {
			scene: `node a,c model=A cards=2
				queue q quota={"A":4} serviceType=training
				queue r quota={"A":4} serviceType=training guarantee={"A":3}
				job i queue=r min=1 running=c*2
				job j queue=q min=1 pending=2`,
			wantPlaced: "a:1",
			wantReason: "total with unused guarantees would be <5>, but the inventory is <4>",
		},
		"pods that may not be evicted cannot be reclaimed, so they do not borrow: q gets what it deserves, 2": {
			scene:      tenant + "job j queue=q min=1 pending=4 preemptable=false",
			wantPlaced: "a:2",
			wantReason: "Queue <q> cannot borrow <A> for pods from which no other queue can reclaim: requested <1>, such pods" +
				" would use <3>, but deserved is <2>; let the pods be preemptable",
		},
		"the PodGroup may not be evicted: q gets what it deserves, 2": {
			scene:      tenant + "job j queue=q min=1 pending=4 groupPreemptable=false",
			wantPlaced: "a:2", wantReason: "cannot borrow <A>",
		},
		"q is not reclaimable: it gets what it deserves, 2": {
			scene: tenant + `queue q quota={"A":4} serviceType=training reclaimable=false parent=t deserved={"A":2}
				job j queue=q min=1 pending=4`,
			wantPlaced: "a:2", wantReason: "cannot borrow <A>",
		},
		"q has a service type that no rule names, so no type reclaims from it: it gets what it deserves, 2": {
			scene: tenant + `queue q quota={"A":4} serviceType=batch parent=t deserved={"A":2}
				job j queue=q min=1 pending=4`,
			wantPlaced: "a:2", wantReason: "cannot borrow <A>",
		},
		"neither q nor its pods have a service type: q gets what it deserves, 2": {
			scene: tenant + `queue q quota={"A":4} parent=t deserved={"A":2}
				job j queue=q min=1 pending=4`,
			wantPlaced: "a:2", wantReason: "cannot borrow <A>",
		},
		"q has no service type, but its pods are of training: q borrows, and gets all 4": {
			scene: tenant + `queue q quota={"A":4} parent=t deserved={"A":2}
				job j queue=q min=1 pending=4 serviceType=training`,
			wantPlaced: "a:4",
		},
		"2 pods of q that may not be evicted wait beside 2 that may: the first 2 start within what q deserves": {
			scene: tenant + `job j queue=q min=1 pending=2 preemptable=false
				job i queue=q min=1 pending=2`,
			wantPlaced: "a:2",
		},
		"2 pods of q that may be evicted wait beside 2 that may not: the first 2 borrow": {
			scene: tenant + `job i queue=q min=1 pending=2 preemptable=false
				job j queue=q min=1 pending=2`,
			wantPlaced: "a:2",
		},
		"2 pods of q that may be evicted run, and may count as borrowed: 2 that may not get what q deserves": {
			scene: tenant + `job i queue=q min=1 running=a*2
				job j queue=q min=1 pending=2 preemptable=false`,
			wantPlaced: "a:2",
		},
		"t deserves only 1 card: of 2 pods that may not be evicted 1 starts": {
			scene: tenant + `queue t quota={"A":4} deserved={"A":1}
				job j queue=q min=1 pending=2 preemptable=false`,
			wantPlaced: "a:1", wantReason: "cannot borrow <A>",
		},
		"the quota of q says nothing about A: that of t counts, 4 of 5 pods start": {
			scene: tenant + `queue q quota={} serviceType=training parent=t deserved={"A":2}
				job j queue=q min=1 pending=5`,
			wantPlaced: "a:4", wantReason: "but capability is <4>",
		},
		"the job is in t, which has children: refused": {
			scene:      tenant + "job j queue=t min=1 pending=1",
			wantPlaced: "",
			wantReason: "Queue <t> is the parent of other queues and takes no jobs: name one of its children",
		},
		"the job is in a queue that is marked as a parent, and has no children yet: refused": {
			scene: tenant + `queue p quota={"A":4} serviceType=training parentOnly=true
				job j queue=p min=1 pending=1`,
			wantPlaced: "", wantReason: "Queue <p> is the parent of other queues",
		},
		"3 pods of t itself still run, from before it had children: q gets the 1 card that is left": {
			scene: tenant + `job i queue=t min=1 running=a*3
				job j queue=q min=1 pending=2`,
			wantPlaced: "a:1", wantReason: "Queue <t>, an ancestor of <q>,",
		},
		"q names a parent that does not exist: q starts nothing": {
			scene: `node a model=A
				queue q quota={"A":4} serviceType=training parent=gone
				job j queue=q min=1 pending=1`,
			wantPlaced: "",
			wantReason: "Queue <q> names parent <gone>, which does not exist: nothing new starts in it",
		},
		"the parent of q names a parent that does not exist: q starts nothing": {
			scene: `node a model=A
				queue p quota={"A":4} parent=gone
				queue q quota={"A":4} serviceType=training parent=p
				job j queue=q min=1 pending=1`,
			wantPlaced: "", wantReason: "Queue <q> (its ancestor <p>) names parent <gone>",
		},
		"queues that are not above q name a missing parent, or each other: q starts its pod": {
			scene: `node a model=A
				queue p quota={"A":4} parent=gone
				queue x quota={"A":4} parent=y
				queue y quota={"A":4} parent=x
				queue q quota={"A":4} serviceType=training
				job j queue=q min=1 pending=1`,
			wantPlaced: "a:1",
		},
		"q and p name each other as parents: q starts nothing": {
			scene: `node a model=A
				queue q quota={"A":4} serviceType=training parent=p
				queue p quota={"A":4} parent=q
				job j queue=q min=1 pending=1`,
			wantPlaced: "", wantReason: "which leads back to it",
		},
		"q7 is 7 levels below root: it starts nothing": {
			scene:      chainOfQueues(7) + "job j queue=q7 min=1 pending=1",
			wantPlaced: "",
			wantReason: "Queue <q7> is more than 6 levels below <root>: nothing new starts in it",
		},
		"q6 is 6 levels below root: it starts its pod": {
			scene:      chainOfQueues(6) + "job j queue=q6 min=1 pending=1",
			wantPlaced: "a:1",
		},
		"the stop policy of q is Hold: q starts nothing": {
			scene: tenant + `queue q quota={"A":4} serviceType=training parent=t stopPolicy=Hold
				job j queue=q min=1 pending=1`,
			wantPlaced: "",
			wantReason: "Queue <q> is held by its stop policy: nothing new starts in it; set stopPolicy to None",
		},
		"the stop policy of t is HoldAndDrain: q starts nothing": {
			scene: tenant + `queue t quota={"A":4} stopPolicy=HoldAndDrain
				job j queue=q min=1 pending=1`,
			wantPlaced: "", wantReason: "Queue <q> (its ancestor <t>) is held by its stop policy",
		},
		"the stop policy of t is an unknown word: q starts nothing": {
			scene: tenant + `queue t quota={"A":4} stopPolicy=Freeze
				job j queue=q min=1 pending=1`,
			wantPlaced: "", wantReason: "is held by its stop policy",
		},
		"t selects namespaces of team chat, and the job is in one of team lab: refused": {
			scene: tenant + `queue t quota={"A":4} namespaceSelector={"matchLabels":{"team":"chat"}}
				namespace ns team=lab
				job j queue=q min=1 pending=1`,
			wantPlaced: "", wantReason: "Namespace <ns> may not use queue <t>: ask an administrator",
		},
		"t selects namespaces of team chat, and the job is in one: placed": {
			scene: tenant + `queue t quota={"A":4} namespaceSelector={"matchLabels":{"team":"chat"}}
				namespace ns team=chat
				job j queue=q min=1 pending=1`,
			wantPlaced: "a:1",
		},
		"what q deserves is no whole number: q starts nothing": {
			scene: tenant + `queue q quota={"A":4} serviceType=training parent=t deserved={"A":1.5}
				job j queue=q min=1 pending=1`,
			wantPlaced: "", wantReason: "invalid volcano.sh/card.deserved",
		},
		"5 pods of r are being deleted and still use their cards, more than the quota of t: q starts nothing": {
			scene: tenant + `job gone queue=r min=1 running=a*5
				job j queue=q min=1 pending=1`,
			wantPlaced: "",
			wantReason: "Queue <t>, an ancestor of <q>, gets no more <A> while pods that are being deleted hold more than its" +
				" quota: terminating <5>, but quota is <4>",
		},
		"Volcano's queue root says a quota of 0, which does not count: q starts 2 pods": {
			scene: `node a model=A
				queue root quota={"A":0}
				queue q quota={"A":4} serviceType=training parent=root
				job j queue=q min=1 pending=2`,
			wantPlaced: "a:2",
		},
	}) {
		s := newTreeScene(t, tc.scene, func(p *corev1.Pod) {
			if strings.HasPrefix(p.Name, "gone-") {
				deleted(p)
			}
		})
		s.enqueueAndAllocate()
		check.Equal(t, "placed", tc.wantPlaced, s.podsByNode("j"))
		checkText(t, "reasons", tc.wantReason, s.Job("j").JobFitErrors+s.refusals("j"))

		s.openSession()
		check.Equal(t, "placed pods in the next session", tc.wantPlaced, s.podsByNode("j"))
	}
}

// TestHeldQueueStartsNothing: a queue with the stop policy Hold starts no pod, also where queues form no tree. Without
// a tree, queue r is not held, although it names the held queue q as its parent.
func TestHeldQueueStartsNothing(t *testing.T) {
	s := newScene(t, `node a model=A
		queue q quota={"A":4} stopPolicy=Hold
		job j queue=q min=1 pending=1
		queue r quota={"A":4} parent=q
		job i queue=r min=1 pending=1`).enqueueAndAllocate()

	check.Equal(t, "placed of the held queue", "", s.podsByNode("j"))
	check.Equal(t, "placed of the other queue", "a:1", s.podsByNode("i"))
	check.Says(t, s.p.QueueRules["q"].Refusal, "Queue <q> is held by its stop policy")
}

// TestPredicateNamesTheLimitThatIsExceeded: Volcano asks the predicate about a pod and a node. Its reason names the
// queue whose limit pod j-0 of queue q exceeds. That is t, the parent of q and r, if r uses the whole quota of 4 of t.
// It is q itself if j-0 may not be evicted, and such pods already use the 2 cards that q deserves.
func TestPredicateNamesTheLimitThatIsExceeded(t *testing.T) {
	const quotaOfT = "queue <t>, an ancestor of <q>, has insufficient <A> quota: " +
		"requested <1>, total would be <5>, but capability is <4>"
	for jobs, wantReason := range map[string]string{
		"job i queue=r min=1 running=a*4; job j queue=q min=1 pending=1":                                     quotaOfT,
		"job i queue=q min=1 running=a*2 preemptable=false; job j queue=q min=1 pending=1 preemptable=false": "queue <q> cannot borrow <A>",
	} {
		s := newTreeScene(t, tenant+jobs).openSession()
		check.Says(t, s.p.nodes.predicate(s.Task("j-0"), s.Ssn.Nodes["a"]), wantReason)
	}
}

// TestJobsInATreeAreEnqueuedWithinEachLimit: a job without pods waits in PodGroup phase Pending until Volcano
// enqueues it. It needs its minimum (minCards=) within the limits of its queue and of all ancestors, beside
// what they use. What enqueued jobs, those without phase=Pending, have reserved counts too. Within what its
// queue deserves, borrowed cards of others do not count, because they are taken back. A job that may not be
// evicted never borrows.
//
// In rows with the constant tenant, queue t has a quota of four cards A. It is guaranteed two, so a row can
// guarantee them to its queues. Below it are queues q and r, which deserve two each unless the row says more.
// A queue or node that a row names again replaces the first one.
func TestJobsInATreeAreEnqueuedWithinEachLimit(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		scene      string
		wantReason string // "" if job j is enqueued
	}{
		"2 cards, and q deserves 2: enqueued": {
			scene: tenant + `job j queue=q min=2 phase=Pending minCards=2 request={"A":2}`,
		},
		"q deserves 1, and r has enqueued 3 of the 4 cards of t: refused": {
			scene: tenant + `queue q quota={"A":4} serviceType=training parent=t deserved={"A":1}
				job i queue=r min=3 minCards=3 request={"A":3}
				job j queue=q min=2 phase=Pending minCards=2 request={"A":2}`,
			wantReason: "Queue <t>, an ancestor of <q>, has insufficient <A> quota: requested <2>, total would be <5>, but " +
				"capability is <4>",
		},
		"q deserves 2, and r has enqueued all 4 cards of t, 2 of them borrowed: enqueued": {
			scene: tenant + `job i queue=r min=4 minCards=4 request={"A":4}
				job j queue=q min=2 phase=Pending minCards=2 request={"A":2}`,
		},
		"q deserves 1, and r uses 3 of the 4 cards of t: refused": {
			scene: tenant + `queue q quota={"A":4} serviceType=training parent=t deserved={"A":1}
				job i queue=r min=3 running=a*3
				job j queue=q min=2 phase=Pending minCards=2 request={"A":2}`,
			wantReason: "an ancestor of <q>",
		},
		"q deserves 1, and r uses 3 cards, 1 of them for an elastic pod, which can make way: enqueued": {
			scene: tenant + `queue q quota={"A":4} serviceType=training parent=t deserved={"A":1}
				job i queue=r min=2 running=a*3
				job j queue=q min=2 phase=Pending minCards=2 request={"A":2}`,
		},
		"q deserves 1, and r has enqueued 3 cards but is held, so it starts nothing: enqueued": {
			scene: tenant + `queue q quota={"A":4} serviceType=training parent=t deserved={"A":1}
				queue r quota={"A":4} serviceType=training parent=t stopPolicy=Hold
				job i queue=r min=3 minCards=3 request={"A":3}
				job j queue=q min=2 phase=Pending minCards=2 request={"A":2}`,
		},
		"a job that may not be evicted needs 3, and q deserves 2: refused": {
			scene:      tenant + `job j queue=q min=3 phase=Pending minCards=3 request={"A":3} groupPreemptable=false`,
			wantReason: "cannot borrow <A> for pods from which no other queue can reclaim: requested <3>",
		},
		"a job that may not be evicted needs 2 beside 1 that such a pod uses: refused": {
			scene: tenant + `job i queue=q min=1 running=a preemptable=false
				job j queue=q min=2 phase=Pending minCards=2 request={"A":2} groupPreemptable=false`,
			wantReason: "such pods would use <3>",
		},
		"a job that may not be evicted needs 1 beside 2 that such a job has reserved: refused": {
			scene: tenant + `job i queue=q min=2 minCards=2 request={"A":2} groupPreemptable=false
				job j queue=q min=1 phase=Pending minCards=1 request={"A":1} groupPreemptable=false`,
			wantReason: "such pods would use <3>",
		},
		"a job that may not be evicted needs 2 beside 1 of a pod that may: enqueued": {
			scene: tenant + `job i queue=q min=1 running=a
				job j queue=q min=2 phase=Pending minCards=2 request={"A":2} groupPreemptable=false`,
		},
		"a job needs 3 of the 4 cards of t, and r is guaranteed 2: refused": {
			scene: tenant + `queue r quota={"A":4} serviceType=training parent=t deserved={"A":2} guarantee={"A":2}
				job j queue=q min=3 phase=Pending minCards=3 request={"A":3}`,
			wantReason: "cannot use <A> that are guaranteed to other queues: requested <3>, total with unused guarantees " +
				"would be <5>, but capability of <t> is <4>",
		},
		"2 cards, and the quota of q itself is 1: refused": {
			scene: tenant + `queue q quota={"A":1} serviceType=training parent=t
				job j queue=q min=2 phase=Pending minCards=2 request={"A":2}`,
			wantReason: "Queue <q> has insufficient <A> quota: requested <2>, total would be <2>, but capability is <1>",
		},
		"q has no service type, but the pods that do not exist yet may have one and then borrow: enqueued": {
			scene: tenant + `queue q quota={"A":4} parent=t deserved={"A":2}
				job j queue=q min=3 phase=Pending minCards=3 request={"A":3}`,
		},
		"4 cards, of which q would borrow 3, and 6 of the 8 cards of the nodes are guaranteed to r: refused": {
			scene: `node a model=A cards=8
				queue x quota={"A":4} deserved={"A":1}
				queue q quota={"A":4} serviceType=training parent=x deserved={"A":1}
				queue r quota={"A":8} serviceType=training deserved={"A":6} guarantee={"A":6}
				job j queue=q min=4 phase=Pending minCards=4 request={"A":4}`,
			wantReason: "Queue <q> cannot use <A> that are guaranteed to other queues: requested <4>, total with unused " +
				"guarantees would be <10>, but the inventory is <8>",
		},
		"1 of 2 cards is borrowed, and of 4 cards of the nodes r uses 2, r and q have reserved 1 each: refused": {
			scene: `node a model=A cards=4
				queue q quota={"A":8} serviceType=training deserved={"A":2}
				queue r quota={"A":8} serviceType=training deserved={"A":4}
				job i queue=r min=1 running=a*2
				job k queue=r min=1 minCards=1 request={"A":1}
				job j queue=q min=2 phase=Pending minCards=2 request={"A":2}
				job l queue=q min=1 minCards=1 request={"A":1}`,
			wantReason: "Queue <q> cannot borrow <A> that the nodes do not have: requested <2>, total with usage and " +
				"reservations of all queues would be <6>, but the inventory is <4>",
		},
		"2 cards, which q deserves, and the nodes have 1: enqueued, so that it waits for nodes": {
			scene: `node a model=A cards=1
				queue q quota={"A":8} serviceType=training deserved={"A":2}
				job j queue=q min=2 phase=Pending minCards=2 request={"A":2}`,
		},
		"the job is in t, which has children: refused before it has pods": {
			scene:      tenant + "job j queue=t min=1 phase=Pending minCards=1",
			wantReason: "is the parent of other queues",
		},
	}) {
		newTreeScene(t, tc.scene).enqueueAndAllocate().checkEnqueued(t, "j", tc.wantReason)
	}
}

// TestATreeOrdersQueuesByWhatTheyDeserve: Volcano serves queues in the order of queueOrder. Higher priority
// comes first. Of equal priority, queues that use less than they deserve come first, among them the one that
// uses the smaller part of it. Then come queues that borrow, among them first the one that borrows less for
// its weight. Queues of different tenants are compared by their tenants. Tenants t and u deserve their quota
// of 8. Tenant t has queues q and r, which deserve 4 cards each, tenant u has queue v, which deserves 8. A
// queue that a row names again replaces the first one.
func TestATreeOrdersQueuesByWhatTheyDeserve(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct{ scene, wantFirst, wantSecond string }{
		"q has the higher priority and uses what it deserves, r uses nothing: q": {
			scene: `queue q quota={"A":8} priority=2 serviceType=training parent=t deserved={"A":4}
				job i queue=q min=1 running=a*4`,
			wantFirst: "q", wantSecond: "r",
		},
		"q uses 2 of 4 deserved cards, r 1 of 4: r": {
			scene: `job i queue=q min=1 running=a*2
				job k queue=r min=1 running=a`,
			wantFirst: "r", wantSecond: "q",
		},
		"q uses 2 of 4 deserved cards, r 2 of 2, and both have a quota of 8: q": {
			scene: `queue r quota={"A":8} serviceType=training parent=t deserved={"A":2}
				job i queue=q min=1 running=a*2
				job k queue=r min=1 running=a*2`,
			wantFirst: "q", wantSecond: "r",
		},
		"q uses 5 and so borrows 1, r uses 3 of 4 deserved cards: r": {
			scene: `job i queue=q min=1 running=a*5
				job k queue=r min=1 running=a*3`,
			wantFirst: "r", wantSecond: "q",
		},
		"q borrows 2, r 1: r": {
			scene: `job i queue=q min=1 running=a*6
				job k queue=r min=1 running=a*5`,
			wantFirst: "r", wantSecond: "q",
		},
		"q borrows 2 at a weight of 3, r 1 at a weight of 1: q": {
			scene: `queue q quota={"A":8} serviceType=training parent=t deserved={"A":4} weight=3
				job i queue=q min=1 running=a*6
				job k queue=r min=1 running=a*5`,
			wantFirst: "q", wantSecond: "r",
		},
		"t, the tenant of r, uses 5 of 8 deserved cards, and u, that of v, 6 of 8: r": {
			scene: `job i queue=q min=1 running=a*5
				job k queue=v min=1 running=a*6`,
			wantFirst: "r", wantSecond: "v",
		},
		"r itself uses nothing, but its tenant t 5 of 8 deserved cards, and u, that of v, 4 of 8: v": {
			scene: `job i queue=q min=1 running=a*5
				job k queue=v min=1 running=a*4`,
			wantFirst: "v", wantSecond: "r",
		},
		"q uses 3 of 4 deserved cards, r deserves none, so it counts as one that uses all: q": {
			scene: `queue r quota={"A":8} serviceType=training parent=t deserved={"A":0}
				job i queue=q min=1 running=a*3`,
			wantFirst: "q", wantSecond: "r",
		},
	}) {
		s := newTreeScene(t, `node a model=A cards=16
			queue t quota={"A":8}
			queue u quota={"A":8}
			queue q quota={"A":8} serviceType=training parent=t deserved={"A":4}
			queue r quota={"A":8} serviceType=training parent=t deserved={"A":4}
			queue v quota={"A":8} serviceType=training parent=u deserved={"A":8}
			`+tc.scene).openSession()
		first := s.Ssn.Queues[api.QueueID(tc.wantFirst)]
		second := s.Ssn.Queues[api.QueueID(tc.wantSecond)]

		check.That(t, s.p.allocation.queueOrder(first, second) < 0, "%s does not come before %s", tc.wantFirst, tc.wantSecond)
		check.That(t, s.p.allocation.queueOrder(second, first) > 0, "%s does not come after %s", tc.wantSecond, tc.wantFirst)
	}
}
