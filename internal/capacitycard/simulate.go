package capacitycard

import (
	"context"
	"fmt"
	"maps"

	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/internal/quota"
)

// simulationKey is where a simulation keeps what it evicted so far.
const simulationKey fwk.StateKey = PluginName

// simulation is what topology-aware preemption evicts on one node while it
// tries: Volcano clones the cycle state for each node it tries in parallel, so
// one goroutine alone reads and writes it.
type simulation struct {
	node  string
	freed quota.Freed
}

// Clone implements fwk.StateData.
func (s *simulation) Clone() fwk.StateData {
	return &simulation{node: s.node, freed: quota.Freed{
		Cards: maps.Clone(s.freed.Cards), MilliCPU: s.freed.MilliCPU, Memory: s.freed.Memory, Ends: s.freed.Ends,
	}}
}

func simulationOf(state fwk.CycleState, node string) *simulation {
	if data, err := state.Read(simulationKey); err == nil {
		if s, ok := data.(*simulation); ok && s.node == node {
			return s
		}
	}
	s := &simulation{node: node, freed: quota.Freed{Ends: true}}
	state.Write(simulationKey, s)
	return s
}

// simulate notes a pod of the queue of the preemptor that is taken from a node, or put back.
func (p *plugin) simulate(note func(*quota.Freed, *quota.Charge)) func(context.Context, fwk.CycleState, *api.TaskInfo, *api.TaskInfo, *api.NodeInfo) error {
	return func(_ context.Context, state fwk.CycleState, preemptor, task *api.TaskInfo, node *api.NodeInfo) error {
		if job, ok := p.ssn.Jobs[preemptor.Job]; ok {
			if charge := p.chargeIn(job.Queue, task); charge != nil {
				note(&simulationOf(state, node.Name).freed, charge)
			}
		}
		return nil
	}
}

// simulateAllocatable answers for the node of the simulation. Volcano removes
// a task before it asks, so a simulation without one has evicted nothing of
// this queue anywhere and fits as little as before.
func (p *plugin) simulateAllocatable(_ context.Context, state fwk.CycleState, _ *api.QueueInfo, task *api.TaskInfo) bool {
	data, err := state.Read(simulationKey)
	if err != nil {
		return false
	}
	s, ok := data.(*simulation)
	return ok && p.mayBeOn(task, s.node, s.freed) == nil
}

// simulatePredicate refuses a node on which the pod would still exceed its
// quota with everything evicted, or be beside somebody whom it must not be beside:
// Volcano looks at nothing else at the end, and simulates no host ports.
func (p *plugin) simulatePredicate(_ context.Context, state fwk.CycleState, task *api.TaskInfo, node *api.NodeInfo) error {
	if err := p.mayBeBeside(task, node); err != nil {
		return err
	}
	if len(p.hanging[node.Name]) > 0 && !task.InitResreq.LessEqual(p.RoomOn(node), api.Zero) {
		return fmt.Errorf("node %s has too little room for pod %s beside pods that hang", node.Name, klog.KObj(task.Pod))
	}
	return p.mayBeOn(task, node.Name, simulationOf(state, node.Name).freed)
}
