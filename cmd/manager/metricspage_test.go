package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"cardquota.dev/operator/internal/testing/check"
)

// slowCollector counts how often it is asked. It answers after begin.
type slowCollector struct {
	asked atomic.Int32
	begin chan struct{}
	// queues are the values of a label.
	queues []string
}

var slowDesc = prometheus.NewDesc("cardquota_test_cards", "Cards.", []string{"queue"}, nil)

// Describe implements prometheus.Collector.
func (*slowCollector) Describe(ch chan<- *prometheus.Desc) { ch <- slowDesc }

// Collect implements prometheus.Collector.
func (c *slowCollector) Collect(ch chan<- prometheus.Metric) {
	c.asked.Add(1)
	<-c.begin
	for _, queue := range c.queues {
		ch <- prometheus.MustNewConstMetric(slowDesc, prometheus.GaugeValue, 1, queue)
	}
}

// newTestPage returns a page with the metrics of a collector.
func newTestPage(t *testing.T, collector prometheus.Collector) http.Handler {
	registry := prometheus.NewRegistry()
	check.NoError(t, registry.Register(collector))
	return newMetricsPage(registry)
}

// TestOnePageIsRenderedAtATime: rendering the page of metrics takes memory, so one reader is answered after the other.
// At most maxPages readers are there at a time, one that is answered and others that wait, and one more is refused with
// status 503. The collector waits in the first page until the test closes begin.
func TestOnePageIsRenderedAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		collector := &slowCollector{begin: make(chan struct{}), queues: []string{"q"}}
		page := newTestPage(t, collector)
		var answers []*httptest.ResponseRecorder
		for range maxPages + 1 {
			answer := httptest.NewRecorder()
			answers = append(answers, answer)
			go page.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", nil))
		}

		synctest.Wait()
		check.Equal(t, "pages that are rendered at a time", 1, collector.asked.Load())

		close(collector.begin)
		synctest.Wait()

		statuses := map[int]int{}
		for _, answer := range answers {
			statuses[answer.Code]++
			check.That(t, answer.Code != http.StatusOK || strings.HasSuffix(answer.Body.String(), "cardquota_test_cards{queue=\"q\"} 1\n"), "page %s", answer.Body)
		}

		check.Equal(t, "answers by status", map[int]int{http.StatusOK: maxPages, http.StatusServiceUnavailable: 1}, statuses)
		check.Equal(t, "pages that were rendered", maxPages, collector.asked.Load())
	})
}

// TestAReaderThatDoesNotReadDelaysNoOther: a client requests a page of 64 MB (1,000 series with a label of 64
// kB) and reads none of it. So its connection takes only a part of the page. The server renders a page in
// memory before it sends any of it, so the turn of this client ends all the same. The next reader gets its
// page within pageTimeout, after which it would be refused.
func TestAReaderThatDoesNotReadDelaysNoOther(t *testing.T) {
	collector := &slowCollector{begin: make(chan struct{})}
	close(collector.begin)
	for i := range 1000 {
		collector.queues = append(collector.queues, fmt.Sprint(strings.Repeat("q", 64<<10), i))
	}

	server := httptest.NewServer(newTestPage(t, collector))
	t.Cleanup(server.Close)

	silent := check.Value((&net.Dialer{}).DialContext(t.Context(), "tcp", server.Listener.Addr().String()))(t)
	t.Cleanup(func() { _ = silent.Close() })

	check.Value(io.WriteString(silent, "GET /metrics HTTP/1.1\r\nHost: operator\r\n\r\n"))(t)

	for collector.asked.Load() == 0 { // until the turn of the silent client has begun
		time.Sleep(time.Millisecond)
	}

	ctx, cancel := context.WithTimeout(t.Context(), pageTimeout-time.Second)
	defer cancel()

	request := check.Value(http.NewRequestWithContext(ctx, http.MethodGet, server.URL, nil))(t)
	response := check.Value(server.Client().Do(request))(t)

	check.Value(io.Copy(io.Discard, response.Body))(t)
	check.NoError(t, response.Body.Close())
	check.Equal(t, "status", http.StatusOK, response.StatusCode)
}
