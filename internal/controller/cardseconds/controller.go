// Package cardseconds keeps the card-seconds that pods have used, by day and month, over restarts and changes
// of the leader, and serves them as a metric.
//
// It only reads and writes ConfigMaps. internal/cardseconds sums up.
package cardseconds

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/util/uuid"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"cardquota.dev/operator/internal/build"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/cardseconds"
	shared "cardquota.dev/operator/internal/controller"
)

// storeInterval is how often the leader stores the sums. If it dies, as much time is lost for the pods that end before
// another replica leads: the next leader adds what was not counted only for pods that still run.
var storeInterval = build.Wait(30 * time.Second)

// atRest is how often a part is stored whose sums do not grow, so that a new leader knows until when they were
// counted.
const atRest = 10 * time.Minute

// stopTimeout bounds the last write of a replica that stops.
const stopTimeout = 5 * time.Second

// CountSource provides the cards in use by the last count, nil before the first one, what each pod uses,
// the time zone in which days are cut, and signals counts.
type CountSource interface {
	CardsInUse() map[cardseconds.Series]card.Count
	PodUsages() []cardseconds.PodUsage
	TimeZone() *time.Location
	OnCount(counted func())
}

// Options configure the controller.
type Options struct {
	// Namespace is that of the ConfigMaps.
	Namespace string
	// Counts provides the cards in use.
	Counts CountSource
	// Metrics takes the controller's metrics.
	Metrics metrics.RegistererGatherer
}

// Keeper stores the sums: those that still grow in running parts, one ConfigMap each, and those of days and months that
// are over as entries of the archive, whose ConfigMaps are slots.
type Keeper struct {
	store objectStore
	log   logr.Logger
	now   func() time.Time
	// namespace is that of the ConfigMaps. identity is different in every process.
	namespace, identity string

	mu        sync.Mutex
	meter     cardseconds.Meter
	uncounted uncounted
	counter   counter
	// storedUntil is until when the sums of each part are counted that are stored. hasRows reports which
	// parts have sums.
	storedUntil [cardseconds.Parts]time.Time
	hasRows     [cardseconds.Parts]bool
	unstored    unstoredCounts
	// monthlyUse is the use of all queues not long ago. lacksStored reports that some stored sums could not be
	// read, so that it would lack them.
	monthlyUse  *cardseconds.MonthlyUse
	lacksStored bool
	refusals    refusals

	// Only the goroutine that stores sums uses these, or changes them.
	isLoaded bool
	parts    [cardseconds.Parts]runningPart
	archive  archive
	// daysDropped is the last day that stored parts call dropped.
	daysDropped cardseconds.Period
}

// unstoredCounts are what no ConfigMap has room for.
type unstoredCounts struct {
	// sums have no part, months no slot.
	sums, months int
	// daysDropped is the last day that was dropped lately before its time, "" if none was.
	daysDropped cardseconds.Period
}

// Setup adds a Keeper to a manager, which starts it in the leader.
func Setup(mgr ctrl.Manager, options Options) (*Keeper, error) {
	k := &Keeper{
		store: &configMaps{client: mgr.GetClient(), live: mgr.GetAPIReader(), namespace: options.Namespace},
		log:   mgr.GetLogger().WithName("cardseconds"),
		now:   time.Now,

		namespace: options.Namespace,
	}

	// The identity says who wrote a ConfigMap last. A container that restarts keeps its host name, so a UUID
	// follows.
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("host name: %w", err)
	}

	k.identity = host + "_" + string(uuid.NewUUID())
	options.Counts.OnCount(func() {
		k.setCounts(options.Counts.CardsInUse(), options.Counts.PodUsages, options.Counts.TimeZone())
	})

	if err := options.Metrics.Register(k); err != nil {
		return nil, fmt.Errorf("register metrics: %w", err)
	}
	if err := mgr.Add(k); err != nil {
		return nil, fmt.Errorf("add keeper of card-seconds: %w", err)
	}

	return k, nil
}

// setCounts takes over a count: the earlier cards were in use until now, and these are from now on. From its first count
// a new leader takes which pods it bills for the time in which no replica counted. counter is what the metric shows.
func (k *Keeper) setCounts(inUse map[cardseconds.Series]card.Count, usages func() []cardseconds.PodUsage, zone *time.Location) {
	if inUse == nil {
		return // nothing was counted yet
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.now()
	k.meter.Advance(now)
	k.meter.SetZone(zone)
	k.meter.SetCounts(now, inUse)
	k.uncounted.setPodUsages(usages)
	k.counter.begin(inUse, now)
}

// Start implements manager.Runnable. It stores the sums every storeInterval until the context ends, and once
// more then.
func (k *Keeper) Start(ctx context.Context) error {
	ticker := time.NewTicker(storeInterval)
	defer ticker.Stop()

	for {
		if err := k.storeSums(ctx); err != nil && ctx.Err() == nil {
			k.log.Error(err, "Some card-seconds are not stored, and their metric stands still until they are")
		}

		select {
		case <-ticker.C:
			continue
		case <-ctx.Done():
		}

		// Calls with the context that has ended would fail at once, so the last write gets one of its own.
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
		defer cancel()

		if err := k.storeSums(last); err != nil {
			k.log.Error(err, "The last card-seconds are lost")
		}

		return nil
	}
}

// storeSums loads the sums of earlier replicas once, then writes the running parts that changed, and archives
// the days and months that are over. A write that fails does not stop the others. But without loading it
// writes nothing, because a write replaces the whole part.
func (k *Keeper) storeSums(ctx context.Context) error {
	if err := k.loadOnce(ctx); err != nil {
		return err
	}

	parts := k.advance()
	var failures []error
	for i := range parts {
		failures = append(failures, k.writePart(ctx, i, &parts[i]))
		if !k.isLoaded { // writePart found that another replica leads, and dropped all sums
			return errors.Join(failures...)
		}
	}

	// Periods close after their parts are stored: a new leader that finds no entry then finds all sums in the
	// part.
	archiveErr := errors.Join(k.closePeriods(ctx), k.archive.dropDays(ctx, k, k.daysDropped))
	if archiveErr == nil { // each entry is in some slot, so no refusal by another slot matters any more
		k.mu.Lock()
		k.refusals.forgetSlots()
		k.mu.Unlock()
	}

	return errors.Join(append(failures, archiveErr)...)
}

// advance sums up until now, gives new sums a running part, and returns all parts as they should be stored.
// It records what has no room, for the metrics and the status of the CardInventory.
func (k *Keeper) advance() [cardseconds.Parts]cardseconds.Part {
	k.mu.Lock()
	defer k.mu.Unlock()

	now := k.now()
	k.meter.Advance(now)
	k.uncounted.addTo(&k.meter)       // a new leader bills the time in which no replica counted
	k.unstored.sums = k.meter.Place() // how many found no part with room
	k.unstored.daysDropped = k.meter.LastDayDroppedForRoom()
	if k.unstored.sums > 0 {
		k.log.Info("The ConfigMaps of card-seconds are full: the sums without room would be lost at the next restart, all others are stored",
			"configMaps", cardseconds.Parts, "sumsWithoutRoom", k.unstored.sums)
	}

	parts := k.meter.Texts()
	for i := range parts {
		k.hasRows[i] = parts[i].Rows != ""
		// storedUntil is zero for a part that gets its first sum. It counts from now: the metric shows the
		// earliest time of all parts, and zero would be earliest.
		if k.hasRows[i] && k.storedUntil[i].IsZero() {
			k.storedUntil[i] = now
		}
	}

	return parts
}

// closePeriods writes an entry of each part for each day and month that is over, and records how many months
// have no room. It lets the meter record which days are to be dropped: the oldest for lack of room, and those
// that expired.
func (k *Keeper) closePeriods(ctx context.Context) error {
	var failures []error
	withoutRoom := 0
	for _, key := range k.closableEntries() {
		err := k.closePeriod(ctx, key)
		failures = append(failures, err)
		if errors.Is(err, errNoRoom) && !key.Period.IsDay() {
			withoutRoom++
		}
	}

	k.mu.Lock()
	defer k.mu.Unlock()

	k.unstored.months = withoutRoom
	// The meter writes the last expired day into the headers of the parts. Once a header with it is stored,
	// storeSums drops the entries.
	if today := cardseconds.DayOf(k.now().UTC()); k.archive.entries.OldestDay() != "" && k.archive.entries.OldestDay() <= cardseconds.ExpiredDay(today) {
		k.meter.ExpireDays(cardseconds.ExpiredDay(today))
	}

	return errors.Join(failures...)
}

// closableEntries returns the entries that can be written to the archive: for each part the days and months that are
// over and stored.
func (k *Keeper) closableEntries() []cardseconds.EntryKey {
	k.mu.Lock()
	defer k.mu.Unlock()
	var keys []cardseconds.EntryKey
	for i := range k.parts {
		for _, period := range k.meter.ClosablePeriods(i, k.storedUntil[i]) {
			keys = append(keys, cardseconds.EntryKey{Period: period, Part: i})
		}
	}
	return keys
}

// closePeriod writes a day or a month of a part to the archive. If there is no room, the meter records that the oldest
// day is to be dropped: storeSums drops it once a stored part says so. If the archive has no day, a day that finds no
// room is dropped itself, and a month stays in its running part.
func (k *Keeper) closePeriod(ctx context.Context, key cardseconds.EntryKey) error {
	k.mu.Lock()
	packed := k.meter.Entry(key)
	k.mu.Unlock()

	// A day that a stored header calls dropped needs no entry. It only leaves its part.
	var err error
	isDropped := key.Period.IsDay() && key.Period <= k.daysDropped
	if !isDropped {
		err = k.archive.write(ctx, k, key, packed)
	}

	// Nothing held the lock during the write: scrapes and counts would have waited for the API server.
	k.mu.Lock()
	defer k.mu.Unlock()

	switch oldest := k.archive.entries.OldestDay(); {
	case err == nil:
		k.meter.Close(key)
		if !key.Period.IsDay() {
			k.archive.months.addEntry(key, packed)
		}
	case errors.Is(err, errNoRoom) && oldest != "":
		k.meter.DropDaysForRoom(oldest)
	case errors.Is(err, errNoRoom) && key.Period.IsDay():
		k.meter.DropDaysForRoom(key.Period)
	}

	return err
}

// monthlyUseAge is for how long the sums of all queues are kept, because adding them up takes longer the more there
// are.
const monthlyUseAge = time.Minute

// MonthlyUse returns the card-seconds of some queues together in this month and in the one before, at most
// monthlyUseAge old. It is false while sums are missing: before the stored ones are loaded, before the time
// in which no replica counted is added, and if the operator may not read something that is stored.
func (k *Keeper) MonthlyUse(queues ...string) (cardseconds.QueueMonths, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()

	if !k.isLoaded || !k.uncounted.isAdded || k.lacksStored {
		return cardseconds.QueueMonths{}, false
	}

	// Thousands of LocalCardQuotas ask within a second, and adding up visits all sums. So one result serves
	// all of them. Its age is negative after the clock was set back.
	isOld := true
	if k.monthlyUse != nil {
		age := k.meter.CountedUntil().Sub(k.monthlyUse.CountedUntil())
		isOld = age < 0 || age >= monthlyUseAge
	}

	if isOld {
		k.monthlyUse = k.meter.MonthlyUse(k.archive.months.sums)
	}

	return k.monthlyUse.Queues(queues...), true
}

// sums returns the sums of a closed month, those of each entry. A month without entries has none.
func (m *months) sums(month cardseconds.Period) []map[cardseconds.Series]cardseconds.Milli {
	var all []map[cardseconds.Series]cardseconds.Milli
	for _, sums := range (*m)[month] {
		all = append(all, sums)
	}
	return all
}

var (
	secondsDesc = prometheus.NewDesc("cardquota_card_seconds_total",
		"Cards × seconds that pods have held until they ended, by queue, or by namespace for pods without a queue. It is kept over restarts of the operator and changes of the leader. A sum that has not grown for seven days is dropped.",
		[]string{"tenant", "project", "queue", "card", "service_type", "pod_namespace"}, nil)
	storedDesc = prometheus.NewDesc("cardquota_card_seconds_stored_timestamp_seconds",
		"Unix time until which all card-seconds are stored. A ConfigMap that cannot be written holds it back. Absent while there are none.", nil, nil)
	unstoredDesc = prometheus.NewDesc("cardquota_card_seconds_without_room",
		"What the ConfigMaps of card-seconds have no room for: sums, months of a ConfigMap that stay where they are, and 1 for days that were dropped before their time.",
		[]string{"kind"}, nil)
)

// Metrics returns metrics like those that Setup registers, for their descriptions.
func Metrics() []prometheus.Collector { return []prometheus.Collector{&Keeper{now: time.Now}} }

// Describe implements prometheus.Collector.
func (*Keeper) Describe(ch chan<- *prometheus.Desc) {
	ch <- secondsDesc
	ch <- storedDesc
	ch <- unstoredDesc
}

// Collect implements prometheus.Collector. Sums are in thousandths of card-seconds, and the metric in
// card-seconds. Only the leader shows what has no room, because only it stores sums.
func (k *Keeper) Collect(ch chan<- prometheus.Metric) {
	k.mu.Lock()
	shown := k.counter.shown(k.now())
	storedUntil, isStored := k.earliestStored()
	unstored := k.unstored
	isLeader := k.isLoaded
	k.mu.Unlock()

	for s, total := range shown {
		// An invalid label costs that series and not the scrape.
		m, err := prometheus.NewConstMetric(secondsDesc, prometheus.CounterValue, float64(total)/1000, s.Tenant, s.Project, s.Queue, s.Card, s.ServiceType, s.Namespace)
		if err == nil {
			ch <- m
		}
	}

	if isStored {
		ch <- prometheus.MustNewConstMetric(storedDesc, prometheus.GaugeValue, float64(storedUntil.UnixMilli())/1000)
	}

	if isLeader {
		days := shared.BoolGauge(unstored.daysDropped != "") // 1 if any were dropped
		for kind, value := range map[string]float64{"sums": float64(unstored.sums), "months": float64(unstored.months), "days": days} {
			ch <- prometheus.MustNewConstMetric(unstoredDesc, prometheus.GaugeValue, value, kind)
		}
	}
}

// earliestStored returns until when all parts with sums are stored: the time of the one that is furthest behind. It is
// false if none has sums.
func (k *Keeper) earliestStored() (time.Time, bool) {
	var earliest time.Time
	for i, until := range k.storedUntil {
		if k.hasRows[i] && (earliest.IsZero() || until.Before(earliest)) {
			earliest = until
		}
	}
	return earliest, !earliest.IsZero()
}
