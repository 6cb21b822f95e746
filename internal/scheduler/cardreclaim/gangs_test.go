package cardreclaim

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"cardquota.dev/operator/internal/testing/check"
)

func TestWholeGangsAndElasticPods(t *testing.T) {
	const roles = "node n model=A cards=8; job t queue=tra min=3 running=n*8 task=ps,pods:4,min:2 task=worker,pods:4,min:1; "
	runScenes(t, map[string]sceneCase{
		"a whole gang is evicted for one card":                          {"node n model=A cards=8; job t queue=tra min=8 running=n*8; job i queue=inf min=1 pending=1", "t*8", "i-0@n", nil},
		"a gang over two nodes goes from both":                          {"node n,m model=A cards=4; job t queue=tra min=8 running=n*4,m*4; job i queue=inf min=4 pending=4", "t*8", "i@n*4", nil},
		"the gang that has run for less":                                {"node n model=A cards=8; job old queue=tra min=4 running=n*4 age=48h; job new queue=tra min=4 running=n*4 age=24h; job i queue=inf min=1 pending=1", "new*4", "i-0@n", nil},
		"the smaller gang when they have run as long":                   {"node n model=A cards=8; job large queue=tra min=6 running=n*6 age=24h; job small queue=tra min=2 running=n*2 age=24h; job i queue=inf min=1 pending=1", "small*2", "i-0@n", nil},
		"the larger gang when the smaller one would not be enough":      {"node n model=A cards=8; job large queue=tra min=6 running=n*6 age=24h; job small queue=tra min=2 running=n*2 age=24h; job i queue=inf min=3 pending=3", "large*6", "i@n*3", nil},
		"one gang rather than two smaller ones that lose more together": {"node n model=A cards=8; job a queue=tra min=2 running=n*2 age=72h; job b queue=tra min=2 running=n*2 age=72h; job c queue=tra min=4 running=n*4 age=48h; job i queue=inf min=4 pending=4", "c*4", "i@n*4", nil},
		"elastic pods before a gang, however long they have run":        {"node n model=A cards=8; job wide queue=tra min=1 running=n*4 age=216h; job gang queue=tra min=4 running=n*4 age=1h; job i queue=inf min=1 pending=1", "wide-0", "i-0@n", nil},
		"elastic pods before a gang that has only just been placed":     {"node n model=A cards=8; job wide queue=tra min=1 running=n*4 age=216h; job gang queue=tra min=4 running=n*4; job i queue=inf min=1 pending=1", "wide-0", "i-0@n", nil},
		"as many as are above the minimum, and no more":                 {"node n model=A cards=8; job t queue=tra min=6 running=n*8; job i queue=inf min=2 pending=2", "t-0 t-1", "i@n*2", nil},
		"the whole job when its elastic pods are too few":               {"node n model=A cards=8; job t queue=tra min=6 running=n*8; job i queue=inf min=3 pending=3", "t*8", "i@n*3", nil},
		"a job that is below its minimum is evicted whole":              {"node n model=A cards=8; job t queue=tra min=4 running=n*2; job u queue=tra min=6 running=n*6 age=24h; job i queue=inf min=1 pending=1", "t*2", "i-0@n", nil},
		"an elastic vcjob gives single pods":                            {"node n model=A cards=8; job t queue=tra min=1 running=n*8 owner=vcjob; job i queue=inf min=1 pending=1", "t-0", "i-0@n", nil},
		"a vcjob with a policy on evicted pods is evicted whole":        {"node n model=A cards=8; job t queue=tra min=1 running=n*8 owner=vcjob evictionPolicy=RestartJob; job i queue=inf min=1 pending=1", "t*8", "i-0@n", nil},
		"a vcjob of which the policy ends it is evicted whole":          {"node n model=A cards=8; job t queue=tra min=1 running=n*8 owner=vcjob evictionPolicy=TerminateJob; job i queue=inf min=1 pending=1", "t*8", "i-0@n", nil},
		"pods without cards go with their gang":                         {"node n model=A cards=8; job t queue=tra min=9 running=n*9; job i queue=inf min=1 pending=1", "t*9", "i-0@n", onPod("t-0", withoutCards)},
		"pods without cards are not taken for cards":                    {"node n model=A cards=8; job t queue=tra min=1 running=n*9; job i queue=inf min=1 pending=1", "t-1", "i-0@n", onPod("t-0", withoutCards)},
		"elastic pods are counted for each role":                        {roles + "job i queue=inf min=3 pending=3", "t-0 t-1 t-4", "i@n*3", nil},
		"and for the job as a whole":                                    {"node n model=A cards=8; job t queue=tra min=7 running=n*8 task=ps,pods:4,min:2 task=worker,pods:4,min:1; job i queue=inf min=2 pending=2", "t*8", "i@n*2", nil},
		"roles do not matter when their minimum is above the job's":     {"node n model=A cards=8; job t queue=tra min=2 running=n*8 task=ps,pods:4,min:4 task=worker,pods:4,min:4; job i queue=inf min=6 pending=6", "t*6", "i@n*6", nil},
		"pods that ended count for the minimum":                         {"node n model=A cards=8; job t queue=tra min=5 running=n*8; job u queue=tra min=1 running=n age=24h; job i queue=inf min=2 pending=2", "t-1 t-2", "i@n*2", onPod("t-0", func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded })},
		"gangs on another card stay":                                    {"node n model=A cards=4; node m model=B cards=4; job a queue=tra min=4 running=n*4 age=216h; job b queue=tra min=4 running=m*4 card=B; job i queue=inf min=1 pending=1", "a*4", "i-0@n", nil},
		"zero nodes":                                                    {"job i queue=inf min=1 pending=1", "", "", nil},
		"pods on a node that is not there any more go with their gang":  {"node n model=A cards=2; job t queue=tra min=4 running=n*2,gone*2 age=24h; job i queue=inf min=1 pending=1", "t*4", "i-0@n", nil},
		"as many as come free on the other node":                        {"node n model=A cards=2; job t queue=tra min=4 running=n*2,gone*2 age=24h; job i queue=inf min=2 pending=2", "t*4", "i@n*2", nil},
		"one more than that":                                            {"node n model=A cards=2; job t queue=tra min=4 running=n*2,gone*2 age=24h; job i queue=inf min=3 pending=3", "", "", nil},
		"elastic pods on a node that is not there do not help":          {"node n model=A cards=2; job t queue=tra min=3 running=gone,n*2,gone age=24h; job i queue=inf min=1 pending=1", "t-1", "i-0@n", nil},
	})

	t.Run("a job without PodGroup stays", func(t *testing.T) {
		w := newScene("node n model=A cards=8; job t queue=tra min=1 running=n*8; job i queue=inf min=1 pending=1")
		w.Groups = w.Groups[1:]
		w.runAction(t).expectEvictedAndPlaced(t, "", "")
	})
}

// withoutCards removes the cards of a pod.
func withoutCards(p *corev1.Pod) {
	delete(p.Spec.Containers[0].Resources.Requests, gpu)
	delete(p.Annotations, "volcano.sh/card.name")
}

func TestCheckpoints(t *testing.T) {
	at := func(ago time.Duration) string { return time.Now().Add(-ago).UTC().Format(time.RFC3339) }

	for t, tc := range check.Cases(t, map[string]struct{ group, pod, goes string }{ // of the job that runs longer
		"none":                                 {"", "", "second*4"},
		"of the PodGroup":                      {at(hour), "", "first*4"},
		"of a pod, for all pods of the job":    {"", at(hour), "first*4"},
		"the latest counts":                    {at(30 * hour), at(hour), "first*4"},
		"the latest counts, the other way":     {at(hour), at(30 * hour), "first*4"},
		"too long ago to help":                 {at(30 * hour), "", "second*4"},
		"before the start counts as the start": {at(90 * day), "", "second*4"},
		"in the future counts as now":          {at(-90 * day), "", "first*4"},
		"what is no time is none":              {"yesterday", "12:00", "second*4"},
	}) {
		w := newScene("node n model=A cards=8; job first queue=tra min=4 running=n*4 age=48h; job second queue=tra min=4 running=n*4 age=24h; job i queue=inf min=1 pending=1", onPod("first-2", func(p *corev1.Pod) { p.Annotations["volcano.sh/checkpoint-time"] = tc.pod }))
		w.Groups[0].Annotations["volcano.sh/checkpoint-time"] = tc.group
		w.runAction(t).expectEvictedAndPlaced(t, tc.goes, "i-0@n")
	}
}

func TestVictimsOfEqualLoss(t *testing.T) {
	for t, jobs := range check.Cases(t, map[string]string{
		"the queue of lower priority": "job x queue=low min=4 running=n*4 age=48h priorityClass=high; job a queue=tra min=4 running=n*4 age=24h priorityClass=low",
		"then the younger job":        "job a queue=tra min=4 running=n*4 age=48h priorityClass=low; job x queue=tra min=4 running=n*4 age=24h priorityClass=low",
	}) {
		w := newScene("node n model=A cards=8; queue low quota=PLENTY priority=10000 serviceType=training;" + jobs + "; job i queue=inf min=1 pending=1")
		for _, group := range w.Groups { // no work is lost
			group.Annotations["volcano.sh/checkpoint-time"] = time.Now().Add(hour).UTC().Format(time.RFC3339)
		}
		w.runAction(t).expectEvictedAndPlaced(t, "x*4", "i-0@n")
	}
}

func TestProtectedPods(t *testing.T) {
	const (
		four  = "node n model=A cards=4; job i queue=inf min=1 pending=1; job t queue=tra min=4 running=n*4 age=24h "
		other = "node n model=A cards=4; job i queue=inf min=1 pending=1; job t queue=other min=4 running=n*4 age=24h "
	)

	runScenes(t, map[string]sceneCase{
		"a gang of which one pod is protected":                  {four, "", "", onPod("t-2", protect)},
		"a protected pod of an elastic job":                     {strings.Replace(four, "queue=tra min=4", "queue=tra min=1", 1), "t-1", "i-0@n", onPod("t-0", protect)},
		"an elastic job of which only a protected pod could go": {strings.Replace(four, "queue=tra min=4", "queue=tra min=3", 1) + "task=ps,pods:1,min:0 task=w,pods:3,min:3", "", "", onPod("t-0", protect)},
		"a protected PodGroup":                                  {four + "groupPreemptable=false", "", "", nil},
		"pods that are critical to the system":                  {four, "", "", onJob("t", func(p *corev1.Pod) { p.Spec.PriorityClassName = "system-node-critical" })},
		"a gang of which a pod is being placed":                 {"node n model=A cards=4; node m model=A cards=1; job t queue=tra min=4 running=n*3 pending=1 age=24h; job i queue=inf min=1 pending=1 cards=4", "", "", nil},
		"a queue that is not reclaimable":                       {four + "; queue tra quota=PLENTY priority=20000 serviceType=training reclaimable=false", "", "", nil},
		"a queue of equal priority":                             {four + "; queue tra quota=PLENTY priority=80000 serviceType=training", "", "", nil},
		"a queue of higher priority":                            {four + "; queue tra quota=PLENTY priority=90000 serviceType=training", "", "", nil},
		"the same queue":                                        {strings.Replace(four, "tra", "inf", 1), "", "", nil},
		"another inference queue":                               {other + "; queue other quota=PLENTY priority=100 serviceType=inference", "", "", nil},
		"a queue of unknown type":                               {other + "; queue other quota=PLENTY priority=100 serviceType=batch", "", "", nil},
		"a queue without type, pods of no type":                 {other + "; queue other quota=PLENTY priority=100 reclaimable=true", "", "", nil},
		"a queue without type, pods that are training":          {other + "serviceType=training; queue other quota=PLENTY priority=100 reclaimable=true", "t*4", "i-0@n", nil},
		"a queue without type, one pod that is not training": {other + "; queue other quota=PLENTY priority=100 reclaimable=true", "", "", onJob("t", func(p *corev1.Pod) {
			if p.Name != "t-3" {
				typed("training")(p)
			}
		})},
		"training reclaims nothing":    {four + "; queue inf quota=PLENTY priority=80000 serviceType=training", "", "", nil},
		"unknown types take nothing":   {four + "; queue inf quota=PLENTY priority=80000 serviceType=batch", "", "", nil},
		"a closed queue takes nothing": {four + "; queue inf quota=PLENTY priority=80000 serviceType=inference state=Closed", "", "", nil},
		"a vcjob that is not known":    {four + "owner=vcjob evictionPolicy=Unknown", "", "", nil},
		"an owner of another kind":     {four, "t*4", "i-0@n", onJob("t", ownedBy("batch/v1", "Job"))},
	})
}

func TestMinimumRuntime(t *testing.T) {
	never := func(p *corev1.Pod) {
		p.Status.Phase = corev1.PodPending
		p.Status.StartTime = nil
	}

	// One pod runs its init containers. Another one has had its node for so long, and has not
	// started.
	inInit := func(p *corev1.Pod) { p.Status.Phase = corev1.PodPending }
	boundFor := func(d time.Duration) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Status = corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{
				Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: ago(d)}}}
		}
	}

	older := func(p *corev1.Pod) { p.Status.StartTime.Time = p.Status.StartTime.Add(-2 * hour) }
	for t, tc := range check.Cases(t, map[string]struct {
		least        int
		ran          string
		change       func(*corev1.Pod)
		isTaken, all bool // without a minimum all pods are elastic
	}{
		"a job that has run for less is not taken":     {least: 4, ran: "59m"},
		"nor are its elastic pods":                     {least: 1, ran: "59m"},
		"one that has run for as long is":              {least: 4, ran: "61m", isTaken: true},
		"the job counts from its oldest pod":           {least: 4, ran: "5m", change: onPod("a-2", older), isTaken: true},
		"a job of which nothing has started stays":     {least: 4, ran: "9h", change: onJob("a", never)},
		"one that works in init containers counts":     {least: 4, ran: "2h", change: onJob("a", inInit), isTaken: true},
		"but not before its time":                      {least: 4, ran: "59m", change: onJob("a", inInit)},
		"one that has had its nodes for as long is":    {least: 4, ran: "9h", change: onJob("a", boundFor(61*time.Minute)), isTaken: true},
		"one that was just given them stays":           {least: 4, ran: "9h", change: onJob("a", boundFor(time.Minute))},
		"without a minimum it is taken before it runs": {least: 4, ran: "9h", change: onJob("a", never), isTaken: true, all: true},
	}) {
		w := newScene(fmt.Sprintf("node n model=A cards=8; job i queue=inf min=1 pending=1; job b queue=tra min=%d running=n*4 age=30m; job a queue=tra min=%d running=n*4 age=%s", tc.least, tc.least, tc.ran), tc.change)
		if !tc.all {
			w.args = protectFor("1h")
		}

		want := map[bool][2]string{true: {"a*4", "i-0@n"}}[tc.isTaken]
		w.runAction(t).expectEvictedAndPlaced(t, want[0], want[1])
	}
}
