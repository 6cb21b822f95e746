package cardreclaim

import (
	"maps"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/session"
)

// treeCase is a session of cardreclaim with a tree of queues. A queue of the text replaces one of the same name.
// minimumRuntime is that of training. wantVictims counts the evicted pods by queue, wantPlaced the pods of job r that
// get a card.
type treeCase struct {
	text           string
	minimumRuntime string
	wantVictims    string
	wantPlaced     int
}

// runTreeCases runs a session of cardreclaim on each case.
func runTreeCases(t *testing.T, tree string, cases map[string]treeCase) {
	for t, tc := range check.Cases(t, cases) {
		s := newTree(tree + tc.text)
		if tc.minimumRuntime != "" {
			maps.Copy(s.arguments, minimumRuntimeOfTraining(tc.minimumRuntime))
		}

		s.withoutAllocate = true // cardreclaim itself places pods that need no eviction
		s.runSession(t)
		check.Equal(t, "evicted pods by queue", tc.wantVictims, s.evictedByQueue())
		check.Equal(t, "pods of r that get a card", tc.wantPlaced, s.countPlaced("r"))
	}
}

// TestAQueueOfATreeReclaimsOnlyWhatItDeserves: in a tree a queue may use cards up to its quota. What it uses beyond
// deserved is borrowed. A queue that uses less than it deserves takes cards back from borrowers, but no queue evicts
// pods in order to borrow. Tenants x and y deserve 4 of the 8 cards each, and job r is the one that reclaims. In a row,
// a queue replaces the one of the same name, and wantVictims "xb 2" means two pods of queue xb.
func TestAQueueOfATreeReclaimsOnlyWhatItDeserves(t *testing.T) {
	const tenants = `
		queue x quota=8 deserved=4
		queue xa parent=x quota=8 deserved=2 serviceType=training
		queue xb parent=x quota=8 deserved=2 serviceType=training
		queue y quota=8 deserved=4
		queue ya parent=y quota=8 deserved=4 serviceType=training
		node n model=A cards=8
	`

	runTreeCases(t, tenants, map[string]treeCase{
		"xa deserves 2, uses none, requests 2; xb has borrowed 2": {text: `
			job b queue=xb min=1 running=n*4 age=1h
			job c queue=ya min=1 running=n*4 age=1h
			job r queue=xa min=2 pending=2`, wantVictims: "xb 2", wantPlaced: 2},
		"xa deserves 2 and uses 2: none": {text: `
			job b queue=xb min=1 running=n*4 age=1h
			job d queue=xa min=1 running=n*2 age=1h
			job c queue=ya min=1 running=n*2 age=1h
			job r queue=xa min=1 pending=1`},
		"xa deserves 2, a gang requests 3: none": {text: `
			job b queue=xb min=1 running=n*4 age=1h
			job c queue=ya min=1 running=n*4 age=1h
			job r queue=xa min=3 pending=3`},
		"xa deserves 2, a job of minimum one requests 3: two of them": {text: `
			job b queue=xb min=1 running=n*4 age=1h
			job c queue=ya min=1 running=n*4 age=1h
			job r queue=xa min=1 pending=3`, wantVictims: "xb 2", wantPlaced: 2},
		"xa uses 4 of its guarantee of 6, and the cards beyond that stay for the guarantee of y, 4: two of 4 pods": {text: `
			queue x quota=8 deserved=8 guarantee=6
			queue xa parent=x quota=8 deserved=8 guarantee=6 serviceType=training
			queue xb parent=x quota=8 deserved=0 serviceType=training
			queue y quota=8 deserved=8 guarantee=4
			queue ya parent=y quota=8 deserved=8 guarantee=4 serviceType=training
			queue z quota=8 deserved=1
			queue za parent=z quota=8 deserved=1 serviceType=training
			job b queue=za min=1 running=n*4 age=1h
			job d queue=xa min=1 running=n*4 age=1h
			job r queue=xa min=1 pending=4`, wantVictims: "za 2", wantPlaced: 2},
		"a job of higher priority takes nothing from its own queue": {text: `
			job b queue=xb min=1 running=n*8 age=1h priority=1
			job r queue=xb min=1 pending=1 priority=9`},
		"xa uses what it deserves, and its higher queue priority does not help": {text: `
			queue xa parent=x quota=8 deserved=2 serviceType=training priority=29000
			job b queue=xb min=1 running=n*6 age=1h
			job d queue=xa min=1 running=n*2 age=1h
			job r queue=xa min=1 pending=1`},
		"xa has a service type that the policy does not define: none": {text: `
			queue xa parent=x quota=8 deserved=2 serviceType=batch priority=20000
			job b queue=xb min=1 running=n*4 age=1h
			job c queue=ya min=1 running=n*4 age=1h
			job r queue=xa min=1 pending=1`},
	})
}

// TestATreeReclaimsFromTheNearestQueueThatBorrows: a queue takes cards back from siblings first, then from queues one
// level up. All queues on the way from the victim to the common ancestor must have borrowed. Of queues at the same
// distance the one of lower priority loses. Tenants x and y deserve 4 of the 8 cards each, and job r reclaims. In a
// row, a queue replaces the one of the same name, and wantVictims "xb 2" means two pods of queue xb.
func TestATreeReclaimsFromTheNearestQueueThatBorrows(t *testing.T) {
	const tenants = `
		queue x quota=8 deserved=4
		queue xa parent=x quota=8 deserved=2 serviceType=training
		queue xb parent=x quota=8 deserved=2 serviceType=training
		queue y quota=8 deserved=4
		queue ya parent=y quota=8 deserved=4 serviceType=training
		node n model=A cards=8
	`

	runTreeCases(t, tenants, map[string]treeCase{
		"two cards: one of three jobs of xb, which has borrowed one, and one pod of ya, which has borrowed one": {text: `
			job b queue=xb min=1 running=n age=9h
			job e queue=xb min=1 running=n age=9h
			job f queue=xb min=1 running=n age=9h
			job c queue=ya min=1 running=n*5 age=1h
			job r queue=xa min=2 pending=2`, wantVictims: "xb 1, ya 1", wantPlaced: 2},
		"one card: from sibling xb, which loses 9 hours, not from ya, which loses one": {text: `
			job b queue=xb min=1 running=n*3 age=9h
			job c queue=ya min=1 running=n*5 age=1h
			job r queue=xa min=1 pending=1`, wantVictims: "xb 1", wantPlaced: 1},
		"xb uses the 2 that it deserves, ya has borrowed 2: ya": {text: `
			job b queue=xb min=1 running=n*2 age=1h
			job c queue=ya min=1 running=n*6 age=1h
			job r queue=xa min=2 pending=2`, wantVictims: "ya 2", wantPlaced: 2},
		"tenant x uses the 4 that it deserves, and xb is in its minimum runtime: tenant y keeps the 2 that it has borrowed": {text: `
			queue y quota=8 deserved=2
			queue ya parent=y quota=8 deserved=2 serviceType=training
			job b queue=xb min=1 running=n*4 age=10s
			job c queue=ya min=1 running=n*4 age=1h
			job r queue=xa min=2 pending=2`, minimumRuntime: "1m"},
		"ya has borrowed 2, and 2 of its 6 pods are protected: 2 of the other 4": {text: `
			job b queue=xb min=1 running=n*2 age=1h
			job c queue=ya min=1 running=n*4 age=1h
			job e queue=ya min=1 running=n*2 age=1h preemptable=false
			job r queue=xa min=2 pending=2`, wantVictims: "ya 2", wantPlaced: 2},
		"ya has borrowed 4 from yb, and tenant y has borrowed nothing: none": {text: `
			queue x quota=8 deserved=2
			queue xb parent=x quota=8 deserved=0 serviceType=training
			queue y quota=8 deserved=6
			queue ya parent=y quota=8 deserved=2 serviceType=training
			queue yb parent=y quota=8 deserved=4 serviceType=training
			queue other quota=8 deserved=1 serviceType=training
			job filler queue=other min=1 running=n age=1h
			job c queue=ya min=1 running=n*6 age=1h
			job d queue=xa min=1 running=n age=1h
			job r queue=xa min=1 pending=1`},
		"ya has borrowed, but is not reclaimable: none": {text: `
			queue ya parent=y quota=8 deserved=4 serviceType=training reclaimable=false
			job b queue=xb min=1 running=n*2 age=1h
			job c queue=ya min=1 running=n*6 age=1h
			job r queue=xa min=1 pending=1`},
		"ya has borrowed, with a service type that the policy does not define: none": {text: `
			queue ya parent=y quota=8 deserved=4 serviceType=batch priority=20000
			job b queue=xb min=1 running=n*2 age=1h
			job c queue=ya min=1 running=n*6 age=1h
			job r queue=xa min=1 pending=1`},
		"the pods of ya are protected: none": {text: `
			job b queue=xb min=1 running=n*2 age=1h
			job c queue=ya min=1 running=n*6 age=1h preemptable=false
			job r queue=xa min=1 pending=1`},
		"the pods of ya have run for 10 seconds of their minimum runtime of a minute: none": {text: `
			job b queue=xb min=1 running=n*2 age=1h
			job c queue=ya min=1 running=n*6 age=10s
			job r queue=xa min=1 pending=1`, minimumRuntime: "1m"},
		"training takes back what inference, of higher priority, has borrowed": {text: `
			queue xa parent=x quota=8 deserved=4 serviceType=training
			queue xb parent=x quota=8 deserved=0 serviceType=training
			queue ya parent=y quota=8 deserved=4 serviceType=inference reclaimable=true
			job c queue=ya min=1 running=n*8 age=1h
			job r queue=xa min=1 pending=1`, wantVictims: "ya 1", wantPlaced: 1},
		"ya and za have borrowed 2 each: za has the lower priority": {text: `
			queue xa parent=x quota=8 deserved=4 serviceType=training
			queue xb parent=x quota=8 deserved=0 serviceType=training
			queue y quota=8 deserved=2
			queue ya parent=y quota=8 deserved=2 serviceType=training priority=20009
			queue z quota=8 deserved=2
			queue za parent=z quota=8 deserved=2 serviceType=training priority=20001
			job c queue=ya min=1 running=n*4 age=1h
			job d queue=za min=1 running=n*4 age=9h
			job r queue=xa min=1 pending=1`, wantVictims: "za 1", wantPlaced: 1},
	})
}

// TestAVictimQueueOfATreeKeepsWhatItIsDue: by the tree a queue loses only what it has borrowed. A gang is evicted
// whole, so the queue may fall below deserved, but never below its guarantee. By the reclaim matrix inference takes
// cards from training of lower priority, up to what inference deserves. Training may fall below deserved as well.
// Tenants x and y deserve 4 of the 8 cards each, and job r reclaims. In a row, a queue replaces the one of the same
// name, and wantVictims "xb 2" means two pods of queue xb.
func TestAVictimQueueOfATreeKeepsWhatItIsDue(t *testing.T) {
	const tenants = `
		queue x quota=8 deserved=4
		queue xa parent=x quota=8 deserved=2 serviceType=training
		queue xb parent=x quota=8 deserved=2 serviceType=training
		queue y quota=8 deserved=4
		queue ya parent=y quota=8 deserved=4 serviceType=training
		node n model=A cards=8
	`

	runTreeCases(t, tenants, map[string]treeCase{
		"elastic jobs: xb and ya have borrowed one each, and keep what they deserve": {text: `
			job b queue=xb min=1 running=n*3 age=1h
			job c queue=ya min=1 running=n*5 age=1h
			job r queue=xa min=2 pending=2`, wantVictims: "xb 1, ya 1", wantPlaced: 2},
		"a gang of 6, of which ya deserves 4: all 6": {text: `
			job b queue=xb min=2 running=n*2 age=1h
			job c queue=ya min=6 running=n*6 age=1h
			job r queue=xa min=1 pending=1`, wantVictims: "ya 6", wantPlaced: 1},
		"a gang of 6, ya has a guarantee of 1: none": {text: `
			queue y quota=8 deserved=4 guarantee=1
			queue ya parent=y quota=8 deserved=4 guarantee=1 serviceType=training
			job b queue=xb min=2 running=n*2 age=1h
			job c queue=ya min=6 running=n*6 age=1h
			job r queue=xa min=1 pending=1`},
		"a gang of 6, its tenant y has a guarantee of 1: none": {text: `
			queue y quota=8 deserved=4 guarantee=1
			job b queue=xb min=2 running=n*2 age=1h
			job c queue=ya min=6 running=n*6 age=1h
			job r queue=xa min=1 pending=1`},
		"by the matrix: ya uses the 8 that it deserves and loses 4": {text: `
			queue xa parent=x quota=8 deserved=4 serviceType=inference
			queue xb parent=x quota=8 deserved=0 serviceType=training
			queue y quota=8 deserved=8
			queue ya parent=y quota=8 deserved=8 serviceType=training
			job c queue=ya min=1 running=n*8 age=1h
			job r queue=xa min=4 pending=4`, wantVictims: "ya 4", wantPlaced: 4},
		"by the matrix: ya keeps its guarantee of 6 of 8": {text: `
			queue xa parent=x quota=8 deserved=4 serviceType=inference
			queue xb parent=x quota=8 deserved=0 serviceType=training
			queue y quota=8 deserved=8 guarantee=6
			queue ya parent=y quota=8 deserved=8 guarantee=6 serviceType=training
			job c queue=ya min=1 running=n*8 age=1h
			job r queue=xa min=1 pending=4`, wantVictims: "ya 2", wantPlaced: 2},
		"by the matrix: xa deserves 3, and its gang requests 4: none": {text: `
			queue x quota=8 deserved=3
			queue xa parent=x quota=8 deserved=3 serviceType=inference
			queue xb parent=x quota=8 deserved=0 serviceType=training
			queue y quota=8 deserved=8
			queue ya parent=y quota=8 deserved=8 serviceType=training
			job c queue=ya min=1 running=n*8 age=1h
			job r queue=xa min=4 pending=4`},
		"by the matrix: ya has the higher priority: none": {text: `
			queue xa parent=x quota=8 deserved=4 serviceType=inference
			queue xb parent=x quota=8 deserved=0 serviceType=training
			queue y quota=8 deserved=8
			queue ya parent=y quota=8 deserved=8 serviceType=training priority=90000
			job c queue=ya min=1 running=n*8 age=1h
			job r queue=xa min=1 pending=1`},
	})
}

// TestATreeReclaimsOnlyWhatIsInsufficient: pods are evicted only if free cards, or the quotas of the ancestors,
// do not suffice. If a quota is insufficient, only victims below the same ancestor release it, on whatever node.
// Each row has its own nodes. Tenants x and y deserve 4 and have a quota of 8, of card A and of card B each. Job
// r reclaims. In a row, a queue replaces the one of the same name, and wantVictims "xb 2" means two pods of
// queue xb.
func TestATreeReclaimsOnlyWhatIsInsufficient(t *testing.T) {
	const tenants = `
		queue x quota=8 deserved=4
		queue xa parent=x quota=8 deserved=2 serviceType=training
		queue xb parent=x quota=8 deserved=2 serviceType=training
		queue y quota=8 deserved=4
		queue ya parent=y quota=8 deserved=4 serviceType=training
	`

	runTreeCases(t, tenants, map[string]treeCase{
		"2 of 10 cards are free: r gets them without an eviction": {text: `
			node n model=A cards=10
			job b queue=xb min=1 running=n*4 age=1h
			job c queue=ya min=1 running=n*4 age=1h
			job r queue=xa min=2 pending=2`, wantPlaced: 2},
		"8 of 16 cards are free, but xb uses the quota of tenant x, 8": {text: `
			node n model=A cards=16
			job b queue=xb min=1 running=n*8 age=1h
			job r queue=xa min=2 pending=2`, wantVictims: "xb 2", wantPlaced: 2},
		"the quota of x is used: ya, which loses less, does not release it": {text: `
			node n model=A cards=16
			job b queue=xb min=1 running=n*8 age=9h
			job c queue=ya min=1 running=n*6 age=1h
			job r queue=xa min=2 pending=2`, wantVictims: "xb 2", wantPlaced: 2},
		"the quota of x is used on node m, and r gets free cards of node n": {text: `
			node n model=A cards=4
			node m model=A cards=8
			job b queue=xb min=1 running=m*8 age=1h
			job r queue=xa min=2 pending=2`, wantVictims: "xb 2", wantPlaced: 2},
		"4 cards are free and stay for the guarantee of y, 4": {text: `
			queue y quota=8 deserved=4 guarantee=4
			queue ya parent=y quota=8 deserved=4 guarantee=4 serviceType=training
			node n model=A cards=8
			job b queue=xb min=1 running=n*4 age=1h
			job r queue=xa min=2 pending=2`, wantVictims: "xb 2", wantPlaced: 2},
		"card A is needed, xb has borrowed card B only: none": {text: `
			node n model=B cards=8
			node m model=A cards=2
			job b queue=xb min=1 running=n*8 card=B age=1h
			job c queue=ya min=1 running=m*2 age=1h
			job r queue=xa min=1 pending=1`},
		"card B is needed, and each card has its own numbers": {text: `
			node n model=B cards=8
			job b queue=xb min=1 running=n*8 card=B age=1h
			job r queue=xa min=2 pending=2 card=B`, wantVictims: "xb 2", wantPlaced: 2},
	})
}

// TestCardsThatTheInventoryLacksServeNoGuarantee: the 2 free cards of node n stay for the guarantee of tenant y,
// 2. So xa must reclaim 2 cards. Job cheap on node m has run for one hour, job costly on node n for 9 hours. The
// cards of m are not in the inventory, so an eviction there does not help although it loses less. "costly*2" are
// the pods costly-0 and costly-1, "r@n*2" are r-0 and r-1 on node n.
func TestCardsThatTheInventoryLacksServeNoGuarantee(t *testing.T) {
	for t, change := range check.Cases(t, map[string]nodeChange{
		"node m is cordoned": func(n *corev1.Node) { n.Spec.Unschedulable = true },
		"node m has 4 cards, its label says one: new pods get none": withNodeLabel("nvidia.com/gpu.count", "1"),
	}) {
		s := newTree(`
			queue x quota=8 deserved=6
			queue xa parent=x quota=8 deserved=6 serviceType=training
			queue y quota=8 deserved=8 guarantee=2
			queue ya parent=y quota=8 deserved=8 guarantee=2 serviceType=training
			queue z quota=8 deserved=1
			queue za parent=z quota=8 deserved=1 serviceType=training
			node n,m model=A cards=4
			job cheap queue=za min=1 running=m*2 age=1h
			job costly queue=za min=1 running=n*2 age=9h
			job r queue=xa min=2 pending=2`).changeNodes(nil, change)

		s.runSession(t).expectEvictedAndPlaced(t, "costly*2", "r@n*2")
	}
}

// TestCardsThatANodeDoesNotOfferAreNotReclaimedInFlatQueues: node m has 2 cards, but its label says one, so new
// pods get none of them. Both gangs have run for one hour, so their evictions would lose the same, and by name
// gang a would be first. Job r gets the cards of node n, as those of m would not help it. "b*2" are the pods b-0
// and b-1, "r@n*2" are r-0 and r-1 on node n.
func TestCardsThatANodeDoesNotOfferAreNotReclaimedInFlatQueues(t *testing.T) {
	s := newInferenceAndTrainingScene(`
		node n,m model=A cards=2
		job b queue=training min=2 running=n*2 age=1h
		job a queue=training min=2 running=m*2 age=1h
		job r queue=inference min=2 pending=2`).changeNodes(nil, withNodeLabel("nvidia.com/gpu.count", "1"))

	s.runSession(t).expectEvictedAndPlaced(t, "b*2", "r@n*2")
}

// TestAQueueWithoutQuotaDeservesNothing: with UnmanagedQueues=Ignore a queue without quota may use any free cards. But
// its pods evict none, whatever service type they name. Its pods come after those of queues that deserve cards, although
// queue free has the higher priority. In the first scene ya has borrowed 4 of its 8 cards, and keeps them. In the second
// one 4 cards are free: 3 for ya, and the last for a pod of queue free.
func TestAQueueWithoutQuotaDeservesNothing(t *testing.T) {
	const queues = `
		queue y quota=8 deserved=4
		queue ya parent=y quota=8 deserved=4 serviceType=training
		queue free cpu=1000 priority=90000
	`

	for t, serviceType := range check.Cases(t, map[string]string{"pods of training": "training", "pods of inference": "inference"}) {
		s := newTree(queues + `
			node n model=A cards=8
			job borrower queue=ya min=1 running=n*8 age=1h
			job r queue=free min=1 pending=6 serviceType=` + serviceType)
		s.arguments["unmanagedQueues"] = "Ignore"
		s.runSession(t).expectEvictedAndPlaced(t, "", "")
		s.Close()

		s = newTree(queues + `
			node n model=A cards=4
			job deserving queue=ya min=1 pending=3
			job r queue=free min=1 pending=6 serviceType=` + serviceType)
		s.arguments["unmanagedQueues"] = "Ignore"
		bound := session.Names(s.runSession(t).In(api.Binding))
		check.That(t, strings.HasPrefix(bound, "deserving-0@n deserving-1@n deserving-2@n r-"), "%q are bound", bound)
	}
}

// TestAFlatQueueWithoutQuotaTakesNothing: with UnmanagedQueues=Ignore the pod of queue free may use any free card, but it
// evicts no pod of training: its queue has no quota of cards that it could take back. With a quota the same pod does.
func TestAFlatQueueWithoutQuotaTakesNothing(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct{ quota, wantEvicted, wantPlaced string }{
		"without quota":     {"", "", ""},
		"a quota of 8":      {"quota=8", "b-0", "r-0@n"},
		"a quota of 0 of A": {"quota=0", "", ""},
	}) {
		s := newInferenceAndTrainingScene(`
			queue free ` + tc.quota + ` cpu=1000 priority=90000
			node n model=A cards=2
			job b queue=training min=1 running=n*2 age=1h
			job r queue=free min=1 pending=1 serviceType=inference`)
		s.arguments = map[string]any{"unmanagedQueues": "Ignore"}

		s.runSession(t).expectEvictedAndPlaced(t, tc.wantEvicted, tc.wantPlaced)
	}
}

// TestTheMatrixAndTheTreeDoNotTakeTheSameBorrowedCard: job r of queue own, of inference, needs all 3 cards, and one of
// node n is free. Tenant t uses the other two: one by its inference on node m, one by its training on node n. By the
// reclaim matrix the pod of training is evicted. Its eviction counts against what t has borrowed, so the tree takes the
// other pod only if t has borrowed both. "t-training 1" means one pod of queue t-training.
func TestTheMatrixAndTheTreeDoNotTakeTheSameBorrowedCard(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct{ deserved, wantVictims string }{
		"t deserves 1, so it has borrowed one":  {"1", "t-training 1"},
		"t deserves 0, so it has borrowed both": {"0", "t-inference 1, t-training 1"},
		"t deserves 2, so it has borrowed none": {"2", "t-training 1"},
		"t deserves 5, so it has borrowed none": {"5", "t-training 1"},
	}) {
		s := newTree(`
			queue o quota=8 deserved=3
			queue own parent=o quota=8 deserved=3 serviceType=inference
			queue t quota=8 deserved=` + tc.deserved + `
			queue t-inference parent=t quota=8 deserved=0 serviceType=inference reclaimable=true
			queue t-training parent=t quota=8 deserved=0 serviceType=training
			node n model=A cards=2
			node m model=A cards=1
			job a queue=t-inference min=1 running=m age=1h
			job b queue=t-training min=1 running=n age=1h
			job r queue=own min=1 pending=3`)
		s.runSession(t)

		check.Equal(t, "evicted pods by queue", tc.wantVictims, s.evictedByQueue())
	}
}

// TestQueuesWithoutTheirTreeEvictNothing: if the operator restarts while the ServiceTypePolicy is deleted, it
// puts every queue under root and removes deserved. The scheduler still has the arguments of the tree. A queue
// without deserved deserves its quota, so no queue reclaims what was borrowed. Queue a uses all 8 cards. With
// the tree queue b takes 4 back, without it none. "new*4" are the pods new-0 to new-3, "r@n*4" are r-0 to r-3 on
// node n.
func TestQueuesWithoutTheirTreeEvictNothing(t *testing.T) {
	const jobs = `
		node n model=A cards=8
		job old queue=a min=4 running=n*4 age=24h
		job new queue=a min=4 running=n*4 age=23h
		job r queue=b min=4 pending=4
	`

	newTree(`
		queue p quota=8 deserved=8
		queue a parent=p quota=8 deserved=4 serviceType=training
		queue b parent=p quota=8 deserved=4 serviceType=training`+jobs).runSession(t).expectEvictedAndPlaced(t, "new*4", "r@n*4")
	newTree(`
		queue a quota={"A":8} priority=20000 serviceType=training cpu=1000
		queue b quota={"A":8} priority=20000 serviceType=training cpu=1000`+jobs).runSession(t).expectEvictedAndPlaced(t, "", "")
}
