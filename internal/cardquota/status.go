package cardquota

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/conditions"
)

// Bounds of the status, those of its schema: entries and bytes.
const (
	MaxStatusCards       = 128
	MaxBlocked           = 10
	MaxSummaryLength     = 1024
	MaxReasonLength      = 256
	MaxBlockedCardLength = 2600 // 16 alternatives of 160
)

// StatusInput are everything that a status is made of.
type StatusInput struct {
	// Quota is the CardQuota with the status it had.
	Quota *v1alpha1.CardQuota
	// Queue is its Queue, nil when there is none.
	Queue *v1beta1.Queue
	// Sync is how writing the Queue went: condition QueueSynced.
	Sync metav1.Condition
	// Usage is what the queue uses, nil when it was not counted yet.
	Usage *Usage
	// Physical is how many of each card all nodes offer.
	Physical map[card.Name]card.Count
	// Balance compares what all CardQuotas grant with the healthy cards, nil when
	// that was not found out yet.
	Balance *QuotaTotals
	// Enforced is whether the quota is proven to be enforced, nil when that was
	// not found out yet.
	Enforced *metav1.Condition
	// Now is the time of conditions that change.
	Now time.Time
}

// NewStatus returns the status that the facts make. Numbers that cannot be known now
// stay as they were, except in a CardQuota that does not have its queue: the
// numbers are another one's there, and are cleared.
func NewStatus(f StatusInput) v1alpha1.CardQuotaStatus {
	status := *f.Quota.Status.DeepCopy()
	status.ObservedGeneration = f.Quota.Generation
	status.Queue = &v1alpha1.QueueStatus{Name: f.Quota.QueueName()}
	if f.Queue != nil {
		status.Queue.State = string(f.Queue.Status.State)
	}
	switch {
	case !ownsQueue(f):
		status.Cards, status.Summary, status.PendingSummary = nil, "", ""
		status.CPU, status.Memory, status.Blocked, status.BlockedTotal = nil, nil, nil, 0
	case f.Usage != nil:
		setUsage(&status, f)
	}
	setConditions(&status, f)
	return status
}

// maxNameLength is the most bytes of what names a workload: whoever makes a pod
// writes what he likes as its owner.
const maxNameLength = 253

// setUsage fills in the numbers.
func setUsage(s *v1alpha1.CardQuotaStatus, f StatusInput) {
	s.Cards = cardStatuses(f)
	s.Summary, s.PendingSummary = usageSummary(s.Cards), pendingSummary(s.Cards)
	var limits v1alpha1.Resources
	if f.Quota.Spec.Resources != nil && f.Quota.DeletionTimestamp == nil {
		limits = *f.Quota.Spec.Resources
	}
	s.CPU = &v1alpha1.ResourceStatus{Used: *resource.NewMilliQuantity(f.Usage.MilliCPU, resource.DecimalSI), Quota: limits.CPU}
	s.Memory = &v1alpha1.ResourceStatus{Used: *resource.NewQuantity(f.Usage.Memory, resource.BinarySI), Quota: limits.Memory}
	s.Blocked, s.BlockedTotal = slices.Clone(f.Usage.Blocked), int32(min(f.Usage.BlockedTotal, math.MaxInt32))
	for i := range s.Blocked {
		b := &s.Blocked[i]
		w := &b.Workload
		w.APIGroup, w.Kind, w.Name = conditions.Truncate(w.APIGroup, maxNameLength), conditions.Truncate(w.Kind, maxNameLength), conditions.Truncate(w.Name, maxNameLength)
		b.Card = conditions.Truncate(b.Card, MaxBlockedCardLength)
		b.Reason, b.Message = conditions.Truncate(b.Reason, MaxReasonLength), conditions.Truncate(b.Message, conditions.MaxMessageLength)
	}
}

// cardStatuses lists the cards of the spec in its order, then what is used or
// waited for without a quota. While a CardQuota is being deleted
// every quota is 0, as on its Queue.
func cardStatuses(f StatusInput) []v1alpha1.CardStatus {
	quota := QuotaOf(f.Quota)
	names := make([]card.Name, 0, len(quota))
	for _, c := range f.Quota.Spec.Cards {
		names = append(names, card.Name(c.Name))
	}
	if f.Quota.DeletionTimestamp != nil {
		clear(quota)
	}
	names = append(names, ungrantedCards(f, names)...)
	cards := make([]v1alpha1.CardStatus, 0, len(names))
	for _, name := range names[:min(len(names), MaxStatusCards)] {
		used := f.Usage.Used[name]
		cards = append(cards, v1alpha1.CardStatus{
			Name:        string(name),
			Quota:       int64(quota[name]),
			Used:        int64(used),
			Pending:     int64(f.Usage.Pending[name]),
			Free:        int64(quota[name].Sub(used)),
			OverQuotaBy: int64(used.Sub(quota[name])),
			Physical:    int64(f.Physical[name]),
		})
	}
	return cards
}

// ungrantedCards lists the cards that are used or waited for without being granted:
// first those that are used or that some node has, then what pods merely name, each
// by name. Whoever may create pods can name any number of them, and must not push
// out of the list what is real.
func ungrantedCards(f StatusInput, granted []card.Name) []card.Name {
	seen := make(map[card.Name]bool, len(granted))
	for _, name := range granted {
		seen[name] = true
	}
	var held, named []card.Name
	for _, counts := range []map[card.Name]card.Count{f.Usage.Used, f.Usage.Pending} {
		for name, count := range counts {
			switch {
			case count == 0 || seen[name]:
				continue
			case f.Usage.Used[name] > 0 || f.Physical[name] > 0:
				held = append(held, name)
			default:
				named = append(named, name)
			}
			seen[name] = true
		}
	}
	slices.Sort(held)
	slices.Sort(named)
	return append(held, named...)
}

// maxSummaryWidth is the most characters of a summary that names several cards: what
// a terminal shows beside the other columns.
const maxSummaryWidth = 100

// usageSummary is used/quota per card in one line. Cards over quota come first, so
// that they are seen in a line that had to be shortened.
func usageSummary(cards []v1alpha1.CardStatus) string {
	parts := make([]string, 0, len(cards))
	for _, over := range []bool{true, false} {
		for _, c := range cards {
			if (c.OverQuotaBy > 0) == over {
				parts = append(parts, fmt.Sprintf("%d/%d %s", c.Used, c.Quota, c.Name))
			}
		}
	}
	return joinWithinWidth(parts, "none")
}

// pendingSummary is what waits per card in one line.
func pendingSummary(cards []v1alpha1.CardStatus) string {
	var parts []string
	for _, c := range cards {
		if c.Pending > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", c.Pending, c.Name))
		}
	}
	return joinWithinWidth(parts, "0")
}

// joinWithinWidth joins parts with commas. What does not fit is counted, never cut in the
// middle of a name.
func joinWithinWidth(parts []string, empty string) string {
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
