// Package metricspage serves the metrics of the operator. Ten thousand CardQuotas of twenty cards have
// some 600,000 series. A registry builds an object of each before it writes the first, with half a
// gigabyte in all. This page asks for them family by family, and keeps little of each.
package metricspage

import (
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"
)

// Send takes one series: its value, and its labels in the order of the description.
type Send func(desc *prometheus.Desc, value float64, labels ...string)

// Sender is a collector of very many series that can also send them without building metrics. All are
// gauges, or counters whose names end in _total.
type Sender interface {
	prometheus.Collector
	// SendSeries sends all series of one moment.
	SendSeries(send Send)
}

// writeTimeout is how long a reader may take for a page: longer than any scrape timeout in use.
const writeTimeout = 30 * time.Second

// Registry registers collectors, and serves them as a page.
type Registry struct {
	registry

	mu      sync.Mutex
	sources []*source
	// serving lets one page be rendered at a time, because it takes memory. It guards compressor.
	serving    chan struct{}
	compressor *gzip.Writer
	// writeTimeout bounds how long a page is sent.
	writeTimeout time.Duration
}

type registry interface {
	prometheus.Registerer
	prometheus.Gatherer
}

// New returns a Registry that gathers all but Senders with another one.
func New(others registry) *Registry {
	compressor, _ := gzip.NewWriterLevel(io.Discard, gzip.BestSpeed) // the level is valid
	return &Registry{registry: others, serving: make(chan struct{}, 1), compressor: compressor, writeTimeout: writeTimeout}
}

// Register implements prometheus.Registerer. A Sender is on the page only, Gather does not have it.
func (r *Registry) Register(collector prometheus.Collector) error {
	sender, ok := collector.(Sender)
	if !ok {
		return r.registry.Register(collector)
	}
	s, err := newSource(sender)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sources = append(r.sources, s)
	return nil
}

// MustRegister implements prometheus.Registerer.
func (r *Registry) MustRegister(collectors ...prometheus.Collector) {
	for _, collector := range collectors {
		if err := r.Register(collector); err != nil {
			panic(err)
		}
	}
}

// ServeHTTP serves all metrics as text. Pages are rendered one after the other, because that takes
// memory, and compressed. Only then they are sent, so a reader that reads slowly keeps no other waiting.
func (r *Registry) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	page, err := r.render(request.Context())
	switch {
	case request.Context().Err() != nil:
		return
	case err != nil:
		http.Error(w, "gather metrics: "+err.Error(), http.StatusInternalServerError)
		return
	}

	controller := http.NewResponseController(w)
	_ = controller.SetWriteDeadline(time.Now().Add(r.writeTimeout)) // a recorder of a test has none
	defer func() { _ = controller.SetWriteDeadline(time.Time{}) }()
	w.Header().Set("Content-Type", string(textFormat))
	if acceptsGzip(request) {
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = w.Write(page.Bytes()) // a reader that is gone cannot be told
		return
	}
	if plain, err := gzip.NewReader(page); err == nil {
		_, _ = io.Copy(w, plain)
	}
}

// textFormat is the format of the page.
var textFormat = expfmt.NewFormat(expfmt.TypeTextPlain)

// render returns the compressed page.
func (r *Registry) render(ctx context.Context) (*bytes.Buffer, error) {
	select {
	case r.serving <- struct{}{}:
		defer func() { <-r.serving }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}

	families, err := r.Gather()
	if err != nil {
		return nil, err
	}
	page := &bytes.Buffer{}
	r.compressor.Reset(page)
	encoder := expfmt.NewEncoder(r.compressor, textFormat)
	for _, family := range families {
		if err := encoder.Encode(family); err != nil {
			return nil, err
		}
	}
	r.mu.Lock()
	sources := r.sources
	r.mu.Unlock()
	for _, s := range sources {
		if err := s.write(r.compressor); err != nil {
			return nil, err
		}
	}
	return page, r.compressor.Close()
}

func acceptsGzip(request *http.Request) bool {
	for _, header := range request.Header.Values("Accept-Encoding") {
		for offer := range strings.SplitSeq(header, ",") {
			name, parameters, _ := strings.Cut(offer, ";")
			weight, isWeighted := strings.CutPrefix(strings.TrimSpace(parameters), "q=")
			q, err := strconv.ParseFloat(weight, 64)
			if strings.TrimSpace(name) == "gzip" && (!isWeighted || err == nil && q > 0) {
				return true
			}
		}
	}
	return false
}
