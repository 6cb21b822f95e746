package forecast

import (
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/workload"
)

// place charges the pods of a job that fit the quotas of its queue, and lists the others as waiting. With fewer
// than its minimum a job does not start, so all of it waits then.
func (f *forecaster) place(job *job) {
	var first *workload.Refusal
	placed := 0
	for _, pod := range job.pods {
		refusal := f.placePod(job, pod)
		switch {
		case refusal == nil:
			placed++
		case first == nil:
			first = refusal
		}
	}
	if first == nil {
		return
	}

	// The minimum may count pods that do not exist yet.
	if placed < min(job.minimum, len(job.pods)) {
		for _, pod := range job.pods {
			f.ledger.Release(pod.key)
			pod.isPlaced = false
		}
	}

	waits := countCards(job.pods, func(p *podRequest) bool { return !p.isPlaced })
	f.listsFor(job.queue).waiting.add(job, waits, first.Message())
}

// placePod charges a pod with the first of its cards that fits. It returns why none does, nil if one does.
func (f *forecaster) placePod(job *job, pod *podRequest) *workload.Refusal {
	if refusal := f.refusal(job, pod); refusal != nil {
		return refusal
	}

	charge := &quota.Charge{Queue: job.queue, MilliCPU: pod.request.MilliCPU, Memory: pod.request.Memory, NotOffered: pod.notOffered}
	for _, name := range pod.request.Names {
		if f.ledger.Fits(job.queue, pod.request.On(name), quota.Within{}) {
			charge.Cards = []card.Amount{{Name: name, Count: pod.request.Count}}
			pod.placed = name
			break
		}
	}

	pod.isPlaced = true
	f.ledger.Charge(pod.key, charge)
	return nil
}

// refusal returns why a queue would not take a pod: what the pod itself says, the place of the queue in the tree, the
// namespace, or a limit. A stopped queue keeps what runs.
func (f *forecaster) refusal(job *job, pod *podRequest) *workload.Refusal {
	if pod.denied != nil {
		return pod.denied
	}

	fault := f.input.Tree.Queue(job.queue).Fault
	if fault.Kind != quota.NoFault && (fault.Kind != quota.IsHeld || pod.used == nil) {
		return workload.RefusalForFault(job.queue, fault)
	}

	if at := f.refusingQueue(job); at != "" {
		return &workload.Refusal{Code: workload.CodeNamespaceNotAllowed, Queue: at, Object: job.workload.Namespace}
	}

	if insufficient := f.ledger.Check(job.queue, pod.request, quota.Within{}); len(insufficient) > 0 {
		return workload.RefusalFor(&insufficient[0])
	}
	return nil
}

// refusingQueue returns the queue, or the one above it, that does not allow the namespace of a job, "" if all do.
func (f *forecaster) refusingQueue(job *job) string {
	for _, at := range append([]string{job.queue}, f.input.Tree.Ancestors(job.queue)...) {
		if !f.input.AllowsNamespace(at, job.workload.Namespace) {
			return at
		}
	}
	return ""
}
