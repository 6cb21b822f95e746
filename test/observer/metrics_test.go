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

// The pages of both programs for the script's cluster with a CardQuota q of two H200.
const (
	rightOperator = `cardquota_last_recount_timestamp_seconds{} 1
cardquota_queue_info{queue="q",tenant="team",project="",service_type="training",cardquota="q",parent=""} 1
cardquota_quota_cards{queue="q",card="NVIDIA-H200"} 2
cardquota_used_cards{queue="q",card="NVIDIA-H200"} 0
cardquota_pending_cards{queue="q",card="NVIDIA-H200"} 0
cardquota_physical_cards{card="NVIDIA-H200"} 8
cardquota_healthy_cards{card="NVIDIA-H200"} 8
cardquota_granted_cards{card="NVIDIA-H200"} 2
cardquota_physical_cards{card="NVIDIA-GeForce-RTX-4090"} 8
cardquota_granted_cards{card="NVIDIA-GeForce-RTX-4090"} 0
cardquota_cordoned_cards{card="NVIDIA-H200"} 0
cardquota_allocated_cards{card="NVIDIA-H200"} 0
cardquota_over_allocated_cards{card="NVIDIA-H200"} 0
cardquota_over_allocation_allowed{card="NVIDIA-H200"} 0
cardquota_cordoned_cards{card="NVIDIA-GeForce-RTX-4090"} 0
cardquota_allocated_cards{card="NVIDIA-GeForce-RTX-4090"} 0
cardquota_over_allocated_cards{card="NVIDIA-GeForce-RTX-4090"} 0
cardquota_over_allocation_allowed{card="NVIDIA-GeForce-RTX-4090"} 0
cardquota_healthy_cards{card="NVIDIA-GeForce-RTX-4090"} 8`
	rightScheduler = `cardquota_ready{} 1
cardquota_scheduler_quota_cards{queue="q",card="NVIDIA-H200"} 2
cardquota_scheduler_used_cards{queue="q",card="NVIDIA-H200"} 0
cardquota_queue_cpu_allocated_cores{queue="q"} 0
cardquota_queue_cpu_quota_cores{queue="q"} 0
cardquota_queue_memory_allocated_bytes{queue="q"} 0
cardquota_queue_memory_quota_bytes{queue="q"} 0
cardquota_nodes_anomalous{} 1
cardquota_pods_charged{} 0
cardquota_scheduler_physical_cards{card="NVIDIA-H200"} 8
cardquota_scheduler_physical_cards{card="NVIDIA-GeForce-RTX-4090"} 8`
	// One pod of q holds a card.
	held = `operator+cardquota_used_cards{queue="q",card="NVIDIA-H200"} 1; operator+cardquota_allocated_cards{card="NVIDIA-H200"} 1; scheduler+cardquota_scheduler_used_cards{queue="q",card="NVIDIA-H200"} 1; ` +
		`scheduler+cardquota_queue_card_request{queue="q",card="NVIDIA-H200"} 1; scheduler+cardquota_pods_charged{} 1`
	// Queue byhand uses nothing.
	byHandPages = `scheduler+cardquota_scheduler_used_cards{queue="byhand",card="NVIDIA-H200"} 0;
scheduler+cardquota_queue_cpu_allocated_cores{queue="byhand"} 0;
scheduler+cardquota_queue_cpu_quota_cores{queue="byhand"} 0;
scheduler+cardquota_queue_memory_allocated_bytes{queue="byhand"} 0;
scheduler+cardquota_queue_memory_quota_bytes{queue="byhand"} 0`
	holdCard = `place a h200-0 cards=1; write quota q used=1 free=1; write queue q allocated=H200:1; write pod a on=h200-0;`
)

// newMeasuredWorld is the script's world whose programs serve metrics.
func newMeasuredWorld() *world {
	w := newWorld()
	options := w.machine.options
	options.Metrics = func(context.Context) (Pages, error) { return Pages{}, nil }
	w.machine = newClusterState(options)
	return w.playScript("load node h200-0; load node rtx4090-0 model=RTX4090; load node unnamed-0 model=; load queue q quota=H200:2; load quota q used=0 free=2")
}

// servePages serves the right pages with changes: "operator+SERIES VALUE" adds a series or replaces
// it, "operator-SERIES" removes it.
func (w *world) servePages(t *testing.T, process int, changes ...string) {
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
	for t, tc := range check.Cases(t, map[string]struct{ text, pages, want string }{
		"right":                              {"", "", ""},
		"another quota":                      {"", `operator+cardquota_quota_cards{queue="q",card="NVIDIA-H200"} 3`, "metrics"},
		"no quota":                           {"", `operator-cardquota_quota_cards{queue="q",card="NVIDIA-H200"}`, "metrics"},
		"used cards are not served":          {"", `operator-cardquota_used_cards{queue="q",card="NVIDIA-H200"}`, "metrics"},
		"the scheduler serves no used cards": {"", `scheduler-cardquota_scheduler_used_cards{queue="q",card="NVIDIA-H200"}`, "metrics"},
		"no node is anomalous":               {"", `scheduler+cardquota_nodes_anomalous{} 0`, "metrics"},
		"blocked by no pod":                  {"", `operator+cardquota_blocked_cards{queue="q",reason="NoFreeCard"} 1`, "metrics"},
		"a card that is not used":            {"", `operator+cardquota_used_cards{queue="q",card="NVIDIA-H200"} 1`, "metrics"},
		"over without use":                   {"", `operator+cardquota_over_quota_cards{queue="q",card="NVIDIA-H200"} 1`, "metrics"},
		"deserved while flat":                {"", `operator+cardquota_deserved_cards{queue="q",card="NVIDIA-H200"} 1`, "metrics"},
		"another tenant":                     {"", `operator-cardquota_queue_info{queue="q",tenant="team",project="",service_type="training",cardquota="q",parent=""}; operator+cardquota_queue_info{queue="q",tenant="x",project="",service_type="training",cardquota="q",parent=""} 1`, "metrics metrics"},
		"another physical":                   {"", `operator+cardquota_physical_cards{card="NVIDIA-H200"} 7`, "metrics"},
		"another healthy":                    {"", `operator+cardquota_healthy_cards{card="NVIDIA-H200"} 7`, "metrics"},
		"another cordoned":                   {"", `operator+cardquota_cordoned_cards{card="NVIDIA-H200"} 7`, "metrics"},
		"another granted":                    {"", `operator+cardquota_granted_cards{card="NVIDIA-H200"} 3`, "metrics"},
		"over-allocated":                     {"", `operator+cardquota_over_allocated_cards{card="NVIDIA-H200"} 3`, "metrics"},
		"allowed over-allocation":            {`write quota q over-allocation=Allow`, `operator+cardquota_over_allocation_allowed{card="NVIDIA-H200"} 1`, ""},
		"over-allocation is refused":         {"", `operator+cardquota_over_allocation_allowed{card="NVIDIA-H200"} 1`, "metrics"},
		"it is allowed, not served":          {`write quota q over-allocation=Allow`, "", "metrics"},
		"a queue that is gone":               {"", `operator+cardquota_pending_cards{queue="gone",card="NVIDIA-H200"} 0`, "metrics"},
		"the bill of a gone queue":           {"", `operator+cardquota_card_seconds_total{queue="gone",card="NVIDIA-H200",tenant="",project="",service_type="none"} 0`, "metrics"},
		"no leader":                          {"", `operator-cardquota_last_recount_timestamp_seconds{}`, "metrics"},
		"held":                               {holdCard, held, ""},
		"held, not served":                   {holdCard, "", "metrics metrics metrics metrics metrics"},
		"pending":                            {`write pod a cards=1 says=x created=7; write quota q pending=1 blocked=a:H200:1:QuotaExhausted`, `operator+cardquota_pending_cards{queue="q",card="NVIDIA-H200"} 1; operator+cardquota_blocked_cards{queue="q",reason="QuotaExhausted"} 1; operator+cardquota_oldest_pending_timestamp_seconds{queue="q"} 1735689607`, ""},
		"another age":                        {`write pod a cards=1 says=x created=7; write quota q pending=1 blocked=a:H200:1:QuotaExhausted`, `operator+cardquota_pending_cards{queue="q",card="NVIDIA-H200"} 1; operator+cardquota_blocked_cards{queue="q",reason="QuotaExhausted"} 1; operator+cardquota_oldest_pending_timestamp_seconds{queue="q"} 1735689608`, "metrics"},
		"pending within quota":               {"", `operator+cardquota_oldest_pending_within_quota_timestamp_seconds{queue="q"} 1`, "metrics"},
		"unready":                            {`write node rtx4090-0 ready=False`, `operator+cardquota_healthy_cards{card="NVIDIA-GeForce-RTX-4090"} 0`, ""},
		"the scheduler's quota":              {"", `scheduler+cardquota_scheduler_quota_cards{queue="q",card="NVIDIA-H200"} 3`, "metrics"},
		"the scheduler's usage":              {"", `scheduler+cardquota_scheduler_used_cards{queue="q",card="NVIDIA-H200"} 3`, "metrics"},
		"the scheduler's physical":           {"", `scheduler+cardquota_scheduler_physical_cards{card="NVIDIA-H200"} 3`, "metrics"},
		"the scheduler's gone queue":         {"", `scheduler+cardquota_refusals_total{queue="gone",reason="x"} 3`, "metrics"},
		"pods that are not charged":          {"", `scheduler+cardquota_pods_charged{} 1`, "metrics"},
		"the scheduler's request":            {"", `scheduler+cardquota_queue_card_request{queue="q",card="NVIDIA-H200"} 1`, "metrics"},
		"CPU that is not used":               {"", `scheduler+cardquota_queue_cpu_allocated_cores{queue="q"} 1`, "metrics"},
		"memory that is not used":            {"", `scheduler+cardquota_queue_memory_allocated_bytes{queue="q"} 1`, "metrics"},
		"another CPU quota":                  {"", `scheduler+cardquota_queue_cpu_quota_cores{queue="q"} 1001`, "metrics"},
		"another memory quota":               {"", `scheduler+cardquota_queue_memory_quota_bytes{queue="q"} 7`, "metrics"},
		"unowned":                            {"", `scheduler+cardquota_card_unowned{card="NVIDIA-H200"} 3`, "metrics"},
		"a scheduler that waits":             {"", `scheduler+cardquota_ready{} 0; scheduler-cardquota_scheduler_quota_cards{queue="q",card="NVIDIA-H200"}`, ""},
		"an eviction that was not":           {"", `scheduler+cardquota_reclaimed_pods_total{queue="q",reclaimer_service_type="inference"} 1`, "metrics"},
		"a queue without a CardQuota":        {`write queue byhand quota=H200:1`, `operator+cardquota_unowned_quota_cards{queue="byhand",card="NVIDIA-H200"} 1; operator+cardquota_granted_cards{card="NVIDIA-H200"} 3; scheduler+cardquota_scheduler_quota_cards{queue="byhand",card="NVIDIA-H200"} 1;` + byHandPages, ""},
		"a CardQuota that is ending":         {`write quota q deleted`, `operator+cardquota_granted_cards{card="NVIDIA-H200"} 0`, ""},
		"it is not served":                   {`write queue byhand quota=H200:1`, `operator+cardquota_granted_cards{card="NVIDIA-H200"} 3; scheduler+cardquota_scheduler_quota_cards{queue="byhand",card="NVIDIA-H200"} 1;` + byHandPages, "metrics"},
	}) {
		w := newMeasuredWorld().playScript(tc.text)
		w.servePages(t, 1, tc.pages)

		w.playScript(`judge; wait 21s`).expectViolations(t, tc.want)
	}
}

// reclaimedFrom are the counters of an eviction from q.
func reclaimedFrom(reclaimer string, pods, jobs int, seconds float64) string {
	labels := fmt.Sprintf(`{queue="q",reclaimer_service_type=%q}`, reclaimer)
	return fmt.Sprintf(`scheduler+cardquota_reclaimed_pods_total%[1]s %[2]d; scheduler+cardquota_reclaimed_jobs_total%[1]s %[3]d; scheduler+cardquota_reclaimed_card_seconds_total%[1]s %[4]g;`,
		labels, pods, jobs, seconds)
}

func TestEvictionsAreCounted(t *testing.T) {
	const (
		evicted = holdCard + `evict a cardreclaim; `
		gone    = `write quota q used=0 free=2; write queue q allocated=;`
	)

	group := `load group g queue=q members=1; ` + strings.ReplaceAll(holdCard, "place a h200-0 cards=1;", "place a h200-0 cards=1 group=g started=-600; place b h200-0 group=g;")
	for t, tc := range check.Cases(t, map[string]struct{ text, pages, want string }{
		"a pod, which is its job":         {evicted + gone, reclaimedFrom("inference", 1, 1, 0), ""},
		"not served":                      {evicted + gone, "", "metrics metrics"},
		"twice":                           {evicted + gone, reclaimedFrom("inference", 1, 1, 0) + reclaimedFrom("other", 1, 1, 0), "metrics metrics"},
		"without its job":                 {evicted + gone, reclaimedFrom("inference", 1, 0, 0), "metrics"},
		"work of a pod that has not any":  {evicted + gone, reclaimedFrom("inference", 1, 1, 5), "metrics"},
		"a pod of a job that goes on":     {group + `evict a cardreclaim; ` + gone, reclaimedFrom("inference", 1, 0, 600) + restOfJob, ""},
		"as if its job ended":             {group + `evict a cardreclaim; ` + gone, reclaimedFrom("inference", 1, 1, 600) + restOfJob, "metrics"},
		"a whole job":                     {group + `evict a cardreclaim; evict b cardreclaim; ` + gone, reclaimedFrom("inference", 2, 1, 600), ""},
		"a whole job, each pod as a job":  {group + `evict a cardreclaim; evict b cardreclaim; ` + gone, reclaimedFrom("inference", 2, 2, 600), "metrics"},
		"its work, decided earlier":       {group + `evict a cardreclaim; ` + gone, reclaimedFrom("inference", 1, 0, 590) + restOfJob, ""},
		"less than its work":              {group + `evict a cardreclaim; ` + gone, reclaimedFrom("inference", 1, 0, 580) + restOfJob, "metrics"},
		"more than its work":              {group + `evict a cardreclaim; ` + gone, reclaimedFrom("inference", 1, 0, 603) + restOfJob, "metrics"},
		"the work since a checkpoint":     {group + `write group g checkpoint=` + tenMinutesLater + `; evict a cardreclaim; ` + gone, reclaimedFrom("inference", 1, 0, 0) + restOfJob, ""},
		"the work before the checkpoint":  {group + `write group g checkpoint=` + tenMinutesLater + `; evict a cardreclaim; ` + gone, reclaimedFrom("inference", 1, 0, 600) + restOfJob, "metrics"},
		"a pod that the stock one evicts": {holdCard + `evict a preempt; ` + gone, "", ""},
	}) {
		w := newMeasuredWorld()
		w.machine.excused[Eviction]++
		w.servePages(t, 1)
		w.playScript(tc.text)
		w.servePages(t, 1, tc.pages)
		w.playScript(`judge; wait 21s`).expectViolations(t, tc.want)
	}
}

// restOfJob is what pod b of a job adds: it is charged, and holds no card.
const restOfJob = `scheduler+cardquota_pods_charged{} 1`

// tenMinutesLater is the time of the script's beginning: a pod that started at -600 has run so long.
var tenMinutesLater = began.Format(time.RFC3339)

// TestRequestsOfPendingPods: a pod that may use either of two cards counts for both together, and a name
// that no node and no quota has is unknown.
func TestRequestsOfPendingPods(t *testing.T) {
	series := func(card string, count int) string {
		return fmt.Sprintf(`scheduler+cardquota_queue_card_request{queue="q",card=%q} %d;`, card, count)
	}

	const others = `operator+cardquota_oldest_pending_timestamp_seconds{queue="q"} 1735689607; operator+cardquota_pending_cards{queue="q",card="NVIDIA-H200"} 3; operator+cardquota_blocked_cards{queue="q",reason="QuotaExhausted"} 3;`
	for t, tc := range check.Cases(t, map[string]struct{ card, pages, want string }{
		"one card":           {"H200", series("NVIDIA-H200", 3), ""},
		"another count":      {"H200", series("NVIDIA-H200", 2), "metrics"},
		"either of two":      {"H200|RTX4090", series("NVIDIA-GeForce-RTX-4090|NVIDIA-H200", 3), ""},
		"either, as the one": {"H200|RTX4090", series("NVIDIA-H200", 3), "metrics metrics"},
	}) {
		w := newMeasuredWorld().playScript(`write group g queue=q members=1; write pod a cards=3 card=` + tc.card + ` group=g says=x created=7; write quota q pending=3 blocked=a:` + tc.card + `:3:QuotaExhausted`)
		w.servePages(t, 1, others, tc.pages)
		w.playScript(`judge; wait 21s`).expectViolations(t, tc.want)
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
		"a pod":                         {bound + `wait 10s;`, count(6) + held, 1, ""},
		"it is not counted":             {bound + `wait 10s;`, count(5) + held, 1, "metrics"},
		"it is counted twice":           {bound + `wait 10s;`, count(7) + held, 1, "metrics"},
		"it may still be counted":       {bound + `wait 2s;`, count(5) + held, 1, ""},
		"another operator begins again": {bound + `wait 10s;`, count(0) + held, 2, ""},
		"a pod that ends at once":       {bound + `remove pod a; write quota q used=0 free=2; write queue q allocated=; wait 10s;`, count(5), 1, ""},
		"nothing was bound":             {`wait 10s`, count(6), 1, "metrics"},
		"another card":                  {`wait 10s`, count(5) + strings.Replace(count(1), "H200", "H800", 1), 1, "metrics"},
	}) {
		w := newMeasuredWorld()
		w.servePages(t, 1, count(5))
		w.checkNow()
		w.playScript(tc.text)
		w.servePages(t, tc.process, count(5), tc.pages)
		w.playScript(`judge; wait 21s`).expectViolations(t, tc.want)
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
		w := newMeasuredWorld().playScript(holdCard)
		w.clock = w.clock.Add(tc.after)

		w.servePages(t, 1, held, secondsOf(tc.seconds))
		w.playScript(`judge; wait 21s`).expectViolations(t, tc.want)
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
		w := newMeasuredWorld().playScript(holdCard + tc.text)
		w.clock = w.clock.Add(10 * time.Minute)
		first := 600.0
		last := held
		w.servePages(t, 1, held, secondsOf(470))
		w.checkNow()
		w.playScript(tc.ends)

		if tc.ends != "" { // what was stored last
			first = 470
			last = ""
		}

		w.clock = w.clock.Add(5 * time.Second)
		w.servePages(t, tc.after, last, secondsOf(first))
		w.clock = w.clock.Add(295 * time.Second)
		w.servePages(t, tc.after, last, secondsOf(tc.value))
		w.playScript(`judge; wait 21s`).expectViolations(t, tc.want)
	}
}

func TestABillNamesTheTenant(t *testing.T) {
	w := newMeasuredWorld().playScript(holdCard)
	w.servePages(t, 1, held, strings.Replace(secondsOf(0), "team", "other", 1))
	w.playScript(`judge; wait 21s`).expectViolations(t, "metrics")
}

func TestAPageThatCannotBeReadIsFound(t *testing.T) {
	w := newMeasuredWorld()
	if err := w.machine.recordPages(Pages{Operator: Page{Text: []byte("cardquota_ready{")}}); err == nil {
		t.Error("it was read")
	}
	w.playScript(`judge; wait 21s`).expectViolations(t, "metrics")
}

func TestAQueueThatIsGoneNeedNoBill(t *testing.T) {
	w := newMeasuredWorld().playScript(holdCard)
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
	w := newMeasuredWorld().playScript(holdCard)
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
		"while it ends":   {`write pod a deleted;`, ""},
		"when it is gone": {`remove pod a;`, "metrics"},
	}) {
		w := newMeasuredWorld().playScript(holdCard)
		w.playScript(tc.text + `write quota q used=0 free=2; write queue q allocated=;`)
		w.clock = w.clock.Add(10 * time.Minute)
		w.servePages(t, 1, secondsOf(600))
		w.playScript(`judge; wait 21s`).expectViolations(t, tc.want)
	}
}
