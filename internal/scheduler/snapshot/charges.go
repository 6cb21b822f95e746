package snapshot

import (
	corev1 "k8s.io/api/core/v1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/scheduler/cache"
	"cardquota.dev/operator/internal/workload"
)

// ChargedQueueFor returns the queue to charge for a placed pod, "" for none. A pod on the same node stays
// charged to the same queue. Else the annotation of its binding decides, and without one the
// queue of its PodGroup. So placed pods keep their charge when a user moves or recreates their
// PodGroup: the user would otherwise regain quota and keep the cards.
//
// No admission check covers pods of other schedulers. Such a pod is charged to its queue only if the queue
// allows the namespace (see workload.Resolver). queueExists is whether the session has the PodGroup's queue,
// computed once per job because a session charges tens of thousands of pods.
func (s *Session) ChargedQueueFor(state *cache.PodState, job *api.JobInfo, queueExists bool, node string) string {
	isChargedHere := state.Charge != nil && state.ChargedNode == node
	if isChargedHere && ((queueExists && state.Charge.Queue == string(job.Queue)) || s.HasQueue(state.Charge.Queue)) {
		return state.Charge.Queue
	}

	queue := string(job.Queue)
	if state.AnnotatedQueue != "" && s.HasQueue(state.AnnotatedQueue) {
		queue = state.AnnotatedQueue
	}
	if !state.IsOurs && !s.AllowsNamespace(queue, job.Namespace) {
		return ""
	}
	return queue
}

// VictimQueue returns the queue from which the eviction of a pod takes cards: the one that is charged for
// it, else that of its job, "" if it has none.
func (s *Session) VictimQueue(task *api.TaskInfo) api.QueueID {
	if charge := s.Ledger.Charged(string(task.UID)); charge != nil && s.HasQueue(charge.Queue) {
		return api.QueueID(charge.Queue)
	}
	if job := s.Volcano.Jobs[task.Job]; job != nil {
		return job.Queue
	}
	return ""
}

// AllowsNamespace reports whether a queue allows pods of a namespace.
func (s *Session) AllowsNamespace(queue, namespace string) bool {
	return s.checkNamespace(api.QueueID(queue), s.QueueRules[api.QueueID(queue)], namespace) == nil
}

// checkNamespace returns why a queue, or an ancestor of it, does not allow a namespace, nil if
// all do. The answers are kept for the session, so that a label change cannot split its
// decisions. Goroutines may call it in parallel.
func (s *Session) checkNamespace(queue api.QueueID, rules *workload.QueueRules, namespace string) *workload.Refusal {
	if refusal := s.checkOwnNamespace(queue, rules, namespace); refusal != nil {
		return refusal
	}
	for _, ancestor := range s.Cache.Tree.Selectors[queue] {
		if refusal := s.checkOwnNamespace(ancestor, s.QueueRules[ancestor], namespace); refusal != nil {
			return workload.RefusalOfAncestor(string(queue), refusal)
		}
	}
	return nil
}

// checkOwnNamespace returns why the selector of a queue does not allow a namespace, nil if it does or the queue
// has none.
func (s *Session) checkOwnNamespace(queue api.QueueID, rules *workload.QueueRules, namespace string) *workload.Refusal {
	if rules == nil || rules.Namespaces == nil {
		return nil
	}

	s.namespaceLock.Lock()
	defer s.namespaceLock.Unlock()

	refusal, known := s.NamespaceRefusals[QueueNamespace{queue, namespace}]
	if !known {
		var object *corev1.Namespace // nil if it is not known yet: then it is refused
		if s.NamespaceLister != nil {
			object, _ = s.NamespaceLister.Get(namespace)
		}
		refusal = workload.CheckNamespace(string(queue), rules.Namespaces, namespace, object)
		s.NamespaceRefusals[QueueNamespace{queue, namespace}] = refusal
	}

	return refusal
}

// ChargeInQueue returns the charge of a task, nil if it has none or another queue is charged.
func (s *Session) ChargeInQueue(queue api.QueueID, task *api.TaskInfo) *quota.Charge {
	if charge := s.Ledger.Charged(string(task.UID)); charge != nil && charge.Queue == string(queue) {
		return charge
	}
	return nil
}

// HasQueue reports whether the session has a queue.
func (s *Session) HasQueue(queue string) bool {
	_, ok := s.Volcano.Queues[api.QueueID(queue)]
	return ok
}

// RequestFor returns what a task requests. The caller must not change it.
func (s *Session) RequestFor(task *api.TaskInfo) *workload.Request {
	if state, isKnown := s.Cache.StateOf(task.Pod); isKnown {
		return &state.Request
	}

	// The session did not read this object of the pod when it opened.
	state := s.Cache.NewPodState(task.Pod)
	if s.IsTree() {
		rule := s.UnreclaimableRuleFor(s.Volcano.Jobs[task.Job])
		state.Request.IsUnreclaimable = s.IsUnreclaimable(&rule, state)
	}
	return &state.Request
}

// CardOn returns the card that a pod would use on a node, false if it may not run there.
func (s *Session) CardOn(task *api.TaskInfo, node string) (card.Name, bool) {
	return s.CardFor(s.RequestFor(task), node)
}

// ReleasedBy returns what a queue gets back when pods go: their charges, as far as it is charged for them.
func (s *Session) ReleasedBy(queue api.QueueID, tasks ...*api.TaskInfo) (released quota.Released) {
	for _, task := range tasks {
		if charge := s.ChargeInQueue(queue, task); charge != nil {
			released.Add(charge)
		}
	}
	return released
}

// CardCount returns how many cards a pod uses, whatever their names.
func (s *Session) CardCount(task *api.TaskInfo) (total card.Count) {
	if charge := s.Ledger.Charged(string(task.UID)); charge != nil {
		for _, amount := range charge.Cards {
			total = total.Add(amount.Count)
		}
	}
	return total
}
