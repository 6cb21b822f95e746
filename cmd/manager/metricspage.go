package main

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"
)

const (
	// maxPages is how many readers may wait for a page. Further ones are refused.
	maxPages = 16
	// pageTimeout is how long a reader waits: longer than the scrape timeouts in use.
	pageTimeout = 30 * time.Second
)

// newMetricsPage returns the page of the metrics. With a timeout promhttp sends a page when it is complete, so
// a reader that reads slowly keeps no other waiting.
func newMetricsPage(registry prometheus.Gatherer) http.Handler {
	return promhttp.HandlerForTransactional(newOneAtATime(registry), promhttp.HandlerOpts{MaxRequestsInFlight: maxPages, Timeout: pageTimeout})
}

// oneAtATime gathers the metrics of one page at a time, because they take memory until the page is complete.
type oneAtATime struct {
	registry prometheus.Gatherer
	// busy is full while a page is rendered.
	busy chan struct{}
}

func newOneAtATime(registry prometheus.Gatherer) *oneAtATime {
	return &oneAtATime{registry: registry, busy: make(chan struct{}, 1)}
}

// Gather implements prometheus.TransactionalGatherer.
func (g *oneAtATime) Gather() (families []*dto.MetricFamily, done func(), err error) {
	g.busy <- struct{}{}
	families, err = g.registry.Gather()
	return families, func() { <-g.busy }, err
}
