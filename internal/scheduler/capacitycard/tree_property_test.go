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
	"cardquota.dev/operator/internal/testing/seed"
)

// drawnTree is a random tree of queues with jobs, and the rules of trees as naive sums. All cards are A.
type drawnTree struct {
	// parents are the parents of queues, "" for those at the top. quota, deserved and guarantee are cards of queues.
	parents                    map[string]string
	quota, deserved, guarantee map[string]int
	// protected are the jobs whose pods may not be evicted.
	protected map[string]bool
	nodeCards int
	text      strings.Builder
}

// drawTree draws a tree of one to three levels, whose children together deserve and are guaranteed no more than their
// parent. In its leaves are jobs of up to 6 pods with one card each, on a node of 1 to 10 cards.
func drawTree(t *rapid.T) *drawnTree {
	g := &drawnTree{
		parents: map[string]string{}, quota: map[string]int{}, deserved: map[string]int{}, guarantee: map[string]int{},
		protected: map[string]bool{}, nodeCards: rapid.IntRange(1, 10).Draw(t, "cards"),
	}

	fmt.Fprintf(&g.text, "node a model=A cards=%d;", g.nodeCards)
	g.drawChildren(t, "", 1, 10, 8, 6)

	jobs := 0
	for _, queue := range slices.Sorted(maps.Keys(g.quota)) {
		if g.isParent(queue) {
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

func (g *drawnTree) drawChildren(t *rapid.T, parent string, level, quota, deserved, guarantee int) {
	for i := range rapid.IntRange(1, 3).Draw(t, "children of "+parent) {
		name := fmt.Sprintf("%sq%d", parent, i)
		g.parents[name] = parent
		g.deserved[name] = rapid.IntRange(0, deserved).Draw(t, "deserved of "+name)
		g.guarantee[name] = rapid.IntRange(0, min(guarantee, g.deserved[name])).Draw(t, "guarantee of "+name)
		g.quota[name] = rapid.IntRange(g.deserved[name], quota).Draw(t, "quota of "+name)
		deserved -= g.deserved[name]
		guarantee -= g.guarantee[name]

		fmt.Fprintf(&g.text, `queue %s quota={"A":%d} serviceType=training cpu=unlimited parent=%s deserved={"A":%d} guarantee={"A":%d};`,
			name, g.quota[name], cmp.Or(parent, "root"), g.deserved[name], g.guarantee[name])
		if level < 3 && rapid.Bool().Draw(t, name+" has children") {
			g.drawChildren(t, name, level+1, g.quota[name], g.deserved[name], g.guarantee[name])
		}
	}
}

func (g *drawnTree) isParent(queue string) bool {
	return slices.Contains(slices.Collect(maps.Values(g.parents)), queue)
}

// isBelow reports whether a queue is another one or below it. Every queue is below "".
func (g *drawnTree) isBelow(queue, ancestor string) bool {
	for at := queue; at != ""; at = g.parents[at] {
		if at == ancestor {
			return true
		}
	}
	return ancestor == ""
}

// used counts placed pods of the subtree, all or only protected ones.
func (g *drawnTree) used(placed map[string]int, queue string, s *scene, protectedOnly bool) (n int) {
	for job, count := range placed {
		if (!protectedOnly || g.protected[job]) && g.isBelow(string(s.Job(job).Queue), queue) {
			n += count
		}
	}
	return n
}

// unused is what a queue and those below it are guaranteed and do not use.
func (g *drawnTree) unused(placed map[string]int, queue string, s *scene) int {
	below := g.unusedBelow(placed, queue, s)
	if queue == "" {
		return below
	}
	return max(below, g.guarantee[queue]-g.used(placed, queue, s, false))
}

// exceeded says which rule the placed pods break, "" for none. grown is the job of the pod that was placed last.
// Without it, unused guarantees must still fit the quotas.
func (g *drawnTree) exceeded(placed map[string]int, s *scene, grown string) string {
	for queue, quota := range g.quota {
		if used := g.used(placed, queue, s, false); used > quota {
			return fmt.Sprintf("%s uses %d of %d", queue, used, quota)
		}
		if left := g.unusedBelow(placed, queue, s); g.used(placed, queue, s, false)+left > quota && grown == "" {
			return fmt.Sprintf("%s has no quota left for %d cards that its children are guaranteed", queue, left)
		}
		if unreclaimable := g.used(placed, queue, s, true); unreclaimable > g.deserved[queue] {
			return fmt.Sprintf("protected pods of %s use %d of %d deserved", queue, unreclaimable, g.deserved[queue])
		}
	}

	if used := g.used(placed, "", s, false); used > g.nodeCards {
		return fmt.Sprintf("%d of %d cards are used", used, g.nodeCards)
	}
	if grown == "" {
		return ""
	}

	return g.exceededGuarantee(placed, s, grown)
}

// exceededGuarantee says where the pod that was placed last takes what others are guaranteed, "" for
// nowhere. grown is its job.
func (g *drawnTree) exceededGuarantee(placed map[string]int, s *scene, grown string) string {
	before := maps.Clone(placed)
	before[grown]--
	for at := string(s.Job(grown).Queue); ; at = g.parents[at] {
		limit := g.nodeCards
		if at != "" {
			limit = g.quota[at]
		}

		claimed := g.used(placed, at, s, false) + g.unusedBelow(placed, at, s)
		claimedBefore := g.used(before, at, s, false) + g.unusedBelow(before, at, s)
		if claimed > limit && claimed > claimedBefore {
			return fmt.Sprintf("%s would take what others are guaranteed below %q", grown, at)
		}
		if at == "" {
			return ""
		}
	}
}

func (g *drawnTree) unusedBelow(placed map[string]int, queue string, s *scene) (n int) {
	for child, parent := range g.parents {
		if parent == queue {
			n += g.unused(placed, child, s)
		}
	}
	return n
}

// TestPodsOfRandomTreesAreWithinEachLimit draws trees of queues with jobs, whose pods request one card each, and one
// node. A session places the pods. drawnTree then sums the cards of each queue and all queues below it, naively.
//
// (1) The placed pods use at most the cards of the node, and in each queue at most its quota. In that quota stays free
// what queues below are guaranteed and do not use. Protected pods, which may not be evicted, use at most what the queue
// deserves.
//
// (2) Of each job that has waiting pods, one more pod would use more than (1) allows. Or it would take a card, of the
// node or of a quota, that other queues are guaranteed.
func TestPodsOfRandomTreesAreWithinEachLimit(t *testing.T) {
	seed.Check(t, func(rt *rapid.T) {
		g := drawTree(rt)
		s := newTreeScene(t, g.text.String()).enqueueAndAllocate()
		placed := map[string]int{} // pods by job
		for _, job := range s.Ssn.Jobs {
			for _, task := range job.Tasks {
				if api.AllocatedStatus(task.Status) {
					placed[job.Name]++
				}
			}
		}

		broken := g.exceeded(placed, s, "")
		check.Must(rt, broken == "", "%s\n%s: placed %v", g.text.String(), broken, placed)
		for _, job := range s.Ssn.Jobs {
			if len(job.TaskStatusIndex[api.Pending]) == 0 {
				continue
			}
			placed[job.Name]++
			reason := g.exceeded(placed, s, job.Name)
			placed[job.Name]--
			check.Must(rt, reason != "",
				"%s\na pod of %s waits, although it fits beside %v: %s", g.text.String(), job.Name, placed, s.refusals(job.Name))
		}

		s.Close()
	})
}
