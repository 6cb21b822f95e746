package capacitycard

import (
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
