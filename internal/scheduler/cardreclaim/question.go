package cardreclaim

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/scheduler/solver"
	"cardquota.dev/operator/internal/workload"
)

// question is a problem of the choice, with what its numbers stand for.
type question struct {
	problem solver.Problem
	claims  []*claim
	// givers are those of the problem's jobs, in their order.
	givers []*giver

	dims dimensions
	// wanted tells which nodes any of the claims could run on, cards which card
	// resources they ask for.
	wanted []bool
	cards  map[string]bool
}

// question puts into numbers who waits and what is free for them. What there is
// no effort left for is missing.
func (w *wave) question(job *api.JobInfo, claims []*claim) *question {
	dims := dimensionsOf(claims)
	q := &question{claims: claims, dims: dims, wanted: make([]bool, len(w.list)+1), cards: map[string]bool{}}
	w.spend(len(claims) * dims.count)
	q.problem.Nodes = make([]solver.Node, len(w.list)+1)
	// The first pool is that of nodes on which no card is asked for, or cards of
	// several names: there the plugin's own look at the placement holds the quota.
	q.problem.Pools = []int64{int64(card.MaxCount)}
	pools := map[card.Name]int{}
	names := make([]card.Name, len(w.list)+1)
	for place, c := range claims {
		if w.exhausted() {
			break
		}
		nodes := w.nodesOf(c)
		w.spend(effortOfNode * len(nodes))
		claim := solver.Claim{Request: dims.request(place, c), Cards: int64(c.ask.Count), Count: len(c.tasks), Nodes: nodes}
		for _, i := range nodes {
			if !q.wanted[i] {
				q.wanted[i] = true
				q.problem.Nodes[i].Room = w.roomOf(q, w.list[i], i)
			}
			name, _ := w.tide.CardOn(c.tasks[0], w.list[i].Name)
			pool, known := pools[name]
			if !known && name != "" {
				pool = len(q.problem.Pools)
				pools[name] = pool
				q.problem.Pools = append(q.problem.Pools, int64(w.tide.Room(job.Queue, name)))
			}
			switch {
			case name == "" || name == names[i]:
			case names[i] == "":
				q.problem.Nodes[i].Pool, names[i] = pool, name
			default:
				q.problem.Nodes[i].Pool = 0
			}
		}
		if c.ask.Count > 0 {
			q.cards[string(w.tide.Ask(c.tasks[0]).Resource)] = true
		}
		q.problem.Claims = append(q.problem.Claims, claim)
	}
	w.spend(len(q.problem.Nodes))
	for i := range q.problem.Nodes {
		if !q.wanted[i] {
			q.problem.Nodes[i].Room = make(solver.Amounts, dims.count)
		}
	}
	return q
}

// addGivers adds the jobs that hold a card that is needed on a node that is
// wanted.
func (w *wave) addGivers(q *question) {
	taker := taker(q.claims)
	if taker < 0 {
		return
	}
	for _, g := range w.giversFor(q.claims[taker].tasks[0]) {
		if w.exhausted() {
			return
		}
		shape, useful := g.shape, false
		shape.Pods = slices.Clone(g.shape.Pods)
		for i, task := range g.tasks {
			shape.Pods[i].Gives = w.givesOf(q, task)
			holds := q.cards[string(w.tide.Ask(task).Resource)]
			if !holds {
				shape.Pods[i].Protected = true
			}
			useful = useful || holds && q.wanted[shape.Pods[i].Node]
		}
		if useful {
			q.problem.Jobs = append(q.problem.Jobs, shape)
			q.givers = append(q.givers, g)
		}
	}
}

// taker is the place of the first claim that asks for cards, -1 when none does.
func taker(claims []*claim) int {
	return slices.IndexFunc(claims, func(c *claim) bool { return c.ask.Count > 0 })
}

// answer finds the best plan that places all pods, or as many as can be, within the limit;
// nil when there is none.
func (q *question) answer(within *limit, all bool) *solver.Plan {
	if plan := within.choose(&q.problem); plan != nil || all {
		return plan
	}
	// As many as can be: the largest count of the only claim that has an answer;
	// several claims are served one after the other.
	counts := make([]int, len(q.problem.Claims))
	for i := range q.problem.Claims {
		counts[i], q.problem.Claims[i].Count = q.problem.Claims[i].Count, 0
	}
	var best *solver.Plan
	for i := range counts {
		low, high := 0, counts[i]
		for low < high {
			q.problem.Claims[i].Count = (low + high + 1) / 2
			if plan := within.choose(&q.problem); plan != nil {
				low, best = q.problem.Claims[i].Count, plan
			} else {
				high = q.problem.Claims[i].Count - 1
			}
		}
		q.problem.Claims[i].Count = low
	}
	return best
}

// dimensions are the places of what the claims ask for in cardreclaim.Amounts:
// CPU, memory, the pods of a node, then other resources, and then for each claim
// of which a node takes no more than so many how many of it may come.
type dimensions struct {
	resources []corev1.ResourceName
	// limits are those of limited claims, by claim, -1 for the others.
	limits []int
	// count is how many places there are.
	count int
}

// Places of what every node has.
const (
	cpu = iota
	memory
	podsOfNode
	others
)

func dimensionsOf(claims []*claim) dimensions {
	d, known := dimensions{limits: make([]int, len(claims))}, map[corev1.ResourceName]bool{}
	for _, c := range claims {
		for name, quantity := range c.tasks[0].InitResreq.ScalarResources {
			if quantity > 0 && !api.IsIgnoredScalarResource(name) && !known[name] {
				known[name] = true
				d.resources = append(d.resources, name)
			}
		}
	}
	slices.Sort(d.resources)
	d.count = others + len(d.resources)
	for i, c := range claims {
		if d.limits[i] = -1; c.alone || c.spread > 0 || len(c.caps) > 0 {
			d.limits[i] = d.count
			d.count++
		}
	}
	return d
}

// amounts are those of resources.
func (d *dimensions) amounts(r *api.Resource) solver.Amounts {
	amounts := make(solver.Amounts, d.count)
	amounts[cpu], amounts[memory] = r.MilliCPU, r.Memory
	for i, name := range d.resources {
		amounts[others+i] = r.ScalarResources[name]
	}
	return amounts
}

// request is what each pod of the i-th claim needs.
func (d *dimensions) request(i int, c *claim) solver.Amounts {
	request := d.amounts(c.tasks[0].InitResreq)
	request[podsOfNode] = 1
	if at := d.limits[i]; at >= 0 {
		request[at] = 1
	}
	return request
}

// givesOf is what a node gets back with a pod.
func (w *wave) givesOf(q *question, task *api.TaskInfo) solver.Amounts {
	gives := q.dims.amounts(task.Resreq)
	w.spend(q.dims.count)
	gives[podsOfNode] = 1
	w.eachApart(q, task, func(at int) { gives[at] = 1 })
	return gives
}

// roomOf is what a node has free or will have.
func (w *wave) roomOf(q *question, node *api.NodeInfo, place int) solver.Amounts {
	room := q.dims.amounts(w.tide.RoomOn(node))
	w.spend(q.dims.count)
	room[podsOfNode] = float64(node.Allocatable.MaxTaskNum)
	for i, c := range q.claims {
		if at := q.dims.limits[i]; at >= 0 {
			room[at] = float64(c.most(place))
		}
	}
	for _, task := range node.Tasks {
		if task.Status == api.Releasing {
			continue
		}
		room[podsOfNode]--
		w.eachApart(q, task, func(at int) { room[at]-- })
	}
	return room
}

// eachApart calls with the place of every claim whose pods cannot be on a node
// beside a pod.
func (w *wave) eachApart(q *question, task *api.TaskInfo, call func(at int)) {
	for i, c := range q.claims {
		if !c.alone || w.exhausted() {
			continue
		}
		w.pair(c.tasks[0].Pod, task.Pod)
		if workload.ConflictOnNode(c.tasks[0].Pod, task.Pod) {
			call(q.dims.limits[i])
		}
	}
}
