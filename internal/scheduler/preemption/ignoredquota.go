package preemption

import "volcano.sh/volcano/pkg/scheduler/api"

// beginCheck lets the predicate ignore the quota for a pod until endCheck was called as often.
func (i *quotaIgnorer) beginCheck(pod api.TaskID) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.checks++
	i.pod.Store(&pod)
}

// endCheck ends what one beginCheck began. After the last one the quota counts for the pod again.
func (i *quotaIgnorer) endCheck() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.checks--
	if i.checks == 0 {
		i.pod.Store(nil)
	}
}

// IgnoresQuota reports whether the predicate currently checks a pod without quota.
func (p *Preemption) IgnoresQuota(task *api.TaskInfo) bool {
	ignoring := p.ignoringQuota.pod.Load()
	return ignoring != nil && *ignoring == task.UID
}

// isRefusedIgnoringQuota reports whether a node refuses a pod for another reason than quota,
// such as a taint, which no eviction removes. Volcano learns only one reason, and this plugin's
// comes first.
func (p *Preemption) isRefusedIgnoringQuota(task *api.TaskInfo, node *api.NodeInfo) bool {
	p.ignoringQuota.beginCheck(task.UID)
	defer p.ignoringQuota.endCheck()
	return p.Volcano.PredicateForPreemptAction(task, node) != nil
}
