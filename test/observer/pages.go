package observer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"syscall"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
)

// Page is what a program served as its metrics.
type Page struct {
	// Process identifies the process that served it, 0 for none.
	Process int
	// Asked is when the page was asked for, Answered when it was there.
	Asked, Answered time.Time
	Text            []byte
}

// Pages are the metrics of both programs. A program that does not run has an empty page.
type Pages struct{ Operator, Scheduler Page }

// KeepPage returns the page of a program after an attempt to read it. A program that answers too late
// still has the page that it served last. One that does not listen has none.
func KeepPage(last, read Page, err error) Page {
	switch {
	case err == nil:
		return read
	case read.Process != 0 && read.Process == last.Process && !errors.Is(err, syscall.ECONNREFUSED):
		return last
	default:
		return Page{Asked: read.Asked}
	}
}

// sample is one series of a page.
type sample struct {
	name   string
	labels map[string]string
	value  float64
}

// key returns the series as text.
func (s *sample) key() string {
	var labels []string
	for _, name := range slices.Sorted(maps.Keys(s.labels)) {
		labels = append(labels, fmt.Sprintf("%s=%q", name, s.labels[name]))
	}
	return s.name + "{" + strings.Join(labels, ",") + "}"
}

// metricPrefix begins the names of all metrics of the project.
const metricPrefix = "cardquota_"

// readSamples returns the gauges and counters of the project on a page, and the counts of its
// histograms.
func readSamples(page []byte) ([]sample, error) {
	var own []byte
	for line := range bytes.Lines(page) {
		name := bytes.TrimPrefix(bytes.TrimPrefix(line, []byte("# HELP ")), []byte("# TYPE "))
		if bytes.HasPrefix(name, []byte(metricPrefix)) {
			own = append(own, line...)
		}
	}

	var parser expfmt.TextParser
	families, err := parser.TextToMetricFamilies(bytes.NewReader(own))
	if err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}

	var out []sample
	for name, family := range families {
		for _, metric := range family.GetMetric() {
			s := sample{name: name, labels: map[string]string{}}
			switch family.GetType() {
			case dto.MetricType_GAUGE:
				s.value = metric.GetGauge().GetValue()
			case dto.MetricType_COUNTER:
				s.value = metric.GetCounter().GetValue()
			case dto.MetricType_HISTOGRAM:
				s.name = name + "_count"
				s.value = float64(metric.GetHistogram().GetSampleCount())
			default:
				continue
			}

			for _, label := range metric.GetLabel() {
				s.labels[label.GetName()] = label.GetValue()
			}
			out = append(out, s)
		}
	}

	return out, nil
}

// scrape reads the pages of both programs.
func (o *Observer) scrape(ctx context.Context) {
	if o.state.options.Metrics == nil {
		return
	}

	pages, err := o.state.options.Metrics(ctx)
	o.mu.Lock()
	defer o.mu.Unlock()

	if err == nil {
		err = o.state.recordPages(pages)
	}
	if err != nil {
		o.state.pages = nil
		o.state.pageError = err.Error()
	}
}
