// Package cardinventory computes the status of the CardInventory from the nodes and from the last
// count of the pods.
//
// The package is pure: no client, no clock, no logger.
package cardinventory

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/cardquota"
	"cardquota.dev/operator/internal/queueusage"
	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/servicetype"
)

// CountInput is the input of NewCount: the objects that were counted, and what the count found.
// NewCount does not change it.
type CountInput struct {
	// Pods are the counted pods, Charges the charges of the assigned ones.
	Pods    []*corev1.Pod
	Charges map[types.UID]quota.Charge
	// Usage is what each queue uses alone.
	Usage map[string]queueusage.Usage
	// Owners is the CardQuota of each queue that has one, Quotas the quota in force of these queues.
	Owners map[string]*v1alpha1.CardQuota
	Quotas map[string]card.Quota
	// ServiceTypes are the service types of the queues.
	ServiceTypes map[string]string
	// Queues are all Queues.
	Queues []*v1beta1.Queue
	// Tree is the tree of all CardQuotas.
	Tree *cardquota.Tree
	// Totals is what all CardQuotas grant.
	Totals *cardquota.QuotaTotals
	// Changed are the pods that use cards of which the name has changed.
	Changed []ChangedModel
	// QueueOfNamespace is that of queueusage.Input: in mode Observe it returns in the usage of which queue pods are that
	// name none. nil in mode Enforce.
	QueueOfNamespace func(namespace string) string
}

// Count is what one count found, summed up by card. It is immutable.
type Count struct {
	cards map[card.Name]*cardCount
	// outside are the pods that use cards outside any queue.
	outside []outsidePod
	// changed are the pods that use cards of which the name has changed.
	changed []ChangedModel
}

// cardCount are the sums of one card.
type cardCount struct {
	allocated, pending, granted, deserved card.Count
	// isExcessAllowed reports whether every CardQuota with quota for the card allows over-allocation.
	isExcessAllowed bool
	// types are the sums by service type.
	types map[string]*typeCount
}

// typeCount are the sums of one card and service type.
type typeCount struct{ quota, used, pending card.Count }

// outsidePod is a pod that uses cards and names no queue, or one that does not exist.
type outsidePod struct {
	name, node, queue string
	cards             []card.Amount
}

// NewCount sums up a count by card.
func NewCount(input CountInput) *Count {
	b := countBuilder{CountInput: input, count: &Count{cards: map[card.Name]*cardCount{}, changed: input.Changed}}
	b.addOutside()
	for queue, usage := range input.Usage {
		b.addUsage(b.serviceType(queue), usage)
	}

	for name, granted := range input.Totals.Granted() {
		c := b.card(name)
		c.granted = granted
		c.isExcessAllowed = input.Totals.AllowsOverAllocation(name)
	}

	b.addQuotas()
	return b.count
}

// AllowsOverAllocation reports whether every CardQuota with quota for a card allows its over-allocation.
func (c *Count) AllowsOverAllocation(name card.Name) bool {
	sums := c.cards[name]
	return sums != nil && sums.isExcessAllowed
}

// countBuilder adds its input up to a Count.
type countBuilder struct {
	CountInput
	count *Count
}

// card returns the sums of a card.
func (b *countBuilder) card(name card.Name) *cardCount {
	c := b.count.cards[name]
	if c == nil {
		c = &cardCount{types: map[string]*typeCount{}}
		b.count.cards[name] = c
	}
	return c
}

// typeOfCard returns the sums of a card and service type.
func (b *countBuilder) typeOfCard(name card.Name, serviceType string) *typeCount {
	types := b.card(name).types
	if types[serviceType] == nil {
		types[serviceType] = &typeCount{}
	}
	return types[serviceType]
}

// serviceType returns the name under which the service type of a queue is shown.
func (b *countBuilder) serviceType(queue string) string {
	return servicetype.DisplayName(b.ServiceTypes[queue])
}

// missingQueues returns the queues that pods name and that do not exist. It always has "", that of pods without a queue.
func (b *countBuilder) missingQueues() map[string]bool {
	missing := map[string]bool{"": true}
	for queue := range b.Usage {
		missing[queue] = true
	}
	for _, queue := range b.Queues {
		delete(missing, queue.Name)
	}
	return missing
}

// addOutside records the pods that use cards without a queue, or in one that does not exist. It also counts the cards of
// those without a queue, which are in the usage of none. In mode Observe they are no anomaly: the forecast names them.
func (b *countBuilder) addOutside() {
	missing := b.missingQueues()
	outside := map[types.UID]bool{}
	for uid, charge := range b.Charges {
		// missing always has "", that of pods without a queue. If it has no other, all queues exist, which
		// saves a look-up for each pod.
		if len(charge.Cards) == 0 || (charge.Queue != "" && (len(missing) == 1 || !missing[charge.Queue])) {
			continue
		}

		outside[uid] = true
	}

	if len(outside) == 0 {
		return
	}

	for _, pod := range b.Pods {
		if outside[pod.UID] {
			b.addOutsidePod(pod)
		}
	}
}

// addOutsidePod records a pod that uses cards without a queue, or in one that does not exist.
func (b *countBuilder) addOutsidePod(pod *corev1.Pod) {
	charge := b.Charges[pod.UID]
	observes := b.QueueOfNamespace != nil
	isCounted := charge.Queue != "" || (observes && b.QueueOfNamespace(pod.Namespace) != "")

	if !isCounted {
		for _, amount := range charge.DistinctCards() {
			b.addUsed(amount.Name, servicetype.None, amount.Count)
		}
	}
	if !observes {
		b.count.outside = append(b.count.outside, outsidePod{pod.Namespace + "/" + pod.Name, pod.Spec.NodeName, charge.Queue, charge.DistinctCards()})
	}
}

// addUsed adds cards that pods of a service type use.
func (b *countBuilder) addUsed(name card.Name, serviceType string, count card.Count) {
	c := b.card(name)
	t := b.typeOfCard(name, serviceType)
	c.allocated = c.allocated.Add(count)
	t.used = t.used.Add(count)
}

// addUsage adds what a queue uses and requests. A pod that may use one of several cards is in the usage with each, but
// counts here only once.
func (b *countBuilder) addUsage(serviceType string, usage queueusage.Usage) {
	for name, count := range usage.CardsInUse() {
		b.addUsed(name, serviceType, count)
	}
	for name, count := range usage.Pending {
		t := b.typeOfCard(name, serviceType)
		t.pending = t.pending.Add(count)
		b.card(name).pending = b.card(name).pending.Add(count)
	}
}

// parentQueues returns the queues of a tree that have children, by name.
func (b *countBuilder) parentQueues() map[string]bool {
	parents := map[string]bool{}
	if !b.Tree.IsFlat() {
		for _, queue := range b.Queues {
			parents[queue.Spec.Parent] = true
		}
	}
	return parents
}

// addQuotas adds the quotas of queues that run work, and what the top level of a tree deserves. In a tree the quota of a
// parent counts by its children, and what queues deserve is a part of what those above them do.
func (b *countBuilder) addQuotas() {
	parents := b.parentQueues() // by the Queues; none while they are flat
	for queue, owner := range b.Owners {
		if owner.DeletionTimestamp != nil {
			continue // it grants nothing
		}

		if len(b.Tree.Children(owner.Name)) == 0 && !parents[queue] {
			b.addQuota(b.serviceType(queue), b.Quotas[queue])
		}
		if !b.Tree.IsFlat() && owner.Spec.Parent == "" {
			b.addDeserved(cardquota.DeservedOf(owner))
		}
	}

	// Queues without a CardQuota grant cards as well, and the inventory must not hide them.
	for queue, granted := range cardquota.UnownedQuotas(slices.Collect(maps.Values(b.Owners)), b.Queues) {
		if !parents[queue] {
			b.addQuota(b.serviceType(queue), granted)
		}
	}

	if !b.Tree.IsFlat() {
		b.addUnownedDeserved()
	}
}

// addQuota adds the quota of a queue of a service type.
func (b *countBuilder) addQuota(serviceType string, granted card.Quota) {
	for name, count := range granted {
		if count > 0 {
			t := b.typeOfCard(name, serviceType)
			t.quota = t.quota.Add(count)
		}
	}
}

// addDeserved adds what a queue deserves.
func (b *countBuilder) addDeserved(deserved card.Quota) {
	for name, count := range deserved {
		c := b.card(name)
		c.deserved = c.deserved.Add(count)
	}
}

// addUnownedDeserved adds what Queues at the top level without a CardQuota deserve. One whose annotation cannot be read
// deserves nothing.
func (b *countBuilder) addUnownedDeserved() {
	for _, queue := range cardquota.TopLevelQueues(b.Queues) {
		text, written := queue.Annotations[v1alpha1.AnnotationCardDeserved]
		if !written || b.Owners[queue.Name] != nil {
			continue
		}
		if deserved, err := card.ParseQuota(text); err == nil {
			b.addDeserved(deserved)
		}
	}
}
