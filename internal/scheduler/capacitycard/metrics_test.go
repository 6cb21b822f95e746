package capacitycard

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/framework"

	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/session"
)

// scrape returns what a scrape shows now: series, as it is written, to value.
// Histograms are not compared, because they contain times.
func (c *Cache) scrape(t check.T) map[string]float64 {
	t.Helper()
	registry := prometheus.NewRegistry()
	registry.MustRegister(c.metrics)
	series := map[string]float64{}
	for _, family := range check.Value(registry.Gather())(t) {
		for _, m := range family.GetMetric() {
			var labels []string
			for _, pair := range m.GetLabel() {
				labels = append(labels, fmt.Sprintf("%s=%q", pair.GetName(), pair.GetValue()))
			}

			slices.Sort(labels)
			key := family.GetName() + "{" + strings.Join(labels, ",") + "}"
			switch {
			case m.GetGauge() != nil:
				series[key] = m.GetGauge().GetValue()
			case m.GetCounter() != nil:
				series[key] = m.GetCounter().GetValue()
			}
		}
	}

	return series
}

// busyScene has a queue with running, waiting, gated and choosy pods, one that
// is idle, and one without limits.
func busyScene(t testing.TB) *scene {
	return newScene(t, `node a model=A; node b model=B; node bare; queue busy quota={"A":2,"B":0}; queue idle quota={"B":4}; queue cpu
		job runs queue=busy min=2 running=a*2; job waits queue=busy min=3 pending=3; job chooses queue=busy min=1 pending=2 cards=2 card=A|B; job wrong queue=busy min=1 pending=1 card=A_B`).addObjects("job gated queue=busy min=1 pending=3",
		func(p *corev1.Pod) { p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "later"}} })
}

func TestMetricsShowTheSnapshot(t *testing.T) {
	s := busyScene(t).enqueueAndAllocate()
	for _, job := range s.Ssn.Jobs { // all were admitted, before the quota was lowered
		if application, refusal := s.p.missingMinimum(job); refusal == nil {
			s.m.reservations.recordEnqueued(job, application)
		}
	}

	s.reopen().p.jobEnqueued(s.Job("waits")) // what the session decides shows in the next one
	got := s.m.scrape(t)
	for series, values := range map[string]map[string]float64{ // of queue busy, and by another queue
		"cardquota_scheduler_quota_cards":        {`A`: 2, `B`: 0, `idle B`: 4},
		"cardquota_scheduler_used_cards":         {`A`: 2, `B`: 0, `idle B`: 0},
		"cardquota_queue_card_inqueue":           {`A`: 2, `B`: 0, `A|B`: 0, `idle B`: 0}, // waits needs more than the quota
		"cardquota_queue_card_request":           {`A`: 5, `B`: 0, `A|B`: 4, `idle B`: 0},
		"cardquota_queue_cpu_quota_cores":        {``: 100, `idle `: 100, `cpu `: 100},
		"cardquota_queue_cpu_allocated_cores":    {``: 2, `idle `: 0, `cpu `: 0},
		"cardquota_queue_memory_quota_bytes":     {``: 1 << 40, `idle `: 1 << 40, `cpu `: 1 << 40},
		"cardquota_queue_memory_allocated_bytes": {``: 2 << 30, `idle `: 0, `cpu `: 0},
	} {
		shown := maps.Clone(got)
		maps.DeleteFunc(shown, func(key string, _ float64) bool { return !strings.HasPrefix(key, series+"{") })
		check.Equal(t, "number of series of "+series, len(values), len(shown))
		for of, want := range values {
			queue, name, other := strings.Cut(of, " ")
			if !other {
				queue = "busy"
				name = of
			}

			key := fmt.Sprintf(`%s{card=%q,queue=%q}`, series, name, queue)
			if name == "" {
				key = fmt.Sprintf(`%s{queue=%q}`, series, queue)
			}

			value, shown := got[key]
			check.That(t, shown && value == want, "%s is %v (%v), want %v", key, value, shown, want)
		}
	}

	for series, want := range map[string]float64{
		`cardquota_scheduler_physical_cards{card="A"}`: 8, `cardquota_nodes_anomalous{}`: 1, `cardquota_pods_charged{}`: 2, `cardquota_ready{}`: 1,
	} {
		check.Equal(t, series, want, got[series])
	}
	check.That(t, got["cardquota_last_session_timestamp_seconds{}"] != 0, "no time of the last session")
}

func TestUnlimitedQueueShowsUsageWithoutQuota(t *testing.T) {
	s := newScene(t, "node a model=A; queue free cpu=unlimited; job runs queue=free min=2 running=a*2").withArguments(framework.Arguments{"unmanagedQueues": "Ignore"}).enqueueAndAllocate()
	got := s.m.scrape(t)
	check.Equal(t, "cards allocated", 2, got[`cardquota_scheduler_used_cards{card="A",queue="free"}`])
	for series := range got {
		check.That(t, !strings.Contains(series, "_quota") || !strings.Contains(series, `queue="free"`), "%s is shown", series)
	}
}

func TestReadyShowsWhetherDecisionsAreDelayed(t *testing.T) {
	s := oneJob(t).enqueueAndAllocate()
	ready := func(when string, want float64, args framework.Arguments) {
		t.Helper()
		check.Equal(t, fmt.Sprintf("%s: ready", when), want, s.withArguments(args).reopen().m.scrape(t)["cardquota_ready{}"])
	}
	ready("all is seen", 1, nil)
	ready("arguments are invalid", 0, framework.Arguments{"overCommitFactor": 0.5})
	s.m.cacheSync = cacheSync{} // as after a start
	check.NoError(t, s.Ssn.InformerFactory().Core().V1().Nodes().Informer().GetIndexer().Add(session.Node("late", "B", 8)))
	ready("Volcano's cache lacks a node", 0, nil)
}

func TestDeletedQueueHasNoMetrics(t *testing.T) {
	s := busyScene(t).enqueueAndAllocate()
	ofBusy := func() (found []string) {
		for series := range s.m.scrape(t) {
			if strings.Contains(series, `queue="busy"`) {
				found = append(found, series)
			}
		}
		return found
	}

	before := ofBusy()
	check.Must(t, len(before) >= 10 && slices.ContainsFunc(before, func(s string) bool { return strings.HasPrefix(s, "cardquota_refusals_total") }),
		"series before: %v", before)

	delete(s.Ssn.Queues, "busy")
	clear(s.Ssn.Jobs) // what Volcano's snapshot does without the queue
	s.addToPodLister(s.Pods[:2]...)
	check.Equal(t, "cards of no queue, those that its pods still hold", 2, s.reopen().m.scrape(t)[`cardquota_card_unowned{card="A"}`])
	check.Equal(t, "series of the deleted queue", nil, ofBusy())

	idle := s.Ssn.Queues["idle"].Queue.DeepCopy()
	idle.Annotations["volcano.sh/card.quota"] = `{"A":1}`
	s.Ssn.Queues["idle"] = api.NewQueueInfo(idle)
	_, still := s.reopen().m.scrape(t)[`cardquota_scheduler_quota_cards{card="B",queue="idle"}`]
	check.That(t, !still, "a card without quota and use is still there")
}

func TestRepeatedRefusalCountsOnce(t *testing.T) {
	s := busyScene(t).enqueueAndAllocate()
	count := func() float64 {
		return s.m.scrape(t)[`cardquota_refusals_total{queue="busy",reason="InsufficientScalarQuota"}`]
	}

	first := count()
	task := s.Task("waits-0")
	check.Must(t, first >= 3, "%v refusals counted, want at least one per waiting gang's pod that was tried", first)
	for _, step := range []struct {
		what string
		do   func()
		more float64
	}{
		{"after asking again", func() {}, 0},
		{"after one was news again", func() { s.m.messages.forget(task.Pod.UID) }, 1},
		{"being held back after a start, which is none", func() { s.p.notReadyReason = "waits" }, 1},
	} {
		step.do()
		for range 3 {
			s.p.allocatable(s.Ssn.Queues["busy"], task)
		}
		check.Equal(t, fmt.Sprintf("refusals %s", step.what), first+step.more, count())
	}
}

func TestMetricsAreWrittenAsPrometheusWantsThem(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(busyScene(t).enqueueAndAllocate().m.metrics)
	problems, err := testutil.GatherAndLint(registry)
	check.That(t, err == nil && len(problems) == 0, "%v %v", err, problems)
}

// TestScrapeReadsOneSession moves a job of two cards back and forth between two queues during
// scrapes. No scrape sees it in both or in none.
func TestScrapeReadsOneSession(t *testing.T) {
	s := oneJob(t).addObjects(`queue r quota={"A":4}`).enqueueAndAllocate()
	s.reopen().p.OnSessionClose(s.Ssn)
	over := make(chan struct{})

	var scrapers sync.WaitGroup
	for range 2 {
		scrapers.Go(func() {
			for {
				got := s.m.scrape(t)
				q := got[`cardquota_scheduler_used_cards{card="A",queue="q"}`]
				r := got[`cardquota_scheduler_used_cards{card="A",queue="r"}`]
				check.That(t, q+r == 2, "a scrape sees %v cards of q and %v of r, want 2 together", q, r)
				select {
				case <-over:
					return
				default:
				}
			}
		})
	}

	job := s.Job("j")
	for i := range 300 {
		job.Queue = []api.QueueID{"q", "r"}[i%2]
		p := s.reopen().p
		for _, task := range job.Tasks { // as a session that evicts and changes its mind
			p.onDeallocate(&framework.Event{Task: task})
			p.onAllocate(&framework.Event{Task: task})
		}
		p.OnSessionClose(s.Ssn)
	}

	close(over)
	scrapers.Wait()
}

// TestMetricsOfATree: a queue shows what it deserves, its guarantee and what it has borrowed,
// and a parent sums its subtree. Flat queues show none of it.
func TestMetricsOfATree(t *testing.T) {
	const text = `node a model=A; queue t quota={"A":8} guarantee={"A":1}; queue q quota={"A":8} serviceType=training parent=t deserved={"A":2} guarantee={"A":1}; job j queue=q min=1 running=a*3 pending=1`
	got := newTreeScene(t, text).openSession().m.scrape(t)
	for series, want := range map[string]float64{
		`cardquota_scheduler_deserved_cards{card="A",queue="q"}`: 2, `cardquota_queue_card_guarantee{card="A",queue="q"}`: 1, `cardquota_queue_card_borrowed{card="A",queue="q"}`: 1,
		`cardquota_scheduler_deserved_cards{card="A",queue="t"}`: 8, `cardquota_queue_card_borrowed{card="A",queue="t"}`: 0,
		`cardquota_scheduler_used_cards{card="A",queue="t"}`: 3, `cardquota_queue_card_request{card="A",queue="t"}`: 4,
	} {
		value, shown := got[series]
		check.That(t, shown && value == want, "%s is %v, want %v", series, value, want)
	}

	for series := range newScene(t, text).openSession().m.scrape(t) {
		check.That(t, !strings.Contains(series, "deserved") && !strings.Contains(series, "guarantee") && !strings.Contains(series, "borrowed"), "flat queues show %s", series)
	}
}
