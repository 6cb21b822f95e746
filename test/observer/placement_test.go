package observer

import (
	"testing"

	"cardquota.dev/operator/internal/testing/check"
)

// TestPodsArePlacedWithinTheQuotaAndOnTheirCard: the observer reports violation "quota" if a placement takes a queue
// above its quota of a card. It reports "card" if a pod runs on a card that the pod does not name. A pod with cards
// of two resources has no right card. A pod that names no queue has no quota to keep. A queue that is closed, does not
// exist, or has no readable quota may use no card. A pod that has ended, or is being deleted, does not count. Queue q
// has a quota of 2 H200; node h200-0 has 8 H200, rtx4090-0 has 8 RTX4090, and the label of unnamed-0 is missing. Pods
// are of queue q and want H200 unless the step says something else. The scheduler may not know a change of the last
// 10 s, so the quota or state before it counts too.
func TestPodsArePlacedWithinTheQuotaAndOnTheirCard(t *testing.T) {
	playAndExpectViolations(t, newSceneWithQuotaOfTwo, map[string]scriptCase{
		"2 of 2 cards": {`place a node=h200-0 cards=2`, ""},
		"3 of 2 cards": {`place a node=h200-0 cards=3`, "quota"},
		"3 pods with a card each": {`
			place a node=h200-0 cards=1
			place b node=h200-0 cards=1
			place c node=h200-0 cards=1`, "quota"},
		"3 of 2 cards, by a pod that is created with its node": {`write pod a cards=3 node=h200-0`, "quota"},
		"a card for which the queue has no quota":              {`place a node=rtx4090-0 cards=1 card=RTX4090`, "quota"},
		"a queue whose quota was removed a moment ago": {`
			write queue q quota=
			place a node=h200-0 cards=1`, ""}, // the quota of a moment ago still counts
		"a queue that never had a quota": {`load queue bare; place a node=h200-0 cards=1 queue=bare`, "quota"},
		"a queue that does not exist":    {`place a node=h200-0 cards=1 queue=nowhere`, "quota"},
		"a queue that was closed: 9 s ago is tolerated, 11 s ago is not": {`
			write queue q state=Closed
			wait 9s
			place a node=h200-0 cards=1
			wait 2s
			place b node=h200-0 cards=1`, "quota"},
		"a queue whose quota cannot be read": {`
			load queue broken quota=H200:-1
			place a node=h200-0 cards=1 queue=broken`, "quota"},
		"2 cards beside 2 of a pod that is being deleted": {`
			place a node=h200-0 cards=2
			write pod a deleted=true
			place b node=h200-0 cards=2`, ""},
		"2 cards after a pod with 2 was removed": {`
			place a node=h200-0 cards=2
			remove pod a
			place b node=h200-0 cards=2`, ""},
		"a third card a moment before the pod with 2 is removed": {`
			place a node=h200-0 cards=2
			place b node=h200-0 cards=1
			remove pod a`, "quota"},
		"2 cards beside pods that have succeeded or failed": {`
			place a node=h200-0 cards=1
			write pod a phase=Succeeded
			place b node=h200-0 cards=1
			write pod b phase=Failed
			place c node=h200-0 cards=2`, ""},
		"2 cards, and the quota was lowered to 0 9 s ago": {`
			write queue q quota=H200:0
			wait 9s
			place a node=h200-0 cards=2`, ""},
		"2 cards, and the quota was lowered to 0 11 s ago": {`
			write queue q quota=H200:0
			wait 11s
			place a node=h200-0 cards=2`, "quota"},
		"3 cards a moment before the quota is raised to 3": {`
			place a node=h200-0 cards=3
			write queue q quota=H200:3`, "quota"},
		"the quota is lowered to 1 while 2 are used, and no pod is placed": {`
			place a node=h200-0 cards=2
			write queue q quota=H200:1
			wait 1m`, ""},
		"quota 0, then 3, then 1 within a second: 3 cards are tolerated, a fourth is not": {`
			write queue q quota=H200:0
			wait 11s
			write queue q quota=H200:3
			wait 1s
			write queue q quota=H200:1
			place a node=h200-0 cards=3
			place b node=h200-0 cards=1`, "quota"},
		"a card of another model while H200 is above its lowered quota": {`
			place a node=h200-0 cards=2
			write queue q quota=H200:1,RTX4090:1
			wait 1m
			place b node=rtx4090-0 cards=1 card=RTX4090`, ""},
		"2 cards of a queue that was deleted, and created with a quota of 1": {`
			remove queue q
			wait 11s
			write queue q quota=H200:1
			place a node=h200-0 cards=2`, "quota"},
		"the PodGroup is of a queue without quota": {`
			load queue other
			write group g queue=other
			place a node=h200-0 cards=1 group=g`, "quota"},
		"a pod of another queue's PodGroup, which is removed, is no usage of q": {`
			load queue other quota=H200:1
			write group g queue=other
			place a node=h200-0 cards=1 group=g
			remove group g
			place b node=h200-0 cards=2`, ""},
		"4 cards of a pod that names no queue":                             {`place a node=h200-0 cards=4 queue= card=`, ""},
		"a pod that wants H200 on an RTX4090, for which there is no quota": {`place a node=rtx4090-0 cards=1`, "card quota"},
		"pods that want RTX4090 or H200, one on each": {`
			load queue q quota=H200:2,RTX4090:1
			place a node=h200-0 cards=1 card=RTX4090|H200
			place b node=rtx4090-0 cards=1 card=RTX4090|H200`, ""},
		"a pod that names no card, on an H200":                                 {`place a node=h200-0 cards=1 card=`, ""},
		"a pod that names no card, on an RTX4090, for which there is no quota": {`place a node=rtx4090-0 cards=1 card=`, "quota"},
		"a pod that wants H200, on a node without a label":                     {`place a node=unnamed-0 cards=1`, "card"},
		"a pod that wants cards of two resources": {`
			load node npu-0 model= cards= label:huawei.com/npu.product=Ascend-910B label:huawei.com/npu.memory=65536 resource:huawei.com/Ascend910=8
			load queue q quota=H200:2,Ascend-910B:2
			place a node=h200-0 cards=1 resource:huawei.com/Ascend910=1`, "card"},
		"3 cards, of which 1 is on a node that has lost its label since": {`
			place a node=h200-0 cards=1
			write node h200-0 model=
			load node h200-1
			place b node=h200-1 cards=1
			place c node=h200-1 cards=1`, "quota"},
		"a pod without cards": {`place a node=rtx4090-0 card=`, ""},
	})
}

// TestPodsThatWerePlacedBeforeTheStartAreNoViolation: the observer knows nothing about the time before it
// started. Pod a wants H200, and uses 5 RTX4090 for which its queue has no quota, but it was there before. A
// later update of it is no placement.
func TestPodsThatWerePlacedBeforeTheStartAreNoViolation(t *testing.T) {
	newSceneWithQuotaOfTwo().playScript(`load pod a cards=5 node=rtx4090-0; write pod a`).expectViolations(t, "")
}

// TestAViolationOfAQuotaSaysWhatIsWrong: the message of a violation names the node, the cards of the pod, what
// the queue uses, its largest quota of the last 10 s, and the number of the change. Pod a takes 3 H200 of queue q, which
// has 2. Change 1 creates a, and change 2 binds it.
func TestAViolationOfAQuotaSaysWhatIsWrong(t *testing.T) {
	s := newSceneWithQuotaOfTwo().playScript(`place a node=h200-0 cards=3`)
	const want = "was placed on node h200-0 with 3 of <NVIDIA-H200>: queue <q> now uses 3, and its quota was at most 2 in the 10s before (revision 2)"
	check.Must(t, len(s.observed.violations) == 1, "want one violation, found %v", s.observed.violations)
	check.Equal(t, "object", "pod/test/a", s.observed.violations[0].Object)
	check.Equal(t, "message", want, s.observed.violations[0].Message)
}

// TestUsedAndTerminatingCardsStayWithinTwiceTheQuota: a pod that is being deleted no longer counts as usage, but it
// may still use its cards. So a queue could restart all pods again and again. The observer reports a placement if
// used and terminating cards of a model are then more than twice the quota. Queue q has a quota of 2, so more than 4
// are too many. Terminating pods do not count on a node that is gone, or was not ready within the last 10 s, as they
// may never end.
func TestUsedAndTerminatingCardsStayWithinTwiceTheQuota(t *testing.T) {
	const p1Terminates = `
		place p1 node=h200-0 cards=2
		write pod p1 deleted=true
	`
	const p2Terminates = `
		place p2 node=h200-0 cards=2
		write pod p2 deleted=true
	`
	const bothTerminateP1OnAnotherNode = `
		write node h200-1
		place p1 node=h200-1 cards=2
		write pod p1 deleted=true
	` + p2Terminates

	playAndExpectViolations(t, newSceneWithQuotaOfTwo, map[string]scriptCase{
		"2 used, 2 terminating": {p1Terminates + `place a node=h200-0 cards=2`, ""},
		"1 used, 4 terminating": {
			p1Terminates + p2Terminates + `place a node=h200-0 cards=1`, "quota",
		},
		"2 used, 2 terminating, and 2 that have ended before": {
			p1Terminates + `remove pod p1;` + p2Terminates + `place a node=h200-0 cards=2`, "",
		},
		"2 used, 2 terminating, and 2 that failed before they were gone": {
			p1Terminates + `write pod p1 phase=Failed;` + p2Terminates + `place a node=h200-0 cards=2`, "",
		},
		"2 used, 2 terminating, and 2 on a node that is gone": {
			bothTerminateP1OnAnotherNode + `remove node h200-1; place a node=h200-0 cards=2`, "",
		},
		"2 used, 2 terminating, and 2 on a node that is not ready, or was not a moment ago": {bothTerminateP1OnAnotherNode + `
			write node h200-1 ready=Unknown
			wait 1m
			place a node=h200-0 cards=1
			write node h200-1 ready=True
			place b node=h200-0 cards=1`, ""},
		"1 used, 2 terminating, and 2 on a node that is ready again for 11 s": {bothTerminateP1OnAnotherNode + `
			write node h200-1 ready=False
			write node h200-1 ready=True
			wait 11s
			place a node=h200-0 cards=1`, "quota"},
		"1 used of another card model, 4 of H200 terminating": {
			`write queue q quota=H200:2,RTX4090:1;` + p1Terminates + p2Terminates + `place a node=rtx4090-0 cards=1 card=RTX4090`, "",
		},
	})
}

// TestAQueueGivesCardsOnlyToNamespacesThatItSelects: a queue with a namespaceSelector gives cards to pods of the
// selected namespaces only. The observer reports others as violation "tenancy". Queue q selects namespaces with
// team=chat in most rows, and all pods are in namespace test. The scheduler may not know a selector or label of the
// last 10 s, so the one before it counts too.
func TestAQueueGivesCardsOnlyToNamespacesThatItSelects(t *testing.T) {
	const selectsChat = `load queue q namespaceSelector={"matchLabels":{"team":"chat"}};`
	const isChat = selectsChat + `load namespace test team=chat; wait 1m;`
	const isLab = selectsChat + `load namespace test team=lab; wait 1m;`

	playAndExpectViolations(t, newSceneWithQuotaOfTwo, map[string]scriptCase{
		"a namespace that is selected":                {isChat + `place a node=h200-0 cards=1`, ""},
		"a queue without a selector":                  {`load namespace test team=lab; place a node=h200-0 cards=1`, ""},
		"a namespace that is not selected":            {isLab + `place a node=h200-0 cards=1`, "tenancy"},
		"a namespace that the observer does not know": {selectsChat + `wait 1m; place a node=h200-0 cards=1`, "tenancy"},
		"a selector that cannot be read: the queue may use no card": {`
			load queue q namespaceSelector=team=chat
			load namespace test team=chat
			wait 1m
			place a node=h200-0 cards=1`, "quota tenancy"},
		"a pod without cards in a namespace that is not selected": {isLab + `place a node=h200-0 card=`, ""},
		"a namespace that was selected until 9 s ago": {isChat + `
			write namespace test team=lab
			wait 9s
			place a node=h200-0 cards=1`, ""},
		"a namespace that was selected until 11 s ago": {isChat + `
			write namespace test team=lab
			wait 11s
			place a node=h200-0 cards=1`, "tenancy"},
		"a selector that was written 9 s ago is tolerated, 11 s ago is not": {`
			load namespace test team=lab
			write queue q namespaceSelector={"matchLabels":{"team":"chat"}}
			wait 9s
			place a node=h200-0 cards=1
			wait 2s
			place b node=h200-0 cards=1`, "tenancy"},
		"a namespace that gets its label after the pod was placed": {
			isLab + `place a node=h200-0 cards=1; write namespace test team=chat`, "tenancy",
		},
		"a pod that runs when its namespace loses the label": {selectsChat + `
			load namespace test team=chat
			place a node=h200-0 cards=1
			write namespace test team=lab
			wait 1m
			write pod a`, ""}, // an update is no placement
		"a namespace that was deleted, and created without the label: the label before does not count": {isChat + `
			remove namespace test
			write namespace test team=lab
			place a node=h200-0 cards=1`, "tenancy"},
	})
}
