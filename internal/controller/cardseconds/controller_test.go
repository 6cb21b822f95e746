package cardseconds

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
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
	objects [cardseconds.Parts + cardseconds.Slots]object
	writes  int
	fails   error
	// refused are objects that cannot be written.
	refused map[int]error
	// unreadable are objects that cannot be read.
	unreadable map[int]error
	// losesAnswers makes each write, and fails all the same.
	losesAnswers bool
	// left is after how many writes all fail, 0 for never.
	left int
}

func (s *fakeStore) read(_ context.Context, i int) (object, error) {
	read := s.objects[i]
	read.entries = maps.Clone(read.entries)
	return read, cmp.Or(s.fails, s.unreadable[i])
}

func (s *fakeStore) write(_ context.Context, i int, version string, c change) (string, error) {
	if err := cmp.Or(s.fails, s.refused[i]); err != nil {
		return "", err
	}
	o := &s.objects[i]
	if version != o.version {
		return "", apierrors.NewConflict(schema.GroupResource{Resource: "configmaps"}, cardseconds.ConfigMapName(i), errors.New("another version"))
	}

	s.left--
	if s.left == 0 {
		s.fails = errors.New("killed")
	}

	s.writes++
	o.version = fmt.Sprint(s.writes)
	if c.text != nil {
		o.text = *c.text
		o.writer = *c.writer
	}

	for key, packed := range c.entries {
		if o.entries == nil {
			o.entries = map[string][]byte{}
		}
		o.entries[key] = packed
		if packed == nil {
			delete(o.entries, key)
		}
	}

	if s.losesAnswers {
		return "", errors.New("no answer")
	}

	return o.version, nil
}

type scene struct {
	*testing.T
	store *fakeStore
	at    time.Time
	k     *Keeper

	replicas int
	// holdings are what pods hold by each count.
	holdings []cardseconds.Holding
	zone     *time.Location
}

func newScene(t *testing.T) *scene {
	usual := zeroTime
	zeroTime = 0 // but in its own test
	t.Cleanup(func() { zeroTime = usual })
	s := &scene{T: t, store: &fakeStore{refused: map[int]error{}}, at: time.Date(2026, 11, 23, 9, 0, 0, 0, time.UTC)}
	s.restart()
	return s
}

// restart starts another replica.
func (s *scene) restart() {
	s.replicas++
	s.k = &Keeper{store: s.store, log: testr.New(s.T), now: func() time.Time { return s.at }, identity: fmt.Sprint("replica-", s.replicas)}
}

var training = cardseconds.Series{Tenant: "lab", Project: "llm", Queue: "q", Card: "A", ServiceType: "training"}

// newSceneAt has a pod that holds a card since a time.
func newSceneAt(t *testing.T, at time.Time) *scene {
	s := newScene(t)
	s.at = at
	s.use(1)
	return s
}

func (s *scene) use(count card.Count) {
	s.k.setCounts(map[cardseconds.Series]card.Count{training: count}, func() []cardseconds.Holding { return s.holdings }, s.zone)
}

// useSince lets one pod hold cards since a time.
func (s *scene) useSince(count card.Count, since time.Time) {
	s.holdings = []cardseconds.Holding{{Series: training, Count: count, Since: since}}
	s.use(count)
}

// expectServed stores, and compares the metric; -1 is no series.
func (s *scene) expectServed(when string, want float64) {
	_ = s.k.storeSums(s.Context())
	check.Equal(s.T, "card-seconds "+when, want, s.served(training))
}

// expectServedAfter is expectServed some time later.
func (s *scene) expectServedAfter(passed time.Duration, when string, want float64) {
	s.at = s.at.Add(passed)
	s.expectServed(when, want)
}

// storeAfter stores some time later.
func (s *scene) storeAfter(passed time.Duration) {
	s.at = s.at.Add(passed)
	check.NoError(s.T, s.k.storeSums(s.Context()))
}

// restartAfter starts another replica some time later.
func (s *scene) restartAfter(passed time.Duration) {
	s.at = s.at.Add(passed)
	s.restart()
}

func TestCardSecondsAreKeptOverRestarts(t *testing.T) {
	s := newScene(t)
	s.expectServed("before the first count", -1)
	s.use(2)
	s.expectServedAfter(30*time.Second, "after half a minute", 60)
	s.restartAfter(10 * time.Second) // which are lost: the replica dies
	s.expectServed("of the next replica before it has counted", 60)
	s.use(3)
	s.expectServedAfter(10*time.Second, "of the next replica", 90)
}

func TestNothingIsServedThatIsNotStored(t *testing.T) {
	s := newScene(t)
	s.use(1)
	s.expectServedAfter(time.Minute, "after a minute", 60)
	s.at = s.at.Add(time.Minute)
	s.store.fails = errors.New("no API server")

	s.expectServed("while they cannot be stored", 60)
	s.store.fails = nil
	s.expectServed("when they can", 120)
	s.store.fails = errors.New("no API server")

	s.restart()
	s.use(1)
	s.expectServedAfter(time.Minute, "while those of the last replica cannot be read", -1)
	s.store.fails = nil
	s.expectServed("when they can", 180)
}

// TestSumsAreServedAtZeroFirst: Prometheus counts no increase for the value with which a series begins, and may
// scrape once a minute.
func TestSumsAreServedAtZeroFirst(t *testing.T) {
	s := newScene(t)
	zeroTime = 2 * time.Minute
	s.expectServed("before the first count", -1)
	s.use(0)
	check.Equal(t, "series of a queue that uses nothing", 0, len(s.k.counter.served(s.at)))

	s.use(2)
	for range 4 {
		s.expectServed("in the first two minutes", 0)
		s.at = s.at.Add(29 * time.Second)
		s.use(2)
	}

	s.expectServedAfter(4*time.Second, "then", 240)
	s.restart()
	s.expectServed("of the next leader, at once", 240)
}

// TestAtRestLittleIsWritten: only until when sums were counted.
func TestAtRestLittleIsWritten(t *testing.T) {
	s := newScene(t)
	s.use(1)
	s.expectServedAfter(time.Minute, "after a minute", 60)
	s.use(0)
	s.expectServed("at rest", 60)
	writes := s.store.writes

	for range 120 {
		s.at = s.at.Add(30 * time.Second)
		s.use(0)
		s.expectServed("at rest", 60)
	}

	check.Equal(t, "writes in an hour at rest", 6, s.store.writes-writes)
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
	s.expectServedAfter(time.Second, "after a second", 1)
	check.Equal(t, "problems", nil, check.Value(testutil.CollectAndLint(s.k))(t))
}

// TestOnePartThatCannotBeWrittenStopsNoOther: an administrator made its ConfigMap immutable. The metric says until
// when all sums are stored.
func TestOnePartThatCannotBeWrittenStopsNoOther(t *testing.T) {
	s := newScene(t)
	s.twoParts()
	both := map[cardseconds.Series]card.Count{seriesA: 1, seriesB: 1}
	begun := s.at

	s.store.refused[0] = errors.New("ConfigMap is immutable")
	for range 60 {
		s.at = s.at.Add(time.Minute)
		s.k.setCounts(both, noHoldings, nil)
		err := s.k.storeSums(t.Context())
		check.That(t, err != nil && strings.Contains(err.Error(), "immutable"), "error %v", err)
	}

	check.Equal(t, "served of a", 10.0, s.served(seriesA))
	check.Equal(t, "served of b", 10+59*60.0, s.served(seriesB))
	check.Equal(t, "stored until", float64(begun.Unix()), s.gauge("cardquota_card_seconds_stored_timestamp_seconds"))

	delete(s.store.refused, 0)
	check.NoError(t, s.k.storeSums(t.Context()))
	check.Equal(t, "served of a when it can be written", 10+59*60.0, s.served(seriesA))
	check.Equal(t, "stored until then", float64(s.at.Unix()), s.gauge("cardquota_card_seconds_stored_timestamp_seconds"))
}

// TestALeaderThatEndsBetweenTwoPartsLosesNoGap: two sums are stored in two ConfigMaps, and no leader counts for
// five hours. The next one ends after the first of them.
func TestALeaderThatEndsBetweenTwoPartsLosesNoGap(t *testing.T) {
	s := newScene(t)
	s.twoParts()
	begun := s.at
	both := map[cardseconds.Series]card.Count{seriesA: 1, seriesB: 1}
	holdings := func() []cardseconds.Holding {
		return []cardseconds.Holding{{Series: seriesA, Count: 1, Since: begun.Add(-time.Hour)}, {Series: seriesB, Count: 1, Since: begun.Add(-time.Hour)}}
	}

	s.restartAfter(5 * time.Hour)
	s.store.left = cardseconds.Parts + 1 // the claims, and part 0
	s.k.setCounts(both, holdings, nil)
	check.That(t, s.k.storeSums(t.Context()) != nil, "it did not end")

	s.store.fails = nil
	s.restartAfter(20 * time.Second)
	s.k.setCounts(both, holdings, nil)

	check.NoError(t, s.k.storeSums(t.Context()))
	for _, series := range []cardseconds.Series{seriesA, seriesB} {
		check.Equal(t, "served of "+series.Queue, 10+5*3600+20.0, s.served(series))
	}
}

var (
	seriesA = cardseconds.Series{Tenant: "a", Queue: "a", Card: "A", ServiceType: "training"}
	seriesB = cardseconds.Series{Tenant: "b", Queue: "b", Card: "A", ServiceType: "training"}
)

func noHoldings() []cardseconds.Holding { return nil }

// twoParts stores 10 card-seconds of each of two tenants, in two parts.
func (s *scene) twoParts() {
	for i, tenant := range []string{"a", "b"} {
		header := fmt.Sprintf(`{"countedUntil":%q,"timeZone":"UTC","since":"2026-11-01T00:00:00Z"}`, s.at.Format(time.RFC3339))
		row := fmt.Sprintf(`{"queue":%[1]q,"tenant":%[1]q,"type":"training","card":"A","cardSeconds":10,"at":%[2]d}`, tenant, s.at.Unix())
		s.store.objects[i] = object{version: "1", text: header + "\n" + row + "\n"}
	}
	s.store.writes = 100
}

// gauge returns the value of a gauge.
func (s *scene) gauge(name string) float64 {
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(s.k)
	families := check.Value(registry.Gather())(s.T)
	for _, family := range families {
		if family.GetName() == name {
			return family.GetMetric()[0].GetGauge().GetValue()
		}
	}
	return -1
}
