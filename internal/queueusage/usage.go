// Package queueusage counts what the pods of each queue use and request, and which pods use cards for
// bills. It counts from scratch every time, so that no number can drift.
package queueusage

import (
	"cmp"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/waiting"
	"cardquota.dev/operator/internal/workload"
)

// Input is the input of Count, which does not change it.
type Input struct {
	// Pods include all pods that have not finished.
	Pods []*corev1.Pod
	// PodGroups are all PodGroups. LacksPodGroups reports that some may be missing here, because the
	// user may not read them.
	PodGroups      []*v1beta1.PodGroup
	LacksPodGroups bool
	// Inventory has the cards of each node, Nodes which nodes can use them.
	Inventory *card.Inventory
	Nodes     []card.NodeState
	// HiddenFleet is what is known of free cards where the user may not read Nodes and all Pods, nil where he may.
	HiddenFleet *waiting.Fleet
	// Quotas is the quota of each queue. It only decides under which alternative a pending
	// request is shown, and of which alternatives free cards would help.
	Quotas map[string]card.Quota
	// LastCharges are the charges of the previous count, by pod. They keep the queue of a pod
	// whose PodGroup is gone, and the card of a node that lost its labels.
	LastCharges map[types.UID]quota.Charge
	// Facts keeps what pods say, and their charges, from one count to the next. LastCharges must be of
	// the last count with them. nil keeps nothing.
	Facts *PodFacts
	// Schedulers are the names of our schedulers, nil for every scheduler. A pod of another
	// scheduler uses a queue only if it has a card, and its record of a binding is not
	// trusted.
	Schedulers []string
	// AllowsNamespace reports whether a queue allows a namespace; nil allows every one.
	// Pending work of other namespaces does not appear in a queue: any tenant can name it, and write
	// the conditions of its PodGroups. It does not keep the queue from being deleted either. An
	// assigned pod that only names the queue itself is charged to no queue.
	AllowsNamespace func(queue, namespace string) bool
	// QueueOfNamespace returns the queue for which pods with cards count that name none, "" for none, while quotas are only
	// observed. Such pods are no members of the queue. nil: they count for none.
	QueueOfNamespace func(namespace string) string
	// ServiceTypes is the service type of each queue that has one. It only names holders of cards.
	ServiceTypes map[string]string
	// LocalQueues are the queues of which tenants see what waits in their namespace.
	LocalQueues map[string]bool
	// Tree is the tree of the queues, nil for flat queues.
	Tree *quota.Tree
	// Now is the time of the count. It only decides for how long a terminating pod counts for bills, and
	// from when on the PodGroup of a pod is missing.
	Now time.Time
	// ListsAllBlocked lists all that is blocked, not only what a status has room for.
	ListsAllBlocked bool
}

// Usage is what one queue uses.
type Usage struct {
	// Used counts the cards that assigned pods use, and every card that they may use on a node that
	// does not name its cards. Repeated is how many of these are counted more than once, in the queue
	// alone; nil for none.
	Used, Repeated map[card.Name]card.Count
	// Pending counts the cards that pending pods, and jobs without pods, request.
	Pending map[card.Name]card.Count
	// OldestPending is when the oldest pending pod, or job without pods, was created; zero if
	// nothing is pending.
	OldestPending metav1.Time
	// MilliCPU and Memory (bytes) are what the assigned pods request.
	MilliCPU, Memory int64
	// Summary is what of it waits, and why.
	waiting.Summary
	// Members counts the unfinished pods and PodGroups that use cards of the queue, or may
	// get some. A queue without members can be deleted. Naming a queue does not make a pod
	// its member, since any tenant can do that.
	Members Members
}

// Equal reports whether two usages are equal.
func (u Usage) Equal(o Usage) bool {
	return u.Members == o.Members && equalAssigned(&u, &o) && u.OldestPending.Equal(&o.OldestPending) && maps.Equal(u.Pending, o.Pending) && u.Summary.Equal(&o.Summary)
}

// equalAssigned reports whether assigned pods use the same.
func equalAssigned(a, b *Usage) bool {
	return a.MilliCPU == b.MilliCPU && a.Memory == b.Memory && maps.Equal(a.Used, b.Used) && maps.Equal(a.Repeated, b.Repeated)
}

// Count returns the usage of every queue that a pod or PodGroup names.
func Count(input Input) map[string]Usage {
	queues, _ := CountWithCharges(input)
	return queues
}

// CountWithCharges counts the usage of each queue as Count does. It also returns the charge of each assigned
// pod by UID, which is the LastCharges of the next count.
func CountWithCharges(input Input) (map[string]Usage, map[types.UID]quota.Charge) {
	c := newCounter(input)
	for _, pod := range input.Pods {
		c.countPod(pod)
	}

	// After the pods, which say of a PodGroup whether it has any.
	for _, group := range input.PodGroups {
		c.countPodGroup(group)
	}

	c.listBilledPods()
	blocked := c.explainPending() // what of the pending waits, and why, by queue
	out := make(map[string]Usage, len(c.queues))
	for name, usage := range c.queues {
		usage.Summary = blocked[name]
		out[name] = *usage
	}

	return out, c.charges
}

// explainPending returns what waits in each queue, and why.
func (c *counter) explainPending() map[string]waiting.Summary {
	if len(c.pending) == 0 {
		return nil
	}
	used := make(map[string]map[card.Name]card.Count, len(c.queues))
	for queue, usage := range c.queues {
		used[queue] = usage.Used
	}
	return waiting.Explain(&waiting.Cluster{
		Tree: c.input.Tree, Quotas: c.input.Quotas, Used: used, ServiceTypes: c.input.ServiceTypes, Inventory: c.input.Inventory, Nodes: c.input.Nodes, HiddenFleet: c.input.HiddenFleet,
		Charged: c.charged, Terminating: c.ending, LocalQueues: c.input.LocalQueues, ListsAllBlocked: c.input.ListsAllBlocked,
	}, c.pending)
}

// counter has the state of one count.
type counter struct {
	input    Input
	resolver workload.Resolver
	queues   map[string]*Usage
	// pending is what waits in each queue for a stated reason.
	pending map[string][]waiting.Pending
	facts   *PodFacts
	charges map[types.UID]quota.Charge
	// charged are the pods in charges. ending are the terminating ones, which are charged no more but may have cards
	// still.
	charged, ending []waiting.ChargedPod
	// ready are the nodes that are ready, nil until a terminating pod asks for them.
	ready map[string]bool
}

// newCounter returns a counter that has counted nothing.
func newCounter(input Input) *counter {
	input.Tree = cmp.Or(input.Tree, quota.Flat)
	c := &counter{
		input:    input,
		resolver: workload.Resolver{Inventory: input.Inventory, Schedulers: input.Schedulers, AllowsNamespace: input.AllowsNamespace},
		facts:    cmp.Or(input.Facts, &PodFacts{}),
		queues:   map[string]*Usage{},
		pending:  map[string][]waiting.Pending{},
		charges:  make(map[types.UID]quota.Charge, len(input.Pods)),
		charged:  make([]waiting.ChargedPod, 0, len(input.LastCharges)),
	}

	c.facts.beginCount(&input)
	return c
}

// usageFor returns the usage of a queue, which the count adds to.
func (c *counter) usageFor(queue string) *Usage {
	usage := c.queues[queue]
	if usage == nil {
		usage = &Usage{Used: map[card.Name]card.Count{}, Pending: map[card.Name]card.Count{}}
		c.queues[queue] = usage
	}
	return usage
}

// countPod counts what an assigned pod uses, or what a pending one requests. Any tenant can write a pod that
// names any queue. So a pod counts as pending there, and as a member, which keeps the queue from being
// deleted, only if the queue allows its namespace.
func (c *counter) countPod(pod *corev1.Pod) {
	if workload.IsFinished(pod) {
		return
	}

	// Pods count instead of the request of their PodGroup, which countPodGroup then leaves out.
	facts := c.facts.factsOf(&c.resolver, pod)
	group := facts.groupOrNil()
	if facts.group != nil {
		facts.group.hasPods = true
	}

	ours := c.resolver.UsesOurScheduler(pod)
	isAssigned := workload.IsAssigned(pod)
	var charge *quota.Charge // nil for a pod that uses nothing
	var queue string
	if isAssigned {
		charge = c.chargeOf(facts, pod, group)
		queue = charge.Queue
		c.charges[pod.UID] = *charge
		c.charged = append(c.charged, waiting.ChargedPod{Pod: pod, Workload: &facts.reference, Charge: charge})
	} else {
		queue = c.resolver.Queue(pod, group, "")
		c.addEnding(facts, pod, group) // if it is terminating
	}

	if queue == "" {
		c.countByNamespace(facts, pod, charge)
		return
	}
	if !isAssigned && !ours { // a waiting pod of another scheduler is not ours to place, so it is not pending here
		return
	}

	usage := c.usageFor(queue)
	isAllowed := c.allowsNamespace(queue, pod.Namespace)
	if isMember(charge, ours, isAllowed) {
		usage.Members.Pods++
	}

	switch {
	case isAssigned:
		usage.addCharge(charge)
	case workload.IsPending(pod) && isAllowed && c.allowsAbove(queue, pod.Namespace): // ancestors allow it, too
		c.countPending(usage, queue, pod, group, facts)
	}
}

// countByNamespace counts a pod that names no queue for that of its namespace, see Input.QueueOfNamespace. charge is nil
// for a pod that uses nothing.
func (c *counter) countByNamespace(facts *podFacts, pod *corev1.Pod, charge *quota.Charge) {
	hasCards := facts.request.Count > 0 || (charge != nil && len(charge.Cards) > 0)
	if c.input.QueueOfNamespace == nil || !hasCards {
		return
	}
	queue := c.input.QueueOfNamespace(pod.Namespace)
	if queue == "" {
		return
	}

	usage := c.usageFor(queue)
	switch {
	case charge != nil:
		usage.addCharge(charge)
	case workload.IsPending(pod):
		usage.addPending(pod.CreationTimestamp)
		c.addPendingCards(usage, queue, facts.request.Names, facts.request.Count)
	}
}

// countPodGroup counts a PodGroup as a member of its queue, and, while it has no pods, its own request as
// pending there. The request counts only if the queue allows the namespace: any tenant can name any queue.
func (c *counter) countPodGroup(group *v1beta1.PodGroup) {
	if group.Status.Phase == v1beta1.PodGroupCompleted {
		return
	}
	queue := workload.PodGroupQueue(group)
	usage := c.usageFor(queue)

	// A queue with members is not deleted. A PodGroup is one if its pods run, allowed or not, or if the queue
	// allows its namespace.
	isAllowed := c.allowsNamespace(queue, group.Namespace)
	if group.Status.Running > 0 || isAllowed {
		usage.Members.PodGroups++
	}

	// PodGroups that never start there must not fill the status of the queue.
	if !isAllowed || !c.allowsAbove(queue, group.Namespace) {
		return
	}
	if !c.waitsWithoutPods(group) {
		return
	}
	if pending := c.addPendingGroup(usage, queue, group); len(pending) > 0 {
		c.pending[queue] = append(c.pending[queue], pending...)
	}
}

// waitsWithoutPods reports whether a PodGroup waits and has no unfinished pods. All pods must be counted before.
func (c *counter) waitsWithoutPods(group *v1beta1.PodGroup) bool {
	return workload.IsPodGroupPending(group) && !c.facts.recordOf(types.NamespacedName{Namespace: group.Namespace, Name: group.Name}).hasPods
}

// addPendingGroup counts what a PodGroup requests that has no pods yet, and returns what of it waits for a stated
// reason.
func (c *counter) addPendingGroup(usage *Usage, queue string, group *v1beta1.PodGroup) []waiting.Pending {
	usage.addPending(group.CreationTimestamp)
	request, pending := waiting.NewPendingGroup(&c.resolver, group)
	for _, part := range request.Cards {
		c.addPendingCards(usage, queue, part.Names, part.Count)
	}
	return pending
}

// isMember reports whether a pod keeps its queue from being deleted: it uses cards of the queue, or it is of our
// scheduler and runs in the queue or may start there. charge is nil for a pod that uses nothing.
func isMember(charge *quota.Charge, ours, isAllowed bool) bool {
	hasCards := charge != nil && len(charge.Cards) > 0
	return hasCards || (ours && (charge != nil || isAllowed))
}

// addEnding adds a pod that is terminating and may have its cards still, and no other pod. Its charge follows the last
// one that it had.
func (c *counter) addEnding(facts *podFacts, pod *corev1.Pod, group *v1beta1.PodGroup) {
	if !workload.MayBeRunning(pod) {
		return
	}
	last := cmp.Or(c.lastCharge(pod), c.facts.ending[pod.UID])
	charge := c.resolver.UsageOf(&facts.request, pod, group, last)
	c.ending = append(c.ending, waiting.ChargedPod{Pod: pod, Workload: &facts.reference, Charge: &charge})
}

// chargeOf returns the charge of an assigned pod. A pod that did not change, and was charged the same
// twice, is charged the same again as long as its facts are kept. It records a pod with cards that had no charge before.
func (c *counter) chargeOf(facts *podFacts, pod *corev1.Pod, group *v1beta1.PodGroup) *quota.Charge {
	if facts.charge != nil {
		return facts.charge
	}

	last := c.lastCharge(pod)
	charge := c.resolver.UsageOf(&facts.request, pod, group, last)
	if charge.Queue != "" && last != nil && charge.Equal(last) {
		facts.charge = &charge
	}

	// The first count sees every running pod for the first time, and none of them was just bound.
	if c.input.LastCharges != nil && last == nil && len(charge.Cards) > 0 {
		c.facts.newlyCharged = append(c.facts.newlyCharged, waiting.ChargedPod{Pod: pod, Workload: &facts.reference, Charge: &charge})
	}

	return &charge
}

// lastCharge returns the charge of a pod in the previous count, nil for none.
func (c *counter) lastCharge(pod *corev1.Pod) *quota.Charge {
	if charge, ok := c.input.LastCharges[pod.UID]; ok {
		return &charge
	}
	return nil
}

// allowsNamespace reports whether a queue allows a namespace, see Input.AllowsNamespace.
func (c *counter) allowsNamespace(queue, namespace string) bool {
	return c.input.AllowsNamespace == nil || c.input.AllowsNamespace(queue, namespace)
}

// allowsAbove reports whether every queue above one in a tree allows a namespace.
func (c *counter) allowsAbove(queue, namespace string) bool {
	return !slices.ContainsFunc(c.input.Tree.WrittenAncestors(queue), func(above string) bool { return !c.allowsNamespace(above, namespace) })
}

// addPending records that something is pending that was created at a time.
func (u *Usage) addPending(created metav1.Time) {
	if oldest := &u.OldestPending; oldest.IsZero() || created.Before(oldest) {
		*oldest = created
	}
}

// addCharge adds what an assigned pod uses.
func (u *Usage) addCharge(charge *quota.Charge) {
	for _, amount := range charge.Cards {
		u.Used[amount.Name] = u.Used[amount.Name].Add(amount.Count)
	}
	for _, repeated := range charge.Repeated {
		if u.Repeated == nil {
			u.Repeated = map[card.Name]card.Count{}
		}
		u.Repeated[repeated.Name] = u.Repeated[repeated.Name].Add(repeated.Count)
	}
	u.MilliCPU = quota.AddSaturating(u.MilliCPU, charge.MilliCPU)
	u.Memory = quota.AddSaturating(u.Memory, charge.Memory)
}

// countPending counts what a pending pod requests. If the scheduler or the pod itself says why it waits, it is
// listed as blocked, too.
func (c *counter) countPending(usage *Usage, queue string, pod *corev1.Pod, group *v1beta1.PodGroup, facts *podFacts) {
	request := &facts.request
	usage.addPending(pod.CreationTimestamp)
	c.addPendingCards(usage, queue, request.Names, request.Count)
	waits := waiting.PendingPod{
		Pod: pod, Workload: facts.reference, Request: request, Group: group, Last: &facts.stated,
		LacksGroup: c.lacksGroup(facts, pod),
	}
	if pending, isStated := waits.Pending(); isStated {
		c.pending[queue] = append(c.pending[queue], pending)
	}
}

// lacksGroup reports whether a pod names a PodGroup that does not exist. It is false while the PodGroup may only be
// unknown: the user may not read PodGroups, or the pod is new.
func (c *counter) lacksGroup(facts *podFacts, pod *corev1.Pod) bool {
	isMissing := facts.group != nil && facts.group.group == nil && !c.input.LacksPodGroups
	return isMissing && !waiting.MayAwaitPodGroup(pod, c.input.Now)
}

// addPendingCards counts a pending request under one name: the first card that the queue has quota for, else
// the first.
func (c *counter) addPendingCards(usage *Usage, queue string, names []card.Name, count card.Count) {
	if len(names) == 0 {
		return
	}
	shown := slices.IndexFunc(names, func(name card.Name) bool { return c.input.Quotas[queue][name] > 0 })
	name := names[max(0, shown)]
	usage.Pending[name] = usage.Pending[name].Add(count)
}
