package validation

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/conditions"
	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/workload"
)

// checkTreeAnnotations checks the annotations of a Queue that only a tree uses. at is the path of the annotations,
// invalidIf reports the error of one, if it is not nil.
func checkTreeAnnotations(result *Result, queue *v1beta1.Queue, at *field.Path, invalidIf func(key string, err error)) {
	amounts := map[string]card.Quota{}
	for _, key := range []string{v1alpha1.AnnotationCardQuota, v1alpha1.AnnotationCardDeserved, v1alpha1.AnnotationCardGuarantee} {
		text, ok := queue.Annotations[key]
		if !ok {
			continue
		}

		parsed, err := card.ParseQuota(text)
		amounts[key] = parsed
		// The caller reports a wrong card.quota already.
		if key != v1alpha1.AnnotationCardQuota {
			invalidIf(key, err)
		}
	}

	// The quota bounds what a queue deserves, and that bounds its guarantee.
	for _, pair := range [][2]string{{v1alpha1.AnnotationCardDeserved, v1alpha1.AnnotationCardQuota}, {v1alpha1.AnnotationCardGuarantee, v1alpha1.AnnotationCardDeserved}} {
		above := amounts[pair[1]]
		for name, count := range amounts[pair[0]] {
			if most, isWritten := above[name]; isWritten && count > most {
				result.warn(at.Key(pair[0]), "%s is %d, but %s says %d, which counts: lower it, or raise the other", name, count, pair[1], most)
			}
		}
	}

	policies := []v1alpha1.StopPolicy{v1alpha1.StopPolicyNone, v1alpha1.StopPolicyHold, v1alpha1.StopPolicyHoldAndDrain}
	if text, ok := queue.Annotations[v1alpha1.AnnotationStopPolicy]; ok && !slices.Contains(policies, v1alpha1.StopPolicy(text)) {
		invalidIf(v1alpha1.AnnotationStopPolicy, fmt.Errorf("this stop policy is unknown, and holds the queue: write one of %s", conditions.JoinFirst(policies, maxNames)))
	}

	if text, ok := queue.Annotations[v1alpha1.AnnotationParentOnly]; ok && text != "true" {
		result.warn(at.Key(v1alpha1.AnnotationParentOnly), "has no effect unless it is %q", "true")
	}
}

// findFault returns what keeps the queue from taking new work because of its place in the tree. A missing path to root
// comes before the fault of a parent, which takes no work at all.
func (p *queuedPod) findFault() quota.Fault {
	queue := p.tree.Queue(p.name)
	if (queue.Written.IsParentOnly || len(queue.Children) > 0) && !queue.Fault.HasNoPath() {
		return quota.Fault{Kind: quota.IsParent, Queue: p.name}
	}
	return queue.Fault
}

// checkQueuesInTree refuses a workload in a parent queue, which never takes one. It warns if the
// queue takes none for now. It leaves out root, which is the parent of no queue of the tree.
func checkQueuesInTree(result *Result, pods []queuedPod) {
	checked := map[string]bool{}
	for _, p := range pods {
		if !p.hasAccess() || p.name == workload.RootQueue || checked[p.queuePath.String()+p.name] {
			continue
		}

		checked[p.queuePath.String()+p.name] = true
		fault := p.findFault()
		switch refusal := workload.RefusalForFault(p.name, fault); {
		case refusal == nil:
		case fault.Kind == quota.IsParent:
			result.refuse(p.queuePath, "%s", refusal.Message())
		default:
			result.warn(p.queuePath, "%s", refusal.Message())
		}
	}
}

// selectingQueues returns the queue and its ancestors: a namespace may use the queue only if the selector of each
// matches.
func (p *queuedPod) selectingQueues(input *WorkloadInput) []*v1beta1.Queue {
	queues := []*v1beta1.Queue{p.queue}
	for _, above := range p.tree.WrittenAncestors(p.name) {
		queues = append(queues, input.Queue(above))
	}
	return queues
}

// cardLimits returns the quota of the queue, in a tree with what it inherits and at most that of every
// ancestor. It is false for a queue without a readable quota.
func (p *queuedPod) cardLimits() (card.Quota, bool) {
	text, isManaged := p.queue.Annotations[v1alpha1.AnnotationCardQuota]
	own, err := card.ParseQuota(text)
	if !isManaged || err != nil || p.tree.IsFlat() {
		return own, isManaged && err == nil
	}

	limits := card.Quota{}
	for name := range p.tree.Queue(p.name).Limits.Cards {
		limits[name] = card.Count(p.tree.Limit(p.name, quota.Resource(name)))
	}

	return limits, true
}
