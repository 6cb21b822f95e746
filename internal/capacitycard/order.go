package capacitycard

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	v1helper "k8s.io/component-helpers/scheduling/corev1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/decision"
)

// maxNodeScore is the highest score that Kubernetes' and Volcano's plugins give
// a node before their weight.
const maxNodeScore = 100

// place is how good a node is for a pod, the better the smaller: the order in
// which the pod names its cards, then nodes that are not to be avoided, then
// nodes on which such cards are in use, then the one with the fewest of them
// left, so that whole nodes stay free for those who need whole nodes.
type place struct {
	alternative int
	avoided     int
	unused      bool
	free        float64
}

func (a place) compare(b place) int {
	return cmp.Or(cmp.Compare(a.alternative, b.alternative), cmp.Compare(a.avoided, b.avoided), compareBool(a.unused, b.unused), cmp.Compare(a.free, b.free))
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	default:
		return 1
	}
}

// placeOn judges a node on which the pod may run.
func placeOn(ask *decision.Ask, name card.Name, task *api.TaskInfo, node *api.NodeInfo) place {
	return place{
		alternative: max(0, slices.Index(ask.Request.Names(), name)),
		avoided:     avoided(task, node),
		unused:      node.Used.Get(ask.Resource) <= 0,
		free:        node.Idle.Get(ask.Resource),
	}
}

// avoided counts the taints PreferNoSchedule of a node that the pod does not
// tolerate: somebody wants it to be left empty.
func avoided(task *api.TaskInfo, node *api.NodeInfo) int {
	if node.Node == nil {
		return 0
	}
	count := 0
	for i := range node.Node.Spec.Taints {
		taint := &node.Node.Spec.Taints[i]
		if taint.Effect == corev1.TaintEffectPreferNoSchedule && !v1helper.TolerationsTolerateTaint(task.Pod.Spec.Tolerations, taint) {
			count++
		}
	}
	return count
}

// nodeOrder scores a node by its place: the better half of the range belongs to
// the first alternative alone, and so on. It is what Volcano's preempt goes by,
// and what pods with wishes of their own are placed by.
func (p *plugin) nodeOrder(task *api.TaskInfo, node *api.NodeInfo) (float64, error) {
	ask := p.askOf(task)
	name, allowed := p.cardFor(ask, node.Name)
	if !allowed || ask.Count == 0 {
		return 0, nil
	}
	alternatives := float64(max(1, len(ask.Request.Names())))
	at := placeOn(ask, name, task, node)
	fill := 0.0
	if total := node.Allocatable.Get(ask.Resource); total > 0 {
		fill = min(max(1-at.free/total, 0), 0.99)
	}
	return p.args.nodeOrderWeight * maxNodeScore * (alternatives - float64(at.alternative) - 1 + fill) / alternatives, nil
}

// bestNode picks among the nodes that Volcano has scored. The order of the
// cards decides, always. Among equals the fullest node is taken, unless the pod
// itself has wishes (preferred affinity, spreading, a network topology): then
// the score of all plugins decides, in which the fill of the node counts too.
func (p *plugin) bestNode(task *api.TaskInfo, scored map[float64][]*api.NodeInfo) *api.NodeInfo {
	ask := p.askOf(task)
	if ask.Count == 0 || ask.Refusal != nil {
		return nil // Volcano takes the highest score
	}
	best := p.bestAmong(task, ask, scored)
	if others := p.gangNodes(task, scored); len(others) > 0 {
		if best != nil {
			others = append(others, best)
		}
		scored := map[float64][]*api.NodeInfo{0: others}
		if p.hasWishes(task) { // the score decides, and takes long
			scored = p.scoreOf(task, others)
		}
		best = p.bestAmong(task, ask, scored)
	}
	return best
}

func (p *plugin) bestAmong(task *api.TaskInfo, ask *decision.Ask, scored map[float64][]*api.NodeInfo) *api.NodeInfo {
	wishes := p.hasWishes(task)
	var best *api.NodeInfo
	var bestPlace place
	var bestScore float64
	for score, nodes := range scored {
		for _, node := range nodes {
			name, allowed := p.cardFor(ask, node.Name)
			if !allowed {
				continue
			}
			at := placeOn(ask, name, task, node)
			if best == nil || better(at, bestPlace, score, bestScore, wishes, node.Name < best.Name) {
				best, bestPlace, bestScore = node, at, score
			}
		}
	}
	return best
}

// better compares two nodes; first breaks the last tie, so that the choice does
// not depend on the order of a map.
func better(at, than place, score, thanScore float64, byScore, first bool) bool {
	order := cmp.Or(at.compare(than), -cmp.Compare(score, thanScore))
	if byScore {
		order = cmp.Or(cmp.Compare(at.alternative, than.alternative), -cmp.Compare(score, thanScore), at.compare(than))
	}
	return order < 0 || order == 0 && first
}

// hasWishes tells whether a pod states which of the nodes it may run on it
// would rather have.
func (p *plugin) hasWishes(task *api.TaskInfo) bool {
	if job, ok := p.ssn.Jobs[task.Job]; ok && job.ContainsNetworkTopology() {
		return true
	}
	for _, spread := range task.Pod.Spec.TopologySpreadConstraints {
		if spread.WhenUnsatisfiable == corev1.ScheduleAnyway {
			return true
		}
	}
	affinity := task.Pod.Spec.Affinity
	if affinity == nil {
		return false
	}
	return affinity.NodeAffinity != nil && len(affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution) > 0 ||
		affinity.PodAffinity != nil && len(affinity.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution) > 0 ||
		affinity.PodAntiAffinity != nil && len(affinity.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution) > 0
}
