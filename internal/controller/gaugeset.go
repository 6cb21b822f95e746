package controller

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// GaugeSet is a gauge whose series are replaced together. A GaugeVec that is reset before it is set has no
// series for a moment, in which a scrape may come.
type GaugeSet struct {
	desc   *prometheus.Desc
	series atomic.Pointer[[]GaugeValue]
}

// GaugeValue is one series of a GaugeSet.
type GaugeValue struct {
	Value  float64
	Labels []string
}

// NewGaugeSet returns a GaugeSet without series.
func NewGaugeSet(name, help string, labels ...string) *GaugeSet {
	return &GaugeSet{desc: prometheus.NewDesc(name, help, labels, nil)}
}

// BoolGauge returns what a gauge shows for a state that is true or false: 1 or 0.
func BoolGauge(isTrue bool) float64 {
	if isTrue {
		return 1
	}
	return 0
}

// Replace replaces all series.
func (g *GaugeSet) Replace(series ...GaugeValue) { g.series.Store(&series) }

// Describe implements prometheus.Collector.
func (g *GaugeSet) Describe(ch chan<- *prometheus.Desc) { ch <- g.desc }

// Collect implements prometheus.Collector.
func (g *GaugeSet) Collect(ch chan<- prometheus.Metric) {
	series := g.series.Load()
	if series == nil {
		return
	}
	for _, s := range *series {
		// An invalid label costs that series and not the scrape.
		if metric, err := prometheus.NewConstMetric(g.desc, prometheus.GaugeValue, s.Value, s.Labels...); err == nil {
			ch <- metric
		}
	}
}
