package metricspage

import (
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"pgregory.net/rapid"

	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/seed"
)

var (
	many  = prometheus.NewDesc("many_cards", "Cards with a \\ and\na \"quote\".", []string{"queue", "card"}, nil)
	total = prometheus.NewDesc("cards_total", "All cards.", nil, nil)
)

// sender is a collector of given series.
type sender []sentSeries

type sentSeries struct {
	desc   *prometheus.Desc
	value  float64
	labels []string
}

func (s sender) Describe(ch chan<- *prometheus.Desc) {
	ch <- many
	ch <- total
}

func (s sender) SendSeries(send Send) {
	for _, one := range s {
		send(one.desc, one.value, one.labels...)
	}
}

func (s sender) Collect(ch chan<- prometheus.Metric) {
	s.SendSeries(func(desc *prometheus.Desc, value float64, labels ...string) {
		kind := prometheus.GaugeValue
		if desc == total {
			kind = prometheus.CounterValue
		}
		if m, err := prometheus.NewConstMetric(desc, kind, value, labels...); err == nil {
			ch <- m
		}
	})
}

// readPage reads a page with an Accept-Encoding, and returns the text.
func readPage(t check.T, handler http.Handler, encoding string) string {
	request := httptest.NewRequest(http.MethodGet, "/metrics", nil)
	request.Header.Set("Accept-Encoding", encoding)
	answer := httptest.NewRecorder()
	handler.ServeHTTP(answer, request)
	check.Equal(t, "status", http.StatusOK, answer.Code)
	check.Equal(t, "type", "text/plain; version=0.0.4; charset=utf-8", answer.Header().Get("Content-Type"))
	body := io.Reader(answer.Body)
	if answer.Header().Get("Content-Encoding") == "gzip" {
		unpacked, err := gzip.NewReader(body)
		check.NoError(t, err)
		body = unpacked
	}
	text, err := io.ReadAll(body)
	check.NoError(t, err)
	return string(text)
}

func parsePage(t check.T, text string) map[string]*dto.MetricFamily {
	var parser expfmt.TextParser
	families, err := parser.TextToMetricFamilies(strings.NewReader(text))
	check.NoError(t, err)
	return families
}

// describe returns families as text that can be compared.
func describe(families map[string]*dto.MetricFamily) map[string]string {
	all := map[string]string{}
	for _, family := range families {
		all[family.GetName()] = family.GetType().String() + " " + family.GetHelp()
		for _, m := range family.GetMetric() {
			labels := map[string]string{}
			for _, pair := range m.GetLabel() {
				labels[pair.GetName()] = pair.GetValue()
			}
			all[fmt.Sprintf("%s %q", family.GetName(), labels)] = fmt.Sprint(m.GetGauge().GetValue(), m.GetCounter().GetValue())
		}
	}
	return all
}

// TestThePageIsThatOfARegistry compares with what client_golang writes.
func TestThePageIsThatOfARegistry(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"", `\`, `"`, "\n", `a\n"b`, "\xff", "NVIDIA-H200"}))
		notNegativeZero := func(x float64) bool { return x != 0 || !math.Signbit(x) } // it is written as 0
		value := rapid.OneOf(rapid.Float64().Filter(notNegativeZero), rapid.Map(rapid.IntRange(0, 1e9), func(n int) float64 { return float64(n) }))
		var sent sender
		seen := map[string]bool{}
		for range rapid.IntRange(0, 40).Draw(t, "series") {
			labels := []string{text.Draw(t, "queue"), text.Draw(t, "card")}
			if key := fmt.Sprintf("%q", labels); !seen[key] {
				seen[key] = true
				sent = append(sent, sentSeries{many, value.Draw(t, "value"), labels})
			}
		}
		if rapid.Bool().Draw(t, "with a counter") {
			sent = append(sent, sentSeries{total, value.Draw(t, "total"), nil})
		}
		other := prometheus.NewGauge(prometheus.GaugeOpts{Name: "other", Help: "Another one."})
		registry, others := prometheus.NewRegistry(), prometheus.NewRegistry()
		registry.MustRegister(sent, other)
		page := New(others)
		page.MustRegister(sent, other)
		families, err := registry.Gather()
		check.NoError(t, err)
		var want strings.Builder
		encoder := expfmt.NewEncoder(&want, expfmt.NewFormat(expfmt.TypeTextPlain))
		for _, family := range families {
			check.NoError(t, encoder.Encode(family))
		}
		for _, encoding := range []string{"", "gzip"} {
			check.Equal(t, "page with "+encoding, describe(parsePage(t, want.String())), describe(parsePage(t, readPage(t, page, encoding))))
		}
	})
}

// TestManySeriesAreAllWritten: also beyond the largest chunk, and each family is in one piece.
func TestManySeriesAreAllWritten(t *testing.T) {
	var sent sender
	const count = 3*seriesPerChunk + 7
	for i := range count {
		sent = append(sent, sentSeries{many, float64(i), []string{fmt.Sprint("q", i), "A"}}, sentSeries{many, 1, []string{fmt.Sprint("q", i), "B"}})
	}
	page := New(prometheus.NewRegistry())
	page.MustRegister(sent)
	seen, headers := map[string]bool{}, 0
	for line := range strings.Lines(readPage(t, page, "deflate, gzip;q=0.5")) {
		if strings.HasPrefix(line, "#") {
			headers++
			check.That(t, len(seen) == 0, "%q comes within the family", line)
		} else {
			seen[line] = true
		}
	}
	check.Equal(t, "series", 2*count, len(seen))
	check.Equal(t, "lines of help and type", 2, headers)
}

func TestEncodings(t *testing.T) {
	for header, want := range map[string]bool{"": false, "gzip": true, "br, gzip": true, "gzip;q=0": false, "gzip; q=0.1": true, "x-gzip": false, "gzip;q=x": false} {
		request := httptest.NewRequest(http.MethodGet, "/metrics", nil)
		request.Header.Set("Accept-Encoding", header)
		check.Equal(t, header, want, acceptsGzip(request))
	}
}

// TestOnePageIsWrittenAtATime: a second reader waits, until it gives up.
func TestOnePageIsWrittenAtATime(t *testing.T) {
	page := New(prometheus.NewRegistry())
	inside, release := make(chan struct{}), make(chan struct{})
	page.MustRegister(blockingSender{inside: inside, release: release})
	done := make(chan struct{})
	go func() {
		defer close(done)
		page.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/metrics", nil))
	}()
	<-inside
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	second := httptest.NewRecorder()
	page.ServeHTTP(second, httptest.NewRequest(http.MethodGet, "/metrics", nil).WithContext(ctx))
	check.Equal(t, "page of a reader that gave up", "", second.Body.String())
	close(release)
	<-done
}

// TestAReaderThatDoesNotReadDelaysNoOther: its connection has room for a part of the page only.
func TestAReaderThatDoesNotReadDelaysNoOther(t *testing.T) {
	page := New(prometheus.NewRegistry())
	page.writeTimeout = 5 * time.Minute // the silent reader keeps its connection during the whole test
	large := sender{}
	for i := range 1000 {
		large = append(large, sentSeries{many, float64(i), []string{strings.Repeat("q", 64<<10), fmt.Sprint(i)}})
	}
	begins := make(chan struct{}, 2)
	page.MustRegister(announcingSender{large, begins})
	server := httptest.NewServer(page)
	t.Cleanup(server.Close)

	silent, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", server.Listener.Addr().String())
	check.NoError(t, err)
	t.Cleanup(func() { _ = silent.Close() })
	_, err = io.WriteString(silent, "GET /metrics HTTP/1.1\r\nHost: operator\r\n\r\n")
	check.NoError(t, err)
	<-begins
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL, nil)
	check.NoError(t, err)
	response, err := server.Client().Do(request) // the test would not end
	check.NoError(t, err)
	check.NoError(t, response.Body.Close())
	check.Equal(t, "status", http.StatusOK, response.StatusCode)
}

// announcingSender says that a page begins.
type announcingSender struct {
	sender
	begins chan struct{}
}

func (s announcingSender) SendSeries(send Send) {
	s.begins <- struct{}{}
	s.sender.SendSeries(send)
}

// TestADescriptionThatCannotBeReadIsRefused: it would be missing on every page.
func TestADescriptionThatCannotBeReadIsRefused(t *testing.T) {
	labelled := prometheus.NewDesc("a_card", "A card.", nil, prometheus.Labels{"constant": "label"})
	check.Says(t, New(prometheus.NewRegistry()).Register(describedSender{desc: labelled}), "no description of a metric without constant labels")
}

// describedSender has a description of its own.
type describedSender struct {
	sender
	desc *prometheus.Desc
}

func (s describedSender) Describe(ch chan<- *prometheus.Desc) { ch <- s.desc }

// blockingSender says when it is asked, and waits.
type blockingSender struct {
	sender
	inside, release chan struct{}
}

func (s blockingSender) SendSeries(Send) {
	s.inside <- struct{}{}
	<-s.release
}
