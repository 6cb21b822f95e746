package webhook

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"cardquota.dev/operator/internal/testing/check"
)

// TestUsualWorkloadsAreNotTooLarge: what an object takes in memory depends on its parts, the objects, lists and nulls of its
// JSON. An empty task has two bytes and takes 700. So the webhook counts parts, up to 80,000. A job of a hundred tasks
// with three containers of thirty variables has fewer. Opening braces in texts count too: an annotation may have 20,000
// of them, but not 90,000.
func TestUsualWorkloadsAreNotTooLarge(t *testing.T) {
	repeat := func(part string, n int) string { return strings.TrimSuffix(strings.Repeat(part+",", n), ",") }
	variables := repeat(`{"name":"A","valueFrom":{"fieldRef":{"fieldPath":"metadata.name"}}}`, 30)
	container := `{"name":"c","env":[` + variables + `],"volumeMounts":[{"name":"a","mountPath":"/a"},{"name":"b","mountPath":"/b"}],"resources":{"limits":{"nvidia.com/gpu":8}}}`

	task := `{"name":"t","replicas":4,"template":{"spec":{"containers":[` + repeat(container, 3) + `],"volumes":[{"name":"a"},{"name":"b"}]}}}`
	for name, tc := range map[string]struct {
		text       string
		isTooLarge bool
	}{
		"a hundred usual tasks": {`{"spec":{"tasks":[` + repeat(task, 100) + `]}}`, false},
		"an annotation of 239 KiB with 20,000 pairs of braces; Kubernetes allows 256 KiB": {
			text: `{"metadata":{"annotations":{"a":"` + strings.Repeat("{}", 20_000) + strings.Repeat("x", 200<<10) + `"}}}`,
		},
		"an annotation of 90,000 braces": {
			text:       `{"metadata":{"annotations":{"a":"` + strings.Repeat("{", 90_000) + `"}}}`,
			isTooLarge: true,
		},
		"100,000 empty tasks": {`{"spec":{"tasks":[` + repeat(`{}`, 100_000) + `]}}`, true},
		"100,000 null tasks":  {`{"spec":{"tasks":[` + repeat(`null`, 100_000) + `]}}`, true},
	} {
		check.Equal(t, name+": too many parts", tc.isTooLarge, tooManyParts([]byte(tc.text)))
	}
}

// TestConcurrentValidationsAreBounded: any tenant can send requests, and dry runs of them, so at most 4 of them
// (maxConcurrent) are validated at a time. Of 20 requests, 16 wait until the webhook is done with another one. A
// request whose caller has gone is allowed without validation, with a warning.
func TestConcurrentValidationsAreBounded(t *testing.T) {
	var now, most atomic.Int32
	begun := make(chan struct{}, 100)
	finish := make(chan struct{})

	handle := newLimiter().limitConcurrency(func(context.Context, admission.Request) admission.Response {
		most.Store(max(most.Load(), now.Add(1)))
		begun <- struct{}{}
		<-finish
		now.Add(-1)
		return admission.Allowed("validated")
	}, allowUnreadable)

	var all sync.WaitGroup
	for range 20 {
		all.Go(func() { handle(t.Context(), admission.Request{}) })
	}

	for range maxConcurrent {
		<-begun
	}

	callerGone, cancel := context.WithCancel(t.Context())
	cancel()
	answer := handle(callerGone, admission.Request{}) // no place is free
	check.That(t, answer.Allowed, "a request whose caller has gone is refused")
	check.Equal(t, "warnings, the caller has gone", 1, len(answer.Warnings))

	close(finish)
	all.Wait()
	check.That(t, most.Load() <= maxConcurrent, "%d requests were validated at a time, want at most %d", most.Load(), maxConcurrent)
	answer = handle(callerGone, admission.Request{}) // all places are free
	check.That(t, answer.Result.Message != "validated", "a request is validated although its caller has gone")
}

// TestLargeRequestsWaitBeforeTheyAreRead: of requests of 64 KiB and more (largeBodyBytes) at most two are in memory.
// A third one waits before its body is read, as long as the API server waits for its answer, and is then refused. The
// URL states this timeout. The webhook takes 10 seconds (defaultTimeout) instead if the timeout is missing, negative
// or longer than that. Small requests do not wait for large ones.
func TestLargeRequestsWaitBeforeTheyAreRead(t *testing.T) {
	limiter := newLimiter()
	var read atomic.Int32
	timeouts := make(chan time.Duration, 10)
	server := httptest.NewServer(limiter.limitLargeRequests(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if deadline, ok := r.Context().Deadline(); ok {
			timeouts <- time.Until(deadline)
		}
		n, _ := io.Copy(io.Discard, r.Body)
		read.Add(int32(n)) //nolint:gosec // some KiB
	})))
	defer server.Close()

	post := func(size int, timeout string) int {
		response := check.Value(http.Post(server.URL+"/?timeout="+timeout, "application/json", bytes.NewReader(make([]byte, size))))(t)
		_ = response.Body.Close()
		return response.StatusCode
	}

	for timeout, want := range map[string]time.Duration{
		"2s":    2 * time.Second,
		"5s":    5 * time.Second,
		"":      defaultTimeout,
		"1000h": defaultTimeout,
		"-1s":   defaultTimeout,
	} {
		check.Equal(t, fmt.Sprintf("status with timeout %q", timeout), http.StatusOK, post(largeBodyBytes, timeout))
		got := <-timeouts
		check.That(t, got <= want && got >= want/2, "timeout %q: %s are left, want a little less than %s", timeout, got, want)
	}

	for range maxLargeRequests {
		check.NoError(t, limiter.largeRequests.Acquire(t.Context(), 1)) // as if a large request were in memory
	}

	read.Store(0)
	check.Equal(t, "status of a third large request", http.StatusServiceUnavailable, post(largeBodyBytes, "50ms"))
	check.Equal(t, "bytes that are read of the third large request", 0, read.Load())
	check.Equal(t, "status of a small request beside two large ones", http.StatusOK, post(largeBodyBytes-1, "2s"))
}
