package validation

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/cardquota"
	"cardquota.dev/operator/internal/conditions"
	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/workload"
)

// checkTreeAnnotations checks the annotations of a Queue that only a tree uses.
func checkTreeAnnotations(result *Result, queue *v1beta1.Queue, at *field.Path, wrong func(key string, err error)) {
	amounts := map[string]card.Quota{}
	for _, key := range []string{v1alpha1.AnnotationCardQuota, v1alpha1.AnnotationCardDeserved, v1alpha1.AnnotationCardGuarantee} {
		text, ok := queue.Annotations[key]
		if !ok {
			continue
		}

		parsed, err := card.ParseQuota(text)
		amounts[key] = parsed
		if key != v1alpha1.AnnotationCardQuota {
			wrong(key, err)
		}
	}

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
		wrong(v1alpha1.AnnotationStopPolicy, fmt.Errorf("this stop policy is unknown, and holds the queue: write one of %s", conditions.JoinFirst(policies, maxNames)))
	}

	if text, ok := queue.Annotations[v1alpha1.AnnotationParentOnly]; ok && text != "true" {
		result.warn(at.Key(v1alpha1.AnnotationParentOnly), "has no effect unless it is %q", "true")
	}
}

// queuePath returns a queue and its ancestors below root, as far as they are known, and what keeps
// the queue from taking new work because of its place in the tree.
func queuePath(queue *v1beta1.Queue, input *WorkloadInput) (path []*v1beta1.Queue, fault quota.Fault) {
	seen := map[string]bool{}
	for at := queue; ; {
		path = append(path, at)
		seen[at.Name] = true
		if policy := v1alpha1.StopPolicy(at.Annotations[v1alpha1.AnnotationStopPolicy]); cardquota.IsHeld(policy) && fault.Kind == quota.NoFault {
			fault = quota.Fault{Kind: quota.IsHeld, Queue: at.Name, HoldMessage: workload.HoldMessage(at)}
		}

		parent := at.Spec.Parent
		if parent == "" || parent == workload.RootQueue {
			break
		}

		next := input.Queue(parent)
		switch {
		case seen[parent]:
			return path, quota.Fault{Kind: quota.ParentCycle, Queue: at.Name, Parent: parent}
		case next == nil:
			return path, quota.Fault{Kind: quota.ParentNotFound, Queue: at.Name, Parent: parent}
		}

		at = next
	}

	switch {
	case len(path) > quota.MaxDepth:
		fault = quota.Fault{Kind: quota.TooDeep, Queue: queue.Name, Parent: queue.Spec.Parent}
	case queue.Annotations[v1alpha1.AnnotationParentOnly] == "true" || input.HasChildren(queue.Name):
		fault = quota.Fault{Kind: quota.IsParent, Queue: queue.Name}
	}

	return path, fault
}

// checkQueuesInTree refuses a workload in a parent queue, which never takes one. It warns if the
// queue takes none for now.
func checkQueuesInTree(result *Result, pods []queuedPod, input *WorkloadInput) {
	if input.HasChildren == nil {
		return
	}

	checked := map[string]bool{}
	for _, p := range pods {
		if !p.hasAccess() || p.name == workload.RootQueue || checked[p.queuePath.String()+p.name] {
			continue
		}

		checked[p.queuePath.String()+p.name] = true
		_, fault := queuePath(p.queue, input)
		switch refusal := workload.RefusalForFault(p.name, fault); {
		case refusal == nil:
		case fault.Kind == quota.IsParent:
			result.refuse(p.queuePath, "%s", refusal.Message)
		default:
			result.warn(p.queuePath, "%s", refusal.Message)
		}
	}
}

// selectorsOnPath returns the queue and, in a tree, its ancestors: the namespace selector of each
// binds.
func selectorsOnPath(queue *v1beta1.Queue, input *WorkloadInput) []*v1beta1.Queue {
	if input.HasChildren == nil {
		return []*v1beta1.Queue{queue}
	}
	path, _ := queuePath(queue, input)
	return path
}

// cardLimits returns the quota of a queue, in a tree with what it inherits and at most that of every
// ancestor. It is false for a queue without a readable quota.
func cardLimits(queue *v1beta1.Queue, input *WorkloadInput) (card.Quota, bool) {
	text, isManaged := queue.Annotations[v1alpha1.AnnotationCardQuota]
	own, err := card.ParseQuota(text)
	if !isManaged || err != nil || input.HasChildren == nil {
		return own, isManaged && err == nil
	}

	path, _ := queuePath(queue, input)
	written := map[string]quota.TreeQueue{}
	for _, at := range path {
		written[at.Name] = workload.QueueRulesFor(at, input.policySpec().UnmanagedQueues, nil).Tree
	}

	resolved := quota.ResolveTree(written)
	limits := card.Quota{}
	for name, count := range resolved[queue.Name].Limits.Cards {
		for _, at := range path {
			if l := resolved[at.Name].Limits; !l.AnyCard {
				count = min(count, l.Cards[name])
			}
		}
		limits[name] = count
	}

	return limits, true
}
