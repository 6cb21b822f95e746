// Package cardseconds keeps the card-seconds that queues have used over restarts and changes of
// the leader, and serves them as a metric.
//
// It only reads and writes ConfigMaps. internal/cardseconds sums up.
package cardseconds

import (
	"context"
	"fmt"
	"maps"
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
	"cardquota.dev/operator/internal/metricspage"
)

// storeInterval is how often the leader stores the sums. A replica that dies loses as much of the pods
// that end before another one leads.
var storeInterval = build.Wait(30 * time.Second)

// stopTimeout bounds the last write of a replica that stops.
const stopTimeout = 5 * time.Second

// CountSource provides the cards in use by the last count, nil before the first one, what each pod holds,
// and signals counts.
type CountSource interface {
	CardsInUse() map[cardseconds.Series]card.Count
	Holdings() []cardseconds.Holding
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

// DefaultOptions are the options of the shipped manager.
func DefaultOptions() Options { return Options{Metrics: metrics.Registry} }

// Keeper keeps the sums. It serves only what is stored: a counter that falls after a restart would
// count as a new start, and everything would be billed again.
type Keeper struct {
	store partStore
	log   logr.Logger
	now   func() time.Time
	// identity is different in every process.
	identity string

	mu    sync.Mutex
	meter cardseconds.Meter
	// stored are the sums of the last complete write, nil before that.
	stored map[cardseconds.Series]float64
	// begun are sums in use that are not in stored. They are served as zero, because Prometheus
	// counts no increase for the value with which a series begins.
	begun map[cardseconds.Series]bool

	gap gap

	// Only the writer uses these.
	isLoaded bool
	parts    [cardseconds.Parts]part
}

// Setup adds a Keeper to a manager. It runs in the leader.
func Setup(mgr ctrl.Manager, options Options) error {
	k := &Keeper{
		store: &configMaps{client: mgr.GetClient(), live: mgr.GetAPIReader(), namespace: options.Namespace},
		log:   mgr.GetLogger().WithName("cardseconds"),
		now:   time.Now,
	}
	host, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("host name: %w", err)
	}
	k.identity = host + "_" + string(uuid.NewUUID())
	options.Counts.OnCount(func() { k.setCounts(options.Counts.CardsInUse(), options.Counts.Holdings) })
	if err := options.Metrics.Register(k); err != nil {
		return fmt.Errorf("register metrics: %w", err)
	}
	if err := mgr.Add(k); err != nil {
		return fmt.Errorf("add keeper of card-seconds: %w", err)
	}
	return nil
}

func (k *Keeper) setCounts(inUse map[cardseconds.Series]card.Count, holdings func() []cardseconds.Holding) {
	if inUse == nil {
		return // nothing was counted yet
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.meter.SetCounts(k.now(), inUse)
	k.gap.setHoldings(holdings)
	if k.stored == nil {
		return // what is stored may be more than zero
	}
	for series, count := range inUse {
		if _, isStored := k.stored[series]; count > 0 && !isStored {
			k.begun[series] = true
		}
	}
}

// Start stores the sums until the context ends, and once more then.
func (k *Keeper) Start(ctx context.Context) error {
	ticker := time.NewTicker(storeInterval)
	defer ticker.Stop()
	for {
		if err := k.storeSums(ctx); err != nil && ctx.Err() == nil {
			k.log.Error(err, "Card-seconds are not stored, and their metric stands still until they are")
		}
		select {
		case <-ticker.C:
			continue
		case <-ctx.Done():
		}
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
		defer cancel()
		if err := k.storeSums(last); err != nil {
			k.log.Error(err, "The last card-seconds are lost")
		}
		return nil
	}
}

// storeSums loads the sums of earlier replicas once, and writes the parts that changed.
func (k *Keeper) storeSums(ctx context.Context) error {
	if err := k.loadOnce(ctx); err != nil {
		return err
	}
	k.mu.Lock()
	now := k.now()
	k.meter.Advance(now)
	k.gap.credit(&k.meter)
	parts, left := k.meter.Store(now)
	sums := k.meter.Sums()
	k.mu.Unlock()
	for i, text := range parts {
		if err := k.writePart(ctx, i, text); err != nil {
			return err
		}
	}
	k.mu.Lock()
	k.stored = sums
	if k.begun == nil {
		k.begun = map[cardseconds.Series]bool{}
	}
	maps.DeleteFunc(k.begun, func(series cardseconds.Series, _ bool) bool { _, isStored := sums[series]; return isStored })
	for series := range k.gap.begun { // a new sum begins at zero, too, and shows its credit with the next write
		delete(k.stored, series)
		k.begun[series] = true
	}
	k.gap.begun = nil
	k.mu.Unlock()
	if left > 0 {
		k.log.Info("The ConfigMaps of card-seconds are full: the sums without room would be lost at the next restart, all others are stored",
			"configMaps", cardseconds.Parts, "sumsWithoutRoom", left)
	}
	return nil
}

var secondsDesc = prometheus.NewDesc("cardquota_card_seconds_total",
	"Cards × seconds that pods have held until they ended, by queue, or by namespace for pods without a queue. It is kept over restarts of the operator and changes of the leader. A sum that has not grown for seven days is dropped.",
	[]string{"tenant", "project", "queue", "card", "service_type", "pod_namespace"}, nil)

// Metrics returns metrics like those that Setup registers, for their descriptions.
func Metrics() []prometheus.Collector { return []prometheus.Collector{&Keeper{}} }

// Describe implements prometheus.Collector.
func (*Keeper) Describe(ch chan<- *prometheus.Desc) { ch <- secondsDesc }

// Collect implements prometheus.Collector.
func (k *Keeper) Collect(ch chan<- prometheus.Metric) {
	k.SendSeries(func(desc *prometheus.Desc, seconds float64, labels ...string) {
		// An invalid label costs that series and not the scrape.
		if m, err := prometheus.NewConstMetric(desc, prometheus.CounterValue, seconds, labels...); err == nil {
			ch <- m
		}
	})
}

// SendSeries implements metricspage.Sender.
func (k *Keeper) SendSeries(send metricspage.Send) {
	k.mu.Lock()
	served := maps.Clone(k.stored)
	for s := range k.begun {
		served[s] = 0
	}
	k.mu.Unlock()
	for s, seconds := range served {
		send(secondsDesc, seconds, s.Tenant, s.Project, s.Queue, s.Card, s.ServiceType, s.Namespace)
	}
}
