package waitingjobs

import (
	"slices"
	"time"

	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/scheduler/snapshot"
	"cardquota.dev/operator/internal/workload"
)

// gangPlacement places the missing pods of a job on the nodes as they will be without the pods that leave
// for it.
type gangPlacement struct {
	free  *freeCards
	job   *Job
	until time.Time
	nodes map[string]*nodeInPlacement
	// next is the first node that may take another pod of a kind: earlier ones refused one.
	next map[kindAndCard]int
}

// kindAndCard are pods of a kind with one of the cards that they may use.
type kindAndCard struct {
	kind *podKind
	name card.Name
}

// nodeInPlacement is a node with pods that were placed there.
type nodeInPlacement struct {
	left *api.Resource
	pods []*api.TaskInfo
}

// canPlaceAll reports whether all missing pods of a job fit the nodes together, once all pods are gone from
// which it may take cards, or which end before a time. For a job that runs below its minimum, all pods of
// other jobs count as gone. Otherwise cards would be kept for a job that never starts.
//
// The largest pods go first, each to the first node that takes it. So a placement may be overlooked, also
// when no more nodes may be checked. Then no cards are kept. Two things err the other way: it does not place
// pods without cards. In a tree it may count borrowed cards on each of two nodes, although a queue gives
// only some of them.
func (f *freeCards) canPlaceAll(job *Job, until time.Time) bool {
	placement := &gangPlacement{free: f, job: job, until: until, nodes: map[string]*nodeInPlacement{}, next: map[kindAndCard]int{}}
	for _, task := range job.missing {
		if f.RequestFor(task).Count == 0 || f.kept.HasPromisedNode(task) {
			continue
		}
		if !placement.place(task) {
			return false
		}
	}
	return true
}

// place places a pod on a node, in the order of the cards that it names, and reports whether some node takes it.
func (g *gangPlacement) place(task *api.TaskInfo) bool {
	r, _ := g.free.CheckInputFor(task)
	for _, name := range r.Request.Names {
		if g.free.usesCard(g.job, r, name) && g.placeOnCard(task, name) {
			return true
		}
	}
	return false
}

// placeOnCard places a pod on the first node with a card that takes it, first among those with free cards. It
// begins where the last pod of the kind was placed, because earlier nodes have refused such a pod.
func (g *gangPlacement) placeOnCard(task *api.TaskInfo, name card.Name) bool {
	free := g.free.byName[name]
	full := g.free.fullByName[name]
	key := kindAndCard{g.free.kindOf(task), name}

	for i := g.next[key]; i < len(free)+len(full); i++ {
		node := nodeAt(i, free, full)
		if g.placeOnNode(task, key.kind, node) {
			g.next[key] = i
			return true
		}
	}

	g.next[key] = len(free) + len(full)
	return false
}

// nodeAt returns node i of two lists, one after the other.
func nodeAt(i int, free, full []*freeNode) *freeNode {
	if i < len(free) {
		return free[i]
	}
	return full[i-len(free)]
}

// placeOnNode places a pod on a node if it fits beside those that are placed there and those that stay, and reports
// whether it does.
func (g *gangPlacement) placeOnNode(task *api.TaskInfo, kind *podKind, node *freeNode) bool {
	left := g.free.leftOnceOthersLeave(g.job, kind, node, g.until)
	if left == nil || g.conflictsWithOwnPods(task, node) {
		return false
	}

	at := g.nodes[node.Name]
	if at == nil {
		at = &nodeInPlacement{left: left.Clone()}
		g.nodes[node.Name] = at
	}

	// Cards that are kept for other pods stay free on the node.
	needed := g.free.RequestFor(task).Count.Add(node.kept)
	hasCards := at.left.Get(node.resource) >= float64(needed)*snapshot.Milli
	conflicts := func(other *api.TaskInfo) bool { return workload.ConflictOnNode(task.Pod, other.Pod) }
	if !hasCards || !task.InitResreq.LessEqual(at.left, api.Zero) || slices.ContainsFunc(at.pods, conflicts) {
		return false
	}

	at.left.SubWithoutAssert(task.Resreq)
	at.pods = append(at.pods, task)
	return true
}

// conflictsWithOwnPods reports whether a pod cannot be on a node because of other pods of its job there.
func (g *gangPlacement) conflictsWithOwnPods(task *api.TaskInfo, node *freeNode) bool {
	if !g.job.IsBelowMinimum { // none of them has a node
		return false
	}
	for _, other := range node.Tasks {
		if other.Job == task.Job && other.Status != api.Releasing && workload.ConflictOnNode(task.Pod, other.Pod) {
			return true
		}
	}
	return false
}

// leftOnceOthersLeave returns what a node has free for a kind of pods once others have left, nil if no such
// pod can run there. For a job that runs below its minimum, all pods of other jobs count as gone. Otherwise
// those do from which the job may take cards, or which end before until.
func (f *freeCards) leftOnceOthersLeave(job *Job, kind *podKind, node *freeNode, until time.Time) *api.Resource {
	use := f.useOf(kind, node)
	if use == nil || !use.fitsEmpty {
		return nil
	}

	if !job.IsBelowMinimum {
		if _, fits := f.fitsOnceOthersLeave(kind, node, until); !fits {
			return nil
		}
		return use.left
	}

	// What terminating pods use is in left already, and pipelined pods use nothing yet.
	left := f.stuck.FutureIdleOn(node.NodeInfo)
	for _, other := range node.Tasks {
		if other.Job != kind.task.Job && other.Status != api.Releasing && other.Status != api.Pipelined {
			left.Add(other.Resreq)
		}
	}

	return left
}
