package cardquota

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/workload"
)

// CountInput is the input of CountUsage, which does not change it.
type CountInput struct {
	// Pods include all pods that have not finished.
	Pods []*corev1.Pod
	// PodGroups are all PodGroups.
	PodGroups []*v1beta1.PodGroup
	// Inventory holds the cards of each node.
	Inventory *card.Inventory
	// Quotas is the quota of each queue. It only decides under which alternative a pending
	// request is shown.
	Quotas map[string]card.Quota
	// LastCharges are the charges of the previous count, by pod. They keep the queue of a pod
	// whose PodGroup is gone, and the card of a node that lost its labels.
	LastCharges map[types.UID]quota.Charge
	// Schedulers are the names of our schedulers, nil for every scheduler. A pod of another
	// scheduler uses a queue only if it holds a card, and its record of a binding is not
	// trusted.
	Schedulers []string
	// AllowsNamespace reports whether a queue allows a namespace; nil allows every one.
	// Pods of other namespaces are shown as pending, but do not keep the queue from being
	// deleted. An assigned pod that only names the queue itself is charged to no queue.
	AllowsNamespace func(queue, namespace string) bool
}

// Usage is what one queue uses.
type Usage struct {
	// Used counts the cards that assigned pods hold.
	Used map[card.Name]card.Count
	// Pending counts the cards that pending pods, and jobs without pods, request.
	Pending map[card.Name]card.Count
	// MilliCPU and Memory (bytes) are what the assigned pods request.
	MilliCPU, Memory int64
	// Blocked lists what is pending and why, the longest wait first, at most MaxBlocked
	// entries of BlockedTotal.
	Blocked      []v1alpha1.BlockedStatus
	BlockedTotal int
	// Members counts the unfinished pods and PodGroups that hold cards of the queue, or may
	// get some. A queue without members can be deleted. Naming a queue does not make a pod
	// its member, since any tenant can do that.
	Members int
}

// Equal reports whether two usages are equal.
func (u Usage) Equal(o Usage) bool {
	return u.MilliCPU == o.MilliCPU && u.Memory == o.Memory && u.Members == o.Members && u.BlockedTotal == o.BlockedTotal &&
		maps.Equal(u.Used, o.Used) && maps.Equal(u.Pending, o.Pending) && slices.Equal(u.Blocked, o.Blocked)
}

// CountUsage returns the usage of every queue that a pod or PodGroup names.
func CountUsage(input CountInput) map[string]Usage {
	queues, _ := CountUsageAndCharges(input)
	return queues
}

// CountUsageAndCharges also returns the charge of each assigned pod, which is LastCharges
// of the next count.
func CountUsageAndCharges(input CountInput) (map[string]Usage, map[types.UID]quota.Charge) {
	c := counter{
		input:          input,
		resolver:       workload.Resolver{Inventory: input.Inventory, Schedulers: input.Schedulers, AllowsNamespace: input.AllowsNamespace},
		queues:         map[string]*queueUsage{},
		groups:         make(map[types.NamespacedName]*v1beta1.PodGroup, len(input.PodGroups)),
		groupsWithPods: map[types.NamespacedName]bool{},
		charges:        make(map[types.UID]quota.Charge, len(input.Pods)),
	}
	for _, group := range input.PodGroups {
		c.groups[types.NamespacedName{Namespace: group.Namespace, Name: group.Name}] = group
	}
	for _, pod := range input.Pods {
		c.countPod(pod)
	}
	for _, group := range input.PodGroups {
		c.countPodGroup(group)
	}
	out := make(map[string]Usage, len(c.queues))
	for name, t := range c.queues {
		t.usage.Blocked, t.usage.BlockedTotal = t.blocked.oldestFirst(), len(t.blocked)
		out[name] = t.usage
	}
	return out, c.charges
}

// counter holds the state of one count.
type counter struct {
	input    CountInput
	resolver workload.Resolver
	queues   map[string]*queueUsage
	groups   map[types.NamespacedName]*v1beta1.PodGroup
	// groupsWithPods are the PodGroups that have unfinished pods. Their pods count as pending, not
	// their own request.
	groupsWithPods map[types.NamespacedName]bool
	charges        map[types.UID]quota.Charge
}

// queueUsage is the usage of one queue while it is counted.
type queueUsage struct {
	usage   Usage
	blocked blockedSet
}

func (c *counter) usageFor(queue string) *queueUsage {
	t, ok := c.queues[queue]
	if !ok {
		t = &queueUsage{
			usage:   Usage{Used: map[card.Name]card.Count{}, Pending: map[card.Name]card.Count{}},
			blocked: blockedSet{},
		}
		c.queues[queue] = t
	}
	return t
}

func (c *counter) countPod(pod *corev1.Pod) {
	if pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		return
	}
	group := c.podGroupOf(pod)
	var last *quota.Charge
	if charge, ok := c.input.LastCharges[pod.UID]; ok {
		last = &charge
	}
	ours, holds := c.resolver.UsesOurScheduler(pod), workload.IsAssigned(pod)
	var charge quota.Charge
	if holds {
		charge = c.resolver.Usage(pod, group, last)
		c.charges[pod.UID] = charge
	} else {
		charge.Queue = c.resolver.Queue(pod, group, "")
	}
	queue := charge.Queue
	if queue == "" || !holds && !ours {
		return
	}
	t := c.usageFor(queue)
	if len(charge.Cards) > 0 || ours && (holds || c.allowsNamespace(queue, pod.Namespace)) {
		t.usage.Members++
	}
	switch {
	case holds:
		t.addCharge(charge)
	case workload.IsPending(pod):
		c.countPending(t, queue, pod, group)
	}
}

func (c *counter) allowsNamespace(queue, namespace string) bool {
	return c.input.AllowsNamespace == nil || c.input.AllowsNamespace(queue, namespace)
}

// podGroupOf returns the pod's PodGroup and records that it has pods.
func (c *counter) podGroupOf(pod *corev1.Pod) *v1beta1.PodGroup {
	name := workload.PodGroupName(pod)
	if name == "" {
		return nil
	}
	key := types.NamespacedName{Namespace: pod.Namespace, Name: name}
	c.groupsWithPods[key] = true
	return c.groups[key]
}

func (q *queueUsage) addCharge(charge quota.Charge) {
	for _, held := range charge.Cards {
		q.usage.Used[held.Name] = q.usage.Used[held.Name].Add(held.Count)
	}
	q.usage.MilliCPU = quota.AddSaturating(q.usage.MilliCPU, charge.MilliCPU)
	q.usage.Memory = quota.AddSaturating(q.usage.Memory, charge.Memory)
}

// countPending counts a pending pod under the first card of its request that the queue has
// quota for.
func (c *counter) countPending(t *queueUsage, queue string, pod *corev1.Pod, group *v1beta1.PodGroup) {
	request := c.resolver.Request(pod)
	if name, ok := c.displayedCard(queue, request.Names); ok {
		t.usage.Pending[name] = t.usage.Pending[name].Add(request.Count)
	}
	if why, ok := podPendingReason(pod, group, request.Denied); ok {
		asked := request.Named.String()
		if request.Named.AllowsAny() { // the pod names no card: show the resource
			asked = string(request.Resource)
		}
		t.blocked.add(v1alpha1.BlockedStatus{Workload: workloadReference(pod), Since: pod.CreationTimestamp,
			Card: asked, Count: int64(request.Count), Reason: why.Reason, Message: why.Message})
	}
}

// displayedCard returns the name under which a request with alternatives is shown: the
// first that the queue has quota for, else the first.
func (c *counter) displayedCard(queue string, names []card.Name) (card.Name, bool) {
	if len(names) == 0 {
		return "", false
	}
	for _, name := range names {
		if c.input.Quotas[queue][name] > 0 {
			return name, true
		}
	}
	return names[0], true
}
