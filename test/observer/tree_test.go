package observer

import (
	"testing"

	"cardquota.dev/operator/internal/testing/check"
)

// newSceneWithTree has node h200-0 with 8 H200 and, with queueHierarchy: Tree, three tenants: top with the
// leaves a and b, other, and inf of inference. Leaves of training may borrow beyond what they deserve.
func newSceneWithTree() *scene {
	s := newSceneWithQuotaOfTwo()
	s.observed.setTree(true, began)
	return s.playScript(`
		load queue q quota=H200:2
		load queue top quota=H200:6 deserved=H200:4 parentOnly=true
		load queue a parent=top quota=H200:4 deserved=H200:2 serviceType=training reclaimable=true priority=20000
		load queue b parent=top quota=H200:6 deserved=H200:2 serviceType=training reclaimable=true priority=20000
		load queue other quota=H200:8 deserved=H200:4 serviceType=training reclaimable=true priority=20000
		load queue inf quota=H200:4 deserved=H200:4 serviceType=inference reclaimable=false priority=80000
		wait 1m`)
}

// TestPlacementsInATreeStayWithinQuotasAndGuarantees: in a tree of quotas a pod counts in its queue and in every
// ancestor. The observer must report each placement beyond a quota, into the unused guarantee of another queue, or in
// a stopped queue. Those pods of a queue that cannot be reclaimed must fit into what it and its ancestors deserve.
// Its other pods do not count for that. Used cards, with those of pods that are being deleted, stay within twice the
// quota. Scene: node h200-0 has 8 H200. Tenant top (quota 6, deserved 4) has the leaves a (quota 4, deserved 2) and b
// (quota 6, deserved 2). Queue other has quota 8 and deserves 4. A change of less than 10 s ago may not be known to
// the scheduler yet, so the former value counts too. "quota" is the violation that the observer reports.
func TestPlacementsInATreeStayWithinQuotasAndGuarantees(t *testing.T) {
	const guarantee = `load queue other guarantee=H200:4; wait 1m;` // others may use 8 - 4 = 4 cards

	playAndExpectViolations(t, newSceneWithTree, map[string]scriptCase{
		"4 in a and 2 in b: within the leaves and the 6 of top": {
			`place x node=h200-0 cards=4 queue=a; place y node=h200-0 cards=2 queue=b`, "",
		},
		"5 in a: beyond its own 4": {`place x node=h200-0 cards=5 queue=a`, "quota"},
		"4 in a and 3 in b: beyond the 6 of top": {`
			place x node=h200-0 cards=4 queue=a
			place y node=h200-0 cards=2 queue=b
			place z node=h200-0 cards=1 queue=b`, "quota"},
		"beyond a quota of top that was lowered 9 s ago": {`
			write queue top quota=H200:2
			wait 9s
			place x node=h200-0 cards=3 queue=a`, ""},
		"beyond a quota of top that was lowered 11 s ago": {`
			write queue top quota=H200:2
			wait 11s
			place x node=h200-0 cards=3 queue=a`, "quota"},
		"a writes no quota of H200, so it has that of top, and uses all 6": {`
			write queue a quota=RTX4090:1
			wait 1m
			place x node=h200-0 cards=6 queue=a`, ""},
		"a writes no quota of H200, so it has the 6 of top, and uses 7": {`
			write queue a quota=RTX4090:1
			wait 1m
			place x node=h200-0 cards=7 queue=a`, "quota"},
		"a and b use 5 of 8 cards, and other is guaranteed 4": {guarantee + `
			place x node=h200-0 cards=4 queue=a
			place y node=h200-0 cards=1 queue=b`, "quota"},
		"a uses 4 of 8 cards, and other is guaranteed 4": {guarantee + `place x node=h200-0 cards=4 queue=a`, ""},
		"other uses its own guarantee": {guarantee + `
			place x node=h200-0 cards=4 queue=a
			place y node=h200-0 cards=4 queue=other`, ""},
		"a guarantee that was written 9 s ago": {`
			write queue other guarantee=H200:4
			wait 9s
			place x node=h200-0 cards=4 queue=a
			place y node=h200-0 cards=2 queue=b`, ""},
		"a cordoned node does not cover the guarantee of other": {guarantee + `
			load node h200-1
			wait 1m
			write node h200-1 cordoned=true
			wait 1m
			place x node=h200-0 cards=4 queue=a
			place y node=h200-0 cards=1 queue=b`, "quota"},
		"pods on a cordoned node take nothing of the guarantee": {guarantee + `
			load node h200-1
			place x node=h200-1 cards=4 queue=a
			write node h200-1 cordoned=true
			wait 1m
			place y node=h200-0 cards=2 queue=b`, ""},
		"the guarantee of a queue that is on hold is not kept free": {guarantee + `
			write queue other stopPolicy=Hold
			wait 1m
			place x node=h200-0 cards=4 queue=a
			place y node=h200-0 cards=2 queue=b`, ""},
		"in a queue on hold": {`
			write queue a stopPolicy=Hold
			wait 1m
			place x node=h200-0 cards=1 queue=a`, "quota"},
		"below a parent on hold": {`
			write queue top stopPolicy=HoldAndDrain
			wait 1m
			place x node=h200-0 cards=1 queue=a`, "quota"},
		"in a queue that is on hold for 9 s": {`
			write queue a stopPolicy=Hold
			wait 9s
			place x node=h200-0 cards=1 queue=a`, ""},
		"in a parent, which may have no pods": {`place x node=h200-0 cards=1 queue=top`, "quota"},
		"in a queue whose parent does not exist": {`
			write queue a parent=gone
			wait 1m
			place x node=h200-0 cards=1 queue=a`, "quota"},
		"beside a sibling whose parent does not exist": {`
			write queue b parent=gone
			wait 1m
			place x node=h200-0 cards=1 queue=a`, ""},
		"a pod that is not preemptable uses 3, a deserves 2": {`place x node=h200-0 cards=3 queue=a volcano.sh/preemptable=false`, "quota"},
		"a pod that is not preemptable uses 2, a deserves 2": {`place x node=h200-0 cards=2 queue=a volcano.sh/preemptable=false`, ""},
		"pods that are not preemptable use 1 in b, which deserves 2, and 5 below top, which deserves 4": {`
			write queue a deserved=H200:4
			write queue b deserved=H200:0
			wait 1m
			place x node=h200-0 cards=4 queue=a volcano.sh/preemptable=false
			write queue a deserved=H200:2
			write queue b deserved=H200:2
			wait 1m
			place y node=h200-0 cards=1 queue=b volcano.sh/preemptable=false`, "quota"},
		"a pod of an unknown service type cannot be reclaimed, and uses 3 of 2 deserved": {`
			write queue a serviceType=notebook
			wait 1m
			place x node=h200-0 cards=3 queue=a`, "quota"},
		"a queue that is not reclaimable uses 3 of 2 deserved": {`
			write queue a reclaimable=false
			wait 1m
			place x node=h200-0 cards=3 queue=a`, "quota"},
		"a pod that is not preemptable uses 1 of 2 deserved, beside 3 that can be reclaimed": {`
			place x node=h200-0 cards=3 queue=a
			wait 1m
			place y node=h200-0 cards=1 queue=a volcano.sh/preemptable=false`, ""},
		"top uses 4, and 10 more by pods that are being deleted: above twice its 6": {`
			place x node=h200-0 cards=4 queue=a
			write pod x deleted=true
			place y node=h200-0 cards=4 queue=a
			write pod y deleted=true
			place z node=h200-0 cards=2 queue=b
			write pod z deleted=true
			load node h200-1 cards=8
			place w node=h200-1 cards=4 queue=b`, "quota"},
	})
}

// TestTheQuotaOfAParentCountsOnlyInATree: with flat queues each queue stands alone. Queue a uses 4 of its 4 H200, and
// queue b uses 3 of its 6. Together they use 7, and their parent top has a quota of 6. So only a tree is violated.
// After a switch both rules are right for 10 s, because the scheduler may not know it yet.
func TestTheQuotaOfAParentCountsOnlyInATree(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		isTree        bool
		switchedAgo   string
		wantViolation string
	}{
		"a tree for a minute":                            {true, "1m", "quota"},
		"flat queues for a minute":                       {false, "1m", ""},
		"flat queues for a second, and a tree before it": {false, "1s", ""},
	}) {
		s := newSceneWithTree()
		s.observed.setTree(tc.isTree, s.clock)
		s.playScript("wait " + tc.switchedAgo)

		s.playScript(`place x node=h200-0 cards=4 queue=a; place y node=h200-0 cards=3 queue=b`)
		s.expectViolations(t, tc.wantViolation)
	}
}

// TestAQueueOfATreeTakesOnlyNamespacesOfItsAncestors: a namespaceSelector lets a queue take pods of some
// namespaces only, and it binds the subtree as well. Queue a is below top, queue other is not. All pods are in
// namespace test. "tenancy" is the violation that the observer reports; a selector of less than 10 s ago may
// not be known to the scheduler.
func TestAQueueOfATreeTakesOnlyNamespacesOfItsAncestors(t *testing.T) {
	const topSelectsChat = `load queue top namespaceSelector={"matchLabels":{"team":"chat"}};`

	playAndExpectViolations(t, newSceneWithTree, map[string]scriptCase{
		"the parent selects the namespace": {topSelectsChat + `
			load namespace test team=chat
			wait 1m
			place x node=h200-0 cards=1 queue=a`, ""},
		"the parent does not select the namespace": {topSelectsChat + `
			load namespace test team=lab
			wait 1m
			place x node=h200-0 cards=1 queue=a`, "tenancy"},
		"the parent no longer selects the namespace, for 9 s": {`
			load namespace test team=lab
			write queue top namespaceSelector={"matchLabels":{"team":"chat"}}
			wait 9s
			place x node=h200-0 cards=1 queue=a`, ""},
		"a queue that is not below top, and selects every namespace": {topSelectsChat + `
			load namespace test team=lab
			wait 1m
			place x node=h200-0 cards=1 queue=other`, ""},
		"the parent selects every namespace, the queue itself does not": {`
			load namespace test team=lab
			load queue a namespaceSelector={"matchLabels":{"team":"chat"}}
			wait 1m
			place x node=h200-0 cards=1 queue=a`, "tenancy"},
	})
}

// TestTheStatusOfAParentSumsItsSubtree: the status of a CardQuota must equal a recount of the pods. That of a
// parent counts the pods of its leaves, and what a queue uses beyond deserved is borrowed. Parent top has a
// quota of 6 H200, its leaves a and b have 4 and 6. The step "load quota" says what the status reads,
// "allocated" is what the Queue itself reads. "status" is the violation of a wrong status; it is "tolerated"
// for 5 s after a change. The observer compares at each step "check", and at the end.
func TestTheStatusOfAParentSumsItsSubtree(t *testing.T) {
	const threeUsed = `
		place x node=h200-0 cards=1 queue=a
		write queue a allocated=H200:1
		place y node=h200-0 cards=2 queue=b
		write queue b allocated=H200:2
		write queue top allocated=H200:3
	`

	playAndExpectViolations(t, newSceneWithTree, map[string]scriptCase{
		"top reads 3 used, as its leaves use 1 and 2": {threeUsed + `
			load quota top quota=6 used=3 free=3 deserved=4
			check
			wait 1m`, ""},
		"top reads 0 used, although its leaves use 3": {threeUsed + `
			load quota top quota=6 used=0 free=6 deserved=4
			check
			wait 1m`, "status"},
		"top reads 2 pending, for a pod that waits in a": {`
			write pod p queue=a cards=2 unschedulable=full
			load quota top quota=6 used=0 free=6 deserved=4 pending=2 blocked=pod:p,card:H200,count:2,reason:QuotaExhausted
			check
			wait 1m`, ""},
		"a reads 1 borrowed: it uses 3 and deserves 2": {`
			place x node=h200-0 cards=3 queue=a
			write queue a allocated=H200:3
			load quota a quota=4 used=3 free=1 deserved=2 borrowed=1
			check
			wait 1m`, ""},
		"a reads none borrowed: it uses 3 and deserves 2": {`
			place x node=h200-0 cards=3 queue=a
			write queue a allocated=H200:3
			load quota a quota=4 used=3 free=1 deserved=2
			check
			wait 1m`, "status"},
		"a writes no quota of H200, so it has and reads the 6 of top": {`
			load queue a quota=RTX4090:1
			load quota a quota=6 used=0 free=6 deserved=2
			check
			wait 1m`, ""},
		"a change below top is 4 s old: Queue b and CardQuota top may still read the former numbers": {threeUsed + `
			load quota top quota=6 used=3 free=3 deserved=4
			check
			wait 1m
			place z node=h200-0 cards=1 queue=b
			wait 4s`, "tolerated tolerated"},
	})
}
