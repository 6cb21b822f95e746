package sessioncheck

import (
	"strings"
	"testing"

	"cardquota.dev/operator/internal/testing/check"
)

// newSceneWithTree has a node of eight H200. Tenant top has the leaves a and b; tenant other is a leaf beside
// it.
func newSceneWithTree(t *testing.T) *checkerScript {
	s := newSceneWithQuotaOfFour(t, Options{Tree: true, ReclaimFrom: map[string][]string{"inference": {"training"}}})
	return s.playScript(`
		load queue q quota=H200:0
		load queue top quota=H200:6 deserved=H200:4 parentOnly=true
		load queue a parent=top quota=H200:4 deserved=H200:2 serviceType=training reclaimable=true
		load queue b parent=top quota=H200:6 deserved=H200:2 serviceType=training reclaimable=true
		load queue other quota=H200:8 deserved=H200:4 serviceType=training reclaimable=true`)
}

const (
	// otherUsesSix lets queue other use six cards, two in each of three jobs. It deserves four.
	otherUsesSix = `
		gang o1 queue=other pods=1 cards=2
		gang o2 queue=other pods=1 cards=2
		gang o3 queue=other pods=1 cards=2
		write pod o1-0 node=h200-0
		write pod o2-0 node=h200-0
		write pod o3-0 node=h200-0
	`
	bUsesFour = `
		gang b1 queue=b pods=1 cards=4
		write pod b1-0 node=h200-0
	`
	aUsesTwo = `
		gang a1 queue=a pods=1 cards=2
		write pod a1-0 node=h200-0
	`
	// otherGaveBackSix reclaims the six cards of queue other, which may not borrow for five minutes then.
	otherGaveBackSix = `
		gang o1 queue=other pods=1 cards=6
		write pod o1-0 node=h200-0
		write pod o1-0 evictedBy=cardreclaim
		remove pod o1-0
	`
)

// TestAWorkloadThatFitsATreeAndDoesNotStartIsFound: in a tree a pod fits if its queue and every ancestor have quota
// for it, and unused guarantees of others stay free. It also fits if it may reclaim. Then it must start within three
// sessions; here sessions close and start nothing. The node has 8 H200. Tenant top has quota 6 and deserves 4. Its
// leaf a has quota 4 and deserves 2, its leaf b has quota 6 and deserves 2. Tenant other has quota 8 and deserves 4.
// "single p" is a pod p with a PodGroup of its own. otherGaveBackSix: cardreclaim took 6 cards back from other, which
// may not borrow for five minutes then.
func TestAWorkloadThatFitsATreeAndDoesNotStartIsFound(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct{ steps, wantObjects string }{
		"1 card in a":                      {`single p queue=a cards=1`, "pod/test/p"},
		"4 cards in a, which is its quota": {`single p queue=a cards=4`, "pod/test/p"},
		"5 cards in a, which writes no quota of H200, and so has the 6 of top": {`write queue a quota=RTX4090:1; single p queue=a cards=5`, "pod/test/p"},
		"2 cards in a, which is guaranteed them, beside 6 that other is guaranteed": {`
			write queue top guarantee=H200:2
			write queue a guarantee=H200:2
			write queue other guarantee=H200:6 deserved=H200:8
			single p queue=a cards=2`, "pod/test/p"},
		"4 cards in a, beside 4 that other is guaranteed": {`write queue other guarantee=H200:4; single p queue=a cards=4`, "pod/test/p"},
		"6 cards in a; other is guaranteed 4, but on hold, so it keeps none": {`
			write queue other guarantee=H200:4 stopPolicy=Hold
			write queue a quota=H200:6
			single p queue=a cards=6`, "pod/test/p"},
		"a PodGroup of a without pods, which announces 4 cards": {`write group g queue=a request=H200:4 phase=Pending`, "podgroup/test/g"},
		"5 cards in other, of which it borrows 1, five minutes after it gave cards back": {otherGaveBackSix + `
			single p queue=other cards=5
			sessions 300`, "pod/test/p"},
		"4 cards in other, which it deserves, soon after it gave cards back": {
			otherGaveBackSix + `single p queue=other cards=4`, "pod/test/p",
		},
		"2 cards in a, which it deserves, by a pod that is not preemptable": {`
			single p queue=a cards=2 volcano.sh/preemptable=false`, "pod/test/p"},
		"1 card in a, which deserves 3 and uses 2, reclaimed from b, which uses 4 and deserves 1": {bUsesFour + aUsesTwo + `
			write queue a deserved=H200:3
			write queue b deserved=H200:1
			single p queue=a cards=1`, "pod/test/p"},
		"2 cards in b, reclaimed from other, which uses 6 and deserves 4": {
			otherUsesSix + aUsesTwo + `single p queue=b cards=2`, "pod/test/p",
		},
	}) {
		s := newSceneWithTree(t).playScript(tc.steps).playScript(`manySessions`)
		s.expectViolations(Progress, strings.Fields(tc.wantObjects)...)

		s.playScript(`manySessions; nothingFound`)
	}
}

// TestAWorkloadThatDoesNotFitATreeMayWait: each row has one reason to wait in a tree, and nothing is reported
// although many sessions close. The node has 8 H200. Tenant top has quota 6 and deserves 4. Its leaf a has quota 4
// and deserves 2, its leaf b has quota 6 and deserves 2. Tenant other has quota 8 and deserves 4. "single p" is a pod
// p with a PodGroup of its own. A session closes each second. otherGaveBackSix: cardreclaim took 6 cards back from
// other, which may not borrow for five minutes then. otherUsesSix: three jobs of other use 2 cards each. Pods that
// are not preemptable, or of a service type that the policy does not have, do not borrow. A queue without "deserved"
// deserves its quota.
func TestAWorkloadThatDoesNotFitATreeMayWait(t *testing.T) {
	for t, steps := range check.Cases(t, map[string]string{
		"3 cards in a, and b uses 4 of the 6 of top": bUsesFour + `single p queue=a cards=3`,
		"5 cards in a, of a quota of 4":              `single p queue=a cards=5`,
		"3 cards in a, and other is guaranteed 6 of 8": `
			write queue other guarantee=H200:6 deserved=H200:6
			single p queue=a cards=3`,
		"4 cards in a, and b is guaranteed 3 of the 6 of top": `
			write queue top guarantee=H200:3
			write queue b guarantee=H200:3 deserved=H200:3
			write queue a deserved=H200:1
			single p queue=a cards=4`,
		"5 cards in a, and other is guaranteed 4 of 8; a cordoned node does not count": `
			write queue other guarantee=H200:4
			load node h200-1 cards=4
			write node h200-1 cordoned=true
			write queue a quota=H200:6
			single p queue=a cards=5`,
		"3 cards in a, by a pod that is not preemptable, and a deserves 2": `
			single p queue=a cards=3 volcano.sh/preemptable=false`,
		"3 cards in a, which is of an unknown service type, and deserves 2": `
			write queue a serviceType=notebook
			single p queue=a cards=3`,
		"5 cards in other, of which it borrows 1, 200 s after it gave cards back": otherGaveBackSix + `
			single p queue=other cards=5
			sessions 200`,
		"1 card in a, which is on hold":            `write queue a stopPolicy=Hold; single p queue=a cards=1`,
		"1 card in a, and its parent is on hold":   `write queue top stopPolicy=HoldAndDrain; single p queue=a cards=1`,
		"1 card in top, which is a parent":         `single p queue=top cards=1`,
		"1 card in a, whose parent does not exist": `write queue a parent=gone; single p queue=a cards=1`,
		"1 card in a, and its parent does not select the namespace": `
			write queue top namespaceSelector={"matchLabels":{"a":"b"}}
			single p queue=a cards=1`,
		"1 card in a; all 8 are used, by queues within what they deserve": `
			gang o1 queue=other pods=1 cards=4
			write pod o1-0 node=h200-0
			gang b1 queue=b pods=1 cards=2
			write pod b1-0 node=h200-0
			write queue q quota=H200:2
			gang q1 queue=q pods=1 cards=2
			write pod q1-0 node=h200-0
			single p queue=a cards=1`,
		"1 card in a, which uses the 2 that it deserves; other borrows 2": otherUsesSix + aUsesTwo + `single p queue=a cards=1`,
		"2 cards in b, and top would use 4 and deserves 3; other borrows 2": otherUsesSix + aUsesTwo + `
			# so that b cannot take this card back from a
			write pod a1-0 volcano.sh/preemptable=false
			write queue b deserved=H200:3
			write queue top deserved=H200:3
			single p queue=b cards=2`,
		"2 cards in b; other borrows 2, by a gang of 3 pods, and is guaranteed 4: without the whole gang it uses 0": `
			write queue other guarantee=H200:4
			gang o queue=other pods=3 cards=2
			write pod o-0 node=h200-0
			write pod o-1 node=h200-0
			write pod o-2 node=h200-0
		` + aUsesTwo + `
			single p queue=b cards=2`,
		"2 cards in b; other borrows 2, by pods that are not preemptable": otherUsesSix + `
			write pod o1-0 volcano.sh/preemptable=false
			write pod o2-0 volcano.sh/preemptable=false
			write pod o3-0 volcano.sh/preemptable=false
		` + aUsesTwo + `
			single p queue=b cards=2`,
		"2 cards in b; other borrows only 2; r and s wait as well, and which of the three is first is open": otherUsesSix + aUsesTwo + `
			single p queue=b cards=2
			single r queue=a cards=1
			single s queue=b cards=1`,
	}) {
		newSceneWithTree(t).playScript(steps).playScript(`manySessions; nothingFound`)
	}
}

// TestAMessageMayNameAnAncestor: a pod may state that the quota of an ancestor is insufficient. Its usage is that of its
// subtree. Pod p requests 3 H200, and states that top has a quota of 6 and would use 7. That is true if b uses 4 below
// top, and if p is of a queue below top.
func TestAMessageMayNameAnAncestor(t *testing.T) {
	const topHasSix = "Queue <top> has insufficient <NVIDIA-H200> quota: requested <3>, total would be <7>, but capability is <6>"

	for t, tc := range check.Cases(t, map[string]struct{ steps, wantObjects string }{
		"p is of a, and b uses 4":           {bUsesFour + `single p queue=a cards=3`, ""},
		"p is of a, and no card is used":    {`single p queue=a cards=3`, "pod/test/p"},
		"p is of other, which is not below": {bUsesFour + `single p queue=other cards=3`, "pod/test/p"},
	}) {
		s := newSceneWithTree(t).playScript(tc.steps)
		s.writeObject(s.Pod("p", "unschedulable="+topHasSix))
		s.expectViolations(Truth, strings.Fields(tc.wantObjects)...)
	}
}

// TestCPUCountsInEveryAncestor: a limit of CPU binds the subtree of its queue. Top has 1.5 cores, and pods p of a and r
// of b request one core each. So the second one exceeds the limit of top, not that of its own queue.
func TestCPUCountsInEveryAncestor(t *testing.T) {
	newSceneWithTree(t).playScript(`
		write queue top cpu=1500m
		wait 1m
		single p queue=a cards=1
		single r queue=b cards=1
		write pod p node=h200-0
		nothingFound
		write pod r node=h200-0`).expectViolations(Capacity, "pod/test/r")
}
