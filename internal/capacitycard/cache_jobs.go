package capacitycard

import (
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/workload"
)

// reservationEnds is how long an admitted job keeps its reservation while it
// can not be placed for other reasons than quota: a node selector that no node
// has must not keep the cards of its queue from everybody else.
const reservationEnds = 5 * time.Minute

// patience remembers since when admitted PodGroups make no progress, and what they
// were admitted with. Being refused for quota, or having a pod placed when a session
// closes, begins a new wait.
type patience struct {
	since  map[types.UID]time.Time
	seen   map[types.UID]bool
	admits map[types.UID]*admission
}

// admission is what a PodGroup may wait for in a queue.
type admission struct {
	queue       api.QueueID
	application quota.JobRequest
	// seen tells that it was asked for since the last sweep.
	seen bool
}

func newPatience() patience {
	return patience{since: map[types.UID]time.Time{}, seen: map[types.UID]bool{}, admits: map[types.UID]*admission{}}
}

// admit remembers what a job was admitted with.
func (p *patience) admit(job *api.JobInfo, application quota.JobRequest) {
	p.admits[job.PgUID] = &admission{queue: job.Queue, application: application, seen: true}
}

// beyond is what a job waits for now and was not admitted with.
func (p *patience) beyond(job *api.JobInfo, application quota.JobRequest) quota.JobRequest {
	known, ok := p.admits[job.PgUID]
	if !ok || known.queue != job.Queue {
		return application
	}
	beyond := known.application.Beyond(application)
	known.seen = len(beyond.Demands) == 0
	return beyond
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

// sweep forgets PodGroups that did not wait in this session, or for more than
// they were admitted with.
func (p *patience) sweep() {
	for group := range p.since {
		if !p.seen[group] {
			delete(p.since, group)
		}
	}
	clear(p.seen)
	for group, known := range p.admits {
		if !known.seen {
			delete(p.admits, group)
		}
		known.seen = false
	}
}

// sweepAnnouncements forgets what two sessions did not ask for.
func (c *Cache) sweepAnnouncements() {
	maps.DeleteFunc(c.announced, func(_ types.UID, a *announcement) bool { return c.session-a.session > 1 })
}

// announcement is valid while the texts and the meaning of resources are the same.
type announcement struct {
	request  string
	requests bool
	least    *corev1.ResourceList
	meaning  uint64
	// session is the last one that asked for it.
	session     uint64
	application quota.JobRequest
	refusal     *workload.Refusal
}
