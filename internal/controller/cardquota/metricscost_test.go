package cardquota

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/testing/check"
)

// listedCards is how many cards each CardQuota of these tests lists.
const listedCards = 20

// newFleet returns a collector with CardQuotas in a tree. Each has numbers for so many of its cards, and zeros
// for the others.
func newFleet(quotas, cards int) *metricsCollector {
	metrics := newMetricsCollector()
	for i := range quotas {
		numbers := queueMetrics{quota: fmt.Sprintf("project-%05d", i), tenant: fmt.Sprintf("tenant-%03d", i/10), serviceType: "training", isInTree: true}
		for model := range listedCards {
			status := v1alpha1.CardStatus{Name: fmt.Sprintf("NVIDIA-BENCH-%02d", model), Physical: 2000}
			if model < cards {
				status.Quota = 8
				status.Deserved = 4
				status.Used = int64(i % 9)
				status.Pending = int64(i % 3)
			}
			numbers.cards = append(numbers.cards, status)
		}
		metrics.setQueue(numbers.quota, numbers)
	}

	return metrics
}

// discard is a reader that drops the page, and counts its bytes.
type discard struct {
	header http.Header
	bytes  int
}

func (d *discard) Header() http.Header { return d.header }
func (d *discard) WriteHeader(int)     {}
func (d *discard) Write(page []byte) (int, error) {
	d.bytes += len(page)
	return len(page), nil
}

// newPage returns the page of a collector's metrics, as the operator serves it.
func newPage(m *metricsCollector) http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(m)
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{Timeout: time.Minute})
}

// scrapePage reads the page as Prometheus does, and returns its size.
func scrapePage(page http.Handler) int {
	request := httptest.NewRequest(http.MethodGet, "/metrics", nil)
	request.Header.Set("Accept-Encoding", "gzip")
	reader := &discard{header: http.Header{}}
	page.ServeHTTP(reader, request)
	return reader.bytes
}

// TestAScrapeAllocatesLessThan60MiB: the memory limit of the operator leaves so much for the largest page of 1,000
// CardQuotas, each with numbers of 20 cards. The first scrape allocates buffers that later ones use again.
func TestAScrapeAllocatesLessThan60MiB(t *testing.T) {
	page := newPage(newFleet(1000, listedCards))
	scrapePage(page)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)

	size := scrapePage(page)

	runtime.ReadMemStats(&after)
	check.That(t, size > 0, "the page is empty")
	allocated := after.TotalAlloc - before.TotalAlloc
	check.That(t, allocated < 60<<20, "a page of %d bytes takes %d MiB", size, allocated>>20)
}

// BenchmarkScrape measures a page as Prometheus reads it, compressed, for 1,000 and 10,000 CardQuotas with numbers of 4 or
// 20 cards. What it allocates is the upper bound of what a scrape needs at a time.
func BenchmarkScrape(b *testing.B) {
	for _, size := range []struct{ quotas, cards int }{{1000, 4}, {1000, listedCards}, {10_000, 4}, {10_000, listedCards}} {
		b.Run(fmt.Sprintf("quotas=%d/cards=%d", size.quotas, size.cards), func(b *testing.B) {
			page := newPage(newFleet(size.quotas, size.cards))
			b.ReportAllocs()
			sent := 0
			before := check.ProcessorTime(b)
			for b.Loop() {
				sent = scrapePage(page)
			}

			b.ReportMetric(float64((check.ProcessorTime(b)-before).Milliseconds())/float64(b.N), "cpu-ms/op")
			b.ReportMetric(float64(size.quotas*(1+4*size.cards)), "series")
			b.ReportMetric(float64(sent), "bytes-sent")
		})
	}
}
