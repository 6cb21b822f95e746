package cardquota

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/queueusage"
	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/waiting"
	"cardquota.dev/operator/internal/workload"
)

// Bounds of the status, as in its schema: entries and bytes.
const (
	MaxStatusCards  = 128
	MaxReasonLength = 256
)

// StatusInput is the input of NewStatus.
type StatusInput struct {
	// Quota is the CardQuota with its previous status.
	Quota *v1alpha1.CardQuota
	// Mode is the mode in force.
	Mode v1alpha1.Mode
	// Queue is its Queue, nil when there is none.
	Queue *v1beta1.Queue
	// Sync is condition QueueSynced, the result of writing the Queue.
	Sync metav1.Condition
	// Usage is what the queue uses with the queues below it, Own what it uses alone. Both are
	// nil before the first count.
	Usage, Own *queueusage.Usage
	// Tree is the tree around the CardQuota.
	Tree *Tree
	// Physical is how many of each card all nodes offer.
	Physical map[card.Name]card.Count
	// Unnamed are the cards of nodes that no label names yet.
	Unnamed []card.UnnamedCards
	// Totals compares what all CardQuotas grant with the healthy cards, nil before the
	// first count.
	Totals *QuotaTotals
	// LocalViews is condition LocalViewsComplete, nil if no LocalCardQuota is missing.
	LocalViews *metav1.Condition
	// Enforced is condition Enforced, nil while it is unknown.
	Enforced *metav1.Condition
	// Forecast is what Enforce would refuse, nil for nothing and in mode Enforce.
	Forecast *v1alpha1.CardQuotaForecast
	// Now is the transition time of changed conditions.
	Now time.Time
}

// NewStatus returns the status. Numbers that are unknown now stay as they were. A CardQuota that does not own
// its queue has no numbers, since they belong to the owner. Physical, what nodes have, changes only with
// another number, or from or to 0. Else each change of a node would rewrite the status of every tenant.
func NewStatus(input StatusInput) v1alpha1.CardQuotaStatus {
	status := *input.Quota.Status.DeepCopy()
	status.ObservedGeneration = input.Quota.Generation
	status.Mode = input.Mode
	status.Queue = &v1alpha1.QueueStatus{Name: input.Quota.QueueName()}
	if input.Queue != nil {
		status.Queue.State = string(input.Queue.Status.State)
		if parent := input.Queue.Spec.Parent; parent != workload.RootQueue {
			status.Queue.Parent = parent
		}
	}

	status.Children = int32(min(len(input.Tree.Children(input.Quota.Name)), math.MaxInt32))
	switch {
	case !ownsQueue(input):
		status.Cards = nil
		status.Summary = ""
		status.PendingSummary = ""
		status.CPU = nil
		status.Memory = nil
		status.Blocked = nil
		status.BlockedTotal = 0
	case input.Usage != nil:
		setUsage(&status, input)
	}

	status.Forecast = nil
	if input.Mode == v1alpha1.ModeObserve && ownsQueue(input) {
		status.Forecast = input.Forecast.DeepCopy() // the answer of the API server overwrites the status, and others read the input
	}

	setConditions(&status, input)
	return keepPhysical(&input.Quota.Status, &status)
}

// keepPhysical returns a status without its changes of physical, if it has no others. What nodes have is
// a fact of the cluster: that it changed is no reason to rewrite the status of every tenant, unless no node
// has a card any more, or a node has it again.
func keepPhysical(before, status *v1alpha1.CardQuotaStatus) v1alpha1.CardQuotaStatus {
	kept := *status.DeepCopy()
	for i := range kept.Cards {
		entry := &kept.Cards[i]
		at := slices.IndexFunc(before.Cards, func(c v1alpha1.CardStatus) bool { return c.Name == entry.Name })
		if at >= 0 && entry.Physical > 0 && before.Cards[at].Physical > 0 {
			entry.Physical = before.Cards[at].Physical
		}
	}

	if equality.Semantic.DeepEqual(*before, kept) {
		return kept
	}

	return *status
}

// setUsage sets the numbers of the status.
func setUsage(s *v1alpha1.CardQuotaStatus, input StatusInput) {
	s.Cards = cardStatuses(input)
	s.Summary = usageSummary(s.Cards)
	s.PendingSummary = pendingSummary(s.Cards)

	var limits v1alpha1.Resources // unset is not limited
	switch {
	case isEmptied(input):
		limits.CPU = resource.NewMilliQuantity(0, resource.DecimalSI)
		limits.Memory = resource.NewQuantity(0, resource.BinarySI)
	case input.Quota.Spec.Resources != nil:
		limits = *input.Quota.Spec.Resources
	}

	s.CPU = &v1alpha1.ResourceStatus{Used: *resource.NewMilliQuantity(input.Usage.MilliCPU, resource.DecimalSI), Quota: limits.CPU}
	s.Memory = &v1alpha1.ResourceStatus{Used: *resource.NewQuantity(input.Usage.Memory, resource.BinarySI), Quota: limits.Memory}
	s.Blocked = waiting.Truncate(input.Usage.Blocked)
	s.BlockedTotal = int32(min(input.Usage.BlockedTotal, math.MaxInt32))
}

// isEmptied reports whether the Queue of a CardQuota that is being deleted has lost its quota.
// A parent keeps it while there are Queues below it.
func isEmptied(input StatusInput) bool {
	return input.Quota.DeletionTimestamp != nil && input.Sync.Reason != v1alpha1.ReasonWaitingForChildren
}

// cardStatuses returns the cards of the spec in its order, then cards that are used or pending without a
// quota. Once the Queue of a deleted CardQuota has lost its quota, every quota is 0 here, too. Free and
// OverQuotaBy are at least 0.
func cardStatuses(input StatusInput) []v1alpha1.CardStatus {
	quota := input.Tree.QuotaFor(input.Quota)
	names := make([]card.Name, 0, len(quota))
	for _, c := range input.Quota.Spec.Cards {
		names = append(names, card.Name(c.Name))
	}

	if isEmptied(input) {
		clear(quota)
	}

	// Cards of the spec come first, so that the bound never cuts a quota.
	names = append(names, ungrantedCards(input, names)...)
	cards := make([]v1alpha1.CardStatus, 0, len(names))
	for _, name := range names[:min(len(names), MaxStatusCards)] {
		used := input.Usage.Used[name]
		entry := v1alpha1.CardStatus{
			Name:        string(name),
			Quota:       int64(quota[name]),
			Used:        int64(used),
			Pending:     int64(input.Usage.Pending[name]),
			Free:        int64(quota[name].Sub(used)),
			OverQuotaBy: int64(used.Sub(quota[name])),
			Physical:    int64(input.Physical[name]),
		}

		input.Tree.setAmountsInForce(&entry, input.Quota.Name)
		cards = append(cards, entry)
	}

	return cards
}

// setAmountsInForce sets what a card's status says about a tree: the numbers in force. Without one, and
// without a path to the top level, it sets nothing.
func (t *Tree) setAmountsInForce(entry *v1alpha1.CardStatus, name string) {
	if t.queueOf(name) == "" || !t.isPlaced(name) {
		return
	}
	limits := t.Resolved(name).Limits
	entry.Deserved = limits.Deserved[quota.Resource(entry.Name)]
	entry.Guarantee = limits.Guarantee[quota.Resource(entry.Name)]
	entry.Borrowed = max(0, entry.Used-entry.Deserved)
}

// ungrantedCards returns the cards that are used or pending without a quota, sorted by
// name. Cards that are used or that a node has come first: tenants can name any number of
// other cards, and those must not displace real ones.
func ungrantedCards(input StatusInput, granted []card.Name) []card.Name {
	seen := make(map[card.Name]bool, len(granted))
	for _, name := range granted {
		seen[name] = true
	}

	var existing, onlyNamed []card.Name
	for _, counts := range []map[card.Name]card.Count{input.Usage.Used, input.Usage.Pending} {
		for name, count := range counts {
			switch {
			case count == 0 || seen[name]:
				continue
			case input.Usage.Used[name] > 0 || input.Physical[name] > 0:
				existing = append(existing, name)
			default:
				onlyNamed = append(onlyNamed, name)
			}
			seen[name] = true
		}
	}

	slices.Sort(existing)
	slices.Sort(onlyNamed)
	return append(existing, onlyNamed...)
}

// maxSummaryWidth is the most characters of a summary of several cards: what a terminal
// shows beside the other columns.
const maxSummaryWidth = 100

// usageSummary returns used/quota per card in one line. Cards above their quota come first,
// so that a shortened line still shows them.
func usageSummary(cards []v1alpha1.CardStatus) string {
	parts := make([]string, 0, len(cards))
	for _, isOver := range []bool{true, false} {
		for _, c := range cards {
			if (c.OverQuotaBy > 0) == isOver {
				parts = append(parts, fmt.Sprintf("%d/%d %s", c.Used, c.Quota, c.Name))
			}
		}
	}
	return JoinSummary(parts, "none")
}

// pendingSummary returns the pending cards in one line.
func pendingSummary(cards []v1alpha1.CardStatus) string {
	var parts []string
	for _, c := range cards {
		if c.Pending > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", c.Pending, c.Name))
		}
	}
	return JoinSummary(parts, "0")
}

// JoinSummary joins the parts of a summary with commas. It counts the parts that do not fit, and
// never cuts a name.
func JoinSummary(parts []string, empty string) string {
	if len(parts) == 0 {
		return empty
	}
	if whole := strings.Join(parts, ", "); len(whole) <= maxSummaryWidth {
		return whole
	}

	short := parts[0]
	for i, part := range parts[1:] {
		more := fmt.Sprintf(", and %d more", len(parts)-1-i)
		if len(short)+len(", ")+len(part)+len(more) > maxSummaryWidth {
			return short + more
		}
		short += ", " + part
	}

	return short
}
