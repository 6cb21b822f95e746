package capacitycard

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/framework"
	"volcano.sh/volcano/pkg/scheduler/uthelper"
)

type tester interface {
	Helper()
	Fatal(args ...any)
}

// scrape returns what a scrape shows now: series, as it is written, to value.
// Histograms are left out, they hold times.
func scrape(t tester) map[string]float64 {
	t.Helper()
	registry := prometheus.NewRegistry()
	registry.MustRegister(metered)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	series := map[string]float64{}
	for _, family := range families {
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

// reopen opens the next session on what Volcano hands out now.
func reopen(ssn *framework.Session) *plugin {
	p := New(nil).(*plugin)
	p.OnSessionOpen(ssn)
	return p
}

// busyWorld has a queue with running, waiting, gated and choosy pods, one that
// is idle, and one without limits.
func busyWorld() *uthelper.TestCommonStruct {
	gated := pods(3, "gated", "1", "NVIDIA-H200", "")
	for _, pod := range gated {
		pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "later"}}
	}
	return &uthelper.TestCommonStruct{
		Nodes: []*corev1.Node{cardNode("h200", "NVIDIA-H200"), cardNode("h800", "NVIDIA-H800"), func() *corev1.Node {
			bare := cardNode("bare", "")
			bare.Labels = nil
			return bare
		}()},
		Queues: []*v1beta1.Queue{quotaQueue("busy", `{"NVIDIA-H200":2,"NVIDIA-H800":0}`), quotaQueue("idle", `{"NVIDIA-H800":4}`), quotaQueue("cpu", "")},
		PodGroups: []*v1beta1.PodGroup{group("runs", "busy", 2, "Running", ""), group("waits", "busy", 3, "Inqueue", ""),
			group("chooses", "busy", 1, "Inqueue", ""), group("gated", "busy", 1, "Inqueue", ""), group("wrong", "busy", 1, "Inqueue", "")},
		Pods: concat(pods(2, "runs", "1", "NVIDIA-H200", "h200"), pods(3, "waits", "1", "NVIDIA-H200", ""),
			pods(2, "chooses", "2", "NVIDIA-H200|NVIDIA-H800", ""), gated, pods(1, "wrong", "1", "NVIDIA H200", "")),
	}
}

func TestMetricsSayWhatTheSessionFound(t *testing.T) {
	ssn := run(t, busyWorld(), nil)
	for _, job := range ssn.Jobs { // all were admitted, before the quota was lowered
		if application, refusal := opened.minimum(job); refusal == nil {
			job.PgUID = types.UID(job.Name)
			opened.memory.patience.admit(job, application)
		}
	}
	reopen(ssn).jobEnqueued(ssn.Jobs["ns/waits"]) // what the session decides shows in the next one
	const want = `
# HELP cardquota_queue_card_allocated Cards that placed pods of the queue hold.
# TYPE cardquota_queue_card_allocated gauge
cardquota_queue_card_allocated{card="NVIDIA-H200",queue="busy"} 2
cardquota_queue_card_allocated{card="NVIDIA-H800",queue="busy"} 0
cardquota_queue_card_allocated{card="NVIDIA-H800",queue="idle"} 0
# HELP cardquota_queue_card_inqueue Cards reserved for jobs of the queue that were admitted and are not placed yet. A job that may use either of two cards is shown as A|B.
# TYPE cardquota_queue_card_inqueue gauge
cardquota_queue_card_inqueue{card="NVIDIA-H200",queue="busy"} 5
cardquota_queue_card_inqueue{card="NVIDIA-H200|NVIDIA-H800",queue="busy"} 0
cardquota_queue_card_inqueue{card="NVIDIA-H800",queue="busy"} 0
cardquota_queue_card_inqueue{card="NVIDIA-H800",queue="idle"} 0
# HELP cardquota_queue_card_quota Cards that the queue may use. Absent for a queue without limit.
# TYPE cardquota_queue_card_quota gauge
cardquota_queue_card_quota{card="NVIDIA-H200",queue="busy"} 2
cardquota_queue_card_quota{card="NVIDIA-H800",queue="busy"} 0
cardquota_queue_card_quota{card="NVIDIA-H800",queue="idle"} 4
# HELP cardquota_queue_card_request Cards that all pods of the queue ask for: those of placed pods, and those of waiting pods, which are shown as A|B if they may use either. Gated pods do not count.
# TYPE cardquota_queue_card_request gauge
cardquota_queue_card_request{card="NVIDIA-H200",queue="busy"} 5
cardquota_queue_card_request{card="NVIDIA-H200|NVIDIA-H800",queue="busy"} 4
cardquota_queue_card_request{card="NVIDIA-H800",queue="busy"} 0
cardquota_queue_card_request{card="NVIDIA-H800",queue="idle"} 0
`
	if err := testutil.CollectAndCompare(metered, strings.NewReader(want), "cardquota_queue_card_quota", "cardquota_queue_card_allocated",
		"cardquota_queue_card_inqueue", "cardquota_queue_card_request"); err != nil {
		t.Error(err)
	}
	got := scrape(t)
	for series, want := range map[string]float64{
		`cardquota_queue_cpu_quota_cores{queue="busy"}`:        100,
		`cardquota_queue_cpu_allocated_cores{queue="busy"}`:    2,
		`cardquota_queue_memory_quota_bytes{queue="busy"}`:     1 << 40,
		`cardquota_queue_memory_allocated_bytes{queue="busy"}`: 2 << 30,
		`cardquota_card_physical{card="NVIDIA-H200"}`:          8,
		`cardquota_nodes_anomalous{}`:                          1,
		`cardquota_pods_charged{}`:                             2,
		`cardquota_ready{}`:                                    1,
	} {
		if got[series] != want {
			t.Errorf("%s is %v, want %v", series, got[series], want)
		}
	}
	if got["cardquota_last_session_timestamp_seconds{}"] == 0 {
		t.Error("no time of the last session")
	}
}

func TestAQueueWithoutLimitShowsUseAndNoQuota(t *testing.T) {
	free := quotaQueue("free", "")
	free.Spec.Capability = nil
	run(t, &uthelper.TestCommonStruct{
		Nodes: []*corev1.Node{cardNode("h200", "NVIDIA-H200")}, Queues: []*v1beta1.Queue{free},
		PodGroups: []*v1beta1.PodGroup{group("runs", "free", 2, "Running", "")}, Pods: pods(2, "runs", "1", "NVIDIA-H200", "h200"),
	}, framework.Arguments{"unmanagedQueues": "Ignore"})
	got := scrape(t)
	if held := got[`cardquota_queue_card_allocated{card="NVIDIA-H200",queue="free"}`]; held != 2 {
		t.Errorf("%v cards allocated, want 2", held)
	}
	for series := range got {
		if strings.Contains(series, "_quota") && strings.Contains(series, `queue="free"`) {
			t.Errorf("%s is shown", series)
		}
	}
}

func TestReadyTellsWhetherDecisionsAreHeldBack(t *testing.T) {
	ssn := run(t, oneJobWorld(), nil)
	ready := func(when string, want float64, arguments framework.Arguments) {
		t.Helper()
		New(arguments).OnSessionOpen(ssn)
		if got := scrape(t)["cardquota_ready{}"]; got != want {
			t.Errorf("%s: ready is %v, want %v", when, got, want)
		}
	}
	ready("all is seen", 1, nil)
	ready("arguments are invalid", 0, framework.Arguments{"overCommitFactor": 0.5})
	process.completeness = completeness{} // as after a start
	if err := ssn.InformerFactory().Core().V1().Nodes().Informer().GetIndexer().Add(cardNode("late", "NVIDIA-H800")); err != nil {
		t.Fatal(err)
	}
	ready("Volcano's cache lacks a node", 0, nil)
}

func TestADeletedQueueVanishes(t *testing.T) {
	world := busyWorld()
	ssn := run(t, world, nil)
	ofBusy := func() (found []string) {
		for series := range scrape(t) {
			if strings.Contains(series, `queue="busy"`) {
				found = append(found, series)
			}
		}
		return found
	}
	if before := ofBusy(); len(before) < 10 || !slices.ContainsFunc(before, func(s string) bool { return strings.HasPrefix(s, "cardquota_refusals_total") }) {
		t.Fatalf("series before: %v", before)
	}
	delete(ssn.Queues, "busy")
	clear(ssn.Jobs) // what Volcano's snapshot does without the queue
	listed(t, world.Pods[:2]...)
	reopen(ssn)
	if after := ofBusy(); len(after) > 0 {
		t.Errorf("a deleted queue is still there: %v", after)
	}
	if got := scrape(t)[`cardquota_card_unowned{card="NVIDIA-H200"}`]; got != 2 {
		t.Errorf("%v cards are unowned, want the 2 that its pods still hold", got)
	}
	idle := ssn.Queues["idle"].Queue.DeepCopy()
	idle.Annotations["volcano.sh/card.quota"] = `{"NVIDIA-H200":1}`
	ssn.Queues["idle"] = api.NewQueueInfo(idle)
	reopen(ssn)
	if _, still := scrape(t)[`cardquota_queue_card_quota{card="NVIDIA-H800",queue="idle"}`]; still {
		t.Error("a card without quota and use is still there")
	}
}

func TestARefusalCountsOnceUntilItIsNewAgain(t *testing.T) {
	metered.refusals.Reset()
	ssn := run(t, busyWorld(), nil)
	count := func() float64 {
		return scrape(t)[`cardquota_refusals_total{queue="busy",reason="InsufficientScalarQuota"}`]
	}
	first := count()
	if first < 3 {
		t.Fatalf("%v refusals counted, want at least one per waiting gang's pod that was tried", first)
	}
	task := ssn.Jobs["ns/waits"].Tasks["waits-0"]
	for range 3 {
		opened.allocatable(ssn.Queues["busy"], task)
	}
	if got := count(); got != first {
		t.Errorf("%v refusals after asking again, want %v", got, first)
	}
	opened.memory.voice.forget(task.Pod.UID)
	opened.allocatable(ssn.Queues["busy"], task)
	if got := count(); got != first+1 {
		t.Errorf("%v refusals after one was news again, want %v", got, first+1)
	}
	opened.notReady = "waits"
	opened.allocatable(ssn.Queues["busy"], task)
	if got := count(); got != first+1 {
		t.Errorf("%v refusals, but being held back after a start is none", got)
	}
}

func TestMetricsAreWrittenAsPrometheusWantsThem(t *testing.T) {
	run(t, busyWorld(), nil)
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(metered)
	problems, err := testutil.GatherAndLint(registry)
	if err != nil || len(problems) > 0 {
		t.Errorf("%v %v", err, problems)
	}
	if _, err := registry.Gather(); err != nil {
		t.Error(err)
	}
}

// TestMetricsEqualANaiveRecount opens a session on random worlds.
func TestMetricsEqualANaiveRecount(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &world{models: map[string]string{"n1": "A", "n2": "B"}, queues: map[string]string{}, pods: map[string]*state{}}
		for _, q := range []string{"q", "r"} {
			if quota := rapid.SampledFrom([]string{"", `{"A":1}`, `{"A":9,"B":9}`, "nonsense"}).Draw(t, "quota of "+q); quota != "" {
				w.queues[q] = quota
			}
		}
		pending := map[string]float64{}
		for i := range rapid.IntRange(0, 6).Draw(t, "pods") {
			uid := fmt.Sprint("pod-", i)
			s := &state{
				count: rapid.IntRange(0, 3).Draw(t, "count"), queue: rapid.SampledFrom([]string{"q", "r"}).Draw(t, "queue"),
				node:   rapid.SampledFrom([]string{"n1", "n2"}).Draw(t, "node"),
				status: rapid.SampledFrom([]api.TaskStatus{api.Pending, api.Bound, api.Running, api.Succeeded, api.Releasing}).Draw(t, "status"),
			}
			s.pod = pods(1, uid, fmt.Sprint(s.count), "", "")[0]
			s.pod.UID = s.pod.UID + "-uid"
			w.pays(s)
			if s.status == api.Pending {
				pending[s.queue] += float64(s.count)
			}
			w.pods[string(s.pod.UID)] = s
		}
		p := &plugin{args: arguments{overCommitFactor: 1}, memory: newMemory()}
		p.ssn = w.session()
		p.openBooks()
		metered.publish(p)
		got := scrape(t)
		unowned := map[string]float64{}
		for _, q := range []string{"q", "r"} {
			_, exists := w.queues[q]
			for _, model := range []string{"A", "B"} {
				held := float64(w.recount(q, model))
				if !exists {
					unowned[model] += held
					held = 0
				}
				series := fmt.Sprintf(`cardquota_queue_card_allocated{card=%q,queue=%q}`, model, q)
				if got[series] != held {
					t.Fatalf("%s is %v, a recount says %v", series, got[series], held)
				}
			}
			if series := fmt.Sprintf(`cardquota_queue_card_request{card="A|B",queue=%q}`, q); exists && got[series] != pending[q] {
				t.Fatalf("%s is %v, a recount says %v", series, got[series], pending[q])
			}
		}
		for model, want := range unowned {
			if series := fmt.Sprintf(`cardquota_card_unowned{card=%q}`, model); got[series] != want {
				t.Fatalf("%s is %v, a recount says %v", series, got[series], want)
			}
		}
	})
}

// TestAScrapeSeesOneSession moves a job of two cards back and forth between two
// queues while others scrape: nobody ever sees it in both or in none.
func TestAScrapeSeesOneSession(t *testing.T) {
	world := oneJobWorld()
	world.Queues = append(world.Queues, quotaQueue("r", `{"NVIDIA-H200":4}`))
	ssn := run(t, world, nil)
	reopen(ssn).OnSessionClose(ssn)
	over := make(chan struct{})
	var scrapers sync.WaitGroup
	for range 2 {
		scrapers.Go(func() {
			for {
				got := scrape(t)
				q, r := got[`cardquota_queue_card_allocated{card="NVIDIA-H200",queue="q"}`], got[`cardquota_queue_card_allocated{card="NVIDIA-H200",queue="r"}`]
				if q+r != 2 {
					t.Errorf("a scrape sees %v cards of q and %v of r, want 2 together", q, r)
				}
				select {
				case <-over:
					return
				default:
				}
			}
		})
	}
	job := ssn.Jobs["ns/j"]
	for i := range 300 {
		job.Queue = []api.QueueID{"q", "r"}[i%2]
		p := reopen(ssn)
		for _, task := range job.Tasks { // as a session that evicts and changes its mind
			p.deallocated(&framework.Event{Task: task})
			p.allocated(&framework.Event{Task: task})
		}
		p.OnSessionClose(ssn)
	}
	close(over)
	scrapers.Wait()
}

// BenchmarkMetrics tells what the metrics cost a session, in which nothing or
// everything moved, and a scrape.
func BenchmarkMetrics(b *testing.B) {
	world := fleet(1000, 10_000, 200, 20)
	ssn := world.RegisterSession(nil, nil)
	process = newMemory()
	p := New(nil).(*plugin)
	b.Run("session", func(b *testing.B) {
		for b.Loop() {
			p.OnSessionOpen(ssn)
		}
	})
	b.Run("publish/quiet", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			metered.publish(p)
		}
	})
	b.Run("publish/all-moved", func(b *testing.B) {
		one := map[api.QueueID]string{} // a charged pod of every queue
		for _, job := range ssn.Jobs {
			for uid := range job.Tasks {
				if p.account.Charged(string(uid)) != nil {
					one[job.Queue] = string(uid)
				}
			}
		}
		if len(one) < 100 {
			b.Fatalf("%d queues have charged pods, want most of the 200", len(one))
		}
		b.ReportAllocs()
		for b.Loop() {
			b.StopTimer()
			for _, uid := range one {
				charge := p.account.Charged(uid)
				p.account.Refund(uid)
				p.account.Charge(uid, charge)
			}
			b.StartTimer()
			metered.publish(p)
		}
	})
	b.Run("scrape", func(b *testing.B) {
		b.ReportAllocs()
		registry := prometheus.NewRegistry()
		registry.MustRegister(metered)
		for b.Loop() {
			if _, err := registry.Gather(); err != nil {
				b.Fatal(err)
			}
		}
	})
}
