package webhook

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/seed"
)

// TestCost holds what is counted in the text against what the text says.
func TestCost(t *testing.T) {
	var value *rapid.Generator[any]
	value = rapid.Custom(func(t *rapid.T) any {
		switch rapid.IntRange(0, 6).Draw(t, "kind") {
		case 0:
			return nil
		case 1:
			return rapid.Bool().Draw(t, "bool")
		case 2:
			return rapid.Int32().Draw(t, "number")
		case 3:
			return rapid.SliceOfN(rapid.Deferred(func() *rapid.Generator[any] { return value }), 0, 3).Draw(t, "list")
		case 4:
			return rapid.MapOfN(rapid.String(), rapid.Deferred(func() *rapid.Generator[any] { return value }), 0, 3).Draw(t, "object")
		default:
			return rapid.StringMatching(`[\[\]{},"\\n]*`).Draw(t, "text")
		}
	})
	seed.Check(t, func(t *rapid.T) {
		in := value.Draw(t, "value")
		text, err := json.Marshal(in)
		check.NoError(t, err)
		got, want := cost(text), worth(in)
		check.Must(t, got == want, "cost(%s) = %d, want %d", text, got, want)
	})
	for _, broken := range []string{`}`, `]]`, `"`, `"\`, `[{"`, ``} {
		cost([]byte(broken)) // must end
	}
}

// worth is the cost of a value: one for each member and bracket, 16 more for what
// is a structure in a list.
func worth(value any) int {
	switch v := value.(type) {
	case []any:
		units := 1 + max(0, len(v)-1)
		for _, member := range v {
			switch member.(type) {
			case nil, []any, map[string]any:
				units += 16
			}
			units += worth(member)
		}
		return units
	case map[string]any:
		units := 1 + max(0, len(v)-1)
		for _, member := range v {
			units += worth(member)
		}
		return units
	}
	return 0
}

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
		"a hundred tasks":    {`{"spec":{"tasks":[` + strings.TrimSuffix(strings.Repeat(task+",", 100), ",") + `]}}`, false},
		"the largest text":   {`{"metadata":{"annotations":{"a":"` + strings.Repeat("{},", 1<<20) + `"}}}`, false},
		"tasks of nothing":   {`{"spec":{"tasks":[` + strings.Repeat(`{},`, 100_000) + `{}]}}`, true},
		"tasks that are not": {`{"spec":{"tasks":[` + strings.Repeat(`null,`, 100_000) + `null]}}`, true},
		"annotations":        {`{"metadata":{"annotations":{` + strings.Repeat(`"":"",`, 1_000_000) + `"":""}}}`, true},
	} {
		got := cost([]byte(tc.text))
		check.That(t, got > mostCost == tc.over, "%s: %d bytes cost %d of %d", name, len(tc.text), got, mostCost)
	}
}

// TestFewAreJudgedAtATime: the others wait, and go when the API server does.
func TestFewAreJudgedAtATime(t *testing.T) {
	var now, most atomic.Int32
	inside, leave := make(chan struct{}, 100), make(chan struct{})
	l := newLane()
	handle := l.judging(func(context.Context, admission.Request) admission.Response {
		most.Store(max(most.Load(), now.Add(1)))
		inside <- struct{}{}
		<-leave
		now.Add(-1)
		return admission.Allowed("judged")
	}, unread)
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() { handle(t.Context(), admission.Request{}) })
	}
	for range mostTurns {
		<-inside
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	answer := handle(ctx, admission.Request{})
	check.That(t, answer.Allowed && len(answer.Warnings) == 1, "who does not wait is answered %+v", answer)
	close(leave)
	all.Wait()
	got := most.Load()
	check.That(t, got <= mostTurns, "%d were judged at a time, want at most %d", got, mostTurns)
	answer = handle(ctx, admission.Request{})
	check.That(t, answer.Result.Message != "judged", "was judged though nobody waits")
}

// TestLargeRequestsWaitBeforeTheyAreRead, and no longer than the API server does.
func TestLargeRequestsWaitBeforeTheyAreRead(t *testing.T) {
	l := newLane()
	var read atomic.Int32
	waits := make(chan time.Duration, 10)
	server := httptest.NewServer(l.bounded(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if deadline, ok := r.Context().Deadline(); ok {
			waits <- time.Until(deadline)
		}
		n, _ := io.Copy(io.Discard, r.Body)
		read.Add(int32(n)) //nolint:gosec // some KiB
	})))
	defer server.Close()
	post := func(size int, timeout string) int {
		t.Helper()
		response, err := http.Post(server.URL+"/?timeout="+timeout, "application/json", bytes.NewReader(make([]byte, size)))
		check.NoError(t, err)
		_ = response.Body.Close()
		return response.StatusCode
	}
	for timeout, most := range map[string]time.Duration{"2s": 2 * time.Second, "5s": 5 * time.Second, "": defaultWait, "1000h": defaultWait, "-1s": defaultWait} {
		check.Equal(t, fmt.Sprintf("timeout %q: not served", timeout), http.StatusOK, post(largeBody, timeout))
		got := <-waits
		check.That(t, got <= most && got >= most/2, "timeout %q: waits for %s, want a little less than %s", timeout, got, most)
	}
	for range mostLarge {
		l.large.take(t.Context())
	}
	read.Store(0)
	if code := post(largeBody, "50ms"); code != http.StatusServiceUnavailable || read.Load() != 0 {
		t.Errorf("one too many is answered %d, and %d bytes are read", code, read.Load())
	}
	check.Equal(t, "a small one waits for large ones", http.StatusOK, post(largeBody-1, "2s"))
}

// BenchmarkCost is of the largest request.
func BenchmarkCost(b *testing.B) {
	text := []byte(fmt.Sprintf(`{"a":%q}`, strings.Repeat(`xxxxxxx"`, 400<<10)))
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		cost(text)
	}
}
