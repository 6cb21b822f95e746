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
// Volcano keeps the queues in a heap, and compares a queue again only after its own step. In a tree
// each placement also changes the order of all other queues of the same tenant. Then a tenant with
// many queues gets more than its part.
func (a *allocation) allocateInOrder(jobs map[api.JobID]*api.JobInfo, execute func()) {
	order := newTreeOrder(a, jobs)
	for queue := order.first(); queue != nil; queue = order.first() {
		job := queue.jobs.Pop().(*api.JobInfo)
		pending := len(job.TaskStatusIndex[api.Pending])
		a.allocateStep(job, execute)
		left := len(job.TaskStatusIndex[api.Pending])
		if left > 0 && left < pending && a.Volcano.JobReady(job) {
			queue.jobs.Push(job) // as Volcano does, for pods above its minimum
		}
		order.update(queue)
	}
}

// allocateStep runs one step of Volcano's action allocate: the minimum of a job, or one pod above it. The action
// finds only this job in the session when it begins.
func (a *allocation) allocateStep(job *api.JobInfo, execute func()) {
	a.step = &allocationStep{jobs: a.Volcano.Jobs}
	a.Volcano.Jobs = map[api.JobID]*api.JobInfo{job.UID: job}
	defer func() {
		a.Volcano.Jobs = a.step.jobs
		a.step = nil
	}()
	execute()
}

// overused ends a step of allocate when Volcano asks for the next queue. The first question of a step is about the
// queue of its job. Otherwise no queue is overused, because quota is checked for each pod.
func (a *allocation) overused(any) bool {
	if a.step == nil {
		return false
	}
	hasBegun := a.step.hasBegun
	a.step.begin(a)
	return hasBegun
}

// begin gives the session all of its jobs again, once Volcano has listed the one of the step. It does nothing
// outside of a step.
func (s *allocationStep) begin(a *allocation) {
	if s != nil && !s.hasBegun {
		s.hasBegun = true
		a.Volcano.Jobs = s.jobs
	}
}

// treeOrder finds the queue of a tree that comes first, while their order changes. It is a heap
// for each parent. After a step of a queue only its place and those of its ancestors change.
type treeOrder struct {
	allocation *allocation
	root       *treeOrderNode
}

// treeOrderNode is a queue with waiting jobs, or a queue that has such queues below it.
type treeOrderNode struct {
	allocation *allocation
	parent     *treeOrderNode
	// at is the place in the heap of the parent.
	at int
	// queue and jobs are nil for the ancestors.
	queue *api.QueueInfo
	jobs  *util.PriorityQueue
	// children is a heap. The first one has the queue that comes first.
	children []*treeOrderNode
}

// newTreeOrder returns the order of the queues of the jobs that wait for allocate: those that are enqueued
// and have pending pods.
func newTreeOrder(a *allocation, jobs map[api.JobID]*api.JobInfo) *treeOrder {
	o := &treeOrder{allocation: a, root: &treeOrderNode{allocation: a}}
	queues := map[api.QueueID]*treeOrderNode{}
	ancestors := map[string]*treeOrderNode{}
	for _, job := range jobs {
		queue := a.Volcano.Queues[job.Queue]
		if queue == nil || snapshot.AwaitsEnqueue(job) || len(job.TaskStatusIndex[api.Pending]) == 0 {
			continue
		}

		node := queues[job.Queue]
		if node == nil {
			node = &treeOrderNode{allocation: a, queue: queue, jobs: util.NewPriorityQueue(a.Volcano.JobOrderFn)}
			queues[job.Queue] = node
			o.addBelow(a.Cache.Tree.Ancestors(string(job.Queue)), ancestors, node)
		}
		node.jobs.Push(job)
	}

	o.root.orderBelow()
	return o
}

// addBelow puts a node below the first ancestor of the path, which leads up to root, and creates the ancestors
// that are missing. Above one that exists there is nothing to add.
func (o *treeOrder) addBelow(path []string, ancestors map[string]*treeOrderNode, node *treeOrderNode) {
	for _, id := range path {
		parent, exists := ancestors[id]
		if !exists {
			parent = &treeOrderNode{allocation: o.allocation}
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
func (o *treeOrder) first() *treeOrderNode {
	if len(o.root.children) == 0 {
		return nil
	}
	return o.root.firstBelow()
}

// update puts a queue and its ancestors where they belong after a step of it. It removes a queue without
// waiting jobs, and ancestors without such queues.
func (o *treeOrder) update(queue *treeOrderNode) {
	for node := queue; node.parent != nil; node = node.parent {
		if len(node.children) == 0 && (node.jobs == nil || node.jobs.Empty()) {
			heap.Remove(node.parent, node.at)
		} else {
			heap.Fix(node.parent, node.at)
		}
	}
}

// orderBelow orders the children of a node and of all nodes below it.
func (n *treeOrderNode) orderBelow() {
	for _, child := range n.children {
		child.orderBelow()
	}
	heap.Init(n)
}

// firstBelow returns the queue that comes first of those below a node, or the node's own.
func (n *treeOrderNode) firstBelow() *treeOrderNode {
	for len(n.children) > 0 {
		n = n.children[0]
	}
	return n
}

// Len implements heap.Interface for the children.
func (n *treeOrderNode) Len() int { return len(n.children) }

// Less implements heap.Interface by the order that Volcano asks for.
func (n *treeOrderNode) Less(i, j int) bool {
	return n.allocation.Volcano.QueueOrderFn(n.children[i].firstBelow().queue, n.children[j].firstBelow().queue)
}

// Swap implements heap.Interface.
func (n *treeOrderNode) Swap(i, j int) {
	n.children[i], n.children[j] = n.children[j], n.children[i]
	n.children[i].at = i
	n.children[j].at = j
}

// Push implements heap.Interface.
func (n *treeOrderNode) Push(child any) {
	node := child.(*treeOrderNode)
	node.parent = n
	node.at = len(n.children)
	n.children = append(n.children, node)
}

// Pop implements heap.Interface.
func (n *treeOrderNode) Pop() any {
	last := n.children[len(n.children)-1]
	n.children = n.children[:len(n.children)-1]
	return last
}
