package alerts

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/template"
	"github.com/prometheus/prometheus/util/annotations"
)

const (
	// step is the time between two scrapes, and between two evaluations.
	step = 30 * time.Second
	// defaultLength is the length of most tests.
	defaultLength = 30 * time.Minute
)

// scrapedSeries are the series that Prometheus scraped since the Unix epoch. It answers
// queries.
type scrapedSeries struct {
	*testing.T
	engine *promql.Engine
	series []promql.Series
	length time.Duration
}

// newScene parses series in promtool's notation: a selector and its values, one per scrape. A
// target that is gone ends in stale.
func newScene(t *testing.T, series ...string) *scrapedSeries {
	t.Helper()
	w := &scrapedSeries{T: t, engine: promql.NewEngine(promql.EngineOpts{MaxSamples: 1e6, Timeout: time.Minute, LookbackDelta: 5 * time.Minute}), length: defaultLength}
	for _, text := range series {
		metric, values, err := parser.ParseSeriesDesc(text)
		requireThat(t, err == nil, "%s: %v", text, err)

		one := promql.Series{Metric: metric}
		for i, value := range values {
			if !value.Omitted {
				one.Floats = append(one.Floats, promql.FPoint{T: (time.Duration(i) * step).Milliseconds(), F: value.Value})
			}
		}
		w.series = append(w.series, one)
	}

	return w
}

// firedAlerts returns the first summary of each alert that fires at any time, by name.
func (w *scrapedSeries) firedAlerts(t *testing.T) map[string]string {
	fired := map[string]string{}
	for _, rule := range parsedRules(t) {
		since := map[string]time.Duration{} // by the labels of what is wrong
		for at := time.Duration(0); at <= w.length; at += step {
			wrong := map[string]time.Duration{}
			for _, sample := range w.runQuery(rule.Expr, at) {
				key := sample.Metric.String()
				wrong[key] = at

				if before, pending := since[key]; pending {
					wrong[key] = before
				}
				if _, isKnown := fired[rule.Alert]; !isKnown && at-wrong[key] >= time.Duration(rule.For) {
					fired[rule.Alert] = w.expandTemplate(rule.Annotations["summary"], sample, at)
				}
			}

			since = wrong
		}
	}

	return fired
}

func (w *scrapedSeries) runQuery(expression string, at time.Duration) promql.Vector {
	query, err := w.engine.NewInstantQuery(w.Context(), w, promql.NewPrometheusQueryOpts(false, 0), expression, time.Unix(0, 0).Add(at))
	requireThat(w.T, err == nil, "%s: %v", expression, err)
	defer query.Close()

	vector, err := query.Exec(w.Context()).Vector()
	requireThat(w.T, err == nil, "%s: %v", expression, err)
	return append(promql.Vector(nil), vector...)
}

// expandTemplate expands the template of an annotation.
func (w *scrapedSeries) expandTemplate(text string, sample promql.Sample, at time.Duration) string {
	const variables = "{{$labels := .Labels}}{{$value := .Value}}"
	data := template.AlertTemplateData(sample.Metric.Map(), nil, "", sample)
	runQuery := func(_ context.Context, expression string, _ time.Time) (promql.Vector, error) {
		return w.runQuery(expression, at), nil
	}
	expanded, err := template.NewTemplateExpander(w.Context(), variables+text, "summary", data, model.Time(at.Milliseconds()), runQuery, nil, nil).Expand()
	requireThat(w.T, err == nil, "%s: %v", text, err)
	return expanded
}

// Querier and the following make it a storage.Queryable.
func (w *scrapedSeries) Querier(int64, int64) (storage.Querier, error) {
	return &storage.MockQuerier{SelectMockFunction: func(_ bool, _ *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
		set := &seriesSet{}
		for _, series := range w.series {
			if hasLabels(series.Metric, matchers) {
				set.left = append(set.left, promql.NewStorageSeries(series))
			}
		}
		return set
	}}, nil
}

func hasLabels(metric labels.Labels, matchers []*labels.Matcher) bool {
	return !slices.ContainsFunc(matchers, func(matcher *labels.Matcher) bool { return !matcher.Matches(metric.Get(matcher.Name)) })
}

// seriesSet iterates over series.
type seriesSet struct {
	left []storage.Series
	at   storage.Series
}

func (s *seriesSet) Next() bool {
	if len(s.left) == 0 {
		return false
	}
	s.at = s.left[0]
	s.left = s.left[1:]
	return true
}

func (s *seriesSet) At() storage.Series                { return s.at }
func (s *seriesSet) Err() error                        { return nil }
func (s *seriesSet) Warnings() annotations.Annotations { return nil }
