package observer

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"cardquota.dev/operator/internal/testing/check"
)

// The pages of both programs for the script's cluster.
const (
	rightOperator  = `cardquota_last_recount_timestamp_seconds{} 1`
	rightScheduler = `cardquota_ready{} 1`
	holdCard       = `place a node=h200-0 cards=1; write quota q used=1 free=1; write queue q allocated=H200:1; write pod a node=h200-0;`
)

// newMeasuredScene is the script's scene whose programs serve metrics.
func newMeasuredScene() *scene {
	w := newScene()
	options := w.machine.options
	options.Metrics = func(context.Context) (Pages, error) { return Pages{}, nil }
	w.machine = newClusterState(options)
	return w.playScript("load node h200-0; load node rtx4090-0 model=RTX4090; load node unnamed-0 model=; load queue q quota=H200:2; load quota q used=0 free=2")
}

// servePages serves the right pages with changes: "operator+SERIES VALUE" adds a series or replaces
// it, "operator-SERIES" removes it.
func (w *scene) servePages(t *testing.T, process int, changes ...string) {
	t.Helper()
	pages := map[string]map[string]string{"operator": {}, "scheduler": {}}
	add := func(program, line string) {
		at := strings.LastIndex(line, " ")
		pages[program][line[:at]] = line[at+1:]
	}

	for program, text := range map[string]string{"operator": rightOperator, "scheduler": rightScheduler} {
		for line := range strings.SplitSeq(text, "\n") {
			add(program, line)
		}
	}

	for _, change := range strings.Split(strings.Join(changes, ";"), ";") {
		change = strings.TrimSpace(change)
		if program, line, ok := strings.Cut(change, "+"); ok {
			add(program, line)
		} else if program, series, ok := strings.Cut(change, "-"); ok {
			delete(pages[program], series)
		}
	}

	text := func(program string) []byte {
		var page strings.Builder
		typed := map[string]bool{}
		for series := range pages[program] {
			name, _, _ := strings.Cut(series, "{")
			if typed[name] {
				continue
			}

			typed[name] = true
			fmt.Fprintf(&page, "# TYPE %s gauge\n", name)
			for other, value := range pages[program] {
				if strings.HasPrefix(other, name+"{") {
					fmt.Fprintf(&page, "%s %s\n", other, value)
				}
			}
		}

		return []byte(page.String())
	}

	err := w.machine.recordPages(Pages{
		Operator:  Page{Process: process, Asked: w.clock, Answered: w.clock, Text: text("operator")},
		Scheduler: Page{Process: 1, Asked: w.clock, Answered: w.clock, Text: text("scheduler")},
	})
	check.NoError(t, err)
}

func TestMetrics(t *testing.T) {
	const gone = `{queue="gone",card="NVIDIA-H200"} 0`

	for t, tc := range check.Cases(t, map[string]struct{ pages, want string }{
		"right":                      {"", ""},
		"no leader":                  {`operator-cardquota_last_recount_timestamp_seconds{}`, "metrics"},
		"a queue that is gone":       {`operator+cardquota_pending_cards` + gone, "metrics"},
		"the bill of a gone queue":   {`operator+cardquota_card_seconds_total{queue="gone",card="NVIDIA-H200",tenant="",project="",service_type="none"} 0`, "metrics"}, // it never had these labels
		"the scheduler's gone queue": {`scheduler+cardquota_refusals_total` + gone, "metrics"},
		"a scheduler that waits":     {`scheduler+cardquota_ready{} 0; scheduler+cardquota_refusals_total` + gone, ""},
	}) {
		w := newMeasuredScene()
		w.servePages(t, 1, tc.pages)
		w.playScript(`check; wait 21s`).expectViolations(t, tc.want)
	}
}

func TestBindingsAreCounted(t *testing.T) {
	count := func(n int) string {
		return fmt.Sprintf(`operator+cardquota_pod_bound_seconds_count{service_type="training",card="NVIDIA-H200"} %d;`, n)
	}

	const bound = `wait 10s; ` + holdCard + ` write pod a scheduled=15;`
	for t, tc := range check.Cases(t, map[string]struct {
		text, pages string
		process     int
		want        string
	}{
		"a pod":                         {bound + `wait 10s;`, count(6), 1, ""},
		"it is not counted":             {bound + `wait 10s;`, count(5), 1, "metrics"},
		"it is counted twice":           {bound + `wait 10s;`, count(7), 1, "metrics"},
		"it may still be counted":       {bound + `wait 2s;`, count(5), 1, ""},
		"another operator begins again": {bound + `wait 10s;`, count(0), 2, ""},
		"a pod that ends at once":       {bound + `remove pod a; write quota q used=0 free=2; write queue q allocated=; wait 10s;`, count(5), 1, ""},
		"nothing was bound":             {`wait 10s`, count(6), 1, "metrics"},
		"another card":                  {`wait 10s`, count(5) + strings.Replace(count(1), "H200", "H800", 1), 1, "metrics"},
	}) {
		w := newMeasuredScene()
		w.servePages(t, 1, count(5))
		w.checkNow()
		w.playScript(tc.text)
		w.servePages(t, tc.process, count(5), tc.pages)
		w.playScript(`check; wait 21s`).expectViolations(t, tc.want)
	}
}

// secondsOf is a series of card-seconds of q.
func secondsOf(value float64) string {
	return fmt.Sprintf(`operator+cardquota_card_seconds_total{queue="q",card="NVIDIA-H200",tenant="team",project="",service_type="training"} %g; `, value)
}

func TestCardSeconds(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		// after is how long a pod holds a card before the page.
		after   time.Duration
		seconds float64
		want    string
	}{
		"at once nothing":          {0, 0, ""},
		"at once much":             {0, 3, "metrics"},
		"all of it":                {10 * time.Minute, 600, ""},
		"without the last minute":  {10 * time.Minute, 536, ""},
		"without two minutes":      {10 * time.Minute, 480, "metrics"},
		"twice":                    {10 * time.Minute, 1200, "metrics"},
		"more than could be known": {10 * time.Minute, 604, "metrics"},
	}) {
		w := newMeasuredScene().playScript(holdCard)
		w.clock = w.clock.Add(tc.after)

		w.servePages(t, 1, secondsOf(tc.seconds))
		w.playScript(`check; wait 21s`).expectViolations(t, tc.want)
	}
}

func TestCardSecondsOverARestart(t *testing.T) {
	const (
		dated = `write pod a scheduled=0;`
		ends  = `remove pod a; write quota q used=0 free=2; write queue q allocated=;`
	)

	for t, tc := range check.Cases(t, map[string]struct {
		text, ends string
		after      int
		value      float64
		want       string
	}{
		"kept":                                {"", "", 2, 900, ""},
		"a minute lost, and nothing is dated": {"", "", 2, 775, ""},
		"two minutes lost":                    {"", "", 2, 640, "metrics"},
		"lost without a restart":              {"", "", 1, 775, "metrics"},
		"begun again":                         {"", "", 2, 300, "metrics metrics"},
		"credited":                            {dated, "", 2, 900, ""},
		"a minute lost of a pod that goes on": {dated, "", 2, 775, "metrics"},
		"of a pod that ends meanwhile":        {dated, ends, 2, 545, ""},
		"two minutes of such a pod":           {dated, ends, 2, 480, "metrics"},
	}) {
		w := newMeasuredScene().playScript(holdCard + tc.text)
		w.clock = w.clock.Add(10 * time.Minute)
		first := 600.0
		w.servePages(t, 1, secondsOf(470))
		w.checkNow()
		w.playScript(tc.ends)

		if tc.ends != "" { // what was stored last
			first = 470
		}

		w.clock = w.clock.Add(5 * time.Second)
		w.servePages(t, tc.after, secondsOf(first))
		w.clock = w.clock.Add(295 * time.Second)
		w.servePages(t, tc.after, secondsOf(tc.value))
		w.playScript(`check; wait 21s`).expectViolations(t, tc.want)
	}
}

func TestABillNamesTheTenant(t *testing.T) {
	w := newMeasuredScene().playScript(holdCard)
	w.servePages(t, 1, strings.Replace(secondsOf(0), "team", "other", 1))
	w.playScript(`check; wait 21s`).expectViolations(t, "metrics")
}

func TestAPageThatCannotBeReadIsFound(t *testing.T) {
	w := newMeasuredScene()
	if err := w.machine.recordPages(Pages{Operator: Page{Text: []byte("cardquota_ready{")}}); err == nil {
		t.Error("it was read")
	}
	w.playScript(`check; wait 21s`).expectViolations(t, "metrics")
}

func TestAQueueThatIsGoneNeedNoBill(t *testing.T) {
	w := newMeasuredScene().playScript(holdCard)
	key := queueCard{"q", h200}
	later := w.clock.Add(10 * time.Minute)
	if least, _ := w.machine.secondsUntil(key, later, later); least < 500 {
		t.Errorf("at least %g card-seconds", least)
	}
	w.playScript(`remove queue q`)
	if least, most := w.machine.secondsUntil(key, later, later); least > 0 || most < 600 {
		t.Errorf("%g to %g card-seconds", least, most)
	}
}

func TestCardSecondsOfALateWatchAndASlowPage(t *testing.T) {
	w := newMeasuredScene().playScript(holdCard)
	key := queueCard{"q", h200}
	asked := w.clock.Add(10 * time.Minute)
	_, usual := w.machine.secondsUntil(key, asked, asked)
	if _, most := w.machine.secondsUntil(key, asked, asked.Add(7*time.Second)); most != usual+7 {
		t.Errorf("%g card-seconds at most, 7 s after %g", most, usual)
	}
}

func TestEarliestUse(t *testing.T) {
	seen := time.Date(2025, 1, 1, 12, 0, 0, 0, time.UTC)
	scheduled := func(status corev1.ConditionStatus, ago time.Duration) corev1.PodCondition {
		return corev1.PodCondition{Type: corev1.PodScheduled, Status: status, LastTransitionTime: metav1.NewTime(seen.Add(-ago))}
	}

	for t, tc := range check.Cases(t, map[string]struct {
		condition corev1.PodCondition
		want      time.Duration
	}{
		"without a time":    {corev1.PodCondition{}, 2 * time.Second},
		"it was pending":    {scheduled(corev1.ConditionFalse, 9*time.Second), 2 * time.Second},
		"seen late":         {scheduled(corev1.ConditionTrue, 9*time.Second), 9 * time.Second},
		"bound long before": {scheduled(corev1.ConditionTrue, time.Hour), maxWatchLag},
		"a clock ahead":     {scheduled(corev1.ConditionTrue, -time.Second), 2 * time.Second},
	}) {
		pod := &corev1.Pod{Status: corev1.PodStatus{Conditions: []corev1.PodCondition{tc.condition}}}
		if got := seen.Sub(earliestUse(pod, seen)); got != tc.want {
			t.Errorf("%s before it was seen, want %s", got, tc.want)
		}
	}
}

// TestATerminatingPodMayBeBilled: until it is gone.
func TestATerminatingPodMayBeBilled(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct{ text, want string }{
		"while it ends":   {`write pod a deleted=true;`, ""},
		"when it is gone": {`remove pod a;`, "metrics"},
	}) {
		w := newMeasuredScene().playScript(holdCard)
		w.playScript(tc.text + `write quota q used=0 free=2; write queue q allocated=;`)
		w.clock = w.clock.Add(10 * time.Minute)
		w.servePages(t, 1, secondsOf(600))
		w.playScript(`check; wait 21s`).expectViolations(t, tc.want)
	}
}
