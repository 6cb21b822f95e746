package cardreclaim

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/framework"

	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/scheduler/solver"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/session"
)

// queue returns a queue of the scene.
func (s *scene) queue(name string) *v1beta1.Queue {
	for _, q := range s.Queues {
		if q.Name == name {
			return q
		}
	}
	return nil
}

// TestCPUIsReclaimedIfThePolicySaysSo: by default (reclaimResources Cards) pods without cards take no part. With
// All, pods that lack CPU or memory reclaim it too, also from pods without cards. Within a priority these are
// evicted first, and their loss counts in core-seconds. Node n has 8 cores and 4 cards. cpu is what each pod of a job
// requests. Each row runs with All, and then with Cards, where no pod is evicted unless the row has
// wantEvictedByDefault. "t*4" are the pods t-0 to t-3.
func TestCPUIsReclaimedIfThePolicySaysSo(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		jobs                    string
		wantEvicted, wantPlaced string
		wantEvictedByDefault    string
	}{
		"a pod of 2 cores, a training pod uses all 8": {jobs: `
			job t queue=training min=1 running=n cards=0 cpu=8 age=1h
			job i queue=inference min=1 pending=1 cards=0 cpu=2`, wantEvicted: "t-0", wantPlaced: "i-0@n"},
		"a gang of 4 pods is evicted as a whole": {jobs: `
			job t queue=training min=4 running=n*4 cards=0 cpu=2 age=1h
			job i queue=inference min=1 pending=1 cards=0 cpu=2`, wantEvicted: "t*4", wantPlaced: "i-0@n"},
		"a pod of 3 cores needs two elastic pods of 2 cores": {jobs: `
			job t queue=training min=1 running=n*4 cards=0 cpu=2 age=1h
			job i queue=inference min=1 pending=1 cards=0 cpu=3`, wantEvicted: "t-0 t-1", wantPlaced: "i-0@n"},
		"4 of 8 cores are free, and 4 are needed: none": {jobs: `
			job t queue=training min=1 running=n cards=0 cpu=4 age=1h
			job i queue=inference min=1 pending=1 cards=0 cpu=4`, wantPlaced: "i-0@n"},
		"a pod of a card and 2 cores, only the card is free: t without cards; by default u with cards": {jobs: `
			job t queue=training min=1 running=n cards=0 cpu=6 age=1h
			job u queue=training min=1 running=n*2 cpu=1 age=1h
			job i queue=inference min=1 pending=1 cpu=2`, wantEvicted: "t-0", wantPlaced: "i-0@n", wantEvictedByDefault: "u-0 u-1"},
		"a pod without cards is evicted before one with a card, although it has run for longer": {jobs: `
			job t queue=training min=1 running=n cards=0 cpu=4 age=99h
			job u queue=training min=1 running=n cpu=4 age=1h
			job i queue=inference min=1 pending=1 cards=0 cpu=2`, wantEvicted: "t-0", wantPlaced: "i-0@n"},
		"a pod with a card in a queue of lower priority is evicted first": {jobs: `
			queue low quota=1000 priority=10000 serviceType=training
			job t queue=training min=1 running=n cards=0 cpu=4 age=1h
			job u queue=low min=1 running=n cpu=4 age=99h
			job i queue=inference min=1 pending=1 cards=0 cpu=2`, wantEvicted: "u-0", wantPlaced: "i-0@n"},
		"t loses 4 cores × 3 hours = 12, u would lose 2 × 9 = 18: t": {jobs: `
			job t queue=training min=1 running=n cards=0 cpu=4 age=3h
			job u queue=training min=1 running=n cards=0 cpu=2 age=9h
			job i queue=inference min=1 pending=1 cards=0 cpu=4`, wantEvicted: "t-0", wantPlaced: "i-0@n"},
		"the pod of its own queue stays": {jobs: `
			job t queue=inference min=1 running=n cards=0 cpu=8 age=1h
			job i queue=inference min=1 pending=1 cards=0 cpu=2`},
		"a protected pod stays": {jobs: `
			job t queue=training min=1 running=n cards=0 cpu=8 age=1h preemptable=false
			job i queue=inference min=1 pending=1 cards=0 cpu=2`},
		"training reclaims nothing from inference": {jobs: `
			job t queue=inference min=1 running=n cards=0 cpu=8 age=1h
			job i queue=training min=1 pending=1 cards=0 cpu=2`},
	}) {
		run := func(reclaimResources string) *scene {
			s := newInferenceAndTrainingScene("node n model=A cards=4\n" + tc.jobs).changeNodes(allocatable("cpu", "8"))
			s.arguments = framework.Arguments{"reclaimResources": reclaimResources}
			s.withoutAllocate = true // cardreclaim itself places pods that need no eviction
			return s.runSession(t)
		}

		run("All").expectEvictedAndPlaced(t, tc.wantEvicted, tc.wantPlaced)
		run("Cards").expectEvicted(t, tc.wantEvictedByDefault)
	}
}

// TestReclaimedCPUIsNotBorrowedAgain: with reclaimResources All a tree lends CPU, too. Each queue deserves 4
// cores, and ya uses 6 with a gang. Pod r of xa needs 4 of the 8 cores of node n, so the gang is evicted, and r
// runs. When r has ended, the gang would fit again. But after a reclaim ya may not borrow for some minutes, so
// it waits. "gang*6" are the pods gang-0 to gang-5.
func TestReclaimedCPUIsNotBorrowedAgain(t *testing.T) {
	s := newTree(`
		queue x quota=8 deserved=8
		queue xa parent=x quota=8 deserved=8 serviceType=training
		queue y quota=8 deserved=8
		queue ya parent=y quota=8 deserved=8 serviceType=training
		node n model=A cards=8
		job gang queue=ya min=6 running=n*6 cards=0 cpu=1 age=1h
		job r queue=xa min=1 pending=1 cards=0 cpu=4`).changeNodes(allocatable("cpu", "8"))
	for _, q := range s.Queues {
		q.Spec.Deserved = corev1.ResourceList{"cpu": amount("4"), "memory": amount("100Gi")}
	}

	s.arguments["reclaimResources"] = "All"
	s.runSession(t).expectEvicted(t, "gang*6")
	for range 2 { // r starts on the free cores, and the gang waits again
		s.settle()
		s.runSession(t)
	}
	check.Equal(t, "running pods", "r-0", session.Names(s.In(api.Running)))

	s.settle()
	s.Cache.DeletePod(s.Pod("r-0"))
	s.runSession(t).expectBound(t, "")
	check.Equal(t, "allocated pods", "", session.Names(s.In(api.Allocated)))
}

// TestAQueueReclaimsTheCPUThatItDeserves: with reclaimResources All the rules of a tree apply to CPU as for cards. Tenant
// x has the queues xa and xb. The 8 pods of xb use the 8 cores of node n, and pods of xa wait for one core each. The
// guarantee of x is 8 cores, so that it covers that of xb. wantVictims "xb 2" means two pods of queue xb.
func TestAQueueReclaimsTheCPUThatItDeserves(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		deservedXA, deservedXB, guaranteeXB string
		minimumXB, minimumXA, waiting       int
		wantVictims                         string
	}{
		"xa deserves 2 cores and requests 2": {
			deservedXA: "2", deservedXB: "4", guaranteeXB: "0", minimumXB: 1, minimumXA: 2, waiting: 2, wantVictims: "xb 2"},
		"xa deserves 2 cores, a gang requests 3: none": {
			deservedXA: "2", deservedXB: "4", guaranteeXB: "0", minimumXB: 1, minimumXA: 3, waiting: 3},
		"xa deserves 2 cores, 3 pods of minimum one wait: 2": {
			deservedXA: "2", deservedXB: "4", guaranteeXB: "0", minimumXB: 1, minimumXA: 1, waiting: 3, wantVictims: "xb 2"},
		"xb deserves 6 of 8 cores, so 2 are borrowed, xa requests 4: 2": {
			deservedXA: "4", deservedXB: "6", guaranteeXB: "0", minimumXB: 1, minimumXA: 1, waiting: 4, wantVictims: "xb 2"},
		"xb deserves 7 cores, its gang of 8 is evicted as a whole": {
			deservedXA: "4", deservedXB: "7", guaranteeXB: "0", minimumXB: 8, minimumXA: 1, waiting: 1, wantVictims: "xb 8"},
		"xb has a guarantee of one core, so its gang of 8 stays": {
			deservedXA: "1", deservedXB: "7", guaranteeXB: "1", minimumXB: 8, minimumXA: 1, waiting: 1},
	}) {
		s := newTree(fmt.Sprintf(`
			queue x quota=8 deserved=8
			queue xa parent=x quota=8 deserved=8 serviceType=training
			queue xb parent=x quota=8 deserved=8 serviceType=training
			node n model=A cards=8
			job b queue=xb min=%d running=n*8 cards=0 age=1h
			job r queue=xa min=%d pending=%d cards=0`, tc.minimumXB, tc.minimumXA, tc.waiting)).changeNodes(allocatable("cpu", "8"))
		s.queue("x").Spec.Guarantee.Resource = corev1.ResourceList{"cpu": amount("8")}
		s.queue("xa").Spec.Deserved = corev1.ResourceList{"cpu": amount(tc.deservedXA), "memory": amount("100Gi")}
		s.queue("xb").Spec.Deserved = corev1.ResourceList{"cpu": amount(tc.deservedXB), "memory": amount("100Gi")}
		s.queue("xb").Spec.Guarantee.Resource = corev1.ResourceList{"cpu": amount(tc.guaranteeXB)}

		s.arguments["reclaimResources"] = "All"
		s.withoutAllocate = true // no core is free, so it would place no pod
		s.runSession(t)
		check.Equal(t, "evicted pods by queue", tc.wantVictims, s.evictedByQueue())
	}
}

// TestAnEvictionFreesCPUOfAnAncestor: tenant x has a limit of 8 cores. Its queue xb uses all of them, with the 4 cards
// that it deserves and 4 that it has borrowed. Pod r of xa needs a card and a core. One eviction frees both, so the
// limit of the ancestor does not keep r from reclaiming. "xb 1" means one pod of queue xb.
func TestAnEvictionFreesCPUOfAnAncestor(t *testing.T) {
	for t, isUnlimited := range check.Cases(t, map[string]bool{
		"pods with cards count against the limit of CPU":       false,
		"cardUnlimitedCpuMemory: pods with cards do not count": true,
	}) {
		s := newTree(`
			queue x quota=8 deserved=8 cpu=8
			queue xa parent=x quota=8 deserved=4 serviceType=training
			queue xb parent=x quota=8 deserved=4 serviceType=training
			node n model=A cards=8
			job b queue=xb min=1 running=n*8 cpu=1 age=1h
			job r queue=xa min=1 pending=1 cpu=1`)
		s.arguments["cardUnlimitedCpuMemory"] = isUnlimited
		s.withoutAllocate = true // no card is free, so it would place no pod
		s.runSession(t)

		check.Equal(t, "evicted pods by queue", "xb 1", s.evictedByQueue())
	}
}

// TestAPodWithoutCPURequestUsesNoCPUOfAQuota: two pods request 8 cards each, and no CPU. They use 16 of the pool of the
// cards, and nothing of the pool of CPU.
func TestAPodWithoutCPURequestUsesNoCPUOfAQuota(t *testing.T) {
	p := &problem{pools: map[quota.Resource]int{quota.CPU: 1, "NVIDIA-H200": 2}}
	check.Equal(t, "CPU", 0, p.usedBy(&solver.PodSet{Cards: 8, Count: 2}, 1))
	check.Equal(t, "cards", 16, p.usedBy(&solver.PodSet{Cards: 8, Count: 2}, 2))
}
