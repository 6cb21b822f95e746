package alerts

import (
	"encoding/json"
	"path/filepath"
	"regexp"
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
	Panels []struct {
		ID                 int
		Title, Description string
		Datasource         struct{ UID string }
		FieldConfig        struct{ Defaults struct{ Unit string } }
		Targets            []struct {
			Expr, RefID string
			Datasource  struct{ UID string }
		}
	}
}

// readBoards returns the boards of config/grafana by file.
func readBoards(t *testing.T) map[string]board {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(projectRoot, "config/grafana/*.json"))
	noError(t, err)
	if len(files) < 4 {
		t.Fatalf("%d boards", len(files))
	}
	all := map[string]board{}
	for _, file := range files {
		var b board
		name := filepath.Base(file)
		noError(t, json.Unmarshal([]byte(readFile(t, "config/grafana/"+name)), &b))
		all[name] = b
	}
	return all
}

// TestBoardsAreWellFormed has the rules of Grafana's dashboard-linter that fit.
func TestBoardsAreWellFormed(t *testing.T) {
	const source = "${datasource}"
	for name, b := range readBoards(t) {
		ids := map[int]bool{}
		checkVariables(t, name, b)
		for _, p := range b.Panels {
			if p.Title == "" || p.Description == "" || p.FieldConfig.Defaults.Unit == "" || p.Datasource.UID != source || p.ID == 0 || ids[p.ID] {
				t.Errorf("%s: panel %d %q lacks something", name, p.ID, p.Title)
			}
			ids[p.ID] = true
			refs := map[string]bool{}
			for _, target := range p.Targets {
				if target.RefID == "" || refs[target.RefID] || target.Datasource.UID != source {
					t.Errorf("%s: panel %q: query %q lacks something", name, p.Title, target.RefID)
				}
				refs[target.RefID] = true
			}
		}
		if b.Editable || len(b.Panels) == 0 {
			t.Errorf("%s: editable %v, %d panels", name, b.Editable, len(b.Panels))
		}
	}
}

func checkVariables(t *testing.T, name string, b board) {
	t.Helper()
	for _, v := range b.Templating.List {
		if v.Type == "query" && v.Refresh != 2 {
			t.Errorf("%s: variable %s is not refreshed with the time", name, v.Name)
		}
	}
}

// TestBoardsAskForMetricsThatThereAre: each query parses, names documented metrics and their
// labels, and asks for counters by their increase.
func TestBoardsAskForMetricsThatThereAre(t *testing.T) {
	known := documentedNames(t)
	variables := strings.NewReplacer("$__rate_interval", "5m", "$__range", "1d")
	suffix := regexp.MustCompile(`_(bucket|count|sum)$`)
	for name, b := range readBoards(t) {
		for _, p := range b.Panels {
			for _, target := range p.Targets {
				expression, err := promql.ParseExpr(variables.Replace(target.Expr))
				if err != nil {
					t.Errorf("%s: panel %q: %v", name, p.Title, err)
					continue
				}
				asked := 0
				promql.Inspect(expression, func(node promql.Node, path []promql.Node) error {
					selector, ok := node.(*promql.VectorSelector)
					if !ok {
						return nil
					}
					asked++
					if !known[suffix.ReplaceAllString(selector.Name, "")] {
						t.Errorf("%s: panel %q asks for %s, which docs/metrics.md does not explain", name, p.Title, selector.Name)
					}
					_, isRange := path[len(path)-1].(*promql.MatrixSelector)
					if isCounter := strings.HasSuffix(selector.Name, "_total") || strings.HasSuffix(selector.Name, "_bucket"); isCounter != isRange && !isNewborn(path) {
						t.Errorf("%s: panel %q: want counters by their increase, and gauges as they are: %s", name, p.Title, selector.Name)
					}
					return nil
				})
				if asked == 0 {
					t.Errorf("%s: panel %q asks for nothing", name, p.Title)
				}
			}
		}
	}
}

// isNewborn reports whether a selector stands before unless: a series that was not there before
// counts whole.
func isNewborn(path []promql.Node) bool {
	parent, ok := path[len(path)-1].(*promql.BinaryExpr)
	return ok && parent.Op == promql.LUNLESS
}

// TestBoardsCountTheBeginOfACounter: a counter that begins with five has grown by five, and by
// nothing more when it stays or is scraped again after a pause.
func TestBoardsCountTheBeginOfACounter(t *testing.T) {
	world := newWorld(t, `cardquota_reclaimed_pods_total{queue="q",reclaimer_service_type="inference"} _x20 5x20 stale _x10 5x30`)
	for _, p := range readBoards(t)["tide.json"].Panels {
		if p.Title != "Evicted pods" {
			continue
		}
		expression := strings.NewReplacer("$__rate_interval", "5m").Replace(p.Targets[0].Expr)
		for at, want := range map[time.Duration]float64{11 * time.Minute: 5, 14 * time.Minute: 5, 17 * time.Minute: 0, 28 * time.Minute: 0} {
			answer := world.runQuery(expression, at)
			if len(answer) != 1 || answer[0].F != want {
				t.Errorf("after %s: %v, want %v", at, answer, want)
			}
		}
		return
	}
	t.Error("there is no such panel")
}

// playedSeries are what both programs serve for one queue, also while the operator's leader
// changes from one replica to another.
var playedSeries = []string{
	`cardquota_queue_info{pod="m",queue="q",tenant="lab",project="llm",service_type="training",cardquota="q",parent=""} 1x29 stale`,
	`cardquota_queue_info{pod="n",queue="q",tenant="lab",project="llm",service_type="training",cardquota="q",parent=""} _x29 1x30`,
	`cardquota_used_cards{pod="m",queue="q",card="A"} 2x29 stale`, `cardquota_used_cards{pod="n",queue="q",card="A"} _x29 2x30`,
	`cardquota_quota_cards{pod="n",queue="q",card="A"} 4x60`, `cardquota_pending_cards{pod="n",queue="q",card="A"} 1x60`,
	`cardquota_oldest_pending_timestamp_seconds{pod="n",queue="q"} 0x60`, `cardquota_oldest_pending_within_quota_timestamp_seconds{pod="n",queue="q"} 0x60`, `cardquota_card_seconds_total{pod="n",queue="q",tenant="lab",project="llm",service_type="training",card="A"} 0+60x60`,
	`cardquota_physical_cards{card="A"} 8x60`, `cardquota_healthy_cards{card="A"} 8x60`, `cardquota_cordoned_cards{card="A"} 0x60`, `cardquota_allocated_cards{card="A"} 2x60`,
	`cardquota_granted_cards{card="A"} 9x60`, `cardquota_over_allocated_cards{card="A"} 1x60`, `cardquota_anomalies 0x60`,
	`cardquota_refusals_total{pod="s",queue="q",reason="InsufficientScalarQuota"} 0+1x60`,
	`cardquota_reclaimed_pods_total{pod="s",queue="q",reclaimer_service_type="inference"} 0+1x60`,
	`cardquota_reclaimed_card_seconds_total{pod="s",queue="q",reclaimer_service_type="inference"} 0+9x60`,
	`cardquota_pod_bound_seconds_bucket{le="1",service_type="training",card="A"} 0+1x60`, `cardquota_pod_bound_seconds_bucket{le="+Inf",service_type="training",card="A"} 0+1x60`,
	`cardquota_session_seconds_bucket{le="1",step="open"} 0+1x60`, `cardquota_session_seconds_bucket{le="+Inf",step="open"} 0+1x60`,
	`cardquota_recount_seconds_bucket{le="1"} 0+1x60`, `cardquota_recount_seconds_bucket{le="+Inf"} 0+1x60`,
	enforced, sessions, ready, counted, `cardquota_nodes_anomalous 0x60`, `cardquota_card_unowned{card="A"} 0x60`,
}

// TestBoardsShowData: each query of each board has data, for all values of the variables and for
// one, also while another replica becomes the leader.
func TestBoardsShowData(t *testing.T) {
	world := newWorld(t, playedSeries...)
	for _, variables := range []*strings.Replacer{
		strings.NewReplacer("$__rate_interval", "5m", "$__range", "1h", "$card", ".*", "$tenant", ".*"),
		strings.NewReplacer("$__rate_interval", "5m", "$__range", "1h", "$card", "A", "$tenant", "lab"),
	} {
		for name, b := range readBoards(t) {
			for _, p := range b.Panels {
				for _, target := range p.Targets {
					expression := variables.Replace(target.Expr)
					for _, at := range []time.Duration{14 * time.Minute, 15 * time.Minute, 20 * time.Minute} {
						if len(world.runQuery(expression, at)) == 0 {
							t.Errorf("%s: panel %q has no data at %s: %s", name, p.Title, at, expression)
						}
					}
				}
			}
		}
	}
}
