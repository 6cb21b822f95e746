package sessioncheck

import (
	"strings"
	"testing"

	"cardquota.dev/operator/internal/testing/check"
)

// newTreeScene has the leaves a and b below top, and the leaf other beside it. H200 has one node
// of eight.
func newTreeScene(t *testing.T) *checkerScript {
	s := newScene(t, Options{Tree: true, ReclaimFrom: map[string][]string{"inference": {"training"}}})
	return s.run(`load queue q quota=H200:0
		load queue top quota=H200:6 deserved=H200:4 parentOnly=true
		load queue a parent=top quota=H200:4 deserved=H200:2 serviceType=training reclaimable=true
		load queue b parent=top quota=H200:6 deserved=H200:2 serviceType=training reclaimable=true
		load queue other quota=H200:8 deserved=H200:4 serviceType=training reclaimable=true`)
}

const (
	// otherBorrows lets the queue other hold six cards in gangs of two, of which it deserves four.
	otherBorrows = `gang o1 queue=other pods=1 cards=2; write pod o1-0 node=h200-0; gang o2 queue=other pods=1 cards=2; write pod o2-0 node=h200-0; gang o3 queue=other pods=1 cards=2; write pod o3-0 node=h200-0;`
	bHolds       = `gang b1 queue=b pods=1 cards=4; write pod b1-0 node=h200-0;`
	aHolds       = `gang a1 queue=a pods=1 cards=2; write pod a1-0 node=h200-0;`
	tookBack     = `gang o1 queue=other pods=1 cards=6; write pod o1-0 node=h200-0; write pod o1-0 evictedBy=cardreclaim; remove pod o1-0;`
)

func TestWhatFitsInATreeAndDoesNotStartIsFound(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct{ text, want string }{
		"a leaf":                          {`single p queue=a cards=1`, "pod/test/p"},
		"up to its quota":                 {`single p queue=a cards=4`, "pod/test/p"},
		"with an inherited quota":         {`write queue a quota=RTX4090:1; single p queue=a cards=5`, "pod/test/p"},
		"its guarantee":                   {`write queue top guarantee=H200:2; write queue a guarantee=H200:2; write queue other guarantee=H200:6 deserved=H200:8; single p queue=a cards=2`, "pod/test/p"},
		"beside the guarantee of others":  {`write queue other guarantee=H200:4; single p queue=a cards=4`, "pod/test/p"},
		"a guarantee of a held queue":     {`write queue other guarantee=H200:4 stopPolicy=Hold; write queue a quota=H200:6; single p queue=a cards=6`, "pod/test/p"},
		"a group without pods":            {`write group g queue=a request=H200:4 phase=Pending`, "podgroup/test/g"},
		"after the cooldown":              {tookBack + `single p queue=other cards=5; sessions 300`, "pod/test/p"},
		"within deserved in the cooldown": {tookBack + `single p queue=other cards=4`, "pod/test/p"},
		"what cannot be reclaimed":        {`single p queue=a cards=2 volcano.sh/preemptable=false`, "pod/test/p"},
		"a sibling's borrowed cards":      {bHolds + aHolds + `write queue top quota=H200:6; write queue a deserved=H200:3; write queue b deserved=H200:1; write queue b quota=H200:4; single p queue=a cards=1`, "pod/test/p"},
		"another tenant's borrowed cards": {otherBorrows + aHolds + `single p queue=b cards=2`, "pod/test/p"},
	}) {
		s := newTreeScene(t).run(tc.text).run(`enough`)
		s.expectViolations(violationsOf(Progress, strings.Fields(tc.want)...)...)

		s.run(`enough; clean`)
	}
}

func TestWhatHasAReasonToWaitInATree(t *testing.T) {
	for t, text := range check.Cases(t, map[string]string{
		"the parent's quota is too small":           bHolds + `single p queue=a cards=3`,
		"the leaf's quota is too small":             `single p queue=a cards=5`,
		"the guarantee of others":                   `write queue other guarantee=H200:6 deserved=H200:6; single p queue=a cards=3`,
		"a sibling's guarantee":                     `write queue top guarantee=H200:3; write queue b guarantee=H200:3 deserved=H200:3; write queue a deserved=H200:1; single p queue=a cards=4`,
		"a guarantee where a node is cordoned":      `write queue other guarantee=H200:4; load node h200-1 cards=4; write node h200-1 cordoned=true; write queue a quota=H200:6; single p queue=a cards=5`,
		"it cannot be reclaimed":                    `single p queue=a cards=3 volcano.sh/preemptable=false`,
		"its type is not known":                     `write queue a serviceType=notebook; single p queue=a cards=3`,
		"it would borrow in the cooldown":           tookBack + `single p queue=other cards=5; sessions 200`,
		"its queue is held":                         `write queue a stopPolicy=Hold; single p queue=a cards=1`,
		"an ancestor is held":                       `write queue top stopPolicy=HoldAndDrain; single p queue=a cards=1`,
		"its queue is a parent":                     `single p queue=top cards=1`,
		"the path is broken":                        `write queue a parent=gone; single p queue=a cards=1`,
		"an ancestor leaves the namespace out":      `write queue top namespaceSelector={"matchLabels":{"a":"b"}}; single p queue=a cards=1`,
		"others hold what they deserve":             `gang o1 queue=other pods=1 cards=4; write pod o1-0 node=h200-0; gang b1 queue=b pods=1 cards=2; write pod b1-0 node=h200-0; write queue q quota=H200:2; gang q1 queue=q pods=1 cards=2; write pod q1-0 node=h200-0; single p queue=a cards=1`,
		"it would evict in order to borrow":         otherBorrows + aHolds + `single p queue=a cards=1`,
		"its parent would evict in order to borrow": otherBorrows + aHolds + `write pod a1-0 volcano.sh/preemptable=false; write queue b deserved=H200:3; write queue top deserved=H200:3; single p queue=b cards=2`,
		"what is borrowed is guaranteed":            strings.Replace(otherBorrows, "gang o1", "write queue other guarantee=H200:4; gang o1", 1) + `write pod o1-0 volcano.sh/preemptable=false; write pod o2-0 volcano.sh/preemptable=false; write pod o3-0 volcano.sh/preemptable=false;` + aHolds + `single p queue=b cards=2`,
		"another one may reclaim first":             otherBorrows + aHolds + `single p queue=b cards=2; single r queue=a cards=1; single s queue=b cards=1`,
	}) {
		newTreeScene(t).run(text).run(`enough; clean`)
	}
}

// The usage of an ancestor is that of its subtree.
func TestAStatementMayNameAnAncestor(t *testing.T) {
	const says = `unschedulable=Queue_<top>_has_insufficient_<NVIDIA-H200>_quota:_requested_<3>,_total_would_be_<7>,_but_capability_is_<6>`

	for t, tc := range check.Cases(t, map[string]struct{ text, want string }{
		"an ancestor":              {bHolds + `single p queue=a cards=3`, ""},
		"what was not so":          {`single p queue=a cards=3`, "I8 truth pod/test/p"},
		"no ancestor of the queue": {bHolds + `single p queue=other cards=3`, "I8 truth pod/test/p"},
	}) {
		s := newTreeScene(t).run(tc.text)
		p := s.Pod("p", says)
		p.Status.Conditions[0].Message = strings.ReplaceAll(p.Status.Conditions[0].Message, "_", " ")
		s.applyObject(p, false)
		s.expectViolations(strings.Split(tc.want, ",")[:min(1, len(tc.want))]...)
	}
}

func TestCPUCountsInEveryAncestor(t *testing.T) {
	s := newTreeScene(t).run(`write queue top cpu=1500m; wait 1m; single p queue=a cards=1; single r queue=b cards=1; write pod p node=h200-0; clean; write pod r node=h200-0`)
	s.expectViolations("I9 capacity pod/test/r")
}
