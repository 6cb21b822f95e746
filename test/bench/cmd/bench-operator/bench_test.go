package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/yaml"

	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
)

var smallest = size{nodes: 40, pods: 240, quotas: 10, cards: 4, views: 2, changes: 40, duration: 4 * time.Second, restQuotas: 20, rest: 2 * time.Second, lowerings: 2, settle: 5 * time.Second}

// TestGangsOfTheSmallBenchmarkWait: the benchmark of the operator has gangs that wait, so that statuses have
// reasons. The small size has 40 nodes of 4 card models, 10 each. Gangs wait for more than one of the models. Of each
// model other gangs use cards, at most as many gangs as it has nodes, because a gang fills a node.
func TestGangsOfTheSmallBenchmarkWait(t *testing.T) {
	p := plan{smallest}
	waiting := map[int]int{}
	gangs := map[int]int{}
	for gang := range p.gangs() {
		if p.waits(gang) {
			waiting[p.modelOfGang(gang)]++
		} else {
			gangs[p.modelOfGang(gang)]++
		}
	}

	check.That(t, len(waiting) > 1, "gangs that wait, by model: %v", waiting)
	for model := range p.cards {
		check.That(t, gangs[model] > 0 && gangs[model] <= p.nodes/p.cards, "%d gangs use cards of model %d on %d nodes", gangs[model], model, p.nodes/p.cards)
	}
}

// TestSmallBenchmark: the benchmark measures a running operator with 40 nodes, 240 pods and 10 CardQuotas. It measures
// how late statuses are and lowered quotas on their Queues, memory, processor time, writes and scrapes. No status
// differs from a recount, and at rest the operator writes nothing. No time is checked, because other tests may run on
// the machine.
func TestSmallBenchmark(t *testing.T) {
	var out strings.Builder
	r, err := measureOperator(t.Context(), smallest, &out)
	t.Log(out.String())

	check.NoError(t, err)
	check.That(t, r.changes >= 2*changesPerRound, "%d changes of pods", r.changes)
	check.That(t, len(r.wrong) == 0, "statuses that differ from a recount: %q", r.wrong)
	for k, lags := range r.lags {
		check.That(t, len(lags) > 0 && lags[0] >= 0, "%s has the lags %v", kindNames[k], lags)
	}

	check.That(t, r.load.cpu > 0 && r.load.written > 0 && r.load.peak > 10<<20 && r.afterRest.resident > 0, "usage %+v, at rest %+v", r.load, r.afterRest)
	check.That(t, r.writes["PATCH cardquotas/status"] > 0 && countWrites(r.writes) > 0, "writes %v", r.writes)
	check.Equal(t, "writes at rest", 0, countWrites(r.restWrites))
	check.That(t, len(r.lowered) == smallest.lowerings && r.lowered[0] > 0, "lowered quotas %v", r.lowered)
	check.That(t, len(r.scrapes) > 0 && r.scrapes[0].series > 0, "scrapes %v, failed %v", r.scrapes, r.unreadable)

	out.Reset()
	r.size.changes = 1
	_ = r.print(&out) // the machine may be too busy for the limits
	check.Contains(t, "report", out.String(), "| CardQuota right after, p50, p99 and max of ")
}

// TestTheOperatorIsMeasuredAsShipped: the benchmark measures what users run: the operator has the Go settings GOGC
// and GOMEMLIMIT of the shipped Deployment. GOMEMLIMIT is the memory limit of the container.
func TestTheOperatorIsMeasuredAsShipped(t *testing.T) {
	text := check.Value(os.ReadFile("../../../../config/manager/deployment.yaml"))(t)
	var shipped appsv1.Deployment
	check.NoError(t, yaml.Unmarshal(text, &shipped))

	manager := shipped.Spec.Template.Spec.Containers[0]
	var env []string
	for _, e := range manager.Env {
		switch {
		case e.Name == "GOGC":
			env = append(env, "GOGC="+e.Value)
		case e.Name == "GOMEMLIMIT" && e.ValueFrom.ResourceFieldRef.Resource == "limits.memory":
			env = append(env, fmt.Sprintf("GOMEMLIMIT=%dGiB", manager.Resources.Limits.Memory().Value()>>30))
		}
	}

	check.Equal(t, "environment", env, shippedEnv)
}

// TestImpossibleSizesAreRefused: each CardQuota of the benchmark has at least one gang of 8 pods, so a size of 10
// CardQuotas and 79 pods is refused. The size that TestSmallBenchmark uses is possible.
func TestImpossibleSizesAreRefused(t *testing.T) {
	few := smallest
	few.pods = few.quotas*gangSize - 1 // 10 CardQuotas * 8 pods - 1
	check.Says(t, few.validate(), "8 pods for each CardQuota")
	check.NoError(t, smallest.validate())
}

// TestHistoryMeasuresHowLateAnObjectIs: a status is late from the moment when pods change what it should say until
// it says so. h.expect notes what the status should say from a moment on, h.observe what it says. At 0 s the status
// says "a", as it should. A row plays what follows. wantLags are how long the status was wrong because of each change,
// in seconds: 0 for a change after which it is right at once. A wrong text that is written counts like a change.
func TestHistoryMeasuresHowLateAnObjectIs(t *testing.T) {
	start := time.Unix(1_000_000, 0)
	at := func(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }
	for name, tc := range map[string]struct {
		play     func(h *history)
		wantLags []int
		// wantLate is how many seconds the status is late at 10 s.
		wantLate int
	}{
		"changes at 1 s and 2 s, both are written at 4 s": {play: func(h *history) {
			h.expect(at(1), "b")
			h.expect(at(2), "c")
			h.observe(at(4), "c")
		}, wantLags: []int{4 - 1, 4 - 2}},
		"changes at 1 s and 2 s, written at 3 s and 4 s": {play: func(h *history) {
			h.expect(at(1), "b")
			h.expect(at(2), "c")
			h.observe(at(3), "b")
			h.observe(at(4), "c")
		}, wantLags: []int{3 - 1, 4 - 2}},
		"written at 1 s, two seconds before the change is seen: wrong until then": {play: func(h *history) {
			h.observe(at(1), "b")
			h.expect(at(3), "b")
		}, wantLags: []int{3 - 1, 0}},
		"a change at 1 s is undone at 2 s: nothing has to be written": {play: func(h *history) {
			h.expect(at(1), "b")
			h.expect(at(2), "a")
		}, wantLags: []int{2 - 1, 0}},
		"changes at 1 s and 9 s, none is written, but a wrong text at 9 s": {play: func(h *history) {
			h.expect(at(1), "b")
			h.expect(at(9), "c")
			h.observe(at(9), "x")
		}, wantLate: 10 - 1},
		"a wrong text is written at 4 s without a change": {play: func(h *history) { h.observe(at(4), "x") }, wantLate: 10 - 4},
	} {
		h := &history{}
		h.expect(at(0), "a")
		h.observe(at(0), "a")
		h.lags = nil
		tc.play(h)

		var lags []int
		for _, lag := range h.lags {
			lags = append(lags, int(lag.Seconds()))
		}

		check.Equal(t, name+": lags", tc.wantLags, lags)
		check.Equal(t, name+": late by", time.Duration(tc.wantLate)*time.Second, h.lateBy(at(10)))
		check.Equal(t, name+": is wrong", tc.wantLate > 0, h.isWrong())
	}
}

// TestRecountFollowsPods: the recount has the numbers that statuses should have, from the pods alone: for each of
// four models "used+waiting" cards. Quota 0 selects namespaces 0 and 1, each with a LocalCardQuota. The one pod, with a
// card of model 0, is in namespace 0. It waits, is placed, runs, and is gone. The CardQuota and the LocalCardQuota of
// namespace 1 should both follow it. A CardQuota without a status is wrong. What a Queue says comes from its
// annotation, which has the used cards by model: 3 of model 1.
func TestRecountFollowsPods(t *testing.T) {
	p := plan{smallest}
	recount := newRecount(p)
	now := time.Unix(1_000_000, 0)
	recount.expectQuota(now, 0)
	recount.isCounted = true // all pods of the start are counted, so each further one changes what statuses should have

	name := p.quotaName(0)
	pod := p.pod(0, 0, 0) // the first pod of the first gang, which quota 0 has
	for _, step := range []struct {
		kind   watch.EventType
		change func(*corev1.Pod)
		want   numbers
	}{
		{watch.Added, func(*corev1.Pod) {}, "0+1 0+0 0+0 0+0 "},
		{watch.Modified, func(pod *corev1.Pod) { pod.Spec.NodeName = "node" }, "1+0 0+0 0+0 0+0 "},
		{watch.Modified, func(pod *corev1.Pod) { pod.Status.Phase = corev1.PodRunning }, "1+0 0+0 0+0 0+0 "},
		{watch.Deleted, func(*corev1.Pod) {}, "0+0 0+0 0+0 0+0 "},
	} {
		step.change(pod)
		recount.apply(now, step.kind, pod.DeepCopy())
		check.Equal(t, "CardQuota", step.want, recount.historyOf(cardQuotas, name).wanted())
		check.Equal(t, "LocalCardQuota", step.want, recount.historyOf(views, p.namespace(0, 1)+"/"+name).wanted())
	}

	wrong := recount.wrong()
	check.That(t, slices.ContainsFunc(wrong, func(text string) bool { return strings.HasPrefix(text, "CardQuota "+name) }), "wrong before the first status: %q", wrong)
	recount.apply(now, watch.Added, builder.Queue(name).Annotation("volcano.sh/card.allocated", `{"`+p.model(1)+`":3}`).Obj())
	check.Equal(t, "Queue says", "0 3 0 0 ", recount.historyOf(queues, name).says)
}

// TestExceededLimitsFail: the benchmark fails if the operator exceeds a limit, and the report names it after
// "FAILED:". Each row exceeds one limit of a report that keeps all. A machine that was too busy to make 90 % of the 40
// changes of pods proves nothing, which is another error. But a limit that is exceeded then is still reported. The key
// of a row is a part of the line after FAILED.
func TestExceededLimitsFail(t *testing.T) {
	r := &report{size: smallest, loadTime: time.Second, changes: 40, load: usage{cpu: 0.5}}
	var out strings.Builder
	check.NoError(t, r.finish(&out, nil))
	check.Contains(t, "report", out.String(), "All limits are kept")
	for wantFailed, exceed := range map[string]func(r *report){
		"memory at most":  func(r *report) { r.load.peak = maxMemory + 1 },
		"CPU under load":  func(r *report) { r.load.cpu = 1 },                                        // 1 s in 1 s, not below 1 core
		"CardQuota right": func(r *report) { r.lags[cardQuotas] = []time.Duration{6 * time.Second} }, // at most 5 s late
		"LocalCardQuota":  func(r *report) { r.lags[views] = []time.Duration{16 * time.Second} },     // at most 15 s late
		"differ from":     func(r *report) { r.wrong = []string{"x"} },
		"writes at rest": func(r *report) { // 3, where none may be
			r.restTime = time.Second
			r.restWrites = map[string]int{"PATCH queues": 1, "PATCH configmaps": 2}
		},
		"a quota of 0": func(r *report) { // on its Queue too late
			r.restTime = time.Second
			r.lowered = []time.Duration{time.Millisecond, maxLowered + 1}
		},
		"longest of 1": func(r *report) { r.scrapes = []scrape{{took: 11 * time.Second}} }, // at most 10 s
		"scrapes that failed": func(r *report) { // 2, where 7 that succeed allow 1
			r.scrapes = make([]scrape, 7)
			r.unreadable = []error{errors.New("x"), errors.New("y")}
		},
		"at rest: 0.080": func(r *report) { // 0.07 cores at most
			r.restTime = time.Second
			r.atRest.cpu = 0.08
		},
	} {
		exceeded := *r
		exceed(&exceeded)
		out.Reset()
		err := exceeded.print(&out)
		_, failed, _ := strings.Cut(out.String(), "FAILED: ")
		check.That(t, errors.Is(err, errExceeded), "%s: %v", wantFailed, err)
		check.Contains(t, "after FAILED:", failed, wantFailed)
	}

	r.changes = 30 // of 40
	check.Says(t, r.print(&out), "too busy")
	r.load.cpu = 1
	check.That(t, errors.Is(r.print(&out), errExceeded), "a busy machine hides that a limit is exceeded")
}

// TestAMeasurementThatEndsEarlyIsPrinted: a benchmark that ends with an error prints what it has measured until
// then, with each status that is wrong. Without any measurement it prints nothing. The error is returned in both
// cases.
func TestAMeasurementThatEndsEarlyIsPrinted(t *testing.T) {
	var out strings.Builder
	r := &report{size: smallest, loadTime: time.Second, changes: 40, load: usage{cpu: 0.5}, wrong: []string{"CardQuota x says nothing"}}
	check.Says(t, r.finish(&out, errors.Join(errExceeded, errors.New("not right in time"))), "not right in time")
	check.Contains(t, "report", out.String(), "| CPU under load | 0.50 cores |", "FAILED: CardQuota x says nothing")
	out.Reset()
	var none *report
	check.Says(t, none.finish(&out, errors.New("no cluster")), "no cluster")
	check.Equal(t, "report before anything was measured", "", out.String())
}

// TestSeriesOfAPageAreCounted: the report says how many series a scrape of the operator has: the lines of a page
// that are no comments.
func TestSeriesOfAPageAreCounted(t *testing.T) {
	for page, want := range map[string]int{
		"": 0,
		"# HELP a b\n# TYPE a gauge\na 1\na{b=\"#\"} 2\n": 2,
		"a 1\n# TYPE b gauge\nb 1\n":                      2,
	} {
		check.Equal(t, page, want, countSeries([]byte(page)))
	}
}
