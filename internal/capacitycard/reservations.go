package capacitycard

import (
	"cmp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"volcano.sh/apis/pkg/apis/scheduling"
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
	// unasked are the jobs of the session that opens which wait for something that
	// they were not admitted with.
	unasked []unasked
}

type unasked struct {
	job *api.JobInfo
	// application is what it waits for, and beyond what of it was not admitted.
	application, beyond quota.Application
}

// admission is what a PodGroup may wait for in a queue.
type admission struct {
	queue       api.QueueID
	application quota.Application
	// seen tells that it was asked for since the last sweep.
	seen bool
}

func newPatience() patience {
	return patience{since: map[types.UID]time.Time{}, seen: map[types.UID]bool{}, admits: map[types.UID]*admission{}}
}

// admit remembers what a job was admitted with.
func (p *patience) admit(job *api.JobInfo, application quota.Application) {
	p.admits[job.PgUID] = &admission{queue: job.Queue, application: application, seen: true}
}

// beyond is what a job waits for now and was not admitted with.
func (p *patience) beyond(job *api.JobInfo, application quota.Application) quota.Application {
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

// noteProgress begins the wait of PodGroups anew that have pods placed when the session
// closes, or are promised nodes for all that they lack. What was tried and taken back is
// no progress, and neither are promises for a part of a gang: Volcano's preempt makes them
// in every session.
func (p *plugin) noteProgress() {
	for _, job := range p.ssn.Jobs {
		placed := len(job.TaskStatusIndex[api.Allocated]) + len(job.TaskStatusIndex[api.Binding])
		if placed > 0 || len(job.TaskStatusIndex[api.Pipelined]) > 0 && p.ssn.JobPipelined(job) {
			p.memory.patience.renew(job.PgUID, p.memory.now())
		}
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

// reserve notes what a job that was admitted earlier still waits for, unless it
// has waited too long for other reasons than quota, and what a running job
// holds above its minimum. allocated is how many of its pods are placed. A job
// that is barred from its queue waits for nothing: nothing more of it starts.
func (p *plugin) reserve(job *api.JobInfo, allocated int, barred bool) {
	waiting, ok := p.waiting[job.Queue]
	if !ok || job.PodGroup == nil {
		return
	}
	switch job.PodGroup.Status.Phase {
	case scheduling.PodGroupInqueue, scheduling.PodGroupRunning, scheduling.PodGroupUnknown:
	default:
		return
	}
	if !barred && (job.PodGroup.Status.Phase == scheduling.PodGroupRunning || p.memory.patience.lasts(job.PgUID, p.memory.now())) {
		if application, refusal := p.minimum(job); refusal == nil && !application.Empty() {
			if beyond := p.memory.patience.beyond(job, application); p.fitsAlone(job, application) {
				waiting.Add(p.account.Granted(string(job.Queue), application.Without(beyond)))
				if !beyond.Empty() {
					p.memory.patience.unasked = append(p.memory.patience.unasked, unasked{job, application, beyond})
				}
			}
		}
	}
	if spare := allocated - int(job.MinAvailable); spare > 0 {
		waiting.AddElastic(p.elastic(job, spare))
	}
}

// fitsAlone tells whether a job would be admitted if it had its queue to itself. For one
// that was admitted with a larger quota nothing is kept from others: it cannot start.
func (p *plugin) fitsAlone(job *api.JobInfo, application quota.Application) bool {
	var own []*quota.Charge
	for status, tasks := range job.TaskStatusIndex {
		if !api.AllocatedStatus(status) {
			continue
		}
		for _, task := range tasks {
			if charge := p.chargeIn(job.Queue, task); charge != nil {
				own = append(own, charge)
			}
		}
	}
	return p.account.FitsAlone(string(job.Queue), own, application, p.args.overCommitFactor)
}

// reserveUnasked reserves for jobs that wait for something they were not admitted
// with, as far as they would be admitted now, once the books tell everything else.
// That a PodGroup is Inqueue or Running does not say it was: Volcano asks no gate
// about one without minResources, and what it asks for may be changed afterwards. A
// process that has just started remembers nothing, and keeps free what there is room
// for.
func (p *plugin) reserveUnasked() {
	jobs := p.memory.patience.unasked
	slices.SortFunc(jobs, func(a, b unasked) int {
		return cmp.Or(a.job.CreationTimestamp.Compare(b.job.CreationTimestamp.Time), cmp.Compare(a.job.UID, b.job.UID))
	})
	for _, u := range jobs {
		if p.closedGate(u.job.Queue, u.job.Namespace) != nil || p.admit(u.job, u.beyond) != nil {
			continue
		}
		p.waiting[u.job.Queue].Add(p.account.Granted(string(u.job.Queue), u.beyond))
		if p.memory.completeness.done { // before, the books tell of more room than there is
			p.memory.patience.admit(u.job, u.application)
		}
	}
	clear(jobs)
	p.memory.patience.unasked = jobs[:0]
}

// admit says why a queue whose gate is open does not admit a job now, nil when it
// does.
func (p *plugin) admit(job *api.JobInfo, application quota.Application) *workload.Refusal {
	if short := p.account.Admit(string(job.Queue), *p.waiting[job.Queue], application, p.args.overCommitFactor); short != nil {
		return p.rules[job.Queue].Short(short)
	}
	return nil
}
