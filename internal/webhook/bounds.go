package webhook

import (
	"context"
	"errors"
	"net/http"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// What tenants can have us work on at a time. They need no right for it but that
// to create a pod, and a dry run is judged as well.
const (
	// mostTurns is how many requests are judged at a time.
	mostTurns = 4
	// largeBody is from how many bytes on a request is large, and mostLarge how many
	// large ones are in memory at a time. The server takes 7 MiB at most: two objects
	// of 3 MiB, the API server's bound, and what is around them.
	largeBody = 64 << 10
	mostLarge = 4
	// mostCost bounds what an object becomes in memory, in units of about 64 bytes:
	// 32 MiB.
	mostCost = 1 << 19
	// defaultWait is how long the API server waits when it does not say.
	defaultWait = 10 * time.Second
)

// errOverlarge is of an object that is not read for its size.
var errOverlarge = errors.New("it has too many parts")

// turns are how many may do something at a time.
type turns chan struct{}

// lane is the turns of requests that wait for each other: those that are judged,
// and the large ones from their first byte on.
type lane struct{ judged, large turns }

func newLane() lane { return lane{make(turns, mostTurns), make(turns, mostLarge)} }

// take waits for a turn; it is false when the context ends before.
func (t turns) take(ctx context.Context) bool {
	select {
	case t <- struct{}{}:
	case <-ctx.Done():
		return false
	}
	if ctx.Err() != nil { // both were ready
		t.give()
		return false
	}
	return true
}

func (t turns) give() { <-t }

// judging has a handler wait for its turn, no longer than the API server waits for
// the answer; late is what it answers then, to nobody.
func (l lane) judging(handle admission.HandlerFunc, late func(error) admission.Response) admission.HandlerFunc {
	return func(ctx context.Context, req admission.Request) admission.Response {
		if !l.judged.take(ctx) {
			return late(ctx.Err())
		}
		defer l.judged.give()
		return handle(ctx, req)
	}
}

// bounded ends a request when the API server gives it up, and keeps few large ones
// in memory. The API server says how long it waits; it speaks HTTP/1.1, in which
// nobody sees that it hangs up before the body is read.
func (l lane) bounded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		wait, err := time.ParseDuration(r.URL.Query().Get("timeout"))
		if err != nil || wait <= 0 || wait > defaultWait {
			wait = defaultWait
		}
		ctx, cancel := context.WithTimeout(r.Context(), wait)
		defer cancel()
		if r.ContentLength < 0 || r.ContentLength >= largeBody {
			if !l.large.take(ctx) {
				http.Error(w, "too many large requests", http.StatusServiceUnavailable)
				return
			}
			defer l.large.give()
		}
		deadline, _ := ctx.Deadline()
		// A server without deadlines reads on until the client hangs up.
		_ = http.NewResponseController(w).SetReadDeadline(deadline)
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// cost is about how much memory a JSON text takes once it is read into the types
// of an object, in units of 64 bytes, counted up to a little above mostCost. What is
// short in the text can be long there: an empty container is written in two bytes
// and takes 700.
func cost(text []byte) int {
	const structure = 16
	var lists []bool // of each open bracket, whether it is a list's
	units := 0
	for i := 0; i < len(text) && units <= mostCost; i++ {
		inList := len(lists) > 0 && lists[len(lists)-1]
		switch text[i] {
		case '"':
			i += quoted(text[i:])
		case ',':
			units++
		case 'n': // null
			if inList {
				units += structure
			}
		case '{', '[':
			units++
			if inList {
				units += structure
			}
			lists = append(lists, text[i] == '[')
		case '}', ']':
			lists = lists[:max(0, len(lists)-1)]
		}
	}
	return units
}

// quoted is how far the last byte is of the string that a text begins with.
func quoted(text []byte) int {
	for i := 1; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			return i
		}
	}
	return len(text)
}
