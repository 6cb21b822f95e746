package capacitycard

import (
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	"cardquota.dev/operator/internal/scheduler/cache"
	"cardquota.dev/operator/internal/scheduler/enqueue"
	"cardquota.dev/operator/internal/scheduler/keptcards"
	"cardquota.dev/operator/internal/scheduler/reclaimrules"
)

// Cache is what the scheduler keeps between sessions: what all parts of the plugin share, and what single
// parts keep for themselves. The plugin of a session reads and writes it.
//
// A program has one. Volcano runs one session at a time, and its parallel hooks only read.
type Cache struct {
	*cache.Cache
	kept *keptcards.Freed
	// BorrowStops are the cards that others reclaimed from a queue that had borrowed them.
	borrowStops reclaimrules.BorrowStops
	fitErrors   fitErrorCache
	// podGroups are the requests of PodGroups without pods, by UID.
	podGroups enqueue.PodGroupRequests
	messages  *messageDeduper
	reports   *sessionReports
	metrics   *pluginMetrics
	// openPlugin is the plugin of the open session, nil between sessions.
	openPlugin *Plugin
}

// NewCache returns an empty cache.
func NewCache() *Cache {
	return &Cache{
		Cache:       cache.New(),
		kept:        keptcards.NewFreed(),
		borrowStops: reclaimrules.BorrowStops{},
		fitErrors:   fitErrorCache{statuses: map[fitErrorKey]*cachedFitError{}},
		podGroups:   enqueue.PodGroupRequests{},
		messages:    newMessageDeduper(),
		reports:     &sessionReports{},
		metrics:     newPluginMetrics(),
	}
}

// SetSessionObserver registers observe, which is called when a session closes, and every few
// seconds during a long one. It must not block, because it delays the next session. nil removes
// it.
func (c *Cache) SetSessionObserver(observe func(SessionReport)) { c.reports.observe = observe }

// Metrics returns the plugin's metrics for registration.
func (c *Cache) Metrics() prometheus.Collector { return c.metrics }

// PluginFor returns the plugin of the open session with this UID. It is false if capacity-card is not
// part of the session or may not decide; then no action may evict. The plugin is valid until the
// session closes, for one goroutine.
func (c *Cache) PluginFor(session types.UID) (*Plugin, bool) {
	p := c.openPlugin
	if p == nil || p.Volcano.UID != session {
		return nil, false
	}
	// IsOutOfSync must know that such an action runs, also while it may not decide.
	c.LastActionSession = c.SessionCount
	if p.ArgumentsErr != nil || p.AwaitsSync {
		return nil, false
	}
	return p, true
}
