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

// TestHonestWorkloadsAreNotTooLarge: a hundred tasks of three containers with
// thirty variables each, and what few bytes can become.
func TestHonestWorkloadsAreNotTooLarge(t *testing.T) {
	variables := strings.TrimSuffix(strings.Repeat(`{"name":"A","valueFrom":{"fieldRef":{"fieldPath":"metadata.name"}}},`, 30), ",")
	container := `{"name":"c","env":[` + variables + `],"volumeMounts":[{"name":"a","mountPath":"/a"},{"name":"b","mountPath":"/b"}],"resources":{"limits":{"nvidia.com/gpu":8}}}`

	task := `{"name":"t","replicas":4,"template":{"spec":{"containers":[` + container + "," + container + "," + container + `],"volumes":[{"name":"a"},{"name":"b"}]}}}`
	for name, tc := range map[string]struct {
		text string
		over bool
	}{
		"a hundred tasks":        {`{"spec":{"tasks":[` + strings.TrimSuffix(strings.Repeat(task+",", 100), ",") + `]}}`, false},
		"the largest annotation": {`{"metadata":{"annotations":{"a":"` + strings.Repeat("{},", 20_000) + strings.Repeat("x", 200<<10) + `"}}}`, false},
		"tasks of nothing":       {`{"spec":{"tasks":[` + strings.Repeat(`{},`, 100_000) + `{}]}}`, true},
		"tasks that are not":     {`{"spec":{"tasks":[` + strings.Repeat(`null,`, 100_000) + `null]}}`, true},
	} {
		check.That(t, tooManyParts([]byte(tc.text)) == tc.over, "%s: %d bytes are too many: %v", name, len(tc.text), !tc.over)
	}
}

// TestConcurrentValidationsAreBounded: the others wait, and go when the API server does.
func TestConcurrentValidationsAreBounded(t *testing.T) {
	var now, most atomic.Int32
	inside := make(chan struct{}, 100)
	leave := make(chan struct{})

	l := newLimiter()
	handle := l.limitConcurrency(func(context.Context, admission.Request) admission.Response {
		most.Store(max(most.Load(), now.Add(1)))
		inside <- struct{}{}
		<-leave
		now.Add(-1)
		return admission.Allowed("judged")
	}, allowUnreadable)

	var all sync.WaitGroup
	for range 20 {
		all.Go(func() { handle(t.Context(), admission.Request{}) })
	}

	for range maxConcurrent {
		<-inside
	}

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	answer := handle(ctx, admission.Request{})
	check.That(t, answer.Allowed && len(answer.Warnings) == 1, "who does not wait is answered %+v", answer)

	close(leave)
	all.Wait()
	got := most.Load()
	check.That(t, got <= maxConcurrent, "%d were judged at a time, want at most %d", got, maxConcurrent)

	answer = handle(ctx, admission.Request{})
	check.That(t, answer.Result.Message != "judged", "was validated although the caller has gone")
}

// TestLargeRequestsWaitBeforeTheyAreRead, and no longer than the API server does.
func TestLargeRequestsWaitBeforeTheyAreRead(t *testing.T) {
	l := newLimiter()
	var read atomic.Int32
	waits := make(chan time.Duration, 10)
	server := httptest.NewServer(l.limitLargeRequests(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if deadline, ok := r.Context().Deadline(); ok {
			waits <- time.Until(deadline)
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

	for timeout, most := range map[string]time.Duration{"2s": 2 * time.Second, "5s": 5 * time.Second, "": defaultTimeout, "1000h": defaultTimeout, "-1s": defaultTimeout} {
		check.Equal(t, fmt.Sprintf("timeout %q: not served", timeout), http.StatusOK, post(largeBodyBytes, timeout))
		got := <-waits
		check.That(t, got <= most && got >= most/2, "timeout %q: waits for %s, want a little less than %s", timeout, got, most)
	}

	for range maxLargeRequests {
		check.NoError(t, l.largeRequests.Acquire(t.Context(), 1))
	}

	read.Store(0)
	code := post(largeBodyBytes, "50ms")
	check.That(t, code == http.StatusServiceUnavailable && read.Load() == 0, "one too many is answered %d, and %d bytes are read", code, read.Load())
	check.Equal(t, "a small one waits for large ones", http.StatusOK, post(largeBodyBytes-1, "2s"))
}
