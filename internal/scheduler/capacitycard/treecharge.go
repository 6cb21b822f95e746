package capacitycard

import (
	"cmp"
	"maps"

	corev1 "k8s.io/api/core/v1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/workload"
)

// loadInventory sets in the ledger what the nodes have that take pods: they are ready and not
// cordoned. It does nothing if the queues are flat.
func (p *snapshot) loadInventory(nodes map[string]*corev1.Node) {
	t := &p.cache.tree
	if t.IsFlat() {
		return
	}
	// A node that has not changed must cost nothing in the next session.
	if t.inventory == p.inventory && hasSameNodes(nodes, t.nodes) {
		return
	}

	cards := map[card.Name]card.Count{}
	off := map[string]bool{}
	var milliCPU, memory int64
	for name, node := range nodes {
		if node.Spec.Unschedulable || !workload.NodeReady(node) {
			off[name] = true
			continue
		}
		known, _ := p.inventory.Node(name)
		for _, offered := range known.Cards {
			cards[offered.Name] = cards[offered.Name].Add(offered.Count)
		}

		milliCPU = quota.AddSaturating(milliCPU, node.Status.Allocatable.Cpu().MilliValue())
		memory = quota.AddSaturating(memory, node.Status.Allocatable.Memory().Value())
	}

	if t.inventory != p.inventory || !maps.Equal(off, t.offInventory) {
		t.generation++
	}

	t.nodes = nodes
	t.inventory = p.inventory
	t.offInventory = off
	p.ledger.SetInventory(cards, milliCPU, memory)
}

// hasSameNodes reports whether no node changed.
func hasSameNodes(nodes, last map[string]*corev1.Node) bool {
	if len(nodes) != len(last) {
		return false
	}
	for name, node := range nodes {
		if last[name] != node {
			return false
		}
	}
	return true
}

// isOffInventory reports whether a node is not part of the inventory of a tree.
func (p *charges) isOffInventory(node string) bool {
	return p.cache.tree.offInventory[node] || p.cache.nodes.Node(node) == nil
}

// hasSameTreeCharge reports whether a charge still says the right for a tree.
func (p *charges) hasSameTreeCharge(state *podState) bool {
	t := &p.cache.tree
	if t.IsFlat() {
		return true
	}
	if state.charge.IsUnreclaimable != state.request.IsUnreclaimable {
		return false
	}
	if state.treeGeneration != t.generation && state.charge.IsOffInventory != p.isOffInventory(state.chargedNode) {
		return false
	}

	state.treeGeneration = t.generation
	return true
}

// unreclaimableRule says which pods of one job cannot be reclaimed.
type unreclaimableRule struct {
	// all is set if none can be reclaimed: the queue, its service type or the PodGroup forbids
	// it.
	all bool
	// byType is set if the queue has no service type. Then the type of the pod decides, else that
	// of the PodGroup, else that of the pod's owner.
	byType bool
	group  string
}

// unreclaimableRuleFor returns which pods of a job cannot be reclaimed. job may be nil.
func (p *Session) unreclaimableRuleFor(job *api.JobInfo) unreclaimableRule {
	if job == nil || job.PodGroup == nil {
		return unreclaimableRule{all: true}
	}
	queue, exists := p.ssn.Queues[job.Queue]
	if !exists || !queue.Reclaimable() || !workload.GroupAllowsEviction(job.PodGroup.Annotations) {
		return unreclaimableRule{all: true}
	}

	serviceType := workload.ServiceTypeFor(queue.Queue.Annotations, nil, nil, "")
	if serviceType != "" {
		return unreclaimableRule{all: !p.knowsServiceType(serviceType)}
	}

	return unreclaimableRule{byType: true, group: workload.ServiceTypeFor(nil, nil, job.PodGroup.Annotations, "")}
}

// isUnreclaimable reports whether a pod of the job cannot be reclaimed.
func (p *Session) isUnreclaimable(rule *unreclaimableRule, state *podState) bool {
	switch {
	case rule.all || state.isProtected:
		return true
	case !rule.byType:
		return false
	}
	name := cmp.Or(state.serviceType, rule.group, state.ownerType)
	return name == "" || !p.knowsServiceType(name)
}

// isUnreclaimableJob reports whether no pod of a job without pods could be reclaimed. Its pods may name a
// service type when they exist, so a job whose PodGroup names none is not refused for it.
func (p *enqueuing) isUnreclaimableJob(job *api.JobInfo) bool { return p.unreclaimableRuleFor(job).all }

// allQueues is the key of the reservations of all queues of a tree, which root has.
const allQueues api.QueueID = ""

// reserve adds a request to the reservations of a queue and its ancestors, in a tree also to those of
// all queues. A queue that accepts no new pods reserves nothing of its ancestors.
func (p *reservationSums) reserve(queue api.QueueID, request quota.JobRequest) {
	p.inqueue[queue].Add(request)
	if !p.IsTree() || p.queueRules[queue].Refusal != nil {
		return
	}

	p.inqueue[allQueues].Add(request)
	for _, ancestor := range p.cache.tree.Ancestors(string(queue)) {
		p.inqueue[api.QueueID(ancestor)].Add(request)
	}
}

// addElastic adds what a running job uses above its minimum to the reservations of a queue and
// its ancestors, in a tree also to those of all queues.
func (p *reservationSums) addElastic(job *api.JobInfo, usage quota.ElasticUsage) {
	p.elasticUsages[job.UID] = usage
	p.inqueue[job.Queue].AddElastic(usage)
	if p.IsTree() {
		p.inqueue[allQueues].AddElastic(usage)
	}
	for _, ancestor := range p.cache.tree.Ancestors(string(job.Queue)) {
		p.inqueue[api.QueueID(ancestor)].AddElastic(usage)
	}
}
