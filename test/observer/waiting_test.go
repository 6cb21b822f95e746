package observer

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
)

// TestAStatusListsEveryWorkloadThatWaits: status.blocked of a CardQuota lists each workload of its queue that states
// why it waits, with all cards for which it waits. It lists nothing else, and may lag 10 s behind. Queue q has 2 H200,
// all free. In the first rows pod a waits for 2, and pod b for 1, and both say why ("unschedulable"). The observer
// reports a wrong list as violation "status", and a pod that waits for 10 s and does not say why as "reason".
// "tolerated" is what it does not report yet. The reasons in the list are not compared here. "write" is an event of an
// object, and "check" begins the time of a wrong list (see playScript).
func TestAStatusListsEveryWorkloadThatWaits(t *testing.T) {
	const abWait = `
		write pod a cards=2 unschedulable=full
		write pod b cards=1 unschedulable=full
	`
	const jobWaits = `
		write group g queue=q request=H200:3 unschedulable=full
	`
	const aForTwo = "blocked=pod:a,card:H200,count:2,reason:QuotaExhausted"
	const bForOne = "blocked=pod:b,card:H200,count:1,reason:QuotaExhausted"
	statusLists := func(entries ...string) string {
		return "load quota q used=0 free=2 pending=3; write quota q " + strings.Join(entries, " ") + "; check; wait 11s"
	}

	playAndExpectViolations(t, newSceneWithQuotaOfTwo, map[string]scriptCase{
		"a and b are listed":       {abWait + statusLists(aForTwo, bForOne), ""},
		"no pod is listed":         {abWait + statusLists("blocked="), "status"},
		"no pod is listed for 9 s": {abWait + `load quota q used=0 free=2 pending=3; check; wait 9s`, "tolerated"},
		"only a is listed":         {abWait + statusLists(aForTwo), "status"},
		"a is listed for 1 card instead of 2": {
			abWait + statusLists("blocked=pod:a,card:H200,count:1,reason:QuotaExhausted", bForOne), "status",
		},
		"a is listed for another card model": {
			abWait + statusLists("blocked=pod:a,card:RTX4090,count:2,reason:QuotaExhausted", bForOne), "status",
		},
		"a is listed twice, for 1 card each, in all for its 2": {
			abWait + statusLists(
				"blocked=pod:a,card:H200,count:1,reason:QuotaExhausted",
				"blocked=pod:a,card:H200,count:1,reason:GangIncomplete",
				bForOne,
			),
			"",
		},
		"a pod is listed that does not exist": {
			abWait + statusLists(aForTwo, bForOne, "blocked=pod:c,card:H200,count:1,reason:QuotaExhausted"), "status",
		},
		"a does not say why, and is not listed yet": {
			`write pod a cards=3; load quota q used=0 free=2 pending=3; check; wait 9s`, "tolerated",
		},
		"a is listed, and does not say why": {
			`write pod a cards=3; ` + statusLists("blocked=pod:a,card:H200,count:3,reason:QuotaExhausted"), "reason status",
		},
		"a pod is listed that runs": {`
			load pod a cards=2 node=h200-0
			load queue q quota=H200:2 allocated=H200:2
			load quota q used=2 free=0
			write quota q blocked=pod:a,card:H200,count:2,reason:QuotaExhausted holder=pod:a,queue:q,serviceType:training,count:2
			check
			wait 11s`, "status"},
		"a job without pods is listed for its 3 cards": {
			jobWaits + statusLists("blocked=podgroup:g,card:H200,count:3,reason:QuotaExhausted"), "",
		},
		"a job without pods is not listed": {jobWaits + statusLists("blocked="), "status"},
		"a job without pods is listed for 2 of 3 cards": {
			jobWaits + statusLists("blocked=podgroup:g,card:H200,count:2,reason:QuotaExhausted"), "status",
		},
		"the PodGroup of a says why, and a is listed": {`
			write group g queue=q unschedulable=full
			write pod a cards=3 group=g
		` + statusLists("blocked=pod:a,card:H200,count:3,reason:QuotaExhausted"), ""},
		"a waits in another queue, and is not listed": {`
			load queue r quota=H200:2
			write pod a cards=3 queue=r unschedulable=full
			load quota q used=0 free=2
			check
			wait 11s`, ""},
	})
}

// blockedPod is the entry of a pod that waits for one H200 in status.blocked.
func blockedPod(namespace, name string) v1alpha1.BlockedStatus {
	workload := v1alpha1.WorkloadReference{Kind: "Pod", Namespace: namespace, Name: name}
	return v1alpha1.BlockedStatus{Workload: workload, Card: h200, Count: 1, Reason: v1alpha1.BlockedQuotaExhausted}
}

// loadWaitingPod loads a pod of queue q that waits for one H200 and says why.
func (s *scene) loadWaitingPod(namespace, name string) {
	s.observed.loadObject(builder.Pod(namespace, name).Queue("q").Card(h200).GPUs(1).Unschedulable("full").Obj(), s.clock)
}

// TestBlockedTotalCountsEntriesThatAreNotListed: status.blocked lists at most ten workloads, and blockedTotal counts
// all of them. Twelve pods wait in queue q, for whatever reason: that 2 cards of its quota are free does not matter
// here. So a right status lists ten, and its total is 12. The observer counts the pods, and reports a status that is
// wrong for 10 s as violation "status".
func TestBlockedTotalCountsEntriesThatAreNotListed(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		listed        int
		blockedTotal  int32
		wantViolation string
	}{
		"10 are listed, and the total is 12":                     {10, 12, ""},
		"10 are listed, and the total counts only these":         {10, 10, "status"},
		"10 are listed, and the total is too high":               {10, 13, "status"},
		"9 are listed, and the total is 12: there is room for 1": {9, 12, "status"},
		"none is listed, and the total is 0":                     {0, 0, "status"},
	}) {
		s := newSceneWithQuotaOfTwo()
		quota := s.Object("quota", "q", "used=0", "free=2", "pending=12").(*v1alpha1.CardQuota)
		for i := range 12 {
			name := "p" + string(rune('a'+i))
			s.loadWaitingPod("test", name)
			if i < tc.listed {
				quota.Status.Blocked = append(quota.Status.Blocked, blockedPod("test", name))
			}
		}

		quota.Status.BlockedTotal = tc.blockedTotal
		s.observed.loadObject(quota, s.clock)
		s.playScript(`check; wait 11s`).expectViolations(t, tc.wantViolation)
	}
}

// TestALocalCardQuotaListsWorkloadsOfItsNamespace: a LocalCardQuota lists the workloads that wait in its own
// namespace, and blockedElsewhere only counts those of other namespaces. Pod a waits in namespace "mine", pods b and c
// in "theirs", each for one H200. A right view of "mine" lists a, its total is 1, and 2 wait elsewhere. Each row changes
// one thing of that. "status" is the violation of a wrong view.
func TestALocalCardQuotaListsWorkloadsOfItsNamespace(t *testing.T) {
	type status = v1alpha1.LocalCardQuotaStatus
	totals := func(blocked, elsewhere int32) func(*status) {
		return func(view *status) {
			view.Blocked = nil
			view.BlockedTotal = blocked
			view.BlockedElsewhere = elsewhere
		}
	}

	for t, tc := range check.Cases(t, map[string]struct {
		change        func(view *status)
		wantViolation string
	}{
		"a right view": {func(*status) {}, ""},
		"a is not listed, and the totals are right":         {totals(1, 2), "status"},
		"none waits here, and 3 elsewhere":                  {totals(0, 3), "status"},
		"none waits here, and none elsewhere":               {totals(0, 0), "status"},
		"a is listed, and none waits elsewhere":             {func(view *status) { view.BlockedElsewhere = 0 }, "status"},
		"a is listed, and 3 wait elsewhere":                 {func(view *status) { view.BlockedElsewhere = 3 }, "status"},
		"a is listed for 2 cards instead of 1":              {func(view *status) { view.Blocked[0].Count = 2 }, "status"},
		"b of the other namespace is listed as one of this": {func(view *status) { view.Blocked[0].Workload.Name = "b" }, "status"},
		"a Job a is listed, and a is a pod":                 {func(view *status) { view.Blocked[0].Workload.Kind = "Job" }, "status"},
	}) {
		s := newSceneWithQuotaOfTwo().playScript(`
			load namespace mine team=chat
			load namespace theirs
			load quota q used=0 free=2 pending=3`)
		s.loadWaitingPod("mine", "a")
		s.loadWaitingPod("theirs", "b")
		s.loadWaitingPod("theirs", "c")

		quota := s.Object("quota", "q").(*v1alpha1.CardQuota)
		quota.Status.Blocked = []v1alpha1.BlockedStatus{blockedPod("mine", "a"), blockedPod("theirs", "b"), blockedPod("theirs", "c")}
		quota.Status.BlockedTotal = 3
		quota.Spec.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": "chat"}}
		s.writeObject(quota)

		view := viewOf("mine", 0)
		view.Status.Cards[0].Pending = 3 // of all namespaces
		view.Status.Blocked = []v1alpha1.BlockedStatus{blockedPod("mine", "a")}
		view.Status.BlockedTotal = 1
		view.Status.BlockedElsewhere = 2
		tc.change(&view.Status)
		s.writeObject(view)

		s.playScript(`check; wait 21s`).expectViolations(t, tc.wantViolation)
	}
}

// TestOnlyCardsWithQuotaLeftCountAsFree: pod a may use H200 or RTX4090. Queue q has quota for 2 H200, and none for
// RTX4090, so free RTX4090 do not help it. All 8 H200 are used by x, and 6 of 8 RTX4090 are free. So NoFreeCard is the
// right reason, and its holders are those of H200 only. "truth" is the violation of a wrong reason or holder.
func TestOnlyCardsWithQuotaLeftCountAsFree(t *testing.T) {
	aIsBlockedBy := func(reasonAndHolders string) string {
		return `
			load queue r quota=H200:99
			load pod x queue=r cards=8 node=h200-0
			load pod y queue=r cards=2 card=RTX4090 node=rtx4090-0
			write pod a cards=2 card=H200|RTX4090 unschedulable=full
			load quota q used=0 free=2 pending=2
			write quota q blocked=pod:a,card:H200|RTX4090,count:2,reason:` + reasonAndHolders + `
			check
			wait 11s`
	}

	playAndExpectViolations(t, newSceneWithQuotaOfTwo, map[string]scriptCase{
		"no free card, used by x":       {aIsBlockedBy(`NoFreeCard holder=pod:x,queue:r,count:8`), ""},
		"no free card, used by x and y": {aIsBlockedBy(`NoFreeCard holder=pod:x,queue:r,count:8 holder=pod:y,queue:r,count:2`), "truth"},
		"the queue has quota for RTX4090, of which 6 are free": {`
			load queue q quota=H200:2,RTX4090:9
		` + aIsBlockedBy(`NoFreeCard holder=pod:x,queue:r,count:8`), "truth"},
	})
}
