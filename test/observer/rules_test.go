package observer

import "testing"

// TestTheStatusOfACardQuotaEqualsARecount: the status of a CardQuota, and the annotation card.allocated of its Queue
// ("allocated"), equal a recount of the pods. They may lag 5 s behind the last change. Without a CardQuota the Queue
// need not have the annotation, but one that it has must be right. Queue q and its CardQuota have 2 H200; node h200-0
// has 8. "load quota" and "write quota" say what the status reads. "status" is the violation of a wrong status,
// "tolerated" while it may lag.
func TestTheStatusOfACardQuotaEqualsARecount(t *testing.T) {
	const readsNoneUsed = `
		load quota q used=0 free=2
	`
	// The status reads none used, and pod a uses one.
	const oneUsed = readsNoneUsed + `
		place a node=h200-0 cards=1
		check
	`
	const readsOneUsed = `
		write quota q used=1 free=1
	`

	playAndExpectViolations(t, newSceneWithQuotaOfTwo, map[string]scriptCase{
		"none used, the status reads none used":          {readsNoneUsed + `wait 1m`, ""},
		"one used, the status reads none for 4 s":        {oneUsed + `wait 4s`, "tolerated"},
		"one used, the status reads none for 5.1 s":      {oneUsed + `wait 5100ms`, "status"},
		"a change of another queue prolongs nothing":     {oneUsed + `wait 5100ms; write queue other quota={}`, "status"},
		"one used, status and Queue read one":            {oneUsed + readsOneUsed + `write queue q allocated=H200:1; wait 1m`, ""},
		"one used, the status reads one, the Queue none": {oneUsed + readsOneUsed + `wait 1m`, "status"},
		"none used, the Queue reads 0":                   {readsNoneUsed + `write queue q allocated=H200:0; wait 1m`, ""},
		"no CardQuota, none used, and the Queue reads 1": {`write queue q allocated=H200:1; check; wait 1m`, "status"},
		"no CardQuota, one used for 4 s, the Queue reads none": {`
			write queue q allocated={}
			check
			wait 1m
			place a node=h200-0 cards=1
			wait 4s`, "tolerated"},
		"no CardQuota, one used, and the Queue has no annotation": {`place a node=h200-0 cards=1; wait 1m`, ""},
		// The operator may write the 0 between the two pods, and replace it a moment later.
		"one used, replaced at once: status and Queue may read the 0 between the two pods for 4 s": {`
			load quota q used=1 free=1
			load queue q allocated=H200:1
			place a node=h200-0 cards=1
			check
			wait 1m
			remove pod a
			write quota q used=0 free=2
			write queue q allocated={}
			place b node=h200-0 cards=1
			wait 4s`, "tolerated"},
		"the CardQuota is being deleted, none used, and the Queue reads 1": {`
			load quota q deleted=true
			write queue q allocated=H200:1
			check
			wait 1m`, "status"},
		"2 cores and 1 Gi used, the status reads both": {`
			load quota q used=0 free=2 usedCPU=2 usedMemory=1Gi
			place a node=h200-0 card= cpu=2000m memory=1024Mi
			wait 1m`, ""},
		"4 cores and 2 Gi used, the status reads half": {`
			load quota q used=0 free=2 usedCPU=2 usedMemory=1Gi
			place a node=h200-0 card= cpu=2000m memory=1024Mi
			wait 1m
			check
			write pod b card= cpu=2000m memory=1024Mi node=h200-0
			check
			wait 6s`, "status"},
		"the status does not list the card": {`
			load quota q
			check
			wait 1m`, "status"},
		"a pod that waits for RTX4090 or H200 is pending under H200, which has a quota": {`
			load quota q used=0 free=2 pending=3 blocked=pod:a,card:RTX4090|H200,count:3,reason:QuotaExhausted
			write pod a cards=3 card=RTX4090|H200 unschedulable=no-room
			wait 1m`, ""},
		"a job without pods is pending with the cards of its card.request": {`
			load quota q used=0 free=2 pending=4 blocked=podgroup:g,card:H200,count:4,reason:QuotaExhausted
			write group g queue=q request=H200:4 unschedulable=no-room
			wait 1m`, ""},
		"two used, the quota was lowered to 1, and the status reads 1 over it": {`
			place a node=h200-0 cards=2
			write queue q allocated=H200:2
			write quota q quota=1 used=2 overQuotaBy=1
			wait 1m`, ""},
		"of two CardQuotas for one queue the younger reads nothing": {
			readsNoneUsed + `load quota late quota=7 queue=q created=1; wait 1m`, "",
		},
		"a CardQuota that is being deleted reads nothing": {`load quota q deleted=true; wait 1m`, ""},
		"the queue of the CardQuota, which the operator should create, does not exist": {`
			load quota nowhere
			check
			wait 1m`, "status"},
	})
}

// TestAWorkloadThatWaitsSaysWhy: a pod that waits for cards states a reason after 10 s at the latest, itself or by
// its PodGroup. So does a PodGroup without pods; a PodGroup with pods need not, as its pods do. "unschedulable=" in a
// step writes the condition with the reason. "reason" is the violation that the observer reports, and "tolerated" a
// missing reason before 10 s are over.
func TestAWorkloadThatWaitsSaysWhy(t *testing.T) {
	playAndExpectViolations(t, newSceneWithQuotaOfTwo, map[string]scriptCase{
		"a pod has no reason for 9 s":  {`write pod a cards=1; wait 9s`, "tolerated"},
		"a pod has no reason for 11 s": {`write pod a cards=1; wait 11s`, "reason"},
		"a pod has a reason":           {`write pod a cards=1 unschedulable=no-room; wait 1m`, ""},
		"a pod has an empty reason":    {`write pod a cards=1 unschedulable=; wait 1m`, "reason"},
		"the PodGroup of the pod has a reason": {`
			write group g queue=q unschedulable=no-room
			write pod a cards=1 group=g
			wait 1m`, ""},
		"a pod with a scheduling gate has no reason": {`write pod a cards=1 gated=true; wait 1m`, ""},
		"a pod has no reason for 9 s after its scheduling gate was removed": {`
			write pod a cards=1 gated=true
			wait 1m
			write pod a gated=false
			wait 9s`, "tolerated"},
		"a pod of another scheduler has no reason": {`write pod a cards=1 scheduler=default-scheduler; wait 1m`, ""},
		"a pod without cards has no reason":        {`write pod a card=; wait 1m`, ""},
		"a PodGroup without pods, with a card.request, has no reason": {`
			write group g queue=q request=H200:4
			check
			wait 11s`, "reason"},
		"a PodGroup without pods, with minResources, has no reason": {`
			write group g queue=q cards=4
			check
			wait 11s`, "reason"},
		"a PodGroup has no reason, and its pod has one": {`
			write group g queue=q request=H200:4
			write pod a cards=1 group=g unschedulable=no-room
			check
			wait 1m`, ""},
		"a PodGroup that runs has no reason": {`
			write group g queue=q request=H200:4 phase=Running
			check
			wait 1m`, ""},
	})
}

// TestObjectsOfOtherTestsAreNotChecked: tests share a cluster, so the observer of a test checks only what concerns it,
// here pod "mine". Another pod uses 3 H200 of 2, one has no reason, and a CardQuota has no queue: nothing is reported.
// But cards that others use count: mine is the fourth card of 2.
func TestObjectsOfOtherTestsAreNotChecked(t *testing.T) {
	s := newSceneWithQuotaOfTwo()
	s.observed.options.Concerns = func(object string) bool { return object == "pod/test/mine" }
	s.playScript(`
		place theirs node=h200-0 cards=3
		write pod silent cards=1
		load quota nowhere
		check
		wait 1m`).expectViolations(t, "")

	s.playScript(`place mine node=h200-0 cards=1`).expectViolations(t, "quota")
}

// TestExcusedTimeDoesNotCount: a test may excuse an invariant while it breaks it on purpose. Pod a has no reason, which
// is a violation after 10 s. A minute of that is excused. So it is tolerated 9 s later, and a violation 11 s later.
func TestExcusedTimeDoesNotCount(t *testing.T) {
	s := newSceneWithQuotaOfTwo()
	s.observed.setExcused(Reason, true, s.clock)
	s.playScript(`write pod a cards=1; wait 1m; check`)
	s.observed.setExcused(Reason, false, s.clock)

	s.playScript(`wait 9s`).expectViolations(t, "tolerated")
	s.playScript(`wait 2s`).expectViolations(t, "reason")
}
