package capacitycard

import (
	"cmp"
	"slices"

	"volcano.sh/volcano/cmd/scheduler/app/options"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/util"

	"cardquota.dev/operator/internal/workload"
)

// allNodes is the value of --percentage-nodes-to-find with which Volcano looks at
// every node.
const allNodes = 100

// mostGangNodes bounds how many nodes of a pod's own job are looked at besides the sample:
// they are looked at one after the other.
const mostGangNodes = 16

// beginSearch notes that a search for a node begins. It says how many nodes Volcano
// looks at, and for whom cards may be taken from other queues on the way: the pod
// that preemptive was asked about just before.
//
// Volcano calls it before each search, and reads the percentage of nodes anew in each:
// only of a pod that names alternatives every node must be seen, because the card that
// it names first may be on any of them.
func (p *plugin) beginSearch(task *api.TaskInfo) error {
	p.beatInSession()
	options.ServerOpts.PercentageOfNodesToFind = p.percentage
	if len(p.askOf(task).Request.Names()) > 1 {
		options.ServerOpts.PercentageOfNodesToFind = allNodes
	}
	p.preemption.completeGangs()
	p.search.Store(&search{task: task})
	p.attempt.Store(nil)
	p.awaited.Store(nil)
	p.reclaimer.Store(nil)
	if p.reclaims == task.UID {
		p.reclaimer.Store(&task.UID)
	}
	p.reclaims = ""
	return nil
}

// gangNodes are the nodes that hold pods of the task's job, that can take the task now,
// and that are not among those that Volcano looked at: at most mostGangNodes, those with
// the fewest cards left first. A sample of the nodes need not contain them, and a gang is
// not to be spread for that.
//
// Volcano asks for no best node when it has found only one. That is no sample then: it goes
// on looking until it has found minimum-feasible-nodes (100), or has looked at all. One case
// remains: of a hundred nodes that it has found, all but one have room only when others end.
func (p *plugin) gangNodes(task *api.TaskInfo, lookedAt map[float64][]*api.NodeInfo) []*api.NodeInfo {
	job, ok := p.ssn.Jobs[task.Job]
	sampled := p.percentage < allNodes && len(p.ssn.NodeList) > int(options.ServerOpts.MinNodesToFind)
	if !ok || !sampled || job.ContainsNetworkTopology() || p.ssn.NodesInShard.Len() > 0 {
		return nil // or Volcano may have reasons to look at a part of the nodes only
	}
	if workload.KeepApart(task.Pod, task.Pod) {
		return nil // no two pods of the job share a node
	}
	seen := namesOf(lookedAt)
	var roomy, fitting []*api.NodeInfo
	for status, tasks := range job.TaskStatusIndex {
		if !api.AllocatedStatus(status) {
			continue
		}
		for _, other := range tasks {
			if node := p.ssn.Nodes[other.NodeName]; node != nil && !seen[node.Name] {
				seen[node.Name] = true
				if task.InitResreq.LessEqual(node.Idle, api.Zero) {
					roomy = append(roomy, node)
				}
			}
		}
	}
	resource := p.askOf(task).Resource
	slices.SortFunc(roomy, func(a, b *api.NodeInfo) int {
		return cmp.Or(cmp.Compare(a.Idle.Get(resource), b.Idle.Get(resource)), cmp.Compare(a.Name, b.Name))
	})
	for _, node := range roomy[:min(len(roomy), mostGangNodes)] {
		if p.ssn.PredicateForAllocateAction(task, node) == nil {
			fitting = append(fitting, node)
		}
	}
	return fitting
}

// namesOf are the names of nodes that were scored.
func namesOf(scored map[float64][]*api.NodeInfo) map[string]bool {
	names := map[string]bool{}
	for _, nodes := range scored {
		for _, node := range nodes {
			names[node.Name] = true
		}
	}
	return names
}

// scoreOf scores nodes for a task by all plugins, as Volcano does.
func (p *plugin) scoreOf(task *api.TaskInfo, nodes []*api.NodeInfo) map[float64][]*api.NodeInfo {
	return util.PrioritizeNodes(task, nodes, p.ssn.BatchNodeOrderFn, p.ssn.NodeOrderMapFn, p.ssn.NodeOrderReduceFn)
}

// outscores reports whether a node that Volcano has not scored is sure to score more than one
// that it has, of the same card. The scores that plugins give to nodes together need not be
// asked for, which looks at every node of the cluster: of the one node they are known, of the
// other one at least 0.
func (p *plugin) outscores(task *api.TaskInfo, node, than *api.NodeInfo, score float64) bool {
	reduced, alone, err := p.ssn.NodeOrderMapFn(task, node)
	_, aloneThan, errThan := p.ssn.NodeOrderMapFn(task, than)
	together := score - aloneThan
	return err == nil && errThan == nil && len(reduced) == 0 && alone-aloneThan > together
}
