package volcanokinds

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"cardquota.dev/operator/internal/testing/check"
)

// server answers as an API server that serves some resources of scheduling.volcano.sh/v1beta1. With a status it answers
// that instead.
type server struct {
	status    atomic.Int32
	resources atomic.Pointer[[]string]
	// asked counts the questions.
	asked atomic.Int32
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.asked.Add(1)
	w.Header().Set("Content-Type", "application/json")
	status := int(s.status.Load())
	if r.URL.Path != "/apis/scheduling.volcano.sh/v1beta1" {
		status = http.StatusTeapot // nothing else is to be asked
	}
	if status != 0 {
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Code: int32(status)}) //nolint:gosec // a status of HTTP
		return
	}

	list := metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: "scheduling.volcano.sh/v1beta1"}
	for _, name := range *s.resources.Load() {
		list.APIResources = append(list.APIResources, metav1.APIResource{Name: name})
	}
	_ = json.NewEncoder(w).Encode(list)
}

// serve makes the server serve these resources.
func (s *server) serve(names ...string) { s.resources.Store(&names) }

// newServer starts a server of these resources, and returns how to reach it.
func newServer(t *testing.T, names ...string) (*server, *rest.Config) {
	s := &server{}
	s.serve(names...)
	at := httptest.NewServer(s)
	t.Cleanup(at.Close)
	return s, &rest.Config{Host: at.URL}
}

// TestEachKindIsMissingByItself: the API server serves Queues and PodGroups, one of them, other kinds of that group, or no
// such group. The last one is an answer of 404.
func TestEachKindIsMissingByItself(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		served []string
		status int
		want   []string
	}{
		"both kinds":            {served: []string{"podgroups", "podgroups/status", "queues"}},
		"only Queues":           {served: []string{"queues", "queues/status"}, want: []string{"PodGroup"}},
		"only PodGroups":        {served: []string{"podgroups"}, want: []string{"Queue"}},
		"only a status":         {served: []string{"queues/status"}, want: []string{"PodGroup", "Queue"}},
		"no group of this name": {status: http.StatusNotFound, want: []string{"PodGroup", "Queue"}},
	}) {
		s, config := newServer(t, tc.served...)
		s.status.Store(int32(tc.status)) //nolint:gosec // a status of HTTP

		check.Equal(t, "missing kinds", tc.want, check.Value(LookUp(t.Context(), config))(t).Missing())
	}
}

// TestAnAPIServerThatDoesNotAnswerIsNoClusterWithoutVolcano: an API server that starts answers 503, and one that refuses this account
// 403. No server listens at the last address. The operator must not take that for a cluster without Volcano, and give up
// its Queues.
func TestAnAPIServerThatDoesNotAnswerIsNoClusterWithoutVolcano(t *testing.T) {
	for _, status := range []int32{http.StatusServiceUnavailable, http.StatusForbidden, http.StatusInternalServerError} {
		s, config := newServer(t)
		s.status.Store(status)
		_, err := LookUp(t.Context(), config)
		check.Says(t, err, "look up Volcano's kinds")
	}

	_, err := LookUp(t.Context(), &rest.Config{Host: "127.0.0.1:1"})
	check.Says(t, err, "look up Volcano's kinds")
}

// TestWatchReportsTheFirstChange: at the start no kind is served. Then the API server does not answer, which is no
// change. At last it serves Queues, and Watch reports that once and ends.
func TestWatchReportsTheFirstChange(t *testing.T) {
	s, config := newServer(t)
	kinds := check.Value(LookUp(t.Context(), config))(t)
	kinds.interval = 5 * time.Millisecond

	changes := make(chan struct{}, 2)
	ended := make(chan struct{})
	go func() {
		kinds.Watch(t.Context(), func() { changes <- struct{}{} })
		close(ended)
	}()

	for _, status := range []int32{0, http.StatusServiceUnavailable} {
		s.status.Store(status)
		for before := s.asked.Load(); s.asked.Load() < before+5; { // also after the answers that were under way
			time.Sleep(time.Millisecond)
		}
		check.Equal(t, "changes", 0, len(changes))
	}

	s.serve("queues")
	s.status.Store(0)
	<-ended
	check.Equal(t, "changes", 1, len(changes))
}

// TestWatchEndsWithTheProgram: the program ends while nothing has changed, so there is nothing to report.
func TestWatchEndsWithTheProgram(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		(&Kinds{interval: time.Minute}).Watch(ctx, func() { t.Error("a change is reported") })
	})
}
