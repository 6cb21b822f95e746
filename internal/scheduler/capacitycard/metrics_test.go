package capacitycard

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/framework"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/scheduler/cache"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/session"
)

// scrape returns what a scrape shows now: series, as it is written, to value. Histograms are not compared, because they
// contain times.
func (c *Cache) scrape(t check.T) map[string]float64 {
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

// newBusyScene has three nodes: a with 8 cards A, b with 8 cards B, and one whose cards have no model, an anomaly.
// Queue busy has a quota of 2 cards A, which its job runs uses, and none of B. Its other jobs wait. Queue idle has a
// quota of 4 cards B, and queue cpu none. Each queue may use 100 CPU and 1 TiB, and each pod requests 1 CPU and 1 GiB.
func newBusyScene(t testing.TB) *scene {
	s := newScene(t, `node a model=A cards=8; node b model=B cards=8; node withoutModel
		queue busy quota={"A":2,"B":0}; queue idle quota={"B":4}; queue cpu
		job runs queue=busy min=2 running=a*2
		job waits queue=busy min=3 pending=3
		job chooses queue=busy min=1 pending=2 cards=2 card=A|B
		job wrong queue=busy min=1 pending=1 card=A_B`)
	return s.addObjects("job gated queue=busy min=1 pending=3", func(p *corev1.Pod) {
		p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "later"}}
	})
}

// TestMetricsShowTheSnapshot: the metrics show each queue as it is when a session opens, with each card of its quota
// and of its requests.
//
// Queue busy has a quota of 2 cards A and none of B, and its job runs uses both cards. Its other jobs were enqueued
// under a larger quota and wait. Job waits has 3 pods of one card A, job chooses 2 pods of 2 cards A or B. Job wrong
// has a card name that cannot be read, and job gated has 3 pods with a scheduling gate. Queue idle has a quota of 4
// cards B, queue cpu none. Node a has 8 cards A, node b 8 cards B, and the cards of a third node have no model. Each
// queue may use 100 CPU and 1 TiB, and each pod requests 1 CPU and 1 GiB.
func TestMetricsShowTheSnapshot(t *testing.T) {
	s := newBusyScene(t).enqueueAndAllocate()
	for _, job := range s.Ssn.Jobs { // as when each job was enqueued
		if request, refusal := s.p.enqueue.MissingMinimum(job); refusal == nil {
			s.m.Reservations.RecordEnqueued(job, request)
		}
	}

	// One card B is reserved after the session has opened, so the metrics do not show it.
	s.reopen().p.sums.Reserve("idle", quota.JobRequest{Cards: []quota.CardRequest{{Names: []card.Name{"B"}, Count: 1}}})
	got := s.m.scrape(t)
	check.That(t, got["cardquota_last_session_timestamp_seconds{}"] != 0, "the time of the last session is missing")

	want := map[string]float64{
		`cardquota_scheduler_quota_cards{card="A",queue="busy"}`: 2,
		`cardquota_scheduler_quota_cards{card="B",queue="busy"}`: 0,
		`cardquota_scheduler_quota_cards{card="B",queue="idle"}`: 4,

		`cardquota_scheduler_used_cards{card="A",queue="busy"}`: 2,
		`cardquota_scheduler_used_cards{card="B",queue="busy"}`: 0,
		`cardquota_scheduler_used_cards{card="B",queue="idle"}`: 0,

		// The reservations: chooses needs one pod of 2 cards for its minimum, and only A has quota. Job waits needs 3, more
		// than the quota has in all, so it reserves nothing.
		`cardquota_queue_card_inqueue{card="A",queue="busy"}`:   2,
		`cardquota_queue_card_inqueue{card="B",queue="busy"}`:   0,
		`cardquota_queue_card_inqueue{card="A|B",queue="busy"}`: 0,
		`cardquota_queue_card_inqueue{card="B",queue="idle"}`:   0,

		// Used and pending cards: 2 of job runs + 3 of job waits. Job chooses has 2 pods of 2 cards. Gated pods and those
		// whose request cannot be read do not count.
		`cardquota_queue_card_request{card="A",queue="busy"}`:   5,
		`cardquota_queue_card_request{card="A|B",queue="busy"}`: 4,
		`cardquota_queue_card_request{card="B",queue="busy"}`:   0,
		`cardquota_queue_card_request{card="B",queue="idle"}`:   0,

		`cardquota_queue_cpu_quota_cores{queue="busy"}`:        100,
		`cardquota_queue_cpu_quota_cores{queue="idle"}`:        100,
		`cardquota_queue_cpu_quota_cores{queue="cpu"}`:         100,
		`cardquota_queue_cpu_allocated_cores{queue="busy"}`:    2,
		`cardquota_queue_cpu_allocated_cores{queue="idle"}`:    0,
		`cardquota_queue_cpu_allocated_cores{queue="cpu"}`:     0,
		`cardquota_queue_memory_quota_bytes{queue="busy"}`:     1 << 40,
		`cardquota_queue_memory_quota_bytes{queue="idle"}`:     1 << 40,
		`cardquota_queue_memory_quota_bytes{queue="cpu"}`:      1 << 40,
		`cardquota_queue_memory_allocated_bytes{queue="busy"}`: 2 << 30,
		`cardquota_queue_memory_allocated_bytes{queue="idle"}`: 0,
		`cardquota_queue_memory_allocated_bytes{queue="cpu"}`:  0,

		`cardquota_scheduler_physical_cards{card="A"}`: 8,
		`cardquota_scheduler_physical_cards{card="B"}`: 8,
		`cardquota_nodes_anomalous{}`:                  1,
		`cardquota_pods_charged{}`:                     2,
		`cardquota_ready{}`:                            1,
	}
	maps.DeleteFunc(got, func(series string, _ float64) bool { // neither is a part of the snapshot
		return strings.HasPrefix(series, "cardquota_last_session_timestamp_seconds") || strings.HasPrefix(series, "cardquota_refusals_total")
	})
	check.Equal(t, "series", want, got)
}

// TestUnlimitedQueueShowsUsageWithoutQuota: with unmanagedQueues: Ignore a queue without a quota may use any card. Its
// metrics show the 2 cards that it uses. They show no quota for cards, CPU or memory, because it has none.
func TestUnlimitedQueueShowsUsageWithoutQuota(t *testing.T) {
	s := newScene(t, "node a model=A cards=8; queue free cpu=unlimited; job runs queue=free min=2 running=a*2")
	got := s.withArguments(framework.Arguments{"unmanagedQueues": "Ignore"}).enqueueAndAllocate().m.scrape(t)
	check.Equal(t, "cards allocated", 2, got[`cardquota_scheduler_used_cards{card="A",queue="free"}`])

	for series := range got {
		check.That(t, !strings.Contains(series, "_quota") || !strings.Contains(series, `queue="free"`), "%s is shown", series)
	}
}

// TestReadyShowsWhetherDecisionsAreDelayed: the metric cardquota_ready is 1 while the scheduler decides about pods. It
// is 0 while it must not decide: the arguments of the plugin are invalid, or Volcano's cache lacks an object after a
// start.
func TestReadyShowsWhetherDecisionsAreDelayed(t *testing.T) {
	s := newScene(t, `node a model=A cards=8; queue q quota={"A":4}; job j queue=q min=1 running=a*2`).enqueueAndAllocate()
	check.Equal(t, "ready with a synced cache", 1, s.reopen().m.scrape(t)["cardquota_ready{}"])

	s.withArguments(framework.Arguments{"overCommitFactor": 0.5})
	check.Equal(t, "ready with invalid arguments", 0, s.reopen().m.scrape(t)["cardquota_ready{}"])

	s.withArguments(nil)
	s.m.Sync = cache.Sync{} // as after a start
	check.NoError(t, s.Ssn.InformerFactory().Core().V1().Nodes().Informer().GetIndexer().Add(session.Node("late", "B", 8)))
	check.Equal(t, "ready while Volcano's cache lacks a node", 0, s.reopen().m.scrape(t)["cardquota_ready{}"])
}

// TestDeletedQueueHasNoMetrics: all series of a queue end when it is deleted, also its counters. Two pods of queue busy
// still run with a card A each, and these cards count as those of no queue. The series of a card ends when the queue
// has neither quota nor usage of it: the quota of queue idle changes from cards B, of which it uses none, to A.
func TestDeletedQueueHasNoMetrics(t *testing.T) {
	s := newBusyScene(t).enqueueAndAllocate()
	seriesOfBusy := func() string {
		shown := slices.DeleteFunc(slices.Sorted(maps.Keys(s.m.scrape(t))), func(series string) bool { return !strings.Contains(series, `queue="busy"`) })
		return strings.Join(shown, "\n")
	}
	check.Contains(t, "series before", seriesOfBusy(),
		"cardquota_refusals_total", "cardquota_scheduler_quota_cards", "cardquota_scheduler_used_cards", "cardquota_queue_card_inqueue",
		"cardquota_queue_card_request", "cardquota_queue_cpu_quota_cores", "cardquota_queue_cpu_allocated_cores",
		"cardquota_queue_memory_quota_bytes", "cardquota_queue_memory_allocated_bytes")

	delete(s.Ssn.Queues, "busy")
	clear(s.Ssn.Jobs)               // a session of Volcano has no jobs without a queue
	s.addToPodLister(s.Pods[:2]...) // the two pods of job runs
	check.Equal(t, "cards of no queue", 2, s.reopen().m.scrape(t)[`cardquota_card_unowned{card="A"}`])
	check.Equal(t, "series of the deleted queue", "", seriesOfBusy())

	s.annotateQueue("idle", "volcano.sh/card.quota", `{"A":1}`)
	_, hasCardB := s.reopen().m.scrape(t)[`cardquota_scheduler_quota_cards{card="B",queue="idle"}`]
	check.That(t, !hasCardB, "queue idle shows card B without quota and usage")
}

// TestRepeatedRefusalCountsOnce: Volcano asks about each pending pod again and again. A refusal counts only when its
// message is new for the pod. While the cache is not synced after a start, all pods are refused with another reason,
// which does not count as insufficient quota. The quota of queue busy is used, and 5 of its pods wait for a card: 3 of
// job waits and 2 of job chooses.
func TestRepeatedRefusalCountsOnce(t *testing.T) {
	s := newBusyScene(t).enqueueAndAllocate()
	task := s.Task("waits-0")
	refuseThreeTimes := func() float64 {
		for range 3 {
			s.p.allocation.allocatable(s.Ssn.Queues["busy"], task)
		}
		return s.m.scrape(t)[`cardquota_refusals_total{queue="busy",reason="InsufficientScalarQuota"}`]
	}

	// The session has refused each of the 5 pods once. The other waiting pods of the scene, with a scheduling gate or an
	// unreadable card name, are not refused for quota.
	check.Equal(t, "refusals after three more with the known message", 5, refuseThreeTimes())

	s.m.messages.forget(task.Pod.UID)
	check.Equal(t, "refusals after three more, of which the first has a new message", 6, refuseThreeTimes())

	s.p.AwaitsSync = true
	check.Equal(t, "refusals after three more while the cache is not synced", 6, refuseThreeTimes())
}

// TestMetricsAreWrittenAsPrometheusWantsThem: Prometheus checks only metrics that have series, so the scene has
// used, waiting and free cards. Prometheus' own linter finds no fault in the names, types and help texts of the plugin's
// metrics.
func TestMetricsAreWrittenAsPrometheusWantsThem(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(newBusyScene(t).enqueueAndAllocate().m.metrics)
	check.Equal(t, "problems", nil, check.Value(testutil.GatherAndLint(registry))(t))
}

// TestScrapeReadsOneSession: a scrape shows the state of one session, also while the next one charges and releases
// pods. Job j with 2 cards moves between queues q and r, from session to session. Meanwhile two scrapers see it in
// exactly one queue.
func TestScrapeReadsOneSession(t *testing.T) {
	s := newScene(t, `node a model=A cards=8
		queue q quota={"A":4}; queue r quota={"A":4}
		job j queue=q min=1 running=a*2`).enqueueAndAllocate()
	s.reopen().p.OnSessionClose(s.Ssn)

	over := make(chan struct{})
	var scrapers sync.WaitGroup
	for range 2 {
		scrapers.Go(func() {
			for {
				got := s.m.scrape(t)
				ofQ := got[`cardquota_scheduler_used_cards{card="A",queue="q"}`]
				ofR := got[`cardquota_scheduler_used_cards{card="A",queue="r"}`]
				check.That(t, ofQ+ofR == 2, "a scrape sees %v cards of q and %v of r, want 2 together", ofQ, ofR)
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
		for _, task := range job.Tasks { // the session evicts the pod, and undoes that
			p.allocation.onDeallocate(&framework.Event{Task: task})
			p.allocation.onAllocate(&framework.Event{Task: task})
		}
		p.OnSessionClose(s.Ssn)
	}

	close(over)
	scrapers.Wait()
}

// TestMetricsOfATreeShowWhatIsBorrowed: in a tree each queue shows what it deserves, its guarantee and what it has
// borrowed, and a parent shows the sums of its subtree. Queue q deserves 2 cards, is guaranteed 1 and uses 3, so it has
// borrowed one; one more pod is pending. Its parent t has no deserved of its own, so it deserves its quota of 8. Flat
// queues show none of that.
func TestMetricsOfATreeShowWhatIsBorrowed(t *testing.T) {
	const text = `node a model=A cards=8
		queue t quota={"A":8} guarantee={"A":1}
		queue q quota={"A":8} serviceType=training parent=t deserved={"A":2} guarantee={"A":1}
		job j queue=q min=1 running=a*3 pending=1`
	got := newTreeScene(t, text).openSession().m.scrape(t)
	for series, want := range map[string]float64{
		`cardquota_scheduler_deserved_cards{card="A",queue="q"}`: 2,
		`cardquota_queue_card_guarantee{card="A",queue="q"}`:     1,
		`cardquota_queue_card_borrowed{card="A",queue="q"}`:      1, // 3 used - 2 deserved

		`cardquota_scheduler_deserved_cards{card="A",queue="t"}`: 8,
		`cardquota_queue_card_borrowed{card="A",queue="t"}`:      0,
		`cardquota_scheduler_used_cards{card="A",queue="t"}`:     3,
		`cardquota_queue_card_request{card="A",queue="t"}`:       4, // 3 used + 1 pending
	} {
		value, isShown := got[series]
		check.That(t, isShown && value == want, "%s is %v (shown: %v), want %v", series, value, isShown, want)
	}

	ofTree := regexp.MustCompile("deserved|guarantee|borrowed")
	for series := range newScene(t, text).openSession().m.scrape(t) {
		check.That(t, !ofTree.MatchString(series), "flat queues show %s", series)
	}
}
