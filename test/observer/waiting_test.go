package observer

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
)

// TestWhatWaitsIsListed: the queue q has a quota of two H200.
func TestWhatWaitsIsListed(t *testing.T) {
	const two = `write pod a cards=2 unschedulable=full; write pod b cards=1 unschedulable=full; `
	says := func(blocked string) string {
		return `load quota q used=0 free=2 pending=3; write quota q ` + blocked + `; check; wait 11s`
	}

	runScripts(t, newScene, map[string]scriptCase{
		"all of it":                        {two + says(`blocked=pod:a,card:H200,count:2,reason:QuotaExhausted blocked=pod:b,card:H200,count:1,reason:QuotaExhausted`), ""},
		"nothing":                          {two + says(`blocked=`), "status"},
		"nothing, for a moment":            {two + `load quota q used=0 free=2 pending=3; check; wait 4s`, "open"},
		"one of two":                       {two + says(`blocked=pod:a,card:H200,count:2,reason:QuotaExhausted`), "status"},
		"another count":                    {two + says(`blocked=pod:a,card:H200,count:1,reason:QuotaExhausted blocked=pod:b,card:H200,count:1,reason:QuotaExhausted`), "status"},
		"another card":                     {two + says(`blocked=pod:a,card:RTX4090,count:2,reason:QuotaExhausted blocked=pod:b,card:H200,count:1,reason:QuotaExhausted`), "status"},
		"by two reasons":                   {two + says(`blocked=pod:a,card:H200,count:1,reason:QuotaExhausted blocked=pod:a,card:H200,count:1,reason:GangIncomplete blocked=pod:b,card:H200,count:1,reason:QuotaExhausted`), ""},
		"what does not wait":               {two + says(`blocked=pod:a,card:H200,count:2,reason:QuotaExhausted blocked=pod:b,card:H200,count:1,reason:QuotaExhausted blocked=pod:c,card:H200,count:1,reason:QuotaExhausted`), "status"},
		"what waits, and states nothing":   {`write pod a cards=3; load quota q used=0 free=2 pending=3; check; wait 9s`, "open"},
		"it is listed before it says why":  {`write pod a cards=3; ` + says(`blocked=pod:a,card:H200,count:3,reason:QuotaExhausted`), "reason status"},
		"what runs":                        {`load pod a cards=2 node=h200-0; load queue q quota=H200:2 allocated=H200:2; load quota q used=2 free=0; write quota q blocked=pod:a,card:H200,count:2,reason:QuotaExhausted holder=pod:a,queue:q,serviceType:training,count:2; check; wait 11s`, "status"},
		"a job without pods":               {`write group g queue=q request=H200:3 unschedulable=full; ` + says(`blocked=podgroup:g,card:H200,count:3,reason:QuotaExhausted`), ""},
		"a job without pods, not listed":   {`write group g queue=q request=H200:3 unschedulable=full; ` + says(`blocked=`), "status"},
		"a job without pods, other cards":  {`write group g queue=q request=H200:3 unschedulable=full; ` + says(`blocked=podgroup:g,card:H200,count:2,reason:QuotaExhausted`), "status"},
		"pods that wait as their PodGroup": {`write group g queue=q unschedulable=full; write pod a cards=3 group=g; ` + says(`blocked=pod:a,card:H200,count:3,reason:QuotaExhausted`), ""},
		"what waits in another queue":      {`load queue r quota=H200:2; write pod a cards=3 queue=r unschedulable=full; load quota q used=0 free=2; check; wait 11s`, ""},
	})
}

// TestTheTotalCountsWhatIsNotListed: a status has ten entries.
func TestTheTotalCountsWhatIsNotListed(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		listed, total int
		want          string
	}{
		"ten of twelve":               {10, 12, ""},
		"a total that is the list's":  {10, 10, "status"},
		"a total of more":             {10, 13, "status"},
		"nine, although ten can be":   {9, 12, "status"},
		"nothing, and the total is 0": {0, 0, "status"},
	}) {
		w := newScene()
		quota := w.Object("quota", "q", "used=0", "free=2", "pending=12").(*v1alpha1.CardQuota)
		for i := range 12 {
			pod := builder.Pod("test", "p"+string(rune('a'+i))).Queue("q").Card(h200).GPUs(1).Unschedulable("full").Obj()
			w.machine.loadObject(pod, w.clock)
			if i < tc.listed {
				quota.Status.Blocked = append(quota.Status.Blocked, v1alpha1.BlockedStatus{
					Workload: v1alpha1.WorkloadReference{Kind: "Pod", Namespace: "test", Name: pod.Name}, Card: h200, Count: 1, Reason: v1alpha1.BlockedQuotaExhausted,
				})
			}
		}

		quota.Status.BlockedTotal = int32(tc.total)
		w.machine.loadObject(quota, w.clock)
		w.playScript(`check; wait 11s`).expectViolations(t, tc.want)
	}
}

// TestViewsSayWhatWaits: a pod waits in the namespace mine, and two elsewhere.
func TestViewsSayWhatWaits(t *testing.T) {
	waits := func(s *v1alpha1.LocalCardQuotaStatus) {
		s.Cards[0].Pending = 3
		s.BlockedTotal = 1
		s.BlockedElsewhere = 2
		s.Blocked = []v1alpha1.BlockedStatus{{Workload: v1alpha1.WorkloadReference{Kind: "Pod", Namespace: "mine", Name: "a"}, Card: h200, Count: 1, Reason: v1alpha1.BlockedQuotaExhausted}}
	}

	for t, tc := range check.Cases(t, map[string]struct {
		change func(*v1alpha1.LocalCardQuotaStatus)
		want   string
	}{
		"right":             {func(*v1alpha1.LocalCardQuotaStatus) {}, ""},
		"nothing is listed": {func(s *v1alpha1.LocalCardQuotaStatus) { s.Blocked = nil }, "status"},
		"nothing waits here": {func(s *v1alpha1.LocalCardQuotaStatus) {
			s.Blocked = nil
			s.BlockedTotal = 0
			s.BlockedElsewhere = 3
		}, "status"},
		"nothing waits": {func(s *v1alpha1.LocalCardQuotaStatus) {
			s.Blocked = nil
			s.BlockedTotal = 0
			s.BlockedElsewhere = 0
		}, "status"},
		"nothing waits there":    {func(s *v1alpha1.LocalCardQuotaStatus) { s.BlockedElsewhere = 0 }, "status"},
		"all of it waits there":  {func(s *v1alpha1.LocalCardQuotaStatus) { s.BlockedElsewhere = 3 }, "status"},
		"for another number":     {func(s *v1alpha1.LocalCardQuotaStatus) { s.Blocked[0].Count = 2 }, "status"},
		"a pod that does not":    {func(s *v1alpha1.LocalCardQuotaStatus) { s.Blocked[0].Workload.Name = "b" }, "status"},
		"a Job of the same name": {func(s *v1alpha1.LocalCardQuotaStatus) { s.Blocked[0].Workload.Kind = "Job" }, "status"},
	}) {
		w := newScene().playScript(`load namespace mine team=chat; load namespace theirs; load quota q used=0 free=2 pending=3`)
		quota := w.Object("quota", "q").(*v1alpha1.CardQuota)
		for namespace, names := range map[string][]string{"mine": {"a"}, "theirs": {"b", "c"}} {
			for _, name := range names {
				w.machine.loadObject(builder.Pod(namespace, name).Queue("q").Card(h200).GPUs(1).Unschedulable("full").Obj(), w.clock)
				quota.Status.Blocked = append(quota.Status.Blocked, v1alpha1.BlockedStatus{
					Workload: v1alpha1.WorkloadReference{Kind: "Pod", Namespace: namespace, Name: name}, Card: h200, Count: 1, Reason: v1alpha1.BlockedQuotaExhausted,
				})
			}
		}

		quota.Status.BlockedTotal = 3
		quota.Spec.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": "chat"}}
		w.applyObject(quota, false)
		w.applyObject(viewOf("mine", 0, waits, tc.change), false)
		w.playScript(`check; wait 21s`).expectViolations(t, tc.want)
	}
}

// TestOnlyCardsWithQuotaLeftCount: the queue q has quota for two H200, and 4090 are free.
func TestOnlyCardsWithQuotaLeftCount(t *testing.T) {
	const full = `load queue r quota=H200:99; load pod x queue=r cards=8 node=h200-0; load pod y queue=r cards=2 card=RTX4090 node=rtx4090-0; `
	says := func(reason string) string {
		return full + `write pod a cards=2 card=H200|RTX4090 unschedulable=full; load quota q used=0 free=2 pending=2; write quota q blocked=pod:a,card:H200|RTX4090,count:2,reason:` + reason + `; check; wait 11s`
	}
	runScripts(t, newScene, map[string]scriptCase{
		"the other card does not help":      {says(`NoFreeCard holder=pod:x,queue:r,count:8`), ""},
		"so its holders do not either":      {says(`NoFreeCard holder=pod:x,queue:r,count:8 holder=pod:y,queue:r,count:2`), "truth"},
		"without a CardQuota each may help": {`load queue q quota=H200:2,RTX4090:9; ` + says(`NoFreeCard holder=pod:x,queue:r,count:8`), "truth"},
	})
}
