package capacitycard

import (
	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/internal/scheduler/snapshot"
)

// isKeptNodeFor reports whether the node of an attempt that Volcano does not name may be one
// where a pod would take what is kept from it.
func (p *preemption) isKeptNodeFor(r snapshot.CheckInput) bool {
	isKept := func(name string) bool {
		node := p.Volcano.Nodes[name]
		_, allowed := p.CardFor(r.Request, name)
		if node == nil || !allowed || !r.Task.InitResreq.LessEqual(node.FutureIdle(), api.Zero) {
			return false
		}
		return !r.Task.InitResreq.LessEqual(p.kept.IdleFor(r.Task, node), api.Zero) && len(p.preemptableTasksOn(node, r.Task)) > 0
	}

	for name := range p.kept.Nodes() {
		if isKept(name) {
			return true
		}
	}

	return false
}
