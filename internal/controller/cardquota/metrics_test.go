package cardquota

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/cardquota"
	"cardquota.dev/operator/internal/queueusage"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/waiting"
)

// TestMetricsFollowTheStatusOfACardQuota: queue q has numbers of two cards, of which H200 is used beyond its quota of
// 8. Then its CardQuota is in a tree, where queues deserve cards, and has H200 alone: the series of H800 end. Another
// CardQuota takes the queue over, so the end of the first one ends no series. The end of the second CardQuota ends all.
func TestMetricsFollowTheStatusOfACardQuota(t *testing.T) {
	metrics := newMetricsCollector()
	h200 := v1alpha1.CardStatus{Name: "NVIDIA-H200", Quota: 8, Used: 9, Pending: 2, OverQuotaBy: 1}
	team := queueMetrics{
		quota: "team", tenant: "lab", project: "llm", serviceType: "training", parent: "org",
		cards:  []v1alpha1.CardStatus{h200, {Name: "NVIDIA-H800", Quota: 1}},
		oldest: time.Unix(1700000000, 5), oldestWithinQuota: time.Unix(1700000001, 0),
		blocked: map[v1alpha1.BlockedReason]card.Count{v1alpha1.BlockedNoFreeCard: 2},
	}
	metrics.setQueue("q", team)
	check.Equal(t, "series of quotas: both cards", 2, testutil.CollectAndCount(metrics, "cardquota_quota_cards"))
	check.Equal(t, "series over quota: H200", 1, testutil.CollectAndCount(metrics, "cardquota_over_quota_cards"))
	check.Equal(t, "series of deserved cards of a flat queue", 0, testutil.CollectAndCount(metrics, "cardquota_deserved_cards"))

	h200.Deserved = 4
	team.cards = []v1alpha1.CardStatus{h200}
	team.isInTree = true
	metrics.setQueue("q", team)

	want := `
cardquota_blocked_cards{queue="q",reason="NoFreeCard"} 2
cardquota_deserved_cards{card="NVIDIA-H200",queue="q"} 4
cardquota_oldest_pending_timestamp_seconds{queue="q"} 1.7e+09
cardquota_oldest_pending_within_quota_timestamp_seconds{queue="q"} 1.700000001e+09
cardquota_over_quota_cards{card="NVIDIA-H200",queue="q"} 1
cardquota_pending_cards{card="NVIDIA-H200",queue="q"} 2
cardquota_queue_info{cardquota="team",parent="org",project="llm",queue="q",service_type="training",tenant="lab"} 1
cardquota_quota_cards{card="NVIDIA-H200",queue="q"} 8
cardquota_used_cards{card="NVIDIA-H200",queue="q"} 9
`
	check.Equal(t, "series in a tree, without H800", want, seriesOf(t, metrics))

	team.quota = "successor"
	metrics.setQueue("q", team)
	metrics.forgetQuota("team")
	check.Equal(t, "series of used cards when the queue has another CardQuota", 1, testutil.CollectAndCount(metrics, "cardquota_used_cards"))

	metrics.forgetQuota("successor")
	check.Equal(t, "series without a CardQuota", "\n", seriesOf(t, metrics))
}

// seriesOf returns the series of a collector as text: gauges with their value, histograms with
// their count and sum.
func seriesOf(t *testing.T, collector prometheus.Collector) string {
	registry := prometheus.NewPedanticRegistry()
	check.NoError(t, registry.Register(collector))
	series := "\n"
	for _, family := range check.Value(registry.Gather())(t) {
		for _, m := range family.GetMetric() {
			var pairs []string
			for _, pair := range m.GetLabel() {
				pairs = append(pairs, fmt.Sprintf("%s=%q", pair.GetName(), pair.GetValue()))
			}

			value := fmt.Sprint(m.GetGauge().GetValue())
			if histogram := m.GetHistogram(); histogram != nil {
				value = fmt.Sprint(histogram.GetSampleCount(), " ", histogram.GetSampleSum())
			}
			series += fmt.Sprintf("%s{%s} %s\n", family.GetName(), strings.Join(pairs, ","), value)
		}
	}

	return series
}

// TestCardsWithoutNumbersHaveNoSeries: a CardQuota may list every card of the fleet. So a card has series only if its
// quota, deserved, used or pending cards are not zero. Then quota, deserved, used and pending come together, 4 series,
// and a fifth for cards over the quota. Of a card that no node has (Physical is 0), without quota and use, there is
// only the series of pending cards. Each row gives the numbers of H200; the queue also lists H800 without numbers.
func TestCardsWithoutNumbersHaveNoSeries(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		h200       v1alpha1.CardStatus
		wantSeries int
	}{
		"no numbers":                    {v1alpha1.CardStatus{Physical: 8}, 0},
		"a guarantee alone":             {v1alpha1.CardStatus{Physical: 8, Guarantee: 1}, 0},
		"quota":                         {v1alpha1.CardStatus{Quota: 1}, 4},
		"deserved without a quota":      {v1alpha1.CardStatus{Physical: 8, Deserved: 1}, 4},
		"used without a quota":          {v1alpha1.CardStatus{Used: 1, OverQuotaBy: 1}, 5},
		"pending":                       {v1alpha1.CardStatus{Physical: 8, Pending: 1}, 4},
		"pending, no node has the card": {v1alpha1.CardStatus{Pending: 1}, 1},
	}) {
		metrics := newMetricsCollector()
		tc.h200.Name = "NVIDIA-H200"

		// In a tree queues deserve cards.
		metrics.setQueue("q", queueMetrics{isInTree: true, cards: []v1alpha1.CardStatus{tc.h200, {Name: "NVIDIA-H800", Physical: 8}}})
		check.Equal(t, "series of cards", tc.wantSeries, testutil.CollectAndCount(metrics)-testutil.CollectAndCount(metrics, "cardquota_queue_info"))
	}
}

// TestSeriesEndWithTheirNumbers: queue q uses 2 cards without quota, and then no card. The series of its cards end, so
// that no alert goes on for their last value. Only the information about the queue stays.
func TestSeriesEndWithTheirNumbers(t *testing.T) {
	metrics := newMetricsCollector()
	metrics.setQueue("q", queueMetrics{cards: []v1alpha1.CardStatus{{Name: "NVIDIA-H200", Physical: 8, Used: 2, OverQuotaBy: 2}}})
	check.Equal(t, "series over the quota", 1, testutil.CollectAndCount(metrics, "cardquota_over_quota_cards"))

	metrics.setQueue("q", queueMetrics{cards: []v1alpha1.CardStatus{{Name: "NVIDIA-H200", Physical: 8}}})
	check.Equal(t, "series of a queue that uses no card", 1, testutil.CollectAndCount(metrics))
}

// TestAnInvalidNameLosesOnlyItsOwnSeries: Prometheus refuses a page with a label that is no UTF-8, such as "\xff". So
// the collector skips the series with the tenant and the card of that name, and shows those of H200.
func TestAnInvalidNameLosesOnlyItsOwnSeries(t *testing.T) {
	metrics := newMetricsCollector()
	metrics.setQueue("q", queueMetrics{tenant: "\xff", cards: []v1alpha1.CardStatus{{Name: "\xff", Quota: 1}, {Name: "NVIDIA-H200", Quota: 1}}})
	check.Equal(t, "series", `
cardquota_pending_cards{card="NVIDIA-H200",queue="q"} 0
cardquota_quota_cards{card="NVIDIA-H200",queue="q"} 1
cardquota_used_cards{card="NVIDIA-H200",queue="q"} 0
`, seriesOf(t, metrics))
}

// TestSeriesComeInTheOrderOfThePage: the client library sorts the series of a page, which takes most of the time of a
// scrape unless they come in order. So those of each metric come by card, and for a card by queue. Here 20 CardQuotas
// have 20 cards with 4 series each.
func TestSeriesComeInTheOrderOfThePage(t *testing.T) {
	sent := make(chan prometheus.Metric, 10_000)
	newFleet(20, listedCards).Collect(sent)
	close(sent)

	last := map[*prometheus.Desc]string{}
	compared := 0
	for metric := range sent {
		gauge, isByCard := metric.(*cardGauge)
		if !isByCard {
			continue
		}

		key := gauge.pairs[0].GetValue() + " " + gauge.pairs[1].GetValue()
		check.That(t, last[gauge.desc] < key, "%s comes after %s", key, last[gauge.desc])
		last[gauge.desc] = key
		compared++
	}

	check.Equal(t, "series by card", 20*listedCards*4, compared)
}

// TestAScrapeSeesOneCount: each count of the pods replaces the numbers of a queue. A scrape at the same time
// must see the numbers of one count. Here all 6 values of a count are equal: quota, used and pending of cards A
// and B. One goroutine replaces them a thousand times.
func TestAScrapeSeesOneCount(t *testing.T) {
	metrics := newMetricsCollector()
	replace := func(count int64) {
		metrics.setQueue("q", queueMetrics{cards: []v1alpha1.CardStatus{{Name: "A", Quota: count, Used: count, Pending: count}, {Name: "B", Quota: count, Used: count, Pending: count}}})
	}

	replace(1)
	var writer sync.WaitGroup
	writer.Go(func() {
		for i := range int64(1000) {
			replace(i + 1)
		}
	})

	registry := prometheus.NewPedanticRegistry()
	check.NoError(t, registry.Register(metrics))
	for range 100 {
		families := check.Value(registry.Gather())(t)

		values := map[float64]bool{}
		for _, family := range families {
			for _, metric := range family.GetMetric() {
				if family.GetName() != "cardquota_queue_info" {
					values[metric.GetGauge().GetValue()] = true
				}
			}
		}
		// The fourth metric is cardquota_queue_info.
		check.Must(t, len(families) == 4 && len(values) == 1, "a scrape sees a part of a change: %v", families)
	}

	writer.Wait()
}

// TestUnknownCardsAreOneSeries: a user who may create pods may request cards that do not exist, and other ones each
// minute. So the pending cards of all names without quota, use and nodes are one series "unknown": 3 + 4 cards here.
func TestUnknownCardsAreOneSeries(t *testing.T) {
	metrics := newMetricsCollector()
	metrics.setQueue("q", queueMetrics{cards: []v1alpha1.CardStatus{
		{Name: "NVIDIA-H200", Quota: 8},
		{Name: "on-a-node", Physical: 4, Pending: 1},
		{Name: "used", Used: 1},
		{Name: "made-up", Pending: 3},
		{Name: "made-up-too", Pending: 4},
	}})

	check.Contains(t, "series", seriesOf(t, metrics), `
cardquota_pending_cards{card="NVIDIA-H200",queue="q"} 0
cardquota_pending_cards{card="on-a-node",queue="q"} 1
cardquota_pending_cards{card="unknown",queue="q"} 7
cardquota_pending_cards{card="used",queue="q"} 0
cardquota_queue_info`)
	check.Equal(t, "series of quota and use of the first three cards", 6, testutil.CollectAndCount(metrics, "cardquota_quota_cards", "cardquota_used_cards"))
}

// TestACardNamedUnknownIsNoSecondSeries: Prometheus refuses a page that has one series twice. A CardQuota may grant a
// card with the name "unknown", so its pending card adds to the 3 of the made-up name.
func TestACardNamedUnknownIsNoSecondSeries(t *testing.T) {
	metrics := newMetricsCollector()
	metrics.setQueue("q", queueMetrics{cards: []v1alpha1.CardStatus{{Name: "unknown", Quota: 2, Pending: 1}, {Name: "made-up", Pending: 3}}})
	check.Contains(t, "series", seriesOf(t, metrics), `cardquota_pending_cards{card="unknown",queue="q"} 4`+"\n")
}

// TestSeriesOfAQueueAreBounded: docs/metrics.md states the bound by which users plan Prometheus. It is 3 series
// for each queue, one for each reason for which pods are blocked (here 2), 5 for each card, and 2 for each outcome of the
// forecast (here 5, all that there are). Each number here has a series.
func TestSeriesOfAQueueAreBounded(t *testing.T) {
	for _, cards := range []int{0, 1, 20, cardquota.MaxStatusCards} {
		numbers := queueMetrics{
			oldest: time.Unix(1, 0), oldestWithinQuota: time.Unix(1, 0), isInTree: true,
			blocked:  map[v1alpha1.BlockedReason]card.Count{v1alpha1.BlockedNoFreeCard: 1, v1alpha1.BlockedQuotaExhausted: 1},
			forecast: newForecastMetrics(wholeForecast()),
		}
		for i := range cards {
			numbers.cards = append(numbers.cards, v1alpha1.CardStatus{Name: fmt.Sprintf("card-%d", i), Quota: 1, Used: 2, Pending: 3, OverQuotaBy: 1})
		}

		metrics := newMetricsCollector()
		metrics.setQueue("q", numbers)
		series := testutil.CollectAndCount(metrics)
		check.That(t, series <= 3+2+10+5*cards, "%d cards have %d series, more than 3 + 2 reasons + 2 × 5 outcomes + 5 × %d", cards, series, cards)
	}
}

// TestACountRecordsItsTimeAndHowLongPodsWaited: a pod that is bound since the last count is one observation
// of how long it waited, here 20 seconds. A pod that was bound before the first count is no observation: the
// operator that ran at that time observed it. A count of the same pods observes nothing more. A count also
// records when it was. All metrics pass Prometheus' linter.
func TestACountRecordsItsTimeAndHowLongPodsWaited(t *testing.T) {
	created := time.Date(2026, 11, 23, 9, 0, 0, 0, time.UTC)
	boundAfter := func(name string, waited time.Duration) *corev1.Pod {
		p := builder.Pod("lab", name).Queue("web").GPUs(2).Created(created).Running("a").Obj()
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(created.Add(waited))})
		return p
	}

	stores := newObjectStores()
	stores.quotas = newStore(builder.CardQuota("web").ServiceType("inference").Card("NVIDIA-H200", 8).Tenant("lab").Obj())
	stores.pods = newStore(boundAfter("old", time.Hour))
	collector := newCollector(trackNodes(builder.Node("a").GPUs("NVIDIA-H200", 8).Obj()))
	check.Equal(t, "times of a count before the first one", 0, testutil.CollectAndCount(collector.metrics.lastCount))

	before := time.Now()
	collector.countUsage(stores)
	check.Equal(t, "series of pods that were bound before the first count", 0, testutil.CollectAndCount(collector.metrics.waited))
	last := testutil.ToFloat64(collector.metrics.lastCount)
	check.That(t, last >= float64(before.Unix()) && last <= float64(time.Now().Unix()+1), "the last count was at %v", last)

	check.NoError(t, stores.pods.Add(boundAfter("new", 20*time.Second)))
	// This pod has no condition PodScheduled, so it is no observation.
	check.NoError(t, stores.pods.Add(builder.Pod("lab", "undated").Queue("web").GPUs(2).Running("a").Obj()))
	collector.countUsage(stores)
	collector.countUsage(stores)
	want := "\n" + `cardquota_pod_bound_seconds{card="NVIDIA-H200",service_type="inference"} 1 20` + "\n"
	check.Equal(t, "observations, and their sum in seconds", want, seriesOf(t, collector.metrics.waited))

	for _, metric := range Metrics() {
		check.Equal(t, "problems that Prometheus' linter finds", nil, check.Value(testutil.CollectAndLint(metric))(t))
	}
}

// TestAQueueWithoutCardsHasMetrics: pods may wait for CPU in a queue without cards. So a status with CPU and no card
// has a series. The status of a CardQuota that does not own its queue has no CPU either, and no series.
func TestAQueueWithoutCardsHasMetrics(t *testing.T) {
	r := &reconciliation{Reconciler: &Reconciler{metrics: newMetricsCollector()}, quota: builder.CardQuota("cpu-only").Obj(), tree: cardquota.Flat}
	r.updateMetrics(&v1alpha1.CardQuotaStatus{CPU: &v1alpha1.ResourceStatus{}})
	check.Equal(t, "series of a queue without cards", 1, testutil.CollectAndCount(r.metrics, "cardquota_queue_info"))

	r.updateMetrics(&v1alpha1.CardQuotaStatus{})
	check.Equal(t, "series without a queue", 0, testutil.CollectAndCount(r.metrics))
}

// TestMetricsShowTheStatusOfALeaf: CardQuota leaf asks to deserve 8 cards, and its status has the 3 that are
// in force, so the metric is 3. A parent has only cardquota_queue_info: its numbers contain those of the
// queues below it, so a sum over all queues would count these twice.
func TestMetricsShowTheStatusOfALeaf(t *testing.T) {
	quota := builder.CardQuota("leaf").Tenant("lab").Parent("top").Card("H200", 8).Deserves(8).Obj()
	status := v1alpha1.CardQuotaStatus{
		CPU:   &v1alpha1.ResourceStatus{}, // each counted status has one
		Cards: []v1alpha1.CardStatus{{Name: "H200", Quota: 8, Used: 9, Pending: 2, OverQuotaBy: 1, Deserved: 3}},
	}
	usage := &queueusage.Usage{
		OldestPending: metav1.Unix(5, 0),
		Summary: waiting.Summary{
			BlockedCards:      map[v1alpha1.BlockedReason]card.Count{v1alpha1.BlockedNoFreeCard: 2},
			OldestWithinQuota: metav1.Unix(6, 0),
		},
	}
	r := &reconciliation{Reconciler: &Reconciler{metrics: newMetricsCollector()}, quota: quota, tree: cardquota.NewTree(nil, nil, ""), usage: usage}

	const info = `cardquota_queue_info{cardquota="leaf",parent="top",project="",queue="leaf",service_type="training",tenant="lab"} 1` + "\n"
	r.updateMetrics(&status)
	check.Equal(t, "series of a leaf", `
cardquota_blocked_cards{queue="leaf",reason="NoFreeCard"} 2
cardquota_deserved_cards{card="H200",queue="leaf"} 3
cardquota_oldest_pending_timestamp_seconds{queue="leaf"} 5
cardquota_oldest_pending_within_quota_timestamp_seconds{queue="leaf"} 6
cardquota_over_quota_cards{card="H200",queue="leaf"} 1
cardquota_pending_cards{card="H200",queue="leaf"} 2
`+info+`cardquota_quota_cards{card="H200",queue="leaf"} 8
cardquota_used_cards{card="H200",queue="leaf"} 9
`, seriesOf(t, r.metrics))

	status.Children = 1
	r.updateMetrics(&status)
	check.Equal(t, "series of a parent", "\n"+info, seriesOf(t, r.metrics))
}

// wholeForecast has workloads of each outcome: 1 of them would wait, 2 be reclaimed, and so on. Each uses 2 cards.
func wholeForecast() *v1alpha1.CardQuotaForecast {
	some := func(total int32) *v1alpha1.ForecastWorkloads {
		return &v1alpha1.ForecastWorkloads{Total: total, Cards: 2 * int64(total)}
	}
	return &v1alpha1.CardQuotaForecast{Waiting: some(1), Reclaimed: some(2), WithoutQueue: some(3), Bypassing: some(4), UnknownServiceType: some(5)}
}

// TestMetricsShowTheForecastOfALeaf: in mode Observe the status says what Enforce would do, and each outcome has a series
// of workloads and one of cards. A parent has none, because its forecast contains those of the queues below it. When only
// one outcome is left, and then none, as in mode Enforce, the other series end.
func TestMetricsShowTheForecastOfALeaf(t *testing.T) {
	r := &reconciliation{Reconciler: &Reconciler{metrics: newMetricsCollector()}, quota: builder.CardQuota("leaf").Obj(), tree: cardquota.Flat}
	status := v1alpha1.CardQuotaStatus{CPU: &v1alpha1.ResourceStatus{}, Forecast: wholeForecast()}
	const info = `cardquota_queue_info{cardquota="leaf",parent="",project="",queue="leaf",service_type="training",tenant="team"} 1` + "\n"

	r.updateMetrics(&status)
	check.Equal(t, "series of all outcomes", `
cardquota_forecast_cards{outcome="bypassing",queue="leaf"} 8
cardquota_forecast_cards{outcome="reclaimed",queue="leaf"} 4
cardquota_forecast_cards{outcome="unknownservicetype",queue="leaf"} 10
cardquota_forecast_cards{outcome="waiting",queue="leaf"} 2
cardquota_forecast_cards{outcome="withoutqueue",queue="leaf"} 6
cardquota_forecast_workloads{outcome="bypassing",queue="leaf"} 4
cardquota_forecast_workloads{outcome="reclaimed",queue="leaf"} 2
cardquota_forecast_workloads{outcome="unknownservicetype",queue="leaf"} 5
cardquota_forecast_workloads{outcome="waiting",queue="leaf"} 1
cardquota_forecast_workloads{outcome="withoutqueue",queue="leaf"} 3
`+info, seriesOf(t, r.metrics))

	status.Children = 1
	r.updateMetrics(&status)
	check.Equal(t, "series of a parent", "\n"+info, seriesOf(t, r.metrics))

	status.Children = 0
	status.Forecast = &v1alpha1.CardQuotaForecast{Waiting: status.Forecast.Waiting}
	r.updateMetrics(&status)
	check.Equal(t, "series of one outcome", `
cardquota_forecast_cards{outcome="waiting",queue="leaf"} 2
cardquota_forecast_workloads{outcome="waiting",queue="leaf"} 1
`+info, seriesOf(t, r.metrics))

	status.Forecast = nil
	r.updateMetrics(&status)
	check.Equal(t, "series without a forecast", "\n"+info, seriesOf(t, r.metrics))
}

// TestMetricsShowWhatNoCardQuotaDecidesAbout: in mode Observe pod lab/free uses 3 cards, and no CardQuota selects its
// namespace. Pod shared/both uses 2, and CardQuotas a and b both select namespace shared. So no CardQuota counts 5 cards,
// and one namespace is ambiguous. When the pods have ended, and in mode Enforce, there are no series.
func TestMetricsShowWhatNoCardQuotaDecidesAbout(t *testing.T) {
	stores := newObjectStores()
	free := builder.Pod("lab", "free").GPUs(3).Running("n").Obj()
	both := builder.Pod("shared", "both").GPUs(2).Running("n").Obj()
	setMode := func(mode v1alpha1.Mode) {
		check.NoError(t, stores.policies.Add(builder.ServiceTypePolicy().With(func(p *v1alpha1.ServiceTypePolicy) {
			p.Spec.Mode = mode
			p.Status.Mode = mode
		}).Obj()))
	}

	setMode(v1alpha1.ModeObserve)
	stores.quotas = newStore(builder.CardQuota("a").ServiceType("training").Card("NVIDIA-H200", 8).Selects("team", "shared").Obj(),
		builder.CardQuota("b").ServiceType("training").Card("NVIDIA-H200", 8).Selects("team", "shared").Obj())
	stores.namespaces = newStore(builder.Namespace("lab"), builder.Namespace("shared", "team", "shared"))
	stores.pods = newStore(free, both)

	collector := newCollector(trackNodes(builder.Node("n").GPUs("NVIDIA-H200", 8).Obj()))
	foretold := func() string {
		collector.countUsage(stores)
		return seriesOf(t, collector.metrics.unlimited) + seriesOf(t, collector.metrics.ambiguous)
	}
	check.Equal(t, "series in mode Observe", "\ncardquota_forecast_unlimited_cards{} 5\n\ncardquota_forecast_ambiguous_namespaces{} 1\n", foretold())

	check.NoError(t, stores.pods.Delete(both))
	check.Equal(t, "series without a pod in the namespace that both select", "\ncardquota_forecast_unlimited_cards{} 3\n\n", foretold())

	check.NoError(t, stores.pods.Add(both))
	setMode(v1alpha1.ModeEnforce)
	check.Equal(t, "series in mode Enforce", "\n\n", foretold())
}
