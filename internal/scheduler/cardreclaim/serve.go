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
func (s *reclaimSession) serveInOrder(jobs []*api.JobInfo) {
	s.action.fairOrder.startSession(jobs) // should the session not suffice
	queues := util.NewPriorityQueue(s.ssn.QueueOrderFn)
	waiting := map[api.QueueID]*util.PriorityQueue{}
	for _, job := range jobs {
		if _, known := waiting[job.Queue]; !known {
			waiting[job.Queue] = util.NewPriorityQueue(s.ssn.JobOrderFn)
			queues.Push(s.ssn.Queues[job.Queue])
		}
		waiting[job.Queue].Push(job)
	}
	for !queues.Empty() {
		queue := queues.Pop().(*api.QueueInfo)
		if s.ssn.Overused(queue) {
			continue
		}
		jobs := waiting[queue.UID]
		if !s.serveJob(jobs.Pop().(*api.JobInfo)) {
			return
		}
		if !jobs.Empty() {
			queues.Push(queue)
		}
	}
}

// serveFairly serves jobs in the order of turns.
func (s *reclaimSession) serveFairly(jobs []*api.JobInfo) {
	before := func(a, b *api.JobInfo) bool {
		if a.Queue != b.Queue {
			return s.ssn.QueueOrderFn(s.ssn.Queues[a.Queue], s.ssn.Queues[b.Queue])
		}
		return s.ssn.JobOrderFn(a, b)
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
	turns := &s.action.fairOrder
	waiting := turns.startSession(jobs)
	for of, any := turns.pickNext(waiting, before); any; of, any = turns.pickNext(waiting, before) {
		job := waiting[of][0]
		if waiting[of] = waiting[of][1:]; len(waiting[of]) == 0 {
			delete(waiting, of)
		}
		if !s.ssn.Overused(s.ssn.Queues[job.Queue]) && !s.serveJob(job) {
			return
		}
	}
}

// serveJob serves a job, and is false when the session is over before.
func (s *reclaimSession) serveJob(job *api.JobInfo) bool {
	if s.sessionExhausted() {
		s.unfinished = true
		return false
	}
	waits := s.hashPending(job)
	if s.action.searches.canSkip(s, job, waits) {
		return true
	}
	before := s.totalWork()
	s.scope = searchScope{}
	s.startJob(len(s.nodes))
	placed := s.placeJob(job)
	s.action.searches.recordSearch(s, job, waits, placed)
	if s.jobExhausted() {
		s.unfinished = true
		klog.InfoS("No more may go into a job in one session, it comes after others now", "job", klog.KRef(job.Namespace, job.Name))
	}
	if !placed && (s.jobExhausted() || s.anySearchCut) {
		s.recordSearchCut(job)
	}
	s.action.fairOrder.recordServed(job, s.totalWork()-before)
	return true
}

// placeJob places a job's pods, and reports whether it placed any: those that the job lacks to
// its minimum all or none, then as many of the others as can be. Where all can be placed
// they are placed together: of a Deployment, whose minimum is one, the first pod would
// otherwise take a job that is of no use to the others.
func (s *reclaimSession) placeJob(job *api.JobInfo) (placed bool) {
	lacking := s.missingTasks(job)
	more, rest := s.splitByKinds(job, lacking, s.reclaimingTasks(job, lacking))
	if len(lacking) > 0 {
		if _, tooMany := s.splitByKinds(job, nil, lacking); len(tooMany) > 0 || !s.canReclaimTogether(lacking) {
			return false
		}
		together := slices.Concat(lacking, more)
		if len(more) > 0 && s.canReclaimTogether(together) && s.placeWithHalfBudget(job, together) {
			more = nil
		} else if !s.placeTasks(job, lacking, true) {
			return false
		}
		placed = true
	}
	for _, tasks := range slices.Concat([][]*api.TaskInfo{more}, rest) {
		if len(tasks) > 0 && s.placeTasks(job, tasks, false) {
			placed = true
		}
	}
	return placed
}

// placeWithHalfBudget places all pods of a job with at most half of the effort that is left
// for it, so that the pods it lacks can still be placed without the others.
func (s *reclaimSession) placeWithHalfBudget(job *api.JobInfo, tasks []*api.TaskInfo) bool {
	end := s.jobEnd
	s.jobEnd = s.work + (s.jobEnd-s.work)/2
	placed := s.placeTasks(job, tasks, true)
	s.jobEnd = end
	return placed
}

// splitByKinds divides pods into those that may be placed together with some others,
// for their kinds are not too many, and the rest, portion by portion.
func (s *reclaimSession) splitByKinds(job *api.JobInfo, with, tasks []*api.TaskInfo) (first []*api.TaskInfo, rest [][]*api.TaskInfo) {
	place := map[string]int{} // of a kind among all kinds
	count := func(task *api.TaskInfo) int {
		kind := s.needsKey(job, task)
		if _, known := place[kind]; !known {
			place[kind] = len(place)
		}
		return place[kind] / maxPodKinds
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

// reclaimingTasks lists the waiting pods of a job that may take cards back, from the same
// jobs as the first of them, without some.
func (s *reclaimSession) reclaimingTasks(job *api.JobInfo, without []*api.TaskInfo) []*api.TaskInfo {
	var tasks []*api.TaskInfo
	others := sets.New(without...)
	for _, task := range job.TaskStatusIndex[api.Pending] {
		if !others.Has(task) && s.mayPreempt(task) && s.policy.CanReclaim(task) {
			tasks = append(tasks, task)
		}
	}
	if len(tasks) == 0 {
		return nil
	}
	s.sortTasks(tasks)
	first := s.reclaimerKeyFor(tasks[0])
	tasks = slices.DeleteFunc(tasks, func(task *api.TaskInfo) bool { return s.reclaimerKeyFor(task) != first })
	return s.dropBeyondQuota(job, without, tasks)
}

// dropBeyondQuota leaves out the pods for whose cards the queue has no room beside those
// before them and some others: of ten thousand that wait, few may be looked at.
func (s *reclaimSession) dropBeyondQuota(job *api.JobInfo, beside, tasks []*api.TaskInfo) []*api.TaskInfo {
	left := map[string]card.Count{}
	takes := func(task *api.TaskInfo) bool {
		ask := s.policy.RequestFor(task)
		if ask.Count == 0 {
			return true
		}
		key := fmt.Sprint(ask.Names)
		room, known := left[key]
		if !known {
			room = s.policy.FreeQuota(job.Queue, ask.Names...)
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

// canReclaimTogether tells whether pods may be placed together: all that ask for cards
// must be allowed to take them back, and from the same jobs.
func (s *reclaimSession) canReclaimTogether(tasks []*api.TaskInfo) bool {
	var first *api.TaskInfo
	for _, task := range tasks {
		if !s.mayPreempt(task) {
			return false
		}
		if s.policy.RequestFor(task).Count == 0 {
			continue
		}
		if first == nil {
			first = task
		}
		if !s.policy.CanReclaim(task) || s.reclaimerKeyFor(task) != s.reclaimerKeyFor(first) {
			return false
		}
	}
	return true
}

// missingTasks picks the pods that a job lacks to its minimum, beside those that run and those
// that have been promised a node: first what each role needs of its own, then the first of
// the rest. When too few pods wait to reach the minimum it picks all of them.
func (s *reclaimSession) missingTasks(job *api.JobInfo) []*api.TaskInfo {
	have, roles := capacitycard.CountByRole(job, true)
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
	s.sortTasks(pending)
	return capacitycard.SelectToMinimum(job, have, roles, pending)
}

// sortTasks puts pods in the order in which Volcano would place them, equal ones by
// name, so that the same session has the same outcome.
func (s *reclaimSession) sortTasks(tasks []*api.TaskInfo) {
	slices.SortFunc(tasks, func(a, b *api.TaskInfo) int {
		switch {
		case s.ssn.TaskOrderFn(a, b):
			return -1
		case s.ssn.TaskOrderFn(b, a):
			return 1
		}
		return cmp.Or(cmp.Compare(len(a.Name), len(b.Name)), cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID))
	})
}

// fairOrder tells whose turn it is when one session does not suffice for all that
// wait: the tenant into whom least has gone since then, and of its jobs the one
// whose last turn is longest ago. Where all are served the order of queues and
// jobs decides alone, as it does in the first session that does not suffice.
type fairOrder struct {
	// scarce tells that the last session did not suffice.
	isScarce bool
	// used is what has gone into each tenant that waits since sessions do not
	// suffice, last the session of each job's last turn since then.
	work       map[queueNamespace]int
	lastServed map[api.JobID]int
	session    int
}

// queueNamespace is whose pods are, as far as turns go.
type queueNamespace struct {
	queue     api.QueueID
	namespace string
}

func queueNamespaceOf(job *api.JobInfo) queueNamespace {
	return queueNamespace{job.Queue, job.Namespace}
}

// startSession begins a session and sorts the jobs of each tenant by their turn: those
// that had none first, of equal ones the first in jobs. Who is new among the
// tenants starts where the one is that had least.
func (t *fairOrder) startSession(jobs []*api.JobInfo) map[queueNamespace][]*api.JobInfo {
	waiting, last := map[queueNamespace][]*api.JobInfo{}, map[api.JobID]int{}
	for _, job := range jobs {
		waiting[queueNamespaceOf(job)] = append(waiting[queueNamespaceOf(job)], job)
		last[job.UID] = t.lastServed[job.UID]
	}
	least, used := 0, map[queueNamespace]int{}
	for of := range waiting {
		if n, known := t.work[of]; known {
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
	t.work, t.lastServed = used, last
	return waiting
}

// pickNext picks the tenant whose turn it is; of equal ones the first by before.
func (t *fairOrder) pickNext(waiting map[queueNamespace][]*api.JobInfo, before func(a, b *api.JobInfo) bool) (queueNamespace, bool) {
	var first queueNamespace
	found := false
	for of, jobs := range waiting {
		by := 0
		if found {
			by = cmp.Compare(t.work[of], t.work[first])
		}
		if !found || by < 0 || by == 0 && before(jobs[0], waiting[first][0]) {
			first, found = of, true
		}
	}
	return first, found
}

// recordServed notes the turn of a job, and what went into it.
func (t *fairOrder) recordServed(job *api.JobInfo, effort int) {
	t.work[queueNamespaceOf(job)] += effort
	t.lastServed[job.UID] = t.session + 1
}

// endSession closes a session. sufficed tells that all had what they needed.
func (t *fairOrder) endSession(sufficed bool) {
	t.session++
	if t.isScarce = !sufficed; sufficed {
		t.work, t.lastServed = nil, nil
	}
}
