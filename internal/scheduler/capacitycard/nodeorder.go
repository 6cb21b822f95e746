package capacitycard

import (
	"cmp"
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"
	v1helper "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/utils/ptr"
	"volcano.sh/volcano/cmd/scheduler/app/options"
	"volcano.sh/volcano/pkg/scheduler/api"
	tasktopology "volcano.sh/volcano/pkg/scheduler/plugins/task-topology"
	"volcano.sh/volcano/pkg/scheduler/util"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/scheduler/gang"
	"cardquota.dev/operator/internal/scheduler/solver"
	"cardquota.dev/operator/internal/workload"
)

// packingScore is the highest score of a node for packing, at a NodeOrderWeight of 1. Scores of
// Volcano's and Kubernetes' plugins are at most 100 before their weight, so it equals one at a
// weight of 25. One step is 500. That exceeds the 400 that leastrequested, balancedresource,
// imagelocality and binpack together add by default.
const packingScore = 2500

// preferenceFactor scales packingScore for a pod with preferences of its own: a step then equals another
// score at a weight of 1.
const preferenceFactor = 0.2

// uselessScore puts a node behind all others: it is less than all plugins together can add.
const uselessScore = -1e9

// nodeOrder scores how well a node packs the pod's cards. It also prefers nodes with the first alternatives:
// each alternative that comes after the card of the node adds a full score. bestNode prefers them anyway, but the
// action preempt does not call it.
func (c *nodeChoice) nodeOrder(task *api.TaskInfo, node *api.NodeInfo) (float64, error) {
	s := c.searchFor(task)
	if s.Request.Count == 0 || s.Request.Denied != nil {
		return 0, nil //nolint:nilerr // the predicate has refused the node with this error
	}

	alternatives := s.Request.Named.Names()
	if len(alternatives) == 1 { // the predicate has refused nodes with another card
		return s.weight * s.placementOn(node, alternatives[0]).score(), nil
	}

	name, allowed := c.CardFor(s.Request, node.Name)
	if !allowed {
		return 0, nil
	}
	if c.preemption.IsUseless(s.CheckInput, node, name) { // preempt tries the nodes in this order
		return uselessScore, nil
	}

	score := s.weight * s.placementOn(node, name).score()
	if len(alternatives) > 1 { // a pod that names no card prefers none
		score += packingScore * c.Args.NodeOrderWeight * float64(len(alternatives)-1-slices.Index(alternatives, name))
	}

	return score, nil
}

// searchFor returns the current node search of a task.
func (c *nodeChoice) searchFor(task *api.TaskInfo) *nodeSearch {
	s := c.search.Load()
	if s == nil || s.Task != task {
		s = c.newSearch(task) // scored without prePredicate
	}
	s.once.Do(func() { c.prepareScoring(s) })
	return s
}

// bestNode chooses among the nodes that Volcano scored: the nominated node, else the highest score among the
// nodes with the first available alternative. Volcano may have looked only at a sample of the nodes, so
// bestNode adds nodes with pods of the pod's gang. nil lets Volcano choose.
func (c *nodeChoice) bestNode(task *api.TaskInfo, scored map[float64][]*api.NodeInfo) *api.NodeInfo {
	request := c.RequestFor(task)
	if nominated := c.kept.NominatedAmong(task, scored); nominated != nil && request.Denied == nil {
		return nominated
	}
	if request.Count == 0 || request.Denied != nil {
		return nil // Volcano takes the highest score, whatever the card
	}

	best, score := c.bestScoredNode(request, scored)
	others := c.unsampledGangNodes(task, scored)
	switch {
	case len(others) == 0:
		return best
	case best == nil || !task.InitResreq.LessEqual(best.Idle, api.Zero): // only on best would the pod wait
	case len(others) == 1 && len(request.Named.Names()) <= 1 && c.surelyOutscores(task, others[0], best, score):
		return others[0] // the usual case, without scores of both nodes
	default:
		others = append(others, best)
	}

	// Scores of two calls cannot be compared, so score all of these nodes in one call.
	if own, _ := c.bestScoredNode(request, util.PrioritizeNodes(task, others, c.Volcano.BatchNodeOrderFn, c.Volcano.NodeOrderMapFn, c.Volcano.NodeOrderReduceFn)); own != nil {
		return own
	}

	return best
}

// bestScoredNode returns the node with the first alternative and the highest score. Among
// equals it takes the first name, so the choice does not depend on map order.
func (c *nodeChoice) bestScoredNode(request *workload.Request, scored map[float64][]*api.NodeInfo) (best *api.NodeInfo, bestScore float64) {
	alternatives := request.Named.Names()
	bestAlternative := 0
	for score, nodes := range scored {
		for _, node := range nodes {
			alternative := 0
			if len(alternatives) > 1 { // else all nodes have the one card, or any will do
				name, _ := c.Inventory.CardOnNode(node.Name, request.Resource)
				alternative = slices.Index(alternatives, name)
				if alternative < 0 {
					continue
				}
			}

			if best == nil || alternative < bestAlternative || (alternative == bestAlternative && comesBefore(node, score, best, bestScore)) {
				best = node
				bestAlternative = alternative
				bestScore = score
			}
		}
	}

	return best, bestScore
}

// comesBefore reports whether a node has a higher score than another one, or the first name of
// two with the same score.
func comesBefore(node *api.NodeInfo, score float64, other *api.NodeInfo, otherScore float64) bool {
	return score > otherScore || (score == otherScore && node.Name < other.Name)
}

// hasUntoleratedSoftTaint reports whether a node has a PreferNoSchedule taint that the pod does
// not tolerate.
func hasUntoleratedSoftTaint(task *api.TaskInfo, node *api.NodeInfo) bool {
	return node.Node != nil && slices.ContainsFunc(node.Node.Spec.Taints, func(taint corev1.Taint) bool {
		return taint.Effect == corev1.TaintEffectPreferNoSchedule && !v1helper.TolerationsTolerateTaint(task.Pod.Spec.Tolerations, &taint)
	})
}

// hasNodePreferences reports whether a pod, its job or its queue prefers some nodes.
func (c *nodeChoice) hasNodePreferences(task *api.TaskInfo) bool {
	job, ok := c.Volcano.Jobs[task.Job]
	return (ok && c.jobHasNodePreferences(job)) || podHasNodePreferences(&task.Pod.Spec)
}

// jobHasNodePreferences reports whether a job or its queue prefers some nodes.
func (c *nodeChoice) jobHasNodePreferences(job *api.JobInfo) bool {
	return job.ContainsNetworkTopology() || hasTaskTopology(job) || c.queueHasNodeGroupPreferences(job.Queue)
}

// hasTaskTopology reports whether a job has affinity or anti-affinity between its tasks.
func hasTaskTopology(job *api.JobInfo) bool {
	return job.PodGroup != nil &&
		(job.PodGroup.Annotations[tasktopology.JobAffinityAnnotations] != "" || job.PodGroup.Annotations[tasktopology.JobAntiAffinityAnnotations] != "")
}

// queueHasNodeGroupPreferences reports whether a queue prefers or avoids node groups.
func (c *nodeChoice) queueHasNodeGroupPreferences(id api.QueueID) bool {
	queue, ok := c.Volcano.Queues[id]
	if !ok || queue.Queue == nil || queue.Queue.Spec.Affinity == nil {
		return false
	}
	near := queue.Queue.Spec.Affinity.NodeGroupAffinity
	far := queue.Queue.Spec.Affinity.NodeGroupAntiAffinity
	return (near != nil && len(near.PreferredDuringSchedulingIgnoredDuringExecution) > 0) ||
		(far != nil && len(far.PreferredDuringSchedulingIgnoredDuringExecution) > 0)
}

// podHasNodePreferences reports whether a pod has preferred affinities, or spread constraints
// that are not required.
func podHasNodePreferences(pod *corev1.PodSpec) bool {
	a := ptr.Deref(pod.Affinity, corev1.Affinity{})
	prefersNodes := a.NodeAffinity != nil && len(a.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution) > 0
	prefersPods := a.PodAffinity != nil && len(a.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution) > 0
	avoidsPods := a.PodAntiAffinity != nil && len(a.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution) > 0
	return prefersNodes || prefersPods || avoidsPods || slices.ContainsFunc(pod.TopologySpreadConstraints, func(spread corev1.TopologySpreadConstraint) bool {
		return spread.WhenUnsatisfiable == corev1.ScheduleAnyway
	})
}

// maxGangNodes bounds how many nodes of the pod's own gang are checked besides the sample. They
// are checked one after the other.
const maxGangNodes = 16

// unsampledGangNodes returns nodes that have pods of the task's job, fit the task now, and are
// not in Volcano's sample: without them sampling could spread a gang. They are at most
// maxGangNodes, those with the fewest idle cards first, which the score prefers.
//
// Volcano does not call bestNode for a single node. Usually it then checked all nodes, because
// it searches until it has minimum-feasible-nodes (100). The exception is a sample in which all
// nodes but one only have room for pipelined pods.
func (c *nodeChoice) unsampledGangNodes(task *api.TaskInfo, lookedAt map[float64][]*api.NodeInfo) []*api.NodeInfo {
	job, ok := c.Volcano.Jobs[task.Job]
	sampled := c.percentageOfNodes < allNodes && len(c.Volcano.NodeList) > int(options.ServerOpts.MinNodesToFind)
	if !ok || !sampled || job.ContainsNetworkTopology() || c.Volcano.NodesInShard.Len() > 0 {
		return nil // there is no sample, or Volcano left out nodes for other reasons than sampling
	}
	if workload.ConflictOnNode(task.Pod, task.Pod) {
		return nil // no two pods of the job share a node
	}

	roomy := c.unseenGangNodes(task, job, lookedAt)
	resource := c.RequestFor(task).Resource
	slices.SortFunc(roomy, func(a, b *api.NodeInfo) int {
		return cmp.Or(cmp.Compare(a.Idle.Get(resource), b.Idle.Get(resource)), cmp.Compare(a.Name, b.Name))
	})

	var fitting []*api.NodeInfo
	for _, node := range roomy[:min(len(roomy), maxGangNodes)] {
		if c.Volcano.PredicateForAllocateAction(task, node) == nil {
			fitting = append(fitting, node)
		}
	}

	return fitting
}

// unseenGangNodes returns nodes that have pods of a job and have enough idle for a task, but are not in
// lookedAt, Volcano's nodes by score.
func (c *nodeChoice) unseenGangNodes(task *api.TaskInfo, job *api.JobInfo, lookedAt map[float64][]*api.NodeInfo) []*api.NodeInfo {
	seen := map[string]bool{}
	for _, nodes := range lookedAt {
		for _, node := range nodes {
			seen[node.Name] = true
		}
	}

	var unseen []*api.NodeInfo
	for other := range gang.TasksIn(job, api.AllocatedStatus) {
		if node := c.Volcano.Nodes[other.NodeName]; node != nil && !seen[node.Name] {
			seen[node.Name] = true
			if task.InitResreq.LessEqual(node.Idle, api.Zero) {
				unseen = append(unseen, node)
			}
		}
	}

	return unseen
}

// surelyOutscores reports whether a node that Volcano did not score is certain to score more than one with the
// same card that has this score. A score is that of the node alone and the batch scores, which compare all nodes.
// It computes no batch score, because that costs much: that of the scored node is the rest of its score, that of
// the other one at least 0. If a plugin reduces scores, none is certain.
func (c *nodeChoice) surelyOutscores(task *api.TaskInfo, node, scored *api.NodeInfo, score float64) bool {
	reduced, alone, err := c.Volcano.NodeOrderMapFn(task, node)
	_, scoredAlone, errScored := c.Volcano.NodeOrderMapFn(task, scored)
	batchScore := score - scoredAlone
	return err == nil && errScored == nil && len(reduced) == 0 && alone-scoredAlone > batchScore
}

// prepareScoring fills in what the score of a node reads: the pod's requests, the weight, and of a gang its
// nodes and what its other pods request.
func (c *nodeChoice) prepareScoring(s *nodeSearch) {
	s.requests = map[corev1.ResourceName]float64{}
	for _, resource := range s.Task.InitResreq.ResourceNames() {
		s.requests[resource] = s.Task.InitResreq.Get(resource)
	}

	s.weight = packingScore * c.Args.NodeOrderWeight
	if c.hasNodePreferences(s.Task) {
		s.weight *= preferenceFactor // else packing would outweigh what the pod prefers
	}

	// The score prefers nodes of the gang and nodes for all of it. It does not for a pod without a gang, or
	// one that conflicts with another of its kind: these never share a node.
	job, ok := c.Volcano.Jobs[s.Task.Job]
	if !ok || job.MinAvailable <= 1 || s.Request.Count == 0 || workload.ConflictOnNode(s.Task.Pod, s.Task.Pod) {
		return
	}

	s.gangNodes = c.gangNodeNames(job, s.Request.Resource)
	missing := int(job.MinAvailable - job.ReadyTaskNum() - job.WaitingTaskNum())
	if missing > 1 { // the pod itself is one of them, so others are missing too
		s.gangRests = c.gangRestsByCard(job, s.Request, missing)
	}
}

// gangNodeNames returns the nodes on which a job uses cards of a resource.
func (c *nodeChoice) gangNodeNames(job *api.JobInfo, resource corev1.ResourceName) map[string]bool {
	hosts := map[string]bool{}
	for task := range gang.TasksIn(job, func(status api.TaskStatus) bool { return api.AllocatedStatus(status) || status == api.Pipelined }) {
		if task.Resreq.Get(resource) > 0 {
			hosts[task.NodeName] = true
		}
	}
	return hosts
}

// gangRestsByCard returns, for each card of a pod's request, what the pending pods of its job request that may use
// that card. The node order prefers nodes on which they fit, too. missing is how many pods the job lacks for its
// minimum. If more pods than that are pending, it returns what so many pods of average size request.
func (c *nodeChoice) gangRestsByCard(job *api.JobInfo, request *workload.Request, missing int) map[card.Name]*gangRest {
	alike := map[string]*gangRest{} // pods that name the same cards
	for _, task := range job.TaskStatusIndex[api.Pending] {
		other := c.RequestFor(task)
		if task.SchGated || other.Resource != request.Resource || other.Count == 0 || other.Denied != nil {
			continue
		}

		named := alike[other.Named.String()]
		if named == nil {
			named = &gangRest{cards: other.Named, requests: map[corev1.ResourceName]float64{}}
			alike[other.Named.String()] = named
		}

		named.pods++
		for _, resource := range task.Resreq.ResourceNames() {
			named.requests[resource] += task.Resreq.Get(resource)
		}
	}

	rests := map[card.Name]*gangRest{}
	for _, name := range request.Names {
		rests[name] = &gangRest{requests: map[corev1.ResourceName]float64{}}
		for _, named := range alike {
			if named.cards.Allows(name) {
				rests[name].add(named)
			}
		}
		rests[name].limitPods(missing)
	}

	return rests
}

// add adds what other pods request.
func (r *gangRest) add(other *gangRest) {
	r.pods += other.pods
	for resource, request := range other.requests {
		r.requests[resource] += request
	}
}

// limitPods reduces the rest of a gang to so many pods, if it has more. Which ones the gang takes is open, so their
// requests are so many times the average.
func (r *gangRest) limitPods(pods int) {
	if pods >= r.pods {
		return
	}
	for resource := range r.requests {
		r.requests[resource] *= float64(pods) / float64(r.pods)
	}
	r.pods = pods
}

// fitsIdle reports whether all pods of the rest of a gang fit the idle resources, but for rounding of floats.
func (r *gangRest) fitsIdle(idle *api.Resource) bool {
	for resource, request := range r.requests {
		if request > idle.Get(resource)+solver.Tolerance {
			return false
		}
	}
	return true
}

// podsThatFit returns how many pods like that of the search fit the idle resources. A pod without requests fits
// any number of times.
func (s *nodeSearch) podsThatFit(idle *api.Resource) int {
	pods := math.MaxInt32
	for resource, request := range s.requests {
		pods = min(pods, int((idle.Get(resource)+solver.Tolerance)/request))
	}
	return max(0, pods)
}

// placementOn returns the input of the score for the pod on a node, if it uses this card there.
func (s *nodeSearch) placementOn(node *api.NodeInfo, name card.Name) placement {
	idle := node.Idle
	if !s.Task.InitResreq.LessEqual(idle, api.Zero) {
		idle = node.FutureIdle() // the pod could wait there for others to end
	}

	count := s.Task.Resreq.Get(s.Request.Resource)
	on := placement{
		cards: count, restCards: count, total: node.Allocatable.Get(s.Request.Resource), idle: idle.Get(s.Request.Resource),
		avoided: hasUntoleratedSoftTaint(s.Task, node), hasGang: s.gangNodes[node.Name], pods: s.podsThatFit(idle),
	}
	on.fitsRest = on.pods > 0
	if rest := s.gangRests[name]; rest != nil && rest.pods > 1 { // the gang needs more pods than this one
		on.fitsRest = on.fitsRest && rest.fitsIdle(idle)
		on.restCards = rest.requests[s.Request.Resource]
	}

	return on
}

// placement is the input of the score: a pod on a node. Cards are those of the pod's resource.
type placement struct {
	// cards is how many the pod requests, above 0. restCards is the sum of the pending pods of
	// its gang, this pod included; for a pod without a gang it equals cards.
	cards, restCards float64
	// total is how many cards the node has, idle how many of them are free.
	total, idle float64
	// avoided is set if the node has an untolerated PreferNoSchedule taint.
	avoided bool
	// hasGang is set if pods of the gang are on the node, fitsRest if all pending ones fit
	// there.
	hasGang, fitsRest bool
	// pods is how many pods like this one fit.
	pods int
}

// The score has three steps: a node with pods of the gang, a node that fits all pending pods of
// the gang, and any other node. Between two steps is a gap as large as a step. So scores of
// other plugins that differ by less than the gap never split a gang.
const (
	scoreStep     = 0.2
	hasGangScore  = 0.8
	fitsRestScore = 0.4
)

// score returns a value from 0 to 1. Within the two upper steps it is the fraction of the
// node's cards in use after the placement, which keeps whole nodes free. If only a part of the
// gang fits, a larger part scores higher, so the gang uses fewer nodes. A node to be avoided
// scores 0.
func (p placement) score() float64 {
	switch {
	case p.avoided:
		return 0
	case p.hasGang:
		return hasGangScore + scoreStep*p.usedWith(p.cards)
	case p.fitsRest:
		return fitsRestScore + scoreStep*p.usedWith(p.restCards)
	case p.pods > 0:
		return scoreStep * float64(p.pods) / float64(p.pods+1)
	default: // the pod waits for cards of other pods
		return scoreStep * p.usedWith(p.cards)
	}
}

// usedWith returns the fraction of the node's cards in use with so many more, from 0 to 1.
func (p placement) usedWith(cards float64) float64 {
	if p.total <= 0 {
		return 0
	}
	return max(0, min(1, (p.total-p.idle+cards)/p.total))
}
