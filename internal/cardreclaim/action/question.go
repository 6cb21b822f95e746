package action

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/cardreclaim"
	"cardquota.dev/operator/internal/decision"
)

// question is a problem of the choice, with what its numbers stand for.
type question struct {
	problem cardreclaim.Problem
	claims  []*claim
	// givers are those of the problem's jobs, in their order.
	givers []*giver

	dims []string
	// wanted tells which nodes any of the claims could run on, cards which card
	// resources they ask for.
	wanted []bool
	cards  map[string]bool
}

// Dimensions beside the resources of a node: the pods it takes, and for claims
// of which it takes only one, whether one may come.
const (
	podsOfNode = "pods"
	alone      = "alone on its node: "
)

// question puts into numbers who waits and what is free for them.
func (w *wave) question(job *api.JobInfo, claims []*claim) *question {
	dims, q := dimensionsOf(claims), &question{claims: claims}
	q.problem.Nodes = make([]cardreclaim.Node, len(w.list)+1)
	// The first pool is that of nodes on which no card is asked for, or cards of
	// several names: there the plugin's own look at the placement holds the quota.
	q.problem.Pools = []int64{int64(card.MaxCount)}
	pools := map[card.Name]int{}
	wanted, names := make([]bool, len(w.list)+1), make([]card.Name, len(w.list)+1)
	cards := map[string]bool{}
	q.dims, q.wanted, q.cards = dims, wanted, cards
	for _, c := range claims {
		nodes := w.nodesOf(c)
		claim := cardreclaim.Claim{Request: requestOf(dims, c), Cards: int64(c.ask.Count), Count: len(c.tasks), Nodes: nodes}
		for _, i := range nodes {
			if !wanted[i] {
				wanted[i] = true
				q.problem.Nodes[i].Room = roomOf(dims, claims, w.list[i], i)
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
			cards[string(w.tide.Resource(c.tasks[0]))] = true
		}
		q.problem.Claims = append(q.problem.Claims, claim)
	}
	for i := range q.problem.Nodes {
		if !wanted[i] {
			q.problem.Nodes[i].Room = make(cardreclaim.Amounts, len(dims))
		}
	}
	return q
}

// addGivers adds the jobs that hold a card that is needed on a node that is
// wanted.
func (w *wave) addGivers(q *question) {
	taker := slices.IndexFunc(q.claims, func(c *claim) bool { return c.ask.Count > 0 })
	if taker < 0 {
		return
	}
	for _, g := range w.giversFor(q.claims[taker].tasks[0]) {
		shape, useful := g.shape, false
		shape.Pods = slices.Clone(g.shape.Pods)
		for i, task := range g.tasks {
			shape.Pods[i].Gives = givesOf(q.dims, q.claims, task)
			holds := q.cards[string(w.tide.Resource(task))]
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

// answer finds the best plan that places all pods, or as many as can be.
func (q *question) answer(all bool) (*cardreclaim.Plan, bool) {
	if plan, ok := cardreclaim.Choose(&q.problem); ok || all {
		return plan, ok
	}
	// As many as can be: the largest count of the only claim that has an answer;
	// several claims are served one after the other.
	counts := make([]int, len(q.problem.Claims))
	for i := range q.problem.Claims {
		counts[i], q.problem.Claims[i].Count = q.problem.Claims[i].Count, 0
	}
	var best *cardreclaim.Plan
	for i := range counts {
		low, high := 0, q.within(i, counts[i])
		for low < high {
			q.problem.Claims[i].Count = (low + high + 1) / 2
			if plan, ok := cardreclaim.Choose(&q.problem); ok {
				low, best = q.problem.Claims[i].Count, plan
			} else {
				high = q.problem.Claims[i].Count - 1
			}
		}
		q.problem.Claims[i].Count = low
	}
	return best, best != nil && best.Placed() > 0
}

// within is how many of a claim's pods the quota has room for, at most count.
func (q *question) within(claim, count int) int {
	c := &q.problem.Claims[claim]
	pools, room := map[int]bool{}, int64(0)
	for _, node := range c.Nodes {
		if pool := q.problem.Nodes[node].Pool; !pools[pool] {
			pools[pool] = true
			room += q.problem.Pools[pool]
		}
	}
	if c.Cards > 0 {
		return int(min(int64(count), room/c.Cards))
	}
	return count
}

// dimensionsOf lists the resources that the claims ask for.
func dimensionsOf(claims []*claim) []string {
	dims := []string{"cpu", "memory", podsOfNode}
	for _, c := range claims {
		for name, quantity := range c.tasks[0].InitResreq.ScalarResources {
			if quantity > 0 && !api.IsIgnoredScalarResource(name) && !slices.Contains(dims, string(name)) {
				dims = append(dims, string(name))
			}
		}
		if c.limited() {
			dims = append(dims, alone+c.needs)
		}
	}
	slices.Sort(dims[3:])
	return dims
}

func amountsOf(dims []string, r *api.Resource) cardreclaim.Amounts {
	amounts := make(cardreclaim.Amounts, len(dims))
	for i, name := range dims {
		switch name {
		case "cpu":
			amounts[i] = r.MilliCPU
		case "memory":
			amounts[i] = r.Memory
		case podsOfNode:
		default:
			amounts[i] = r.ScalarResources[corev1.ResourceName(name)]
		}
	}
	return amounts
}

func requestOf(dims []string, c *claim) cardreclaim.Amounts {
	request := amountsOf(dims, c.tasks[0].InitResreq)
	for i, name := range dims {
		if name == podsOfNode || c.limited() && name == alone+c.needs {
			request[i] = 1
		}
	}
	return request
}

func givesOf(dims []string, claims []*claim, task *api.TaskInfo) cardreclaim.Amounts {
	gives := amountsOf(dims, task.Resreq)
	gives[slices.Index(dims, podsOfNode)] = 1
	for _, c := range claims {
		if c.alone && decision.KeepApart(c.tasks[0].Pod, task.Pod) {
			gives[slices.Index(dims, alone+c.needs)] = 1
		}
	}
	return gives
}

// roomOf is what a node has free or will have, as Volcano counts it.
func roomOf(dims []string, claims []*claim, node *api.NodeInfo, place int) cardreclaim.Amounts {
	room := amountsOf(dims, node.FutureIdle())
	room[slices.Index(dims, podsOfNode)] = float64(node.Allocatable.MaxTaskNum)
	for _, c := range claims {
		if c.limited() {
			room[slices.Index(dims, alone+c.needs)] = float64(c.most(place))
		}
	}
	for _, task := range node.Tasks {
		if task.Status == api.Releasing {
			continue
		}
		room[slices.Index(dims, podsOfNode)]--
		for _, c := range claims {
			if c.alone && decision.KeepApart(c.tasks[0].Pod, task.Pod) {
				room[slices.Index(dims, alone+c.needs)]--
			}
		}
	}
	return room
}
