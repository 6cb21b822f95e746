package bypass

import (
	"sync"

	"sigs.k8s.io/controller-runtime/pkg/event"

	"cardquota.dev/operator/internal/policy"
)

// Guard holds what was found last. The controller of the ServiceTypePolicy writes it: the
// conditions are one list, which has one writer.
type Guard struct {
	mu      sync.Mutex
	last    *policy.Guard
	changed chan event.TypedGenericEvent[string]
}

func newGuard() *Guard { return &Guard{changed: make(chan event.TypedGenericEvent[string], 1)} }

// Last returns what was found last, nil before anything was.
func (g *Guard) Last() *policy.Guard {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.last
}

// Changed tells that Last returns something else.
func (g *Guard) Changed() <-chan event.TypedGenericEvent[string] { return g.changed }

func (g *Guard) set(found policy.Guard) {
	g.mu.Lock()
	same := g.last != nil && *g.last == found
	g.last = &found
	g.mu.Unlock()
	if same {
		return
	}
	select {
	case g.changed <- event.TypedGenericEvent[string]{}:
	default: // whoever follows has yet to look
	}
}
