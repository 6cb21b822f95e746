package observer

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"cardquota.dev/operator/internal/testing/check"
)

const (
	// rightPages are lines "PROGRAM SERIES VALUE" of an operator that leads and of a scheduler that decides.
	rightPages = `
		operator cardquota_last_recount_timestamp_seconds{} 1
		scheduler cardquota_ready{} 1
	`
	// placeA places pod a of queue q with one H200 now.
	placeA = `
		place a node=h200-0 cards=1
		write quota q used=1 free=1
		write queue q allocated=H200:1
		write pod a node=h200-0
	`
	// aEnds removes pod a.
	aEnds = `
		remove pod a
		write quota q used=0 free=2
		write queue q allocated=
	`
)

// newSceneWithMetrics has programs that serve metrics, and CardQuota q of tenant "team" and type training with a quota
// of 2 H200.
func newSceneWithMetrics() *scene {
	s := newSceneWithQuotaOfTwo()
	options := s.observed.options
	options.Metrics = func(context.Context) (Pages, error) { return Pages{}, nil }
	s.observed = newClusterState(options)
	return s.playScript(`
		load node h200-0
		load node rtx4090-0 model=RTX4090
		load node unnamed-0 model=
		load queue q quota=H200:2
		load quota q used=0 free=2`)
}

// servePages lets the observer read the right pages with changes, which are lines "PROGRAM SERIES VALUE". The value
// "absent" omits a series. The process is that of the operator: a restart gives another one.
func (s *scene) servePages(t *testing.T, operatorProcess int, changes string) {
	pages := map[string]map[string]string{"operator": {}, "scheduler": {}}
	for line := range strings.Lines(rightPages + changes) {
		if fields := strings.Fields(line); len(fields) == 3 {
			pages[fields[0]][fields[1]] = fields[2]
		}
	}

	page := func(program string, process int) Page {
		return Page{Process: process, Asked: s.clock, Answered: s.clock, Text: pageText(pages[program])}
	}
	check.NoError(t, s.observed.recordPages(Pages{Operator: page("operator", operatorProcess), Scheduler: page("scheduler", 1)}))
}

// pageText writes series in the text format of Prometheus.
func pageText(series map[string]string) []byte {
	var text strings.Builder
	previous := ""
	for _, key := range slices.Sorted(maps.Keys(series)) {
		name, _, _ := strings.Cut(key, "{")
		if name != previous {
			fmt.Fprintf(&text, "# TYPE %s gauge\n", name)
			previous = name
		}
		if series[key] != "absent" {
			fmt.Fprintf(&text, "%s %s\n", key, series[key])
		}
	}

	return []byte(text.String())
}

// cardSecondsOfQ is the series of the H200 card-seconds of queue q.
func cardSecondsOfQ(seconds float64) string {
	return fmt.Sprintf("operator cardquota_card_seconds_total{queue=\"q\",card=\"NVIDIA-H200\",tenant=\"team\",project=\"\",service_type=\"training\"} %g\n", seconds)
}

// TestNoProgramHasSeriesOfAQueueThatDoesNotExist: the series of a queue must end with it, at the operator that leads
// and at the scheduler that decides. Card-seconds stay for the bill, but only with labels that the queue had. The
// pages are read once; queue q exists, queue "gone" does not. An operator leads if it serves last_recount, and a
// scheduler decides if it serves cardquota_ready 1, as on the right pages. The observer reports violation "metrics"
// if a series is wrong for 20 s, or if no operator leads.
func TestNoProgramHasSeriesOfAQueueThatDoesNotExist(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct{ changedPages, wantViolation string }{
		"no series of a queue":                        {"", ""},
		"no operator leads":                           {`operator cardquota_last_recount_timestamp_seconds{} absent`, "metrics"},
		"the operator has pending cards of the queue": {`operator cardquota_pending_cards{queue="gone",card="NVIDIA-H200"} 0`, "metrics"},
		"the operator has card-seconds with labels that the queue never had": {
			`operator cardquota_card_seconds_total{queue="gone",card="NVIDIA-H200",tenant="",project="",service_type="none"} 0`, "metrics",
		},
		"the scheduler has refusals of the queue": {`scheduler cardquota_refusals_total{queue="gone",card="NVIDIA-H200"} 0`, "metrics"},
		"a scheduler that does not decide has refusals of the queue": {`
			scheduler cardquota_ready{} 0
			scheduler cardquota_refusals_total{queue="gone",card="NVIDIA-H200"} 0`, ""},
	}) {
		s := newSceneWithMetrics()
		s.servePages(t, 1, tc.changedPages)

		s.playScript(`check; wait 21s`).expectViolations(t, tc.wantViolation)
	}
}

// TestTheOperatorCountsEachBindingOnce: the operator counts each pod with cards that is bound, by service type and
// card. It may count it 5 s late, and may miss a pod that ends within 5 s. The first page counts 5 pods. Then the steps
// bind one pod a with an H200 of training, or none, and the second page has the count of the row.
func TestTheOperatorCountsEachBindingOnce(t *testing.T) {
	boundPods := func(card string, pods int) string {
		return fmt.Sprintf("operator cardquota_pod_bound_seconds_count{service_type=\"training\",card=%q} %d\n", card, pods)
	}

	// The operator must count a pod only if the API server dated its binding, as scheduled= does. Which date it is does
	// not matter here.
	const aIsBound = `
		wait 10s
	` + placeA + `
		write pod a scheduled=15
	`
	for t, tc := range check.Cases(t, map[string]struct {
		steps           string
		secondPage      string
		operatorProcess int
		wantViolation   string
	}{
		"bound 10 s ago, and counted":             {aIsBound + `wait 10s`, boundPods(h200, 6), 1, ""},
		"bound 10 s ago, and not counted":         {aIsBound + `wait 10s`, boundPods(h200, 5), 1, "metrics"},
		"bound 10 s ago, and counted twice":       {aIsBound + `wait 10s`, boundPods(h200, 7), 1, "metrics"},
		"bound 4 s ago, and not counted":          {aIsBound + `wait 4s`, boundPods(h200, 5), 1, ""},
		"another operator leads, and begins at 0": {aIsBound + `wait 10s`, boundPods(h200, 0), 2, ""},
		"bound, removed at once, and not counted": {aIsBound + aEnds + `wait 10s`, boundPods(h200, 5), 1, ""},
		"none was bound, and one is counted":      {`wait 10s`, boundPods(h200, 6), 1, "metrics"},
		"none was bound, and one of another card is counted": {
			`wait 10s`, boundPods(h200, 5) + boundPods("NVIDIA-H800", 1), 1, "metrics",
		},
	}) {
		s := newSceneWithMetrics()
		s.servePages(t, 1, boundPods(h200, 5))
		s.checkNow()
		s.playScript(tc.steps)

		s.servePages(t, tc.operatorProcess, tc.secondPage)
		s.playScript(`check; wait 21s`).expectViolations(t, tc.wantViolation)
	}
}

// TestCardSecondsEqualWhatPodsUsed: the operator sums up cards × seconds for bills. Pod a uses one H200 for the time of
// the row, and then the page is read. The sum may lack what is not stored yet, 60 s, and what was not noticed yet, 5 s.
// It may have 2 s more, because the observer may see a pod late.
func TestCardSecondsEqualWhatPodsUsed(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		used          string
		seconds       float64
		wantViolation string
	}{
		"used for 0 s, and 0 on the page":     {"0s", 0, ""},
		"used for 0 s, and 3 on the page":     {"0s", 3, "metrics"},
		"used for 600 s, and 600 on the page": {"600s", 600, ""},
		"used for 600 s, 64 s are missing":    {"600s", 536, ""},
		"used for 600 s, 66 s are missing":    {"600s", 534, "metrics"},
		"used for 600 s, and counted twice":   {"600s", 1200, "metrics"},
		"used for 600 s, and 601 on the page": {"600s", 601, ""},
		"used for 600 s, and 603 on the page": {"600s", 603, "metrics"},
	}) {
		s := newSceneWithMetrics().playScript(placeA + "wait " + tc.used)

		s.servePages(t, 1, cardSecondsOfQ(tc.seconds))

		s.playScript(`check; wait 21s`).expectViolations(t, tc.wantViolation)
	}
}

// TestARestartOfTheOperatorLosesAtMostAMinuteOfCardSeconds: an operator that restarts goes on from the stored sum,
// and credits pods with a dated binding for the time in which no operator counted. Other pods, and those that end
// meanwhile, may lose a minute before the restart and 5 s after it. Pod a uses one H200. In rows "dated" the API
// server dated its binding. The operator restarts between 600 s and 605 s, as its process is 2 then. At 900 s the
// page is read. Without a restart at least 900 - 60 - 5 = 835 must be on it.
func TestARestartOfTheOperatorLosesAtMostAMinuteOfCardSeconds(t *testing.T) {
	const bindingIsDated = `write pod a scheduled=0`
	for t, tc := range check.Cases(t, map[string]struct {
		steps              string
		stepsBeforeRestart string
		process            int
		secondsAt605       float64
		secondsAt900       float64
		wantViolations     string
	}{
		"all is kept":                                        {"", "", 2, 600, 900, ""},
		"not dated: 125 s are missing":                       {"", "", 2, 600, 775, ""}, // at least 835 - 60 - 5 - 5 of the restart itself
		"not dated: 137 s are missing":                       {"", "", 2, 600, 763, "metrics"},
		"not dated: 125 s are missing, and no restart":       {"", "", 1, 600, 775, "metrics"},
		"not dated: begun again, so it falls and is too low": {"", "", 2, 600, 300, "metrics metrics"},
		"dated: all is kept":                                 {bindingIsDated, "", 2, 600, 900, ""},
		"dated: 67 s are missing":                            {bindingIsDated, "", 2, 600, 833, "metrics"}, // of the 835 the credit may round off less than 2
		"dated, and a ends at 600 s: 55 s are missing":       {bindingIsDated, aEnds, 2, 470, 545, ""},     // at least 600 - 5 when it began - 60 before the restart
		"dated, and a ends at 600 s: 67 s are missing":       {bindingIsDated, aEnds, 2, 470, 533, "metrics"},
	}) {
		s := newSceneWithMetrics().playScript(placeA).playScript(tc.steps).playScript(`wait 600s`)
		s.servePages(t, 1, cardSecondsOfQ(470)) // what was stored last
		s.checkNow()
		s.playScript(tc.stepsBeforeRestart)

		s.playScript(`wait 5s`)
		s.servePages(t, tc.process, cardSecondsOfQ(tc.secondsAt605))
		s.playScript(`wait 295s`)
		s.servePages(t, tc.process, cardSecondsOfQ(tc.secondsAt900))
		s.playScript(`check; wait 21s`).expectViolations(t, tc.wantViolations)
	}
}

// TestCardSecondsNameTheTenantOfTheQueue: bills are made from the labels of card-seconds. Queue q is of tenant
// "team", and the page says "other", which the observer must report. The sum of the page is right: pod a was placed
// just now.
func TestCardSecondsNameTheTenantOfTheQueue(t *testing.T) {
	s := newSceneWithMetrics().playScript(placeA)
	s.servePages(t, 1, strings.Replace(cardSecondsOfQ(0), "team", "other", 1))
	s.playScript(`check; wait 21s`).expectViolations(t, "metrics")
}

// TestAPageThatCannotBeReadIsAViolation: the observer must not pass a program whose page is broken. The page ends within
// the braces of its first series.
func TestAPageThatCannotBeReadIsAViolation(t *testing.T) {
	s := newSceneWithMetrics()
	check.Says(t, s.observed.recordPages(Pages{Operator: Page{Text: []byte("cardquota_ready{")}}), "metrics: ")
	s.playScript(`check; wait 21s`).expectViolations(t, "metrics")
}

// TestAQueueThatDoesNotExistNeedsNoCardSeconds: pod a uses a card of queue q for 600 s, so at least about 600 - 65 must
// be billed. A queue that was removed may have them on its bill, but need not.
func TestAQueueThatDoesNotExistNeedsNoCardSeconds(t *testing.T) {
	s := newSceneWithMetrics().playScript(placeA)
	key := queueCard{"q", h200}
	later := s.clock.Add(600 * time.Second)
	least, _ := s.observed.secondsUntil(key, later, later)
	check.That(t, least >= 534, "while the queue exists, at least %g card-seconds are right, want 534 or more", least)

	s.playScript(`remove queue q`)
	least, most := s.observed.secondsUntil(key, later, later)
	check.That(t, least <= 0 && most >= 600, "%g to %g card-seconds are right, want 0 to 600 or more", least, most)
}

// TestAPageMayHaveTheCardSecondsUntilItsAnswer: a slow program may count until it answers. Pod a uses one card, so a page
// that is answered 7 s after it was asked for may have 7 card-seconds more.
func TestAPageMayHaveTheCardSecondsUntilItsAnswer(t *testing.T) {
	s := newSceneWithMetrics().playScript(placeA)
	key := queueCard{"q", h200}
	asked := s.clock.Add(10 * time.Minute)

	_, answeredAtOnce := s.observed.secondsUntil(key, asked, asked)
	_, answeredLate := s.observed.secondsUntil(key, asked, asked.Add(7*time.Second))
	check.Equal(t, "most card-seconds of a late answer", answeredAtOnce+7, answeredLate)
}

// TestCardSecondsMayBeginAtTheBinding: the observer may see late that a pod was bound, and the operator earlier. So the
// card-seconds of a pod may begin when the API server dates its binding, at most 30 s before the observer saw it.
// Without a date of the past they may begin 2 s before.
func TestCardSecondsMayBeginAtTheBinding(t *testing.T) {
	seen := time.Date(2025, 1, 1, 12, 0, 0, 0, time.UTC)
	scheduled := func(status corev1.ConditionStatus, ago time.Duration) corev1.PodCondition {
		return corev1.PodCondition{Type: corev1.PodScheduled, Status: status, LastTransitionTime: metav1.NewTime(seen.Add(-ago))}
	}

	for t, tc := range check.Cases(t, map[string]struct {
		condition  corev1.PodCondition
		wantBefore time.Duration
	}{
		"no condition, so no date":                      {corev1.PodCondition{}, 2 * time.Second},
		"the date is of a pod that was not bound":       {scheduled(corev1.ConditionFalse, 9*time.Second), 2 * time.Second},
		"bound 9 s before it was seen":                  {scheduled(corev1.ConditionTrue, 9*time.Second), 9 * time.Second},
		"bound an hour before it was seen":              {scheduled(corev1.ConditionTrue, time.Hour), 30 * time.Second},
		"bound 1 s after it was seen, by another clock": {scheduled(corev1.ConditionTrue, -time.Second), 2 * time.Second},
	}) {
		pod := &corev1.Pod{Status: corev1.PodStatus{Conditions: []corev1.PodCondition{tc.condition}}}
		check.Equal(t, "time before it was seen", tc.wantBefore, seen.Sub(earliestUse(pod, seen)))
	}
}

// TestATerminatingPodMayBeBilledUntilItIsGone: pod a uses one card, and is deleted at once. While it terminates it still
// uses the card, so a bill of 600 s is right 600 s later. When it is gone, it is not.
func TestATerminatingPodMayBeBilledUntilItIsGone(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct{ step, wantViolation string }{
		"a still terminates": {`write pod a deleted=true`, ""},
		"a is gone":          {`remove pod a`, "metrics"},
	}) {
		s := newSceneWithMetrics().playScript(placeA).playScript(tc.step)
		s.playScript(`write quota q used=0 free=2; write queue q allocated=; wait 600s`)

		s.servePages(t, 1, cardSecondsOfQ(600))
		s.playScript(`check; wait 21s`).expectViolations(t, tc.wantViolation)
	}
}
