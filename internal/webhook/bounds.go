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

// What tenants can make the webhooks work on at a time. They need no right for it but
// that to create a pod, and a dry run is validated as well.
const (
	// maxConcurrent is how many requests are validated at a time.
	maxConcurrent = 4
	// A request of largeBody bytes or more is large, and maxLarge of them are in memory at
	// a time. The server takes 7 MiB at most: two objects of 3 MiB, the API server's
	// bound, and what is around them.
	largeBody = 64 << 10
	maxLarge  = 2
	// maxParts bounds the objects, lists and nulls in the text of an object. An empty task
	// of a vcjob is written in two bytes and takes 700 in memory, so these are about
	// 55 MiB. 256 tasks of three containers with thirty variables each have 72,000.
	maxParts = 80_000
	// defaultTimeout is how long the API server waits when it does not say.
	defaultTimeout = 10 * time.Second
)

// errTooManyParts is of an object that is not read for its size.
var errTooManyParts = errors.New("it has too many parts")

// limiter bounds requests that wait for each other: those that are validated, and the
// large ones from their first byte on.
type limiter struct{ concurrent, large *semaphore.Weighted }

func newLimiter() limiter {
	return limiter{semaphore.NewWeighted(maxConcurrent), semaphore.NewWeighted(maxLarge)}
}

// validating lets a handler wait for its turn, no longer than the API server waits for
// the answer; onTimeout is what it answers then, to nobody.
func (l limiter) validating(handle admission.HandlerFunc, onTimeout func(error) admission.Response) admission.HandlerFunc {
	return func(ctx context.Context, req admission.Request) admission.Response {
		if err := l.concurrent.Acquire(ctx, 1); err != nil {
			return onTimeout(err)
		}
		defer l.concurrent.Release(1)
		return handle(ctx, req)
	}
}

// bounded ends a request when the API server gives it up, and keeps few large ones
// in memory. The API server says how long it waits; it speaks HTTP/1.1, in which
// nobody sees that it hangs up before the body is read.
func (l limiter) bounded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		timeout, err := time.ParseDuration(r.URL.Query().Get("timeout"))
		if err != nil || timeout <= 0 || timeout > defaultTimeout {
			timeout = defaultTimeout
		}
		ctx, cancel := context.WithTimeout(r.Context(), timeout)
		defer cancel()
		if r.ContentLength < 0 || r.ContentLength >= largeBody {
			if l.large.Acquire(ctx, 1) != nil {
				http.Error(w, "too many large requests", http.StatusServiceUnavailable)
				return
			}
			defer l.large.Release(1)
		}
		deadline, _ := ctx.Deadline()
		// A server without deadlines reads on until the client hangs up.
		_ = http.NewResponseController(w).SetReadDeadline(deadline)
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// tooManyParts reports whether the JSON text of an object may take too much memory once
// it is read into its types. It also counts what only looks like a part, in a string.
func tooManyParts(text []byte) bool {
	return bytes.Count(text, []byte("{"))+bytes.Count(text, []byte("["))+bytes.Count(text, []byte("null")) > maxParts
}
