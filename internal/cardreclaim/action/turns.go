package action

import (
	"cmp"
	"slices"

	"volcano.sh/volcano/pkg/scheduler/api"
)

// turns tells whose turn it is when one session does not suffice for all that
// wait: the tenant into whom least has gone since then, and of its jobs the one
// whose last turn is longest ago. Where all are served the order of queues and
// jobs decides alone, as it does in the first session that does not suffice.
type turns struct {
	// scarce tells that the last session did not suffice.
	scarce bool
	// used is what has gone into each tenant that waits since sessions do not
	// suffice, last the session of each job's last turn since then.
	used    map[tenant]int
	last    map[api.JobID]int
	session int
}

// tenant is whose pods are, as far as turns go.
type tenant struct {
	queue     api.QueueID
	namespace string
}

func tenantOf(job *api.JobInfo) tenant { return tenant{job.Queue, job.Namespace} }

// order begins a session and sorts the jobs of each tenant by their turn: those
// that had none first, of equal ones the first in jobs. Who is new among the
// tenants starts where the one is that had least.
func (t *turns) order(jobs []*api.JobInfo) map[tenant][]*api.JobInfo {
	waiting, last := map[tenant][]*api.JobInfo{}, map[api.JobID]int{}
	for _, job := range jobs {
		waiting[tenantOf(job)] = append(waiting[tenantOf(job)], job)
		last[job.UID] = t.last[job.UID]
	}
	least, used := 0, map[tenant]int{}
	for of := range waiting {
		if n, known := t.used[of]; known {
			if used[of] = n; len(used) == 1 || n < least {
				least = n
			}
		}
	}
	for of, all := range waiting {
		if _, known := used[of]; !known {
			used[of] = least
		}
		slices.SortStableFunc(all, func(a, b *api.JobInfo) int { return cmp.Compare(last[a.UID], last[b.UID]) })
	}
	t.used, t.last = used, last
	return waiting
}

// next picks the tenant whose turn it is; of equal ones the first by before.
func (t *turns) next(waiting map[tenant][]*api.JobInfo, before func(a, b *api.JobInfo) bool) (tenant, bool) {
	var first tenant
	found := false
	for of, jobs := range waiting {
		by := 0
		if found {
			by = cmp.Compare(t.used[of], t.used[first])
		}
		if !found || by < 0 || by == 0 && before(jobs[0], waiting[first][0]) {
			first, found = of, true
		}
	}
	return first, found
}

// had notes the turn of a job, and what went into it.
func (t *turns) had(job *api.JobInfo, effort int) {
	t.used[tenantOf(job)] += effort
	t.last[job.UID] = t.session + 1
}

// end closes a session. sufficed tells that all had what they needed.
func (t *turns) end(sufficed bool) {
	t.session++
	if t.scarce = !sufficed; sufficed {
		t.used, t.last = nil, nil
	}
}
