package observer

import (
	"strings"
	"testing"
)

// TestBlockedReasonsAndHoldersAreTrue: the observer reports violation "truth" if an entry of status.blocked is wrong
// for 10 s. A recount of the cluster must confirm its reason, except QuotaExhausted. It must also confirm the holders
// of NoFreeCard, Fragmented and QuotaExhausted: the three pods that use most of the card, the largest first. For
// QuotaExhausted they are only those of queue q. A terminating pod is no holder. "tolerated" is an entry that is
// wrong, but not yet for 10 s. Node h200-0 has 8 H200 and rtx4090-0 has 8 RTX4090; queue q has a quota of 2 H200. The
// entry of a row states for what pod a of q waits ("count" cards), and why. Pod a need not exist. Pod x, which is
// there in some rows, uses 7 H200 in queue r, so that 1 is free. The words used, free and physical only keep the rest
// of q's status right.
func TestBlockedReasonsAndHoldersAreTrue(t *testing.T) {
	const xUsesSeven = `
		load queue r quota=H200:99
		load pod x queue=r cards=7 node=h200-0
	`
	const xOfTrainingUsesSeven = `
		load queue r quota=H200:99 serviceType=training
		load pod x queue=r cards=7 node=h200-0
	`
	after11s := func(entriesAndHolders ...string) string {
		return "load quota q used=0 free=2; write quota q " + strings.Join(entriesAndHolders, " ") + "; check; wait 11s"
	}

	playAndExpectViolations(t, newSceneThatIgnoresWaiting, map[string]scriptCase{
		"UnknownCard: no node has the card": {
			after11s(`blocked=pod:a,card:NVIDIA-H2000,count:1,reason:UnknownCard`), "",
		},
		"UnknownCard: a node has the card": {
			after11s(`blocked=pod:a,card:H200,count:1,reason:UnknownCard`), "truth",
		},
		"UnknownCard: nodes have the resource": {
			after11s(`blocked=pod:a,card:nvidia.com/gpu,count:1,reason:UnknownCard`), "truth",
		},
		"UnknownCard: a node has one of the two alternatives": {
			after11s(`blocked=pod:a,card:NVIDIA-H2000|H200,count:1,reason:UnknownCard`), "truth",
		},
		"NoFreeCard: 2 wanted, 1 free": {
			xUsesSeven + after11s(`blocked=pod:a,card:H200,count:2,reason:NoFreeCard`, `holder=pod:x,queue:r,count:7`), "",
		},
		"NoFreeCard: 1 wanted, 1 free": {
			xUsesSeven + after11s(`blocked=pod:a,card:H200,count:1,reason:NoFreeCard`, `holder=pod:x,queue:r,count:7`), "truth",
		},
		"NoFreeCard: 1 wanted, 1 free; a second entry says that a waits for 1 more, so that 2 are wanted": {
			xUsesSeven + after11s(
				`blocked=pod:a,card:H200,count:1,reason:NoFreeCard`,
				`holder=pod:x,queue:r,count:7`,
				`blocked=pod:a,card:H200,count:1,reason:GangIncomplete`,
			),
			"",
		},
		"NoFreeCard: 8 free, on a cordoned node": {`
			load node h200-0 cordoned=true
		` + after11s(`blocked=pod:a,card:H200,count:1,reason:NoFreeCard`), ""},
		"NoFreeCard: 8 free, on a node that is not ready": {`
			load node h200-0 ready=False
		` + after11s(`blocked=pod:a,card:H200,count:1,reason:NoFreeCard`), ""},
		"NoFreeCard: 1 wanted, 1 free, perhaps kept for a pod that needs it with the 7 of terminating x": {`
			load queue r quota=H200:99
			load pod x queue=r cards=7 node=h200-0 deleted=true
		` + after11s(`blocked=pod:a,card:H200,count:1,reason:NoFreeCard`), ""},
		"NoFreeCard: 1 wanted, 1 free for only 9 s": {xUsesSeven + `
			load quota q used=0 free=2
			write quota q blocked=pod:a,card:H200,count:1,reason:NoFreeCard holder=pod:x,queue:r,count:7
			check
			wait 9s`, "tolerated"},
		"Fragmented: 2 wanted, 1 free on each of two nodes": {xUsesSeven + `
			load node h200-1
			load pod y queue=r cards=7 node=h200-1
			load quota q physical=16
		` + after11s(`blocked=pod:a,card:H200,count:2,reason:Fragmented`, `holder=pod:x,queue:r,count:7`, `holder=pod:y,queue:r,count:7`), ""},
		"Fragmented: 1 wanted, 1 free": {
			xUsesSeven + after11s(`blocked=pod:a,card:H200,count:1,reason:Fragmented`, `holder=pod:x,queue:r,count:7`), "truth",
		},
		"Fragmented: 1 wanted, none free": {xUsesSeven + `
			load pod y queue=r cards=1 node=h200-0
		` + after11s(`blocked=pod:a,card:H200,count:1,reason:Fragmented`, `holder=pod:x,queue:r,count:7`, `holder=pod:y,queue:r,count:1`), "truth"},
		"NodesUnsuitable: a node has free cards": {after11s(`blocked=pod:a,card:H200,count:1,reason:NodesUnsuitable`), ""},
		"NodesUnsuitable: a cordoned node has free cards": {`
			load node h200-0 cordoned=true
		` + after11s(`blocked=pod:a,card:H200,count:1,reason:NodesUnsuitable`), ""},
		"NodesUnsuitable: no card is free": {xUsesSeven + `
			load pod y queue=r cards=1 node=h200-0
		` + after11s(`blocked=pod:a,card:H200,count:1,reason:NodesUnsuitable`), "truth"},
		"NoQuota: queue q has no quota of RTX4090": {after11s(`blocked=pod:a,card:RTX4090,count:1,reason:NoQuota`), ""},
		"NoQuota: queue q has a quota of H200":     {after11s(`blocked=pod:a,card:H200,count:1,reason:NoQuota`), "truth"},
		"QueueStopped: queue q is closed": {`
			load queue q state=Closed
		` + after11s(`blocked=pod:a,card:H200,count:1,reason:QueueStopped`), ""},
		"QueueStopped: queue q is on hold": {`
			load queue q stopPolicy=Hold
		` + after11s(`blocked=pod:a,card:H200,count:1,reason:QueueStopped`), ""},
		"QueueStopped: queue q is open": {
			after11s(`blocked=pod:a,card:H200,count:1,reason:QueueStopped`), "truth",
		},
		"QueueNotFound: queue q exists": {
			after11s(`blocked=pod:a,card:H200,count:1,reason:QueueNotFound`), "truth",
		},
		"holders: the entry says that x uses 8, and x uses 7": {
			xUsesSeven + after11s(`blocked=pod:a,card:H200,count:2,reason:NoFreeCard`, `holder=pod:x,queue:r,count:8`), "truth",
		},
		"holders: x is missing": {
			xUsesSeven + after11s(`blocked=pod:a,card:H200,count:2,reason:NoFreeCard`), "truth",
		},
		"holders: QuotaExhausted names x, which is of queue r": {
			xUsesSeven + after11s(`blocked=pod:a,card:H200,count:1,reason:QuotaExhausted`, `holder=pod:x,queue:r,count:7`), "truth",
		},
		"holders: the entry says that x is of training, and the queue of x has no type": {
			xUsesSeven + after11s(`blocked=pod:a,card:H200,count:2,reason:NoFreeCard`, `holder=pod:x,queue:r,serviceType:training,count:7`),
			"truth",
		},
		"holders: the entry says no type of x, and the queue of x is of training": {
			xOfTrainingUsesSeven + after11s(`blocked=pod:a,card:H200,count:2,reason:NoFreeCard`, `holder=pod:x,queue:r,count:7`), "truth",
		},
		"holders: the entry says that x is of training, as the queue of x is": {
			xOfTrainingUsesSeven + after11s(
				`blocked=pod:a,card:H200,count:2,reason:NoFreeCard`,
				`holder=pod:x,queue:r,serviceType:training,count:7`,
			),
			"",
		},
		"holders: QuotaExhausted names no holder, and queue q uses no card": {
			xUsesSeven + after11s(`blocked=pod:a,card:H200,count:1,reason:QuotaExhausted`), "",
		},
		"holders: y with 1 card is named, x with 7 is not": {xUsesSeven + `
			load pod y queue=r cards=1 node=h200-0
		` + after11s(`blocked=pod:a,card:H200,count:1,reason:NoFreeCard`, `holder=pod:y,queue:r,count:1`), "truth"},
		"holders: y with 1 card is named before x with 7": {xUsesSeven + `
			load pod y queue=r cards=1 node=h200-0
		` + after11s(`blocked=pod:a,card:H200,count:1,reason:NoFreeCard`, `holder=pod:y,queue:r,count:1`, `holder=pod:x,queue:r,count:7`), "truth"},
		"wrong holders, changed after 9 s to other wrong holders: the time begins again": {xUsesSeven + `
			load quota q used=0 free=2
			write quota q blocked=pod:a,card:H200,count:2,reason:NoFreeCard holder=pod:x,queue:r,count:8
			check
			wait 9s
			write quota q blocked=pod:a,card:H200,count:2,reason:NoFreeCard holder=pod:x,queue:r,count:9
			check
			wait 9s`, "tolerated"},
	})
}

// newSceneThatIgnoresWaiting does not compare status.blocked with the pods that wait, so that tests need no
// such pods.
func newSceneThatIgnoresWaiting() *scene {
	s := newSceneWithQuotaOfTwo()
	s.observed.ignoresWaiting = true
	return s
}

// TestEntriesAreNotCheckedWhileAnInvariantOfThemIsExcused: a test may excuse an invariant for a while. An entry of
// status.blocked belongs to three invariants: Status, Reason and Truth. While one of the three is excused, the
// observer does not report a wrong entry. Here pod a does not exist, and UnknownCard is wrong, as node h200-0 has
// H200.
func TestEntriesAreNotCheckedWhileAnInvariantOfThemIsExcused(t *testing.T) {
	for _, invariant := range []Invariant{Status, Reason, Truth} {
		s := newSceneWithQuotaOfTwo()
		s.observed.setExcused(invariant, true, s.clock)
		s.playScript(`
			load quota q used=0 free=2
			write quota q blocked=pod:a,card:H200,count:1,reason:UnknownCard
			check
			wait 1m`).expectViolations(t, "")
	}
}
