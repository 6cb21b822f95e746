package webhook

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"time"

	"golang.org/x/sync/semaphore"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// Bounds of concurrent requests. A tenant only needs permission to create a pod, and the
// API server validates dry runs as well.
const (
	// maxConcurrent bounds the requests that are validated at a time.
	maxConcurrent = 4
	// A request of largeBodyBytes or more is large, and at most maxLargeRequests are in
	// memory. The server accepts 7 MiB: two objects of 3 MiB, the API server's bound, and
	// the review around them.
	largeBodyBytes   = 64 << 10
	maxLargeRequests = 2
	// maxParts bounds the objects, lists and nulls in the text of an object. An empty task
	// of a vcjob has two bytes and takes 700 in memory, so the bound is about 55 MiB. 256
	// tasks of three containers with thirty variables each have 72,000.
	maxParts = 80_000
	// defaultTimeout is the timeout of a request that names none, and the longest.
	defaultTimeout = 10 * time.Second
)

// errTooManyParts refuses to decode an object that is too large.
var errTooManyParts = errors.New("it has too many parts")

// limiter bounds concurrent requests: those that are validated, and large ones from their
// first byte on.
type limiter struct{ requests, largeRequests *semaphore.Weighted }

func newLimiter() limiter {
	return limiter{semaphore.NewWeighted(maxConcurrent), semaphore.NewWeighted(maxLargeRequests)}
}

// limitConcurrency bounds the requests that a handler validates at a time. A request waits
// no longer than the API server's timeout; then onTimeout answers it.
func (l limiter) limitConcurrency(handle admission.HandlerFunc, onTimeout func(error) admission.Response) admission.HandlerFunc {
	return func(ctx context.Context, req admission.Request) admission.Response {
		if err := l.requests.Acquire(ctx, 1); err != nil {
			return onTimeout(err)
		}
		defer l.requests.Release(1)
		return handle(ctx, req)
	}
}

// limitLargeRequests ends a request at the API server's timeout and bounds the large ones
// in memory. The timeout is a query parameter: HTTP/1.1 does not report a hang-up before
// the body is read.
func (l limiter) limitLargeRequests(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		timeout, err := time.ParseDuration(r.URL.Query().Get("timeout"))
		if err != nil || timeout <= 0 || timeout > defaultTimeout {
			timeout = defaultTimeout
		}

		ctx, cancel := context.WithTimeout(r.Context(), timeout)
		defer cancel()

		if r.ContentLength < 0 || r.ContentLength >= largeBodyBytes { // below 0 the length is unknown
			if l.largeRequests.Acquire(ctx, 1) != nil {
				http.Error(w, "too many large requests", http.StatusServiceUnavailable)
				return
			}
			defer l.largeRequests.Release(1)
		}

		deadline, _ := ctx.Deadline()
		// A server without deadlines reads until the client hangs up.
		_ = http.NewResponseController(w).SetReadDeadline(deadline)
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// tooManyParts reports whether the JSON text of an object may take too much memory once
// decoded. Braces in strings count too, so it errs only on the safe side.
func tooManyParts(text []byte) bool {
	return bytes.Count(text, []byte("{"))+bytes.Count(text, []byte("["))+bytes.Count(text, []byte("null")) > maxParts
}
