package cardseconds

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/go-logr/logr/testr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/cardseconds"
	"cardquota.dev/operator/internal/testing/check"
)

// fakeStore is what the API server has.
type fakeStore struct {
	parts  [cardseconds.Parts]part
	writes int
	fails  error
	// losesAnswers makes each write, and fails all the same.
	losesAnswers bool
}

func (s *fakeStore) read(_ context.Context, i int) (part, error) { return s.parts[i], s.fails }

func (s *fakeStore) write(_ context.Context, i int, p part) (string, error) {
	if s.fails != nil {
		return "", s.fails
	}
	if p.version != s.parts[i].version {
		return "", apierrors.NewConflict(schema.GroupResource{Resource: "configmaps"}, configMapName(i), errors.New("another version"))
	}
	s.writes++
	p.version = fmt.Sprint(s.writes)
	s.parts[i] = p
	if s.losesAnswers {
		return "", errors.New("no answer")
	}
	return p.version, nil
}

type scene struct {
	*testing.T
	store *fakeStore
	at    time.Time
	k     *Keeper

	replicas int
	// holdings are what pods hold by each count.
	holdings []cardseconds.Holding
}

func newScene(t *testing.T) *scene {
	t.Helper()
	s := &scene{T: t, store: &fakeStore{}, at: time.Date(2026, 11, 23, 9, 0, 0, 0, time.UTC)}
	s.restart()
	return s
}

// restart starts another replica.
func (s *scene) restart() {
	s.replicas++
	s.k = &Keeper{store: s.store, log: testr.New(s.T), now: func() time.Time { return s.at }, identity: fmt.Sprint("replica-", s.replicas)}
}

var training = cardseconds.Series{Tenant: "lab", Project: "llm", Queue: "q", Card: "A", ServiceType: "training"}

func (s *scene) use(count card.Count) {
	s.k.setCounts(map[cardseconds.Series]card.Count{training: count}, func() []cardseconds.Holding { return s.holdings })
}

// useSince lets one pod hold cards since a time.
func (s *scene) useSince(count card.Count, since time.Time) {
	s.holdings = []cardseconds.Holding{{Series: training, Count: count, Since: since}}
	s.use(count)
}

// expectServed stores, and compares the metric; -1 is no series.
func (s *scene) expectServed(when string, want float64) {
	s.Helper()
	_ = s.k.storeSums(s.Context())
	got := -1.0
	if testutil.CollectAndCount(s.k) > 0 {
		got = testutil.ToFloat64(s.k)
	}
	check.Equal(s.T, "card-seconds "+when, want, got)
}

func TestCardSecondsAreKeptOverRestarts(t *testing.T) {
	s := newScene(t)
	s.expectServed("before the first count", -1)
	s.use(2)
	s.at = s.at.Add(30 * time.Second)
	s.expectServed("after half a minute", 60)
	s.at = s.at.Add(10 * time.Second) // these are lost: the replica dies
	s.restart()
	s.expectServed("of the next replica before it has counted", 60)
	s.use(3)
	s.at = s.at.Add(10 * time.Second)
	s.expectServed("of the next replica", 90)
}

func TestNothingIsServedThatIsNotStored(t *testing.T) {
	s := newScene(t)
	s.use(1)
	s.at = s.at.Add(time.Minute)
	s.expectServed("after a minute", 60)
	s.at = s.at.Add(time.Minute)
	s.store.fails = errors.New("no API server")
	s.expectServed("while they cannot be stored", 60)
	s.store.fails = nil
	s.expectServed("when they can", 120)
	s.store.fails = errors.New("no API server")
	s.restart()
	s.use(1)
	s.at = s.at.Add(time.Minute)
	s.expectServed("while those of the last replica cannot be read", -1)
	s.store.fails = nil
	s.expectServed("when they can", 180)
}

// TestSumsBeginAtZero: Prometheus counts no increase for the value with which a series begins.
func TestSumsBeginAtZero(t *testing.T) {
	s := newScene(t)
	s.expectServed("before the first count", -1)
	s.use(0)
	check.Equal(t, "series of a queue that uses nothing", 0, testutil.CollectAndCount(s.k))
	s.use(2)
	s.at = s.at.Add(20 * time.Second)
	check.Equal(t, "card-seconds before the first write", 0.0, testutil.ToFloat64(s.k))
	s.expectServed("after it", 40)
	s.use(3)
	check.Equal(t, "card-seconds after another count", 40.0, testutil.ToFloat64(s.k))
}

func TestNothingIsWrittenAtRest(t *testing.T) {
	s := newScene(t)
	s.use(1)
	s.at = s.at.Add(time.Minute)
	s.expectServed("after a minute", 60)
	s.use(0)
	s.expectServed("at rest", 60)
	writes := s.store.writes
	s.at = s.at.Add(time.Hour)
	s.expectServed("an hour later", 60)
	check.Equal(t, "writes at rest", writes, s.store.writes)
}

func TestStopStoresOnceMore(t *testing.T) {
	s := newScene(t)
	s.use(1)
	s.at = s.at.Add(20 * time.Second)
	ctx, stop := context.WithCancel(t.Context())
	stop()
	check.NoError(t, s.k.Start(ctx))
	s.restart()
	s.expectServed("after a stop", 20)
}

func TestMetricIsWellFormed(t *testing.T) {
	s := newScene(t)
	s.use(1)
	s.at = s.at.Add(time.Second)
	s.expectServed("after a second", 1)
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(s.k)
	problems, err := testutil.GatherAndLint(registry)
	check.That(t, err == nil && len(problems) == 0, "%v %v", problems, err)
}
