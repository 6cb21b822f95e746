package capacitycard

import (
	"container/heap"

	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/util"

	"cardquota.dev/operator/internal/scheduler/snapshot"
)

// allocateInOrder runs Volcano's action allocate for some jobs of a tree, one step of one job after
// the other.
//
// Volcano keeps the queues in a heap, and compares a queue again only after its own turn. In a tree
// each placement also changes the order of all other queues of the same tenant. Then a tenant with
// many queues gets more than its part.
func (p *allocation) allocateInOrder(jobs map[api.JobID]*api.JobInfo, execute func()) {
	order := newServingOrder(p, jobs)
	for turn := order.first(); turn != nil; turn = order.first() {
		job := turn.jobs.Pop().(*api.JobInfo)
		pending := len(job.TaskStatusIndex[api.Pending])
		p.allocateStep(job, execute)
		left := len(job.TaskStatusIndex[api.Pending])
		if left > 0 && left < pending && p.Volcano.JobReady(job) {
			turn.jobs.Push(job) // as Volcano does, for pods above its minimum
		}
		order.update(turn)
	}
}

// allocateStep is one step of Volcano's action allocate: the minimum of a job, or one pod above it.
func (p *allocation) allocateStep(job *api.JobInfo, execute func()) {
	p.step = &allocationStep{jobs: p.Volcano.Jobs}
	p.Volcano.Jobs = map[api.JobID]*api.JobInfo{job.UID: job}
	defer func() {
		p.Volcano.Jobs = p.step.jobs
		p.step = nil
	}()
	execute()
}

// allocationStep is the state of allocateStep.
type allocationStep struct {
	// jobs are all jobs of the session. Volcano lists the jobs that it serves once, before it asks
	// for the first queue. After that the hooks need all jobs.
	jobs map[api.JobID]*api.JobInfo
	// hasBegun is set once Volcano has asked for a queue.
	hasBegun bool
}

// overused ends a step of allocate when Volcano asks for the next queue. Otherwise no queue is
// overused, because quota is checked for each pod.
func (p *allocation) overused(any) bool {
	if p.step == nil {
		return false
	}
	hasBegun := p.step.hasBegun
	p.step.begin(p)
	return hasBegun
}

// begin gives the session all of its jobs again. It does nothing outside of a step.
func (s *allocationStep) begin(p *allocation) {
	if s != nil && !s.hasBegun {
		s.hasBegun = true
		p.Volcano.Jobs = s.jobs
	}
}

// servingOrder finds the queue of a tree that comes first, while their order changes. It is a heap
// for each parent. After the turn of a queue only its place and those of its ancestors change.
type servingOrder struct {
	p    *allocation
	root *servingNode
}

// servingNode is a queue with waiting jobs, or a queue that has such queues below it.
type servingNode struct {
	p      *allocation
	parent *servingNode
	// at is the place in the heap of the parent.
	at int
	// queue and jobs are nil for the ancestors.
	queue *api.QueueInfo
	jobs  *util.PriorityQueue
	// children is a heap. The first one has the queue that comes first.
	children []*servingNode
}

// newServingOrder returns the order of the queues of the jobs that wait for allocate.
func newServingOrder(p *allocation, jobs map[api.JobID]*api.JobInfo) *servingOrder {
	o := &servingOrder{p: p, root: &servingNode{p: p}}
	turns := map[api.QueueID]*servingNode{}
	ancestors := map[string]*servingNode{}
	for _, job := range jobs {
		queue := p.Volcano.Queues[job.Queue]
		if queue == nil || snapshot.AwaitsEnqueue(job) || len(job.TaskStatusIndex[api.Pending]) == 0 {
			continue
		}

		turn := turns[job.Queue]
		if turn == nil {
			turn = &servingNode{p: p, queue: queue, jobs: util.NewPriorityQueue(p.Volcano.JobOrderFn)}
			turns[job.Queue] = turn
			o.addBelow(p.Cache.Tree.Ancestors(string(job.Queue)), ancestors, turn)
		}
		turn.jobs.Push(job)
	}

	o.root.init()
	return o
}

// addBelow puts a node below that of the first ancestor, and creates those that are missing.
func (o *servingOrder) addBelow(path []string, ancestors map[string]*servingNode, node *servingNode) {
	for _, id := range path {
		parent, exists := ancestors[id]
		if !exists {
			parent = &servingNode{p: o.p}
			ancestors[id] = parent
		}

		parent.Push(node)
		if exists {
			return
		}
		node = parent
	}
	o.root.Push(node)
}

// first returns the queue that comes first, nil if no job waits.
func (o *servingOrder) first() *servingNode {
	if len(o.root.children) == 0 {
		return nil
	}
	return o.root.firstBelow()
}

// update puts a queue and its ancestors where they belong after its turn. It removes a queue without
// waiting jobs.
func (o *servingOrder) update(turn *servingNode) {
	for node := turn; node.parent != nil; node = node.parent {
		if len(node.children) == 0 && (node.jobs == nil || node.jobs.Empty()) {
			heap.Remove(node.parent, node.at)
		} else {
			heap.Fix(node.parent, node.at)
		}
	}
}

// init orders the children of a node and of all nodes below it.
func (n *servingNode) init() {
	for _, child := range n.children {
		child.init()
	}
	heap.Init(n)
}

// firstBelow returns the queue that comes first of those below a node, or the node's own.
func (n *servingNode) firstBelow() *servingNode {
	for len(n.children) > 0 {
		n = n.children[0]
	}
	return n
}

// Len implements heap.Interface for the children.
func (n *servingNode) Len() int { return len(n.children) }

// Less implements heap.Interface by the order that Volcano asks for.
func (n *servingNode) Less(i, j int) bool {
	return n.p.Volcano.QueueOrderFn(n.children[i].firstBelow().queue, n.children[j].firstBelow().queue)
}

// Swap implements heap.Interface.
func (n *servingNode) Swap(i, j int) {
	n.children[i], n.children[j] = n.children[j], n.children[i]
	n.children[i].at = i
	n.children[j].at = j
}

// Push implements heap.Interface.
func (n *servingNode) Push(child any) {
	node := child.(*servingNode)
	node.parent = n
	node.at = len(n.children)
	n.children = append(n.children, node)
}

// Pop implements heap.Interface.
func (n *servingNode) Pop() any {
	last := n.children[len(n.children)-1]
	n.children = n.children[:len(n.children)-1]
	return last
}
