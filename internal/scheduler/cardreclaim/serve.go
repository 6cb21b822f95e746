package cardreclaim

import (
	"cmp"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/util"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/scheduler/capacitycard"
)

// serveInOrder serves jobs in the order of their queues and of their own.
func (w *wave) serveInOrder(jobs []*api.JobInfo) {
	w.action.turns.order(jobs) // should the session not suffice
	queues := util.NewPriorityQueue(w.ssn.QueueOrderFn)
	waiting := map[api.QueueID]*util.PriorityQueue{}
	for _, job := range jobs {
		if _, known := waiting[job.Queue]; !known {
			waiting[job.Queue] = util.NewPriorityQueue(w.ssn.JobOrderFn)
			queues.Push(w.ssn.Queues[job.Queue])
		}
		waiting[job.Queue].Push(job)
	}
	for !queues.Empty() {
		queue := queues.Pop().(*api.QueueInfo)
		if w.ssn.Overused(queue) {
			continue
		}
		jobs := waiting[queue.UID]
		if !w.turn(jobs.Pop().(*api.JobInfo)) {
			return
		}
		if !jobs.Empty() {
			queues.Push(queue)
		}
	}
}

// serveInTurns serves jobs in the order of turns.
func (w *wave) serveInTurns(jobs []*api.JobInfo) {
	before := func(a, b *api.JobInfo) bool {
		if a.Queue != b.Queue {
			return w.ssn.QueueOrderFn(w.ssn.Queues[a.Queue], w.ssn.Queues[b.Queue])
		}
		return w.ssn.JobOrderFn(a, b)
	}
	slices.SortFunc(jobs, func(a, b *api.JobInfo) int {
		switch {
		case before(a, b):
			return -1
		case before(b, a):
			return 1
		}
		return 0
	})
	turns := &w.action.turns
	waiting := turns.order(jobs)
	for of, any := turns.next(waiting, before); any; of, any = turns.next(waiting, before) {
		job := waiting[of][0]
		if waiting[of] = waiting[of][1:]; len(waiting[of]) == 0 {
			delete(waiting, of)
		}
		if !w.ssn.Overused(w.ssn.Queues[job.Queue]) && !w.turn(job) {
			return
		}
	}
}

// turn serves a job, and is false when the session is over before.
func (w *wave) turn(job *api.JobInfo) bool {
	if w.over() {
		w.left = true
		return false
	}
	waits := w.waitsSum(job)
	if w.action.attempts.skips(w, job, waits) {
		return true
	}
	before := w.total()
	w.looked = looked{}
	w.begin(len(w.list))
	placed := w.serve(job)
	w.action.attempts.note(w, job, waits, placed)
	if w.exhausted() {
		w.left = true
		klog.InfoS("No more may go into a job in one session, it comes after others now", "job", klog.KRef(job.Namespace, job.Name))
	}
	if !placed && (w.exhausted() || w.anyCut) {
		w.tellCut(job)
	}
	w.action.turns.had(job, w.total()-before)
	return true
}

// serve places a job's pods, and reports whether it placed any: those that the job lacks to
// its minimum all or none, then as many of the others as can be. Where all can be placed
// they are placed together: of a Deployment, whose minimum is one, the first pod would
// otherwise take a job that is of no use to the others.
func (w *wave) serve(job *api.JobInfo) (placed bool) {
	lacking := w.lacking(job)
	more, rest := w.portions(job, lacking, w.takers(job, lacking))
	if len(lacking) > 0 {
		if _, tooMany := w.portions(job, nil, lacking); len(tooMany) > 0 || !w.mayTryAll(lacking) {
			return false
		}
		together := slices.Concat(lacking, more)
		if len(more) > 0 && w.mayTryAll(together) && w.placeWithHalf(job, together) {
			more = nil
		} else if !w.place(job, lacking, true) {
			return false
		}
		placed = true
	}
	for _, tasks := range slices.Concat([][]*api.TaskInfo{more}, rest) {
		if len(tasks) > 0 && w.place(job, tasks, false) {
			placed = true
		}
	}
	return placed
}

// placeWithHalf places all pods of a job with at most half of the effort that is left
// for it, so that the pods it lacks can still be placed without the others.
func (w *wave) placeWithHalf(job *api.JobInfo, tasks []*api.TaskInfo) bool {
	end := w.end
	w.end = w.effort + (w.end-w.effort)/2
	placed := w.place(job, tasks, true)
	w.end = end
	return placed
}

// portions divides pods into those that may be placed together with some others,
// for their kinds are not too many, and the rest, portion by portion.
func (w *wave) portions(job *api.JobInfo, with, tasks []*api.TaskInfo) (first []*api.TaskInfo, rest [][]*api.TaskInfo) {
	place := map[string]int{} // of a kind among all kinds
	count := func(task *api.TaskInfo) int {
		kind := w.needsOf(job, task)
		if _, known := place[kind]; !known {
			place[kind] = len(place)
		}
		return place[kind] / mostKinds
	}
	for _, task := range with {
		count(task)
	}
	for _, task := range tasks {
		portion := count(task)
		if portion == 0 {
			first = append(first, task)
			continue
		}
		for len(rest) < portion {
			rest = append(rest, nil)
		}
		rest[portion-1] = append(rest[portion-1], task)
	}
	return first, rest
}

// takers lists the waiting pods of a job that may take cards back, from the same
// jobs as the first of them, without some.
func (w *wave) takers(job *api.JobInfo, without []*api.TaskInfo) []*api.TaskInfo {
	var takers []*api.TaskInfo
	others := sets.New(without...)
	for _, task := range job.TaskStatusIndex[api.Pending] {
		if !others.Has(task) && w.mayTry(task) && w.tide.Takes(task) {
			takers = append(takers, task)
		}
	}
	if len(takers) == 0 {
		return nil
	}
	w.sort(takers)
	first := w.giverKey(takers[0])
	takers = slices.DeleteFunc(takers, func(task *api.TaskInfo) bool { return w.giverKey(task) != first })
	return w.withinRoom(job, without, takers)
}

// withinRoom leaves out the pods for whose cards the queue has no room beside those
// before them and some others: of ten thousand that wait, few may be looked at.
func (w *wave) withinRoom(job *api.JobInfo, beside, tasks []*api.TaskInfo) []*api.TaskInfo {
	left := map[string]card.Count{}
	takes := func(task *api.TaskInfo) bool {
		ask := w.tide.Ask(task)
		if ask.Count == 0 {
			return true
		}
		key := fmt.Sprint(ask.Names)
		room, known := left[key]
		if !known {
			room = w.tide.Room(job.Queue, ask.Names...)
		}
		if room < ask.Count {
			left[key] = room
			return false
		}
		left[key] = room.Sub(ask.Count)
		return true
	}
	for _, task := range beside {
		takes(task)
	}
	return slices.DeleteFunc(tasks, func(task *api.TaskInfo) bool { return !takes(task) })
}

// mayTryAll tells whether pods may be placed together: all that ask for cards
// must be allowed to take them back, and from the same jobs.
func (w *wave) mayTryAll(tasks []*api.TaskInfo) bool {
	var first *api.TaskInfo
	for _, task := range tasks {
		if !w.mayTry(task) {
			return false
		}
		if w.tide.Ask(task).Count == 0 {
			continue
		}
		if first == nil {
			first = task
		}
		if !w.tide.Takes(task) || w.giverKey(task) != w.giverKey(first) {
			return false
		}
	}
	return true
}

// lacking picks the pods that a job lacks to its minimum, beside those that run and those
// that have been promised a node: first what each role needs of its own, then the first of
// the rest. When too few pods wait to reach the minimum it picks all of them.
func (w *wave) lacking(job *api.JobInfo) []*api.TaskInfo {
	have, roles := capacitycard.RolesOf(job, true)
	var pending []*api.TaskInfo
	for _, task := range job.TaskStatusIndex[api.Pending] {
		switch {
		case task.SchGated:
		case task.BestEffort: // Volcano counts them as placed
			have++
			roles[task.TaskRole]++
		default:
			pending = append(pending, task)
		}
	}
	w.sort(pending)
	return capacitycard.ToMinimum(job, have, roles, pending)
}

// sort puts pods in the order in which Volcano would place them, equal ones by
// name, so that the same session has the same outcome.
func (w *wave) sort(tasks []*api.TaskInfo) {
	slices.SortFunc(tasks, func(a, b *api.TaskInfo) int {
		switch {
		case w.ssn.TaskOrderFn(a, b):
			return -1
		case w.ssn.TaskOrderFn(b, a):
			return 1
		}
		return cmp.Or(cmp.Compare(len(a.Name), len(b.Name)), cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID))
	})
}

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
