package forecast

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/conditions"
	"cardquota.dev/operator/internal/waiting"
)

// maxListed is how many workloads, namespaces and CardQuotas a list names, as in the schema.
const maxListed = 10

// cardCounts are numbers of cards by the name that users see, or by alternatives joined by "|".
type cardCounts map[string]card.Count

// countCards adds up what some pods use or request.
func countCards(pods []*podRequest, isCounted func(*podRequest) bool) cardCounts {
	counts := cardCounts{}
	for _, pod := range pods {
		if isCounted(pod) {
			pod.addCards(counts)
		}
	}
	return counts
}

// addCards adds the cards that the pod uses, or else those that it requests.
func (p *podRequest) addCards(counts cardCounts) {
	for _, amount := range p.used {
		counts[string(amount.Name)] = counts[string(amount.Name)].Add(amount.Count)
	}

	if p.used == nil && p.request.Count > 0 {
		names := make([]string, len(p.request.Names))
		for i, name := range p.request.Names {
			names[i] = string(name)
		}
		label := strings.Join(names, "|")
		counts[label] = counts[label].Add(p.request.Count)
	}
}

// total returns the number of all cards.
func (c cardCounts) total() (sum card.Count) {
	for _, count := range c {
		sum = sum.Add(count)
	}
	return sum
}

// most returns the name with the most cards, the first one by name of several.
func (c cardCounts) most() string {
	names := slices.Sorted(maps.Keys(c))
	if len(names) == 0 {
		return ""
	}
	return slices.MaxFunc(names, func(a, b string) int {
		return cmp.Or(cmp.Compare(c[a], c[b]), cmp.Compare(b, a))
	})
}

// workloadList has the workloads that Enforce would treat alike.
type workloadList struct {
	cards   card.Count
	entries map[v1alpha1.WorkloadReference]*v1alpha1.ForecastWorkload
}

// add adds some cards of a job. A workload with several jobs has one entry, with the time of the youngest of them.
func (l *workloadList) add(of *job, cards cardCounts, message string) {
	l.addEntry(&v1alpha1.ForecastWorkload{
		Workload: of.workload, Card: cards.most(), Count: int64(cards.total()), Since: of.created, Message: message,
	})
}

// addEntry adds an entry to that of the same workload, or else as another one. Of two with the same time the first by card
// and message stays, in whatever order they come.
func (l *workloadList) addEntry(added *v1alpha1.ForecastWorkload) {
	l.cards = l.cards.Add(card.Count(added.Count))
	if l.entries == nil {
		l.entries = map[v1alpha1.WorkloadReference]*v1alpha1.ForecastWorkload{}
	}

	had := l.entries[added.Workload]
	if had == nil {
		copied := *added
		l.entries[added.Workload] = &copied
		return
	}

	had.Count = int64(card.Count(had.Count).Add(card.Count(added.Count)))
	isYounger := cmp.Or(added.Since.Compare(had.Since.Time), cmp.Compare(had.Card, added.Card), cmp.Compare(had.Message, added.Message)) > 0
	if isYounger {
		had.Since = added.Since
		had.Card = added.Card
		had.Message = added.Message
	}
}

// addAll adds the entries of another list.
func (l *workloadList) addAll(other *workloadList) {
	for _, entry := range other.entries {
		l.addEntry(entry)
	}
}

// status returns the list as it is in status, nil if it is empty. It names so many workloads at most.
func (l *workloadList) status(most int) *v1alpha1.ForecastWorkloads {
	if len(l.entries) == 0 {
		return nil
	}

	all := slices.SortedFunc(maps.Values(l.entries), func(a, b *v1alpha1.ForecastWorkload) int {
		return cmp.Or(b.Since.Compare(a.Since.Time), waiting.CompareWorkloads(&a.Workload, &b.Workload))
	})

	status := &v1alpha1.ForecastWorkloads{Total: int32(min(len(all), math.MaxInt32)), Cards: int64(l.cards)}
	for _, entry := range all[:min(len(all), most)] {
		shown := *entry
		shown.Card = conditions.Truncate(shown.Card, waiting.MaxCardLength)
		shown.Message = conditions.Truncate(shown.Message, conditions.MaxMessageLength)
		waiting.TruncateReference(&shown.Workload)
		status.Workloads = append(status.Workloads, shown)
	}

	return status
}

// policyStatus returns what no CardQuota decides about, with the number of CardQuotas that foretell something. It is nil if
// nothing is foretold.
func (f *forecaster) policyStatus(cardQuotas int) *v1alpha1.PolicyForecast {
	status := &v1alpha1.PolicyForecast{
		CardQuotas: int32(min(cardQuotas, math.MaxInt32)), Unlimited: f.unlimited.status(f.mostListed()), AmbiguousNamespacesTotal: int32(min(len(f.ambiguous), math.MaxInt32)),
	}
	if status.Unlimited == nil && cardQuotas == 0 {
		return nil
	}

	names := slices.Sorted(maps.Keys(f.ambiguous))
	for _, name := range names[:min(len(names), maxListed)] {
		together := f.ambiguous[name]
		status.AmbiguousNamespaces = append(status.AmbiguousNamespaces, v1alpha1.AmbiguousNamespace{
			Name: name, CardQuotas: together[:min(len(together), maxListed)],
		})
	}
	return status
}
