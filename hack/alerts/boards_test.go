package alerts

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	promql "github.com/prometheus/prometheus/promql/parser"
)

// board is what these tests read of a board of config/grafana.
type board struct {
	Editable   bool
	Templating struct {
		List []struct {
			Name, Type string
			Refresh    int
		}
	}
	Panels []boardPanel
}

// boardPanel is what these tests read of a panel.
type boardPanel struct {
	ID                 int
	Title, Description string
	Datasource         struct{ UID string }
	FieldConfig        struct{ Defaults struct{ Unit string } }
	Targets            []struct {
		Expr, RefID, LegendFormat string
		Datasource                struct{ UID string }
	}
}

// boardSource is the variable for the data source that each board has.
const boardSource = "${datasource}"

// readBoards returns the boards of config/grafana by file.
func readBoards(t *testing.T) map[string]board {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(projectRoot, "config/grafana/*.json"))
	noError(t, err)
	requireThat(t, len(files) >= 4, "%d boards", len(files))

	all := map[string]board{}
	for _, file := range files {
		var b board
		name := filepath.Base(file)
		noError(t, json.Unmarshal([]byte(readFile(t, "config/grafana/"+name)), &b))
		all[name] = b
	}

	return all
}

// TestBoardsKeepTheRulesOfGrafanasLinter: the boards keep those rules of Grafana's dashboard-linter that fit here. A
// board cannot be edited in Grafana, where changes would be lost. Variables that come from a query are refreshed when
// the range of time changes. Each panel has a number of its own, a title, a description and a unit. Each query has a
// name of its own in its panel. Panels and queries use the data source that the user chose.
func TestBoardsKeepTheRulesOfGrafanasLinter(t *testing.T) {
	for name, b := range readBoards(t) {
		ids := map[int]bool{}
		checkVariables(t, name, b)
		for _, p := range b.Panels {
			where := fmt.Sprintf("%s: panel %d %q", name, p.ID, p.Title)
			expectThat(t, p.ID != 0 && !ids[p.ID], "%s has no number of its own", where)
			expectThat(t, p.Title != "" && p.Description != "", "%s has no title or description", where)
			expectThat(t, p.FieldConfig.Defaults.Unit != "", "%s has no unit", where)
			expectThat(t, p.Datasource.UID == boardSource, "%s has the data source %s", where, p.Datasource.UID)

			ids[p.ID] = true
			checkQueries(t, name, p)
		}

		expectThat(t, !b.Editable, "%s can be edited", name)
		expectThat(t, len(b.Panels) > 0, "%s has no panel", name)
	}
}

// checkQueries checks that each query of a panel has a name of its own and the board's data source.
func checkQueries(t *testing.T, name string, p boardPanel) {
	t.Helper()
	refs := map[string]bool{}
	for _, target := range p.Targets {
		expectThat(t, target.RefID != "" && !refs[target.RefID] && target.Datasource.UID == boardSource, "%s: panel %q: query %q has no name of its own, or another data source", name, p.Title, target.RefID)
		refs[target.RefID] = true
	}
}

func checkVariables(t *testing.T, name string, b board) {
	t.Helper()
	for _, v := range b.Templating.List {
		const withTheTime = 2 // of Grafana: refreshed when the range of time changes
		expectThat(t, v.Type != "query" || v.Refresh == withTheTime, "%s: variable %s is not refreshed with the time", name, v.Name)
	}
}

// TestBoardsQueryMetricsThatTheProgramsExport: each query of a board parses, and uses at least one metric.
// docs/metrics.md explains all that it uses, except two of Prometheus. Counters (_total, _bucket) are read
// over a range of time, and gauges at one moment. There are two exceptions. A counter before "unless" counts
// whole, because "unless" leaves those that had no value before. "up" may be read in both ways.
// TestBoardsAndAlertsUseLabelsThatTheirMetricsHave checks the labels.
func TestBoardsQueryMetricsThatTheProgramsExport(t *testing.T) {
	known := documentedNames(t)
	known["up"] = true
	known["process_start_time_seconds"] = true // of Prometheus, and of each program
	variables := strings.NewReplacer("$__rate_interval", "5m", "$__range", "1d")

	suffix := regexp.MustCompile(`_(bucket|count|sum)$`)
	for name, b := range readBoards(t) {
		for _, p := range b.Panels {
			for _, target := range p.Targets {
				expression := value(promql.ParseExpr(variables.Replace(target.Expr)))(t)
				expectThat(t, len(promql.ExtractSelectors(expression)) > 0, "%s: panel %q uses no metric", name, p.Title)
				promql.Inspect(expression, func(node promql.Node, path []promql.Node) error {
					selector, ok := node.(*promql.VectorSelector)
					if !ok {
						return nil
					}

					expectThat(t, known[suffix.ReplaceAllString(selector.Name, "")], "%s: panel %q uses %s, which docs/metrics.md does not explain", name, p.Title, selector.Name)

					_, isRange := path[len(path)-1].(*promql.MatrixSelector)
					isCounter := strings.HasSuffix(selector.Name, "_total") || strings.HasSuffix(selector.Name, "_bucket")
					expectThat(t, isCounter == isRange || isNewSeries(path) || selector.Name == "up", "%s: panel %q: want counters over a range, and gauges at one moment: %s", name, p.Title, selector.Name)

					return nil
				})
			}
		}
	}
}

// isNewSeries reports whether a selector stands before unless: a series that was not there before
// counts whole.
func isNewSeries(path []promql.Node) bool {
	parent, ok := path[len(path)-1].(*promql.BinaryExpr)
	return ok && parent.Op == promql.LUNLESS
}

// TestTheBoardCountsTheFirstValueOfACounter: Prometheus sees no increase when a counter begins with 5, as it
// has no value before. The panel "Evicted pods" of the board tide counts these 5 for the five minutes of its
// range, and not later. It does so only if the program was scraped in the hour before these minutes, or
// started less than an hour ago. After a pause of the counter or of the scrapes the same value is no
// increase. "up" is 1 while the program is scraped. Scrapes are 30 s apart. A counter with "_x20 5x20" has no
// value in the first 20 of them, and begins with 5 after ten minutes. "stale" ends a series. A process with a
// start time of -90000 has run for 25 hours at 0 s. The rows want the sum of the panel at some times.
func TestTheBoardCountsTheFirstValueOfACounter(t *testing.T) {
	const program = `job="s",instance="s"`
	counter := func(values string) string {
		return `cardquota_reclaimed_pods_total{` + program + `,queue="q",reclaimer_service_type="inference"} ` + values
	}

	process := func(name, values string) string { return name + `{` + program + `} ` + values }
	for name, tc := range map[string]struct {
		series []string
		want   map[time.Duration]float64
	}{
		"a program runs for 25 hours, its counter begins with 5 after 10 minutes, and pauses from 20:30 to 26:00": {
			[]string{counter(`_x20 5x20 stale _x10 5x30`), process("up", `1x90`), process("process_start_time_seconds", `-90000x90`)},
			map[time.Duration]float64{11 * time.Minute: 5, 14 * time.Minute: 5, 17 * time.Minute: 0, 28 * time.Minute: 0},
		},
		"a program starts after 10 minutes, with a counter of 5": {
			[]string{counter(`_x20 5x70`), process("up", `_x20 1x70`), process("process_start_time_seconds", `_x20 590x70`)},
			map[time.Duration]float64{11 * time.Minute: 5, 14 * time.Minute: 5, 17 * time.Minute: 0},
		},
		"Prometheus was away for two hours, and the counter of 500 is the same": {
			[]string{counter(`0x20 500x20 _x240 500x60`), process("up", `1x40 _x240 1x60`), process("process_start_time_seconds", `-90000x40 _x240 -90000x60`)},
			map[time.Duration]float64{141 * time.Minute: 0, 143 * time.Minute: 0, 147 * time.Minute: 0, 160 * time.Minute: 0},
		},
		"the program could not be scraped for two hours, and the counter of 500 is the same": {
			[]string{counter(`0x20 500x20 stale _x240 500x60`), process("up", `1x40 0x240 1x60`), process("process_start_time_seconds", `-90000x40 stale _x240 -90000x60`)},
			map[time.Duration]float64{142 * time.Minute: 0, 147 * time.Minute: 0, 160 * time.Minute: 0},
		},
	} {
		scene := newScene(t, tc.series...)
		for at, want := range tc.want {
			sum := 0.0
			for _, sample := range scene.runQuery(queryOf(t, "tide.json", "Evicted pods"), at) {
				sum += sample.F
			}
			expectThat(t, sum == want, "%s, after %s: %v, want %v", name, at, sum, want)
		}
	}
}

// queryOf returns the first query of a panel, for all values of the variables.
func queryOf(t *testing.T, file, title string) string {
	t.Helper()
	for _, p := range readBoards(t)[file].Panels {
		if p.Title == title {
			return strings.NewReplacer("$__rate_interval", "5m", "$card", ".*", "$tenant", ".*").Replace(p.Targets[0].Expr)
		}
	}
	t.Fatalf("%s has no panel %q", file, title)
	return ""
}

// ofBothReplicas returns a series of the old replica, with value old, and one of the new replica, with value now.
// Metrics without labels have a="b" here. A scrape is every 30 s. The old replica serves its value until 10:30
// ("x21": 21 times more), and then ends ("stale"). The new one has no value in the first 19 scrapes ("_x19") and
// serves its own from 9:30. So at 9:30, 10:00 and 10:30 both serve.
func ofBothReplicas(series, old, now string) []string {
	name, labels, _ := strings.Cut(series, "{")
	return []string{name + `{pod="old",` + labels + ` ` + old + `x21 stale`, name + `{pod="new",` + labels + ` _x19 ` + now + `x40`}
}

// overlap is a time at which both replicas serve.
const overlap = 10 * time.Minute

// newSceneOfTwoReplicas has queues q and moved. Queue moved is of lab's training for the old replica, and of shop's
// inference for the new one.
func newSceneOfTwoReplicas(t *testing.T) *scrapedSeries {
	return newScene(t, slices.Concat(
		ofBothReplicas(`cardquota_queue_info{queue="q",tenant="lab",project="llm",service_type="training",cardquota="q",parent=""}`, "1", "1"),
		ofBothReplicas(`cardquota_queue_info{queue="moved",tenant="lab",project="llm",service_type="training",cardquota="moved",parent=""}`, "1", "1")[:1],   // that of the old replica
		ofBothReplicas(`cardquota_queue_info{queue="moved",tenant="shop",project="web",service_type="inference",cardquota="moved",parent=""}`, "1", "1")[1:], // that of the new replica
		ofBothReplicas(`cardquota_used_cards{queue="q",card="A"}`, "2", "3"),
		ofBothReplicas(`cardquota_used_cards{queue="moved",card="A"}`, "1", "1"),
		ofBothReplicas(`cardquota_quota_cards{queue="q",card="A"}`, "4", "4"),
		ofBothReplicas(`cardquota_pending_cards{queue="q",card="A"}`, "1", "1"),
		ofBothReplicas(`cardquota_blocked_cards{queue="q",reason="NoFreeCard"}`, "1", "1"),
		ofBothReplicas(`cardquota_allocated_cards{card="A"}`, "3", "4"),
		ofBothReplicas(`cardquota_card_unowned{card="A"}`, "2", "2"),
		ofBothReplicas(`cardquota_enforced{reason="Enforced"}`, "1", "1"),
		ofBothReplicas(`cardquota_ready{a="b"}`, "1", "1"),
		ofBothReplicas(`cardquota_scheduler_used_cards{queue="q",card="A"}`, "4", "3"),
		ofBothReplicas(`cardquota_scheduler_quota_cards{queue="q",card="A"}`, "3", "4"),
		ofBothReplicas(`cardquota_oldest_pending_within_quota_timestamp_seconds{queue="q"}`, "-4000", "-4000"),
	)...)
}

// TestABoardCountsAMetricOfTwoLeadersOnce: while another replica of a program becomes the leader, both serve
// series for a moment. Boards must not add them up. The test asks at a time at which both do, and the larger
// value counts. Queue q uses 2 cards for the old replica and 3 for the new one. For both it has a quota of 4,
// 1 pending and 1 blocked card, and queue moved uses 1.
func TestABoardCountsAMetricOfTwoLeadersOnce(t *testing.T) {
	scene := newSceneOfTwoReplicas(t)
	for _, tc := range []struct {
		file, panel string
		want        map[string]float64
	}{
		{"fleet.json", "Online and offline", map[string]float64{`{card="A", service_type="training"}`: 4}}, // the quota of q
		{"fleet.json", "Allocated and healthy cards", map[string]float64{`{card="A"}`: 4}},                 // the larger of 3 and 4 allocated
		{"tenant.json", "Waiting by reason", map[string]float64{`{queue="q", reason="NoFreeCard"}`: 1}},    // the blocked card of q
		{"tenant.json", "Pending cards", map[string]float64{`{card="A", queue="q"}`: 1}},                   // the pending card of q
		{"tide.json", "Pending by service type", map[string]float64{`{service_type="training"}`: 1}},       // the pending card of q
		{"health.json", "Cards out of reach", map[string]float64{`{}`: 2}},                                 // the unowned cards
		{"health.json", "Quotas enforced", map[string]float64{`{}`: 1}},
		{"health.json", "Scheduler places pods", map[string]float64{`{}`: 1}},
	} {
		query := queryOf(t, tc.file, tc.panel) // the first of the panel
		equal(t, tc.file+": "+tc.panel+" (-want +got)", tc.want, scene.valuesOf(query, overlap))
	}

	// Of q's 2 and 3 used cards the larger counts. Queue moved counts once, as training or inference: 3 + 1.
	sum := 0.0
	for _, value := range scene.valuesOf(queryOf(t, "fleet.json", "Used by service type"), overlap) {
		sum += value
	}

	equal(t, "used cards", 4.0, sum)
}

// TestAnAlertCountsAMetricOfTwoLeadersOnce: alerts must not add up the series of two replicas, either. Queue
// q uses 4 cards of a quota of 3 for the old replica, and 3 of 4 for the new one. The larger values count, so
// it is not over its quota. For both its pod waits from 4000 s before the begin, so at 10 minutes it starves
// for 4600 s.
func TestAnAlertCountsAMetricOfTwoLeadersOnce(t *testing.T) {
	scene := newSceneOfTwoReplicas(t)
	for _, rule := range parsedRules(t) {
		answer := scene.runQuery(rule.Expr, overlap)
		switch rule.Alert {
		case queueOverQuota: // 4 used of the old replica, and a quota of 4 of the new one
			equal(t, "queues over their quota", 0, len(answer))
		case tenantStarving:
			requireThat(t, len(answer) == 1 && answer[0].F == 4600, "queues that starve: %v, want one for 4600 s", answer)
			equal(t, "tenant and project", "lab llm", answer[0].Metric.Get("tenant")+" "+answer[0].Metric.Get("project"))
		}
	}
}

// valuesOf returns the values of a query by the labels of their series.
func (w *scrapedSeries) valuesOf(expression string, at time.Duration) map[string]float64 {
	values := map[string]float64{}
	for _, sample := range w.runQuery(expression, at) {
		values[sample.Metric.String()] = sample.F
	}
	return values
}

// TestSeriesThatEndCountAsZero: the operator ends the series of a queue and card when all their numbers are
// 0. Sums of a board are then 0, series by queue are gone, and alerts end. Queue left has a quota of 0, uses
// 2 cards, has one pending, and a pod that starves. A scrape is every 30 s. The series of left have a value
// until 9:00 ("2x18": 2 and 18 times more) and then end ("stale"). Queue kept has a quota of 4 all the time,
// uses none, and has the same service type.
func TestSeriesThatEndCountAsZero(t *testing.T) {
	const (
		before = 8 * time.Minute
		after  = 10 * time.Minute
	)

	// The series of the first line fire no alert.
	scene := newScene(t, operator, enforced, sessions, ready, configured, counted,
		`cardquota_queue_info{queue="left",tenant="lab",project="llm",service_type="training",cardquota="left",parent=""} 1x60`,
		`cardquota_queue_info{queue="kept",tenant="lab",project="llm",service_type="training",cardquota="kept",parent=""} 1x60`,
		`cardquota_quota_cards{queue="left",card="A"} 0x18 stale`,
		`cardquota_quota_cards{queue="kept",card="A"} 4x60`,
		`cardquota_used_cards{queue="left",card="A"} 2x18 stale`,
		`cardquota_used_cards{queue="kept",card="A"} 0x60`,
		`cardquota_pending_cards{queue="left",card="A"} 1x18 stale`,
		`cardquota_pending_cards{queue="kept",card="A"} 0x60`,
		`cardquota_scheduler_quota_cards{queue="left",card="A"} 0x18 stale`,
		`cardquota_scheduler_used_cards{queue="left",card="A"} 2x18 stale`,
		`cardquota_oldest_pending_within_quota_timestamp_seconds{queue="left"} -4000x18 stale`,
	)

	for _, tc := range []struct {
		file, panel   string
		before, after map[string]float64
	}{
		{
			"fleet.json", "Used by service type",
			map[string]float64{`{service_type="training"}`: 2},
			map[string]float64{`{service_type="training"}`: 0},
		},
		{
			"fleet.json", "Online and offline", // the quota of kept
			map[string]float64{`{card="A", service_type="training"}`: 4},
			map[string]float64{`{card="A", service_type="training"}`: 4},
		},
		{
			"tide.json", "Pending by service type",
			map[string]float64{`{service_type="training"}`: 1},
			map[string]float64{`{service_type="training"}`: 0},
		},
		{
			"tenant.json", "Pending cards",
			map[string]float64{`{card="A", queue="left"}`: 1, `{card="A", queue="kept"}`: 0},
			map[string]float64{`{card="A", queue="kept"}`: 0},
		},
	} {
		query := queryOf(t, tc.file, tc.panel)
		equal(t, tc.file+": "+tc.panel+" before (-want +got)", tc.before, scene.valuesOf(query, before))
		equal(t, tc.file+": "+tc.panel+" after (-want +got)", tc.after, scene.valuesOf(query, after))
	}

	firedBefore := map[string]bool{}
	for _, rule := range parsedRules(t) {
		if len(scene.runQuery(rule.Expr, before)) > 0 {
			firedBefore[rule.Alert] = true
		}
		equal(t, rule.Alert+" after (-want +got)", 0, len(scene.runQuery(rule.Expr, after)))
	}
	equal(t, "alerts before (-want +got)", map[string]bool{queueOverQuota: true, tenantStarving: true}, firedBefore)
}

// playedSeries are what both programs serve for one queue, also while the operator's leader
// changes from one replica to another.
var playedSeries = []string{
	`cardquota_queue_info{pod="m",queue="q",tenant="lab",project="llm",service_type="training",cardquota="q",parent=""} 1x29 stale`,
	`cardquota_queue_info{pod="n",queue="q",tenant="lab",project="llm",service_type="training",cardquota="q",parent=""} _x29 1x30`,
	`cardquota_used_cards{pod="m",queue="q",card="A"} 2x29 stale`,
	`cardquota_used_cards{pod="n",queue="q",card="A"} _x29 2x30`,
	`cardquota_quota_cards{queue="q",card="A"} 4x60`,
	`cardquota_pending_cards{queue="q",card="A"} 1x60`,
	`cardquota_blocked_cards{queue="q",reason="NoFreeCard"} 1x60`,
	`up{job="cardquota-scheduler",instance="s"} 1x60`,
	`process_start_time_seconds{job="cardquota-scheduler",instance="s"} 0x60`,
	`cardquota_oldest_pending_timestamp_seconds{queue="q"} 0x60`,
	`cardquota_oldest_pending_within_quota_timestamp_seconds{queue="q"} 0x60`,
	`cardquota_card_seconds_total{queue="q",tenant="lab",project="llm",service_type="training",card="A"} 0+60x60`,
	`cardquota_physical_cards{card="A"} 8x60`,
	`cardquota_healthy_cards{card="A"} 8x60`,
	`cardquota_cordoned_cards{card="A"} 0x60`,
	`cardquota_allocated_cards{card="A"} 2x60`,
	`cardquota_granted_cards{card="A"} 9x60`,
	`cardquota_over_allocated_cards{card="A"} 1x60`,
	`cardquota_anomalies{reason="NoModelLabel"} 0x60`,
	`cardquota_refusals_total{pod="s",queue="q",reason="InsufficientScalarQuota"} 0+1x60`,
	`cardquota_reclaimed_pods_total{pod="s",queue="q",reclaimer_service_type="inference"} 0+1x60`,
	`cardquota_reclaimed_card_seconds_total{pod="s",queue="q",reclaimer_service_type="inference"} 0+9x60`,
	`cardquota_pod_bound_seconds_bucket{le="1",service_type="training",card="A"} 0+1x60`,
	`cardquota_pod_bound_seconds_bucket{le="+Inf",service_type="training",card="A"} 0+1x60`,
	`cardquota_session_seconds_bucket{le="1",step="open"} 0+1x60`,
	`cardquota_session_seconds_bucket{le="+Inf",step="open"} 0+1x60`,
	`cardquota_recount_seconds_bucket{le="1"} 0+1x60`,
	`cardquota_recount_seconds_bucket{le="+Inf"} 0+1x60`,
	enforced, sessions, ready, counted, `cardquota_nodes_anomalous 0x60`,
	`cardquota_card_unowned{card="A"} 0x60`,
}

// TestEachQueryOfABoardHasData: a query that never has data shows an empty panel. The played series are what
// both programs serve for one queue. At 15 minutes, the leader of the operator changes from replica m to n: two of
// the series end and begin again. Each query must have data before, at that moment, and after it, for all values of
// the variables and for one.
func TestEachQueryOfABoardHasData(t *testing.T) {
	scene := newScene(t, playedSeries...)

	for _, variables := range []*strings.Replacer{
		strings.NewReplacer("$__rate_interval", "5m", "$__range", "1h", "$card", ".*", "$tenant", ".*"),
		strings.NewReplacer("$__rate_interval", "5m", "$__range", "1h", "$card", "A", "$tenant", "lab"),
	} {
		for name, b := range readBoards(t) {
			for _, p := range b.Panels {
				for _, target := range p.Targets {
					expression := variables.Replace(target.Expr)
					for _, at := range []time.Duration{14 * time.Minute, 15 * time.Minute, 20 * time.Minute} {
						expectThat(t, len(scene.runQuery(expression, at)) > 0, "%s: panel %q has no data at %s: %s", name, p.Title, at, expression)
					}
				}
			}
		}
	}
}
