package observer

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/test/observer/rule"
)

// inventoryObject is the one CardInventory in violations.
const inventoryObject = "cardinventory/" + v1alpha1.InventoryName

// Bounds of lists in the CardInventory.
const (
	maxInventoryCards     = 512
	maxInventoryAnomalies = 64
	maxAnomalyNodes       = 20
)

// entryState is the record of one entry that is compared with a recount, such as a card of the
// CardInventory. Many tests change the cluster at the same time, so all entries may never be right
// at once. Each must be right at some moment.
type entryState struct {
	wrong string
	// since is when it began to be wrong in this way.
	since    time.Time
	right    time.Time
	reported bool
}

// checkEntries updates the records of entries and reports those that were wrong in one way for too
// long. It returns those as open that were not right since the last call of Settle.
func (m *clusterState) checkEntries(states map[string]*entryState, seen []string, wrong map[string]string, within time.Duration, now time.Time,
	report func(since time.Time, text string),
) (open []string) {
	recordRightEntries(states, seen, wrong, now)
	for _, key := range slices.Sorted(maps.Keys(wrong)) {
		state := states[key]
		if state == nil {
			state = &entryState{}
			states[key] = state
		}

		if state.wrong != wrong[key] {
			state.wrong = wrong[key]
			state.since = now
			state.reported = false
		}

		switch {
		case state.reported:
		case now.Sub(state.since) >= within:
			state.reported = true
			report(state.since, wrong[key])
		case state.right.IsZero() || state.right.Before(m.settling):
			open = append(open, wrong[key])
		}
	}

	return open
}

// recordRightEntries updates the records of entries that are right, and drops those of entries that
// are gone.
func recordRightEntries(states map[string]*entryState, seen []string, wrong map[string]string, now time.Time) {
	for key := range states {
		if wrong[key] == "" && !slices.Contains(seen, key) {
			delete(states, key)
		}
	}

	for _, key := range seen {
		if states[key] == nil && wrong[key] == "" {
			states[key] = &entryState{}
		}
		if wrong[key] == "" {
			*states[key] = entryState{right: now}
		}
	}
}

// checkInventory compares the CardInventory with a recount.
func (m *clusterState) checkInventory(now time.Time) (open []string) {
	if m.excused[Status] > 0 || m.ignoresInventory || !m.options.Concerns(inventoryObject) {
		clear(m.inventoryErrors)
		return nil
	}
	if m.stated == nil && !m.operatorWrote() {
		return nil
	}

	seen := []string{"cluster"}
	wrong := map[string]string{}
	if m.stated == nil {
		wrong["cluster"] = "it does not exist"
	} else {
		seen, wrong = inventoryDifferences(&m.stated.Status, m.recountInventory())
	}

	open = m.checkEntries(m.inventoryErrors, seen, wrong, m.options.InventoryWithin, now, func(since time.Time, text string) {
		m.addViolation(Status, now, inventoryObject, "since %s: %s", since.Format("15:04:05.000"), text)
	})
	for i := range open {
		open[i] = inventoryObject + ": " + open[i]
	}

	return open
}

// operatorWrote reports whether an operator has written the status of a CardQuota.
func (m *clusterState) operatorWrote() bool {
	for _, state := range m.quotas {
		if len(state.quota.Status.Conditions) > 0 {
			return true
		}
	}
	return false
}

// inventoryDifferences returns all entries of the CardInventory and of a recount, and how some of
// them differ.
func inventoryDifferences(said *v1alpha1.CardInventoryStatus, r *inventoryRecount) (seen []string, wrong map[string]string) {
	wrong = map[string]string{}
	compare := func(key, difference string) {
		seen = append(seen, key)
		if difference != "" {
			wrong[key] = addPrefix(key+": ", difference)
		}
	}

	stated := map[string]*v1alpha1.InventoryCard{}
	for i := range said.Cards {
		stated[said.Cards[i].Name] = &said.Cards[i]
	}

	listed := r.sortedCards()
	over := int32(0)
	for _, name := range listed {
		if c := r.cards[name]; c.quota > c.healthy {
			over++
		}
		if stated[name] != nil || len(listed) <= maxInventoryCards {
			compare("card "+name, cardDifference(stated[name], r.cards[name]))
		}
		delete(stated, name)
	}

	for name := range stated {
		compare("card "+name, "no node has it, and nothing names it")
	}
	for key, difference := range anomalyDifferences(said, r) {
		compare(key, difference)
	}

	compare("nodes", numberDifference(int64(said.Nodes), int64(len(r.nodes))))
	compare("overAllocatedCards", numberDifference(int64(said.OverAllocatedCards), int64(over)))
	return seen, wrong
}

func numberDifference(said, counted int64) string {
	if said == counted {
		return ""
	}
	return fmt.Sprintf("it is %d, a recount gives %d", said, counted)
}

// addPrefix returns a text behind a prefix, "" for no text.
func addPrefix(prefix, text string) string {
	if text == "" {
		return ""
	}
	return prefix + text
}

// cardDifference returns how an entry differs from a recount, "" if it does not.
func cardDifference(said *v1alpha1.InventoryCard, c *recountedCard) string {
	isOnlyUncertain := c.isUncertain && !c.isOffered && c.quota == 0 && c.deserved == 0
	if said == nil && isOnlyUncertain {
		return "" // a pod may use it, and is counted under another card
	}
	if said == nil {
		return "it is not listed, a recount gives " + c.format()
	}

	slices.Sort(c.resources)
	stated := &recountedCard{
		resources: said.Resources, total: said.Total, healthy: said.Healthy, cordoned: said.Cordoned, allocated: said.Allocated,
		quota: said.Quota, deserved: said.Deserved, types: map[string]typeSums{},
	}

	for _, t := range said.ServiceTypes {
		stated.types[t.Name] = typeSums{t.Quota, t.Used, t.Pending}
	}
	if c.isUncertain {
		stated.allocated = c.allocated
		stated.types = c.types
	}

	a := stated.format()
	b := c.format()
	if a != b {
		return fmt.Sprintf("it is %s, a recount gives %s", a, b)
	}

	return addPrefix("overAllocatedBy: ", numberDifference(said.OverAllocatedBy, max(0, c.quota-c.healthy)))
}

func (c *recountedCard) format() string {
	text := fmt.Sprintf("%v total %d healthy %d cordoned %d allocated %d quota %d deserved %d", c.resources, c.total, c.healthy, c.cordoned, c.allocated, c.quota, c.deserved)
	for _, name := range slices.Sorted(maps.Keys(c.types)) {
		text += fmt.Sprintf(", %s: quota %d used %d pending %d", name, c.types[name].quota, c.types[name].used, c.types[name].pending)
	}
	return text
}

// anomalyDifferences compares the anomalies, several texts of one reason and card together.
func anomalyDifferences(said *v1alpha1.CardInventoryStatus, r *inventoryRecount) map[string]string {
	out := map[string]string{}
	stated := map[anomalyKey][]v1alpha1.InventoryAnomaly{}
	for _, a := range said.Anomalies {
		name := a.Card
		if name == "" {
			name = a.Resource
		}
		key := anomalyKey{a.Reason, name}
		stated[key] = append(stated[key], a)
	}

	isComplete := said.AnomaliesTotal <= maxInventoryAnomalies
	if len(said.Anomalies) != int(min(said.AnomaliesTotal, maxInventoryAnomalies)) {
		out["anomaliesTotal"] = fmt.Sprintf("it is %d, and %d are listed", said.AnomaliesTotal, len(said.Anomalies))
	}

	for key, a := range r.anomalies {
		if _, isListed := stated[key]; !a.isUncertain && (isListed || isComplete) {
			out[key.format()] = a.difference(stated[key])
		}

		if key.reason == v1alpha1.AnomalyModelChanged {
			for _, entry := range stated[key] {
				r.addNodes(entry.Nodes)
			}
		}
		delete(stated, key)
	}

	for key, entries := range stated {
		if !r.acceptUnseen(key, entries) {
			out[key.format()] = "a recount finds none"
		}
	}

	return out
}

// acceptUnseen reports whether an anomaly may be right although a recount does not find it, and counts its
// nodes then.
func (r *inventoryRecount) acceptUnseen(key anomalyKey, entries []v1alpha1.InventoryAnomaly) bool {
	switch key.reason {
	case v1alpha1.AnomalyBillsNotStored, v1alpha1.AnomalyBillDaysDropped:
		return true // the observer does not see which writes of the operator are refused
	case v1alpha1.AnomalyResourceClaimCards: // it does not watch ResourceSlices
	case v1alpha1.AnomalyUnmappedResource: // it does not know every device plugin
		if !rule.MayBeVendorCard(key.name) {
			return false
		}
	default:
		return false
	}

	for _, entry := range entries {
		r.addNodes(entry.Nodes)
	}
	return true
}

// addNodes adds nodes that count because of an anomaly that only the operator knows in detail.
func (r *inventoryRecount) addNodes(names []string) {
	for _, name := range names {
		r.nodes[name] = true
	}
}

func (k anomalyKey) format() string {
	return strings.TrimSpace(fmt.Sprintf("anomaly %s %s", k.reason, k.name))
}

// difference returns how the entries of an anomaly differ from a recount.
func (a *recountedAnomaly) difference(said []v1alpha1.InventoryAnomaly) string {
	count := int64(0)
	total := 0
	nodes := map[string]bool{}
	for _, entry := range said {
		count += entry.Count
		total += int(entry.NodesTotal)
		for _, node := range entry.Nodes {
			nodes[node] = true
		}

		if len(entry.Nodes) > 0 && !strings.Contains(entry.Message, entry.Nodes[0]) {
			return "its message does not name node " + entry.Nodes[0]
		}
	}

	isSame := count == a.count && total == len(a.nodes) && len(nodes) >= min(total, maxAnomalyNodes)
	for node := range nodes {
		isSame = isSame && a.nodes[node]
	}

	if isSame {
		return ""
	}

	return fmt.Sprintf("it is %d cards on %d nodes %v, a recount gives %d on %v", count, total, slices.Sorted(maps.Keys(nodes)), a.count, slices.Sorted(maps.Keys(a.nodes)))
}
