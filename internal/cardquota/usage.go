package cardquota

import (
	"cmp"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/blocked"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/localquota"
	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/workload"
)

// CountInput is the input of CountUsage, which does not change it.
type CountInput struct {
	// Pods include all pods that have not finished.
	Pods []*corev1.Pod
	// PodGroups are all PodGroups. LacksPodGroups reports that some may be missing here, because the
	// user may not read them.
	PodGroups      []*v1beta1.PodGroup
	LacksPodGroups bool
	// Inventory has the cards of each node, Nodes which nodes can use them.
	Inventory *card.Inventory
	Nodes     []card.NodeState
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
	// ServiceTypes is the service type of each queue that has one. It only names holders of cards.
	ServiceTypes map[string]string
	// LocalQueues are the queues of which tenants see what waits in their namespace.
	LocalQueues map[string]bool
	// Tree is the tree of the queues; nil is that of flat queues.
	Tree *quota.Tree
	// Now is the time of the count. It only decides for how long a terminating pod counts for bills, and
	// from when on the PodGroup of a pod is missing.
	Now time.Time
	// ListsAllBlocked lists all that is blocked, not only the first MaxBlocked. A status has no room
	// for it.
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
	// OldestWithinQuota is when the oldest of those was created that request cards and wait although
	// the queue has quota for them; zero if none does.
	OldestWithinQuota metav1.Time
	// MilliCPU and Memory (bytes) are what the assigned pods request.
	MilliCPU, Memory int64
	// Blocked lists what is pending and why, the longest wait first, at most MaxBlocked
	// entries. A workload has one for each card and reason. BlockedTotal counts the workloads.
	Blocked      []v1alpha1.BlockedStatus
	BlockedTotal int
	// BlockedCards is for how many cards all that is blocked waits, by reason; nil for none. It is that of
	// the queue alone.
	BlockedCards map[v1alpha1.BlockedReason]card.Count
	// Local is what waits in each namespace, of a queue in LocalQueues.
	Local map[string]localquota.Waiting
	// Members counts the unfinished pods and PodGroups that use cards of the queue, or may
	// get some. A queue without members can be deleted. Naming a queue does not make a pod
	// its member, since any tenant can do that.
	Members Members
}

// Equal reports whether two usages are equal.
func (u Usage) Equal(o Usage) bool {
	return u.Members == o.Members && equalAssigned(&u, &o) && equalPending(&u, &o)
}

// equalAssigned reports whether assigned pods use the same.
func equalAssigned(a, b *Usage) bool {
	return a.MilliCPU == b.MilliCPU && a.Memory == b.Memory && maps.Equal(a.Used, b.Used) && maps.Equal(a.Repeated, b.Repeated)
}

// equalPending reports whether the same is pending, since when and why.
func equalPending(a, b *Usage) bool {
	return a.OldestPending.Equal(&b.OldestPending) && a.OldestWithinQuota.Equal(&b.OldestWithinQuota) &&
		a.BlockedTotal == b.BlockedTotal && maps.Equal(a.Pending, b.Pending) && maps.Equal(a.BlockedCards, b.BlockedCards) &&
		slices.EqualFunc(a.Blocked, b.Blocked, equalBlocked) && maps.EqualFunc(a.Local, b.Local, equalWaiting)
}

// equalWaiting reports whether the same waits in a namespace.
func equalWaiting(a, b localquota.Waiting) bool {
	return a.Total == b.Total && slices.EqualFunc(a.Blocked, b.Blocked, equalBlocked)
}

// equalBlocked reports whether two entries are equal.
func equalBlocked(a, b v1alpha1.BlockedStatus) bool {
	return compareBlocked(a, b) == 0 && a.Count == b.Count && a.Message == b.Message && slices.Equal(a.Holders, b.Holders)
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
		input:    input,
		resolver: workload.Resolver{Inventory: input.Inventory, Schedulers: input.Schedulers, AllowsNamespace: input.AllowsNamespace},
		facts:    cmp.Or(input.Facts, &PodFacts{}),
		queues:   map[string]*queueUsage{},
		charges:  make(map[types.UID]quota.Charge, len(input.Pods)),
		charged:  make([]chargedPod, 0, len(input.LastCharges)),
	}

	c.facts.beginCount(&input)
	for _, pod := range input.Pods {
		c.countPod(pod)
	}

	for _, group := range input.PodGroups {
		c.countPodGroup(group)
	}

	c.listBilledPods()
	out := make(map[string]Usage, len(c.queues))
	for name, t := range c.queues {
		if len(t.waiting) > 0 {
			set := c.explainWaiting(name, t.waiting)
			t.usage.OldestWithinQuota = set.oldestWithinQuota(input.Quotas[name])
			t.usage.BlockedCards = set.cardsByReason()
			all := slices.AppendSeq(make([]blockedEntry, 0, len(set)), maps.Values(set))
			t.usage.Blocked = c.oldestFirst(name, all)
			t.usage.BlockedTotal = countWorkloads(all)

			if input.LocalQueues[name] {
				t.usage.Local = c.waitingByNamespace(name, set)
			}
		}
		out[name] = t.usage
	}

	return out, c.charges
}

// counter has the state of one count.
type counter struct {
	input    CountInput
	resolver workload.Resolver
	queues   map[string]*queueUsage
	facts    *PodFacts
	charges  map[types.UID]quota.Charge
	// charged are the pods in charges, ending those that are terminating and may have cards still.
	charged []chargedPod
	ending  []*corev1.Pod
	// ready are the nodes that are ready, nil until a terminating pod asks for them.
	ready map[string]bool
	// fleet, holders, subtrees and what these use are nil until something waits for them.
	fleet        *blocked.Fleet
	holders      *blocked.Holders
	subtrees     map[string]subtree
	subtreeUsage map[string]map[card.Name]card.Count
}

// chargedPod is a pod with its charge.
type chargedPod struct {
	pod    *corev1.Pod
	facts  *podFacts
	charge *quota.Charge
}

// queueUsage is the usage of one queue while it is counted.
type queueUsage struct {
	usage Usage
	// waiting is what waits for a stated reason.
	waiting []waiting
}

func (c *counter) usageFor(queue string) *queueUsage {
	t, ok := c.queues[queue]
	if !ok {
		t = &queueUsage{usage: Usage{Used: map[card.Name]card.Count{}, Pending: map[card.Name]card.Count{}}}
		c.queues[queue] = t
	}
	return t
}

func (c *counter) countPod(pod *corev1.Pod) {
	if workload.IsFinished(pod) {
		return
	}

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
		c.charged = append(c.charged, chargedPod{pod, facts, charge})
	} else {
		queue = c.resolver.Queue(pod, group, "")
		c.addEnding(pod)
	}

	// A waiting pod of another scheduler is not ours to place, so it is not pending here.
	if queue == "" || (!isAssigned && !ours) {
		return
	}

	t := c.usageFor(queue)
	isAllowed := c.allowsNamespace(queue, pod.Namespace)
	if isMember(charge, ours, isAllowed) {
		t.usage.Members.Pods++
	}

	switch {
	case isAssigned:
		t.addCharge(charge)
	case workload.IsPending(pod) && isAllowed && c.allowsAbove(queue, pod.Namespace):
		c.countPending(t, queue, pod, group, facts)
	}
}

// isMember reports whether a pod keeps its queue from being deleted: it uses cards of the queue, or our
// scheduler may give it some. charge is nil for a pod that uses nothing.
func isMember(charge *quota.Charge, ours, isAllowed bool) bool {
	hasCards := charge != nil && len(charge.Cards) > 0
	return hasCards || (ours && (charge != nil || isAllowed))
}

// addEnding adds a pod that is terminating and may have its cards still.
func (c *counter) addEnding(pod *corev1.Pod) {
	if workload.MayBeRunning(pod) {
		c.ending = append(c.ending, pod)
	}
}

// chargeOf returns the charge of an assigned pod. A pod that did not change, and was charged the same
// twice, is charged the same again as long as its facts are kept.
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
		c.facts.newlyCharged = append(c.facts.newlyCharged, chargedPod{pod, facts, &charge})
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

// tree returns the tree of the queues.
func (c *counter) tree() *quota.Tree { return cmp.Or(c.input.Tree, quota.Flat) }

func (c *counter) allowsNamespace(queue, namespace string) bool {
	return c.input.AllowsNamespace == nil || c.input.AllowsNamespace(queue, namespace)
}

// allowsAbove reports whether every queue above one in a tree allows a namespace.
func (c *counter) allowsAbove(queue, namespace string) bool {
	return !slices.ContainsFunc(c.tree().WrittenAncestors(queue), func(above string) bool { return !c.allowsNamespace(above, namespace) })
}

// addPending records that something is pending since its creation.
func (q *queueUsage) addPending(created metav1.Time) {
	if oldest := &q.usage.OldestPending; oldest.IsZero() || created.Before(oldest) {
		*oldest = created
	}
}

func (q *queueUsage) addCharge(charge *quota.Charge) {
	for _, amount := range charge.Cards {
		q.usage.Used[amount.Name] = q.usage.Used[amount.Name].Add(amount.Count)
	}
	for _, repeated := range charge.Repeated {
		if q.usage.Repeated == nil {
			q.usage.Repeated = map[card.Name]card.Count{}
		}
		q.usage.Repeated[repeated.Name] = q.usage.Repeated[repeated.Name].Add(repeated.Count)
	}
	q.usage.MilliCPU = quota.AddSaturating(q.usage.MilliCPU, charge.MilliCPU)
	q.usage.Memory = quota.AddSaturating(q.usage.Memory, charge.Memory)
}

// countPending counts a pending pod under the first card of its request that the queue has
// quota for.
func (c *counter) countPending(t *queueUsage, queue string, pod *corev1.Pod, group *v1beta1.PodGroup, facts *podFacts) {
	request := &facts.request
	t.addPending(pod.CreationTimestamp)
	if name, ok := c.displayedCard(queue, request.Names); ok {
		t.usage.Pending[name] = t.usage.Pending[name].Add(request.Count)
	}

	if message, stated := c.podPendingReason(pod, facts); stated != nil {
		asked := request.Named.String()
		if request.Named.AllowsAny() { // the pod names no card: show the resource
			asked = string(request.Resource)
		}

		// A gang below its minimum uses cards with which it cannot work, so the message begins
		// with that.
		if group != nil {
			message = blocked.BelowMinimumText(group.Status.Running, group.Spec.MinMember) + message
		}

		t.waiting = append(t.waiting, waiting{
			entry:        v1alpha1.BlockedStatus{Workload: facts.reference, Since: pod.CreationTimestamp, Card: asked, Count: int64(request.Count), Message: message},
			statedReason: stated,
			request:      blocked.Request{Names: request.Names, Named: request.Named.Names(), Count: request.Count},
		})
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
