package cardquota

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	apilabels "k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/pager"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/policy"
	"cardquota.dev/operator/internal/queueusage"
	"cardquota.dev/operator/internal/strip"
	"cardquota.dev/operator/internal/workload"
)

const (
	// memberPageSize is how many PodGroups or pods one request lists. Each may have 1.5 MiB, which a
	// tenant can reach by annotations and by many managed fields.
	memberPageSize = 50
	// memberCountTTL bounds the age of a count from the API server when a Queue is deleted.
	memberCountTTL = 5 * time.Second
)

// memberCounts counts the members of queues that are to be deleted: the pods and PodGroups in them. One count at a time
// runs, for all queues requested before it began, so deleting a thousand CardQuotas lists
// about as often as deleting two.
type memberCounts struct {
	mu sync.Mutex
	// requested are the CardQuotas, by queue, whose queues the next count includes.
	requested map[string]*v1alpha1.CardQuota
	counting  bool
	// counted are the unread answers, by queue.
	counted map[string]memberAnswer
}

// memberAnswer is how many members a queue had when a count ended.
type memberAnswer struct {
	members queueusage.Members
	at      time.Time
}

func newMemberCounts() *memberCounts {
	return &memberCounts{requested: map[string]*v1alpha1.CardQuota{}, counted: map[string]memberAnswer{}}
}

// countFunc counts the members of the queues of CardQuotas, by queue.
type countFunc func(owners map[string]*v1alpha1.CardQuota) (map[string]queueusage.Members, error)

// membersOf returns how many members the queue of a CardQuota has. known is false while another count runs: a
// later call returns the answer. Each answer is returned once: any later call needs a newer one.
func (m *memberCounts) membersOf(quota *v1alpha1.CardQuota, count countFunc) (members queueusage.Members, known bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()

	queue := quota.QueueName()
	members, known = m.takeAnswer(queue)
	if known {
		return members, true, nil
	}

	m.requested[queue] = quota

	// Many CardQuotas can be deleted at once, and each count lists all pods. So one count answers
	// for all.
	if m.counting {
		return queueusage.Members{}, false, nil
	}
	if err := m.countRequested(count); err != nil {
		return queueusage.Members{}, false, err
	}

	members, known = m.takeAnswer(queue)
	return members, known, nil
}

// countRequested counts for all requested CardQuotas. The caller has locked m.mu, which is
// released during the count.
func (m *memberCounts) countRequested(count countFunc) error {
	requested := m.requested
	m.requested = map[string]*v1alpha1.CardQuota{}
	m.counting = true
	defer func() { m.counting = false }() // also when the count panics

	counted, err := func() (map[string]queueusage.Members, error) {
		m.mu.Unlock()
		defer m.mu.Lock()
		return count(requested)
	}()
	if err != nil {
		return err
	}

	now := time.Now()
	for queue, members := range counted {
		m.counted[queue] = memberAnswer{members, now}
	}

	// An old answer misses pods that came later, and a deletion by it would be final.
	maps.DeleteFunc(m.counted, func(_ string, answer memberAnswer) bool { return now.Sub(answer.at) >= memberCountTTL })
	return nil
}

// takeAnswer removes an answer and returns it if it is recent enough. The caller has locked
// m.mu.
func (m *memberCounts) takeAnswer(queue string) (queueusage.Members, bool) {
	answer, ok := m.counted[queue]
	delete(m.counted, queue)
	return answer.members, ok && time.Since(answer.at) < memberCountTTL
}

// memberCounter has the state of one count. It keeps only possible members of every page.
type memberCounter struct {
	*Reconciler
	owners map[string]*v1alpha1.CardQuota
	// groups are the keys of input.PodGroups.
	groups map[client.ObjectKey]bool
	input  queueusage.Input
}

// countMembers counts, on the API server and not in the cache, the unfinished pods and
// PodGroups that may get cards of the queues. Informers pass a fresh resource version only by an event or a
// bookmark, so on a quiet cluster a count in the cache would wait about a minute. It reads only the metadata of pods of
// our schedulers, since there may be very many. The last usage count has all other pods that
// use cards. A pod is a member whatever cards it requests, so the count needs no inventory.
func (r *Reconciler) countMembers(ctx context.Context, owners map[string]*v1alpha1.CardQuota) (map[string]queueusage.Members, error) {
	c := memberCounter{Reconciler: r, owners: owners, groups: map[client.ObjectKey]bool{}, input: queueusage.Input{Inventory: card.NewInventory(nil)}}
	_, inForce, err := r.readPolicy(ctx)
	if err != nil {
		return nil, err
	}

	c.input.Schedulers = ourSchedulers(inForce)
	var namespaces corev1.NamespaceList
	if err := r.client.List(ctx, &namespaces, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list namespaces: %w", err)
	}

	c.input.AllowsNamespace = namespaceCheck(owners, workload.PointersTo(namespaces.Items))
	if err := r.listLive(ctx, &v1beta1.PodGroupList{}, nil, c.visitPodGroup); err != nil {
		return nil, fmt.Errorf("list PodGroups: %w", err)
	}

	schedulers := c.input.Schedulers
	if len(schedulers) == 0 {
		schedulers = []string{""} // every scheduler
	}

	for _, name := range schedulers {
		selector := unfinishedPods()
		if name != "" {
			selector = fields.AndSelectors(selector, fields.OneTermEqualSelector("spec.schedulerName", name))
		}

		var pods metav1.PartialObjectMetadataList
		pods.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PodList"))
		if err := r.listLive(ctx, &pods, selector, func(object runtime.Object) error { return c.visitPod(ctx, name, object) }); err != nil {
			return nil, fmt.Errorf("list pods: %w", err)
		}
	}

	counts := queueusage.Count(c.input)
	members := make(map[string]queueusage.Members, len(owners))
	for queue := range owners {
		members[queue] = counts[queue].Members
	}

	return members, nil
}

// visitPodGroup adds a PodGroup that is in one of the queues.
func (c *memberCounter) visitPodGroup(object runtime.Object) error {
	if group, ok := object.(*v1beta1.PodGroup); ok && c.owners[workload.PodGroupQueue(group)] != nil {
		c.addPodGroup(strip.PodGroup(group))
	}
	return nil
}

func (c *memberCounter) addPodGroup(group *v1beta1.PodGroup) {
	c.groups[client.ObjectKeyFromObject(group)] = true
	c.input.PodGroups = append(c.input.PodGroups, group)
}

// visitPod adds a pod that may be a member: its PodGroup is counted, or the pod itself names one of the queues.
// queueusage.Count decides which queue it is in. The object has only metadata; scheduler is the name by which the pods
// were listed, "" for every one.
func (c *memberCounter) visitPod(ctx context.Context, scheduler string, object runtime.Object) error {
	found, ok := object.(*metav1.PartialObjectMetadata)
	if !ok {
		return nil
	}

	pod := strip.PodMetadata(&found.ObjectMeta)
	pod.Spec.SchedulerName = scheduler
	key := client.ObjectKey{Namespace: pod.Namespace, Name: workload.PodGroupName(pod)}
	if !c.groups[key] {
		namedQueue := (&workload.Resolver{}).Queue(pod, nil, "") // without its PodGroup
		if c.owners[namedQueue] == nil {
			return nil
		}

		// The queue of its PodGroup wins over the one that the pod names, so queueusage.Count needs the PodGroup.
		group := &v1beta1.PodGroup{}
		err := c.client.Get(ctx, key, group)
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("read PodGroup %s: %w", key, err)
		}
		if err == nil {
			c.addPodGroup(group)
		}
	}

	c.input.Pods = append(c.input.Pods, pod)
	return nil
}

// listLive visits all objects of a kind on the API server, page by page.
func (r *Reconciler) listLive(ctx context.Context, list client.ObjectList, selector fields.Selector, visit func(runtime.Object) error) error {
	pages := pager.New(func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		page, ok := list.DeepCopyObject().(client.ObjectList)
		if !ok {
			return nil, fmt.Errorf("%T is no list", list)
		}
		return page, r.live.List(ctx, page, &client.ListOptions{FieldSelector: selector, Limit: options.Limit, Continue: options.Continue})
	})

	// The next retry restarts a list that expires; a full list without pages is never read.
	pages.PageSize = memberPageSize
	pages.PageBufferSize = 0
	pages.FullListIfExpired = false
	return pages.EachListItem(ctx, metav1.ListOptions{}, visit)
}

// ourSchedulers returns the names of our schedulers, none without a policy.
func ourSchedulers(p *v1alpha1.ServiceTypePolicy) []string {
	if p == nil {
		return nil
	}
	return policy.Effective(p.Spec).Scheduler.Names
}

// namespaceCheck returns a function that reports whether a queue allows a namespace by its CardQuota. A queue
// without a CardQuota or with an unreadable selector allows all, so that the operator
// deletes no queue in use. It keeps each answer, since a count asks for every pod.
func namespaceCheck(owners map[string]*v1alpha1.CardQuota, namespaces []*corev1.Namespace) func(queue, namespace string) bool {
	known := make(map[string]*corev1.Namespace, len(namespaces))
	for _, namespace := range namespaces {
		known[namespace.Name] = namespace
	}

	selectors := map[string]apilabels.Selector{}
	answers := map[[2]string]bool{} // of queue and namespace
	matches := func(queue, namespace string, owner *v1alpha1.CardQuota) bool {
		selector, read := selectors[queue]
		if !read {
			var err error
			selector, err = workload.NewNamespaceSelector(owner.Spec.NamespaceSelector)
			if err != nil {
				selector = apilabels.Everything()
			}
			selectors[queue] = selector
		}
		object := known[namespace]
		return object != nil && selector.Matches(apilabels.Set(object.Labels))
	}

	return func(queue, namespace string) bool {
		owner := owners[queue]
		if owner == nil || owner.Spec.NamespaceSelector == nil {
			return true
		}
		key := [2]string{queue, namespace}
		answer, isKnown := answers[key]
		if !isKnown {
			answer = matches(queue, namespace, owner)
			answers[key] = answer
		}
		return answer
	}
}
