package solver

import (
	"testing"

	"cardquota.dev/operator/internal/testing/check"
)

// treeScene is what a problem of a tree has beside its fleet.
type treeScene struct {
	pending       int     // pods
	cards         float64 // of each of them
	nodesHaveRoom bool    // so that victims release only quota
	mayLose       float64 // the part of its cards that may be taken from each queue
	borrowed      bool    // the last victim may exceed that part, as for borrowed cards
}

// tree makes a fleet's problem one of a tree of ten queues: the root has no quota left, all gangs release what they use
// there, and those of every other queue at their parent too.
func (f fleet) tree(scene treeScene) *Problem {
	p := f.problem(scene.pending, scene.cards)
	p.Quotas = []Quota{{Levels: []int64{int64(scene.pending) * int64(scene.cards), int64(f.gangs * f.size), 0}}}
	if scene.nodesHaveRoom {
		for i := range p.Nodes {
			p.Nodes[i].Free = Amounts{8, 64000, 256e9}
		}
	}

	const queues = 10
	used := make([]int64, queues)
	for j := range p.Jobs {
		queue := j % queues
		p.Jobs[j].Level = 1 + queue%2
		for i := range p.Jobs[j].Pods {
			pod := &p.Jobs[j].Pods[i]
			pod.Releases = []QuotaAmount{{0, 1}}
			pod.Takes = []TakeAmount{{queue, 1}, {queues, 1}}
			used[queue]++
		}
	}

	all := int64(0)
	for _, n := range used {
		most := int64(scene.mayLose * float64(n))
		p.TakeLimits = append(p.TakeLimits, TakeLimit{Most: most, Borrowed: scene.borrowed})
		all += most
	}

	p.TakeLimits = append(p.TakeLimits, TakeLimit{Most: all, Borrowed: scene.borrowed})
	return p
}

// trees are fleets of 500 nodes for tests of large trees.
var trees = map[string]fleet{
	"gangs on a node each": {nodes: 500, gangs: 500, size: 8},
	"gangs spread":         {nodes: 500, gangs: 500, size: 8, spread: true},
	"gangs of 1 to 16":     {nodes: 500, gangs: 450, size: 8, mixed: true},
}

// TestSolveLargeTreesEvictsGangsOfLeastLoss: a tree of ten queues has no quota left at root, so victims are needed
// even though the nodes have room. Each queue may lose all that it uses, or half: more than it has of the cheapest
// gangs. The fleets have 500 nodes, with gangs on one node each, spread over nodes, or of 1 to 16 pods. The plan loses
// at most 1 % more than possible. Where the nodes are full too, each victim frees a card and its quota, so the loss is
// that without a tree.
func TestSolveLargeTreesEvictsGangsOfLeastLoss(t *testing.T) {
	for t, f := range check.Cases(t, trees) {
		for _, pending := range []int{1, 13, 48, 104, 400} {
			for _, mayLose := range []float64{1, 0.5} {
				p := f.tree(treeScene{pending: pending, cards: 1, mayLose: mayLose, nodesHaveRoom: true})
				plan := mustSolve(t, p)
				least := leastJobSeconds(p)
				check.That(t, float64(plan.Loss.JobSeconds) <= 1.01*float64(least), "loses %d, the least is %d", plan.Loss.JobSeconds, least)

				onFullNodes, _ := solveAll(f.tree(treeScene{pending: pending, cards: 1, mayLose: mayLose}))
				withoutTree, _ := solveAll(f.problem(pending, 1))
				check.Must(t, onFullNodes != nil, "no plan on full nodes")
				check.Equal(t, "loss on full nodes", withoutTree.Loss, onFullNodes.Loss)
			}
		}
	}
}

// TestSolveLargeTreesForPodsOfManyCards: on fleets of 500 nodes 20 pods of 8 cards are pending, and each running pod
// has a single card. The root of the tree has no quota left, and each of ten queues may lose half of what it uses.
// There is a valid plan, whether the nodes have room or are full.
func TestSolveLargeTreesForPodsOfManyCards(t *testing.T) {
	for t, f := range check.Cases(t, trees) {
		mustSolve(t, f.tree(treeScene{pending: 20, cards: 8, mayLose: 0.5, nodesHaveRoom: true}))
		mustSolve(t, f.tree(treeScene{pending: 20, cards: 8, mayLose: 0.5}))
	}
}

// TestSolveProvesThatLimitsForbid: 64 pods of 8 cards need 512 cards. 4000 are in use, by gangs of ten queues or by the
// elastic pods of one. Of what a queue uses, at most 5 % may be taken: 200 cards in all. A last victim may exceed a limit
// of borrowed cards, but has at most 8. The solver proves that there is no plan with little work, without trying sets of
// victims.
func TestSolveProvesThatLimitsForbid(t *testing.T) {
	for name, f := range map[string]fleet{"gangs": trees["gangs spread"], "elastic": {nodes: 500, gangs: 500, size: 8, elastic: true}} {
		for _, nodesHaveRoom := range []bool{true, false} {
			for _, borrowed := range []bool{true, false} {
				p := f.tree(treeScene{pending: 64, cards: 8, mayLose: 0.05, nodesHaveRoom: nodesHaveRoom, borrowed: borrowed})
				got := Solve(p, MaxWork)
				checkNoPlan(t, name, got)
				check.That(t, got.Work < 1_000_000, "%s: work %d, want less than 1,000,000", name, got.Work)
			}
		}
	}
}

// TestWorkInTreesStaysWithinLimits: the work that the solver counts is the same on every machine. The fleets have 500
// nodes, with room or full. Their queues form a tree, and each may lose half of what it uses. The work is at most about
// twice what was measured. A failure means that a change made the solver slower.
func TestWorkInTreesStaysWithinLimits(t *testing.T) {
	for _, tc := range []struct {
		fleet   fleet
		pending int
		cards   float64 // of each pending pod
		maxWork int
	}{
		{trees["gangs spread"], 1, 1, 300_000},
		{trees["gangs spread"], 400, 1, 500_000},
		{trees["gangs spread"], 64, 8, 3_000_000},
		{trees["gangs of 1 to 16"], 400, 1, 800_000},
		{fleet{nodes: 500, gangs: 500, size: 8, elastic: true}, 400, 1, 2_000_000},
		{fleet{nodes: 500, gangs: 500, size: 8, elastic: true}, 64, 8, 7_000_000},
		{fleet{nodes: 500, gangs: 500, size: 8, spread: true, ranks: 8}, 400, 1, 2_200_000},
	} {
		for _, nodesHaveRoom := range []bool{true, false} {
			p := tc.fleet.tree(treeScene{pending: tc.pending, cards: tc.cards, mayLose: 0.5, nodesHaveRoom: nodesHaveRoom, borrowed: true})
			got := Solve(p, MaxWork)

			check.Must(t, got.Plan != nil, "%+v, %d of %g: no plan", tc.fleet, tc.pending, tc.cards)
			check.That(t, got.Work <= tc.maxWork, "%+v, %d of %g: work %d, want at most %d", tc.fleet, tc.pending, tc.cards, got.Work, tc.maxWork)
		}
	}
}
