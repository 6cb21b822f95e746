package cardreclaim

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/cmd/scheduler/app/options"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/util"

	"cardquota.dev/operator/internal/testing/check"
)

func requests(name corev1.ResourceName, quantity string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Requests[name] = amount(quantity) }
}

func protect(p *corev1.Pod) { p.Annotations["volcano.sh/preemptable"] = "false" }

// neverDisplaces keeps a pod from preempting others, isGated from being placed.
func neverDisplaces(p *corev1.Pod) {
	p.Spec.PreemptionPolicy = ptr.To(corev1.PreemptNever)
}

func isGated(p *corev1.Pod) { p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "g"}} }

// wants names another card for a pod.
func wants(card string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Annotations["volcano.sh/card.name"] = card }
}

func TestGangsTakeAllOrNothing(t *testing.T) {
	const (
		eight = "node n model=A cards=8; BUSY; "
		two   = "node n model=A cards=4; node m model=B cards=4; HALF; "
	)

	runScenes(t, map[string]sceneCase{
		"all of it":                            {eight + "job i queue=inf min=8 pending=8", "na*4 nb*4", "i@n*8", nil},
		"one more than there are cards":        {eight + "job i queue=inf min=9 pending=9", "", "", nil},
		"one more than the quota":              {eight + `queue inf quota={"A":4} priority=80000 serviceType=inference; job i queue=inf min=5 pending=5`, "", "", nil},
		"as many as the quota":                 {eight + `queue inf quota={"A":4} priority=80000 serviceType=inference; job i queue=inf min=4 pending=4`, "na*4", "i@n*4", nil},
		"the CPU of the queue is too small":    {eight + "queue inf quota=PLENTY priority=80000 serviceType=inference cpu=4; job i queue=inf min=5 pending=5", "", "", nil},
		"the CPU of the queue is just enough":  {eight + "queue inf quota=PLENTY priority=80000 serviceType=inference cpu=4; job i queue=inf min=4 pending=4", "na*4", "i@n*4", nil},
		"two cards each":                       {eight + "job i queue=inf min=4 pending=4 cards=2", "na*4 nb*4", "i@n*4", nil},
		"those that run already count":         {"node n model=A cards=8; job i queue=inf min=4 running=n*2 pending=3 age=24h; job t queue=tra min=6 running=n*6", "t*6", "i-2@n i-3@n i-4@n", nil},
		"a gang that lacks one it cannot have": {"node n model=A cards=8; job i queue=inf min=8 running=n*2 pending=6 age=24h; job t queue=tra min=4 running=n*4; job p queue=tra min=1 running=n*2 preemptable=false", "", "", nil},
		"too few pods were made yet":           {eight + "job i queue=inf min=3 pending=2", "", "", nil},
		"the minimum of each role first":       {eight + "job i queue=inf min=2 pending=4 cards=4 task=work,pods:3,min:1 task=lead,pods:1,min:1", "na*4 nb*4", "i-0@n i-3@n", nil},
		"then as many of the others":           {eight + "job i queue=inf min=2 pending=4 cards=2 task=work,pods:3,min:1 task=lead,pods:1,min:1", "na*4 nb*4", "i@n*4", nil},
		"one must not preempt others":          {eight + "job i queue=inf min=4 pending=4", "", "", onPod("i-2", neverDisplaces)},
		"one is held back":                     {eight + "job i queue=inf min=4 pending=4", "", "", onPod("i-2", isGated)},
		"pods that need no card":               {eight + "job i queue=inf min=3 pending=3", "na*4", "i@n*3", onPod("i-0", withoutCards)},
		"pods that ask differently": {two + "job ma queue=tra min=4 running=m*4 card=B age=24h; job i queue=inf min=4 pending=4", "ma*4 na*4", "i-0@n i-1@m i-2@n i-3@m",
			applyAll(onPod("i-1", wants("B")), onPod("i-3", wants("B")))},
		"pods that ask differently, and one kind finds nothing": {two + "job p queue=tra min=1 running=m*4 card=B preemptable=false; job i queue=inf min=2 pending=2", "", "", onPod("i-1", wants("B"))},
		"a volume that is not bound":                            {eight + "job i queue=inf min=4 pending=4", "", "", onPod("i-1", unbound)},
	})
}

func TestDeploymentsTakeAsManyAsTheyCan(t *testing.T) {
	const eight = "node n model=A cards=8; BUSY; "

	runScenes(t, map[string]sceneCase{
		"as many as wait":               {eight + "job i queue=inf min=1 pending=3", "na*4", "i@n*3", nil},
		"as many as the cards":          {eight + "job i queue=inf min=1 pending=9", "na*4 nb*4", "i@n*8", nil},
		"as many as the quota":          {eight + `queue inf quota={"A":5} priority=80000 serviceType=inference; job i queue=inf min=1 pending=9`, "na*4 nb*4", "i@n*5", nil},
		"as many as the CPU":            {eight + "queue inf quota=PLENTY priority=80000 serviceType=inference cpu=3; job i queue=inf min=1 pending=9", "na*4", "i@n*3", nil},
		"only what may be taken":        {"node n model=A cards=8; HALF; job p queue=tra min=4 running=n*4 preemptable=false; job i queue=inf min=1 pending=6", "na*4", "i@n*4", nil},
		"beside those that run already": {"node n model=A cards=8; job i queue=inf min=1 running=n*4 pending=2 age=24h; HALF", "na*4", "i-4@n i-5@n", nil},
		"of two kinds": {"node n model=A cards=4; node m model=B cards=4; HALF; job ma queue=tra min=4 running=m*4 card=B age=24h; job i queue=inf min=1 pending=10", "ma*4 na*4", "i@n*4 i-5@m i-6@m i-7@m i-8@m",
			onJob("i", func(p *corev1.Pod) {
				if p.Name > "i-4" {
					wants("B")(p)
				}
			})},
		"a pod that fits nowhere does not keep the others": {eight + "job i queue=inf min=1 pending=4", "na*4", "i-0@n i-2@n i-3@n", onPod("i-1", unbound)},
		"a pod that is held back does not keep the others": {eight + "job i queue=inf min=1 pending=3", "na*4", "i-0@n i-2@n", onPod("i-1", isGated)},
		"no victims for a job of which no pod may preempt": {eight + "job i queue=inf min=1 pending=2", "", "", onJob("i", neverDisplaces)},
		// The job with the least loss for the first pod does not help the others.
		"what all of its pods need decides": {"node n model=A cards=5; job small queue=tra min=1 running=n age=100s; job large queue=tra min=4 running=n*4 age=30s; job i queue=inf min=1 pending=4", "large*4", "i@n*4", nil},
		// What no eviction helps for one pod, none helps for many. The reverse does not hold.
		"what is unsolvable for many may not be for few": {"node n model=A cards=4; job t queue=tra min=4 running=n*4 age=1h; job a queue=inf min=8 pending=8; job b queue=inf min=6 pending=6; job c queue=inf min=3 pending=3", "t*4", "c@n*3", nil},
	})
}

// unbound gives a pod a volume that is never bound.
func unbound(p *corev1.Pod) {
	p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "unbound"}}}}
}

func TestAlternatives(t *testing.T) {
	const full = "node n model=A cards=4; node m model=B cards=4; HALF; job ma queue=tra min=4 running=m*4 card=B age=24h; "

	runScenes(t, map[string]sceneCase{
		"the first, if that loses no more":        {"node n model=A cards=4; node m model=B cards=4; job t queue=tra min=4 running=n*4 age=1h; job ma queue=tra min=4 running=m*4 card=B age=24h; job i queue=inf min=2 pending=2 card=A|B", "t*4", "i@n*2", nil},
		"in the order of the pod":                 {full + "job i queue=inf min=1 pending=1 card=B|A", "ma*4", "i-0@m", nil},
		"quota for the second only":               {full + `queue inf quota={"B":4} priority=80000 serviceType=inference; job i queue=inf min=2 pending=2 card=A|B`, "ma*4", "i@m*2", nil},
		"both quotas together":                    {full + `queue inf quota={"A":1,"B":3} priority=80000 serviceType=inference; job i queue=inf min=4 pending=4 card=A|B`, "ma*4 na*4", "i-0@n i-1@m i-2@m i-3@m", nil},
		"not enough of both":                      {full + `queue inf quota={"A":1,"B":3} priority=80000 serviceType=inference; job i queue=inf min=5 pending=5 card=A|B`, "", "", nil},
		"a free card without quota does not help": {"node n model=A cards=8; node m model=B cards=4; HALF; job ma queue=tra min=4 running=m*4 card=B age=24h;" + `queue inf quota={"B":4} priority=80000 serviceType=inference; job i queue=inf min=1 pending=1 card=A|B`, "ma*4", "i-0@m", nil},
		"any card when the pod names none":        {full + `queue inf quota={"B":4} priority=80000 serviceType=inference; job i queue=inf min=1 pending=1 card=none`, "ma*4", "i-0@m", nil},
		"another card than both":                  {full + "job i queue=inf min=1 pending=1 card=C", "", "", nil},
		"the loss decides when both are as good":  {"node n,m model=A cards=4; HALF; job young queue=tra min=4 running=m*4 age=1h; job i queue=inf min=1 pending=1", "young*4", "i-0@m", nil},
	})
}

// TestFreeCardsAreUsedFirst: without allocate before it, the action evicts none while free cards
// suffice.
func TestFreeCardsAreUsedFirst(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]sceneCase{
		"for a gang":             {"job i queue=inf min=4 pending=4", "", "i@m*4", nil},
		"for pods of a job":      {"job i queue=inf min=1 pending=4", "", "i@m*4", nil},
		"for the jobs that wait": {"job i queue=inf min=2 pending=2; job j queue=inf min=2 pending=2", "", "i@m*2 j@m*2", nil},
		"and beside what is free only as much as is needed": {"job i queue=inf min=6 pending=6", "ma*4", "i@m*6", nil},
	}) {
		w := newScene("node n,m model=A cards=8; BUSY; job ma queue=tra min=4 running=m*4 age=24h;" + tc.text)
		w.alone = true
		w.runAction(t).expectEvictedAndPlaced(t, tc.goes, tc.pipelined)
	}
}

func TestReclaimedCardsServeOthersFirst(t *testing.T) {
	const first = "node n model=A cards=4; HALF; queue first quota=PLENTY priority=90000 serviceType=inference; "

	runScenes(t, map[string]sceneCase{
		"the jobs of a queue":                          {"node n,m model=A cards=8; job t queue=tra min=8 running=n*8 age=1h; job u queue=tra min=8 running=m*8 age=24h; job i queue=inf min=3 pending=3; job j queue=inf min=4 pending=4; job k queue=inf min=1 pending=1", "t*8", "i@n*3 j@n*4 k-0@n", nil},
		"the queue of higher priority is served first": {first + "job a queue=inf min=3 pending=3; job z queue=first min=3 pending=3", "na*4", "z@n*3", nil},
		"what is left goes to the next queue":          {first + "job a queue=inf min=1 pending=1; job z queue=first min=3 pending=3", "na*4", "a-0@n z@n*3", nil},
		"the job of higher priority is served first":   {"node n model=A cards=4; HALF; job a queue=inf min=3 pending=3 priorityClass=low; job z queue=inf min=3 pending=3 priorityClass=high", "na*4", "z@n*3", nil},
		"a gang of two types takes nothing":            {mixed + "job i queue=mixed min=2 pending=2 serviceType=inference", "", "", onPod("i-1", typed("training"))},
		"a job of two types takes for those that may":  {mixed + "job i queue=mixed min=1 pending=3 serviceType=inference", "na*4", "i-0@n i-2@n", onPod("i-1", typed("training"))},
		"a job that is not admitted takes nothing":     {"node n model=A cards=4; HALF; job i queue=inf min=2 pending=2 phase=Pending", "", "", nil},
		"a job of a queue that is not there":           {"node n model=A cards=4; HALF; job i queue=none min=1 pending=1", "", "", nil},
		"pods that ask for no card":                    {"node n model=A cards=4; HALF; job i queue=inf min=1 pending=1 cards=0", "", "", onJob("i", requests("cpu", "64"))},
		"a bad card name":                              {"node n model=A cards=4; HALF; job i queue=inf min=1 pending=1 card=not_a_name", "", "", nil},
	})
}

// mixed is a queue whose pods name their service types.
const mixed = "node n model=A cards=4; HALF; queue mixed quota=PLENTY priority=80000 reclaimable=true; "

func typed(service string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Annotations["volcano.sh/service.type"] = service }
}

func TestJobsThatAreLeftAlone(t *testing.T) {
	t.Run("a hard network topology", func(t *testing.T) {
		w := newScene("node n model=A cards=4; HALF; job i queue=inf min=2 pending=2")
		w.Groups[1].Spec.NetworkTopology = &v1beta1.NetworkTopologySpec{Mode: v1beta1.HardNetworkTopologyMode, HighestTierAllowed: ptr.To(1)}
		w.runAction(t).expectEvictedAndPlaced(t, "", "")
	})

	t.Run("a session without the rules", func(t *testing.T) {
		w := newScene("node n model=A cards=4; HALF; job i queue=inf min=2 pending=2")
		w.args = map[string]any{"overCommitFactor": 0.5} // refused
		w.runAction(t).expectEvictedAndPlaced(t, "", "")
		check.Equal(t, "running pods", 4, len(w.In(api.Running)))
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
		w := newScene("node n model=A cards=4; node m model=A cards=4; job t queue=tra min=4 running=n*4 age=1h; job u queue=tra min=4 running=m*4 age=24h; job i queue=inf min=1 pending=1")
		options.ServerOpts.ShardingMode = tc.mode
		w.alone = true
		w.openSession()
		t.Cleanup(w.Close)

		w.Ssn.NodesInShard = sets.New(tc.shard)
		w.executeActions()
		w.expectEvictedAndPlaced(t, tc.goes, tc.pipelined)
	}
}
