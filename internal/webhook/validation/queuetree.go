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
		// The caller reports a wrong card.quota already.
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

// knownPath returns a queue and its ancestors below root, as far as they are known.
func knownPath(queue *v1beta1.Queue, input *WorkloadInput) (path []*v1beta1.Queue) {
	isOnPath := func(name string) bool {
		return slices.ContainsFunc(path, func(at *v1beta1.Queue) bool { return at.Name == name })
	}

	// Administrators can write any parent into a Queue, so the path may be a cycle.
	for at := queue; at != nil && !isOnPath(at.Name); {
		path = append(path, at)
		parent := at.Spec.Parent
		if parent == "" || parent == workload.RootQueue {
			break
		}
		at = input.Queue(parent)
	}

	return path
}

// resolvePath returns the tree of the queues on a path.
func resolvePath(path []*v1beta1.Queue, input *WorkloadInput) *quota.Tree {
	written := map[string]quota.TreeQueue{}
	for _, at := range path {
		written[at.Name] = workload.QueueRulesFor(at, input.policySpec().UnmanagedQueues, nil).Tree
	}
	return quota.ResolveTree(written)
}

// faultOf returns what keeps a queue from taking new work because of its place in the tree.
func faultOf(queue *v1beta1.Queue, input *WorkloadInput) quota.Fault {
	r := resolvePath(knownPath(queue, input), input).Queue(queue.Name)
	if isParent := r.Written.IsParentOnly || input.HasChildren(queue.Name); isParent && !r.Fault.HasNoPath() {
		return quota.Fault{Kind: quota.IsParent, Queue: queue.Name}
	}
	return r.Fault
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
		fault := faultOf(p.queue, input)
		switch refusal := workload.RefusalForFault(p.name, fault); {
		case refusal == nil:
		case fault.Kind == quota.IsParent:
			result.refuse(p.queuePath, "%s", refusal.Message())
		default:
			result.warn(p.queuePath, "%s", refusal.Message())
		}
	}
}

// selectorsOnPath returns the queue and, in a tree, its ancestors: the namespace selector of each
// binds.
func selectorsOnPath(queue *v1beta1.Queue, input *WorkloadInput) []*v1beta1.Queue {
	if input.HasChildren == nil {
		return []*v1beta1.Queue{queue}
	}
	return knownPath(queue, input)
}

// cardLimits returns the quota of a queue, in a tree with what it inherits and at most that of every
// ancestor. It is false for a queue without a readable quota.
func cardLimits(queue *v1beta1.Queue, input *WorkloadInput) (card.Quota, bool) {
	text, isManaged := queue.Annotations[v1alpha1.AnnotationCardQuota]
	own, err := card.ParseQuota(text)
	if !isManaged || err != nil || input.HasChildren == nil {
		return own, isManaged && err == nil
	}

	tree := resolvePath(knownPath(queue, input), input)
	limits := card.Quota{}
	for name := range tree.Queue(queue.Name).Limits.Cards {
		limits[name] = card.Count(tree.Limit(queue.Name, quota.Resource(name)))
	}

	return limits, true
}
