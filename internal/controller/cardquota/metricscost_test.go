package cardquota

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/metricspage"
	"cardquota.dev/operator/internal/testing/check"
)

// collectorOf returns a collector with queues of twenty cards, and the number of their series.
func collectorOf(queues int) (m *metricsCollector, series int) {
	m = newMetricsCollector()
	for i := range queues {
		numbers := queueMetrics{quota: fmt.Sprintf("project-%05d", i), tenant: fmt.Sprintf("tenant-%03d", i/10), serviceType: "training"}
		for model := range 20 {
			numbers.cards = append(numbers.cards, v1alpha1.CardStatus{Name: fmt.Sprintf("NVIDIA-BENCH-%02d", model), Quota: 8, Physical: 2000})
		}
		m.setQueue(numbers.quota, numbers)
	}
	return m, queues * (1 + 3*20)
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

// scrapePage reads the page as Prometheus does, and returns its size.
func scrapePage(page http.Handler) int {
	request := httptest.NewRequest(http.MethodGet, "/metrics", nil)
	request.Header.Set("Accept-Encoding", "gzip")
	reader := &discard{header: http.Header{}}
	page.ServeHTTP(reader, request)
	return reader.bytes
}

// TestAScrapeTakesLittleMemory: the limit of the operator's memory has to have room for it, also where
// two of Prometheus read. client_golang alone allocates about 750 bytes for each series.
func TestAScrapeTakesLittleMemory(t *testing.T) {
	collector, series := collectorOf(1000)
	page := metricspage.New(prometheus.NewRegistry())
	check.NoError(t, page.Register(collector))
	scrapePage(page)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	size := scrapePage(page)
	runtime.ReadMemStats(&after)
	perSeries := float64(after.TotalAlloc-before.TotalAlloc) / float64(series)
	check.That(t, size > 0 && perSeries < 150, "%d series take %.0f bytes each, in %d bytes of the page", series, perSeries, size)
}

// BenchmarkScrape measures the page with the metrics of 10,000 CardQuotas of 20 cards, as the operator
// serves it, and as client_golang alone would.
func BenchmarkScrape(b *testing.B) {
	collector, series := collectorOf(10_000)
	page, registry := metricspage.New(prometheus.NewRegistry()), prometheus.NewRegistry()
	page.MustRegister(collector)
	registry.MustRegister(collector)
	b.Run("page", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			b.ReportMetric(float64(scrapePage(page)), "bytes-sent")
		}
		b.ReportMetric(float64(series), "series")
	})
	b.Run("client_golang", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			families, err := registry.Gather()
			check.NoError(b, err)
			encoder := expfmt.NewEncoder(io.Discard, expfmt.NewFormat(expfmt.TypeTextPlain))
			for _, family := range families {
				check.NoError(b, encoder.Encode(family))
			}
		}
	})
}
