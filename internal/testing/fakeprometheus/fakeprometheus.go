// Package fakeprometheus answers the queries of kubectl cardquota report from samples, as Prometheus
// does. It knows only these queries.
package fakeprometheus

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Sample is one value of a series.
type Sample struct {
	At    time.Time
	Value float64
}

// Series are the samples of a series, the earliest first.
type Series struct {
	Labels  map[string]string
	Samples []Sample
}

// Prometheus has the samples of one metric.
type Prometheus struct {
	Metric string
	Series []*Series
}

// Result is one series of an answer.
type Result struct {
	Labels map[string]string
	Value  float64
}

// lookBack is how long Prometheus takes a sample as valid.
const lookBack = 5 * time.Minute

var (
	overTime = regexp.MustCompile(`^(max|min) by \(([a-z_, ]+)\) \((max|min)_over_time\((\w+)(\{.*\})?\[(\d+)s\]\)\)$`)
	count    = regexp.MustCompile(`^count without \(([a-z_, ]+)\) \((\w+)(\{.*\})?\)$`)
	equals   = regexp.MustCompile(`(\w+)="([^"]*)"`)
)

// question is a query in its parts.
type question struct {
	// function is max, min or count. by reports whether it keeps the labels, or all others.
	function, matchers string
	labels             []string
	by                 bool
	before             time.Duration
}

func (p *Prometheus) parse(query string) (question, error) {
	if found := overTime.FindStringSubmatch(query); found != nil && found[1] == found[3] && found[4] == p.Metric {
		seconds, err := strconv.Atoi(found[6])
		return question{found[1], found[5], strings.Split(found[2], ", "), true, time.Duration(seconds) * time.Second}, err
	}
	if found := count.FindStringSubmatch(query); found != nil && found[2] == p.Metric {
		return question{"count", found[3], strings.Split(found[1], ", "), false, lookBack}, nil
	}
	return question{}, fmt.Errorf("unknown query %s", query)
}

// Evaluate answers a query at an instant. A count has any value.
func (p *Prometheus) Evaluate(query string, at time.Time) ([]Result, error) {
	q, err := p.parse(query)
	if err != nil {
		return nil, err
	}
	groups := map[string]*Result{}
	for _, series := range p.Series {
		samples := series.within(at.Add(-q.before), at)
		if len(samples) == 0 || !matches(q.matchers, series.Labels) {
			continue
		}
		labels := q.keep(series.Labels)
		key := fmt.Sprint(labels)
		if groups[key] == nil {
			groups[key] = &Result{Labels: labels, Value: samples[0].Value}
		}
		for _, sample := range samples {
			if q.function == "max" {
				groups[key].Value = max(groups[key].Value, sample.Value)
			} else {
				groups[key].Value = min(groups[key].Value, sample.Value)
			}
		}
	}
	var results []Result
	for _, key := range slices.Sorted(maps.Keys(groups)) {
		results = append(results, *groups[key])
	}
	return results, nil
}

// keep returns the labels of an answer.
func (q question) keep(labels map[string]string) map[string]string {
	kept := map[string]string{}
	for name, value := range labels {
		if slices.Contains(q.labels, name) == q.by && value != "" {
			kept[name] = value
		}
	}
	return kept
}

// within returns the samples after one instant and up to another one.
func (s *Series) within(after, to time.Time) []Sample {
	first := sort.Search(len(s.Samples), func(i int) bool { return s.Samples[i].At.After(after) })
	last := sort.Search(len(s.Samples), func(i int) bool { return s.Samples[i].At.After(to) })
	return s.Samples[first:last]
}

func matches(matchers string, labels map[string]string) bool {
	for _, matcher := range equals.FindAllStringSubmatch(matchers, -1) {
		if labels[matcher[1]] != matcher[2] {
			return false
		}
	}
	return true
}

// ServeHTTP answers /api/v1/query_range, sent as GET.
func (p *Prometheus) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	if r.Method != http.MethodGet || !strings.HasSuffix(r.URL.Path, "/api/v1/query_range") {
		http.Error(w, "not found", http.StatusNotFound)
		return
	}
	streams, err := p.evaluateRange(r)
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		_ = json.NewEncoder(w).Encode(map[string]any{"status": "error", "errorType": "bad_data", "error": err.Error()})
		return
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"status": "success", "data": map[string]any{"resultType": "matrix", "result": streams}})
}

type stream struct {
	Metric map[string]string `json:"metric"`
	Values [][2]any          `json:"values"`
}

func (p *Prometheus) evaluateRange(r *http.Request) ([]*stream, error) {
	var numbers [3]float64
	for i, name := range []string{"start", "end", "step"} {
		number, err := strconv.ParseFloat(r.FormValue(name), 64)
		if err != nil {
			return nil, err
		}
		numbers[i] = number
	}
	byLabels, streams := map[string]*stream{}, []*stream{}
	for at := numbers[0]; at <= numbers[1]; at += numbers[2] {
		results, err := p.Evaluate(r.FormValue("query"), time.UnixMilli(int64(at*1000)))
		if err != nil {
			return nil, err
		}
		for _, result := range results {
			key := fmt.Sprint(result.Labels)
			if byLabels[key] == nil {
				byLabels[key] = &stream{Metric: result.Labels}
				streams = append(streams, byLabels[key])
			}
			byLabels[key].Values = append(byLabels[key].Values, [2]any{at, strconv.FormatFloat(result.Value, 'f', -1, 64)})
		}
	}
	return streams, nil
}

// Start serves over HTTP until the test ends, and returns the URL.
func Start(t *testing.T, handler http.Handler) string {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server.URL
}
