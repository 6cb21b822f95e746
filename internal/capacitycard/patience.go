package capacitycard

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// reservationEnds is how long an admitted job keeps its reservation while it
// can not be placed for other reasons than quota: a node selector that no node
// has must not keep the cards of its queue from everybody else.
const reservationEnds = 5 * time.Minute

// patience remembers since when admitted PodGroups make no progress. Being
// refused for quota, or having a pod placed, begins a new wait.
type patience struct {
	since map[types.UID]time.Time
	seen  map[types.UID]bool
}

func newPatience() patience {
	return patience{since: map[types.UID]time.Time{}, seen: map[types.UID]bool{}}
}

// lasts tells whether a waiting PodGroup still has its reservation.
func (p *patience) lasts(group types.UID, now time.Time) bool {
	p.seen[group] = true
	since, waits := p.since[group]
	if !waits {
		p.since[group] = now
		return true
	}
	return now.Sub(since) < reservationEnds
}

// renew begins the wait of a PodGroup anew.
func (p *patience) renew(group types.UID, now time.Time) {
	if _, waits := p.since[group]; waits {
		p.since[group] = now
	}
}

// sweep forgets PodGroups that did not wait in this session.
func (p *patience) sweep() {
	for group := range p.since {
		if !p.seen[group] {
			delete(p.since, group)
		}
	}
	clear(p.seen)
}
