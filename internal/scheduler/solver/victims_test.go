package solver

import (
	"testing"

	"cardquota.dev/operator/internal/testing/check"
)

// TestSolveChoosesVictims: the solver evicts running pods so that all pending pods can run, and loses as little work
// as possible. A job is a gang, which is evicted as a whole or not at all. Or it has elastic pods above its minimum,
// which are evicted before any gang. Loss is in card-seconds of work, here for each pod. Without cards= a node is full.
// running=n*3 are three pods of one card on node n, of which the job can lose elastic= alone. Each row wants the
// victims: "gang" is a whole job, "elastic-0" is pod 0 of job elastic.
func TestSolveChoosesVictims(t *testing.T) {
	checkVictims(t, map[string]victimsCase{
		"no pod is pending: no victims": {want: "", scene: `
			node n
			pending pods=0 cards=1
			job gang running=n loss=5`},
		"the free cards suffice: no victims": {want: "", scene: `
			node m cards=1
			node n cards=1
			pending pods=2 cards=1
			job gang running=m loss=5`},
		"3 pods, 2 free cards: one victim, the one that loses less": {want: "less", scene: `
			node m cards=2
			node n
			pending pods=3 cards=1
			job more running=m loss=5
			job less running=n loss=4`},
		"3 pods, and all jobs together have 2 cards": {want: "no plan", scene: `
			node n
			pending pods=3 cards=1
			job first running=n loss=5
			job second running=n loss=5`},
		"no job runs": {want: "no plan", scene: `
			node n
			pending pods=1 cards=1`},
		"one of three jobs suffices: the one that loses least": {want: "least", scene: `
			node n
			pending pods=1 cards=1
			job most running=n loss=7
			job least running=n loss=5
			job middle running=n loss=6`},
		"an elastic pod before a gang that loses less": {want: "elastic-0", scene: `
			node n
			pending pods=1 cards=1
			job gang running=n loss=1
			job elastic running=n*2 elastic=1 loss=900`},
		"an elastic pod before a gang that loses nothing": {want: "elastic-0", scene: `
			node n
			pending pods=1 cards=1
			job gang running=n loss=0
			job elastic running=n*2 elastic=1 loss=900`},
		"2 of 4 elastic pods suffice: those that lose least": {want: "elastic-1 elastic-3", scene: `
			node n
			pending pods=2 cards=1
			job elastic running=n*4 elastic=2 loss=9
			pod elastic 1 loss=2
			pod elastic 3 loss=1`},
		"8 pods on 8 nodes: one gang that has a card on each": {want: "b", scene: `
			node 0; node 1; node 2; node 3; node 4; node 5; node 6; node 7
			pending pods=8 cards=1
			job a running=0,1,2,3,4,5,6,7 loss=5
			job b running=0,1,2,3,4,5,6,7 loss=4
			job c running=0,1,2,3,4,5,6,7 loss=5
			job d running=0,1,2,3,4,5,6,7 loss=5
			job e running=0,1,2,3,4,5,6,7 loss=5
			job f running=0,1,2,3,4,5,6,7 loss=5
			job g running=0,1,2,3,4,5,6,7 loss=5
			job h running=0,1,2,3,4,5,6,7 loss=5`},
		"the large gang is needed: the small one, which loses less, is spared": {want: "large", scene: `
			node n
			pending pods=8 cards=1
			job small running=n loss=5
			job large running=n*8 loss=1`},
		"two small gangs lose 8, the large one 9": {want: "small1 small2", scene: `
			node n
			pending pods=2 cards=1
			job large running=n*3 loss=3
			job small1 running=n loss=4
			job small2 running=n loss=4`},
		"4 pods: jobs three and two lose 52, two and costlier too, so those listed first": {want: "three two", scene: `
			node n
			pending pods=4 cards=1
			job three running=n*3 loss=10
			job two running=n*2 loss=11
			job costlier running=n*2 loss=15`},
		"3 pods on 3 nodes: one gang over all nodes loses 6, three gangs 9": {want: "wide", scene: `
			node a
			node b
			node c
			pending pods=3 cards=1
			job onA running=a loss=3
			job onB running=b loss=3
			job onC running=c loss=3
			job wide running=a,b,c loss=2`},
		"the pod can run on node a only: the cheaper gang on b does not help": {want: "onA", scene: `
			node a
			node b
			pending pods=1 cards=1 nodes=a
			job onB running=b loss=1
			job onA running=a loss=50`},
		"a gang loses its pods on all nodes, 15, so the other one on a, 12, is evicted": {want: "onA", scene: `
			node a
			node b
			pending pods=1 cards=1 nodes=a
			job wide running=a,b*2 loss=5
			job onA running=a loss=12`},
		"a pod of 4 cards: all jobs on a free 4, those on b only 3": {want: "a1 a2 a3", scene: `
			node a
			node b
			pending pods=1 cards=4
			job a1 running=a loss=1
			job b1 running=b loss=1
			job a2 running=a*2 loss=2
			job b2 running=b*2 loss=9
			job a3 running=a loss=1`},
		"a pod of 2 cards: node b loses 9, a and c 10": {want: "b1 b2", scene: `
			node a
			node b
			node c
			pending pods=1 cards=2
			job a1 running=a loss=5
			job a2 running=a loss=5
			job b1 running=b loss=1
			job b2 running=b loss=8
			job c1 running=c loss=2
			job c2 running=c loss=8`},
		"3 elastic pods on b before a gang on a that loses less": {want: "elastic-0 elastic-1 elastic-2", scene: `
			node a
			node b
			pending pods=1 cards=3
			job gang running=a*3 loss=1
			job elastic running=b*3 elastic=3 loss=50`},
		"cards and CPU: two gangs on a free 2+6 CPU and lose 4, one on b frees 8 and loses 9": {want: "a1 a2", scene: `
			node a
			node b
			pending pods=1 cards=1 cpu=8
			job a1 running=a cpu=2 loss=1
			job a2 running=a cpu=6 loss=3
			job b1 running=b cpu=8 loss=9`},
		"only CPU is missing: the gang with 8 CPU and no card": {want: "cpus", scene: `
			node n cards=4
			pending pods=1 cards=1 cpu=8
			job cards running=n cpu=4 loss=1
			job cpus running=n cards=0 cpu=8 loss=3`},
	})
}

// TestSolveWithTwoQuotas: each node has cards of one name, and the queue of the pending pods has a quota for
// each name. A victim helps only while there is quota for the card of its node. Node a has cards of quota A,
// node b of quota B; left= is what is left of a quota. A node without cards= is full. Each row wants the jobs
// that are evicted.
func TestSolveWithTwoQuotas(t *testing.T) {
	checkVictims(t, map[string]victimsCase{
		"the quota of A allows 2 of 3 pods: the two cheapest on a, then one on b": {want: "a1 a2 b1", scene: `
			quota A left=2; quota B left=5
			node a quota=A; node b quota=B
			pending pods=3 cards=1
			job a1 running=a loss=1
			job a2 running=a loss=2
			job a3 running=a loss=3
			job b1 running=b loss=9`},
		"both quotas together allow 2 of 3 pods": {want: "no plan", scene: `
			quota A left=1; quota B left=1
			node a quota=A; node b quota=B
			pending pods=3 cards=1
			job a1 running=a loss=1
			job a2 running=a loss=2
			job b1 running=b loss=3`},
		"a quota of 3 A is enough for one pod of 2 cards: equal a1 and a2, so the first": {want: "a1 b1", scene: `
			quota A left=3; quota B left=2
			node a quota=A; node b quota=B
			pending pods=2 cards=2
			job a1 running=a*2 loss=1
			job a2 running=a*2 loss=1
			job b1 running=b*2 loss=7`},
		"4 cards are free on a, and there is no quota left for A: a victim on b": {want: "b1", scene: `
			quota A left=0; quota B left=1
			node a cards=4 quota=A; node b quota=B
			pending pods=1 cards=1
			job b1 running=b loss=7`},
	})
}

// TestPodsWithoutCardsNeedNoQuotaOfCards: the pending pod needs room for a card on its node, but is charged for none. So
// an exhausted quota of cards does not keep it from running once the gang is gone.
func TestPodsWithoutCardsNeedNoQuotaOfCards(t *testing.T) {
	s := newScene(`
		quota A left=0
		node n
		pending pods=1 cards=1
		job gang running=n loss=7`)
	s.PodSets[0].Cards = 0

	check.Equal(t, "victims", "gang", s.formatVictims(mustSolve(t, s.Problem)))
}

// TestSolveWithTwoPodSets: a pending job can have pods of different kinds, here workers (the first line "pending")
// and a master (the second). All of them must find a place together. loss= is that of each pod, a*2 are two pods on
// node a. Each row wants the jobs that are evicted.
func TestSolveWithTwoPodSets(t *testing.T) {
	checkVictims(t, map[string]victimsCase{
		"2 workers anywhere and a master on b: one gang on both nodes loses 9, three single ones 12": {want: "wide", scene: `
			node a; node b
			pending pods=2 cards=1
			pending pods=1 cards=1 nodes=b
			job a1 running=a loss=4
			job a2 running=a loss=4
			job b1 running=b loss=4
			job wide running=a*2,b loss=3`},
		"the master can run on b only, where no job runs": {want: "no plan", scene: `
			node a; node b
			pending pods=2 cards=1
			pending pods=1 cards=1 nodes=b
			job a1 running=a loss=4
			job a2 running=a loss=4`},
		"the master needs the costly job on b, the worker takes the cheapest on a": {want: "a1 b1", scene: `
			node a; node b
			pending pods=1 cards=1
			pending pods=1 cards=1 nodes=b
			job a1 running=a loss=1
			job a2 running=a loss=2
			job b1 running=b loss=50`},
		"the master can run on a only and gets its free card, so the worker needs a victim, the cheaper": {want: "b1", scene: `
			node a cards=1; node b
			pending pods=1 cards=1
			pending pods=1 cards=1 nodes=a
			job b1 running=b loss=3
			job a1 running=a loss=9`},
		// Workers in the order of the nodes would use all cards of b, and a master on a the CPU of five workers.
		"15 workers and a master of 8 CPU fit without victims only if the master runs on b": {want: "", scene: `
			node a cards=5 cpu=8
			node b cards=1 cpu=8
			node c cards=10 cpu=10
			pending pods=15 cards=1 cpu=1
			pending pods=1 cards=1 cpu=8 nodes=a,b,c`},
	})
}

// TestTwoPodSetsShareFreeCards: 20 nodes have 2 free cards each, 40 in all. 20 pods can run anywhere and 20 on the first
// 10 nodes only. They all fit without victims if the former leave the first nodes to the latter.
func TestTwoPodSetsShareFreeCards(t *testing.T) {
	p := fullProblem(20, 20, 1)
	p.PodSets = append(p.PodSets, PodSet{Request: Amounts{1}, Cards: 1, Count: 20, Nodes: p.PodSets[0].Nodes[:10]})
	for i := range p.Nodes {
		p.Nodes[i].Free = Amounts{2}
	}

	check.Equal(t, "victims", nil, mustSolve(t, p).Victims)
}

// TestResourceThatNoPodRequestsChangesNothing: nodes have further resources beside cards and CPU, here one of
// which nothing is free and no pod requests any. It does not keep 3 workers of 2 cards from node a, and the master
// from b. Elastic pods are evicted first. Then the fewest jobs are, the first listed among equals. The plan avoids the
// two pods that lose anything.
func TestResourceThatNoPodRequestsChangesNothing(t *testing.T) {
	s := newScene(`
		node a; node b
		pending pods=3 cards=2
		pending pods=1 cards=1
		job four running=a*4
		job one running=a
		job elastic running=a*2,b elastic=2
		pod elastic 1 loss=1
		job another running=a
		job three running=a*3
		pod three 2 loss=1`)
	for i := range s.PodSets {
		s.PodSets[i].Request = append(s.PodSets[i].Request, 0)
	}
	for i := range s.Nodes {
		s.Nodes[i].Free = append(s.Nodes[i].Free, 0)
	}

	check.Equal(t, "victims", "four one elastic-0 elastic-2", s.formatVictims(mustSolve(t, s.Problem)))
}
