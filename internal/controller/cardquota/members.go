package cardquota

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	apilabels "k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/decision"
	"cardquota.dev/operator/internal/policy"
	"cardquota.dev/operator/internal/usage"
)

// members counts the unfinished pods and PodGroups that may get cards of the
// queue on the API server, not in the cache. Of pods only the metadata is read,
// and of pods of our schedulers only: it names the queue, and there may be very
// many. What holds cards in the queue otherwise is in the last count.
func (p *pass) members(ctx context.Context) (int, error) {
	world := usage.World{Inventory: card.NewInventory(nil)}
	var err error
	if world.Schedulers, err = p.schedulers(ctx); err != nil {
		return 0, err
	}
	var namespaces corev1.NamespaceList
	if err := p.client.List(ctx, &namespaces, client.UnsafeDisableDeepCopy); err != nil {
		return 0, fmt.Errorf("list namespaces: %w", err)
	}
	known := make([]*corev1.Namespace, len(namespaces.Items))
	for i := range namespaces.Items {
		known[i] = &namespaces.Items[i]
	}
	world.Admits = admits(map[string]*v1alpha1.CardQuota{p.quota.Queue(): p.quota}, known)
	var groups v1beta1.PodGroupList
	if err := p.live.List(ctx, &groups); err != nil {
		return 0, fmt.Errorf("list PodGroups: %w", err)
	}
	for i := range groups.Items {
		world.PodGroups = append(world.PodGroups, &groups.Items[i])
	}
	if len(world.Schedulers) == 0 {
		world.Pods, err = p.podsOf(ctx, "", unfinished())
	}
	for _, name := range world.Schedulers {
		var pods []*corev1.Pod
		if pods, err = p.podsOf(ctx, name, fields.AndSelectors(unfinished(), fields.OneTermEqualSelector("spec.schedulerName", name))); err != nil {
			break
		}
		world.Pods = append(world.Pods, pods...)
	}
	if err != nil {
		return 0, err
	}
	return usage.Count(world)[p.quota.Queue()].Members, nil
}

// podsOf lists the metadata of pods of a scheduler on the API server.
func (p *pass) podsOf(ctx context.Context, scheduler string, selector fields.Selector) ([]*corev1.Pod, error) {
	var list metav1.PartialObjectMetadataList
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PodList"))
	if err := p.live.List(ctx, &list, client.MatchingFieldsSelector{Selector: selector}); err != nil {
		return nil, fmt.Errorf("list pods: %w", err)
	}
	pods := make([]*corev1.Pod, len(list.Items))
	for i := range list.Items {
		pods[i] = &corev1.Pod{ObjectMeta: list.Items[i].ObjectMeta, Spec: corev1.PodSpec{SchedulerName: scheduler}}
	}
	return pods, nil
}

// schedulers are those that the policy in force names; none without a policy.
func (p *pass) schedulers(ctx context.Context) ([]string, error) {
	found := &v1alpha1.ServiceTypePolicy{}
	err := p.client.Get(ctx, client.ObjectKey{Name: v1alpha1.PolicyName}, found)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read ServiceTypePolicy: %w", err)
	}
	return schedulersOf([]*v1alpha1.ServiceTypePolicy{found}), nil
}

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
			if selector, err = decision.SelectNamespaces(owner.Spec.NamespaceSelector); err != nil {
				selector = apilabels.Everything()
			}
			selectors[queue] = selector
		}
		object := known[namespace]
		return object != nil && selector.Matches(apilabels.Set(object.Labels))
	}
}
