package cardseconds

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
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

// fakeStore is an API server with the 64 ConfigMaps of card-seconds.
type fakeStore struct {
	objects [cardseconds.Parts + cardseconds.Slots]object
	writes  int
	fails   error
	// refused are objects that cannot be written.
	refused map[int]error
	// unreadable are objects that cannot be read.
	unreadable map[int]error
	// losesAnswers makes each write succeed, but return an error.
	losesAnswers bool
	// writesLeft is after how many writes all fail, 0 for never.
	writesLeft int
}

func (s *fakeStore) read(ctx context.Context, i int) (object, error) {
	read := s.objects[i]
	read.entries = maps.Clone(read.entries)
	return read, cmp.Or(ctx.Err(), s.fails, s.unreadable[i]) // as a client of the API server, not after its context
}

func (s *fakeStore) write(ctx context.Context, i int, version string, c change) (string, error) {
	if err := cmp.Or(ctx.Err(), s.fails, s.refused[i]); err != nil {
		return "", err
	}
	o := &s.objects[i]
	if version != o.version {
		return "", apierrors.NewConflict(schema.GroupResource{Resource: "configmaps"}, cardseconds.ConfigMapName(i), errors.New("another version"))
	}

	s.writesLeft--
	if s.writesLeft == 0 {
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

// scene is a fake store and the replica that leads.
type scene struct {
	*testing.T
	store *fakeStore
	at    time.Time
	k     *Keeper

	replicas int
	// usages are what pods use by each count, with the time since when.
	usages []cardseconds.PodUsage
	zone   *time.Location
}

// newScene has an empty store at 9 o'clock on 23 November 2026. A new sum is served at once: zeroTime is 0.
func newScene(t *testing.T) *scene {
	usual := zeroTime
	zeroTime = 0
	t.Cleanup(func() { zeroTime = usual })
	s := &scene{T: t, store: &fakeStore{refused: map[int]error{}}, at: time.Date(2026, 11, 23, 9, 0, 0, 0, time.UTC)}
	s.restart()
	return s
}

// restart lets another replica lead, which has neither loaded sums nor counted pods.
func (s *scene) restart() {
	s.replicas++
	s.k = &Keeper{store: s.store, log: testr.New(s.T), now: func() time.Time { return s.at }, identity: fmt.Sprint("replica-", s.replicas)}
}

// training is the sum to which the pods of these tests add.
var training = cardseconds.Series{Tenant: "lab", Project: "llm", Queue: "q", Card: "A", ServiceType: "training"}

// newSceneAt has a leader that counted at a time that one pod uses a card.
func newSceneAt(t *testing.T, at time.Time) *scene {
	s := newScene(t)
	s.at = at
	s.use(1)
	return s
}

// use is a count of the pods by the leader: they use so many cards.
func (s *scene) use(count card.Count) {
	s.k.setCounts(map[cardseconds.Series]card.Count{training: count}, func() []cardseconds.PodUsage { return s.usages }, s.zone)
}

// useSince lets one pod use cards since a time.
func (s *scene) useSince(count card.Count, since time.Time) {
	s.usages = []cardseconds.PodUsage{{Series: training, Count: count, Since: since}}
	s.use(count)
}

// expectServed stores the sums, and compares the card-seconds that the metric serves; -1 is no series.
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

// TestCardSecondsAreKeptOverRestarts: the sums are stored, so another leader goes on with them. 2 cards for 30 seconds
// are 60. The replica dies 10 seconds after its last store, and those are lost, since no pod states since when it uses
// its cards. The next one counts 3 cards for 10 seconds. Each check stores the sums, and then reads the metric: -1
// means that it has no series.
func TestCardSecondsAreKeptOverRestarts(t *testing.T) {
	s := newScene(t)
	s.expectServed("before the first count", -1)
	s.use(2)
	s.expectServedAfter(30*time.Second, "after 30 seconds", 60)

	s.restartAfter(10 * time.Second)
	s.expectServed("of the next replica before it has counted", 60)
	s.use(3)
	s.expectServedAfter(10*time.Second, "of the next replica after 10 seconds", 90)
}

// TestNothingIsServedThatIsNotStored: a bill from the metric must not fall when another replica leads, so the metric
// serves what is stored. One card adds 60 a minute. While the API server fails the sum stays, and a new leader that
// cannot read the stored sums serves none. Nothing is lost: after 3 minutes there are 180. Each check stores the sums,
// and then reads the metric: -1 means that it has no series.
func TestNothingIsServedThatIsNotStored(t *testing.T) {
	s := newScene(t)
	s.use(1)
	s.expectServedAfter(time.Minute, "after a minute", 60)

	s.store.fails = errors.New("no API server")
	s.expectServedAfter(time.Minute, "while sums cannot be stored", 60)
	s.store.fails = nil
	s.expectServed("when they are stored", 120)

	s.store.fails = errors.New("no API server")
	s.restart()
	s.use(1)
	s.expectServedAfter(time.Minute, "while a new leader cannot read the sums", -1)
	s.store.fails = nil
	s.expectServed("when it has read them", 180)
}

// TestSumsAreServedAtZeroFirst: Prometheus counts no increase for the value with which a series begins, and may scrape
// once a minute. So a new sum is served as 0 for two minutes (zeroTime). 2 cards for 120 seconds are 240. A leader that
// loads a stored sum serves it at once, since its series is not new. The value -1 means that the metric has no series.
func TestSumsAreServedAtZeroFirst(t *testing.T) {
	s := newScene(t)
	zeroTime = 2 * time.Minute
	s.expectServed("before the first count", -1)
	s.use(0)
	check.Equal(t, "series of a queue that uses nothing", 0, len(s.k.counter.shown(s.at)))

	s.use(2)
	for range 4 {
		s.expectServed("in the first two minutes", 0)
		s.at = s.at.Add(29 * time.Second)
		s.use(2)
	}

	s.expectServedAfter(4*time.Second, "after two minutes", 240) // 4 × 29 + 4 seconds
	s.restart()
	s.expectServed("of the next leader, at once", 240)
}

// TestLittleIsWrittenWhileNoCardIsUsed: sums that do not grow are not stored again every 30 seconds. Only the time until
// which they were counted is, every 10 minutes, so an hour has 6 writes.
func TestLittleIsWrittenWhileNoCardIsUsed(t *testing.T) {
	s := newScene(t)
	s.use(1)
	s.expectServedAfter(time.Minute, "after a minute", 60)
	s.use(0)
	s.expectServed("when the pod is gone", 60)
	writes := s.store.writes

	for range 120 { // an hour of half minutes
		s.at = s.at.Add(30 * time.Second)
		s.use(0)
		s.expectServed("while no card is used", 60)
	}

	check.Equal(t, "writes in an hour", 6, s.store.writes-writes)
}

// TestStopStoresOnceMore: when Kubernetes stops a replica, its context ends, and with it all requests that use the
// context. The replica stores its sums once more, so the next one has the 20 seconds since the last store.
func TestStopStoresOnceMore(t *testing.T) {
	s := newScene(t)
	s.use(1)
	s.expectServedAfter(time.Minute, "after a minute", 60)
	s.at = s.at.Add(20 * time.Second)

	ctx, stop := context.WithCancel(t.Context())
	stop()
	check.NoError(t, s.k.Start(ctx))

	s.restart()
	s.expectServed("of the next replica", 60+20)
}

// TestMetricOfCardSecondsIsWellFormed: name and help text of the metric follow the rules of Prometheus. One
// card is used for a second.
func TestMetricOfCardSecondsIsWellFormed(t *testing.T) {
	s := newScene(t)
	s.use(1)
	s.expectServedAfter(time.Second, "after a second", 1)
	check.Equal(t, "problems that Prometheus' linter finds", nil, check.Value(testutil.CollectAndLint(s.k))(t))
}

// TestOnePartThatCannotBeWrittenStopsNoOther: tenants a and b have 10 card-seconds each, in two ConfigMaps. An
// administrator made the ConfigMap of tenant a immutable. Both use a card for an hour, and the sum of b grows
// meanwhile. The leader adds nothing for the first minute, before its first count. A gauge says until when all sums are
// stored, for an alert.
func TestOnePartThatCannotBeWrittenStopsNoOther(t *testing.T) {
	s := newScene(t)
	s.storeTwoParts()
	oneEach := map[cardseconds.Series]card.Count{seriesA: 1, seriesB: 1}
	begun := s.at

	s.store.refused[0] = errors.New("ConfigMap is immutable")
	for range 60 {
		s.at = s.at.Add(time.Minute)
		s.k.setCounts(oneEach, noPodUsages, nil)
		check.Says(t, s.k.storeSums(t.Context()), "immutable")
	}

	check.Equal(t, "served of a", 10.0, s.served(seriesA))
	check.Equal(t, "served of b", 10+59*60.0, s.served(seriesB))
	check.Equal(t, "stored until", float64(begun.Unix()), s.gauge("cardquota_card_seconds_stored_timestamp_seconds"))

	delete(s.store.refused, 0)
	check.NoError(t, s.k.storeSums(t.Context()))
	check.Equal(t, "served of a when it can be written", 10+59*60.0, s.served(seriesA))
	check.Equal(t, "stored until then", float64(s.at.Unix()), s.gauge("cardquota_card_seconds_stored_timestamp_seconds"))
}

// TestALeaderThatEndsBetweenTwoPartsLosesNoGap: tenants a and b have 10 card-seconds each, in two ConfigMaps. No
// leader counts for five hours, in which a pod of each uses a card. A new leader credits those hours, stores the part
// of a, and dies. The next one, 20 seconds later, credits both tenants with all that is missing, and nothing twice.
func TestALeaderThatEndsBetweenTwoPartsLosesNoGap(t *testing.T) {
	s := newScene(t)
	s.storeTwoParts()
	since := s.at.Add(-time.Hour)
	both := map[cardseconds.Series]card.Count{seriesA: 1, seriesB: 1}
	usages := func() []cardseconds.PodUsage {
		return []cardseconds.PodUsage{{Series: seriesA, Count: 1, Since: since}, {Series: seriesB, Count: 1, Since: since}}
	}

	s.restartAfter(5 * time.Hour)
	s.store.writesLeft = cardseconds.Parts + 1 // each part gets the name of the new leader, and then part 0 its sums
	s.k.setCounts(both, usages, nil)
	check.Says(t, s.k.storeSums(t.Context()), "killed")

	s.store.fails = nil
	s.restartAfter(20 * time.Second)
	s.k.setCounts(both, usages, nil)

	check.NoError(t, s.k.storeSums(t.Context()))
	for _, series := range []cardseconds.Series{seriesA, seriesB} {
		check.Equal(t, "served of "+series.Queue, 10+5*3600+20.0, s.served(series))
	}
}

var (
	seriesA = cardseconds.Series{Tenant: "a", Queue: "a", Card: "A", ServiceType: "training"}
	seriesB = cardseconds.Series{Tenant: "b", Queue: "b", Card: "A", ServiceType: "training"}
)

func noPodUsages() []cardseconds.PodUsage { return nil }

// storeTwoParts stores 10 card-seconds of tenants a and b, in parts 0 and 1.
func (s *scene) storeTwoParts() {
	for i, tenant := range []string{"a", "b"} {
		header := fmt.Sprintf(`{"countedUntil":%q,"timeZone":"UTC","since":"2026-11-01T00:00:00Z"}`, s.at.Format(time.RFC3339))
		row := fmt.Sprintf(`{"queue":%[1]q,"tenant":%[1]q,"type":"training","card":"A","cardSeconds":10,"at":%[2]d}`, tenant, s.at.Unix())
		s.store.objects[i] = object{version: "1", text: header + "\n" + row + "\n"}
	}
	s.store.writes = 100
}

// gauge returns the value of a gauge, -1 if there is none.
func (s *scene) gauge(name string) float64 {
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(s.k)
	for _, family := range check.Value(registry.Gather())(s.T) {
		if family.GetName() == name {
			return family.GetMetric()[0].GetGauge().GetValue()
		}
	}
	return -1
}
