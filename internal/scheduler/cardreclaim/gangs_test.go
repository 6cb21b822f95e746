package cardreclaim

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"cardquota.dev/operator/internal/testing/check"
)

func TestWholeGangsAndElasticPods(t *testing.T) {
	const roles = "node n A 8; t tra 3: n*8 tasks=ps*4/2,worker*4/1; "
	runScenes(t, map[string]scene{
		"a whole gang is evicted for one card":                          {"node n A 8; t tra 8: n*8; i inf 1: -", "t*8", "i-0@n", nil},
		"a gang over two nodes goes from both":                          {"node n,m A 4; t tra 8: n*4 m*4; i inf 4: -*4", "t*8", "i@n*4", nil},
		"the gang that has run for less":                                {"node n A 8; old tra 4: n*4 ran=48h; new tra 4: n*4 ran=24h; i inf 1: -", "new*4", "i-0@n", nil},
		"the smaller gang when they have run as long":                   {"node n A 8; large tra 6: n*6 ran=24h; small tra 2: n*2 ran=24h; i inf 1: -", "small*2", "i-0@n", nil},
		"the larger gang when the smaller one would not be enough":      {"node n A 8; large tra 6: n*6 ran=24h; small tra 2: n*2 ran=24h; i inf 3: -*3", "large*6", "i@n*3", nil},
		"one gang rather than two smaller ones that lose more together": {"node n A 8; a tra 2: n*2 ran=72h; b tra 2: n*2 ran=72h; c tra 4: n*4 ran=48h; i inf 4: -*4", "c*4", "i@n*4", nil},
		"elastic pods before a gang, however long they have run":        {"node n A 8; wide tra 1: n*4 ran=216h; gang tra 4: n*4 ran=1h; i inf 1: -", "wide-0", "i-0@n", nil},
		"elastic pods before a gang that has only just been placed":     {"node n A 8; wide tra 1: n*4 ran=216h; gang tra 4: n*4; i inf 1: -", "wide-0", "i-0@n", nil},
		"as many as are above the minimum, and no more":                 {"node n A 8; t tra 6: n*8; i inf 2: -*2", "t-0 t-1", "i@n*2", nil},
		"the whole job when its elastic pods are too few":               {"node n A 8; t tra 6: n*8; i inf 3: -*3", "t*8", "i@n*3", nil},
		"a job that is below its minimum is evicted whole":              {"node n A 8; t tra 4: n*2; u tra 6: n*6 ran=24h; i inf 1: -", "t*2", "i-0@n", nil},
		"an elastic vcjob gives single pods":                            {"node n A 8; t tra 1: n*8 vcjob; i inf 1: -", "t-0", "i-0@n", nil},
		"a vcjob with a policy on evicted pods is evicted whole":        {"node n A 8; t tra 1: n*8 vcjob=inelastic; i inf 1: -", "t*8", "i-0@n", nil},
		"a vcjob of which the policy ends it is evicted whole":          {"node n A 8; t tra 1: n*8 vcjob=ends; i inf 1: -", "t*8", "i-0@n", nil},
		"pods without cards go with their gang":                         {"node n A 8; t tra 9: n*9; i inf 1: -", "t*9", "i-0@n", onPod("t-0", withoutCards)},
		"pods without cards are not taken for cards":                    {"node n A 8; t tra 1: n*9; i inf 1: -", "t-1", "i-0@n", onPod("t-0", withoutCards)},
		"elastic pods are counted for each role":                        {roles + "i inf 3: -*3", "t-0 t-1 t-4", "i@n*3", nil},
		"and for the job as a whole":                                    {"node n A 8; t tra 7: n*8 tasks=ps*4/2,worker*4/1; i inf 2: -*2", "t*8", "i@n*2", nil},
		"roles do not matter when their minimum is above the job's":     {"node n A 8; t tra 2: n*8 tasks=ps*4/4,worker*4/4; i inf 6: -*6", "t*6", "i@n*6", nil},
		"pods that ended count for the minimum":                         {"node n A 8; t tra 5: n*8; u tra 1: n ran=24h; i inf 2: -*2", "t-1 t-2", "i@n*2", onPod("t-0", func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded })},
		"gangs on another card stay":                                    {"node n A 4; node m B 4; a tra 4: n*4 ran=216h; b tra 4: m*4 card=B; i inf 1: -", "a*4", "i-0@n", nil},
		"zero nodes":                                                    {"i inf 1: -", "", "", nil},
		"pods on a node that is not there any more go with their gang":  {"node n A 2; t tra 4: n*2 gone*2 ran=24h; i inf 1: -", "t*4", "i-0@n", nil},
		"as many as come free on the other node":                        {"node n A 2; t tra 4: n*2 gone*2 ran=24h; i inf 2: -*2", "t*4", "i@n*2", nil},
		"one more than that":                                            {"node n A 2; t tra 4: n*2 gone*2 ran=24h; i inf 3: -*3", "", "", nil},
		"elastic pods on a node that is not there do not help":          {"node n A 2; t tra 3: gone n*2 gone ran=24h; i inf 1: -", "t-1", "i-0@n", nil},
	})

	t.Run("a job without PodGroup stays", func(t *testing.T) {
		w := newWorld("node n A 8; t tra 1: n*8; i inf 1: -")
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
		w := newWorld("node n A 8; first tra 4: n*4 ran=48h; second tra 4: n*4 ran=24h; i inf 1: -", onPod("first-2", func(p *corev1.Pod) { p.Annotations["volcano.sh/checkpoint-time"] = tc.pod }))
		w.Groups[0].Annotations["volcano.sh/checkpoint-time"] = tc.group
		w.runAction(t).expectEvictedAndPlaced(t, tc.goes, "i-0@n")
	}
}

func TestVictimsOfEqualLoss(t *testing.T) {
	for t, jobs := range check.Cases(t, map[string]string{
		"the queue of lower priority": "x low 4: n*4 ran=48h class=high; a tra 4: n*4 ran=24h class=low",
		"then the younger job":        "a tra 4: n*4 ran=48h class=low; x tra 4: n*4 ran=24h class=low",
	}) {
		w := newWorld("node n A 8; queue low PLENTY 10000 training;" + jobs + "; i inf 1: -")
		for _, group := range w.Groups { // no work is lost
			group.Annotations["volcano.sh/checkpoint-time"] = time.Now().Add(hour).UTC().Format(time.RFC3339)
		}
		w.runAction(t).expectEvictedAndPlaced(t, "x*4", "i-0@n")
	}
}

func TestProtectedPods(t *testing.T) {
	const (
		four  = "node n A 4; i inf 1: -; t tra 4: n*4 ran=24h "
		other = "node n A 4; i inf 1: -; t other 4: n*4 ran=24h "
	)

	keeps := func(p *corev1.Pod) { p.Annotations["volcano.sh/preemptable"] = "false" }
	training := func(p *corev1.Pod) { p.Annotations["volcano.sh/service.type"] = "training" }
	scenes := map[string]scene{
		"a gang of which one pod is protected":                  {four, "", "", onPod("t-2", keeps)},
		"a protected pod of an elastic job":                     {strings.Replace(four, "tra 4", "tra 1", 1), "t-1", "i-0@n", onPod("t-0", keeps)},
		"an elastic job of which only a protected pod could go": {strings.Replace(four, "tra 4", "tra 3", 1) + "tasks=ps*1/0,w*3/3", "", "", onPod("t-0", keeps)},
		"a protected PodGroup":                                  {four + "protectedgroup", "", "", nil},
		"pods that are critical to the system":                  {four, "", "", onJob("t", func(p *corev1.Pod) { p.Spec.PriorityClassName = "system-node-critical" })},
		"a gang of which a pod is being placed":                 {"node n A 4; node m A 1; t tra 4: n*3 - ran=24h; i inf 1: - cards=4", "", "", nil},
		"a queue that is not reclaimable":                       {four + "; queue tra PLENTY 20000 training keeps", "", "", nil},
		"a queue of equal priority":                             {four + "; queue tra PLENTY 80000 training", "", "", nil},
		"a queue of higher priority":                            {four + "; queue tra PLENTY 90000 training", "", "", nil},
		"the same queue":                                        {strings.Replace(four, "tra", "inf", 1), "", "", nil},
		"another inference queue":                               {other + "; queue other PLENTY 100 inference", "", "", nil},
		"a queue of unknown type":                               {other + "; queue other PLENTY 100 batch", "", "", nil},
		"a queue without type, pods of no type":                 {other + "; queue other PLENTY 100 gives", "", "", nil},
		"a queue without type, pods that are training":          {other + "type=training; queue other PLENTY 100 gives", "t*4", "i-0@n", nil},
		"a queue without type, one pod that is not training": {other + "; queue other PLENTY 100 gives", "", "", onJob("t", func(p *corev1.Pod) {
			if p.Name != "t-3" {
				training(p)
			}
		})},
		"training reclaims nothing":    {four + "; queue inf PLENTY 80000 training", "", "", nil},
		"unknown types take nothing":   {four + "; queue inf PLENTY 80000 batch", "", "", nil},
		"a closed queue takes nothing": {four + "; queue inf PLENTY 80000 inference closed", "", "", nil},
		"a vcjob that is not known":    {four + "vcjob=unknown", "", "", nil},
		"an owner of another kind":     {four, "t*4", "i-0@n", onJob("t", ownedBy("batch/v1", "Job"))},
	}
	runScenes(t, scenes)
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
		s := scene{text: short.Replace("node n A 8; i inf 1: -; b tra LEAST: n*4 ran=30m; a tra LEAST: n*4 ran=" + tc.ran), change: tc.change}
		s.text = strings.ReplaceAll(s.text, "LEAST", string(rune('0'+tc.least)))
		w := s.world()
		if !tc.all {
			w.args = map[string]any{"serviceTypes": map[string]any{
				"inference": map[string]any{"reclaimFrom": []any{"training"}}, "training": map[string]any{"reclaimable": true, "minimumRuntime": "1h"},
			}}
		}

		w.runAction(t)
		if tc.isTaken {
			w.expectEvictedAndPlaced(t, "a*4", "i-0@n")
		} else {
			w.expectEvictedAndPlaced(t, "", "")
		}
	}
}
