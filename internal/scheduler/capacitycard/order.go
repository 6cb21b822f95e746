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

// packingScore is the highest score of a node for packing, at a nodeOrderWeight of 1. Scores of
// Volcano's and Kubernetes' plugins are at most 100 before their weight, so it equals one at a
// weight of 25. One step is 500. That exceeds the 400 that leastrequested, balancedresource,
// imagelocality and binpack together add by default.
const packingScore = 2500

// preferenceFactor scales packingScore for a pod with preferences of its own: a step then equals another
// score at a weight of 1.
const preferenceFactor = 0.2

// nodeOrder scores how well a node packs the pod's cards. Each alternative after the card of
// the node adds a full score, for the action preempt, which does not call bestNode.
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

// bestNode chooses among the nodes that Volcano scored: the nominated node, else the highest
// score among the nodes with the first available alternative.
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
	case best == nil || !task.InitResreq.LessEqual(best.Idle, api.Zero): // the pod would have to wait there
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

// bestScoredNode returns the node with the first alternative and the highest score. Among
// equals it takes the first name, so the choice does not depend on map order.
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

// hasUntoleratedSoftTaint reports whether a node has a PreferNoSchedule taint that the pod does
// not tolerate.
func hasUntoleratedSoftTaint(task *api.TaskInfo, node *api.NodeInfo) bool {
	return node.Node != nil && slices.ContainsFunc(node.Node.Spec.Taints, func(taint corev1.Taint) bool {
		return taint.Effect == corev1.TaintEffectPreferNoSchedule && !v1helper.TolerationsTolerateTaint(task.Pod.Spec.Tolerations, &taint)
	})
}

// hasNodePreferences reports whether a pod, its job or its queue prefers some nodes.
func (p *plugin) hasNodePreferences(task *api.TaskInfo) bool {
	job, ok := p.ssn.Jobs[task.Job]
	return ok && (job.ContainsNetworkTopology() || hasTaskTopology(job) || p.queueHasNodeGroupPreferences(job.Queue)) || podHasNodePreferences(&task.Pod.Spec)
}

// hasTaskTopology reports whether a job has affinity or anti-affinity between its tasks.
func hasTaskTopology(job *api.JobInfo) bool {
	return job.PodGroup != nil &&
		(job.PodGroup.Annotations[tasktopology.JobAffinityAnnotations] != "" || job.PodGroup.Annotations[tasktopology.JobAntiAffinityAnnotations] != "")
}

// queueHasNodeGroupPreferences reports whether a queue prefers or avoids node groups.
func (p *plugin) queueHasNodeGroupPreferences(id api.QueueID) bool {
	queue, ok := p.ssn.Queues[id]
	if !ok || queue.Queue == nil || queue.Queue.Spec.Affinity == nil {
		return false
	}
	near, far := queue.Queue.Spec.Affinity.NodeGroupAffinity, queue.Queue.Spec.Affinity.NodeGroupAntiAffinity
	return near != nil && len(near.PreferredDuringSchedulingIgnoredDuringExecution) > 0 ||
		far != nil && len(far.PreferredDuringSchedulingIgnoredDuringExecution) > 0
}

// podHasNodePreferences reports whether a pod has preferred affinities, or spread constraints
// that are not required.
func podHasNodePreferences(pod *corev1.PodSpec) bool {
	a := ptr.Deref(pod.Affinity, corev1.Affinity{})
	return a.NodeAffinity != nil && len(a.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution) > 0 ||
		a.PodAffinity != nil && len(a.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution) > 0 ||
		a.PodAntiAffinity != nil && len(a.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution) > 0 ||
		slices.ContainsFunc(pod.TopologySpreadConstraints, func(spread corev1.TopologySpreadConstraint) bool {
			return spread.WhenUnsatisfiable == corev1.ScheduleAnyway
		})
}

// allNodes is the --percentage-nodes-to-find with which Volcano checks every node.
const allNodes = 100

// maxGangNodes bounds how many nodes of the pod's own gang are checked besides the sample. They
// are checked one after the other.
const maxGangNodes = 16

// prePredicate starts a node search. Volcano calls it before each search. It sets how many
// nodes Volcano checks: all for a pod with alternatives, since any node may have its first one.
// It also sets whether the pod may reclaim cards on the way, which preemptive decided just
// before.
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

// unsampledGangNodes returns nodes that hold pods of the task's job, fit the task now, and are
// not in Volcano's sample. They are at most maxGangNodes, those with the fewest idle cards
// first. Otherwise sampling could spread a gang.
//
// Volcano does not call bestNode for a single node. Usually it then checked all nodes, because
// it searches until it has minimum-feasible-nodes (100). The exception is a sample in which all
// nodes but one only have room for pipelined pods.
func (p *plugin) unsampledGangNodes(task *api.TaskInfo, lookedAt map[float64][]*api.NodeInfo) []*api.NodeInfo {
	job, ok := p.ssn.Jobs[task.Job]
	sampled := p.percentageOfNodes < allNodes && len(p.ssn.NodeList) > int(options.ServerOpts.MinNodesToFind)
	if !ok || !sampled || job.ContainsNetworkTopology() || p.ssn.NodesInShard.Len() > 0 {
		return nil // Volcano may check a part of the nodes for other reasons
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

// surelyOutscores reports whether an unscored node is certain to score more than a scored one
// with the same card. It avoids the batch scores, which look at every node: they are known for
// the scored node, and at least 0 for the other.
func (p *plugin) surelyOutscores(task *api.TaskInfo, node, than *api.NodeInfo, score float64) bool {
	reduced, alone, err := p.ssn.NodeOrderMapFn(task, node)
	_, aloneThan, errThan := p.ssn.NodeOrderMapFn(task, than)
	together := score - aloneThan
	return err == nil && errThan == nil && len(reduced) == 0 && alone-aloneThan > together
}
