package cardinventory

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/cardquota"
	"cardquota.dev/operator/internal/servicetype"
)

// Bounds of the status, as in its schema.
const (
	MaxCards        = 512
	MaxResources    = 16
	MaxSharing      = 16
	MaxServiceTypes = 34
	MaxAnomalies    = 64
	MaxAnomalyNodes = 20
)

// Input is the input of NewStatus, which does not change it.
type Input struct {
	// Nodes are all nodes, sorted by name.
	Nodes []card.TrackedNode
	// Cards says which resources are cards, also those that no node names any more.
	Cards *card.Inventory
	// Count is the last count of the pods.
	Count *Count
	// Bills is what keeps card-seconds from being stored.
	Bills Bills
	// DeviceSlices are those of dynamic resource allocation.
	DeviceSlices []DeviceSlice
}

// NewStatus returns the status of the CardInventory.
func NewStatus(input Input) v1alpha1.CardInventoryStatus {
	status, _ := NewStatusWithReasons(input)
	return status
}

// NewStatusWithReasons is NewStatus, and also returns how many anomalies there are of each reason. The status lists
// only the first.
func NewStatusWithReasons(input Input) (v1alpha1.CardInventoryStatus, map[v1alpha1.AnomalyReason]int) {
	offers := sumOffers(input.Nodes)
	anomalies := newAnomalyList(input)
	status := v1alpha1.CardInventoryStatus{
		Nodes:          toInt32(anomalies.countNodes(input.Nodes)),
		AnomaliesTotal: toInt32(len(anomalies.byKey)),
		Anomalies:      anomalies.describeFirst(MaxAnomalies),
	}

	cards := make([]v1alpha1.InventoryCard, 0, len(offers))
	for _, name := range orderedNames(offers, input.Count) {
		// Count before the list is cut, so that the number is that of all cards.
		entry := newCard(name, offers[name], input.Count.cards[name])
		if entry.OverAllocatedBy > 0 {
			status.OverAllocatedCards++
		}
		cards = append(cards, entry)
	}

	status.Cards = cards[:min(len(cards), MaxCards)]
	status.Summary = summarize(status.Cards)
	return status, anomalies.countByReason()
}

// offer is what all nodes offer of one card.
type offer struct {
	total, healthy, cordoned card.Count
	resources, sharing       []string
}

// sumOffers adds up what the nodes offer, by card. Cards of nodes that are not ready are in the total only.
// Cards of cordoned nodes are healthy as well.
func sumOffers(nodes []card.TrackedNode) map[card.Name]*offer {
	offers := map[card.Name]*offer{}
	for _, node := range nodes {
		for _, offered := range node.Cards {
			o := offers[offered.Name]
			if o == nil {
				o = &offer{}
				offers[offered.Name] = o
			}

			if !slices.Contains(o.resources, string(offered.Resource)) {
				o.resources = append(o.resources, string(offered.Resource))
			}

			if strategy := node.Sharing[offered.Resource]; strategy != "" && !slices.Contains(o.sharing, strategy) {
				o.sharing = append(o.sharing, strategy)
			}

			o.total = o.total.Add(offered.Count)
			if !node.IsReady {
				continue
			}

			o.healthy = o.healthy.Add(offered.Count)
			if node.IsCordoned {
				o.cordoned = o.cordoned.Add(offered.Count)
			}
		}
	}

	for _, o := range offers {
		slices.Sort(o.resources)
		slices.Sort(o.sharing)
	}

	return offers
}

// orderedNames returns the cards that a node has, by name, then those that are granted or used,
// then those that are only requested: tenants can name any number of cards, and those must not
// displace real ones.
func orderedNames(offers map[card.Name]*offer, count *Count) []card.Name {
	names := slices.Sorted(maps.Keys(offers))
	var granted, requested []card.Name
	for name, c := range count.cards {
		switch {
		case offers[name] != nil:
		case c.granted > 0 || c.allocated > 0 || c.deserved > 0:
			granted = append(granted, name)
		case c.pending > 0:
			requested = append(requested, name)
		}
	}

	slices.Sort(granted)
	slices.Sort(requested)
	return slices.Concat(names, granted, requested)
}

// newCard returns the entry of a card. offered is nil for a card that no node has, counted for a card that no
// quota and no pod names. OverAllocatedBy is 0 for a quota within the healthy cards.
func newCard(name card.Name, offered *offer, counted *cardCount) v1alpha1.InventoryCard {
	if offered == nil {
		offered = &offer{}
	}
	if counted == nil {
		counted = &cardCount{}
	}

	return v1alpha1.InventoryCard{
		Name:            string(name),
		Resources:       offered.resources[:min(len(offered.resources), MaxResources)],
		Sharing:         offered.sharing[:min(len(offered.sharing), MaxSharing)],
		Total:           int64(offered.total),
		Healthy:         int64(offered.healthy),
		Cordoned:        int64(offered.cordoned),
		Allocated:       int64(counted.allocated),
		Quota:           int64(counted.granted),
		Deserved:        int64(counted.deserved),
		OverAllocatedBy: int64(counted.granted.Sub(offered.healthy)),
		ServiceTypes:    serviceTypes(counted.types),
	}
}

// serviceTypes returns the sums by service type, sorted by name, without those that are 0. Types beyond the
// bound are added to those without a type, which always have one place of MaxServiceTypes.
func serviceTypes(types map[string]*typeCount) []v1alpha1.InventoryServiceType {
	var rest typeCount
	var out []v1alpha1.InventoryServiceType
	for _, name := range slices.Sorted(maps.Keys(types)) {
		switch t := types[name]; {
		case *t == typeCount{}:
		case name == servicetype.None || len(out) == MaxServiceTypes-1:
			rest = typeCount{rest.quota.Add(t.quota), rest.used.Add(t.used), rest.pending.Add(t.pending)}
		default:
			out = append(out, newServiceType(name, *t))
		}
	}

	if rest != (typeCount{}) {
		out = append(out, newServiceType(servicetype.None, rest))
		slices.SortFunc(out, func(a, b v1alpha1.InventoryServiceType) int { return cmp.Compare(a.Name, b.Name) })
	}

	return out
}

// newServiceType returns the entry of a service type.
func newServiceType(name string, t typeCount) v1alpha1.InventoryServiceType {
	return v1alpha1.InventoryServiceType{Name: name, Quota: int64(t.quota), Used: int64(t.used), Pending: int64(t.pending)}
}

// summarize returns allocated/total per card in one line, over-allocated cards first. Cards that
// no node has and no pod uses are left out.
func summarize(cards []v1alpha1.InventoryCard) string {
	var parts []string
	for _, over := range []bool{true, false} {
		for _, c := range cards {
			if (c.OverAllocatedBy > 0) == over && (c.Total > 0 || c.Allocated > 0) {
				parts = append(parts, fmt.Sprintf("%d/%d %s", c.Allocated, c.Total, c.Name))
			}
		}
	}
	return cardquota.JoinSummary(parts, "none")
}

// toInt32 returns a number as the API has it, at most the largest one.
func toInt32(n int) int32 { return int32(min(n, math.MaxInt32)) }
