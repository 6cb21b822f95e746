package action

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/internal/cardreclaim"
	"cardquota.dev/operator/internal/workload"
)

// dimensions are the places of what the claims ask for in cardreclaim.Amounts:
// CPU, memory, the pods of a node, then other resources, and then for each claim
// of which a node takes no more than so many how many of it may come.
type dimensions struct {
	resources []corev1.ResourceName
	// limits are those of limited claims, by claim, -1 for the others.
	limits []int
	last   int
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
	d.last = others + len(d.resources)
	for i, c := range claims {
		if d.limits[i] = -1; c.limited() {
			d.limits[i] = d.last
			d.last++
		}
	}
	return d
}

func (d *dimensions) count() int { return d.last }

// amounts are those of resources.
func (d *dimensions) amounts(r *api.Resource) cardreclaim.Amounts {
	amounts := make(cardreclaim.Amounts, d.count())
	amounts[cpu], amounts[memory] = r.MilliCPU, r.Memory
	for i, name := range d.resources {
		amounts[others+i] = r.ScalarResources[name]
	}
	return amounts
}

// request is what each pod of the i-th claim needs.
func (d *dimensions) request(i int, c *claim) cardreclaim.Amounts {
	request := d.amounts(c.tasks[0].InitResreq)
	request[podsOfNode] = 1
	if at := d.limits[i]; at >= 0 {
		request[at] = 1
	}
	return request
}

// givesOf is what a node gets back with a pod.
func (w *wave) givesOf(q *question, task *api.TaskInfo) cardreclaim.Amounts {
	gives := q.dims.amounts(task.Resreq)
	w.spend(q.dims.count())
	gives[podsOfNode] = 1
	w.eachApart(q, task, func(at int) { gives[at] = 1 })
	return gives
}

// roomOf is what a node has free or will have.
func (w *wave) roomOf(q *question, node *api.NodeInfo, place int) cardreclaim.Amounts {
	room := q.dims.amounts(w.tide.RoomOn(node))
	w.spend(q.dims.count())
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
		if workload.KeepApart(c.tasks[0].Pod, task.Pod) {
			call(q.dims.limits[i])
		}
	}
}
