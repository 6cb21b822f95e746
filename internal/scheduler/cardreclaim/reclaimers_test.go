package cardreclaim

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/cmd/scheduler/app/options"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/util"

	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/session"
)

func requests(name corev1.ResourceName, quantity string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Requests[name] = amount(quantity) }
}

func protect(p *corev1.Pod) { p.Annotations["volcano.sh/preemptable"] = "false" }

// neverDisplaces keeps a pod from preempting others, isGated from being placed.
func neverDisplaces(p *corev1.Pod) {
	never := corev1.PreemptNever
	p.Spec.PreemptionPolicy = &never
}

func isGated(p *corev1.Pod) { p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "g"}} }

// wants names another card for a pod.
func wants(card string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Annotations["volcano.sh/card.name"] = card }
}

func TestGangsTakeAllOrNothing(t *testing.T) {
	const (
		eight = "node n A 8; BUSY; "
		two   = "node n A 4; node m B 4; HALF; "
	)

	runScenes(t, map[string]scene{
		"all of it":                            {eight + "i inf 8: -*8", "na*4 nb*4", "i@n*8", nil},
		"one more than there are cards":        {eight + "i inf 9: -*9", "", "", nil},
		"one more than the quota":              {eight + `queue inf {"A":4} 80000 inference; i inf 5: -*5`, "", "", nil},
		"as many as the quota":                 {eight + `queue inf {"A":4} 80000 inference; i inf 4: -*4`, "na*4", "i@n*4", nil},
		"the CPU of the queue is too small":    {eight + "queue inf PLENTY 80000 inference cpu=4; i inf 5: -*5", "", "", nil},
		"the CPU of the queue is just enough":  {eight + "queue inf PLENTY 80000 inference cpu=4; i inf 4: -*4", "na*4", "i@n*4", nil},
		"two cards each":                       {eight + "i inf 4: -*4 cards=2", "na*4 nb*4", "i@n*4", nil},
		"those that run already count":         {"node n A 8; i inf 4: n*2 -*3 ran=24h; t tra 6: n*6", "t*6", "i-2@n i-3@n i-4@n", nil},
		"a gang that lacks one it cannot have": {"node n A 8; i inf 8: n*2 -*6 ran=24h; t tra 4: n*4; p tra 1: n*2 protected", "", "", nil},
		"too few pods were made yet":           {eight + "i inf 3: -*2", "", "", nil},
		"the minimum of each role first":       {eight + "i inf 2: -*4 cards=4 tasks=work*3/1,lead*1/1", "na*4 nb*4", "i-0@n i-3@n", nil},
		"then as many of the others":           {eight + "i inf 2: -*4 cards=2 tasks=work*3/1,lead*1/1", "na*4 nb*4", "i@n*4", nil},
		"one must not preempt others":          {eight + "i inf 4: -*4", "", "", onPod("i-2", neverDisplaces)},
		"one is held back":                     {eight + "i inf 4: -*4", "", "", onPod("i-2", isGated)},
		"pods that need no card":               {eight + "i inf 3: -*3", "na*4", "i@n*3", onPod("i-0", withoutCards)},
		"pods that ask differently": {two + "ma tra 4: m*4 card=B ran=24h; i inf 4: -*4", "ma*4 na*4", "i-0@n i-1@m i-2@n i-3@m",
			applyAll(onPod("i-1", wants("B")), onPod("i-3", wants("B")))},
		"pods that ask differently, and one kind finds nothing": {two + "p tra 1: m*4 card=B protected; i inf 2: -*2", "", "", onPod("i-1", wants("B"))},
		"a volume that is not bound":                            {eight + "i inf 4: -*4", "", "", onPod("i-1", unbound)},
	})
}

func TestDeploymentsTakeAsManyAsTheyCan(t *testing.T) {
	const eight = "node n A 8; BUSY; "

	runScenes(t, map[string]scene{
		"as many as wait":               {eight + "i inf 1: -*3", "na*4", "i@n*3", nil},
		"as many as the cards":          {eight + "i inf 1: -*9", "na*4 nb*4", "i@n*8", nil},
		"as many as the quota":          {eight + `queue inf {"A":5} 80000 inference; i inf 1: -*9`, "na*4 nb*4", "i@n*5", nil},
		"as many as the CPU":            {eight + "queue inf PLENTY 80000 inference cpu=3; i inf 1: -*9", "na*4", "i@n*3", nil},
		"only what may be taken":        {"node n A 8; HALF; p tra 4: n*4 protected; i inf 1: -*6", "na*4", "i@n*4", nil},
		"beside those that run already": {"node n A 8; i inf 1: n*4 -*2 ran=24h; HALF", "na*4", "i-4@n i-5@n", nil},
		"of two kinds": {"node n A 4; node m B 4; HALF; ma tra 4: m*4 card=B ran=24h; i inf 1: -*10", "ma*4 na*4", "i@n*4 i-5@m i-6@m i-7@m i-8@m",
			onJob("i", func(p *corev1.Pod) {
				if p.Name > "i-4" {
					wants("B")(p)
				}
			})},
		"a pod that fits nowhere does not keep the others": {eight + "i inf 1: -*4", "na*4", "i-0@n i-2@n i-3@n", onPod("i-1", unbound)},
		"a pod that is held back does not keep the others": {eight + "i inf 1: -*3", "na*4", "i-0@n i-2@n", onPod("i-1", isGated)},
		"no victims for a job of which no pod may preempt": {eight + "i inf 1: -*2", "", "", onJob("i", neverDisplaces)},
		// The job with the least loss for the first pod does not help the others.
		"what all of its pods need decides": {"node n A 5; small tra 1: n ran=100s; large tra 4: n*4 ran=30s; i inf 1: -*4", "large*4", "i@n*4", nil},
		// What no eviction helps for one pod, none helps for many. The reverse does not hold.
		"what is unsolvable for many may not be for few": {"node n A 4; t tra 4: n*4 ran=1h; a inf 8: -*8; b inf 6: -*6; c inf 3: -*3", "t*4", "c@n*3", nil},
	})
}

// unbound gives a pod a volume that is never bound.
func unbound(p *corev1.Pod) {
	p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "unbound"}}}}
}

func TestAlternatives(t *testing.T) {
	const full = "node n A 4; node m B 4; HALF; ma tra 4: m*4 card=B ran=24h; "

	runScenes(t, map[string]scene{
		"the first, if that loses no more":        {"node n A 4; node m B 4; t tra 4: n*4 ran=1h; ma tra 4: m*4 card=B ran=24h; i inf 2: -*2 card=A|B", "t*4", "i@n*2", nil},
		"in the order of the pod":                 {full + "i inf 1: - card=B|A", "ma*4", "i-0@m", nil},
		"quota for the second only":               {full + `queue inf {"B":4} 80000 inference; i inf 2: -*2 card=A|B`, "ma*4", "i@m*2", nil},
		"both quotas together":                    {full + `queue inf {"A":1,"B":3} 80000 inference; i inf 4: -*4 card=A|B`, "ma*4 na*4", "i-0@n i-1@m i-2@m i-3@m", nil},
		"not enough of both":                      {full + `queue inf {"A":1,"B":3} 80000 inference; i inf 5: -*5 card=A|B`, "", "", nil},
		"a free card without quota does not help": {"node n A 8; node m B 4; HALF; ma tra 4: m*4 card=B ran=24h;" + `queue inf {"B":4} 80000 inference; i inf 1: - card=A|B`, "ma*4", "i-0@m", nil},
		"any card when the pod names none":        {full + `queue inf {"B":4} 80000 inference; i inf 1: - card=-`, "ma*4", "i-0@m", nil},
		"another card than both":                  {full + "i inf 1: - card=C", "", "", nil},
		"the loss decides when both are as good":  {"node n,m A 4; HALF; young tra 4: m*4 ran=1h; i inf 1: -", "young*4", "i-0@m", nil},
	})
}

// TestFreeRoomIsUsedFirst: without allocate before it, the action evicts none while free cards
// suffice.
func TestFreeRoomIsUsedFirst(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]scene{
		"for a gang":             {"i inf 4: -*4", "", "i@m*4", nil},
		"for pods of a job":      {"i inf 1: -*4", "", "i@m*4", nil},
		"for the jobs that wait": {"i inf 2: -*2; j inf 2: -*2", "", "i@m*2 j@m*2", nil},
		"and beside what is free only as much as is needed": {"i inf 6: -*6", "ma*4", "i@m*6", nil},
	}) {
		w := newWorld("node n,m A 8; BUSY; ma tra 4: m*4 ran=24h;" + tc.text)
		w.alone = true
		w.runAction(t).expectEvictedAndPlaced(t, tc.goes, tc.pipelined)
	}
}

func TestReclaimedCardsServeOthersFirst(t *testing.T) {
	const first = "node n A 4; HALF; queue first PLENTY 90000 inference; "

	runScenes(t, map[string]scene{
		"the jobs of a queue":                          {"node n,m A 8; t tra 8: n*8 ran=1h; u tra 8: m*8 ran=24h; i inf 3: -*3; j inf 4: -*4; k inf 1: -", "t*8", "i@n*3 j@n*4 k-0@n", nil},
		"the queue of higher priority is served first": {first + "a inf 3: -*3; z first 3: -*3", "na*4", "z@n*3", nil},
		"what is left goes to the next queue":          {first + "a inf 1: -; z first 3: -*3", "na*4", "a-0@n z@n*3", nil},
		"the job of higher priority is served first":   {"node n A 4; HALF; a inf 3: -*3 class=low; z inf 3: -*3 class=high", "na*4", "z@n*3", nil},
		"a gang of two types takes nothing":            {mixed + "i mixed 2: -*2 type=inference", "", "", onPod("i-1", typed("training"))},
		"a job of two types takes for those that may":  {mixed + "i mixed 1: -*3 type=inference", "na*4", "i-0@n i-2@n", onPod("i-1", typed("training"))},
		"a job that is not admitted takes nothing":     {"node n A 4; HALF; i inf 2: -*2 phase=Pending", "", "", nil},
		"a job of a queue that is not there":           {"node n A 4; HALF; i none 1: -", "", "", nil},
		"pods that ask for no card":                    {"node n A 4; HALF; i inf 1: - cards=0", "", "", onJob("i", requests("cpu", "64"))},
		"a bad card name":                              {"node n A 4; HALF; i inf 1: - card=not_a_name", "", "", nil},
	})
}

// mixed is a queue whose pods name their service types.
const mixed = "node n A 4; HALF; queue mixed PLENTY 80000 gives; "

func typed(service string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Annotations["volcano.sh/service.type"] = service }
}

func TestJobsThatAreLeftAlone(t *testing.T) {
	t.Run("a hard network topology", func(t *testing.T) {
		w := newWorld("node n A 4; HALF; i inf 2: -*2")
		one := 1
		w.Groups[1].Spec.NetworkTopology = &v1beta1.NetworkTopologySpec{Mode: v1beta1.HardNetworkTopologyMode, HighestTierAllowed: &one}
		w.runAction(t).expectEvictedAndPlaced(t, "", "")
	})

	t.Run("a session without the rules", func(t *testing.T) {
		w := newWorld("node n A 4; HALF; i inf 2: -*2")
		w.args = map[string]any{"overCommitFactor": 0.5} // refused
		w.runAction(t).expectEvictedAndPlaced(t, "", "")
		got := session.Names(w.In(api.Running))
		check.That(t, len(strings.Fields(got)) == 4, "%q run, want 4", got)
	})
}

// TestNodesOfAnotherShard: with hard sharding no pod is evicted from the nodes of other
// schedulers. With soft sharding they come last.
func TestNodesOfAnotherShard(t *testing.T) {
	kept := options.ServerOpts.ShardingMode
	t.Cleanup(func() { options.ServerOpts.ShardingMode = kept })

	for t, tc := range check.Cases(t, map[string]struct {
		mode, shard, goes, pipelined string
	}{
		"none": {util.NoneShardingMode, "m", "t*4", "i-0@n"}, "hard": {util.HardShardingMode, "m", "u*4", "i-0@m"}, "hard, of none": {util.HardShardingMode, "", "", ""},
		"soft": {util.SoftShardingMode, "n", "t*4", "i-0@n"},
	}) {
		w := newWorld("node n A 4; node m A 4; t tra 4: n*4 ran=1h; u tra 4: m*4 ran=24h; i inf 1: -")
		options.ServerOpts.ShardingMode = tc.mode
		w.alone = true
		w.openSession()
		t.Cleanup(w.Close)

		w.Ssn.NodesInShard = sets.New(tc.shard)
		w.executeActions()
		w.expectEvictedAndPlaced(t, tc.goes, tc.pipelined)
	}
}
