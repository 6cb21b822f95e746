package capacitycard

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/queuetree"
	"cardquota.dev/operator/internal/testing/seed"
)

// drawnTree is a random tree of queues with jobs. All cards are A.
type drawnTree struct {
	// parents are the parents of queues, "" for those at the top. inForce are cards of queues, and of the node for "".
	parents queuetree.Parents
	inForce map[string]queuetree.InForce
	// protected are the jobs whose pods may not be evicted.
	protected map[string]bool
	text      strings.Builder
}

// drawTree draws a tree of one to three levels, whose children together deserve and are guaranteed no more than their
// parent. In its leaves are jobs of up to 6 pods with one card each, on a node of 1 to 10 cards.
func drawTree(t *rapid.T) *drawnTree {
	nodeCards := rapid.Int64Range(1, 10).Draw(t, "cards")
	g := &drawnTree{
		parents: queuetree.Parents{}, protected: map[string]bool{},
		inForce: map[string]queuetree.InForce{"": {Quota: nodeCards, Deserved: queuetree.Unlimited}},
	}

	fmt.Fprintf(&g.text, "node a model=A cards=%d;", nodeCards)
	g.drawChildren(t, "", 1, 10, 8, 6)

	jobs := 0
	for _, queue := range slices.Sorted(maps.Keys(g.parents)) {
		if len(g.parents.Children(queue)) > 0 {
			continue
		}

		for range rapid.IntRange(0, 2).Draw(t, "jobs of "+queue) {
			jobs++
			name := fmt.Sprintf("j%d", jobs)

			protected := ""
			g.protected[name] = rapid.IntRange(0, 3).Draw(t, name+" is protected") == 0
			if g.protected[name] {
				protected = "preemptable=false"
			}
			fmt.Fprintf(&g.text, "job %s queue=%s min=1 pending=%d %s;",
				name, queue, rapid.IntRange(1, 6).Draw(t, "pods of "+name), protected)
		}
	}

	return g
}

func (g *drawnTree) drawChildren(t *rapid.T, parent string, level int, quota, deserved, guarantee int64) {
	for i := range rapid.IntRange(1, 3).Draw(t, "children of "+parent) {
		name := fmt.Sprintf("%sq%d", parent, i)
		var cards queuetree.InForce
		cards.Deserved = rapid.Int64Range(0, deserved).Draw(t, "deserved of "+name)
		cards.Guarantee = rapid.Int64Range(0, min(guarantee, cards.Deserved)).Draw(t, "guarantee of "+name)
		cards.Quota = rapid.Int64Range(cards.Deserved, quota).Draw(t, "quota of "+name)
		deserved -= cards.Deserved
		guarantee -= cards.Guarantee

		g.parents[name] = parent
		g.inForce[name] = cards
		fmt.Fprintf(&g.text, `queue %s quota={"A":%d} serviceType=training cpu=unlimited parent=%s deserved={"A":%d} guarantee={"A":%d};`,
			name, cards.Quota, cmp.Or(parent, "root"), cards.Deserved, cards.Guarantee)
		if level < 3 && rapid.Bool().Draw(t, name+" has children") {
			g.drawChildren(t, name, level+1, cards.Quota, cards.Deserved, cards.Guarantee)
		}
	}
}

func (g *drawnTree) makeTree() *queuetree.Tree {
	return &queuetree.Tree{Parents: g.parents, IsCard: true, InForce: func(queue string) queuetree.InForce { return g.inForce[queue] }}
}

// placedPods returns the cards of placed pods by queue. Each has one.
func (g *drawnTree) placedPods(s *scene) queuetree.Pods {
	pods := queuetree.Pods{Used: queuetree.Use{}, Unreclaimable: queuetree.Use{}}
	for _, job := range s.Ssn.Jobs {
		for _, task := range job.Tasks {
			if !api.AllocatedStatus(task.Status) {
				continue
			}

			pods.Used[string(job.Queue)]++
			if g.protected[job.Name] {
				pods.Unreclaimable[string(job.Queue)]++
			}
		}
	}
	return pods
}

// describeExceeded says which rule the placed pods break, "" for none.
func (g *drawnTree) describeExceeded(pods queuetree.Pods) string {
	tree := g.makeTree()

	for queue, of := range g.inForce {
		switch {
		case tree.IsAboveQuota(queue, pods.Used):
			return fmt.Sprintf("%q uses %d of %d", queue, tree.Used(queue, pods.Used), of.Quota)
		case queue != "" && tree.Occupied(queue, pods.Used) > of.Quota:
			return fmt.Sprintf("%s has no quota left for %d cards that its children are guaranteed", queue, tree.UnusedBelow(queue, pods.Used))
		case tree.IsAboveDeserved(queue, pods.Unreclaimable):
			return fmt.Sprintf("protected pods of %s use %d of %d deserved", queue, tree.Used(queue, pods.Unreclaimable), of.Deserved)
		}
	}
	return ""
}

// findRefusal says which rule one more pod of a job would break, "" for none.
func (g *drawnTree) findRefusal(job *api.JobInfo, pods queuetree.Pods) string {
	request := queuetree.Request{Queue: string(job.Queue), Count: 1, IsUnreclaimable: g.protected[job.Name]}
	if g.makeTree().IsAboveQuota("", pods.Used.With(request.Queue, 1)) {
		return "the node has no card left"
	}
	return g.makeTree().Refusal(request, pods)
}

// TestPodsOfRandomTreesAreWithinEachLimit draws trees of queues with jobs, whose pods request one card each, and one
// node. A session places the pods. Package queuetree then sums the cards of each queue and all queues below it, naively.
//
// (1) No limit is exceeded. The placed pods use at most the cards of the node, and in each queue at most its quota. Each
// quota has room for the unused guarantees of the queues below. Protected pods, which may not be evicted, use at most
// what the queue deserves.
//
// (2) No pod waits without a reason. One more pod of a waiting job would exceed a limit of (1), or it would take a card
// of the node that another queue is guaranteed.
func TestPodsOfRandomTreesAreWithinEachLimit(t *testing.T) {
	seed.Check(t, func(rt *rapid.T) {
		g := drawTree(rt)
		s := newTreeScene(t, g.text.String()).enqueueAndAllocate()
		placed := g.placedPods(s)
		broken := g.describeExceeded(placed)
		check.Must(rt, broken == "", "%s\n%s: placed %v", g.text.String(), broken, placed)
		for _, job := range s.Ssn.Jobs {
			if len(job.TaskStatusIndex[api.Pending]) == 0 {
				continue
			}
			reason := g.findRefusal(job, placed)
			check.Must(rt, reason != "",
				"%s\na pod of %s waits, although it fits beside %v: %s", g.text.String(), job.Name, placed, s.refusals(job.Name))
		}

		s.Close()
	})
}
