package cardquota

import (
	corev1 "k8s.io/api/core/v1"
	apilabels "k8s.io/apimachinery/pkg/labels"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/policy"
	"cardquota.dev/operator/internal/workload"
)

// schedulersOf are the names of our schedulers, none without a policy: then
// nobody has said which scheduler is ours.
func schedulersOf(policies []*v1alpha1.ServiceTypePolicy) []string {
	for _, p := range policies {
		if p.Name == v1alpha1.PolicyName {
			return policy.Effective(p.Spec).Scheduler.Names
		}
	}
	return nil
}

// admits tells which namespaces each queue takes, as its CardQuota says. A queue
// without one, or with a selector that cannot be read, is taken to admit all:
// what may use it is not deleted under anybody by mistake.
func admits(owners map[string]*v1alpha1.CardQuota, namespaces []*corev1.Namespace) func(queue, namespace string) bool {
	known := make(map[string]*corev1.Namespace, len(namespaces))
	for _, namespace := range namespaces {
		known[namespace.Name] = namespace
	}
	selectors := map[string]apilabels.Selector{}
	return func(queue, namespace string) bool {
		owner := owners[queue]
		if owner == nil || owner.Spec.NamespaceSelector == nil {
			return true
		}
		selector, read := selectors[queue]
		if !read {
			var err error
			if selector, err = workload.SelectNamespaces(owner.Spec.NamespaceSelector); err != nil {
				selector = apilabels.Everything()
			}
			selectors[queue] = selector
		}
		object := known[namespace]
		return object != nil && selector.Matches(apilabels.Set(object.Labels))
	}
}
