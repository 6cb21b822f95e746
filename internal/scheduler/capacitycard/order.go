package capacitycard

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	v1helper "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/utils/ptr"
	"volcano.sh/volcano/cmd/scheduler/app/options"
	"volcano.sh/volcano/pkg/scheduler/api"
	tasktopology "volcano.sh/volcano/pkg/scheduler/plugins/task-topology"
	"volcano.sh/volcano/pkg/scheduler/util"

	"cardquota.dev/operator/internal/workload"
)

// packingScore is what packing counts at most in the score of a node, at a nodeOrderWeight of
// 1: as much as a score of Volcano's or Kubernetes' plugins at a weight of 25, since these are
// at most 100 before their weight. A step of it is 500. That is more than the 400 of all scores
// together that Volcano gives to nodes in one zone unless told otherwise: leastrequested,
// balancedresource, imagelocality and binpack.
const packingScore = 2500

// preferenceFactor is what of that counts for a pod with preferences of its own: a step weighs
// as much as another score at a weight of 1.
const preferenceFactor = 0.2

// nodeOrder scores a node: how well it packs the pod's cards, and a full score more for each
// alternative that the pod names after the card of the node. The latter is for the action
// preempt, which asks for no best node.
func (p *plugin) nodeOrder(task *api.TaskInfo, node *api.NodeInfo) (float64, error) {
	s := p.searchFor(task)
	if s.request.Count == 0 || s.request.Denied != nil {
		return 0, nil //nolint:nilerr // the predicate has refused the node with this error
	}
	alternatives := s.request.Named.Names()
	if len(alternatives) == 1 { // only nodes with this card are scored
		return s.weight * s.placementOn(node, alternatives[0]).score(), nil
	}
	name, allowed := p.cardFor(s.request, node.Name)
	if !allowed {
		return 0, nil
	}
	score := s.weight * s.placementOn(node, name).score()
	if len(alternatives) > 1 {
		score += packingScore * p.args.nodeOrderWeight * float64(len(alternatives)-1-slices.Index(alternatives, name))
	}
	return score, nil
}

// bestNode picks among the nodes that Volcano has scored: the one that the pod was promised,
// else of those with the first alternative that has a node the one with the highest score.
func (p *plugin) bestNode(task *api.TaskInfo, scored map[float64][]*api.NodeInfo) *api.NodeInfo {
	request := p.RequestFor(task)
	if promised := p.nominatedAmong(task, scored); promised != nil && request.Denied == nil {
		return promised
	}
	if request.Count == 0 || request.Denied != nil {
		return nil // Volcano takes the highest score
	}
	best, score := p.bestScoredNode(request, scored)
	others := p.unsampledGangNodes(task, scored)
	switch {
	case len(others) == 0:
		return best
	case best == nil || !task.InitResreq.LessEqual(best.Idle, api.Zero): // it would have to wait there
	case len(others) == 1 && len(request.Named.Names()) <= 1 && p.surelyOutscores(task, others[0], best, score):
		return others[0]
	default:
		others = append(others, best)
	}
	if own, _ := p.bestScoredNode(request, util.PrioritizeNodes(task, others, p.ssn.BatchNodeOrderFn, p.ssn.NodeOrderMapFn, p.ssn.NodeOrderReduceFn)); own != nil {
		return own
	}
	return best
}

// bestScoredNode picks the node of the first alternative and the highest score. Among equals the
// first name is taken, so that the choice does not depend on the order of a map.
func (p *plugin) bestScoredNode(request *workload.Request, scored map[float64][]*api.NodeInfo) (best *api.NodeInfo, bestScore float64) {
	alternatives, bestAlternative := request.Named.Names(), 0
	for score, nodes := range scored {
		for _, node := range nodes {
			alternative := 0
			if len(alternatives) > 1 { // else all nodes have the one card, or any will do
				name, _ := p.inventory.CardOnNode(node.Name, request.Resource)
				if alternative = slices.Index(alternatives, name); alternative < 0 {
					continue
				}
			}
			if best == nil || alternative < bestAlternative ||
				alternative == bestAlternative && (score > bestScore || score == bestScore && node.Name < best.Name) {
				best, bestAlternative, bestScore = node, alternative, score
			}
		}
	}
	return best, bestScore
}

// hasUntoleratedSoftTaint reports whether a node has a taint PreferNoSchedule that the pod does not
// tolerate.
func hasUntoleratedSoftTaint(task *api.TaskInfo, node *api.NodeInfo) bool {
	return node.Node != nil && slices.ContainsFunc(node.Node.Spec.Taints, func(taint corev1.Taint) bool {
		return taint.Effect == corev1.TaintEffectPreferNoSchedule && !v1helper.TolerationsTolerateTaint(task.Pod.Spec.Tolerations, &taint)
	})
}

// hasNodePreferences reports whether a pod, its job or its queue states which of the nodes that the pod
// may run on are preferred.
func (p *plugin) hasNodePreferences(task *api.TaskInfo) bool {
	job, ok := p.ssn.Jobs[task.Job]
	return ok && (job.ContainsNetworkTopology() || hasTaskTopology(job) || p.queueHasNodeGroupPreferences(job.Queue)) || podHasNodePreferences(&task.Pod.Spec)
}

// hasTaskTopology reports whether a job says which of its tasks are to share nodes, or not to.
func hasTaskTopology(job *api.JobInfo) bool {
	return job.PodGroup != nil &&
		(job.PodGroup.Annotations[tasktopology.JobAffinityAnnotations] != "" || job.PodGroup.Annotations[tasktopology.JobAntiAffinityAnnotations] != "")
}

// queueHasNodeGroupPreferences reports whether a queue prefers or avoids groups of nodes.
func (p *plugin) queueHasNodeGroupPreferences(id api.QueueID) bool {
	queue, ok := p.ssn.Queues[id]
	if !ok || queue.Queue == nil || queue.Queue.Spec.Affinity == nil {
		return false
	}
	near, far := queue.Queue.Spec.Affinity.NodeGroupAffinity, queue.Queue.Spec.Affinity.NodeGroupAntiAffinity
	return near != nil && len(near.PreferredDuringSchedulingIgnoredDuringExecution) > 0 ||
		far != nil && len(far.PreferredDuringSchedulingIgnoredDuringExecution) > 0
}

// podHasNodePreferences reports whether a pod states preferred affinities, or spreading that is not
// required.
func podHasNodePreferences(pod *corev1.PodSpec) bool {
	a := ptr.Deref(pod.Affinity, corev1.Affinity{})
	return a.NodeAffinity != nil && len(a.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution) > 0 ||
		a.PodAffinity != nil && len(a.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution) > 0 ||
		a.PodAntiAffinity != nil && len(a.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution) > 0 ||
		slices.ContainsFunc(pod.TopologySpreadConstraints, func(spread corev1.TopologySpreadConstraint) bool {
			return spread.WhenUnsatisfiable == corev1.ScheduleAnyway
		})
}

// allNodes is the value of --percentage-nodes-to-find with which Volcano looks at
// every node.
const allNodes = 100

// maxGangNodes bounds how many nodes of a pod's own job are looked at besides the sample:
// they are looked at one after the other.
const maxGangNodes = 16

// prePredicate notes that a search for a node begins. It says how many nodes Volcano
// looks at, and for whom cards may be taken from other queues on the way: the pod
// that preemptive was asked about just before.
//
// Volcano calls it before each search, and reads the percentage of nodes anew in each:
// only of a pod that names alternatives every node must be seen, because the card that
// it names first may be on any of them.
func (p *plugin) prePredicate(task *api.TaskInfo) error {
	p.reportLongSession()
	options.ServerOpts.PercentageOfNodesToFind = p.percentageOfNodes
	if len(p.RequestFor(task).Named.Names()) > 1 {
		options.ServerOpts.PercentageOfNodesToFind = allNodes
	}
	p.preemption.completeGangs()
	s := p.newSearch(task)
	s.mayReclaim, p.reclaimerCandidate = p.reclaimerCandidate == task.UID, ""
	p.search.Store(s)
	p.attempt.Store(nil)
	return nil
}

// unsampledGangNodes are the nodes that hold pods of the task's job, that can take the task now,
// and that are not among those that Volcano looked at: at most mostGangNodes, those with
// the fewest cards left first. A sample of the nodes need not contain them, and a gang is
// not to be spread for that.
//
// Volcano asks for no best node when it has found only one. That is no sample then: it goes
// on looking until it has found minimum-feasible-nodes (100), or has looked at all. One case
// remains: of a hundred nodes that it has found, all but one have room only when others end.
func (p *plugin) unsampledGangNodes(task *api.TaskInfo, lookedAt map[float64][]*api.NodeInfo) []*api.NodeInfo {
	job, ok := p.ssn.Jobs[task.Job]
	sampled := p.percentageOfNodes < allNodes && len(p.ssn.NodeList) > int(options.ServerOpts.MinNodesToFind)
	if !ok || !sampled || job.ContainsNetworkTopology() || p.ssn.NodesInShard.Len() > 0 {
		return nil // or Volcano may have reasons to look at a part of the nodes only
	}
	if workload.ConflictOnNode(task.Pod, task.Pod) {
		return nil // no two pods of the job share a node
	}
	seen := map[string]bool{}
	for _, nodes := range lookedAt {
		for _, node := range nodes {
			seen[node.Name] = true
		}
	}
	var roomy, fitting []*api.NodeInfo
	for other := range tasksIn(job, api.AllocatedStatus) {
		if node := p.ssn.Nodes[other.NodeName]; node != nil && !seen[node.Name] {
			seen[node.Name] = true
			if task.InitResreq.LessEqual(node.Idle, api.Zero) {
				roomy = append(roomy, node)
			}
		}
	}
	resource := p.RequestFor(task).Resource
	slices.SortFunc(roomy, func(a, b *api.NodeInfo) int {
		return cmp.Or(cmp.Compare(a.Idle.Get(resource), b.Idle.Get(resource)), cmp.Compare(a.Name, b.Name))
	})
	for _, node := range roomy[:min(len(roomy), maxGangNodes)] {
		if p.ssn.PredicateForAllocateAction(task, node) == nil {
			fitting = append(fitting, node)
		}
	}
	return fitting
}

// surelyOutscores reports whether a node that Volcano has not scored is sure to score more than one
// that it has, of the same card. The scores that plugins give to nodes together need not be
// asked for, which looks at every node of the cluster: of the one node they are known, of the
// other one at least 0.
func (p *plugin) surelyOutscores(task *api.TaskInfo, node, than *api.NodeInfo, score float64) bool {
	reduced, alone, err := p.ssn.NodeOrderMapFn(task, node)
	_, aloneThan, errThan := p.ssn.NodeOrderMapFn(task, than)
	together := score - aloneThan
	return err == nil && errThan == nil && len(reduced) == 0 && alone-aloneThan > together
}
