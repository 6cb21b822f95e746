package cardreclaim

// This file has the order in which waiting jobs get a search for cards, and which of their pods it is for. The order
// of the jobs that lose cards is in victimorder.go.

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/util"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/scheduler/gang"
)

// searchInOrder searches cards for jobs in Volcano's order: one job of the first queue, then one job of the queue that
// is first now. It ends when the budget of the session does.
func (s *reclaimSession) searchInOrder(jobs []*api.JobInfo) {
	// If the budget does not suffice for all, the next session needs to know which jobs had a search.
	s.search.fairOrder.startSession(jobs)
	queues := util.NewPriorityQueue(s.Volcano.QueueOrderFn)
	waiting := map[api.QueueID]*util.PriorityQueue{}
	for _, job := range jobs {
		if _, known := waiting[job.Queue]; !known {
			waiting[job.Queue] = util.NewPriorityQueue(s.Volcano.JobOrderFn)
			queues.Push(s.Volcano.Queues[job.Queue])
		}
		waiting[job.Queue].Push(job)
	}

	for !queues.Empty() {
		queue := queues.Pop().(*api.QueueInfo)
		// Volcano lets such a queue have no more, so its jobs are left out in this session.
		if s.Volcano.Overused(queue) {
			continue
		}
		jobs := waiting[queue.UID]
		if !s.searchForJob(jobs.Pop().(*api.JobInfo)) {
			return
		}

		if !jobs.Empty() {
			queues.Push(queue)
		}
	}
}

// searchFairly searches cards for jobs in the order of fairOrder, after a session whose budget did not
// suffice for all: first for namespaces whose searches took the least work. Among equal namespaces and jobs
// Volcano's order decides. It ends when the budget of the session does.
func (s *reclaimSession) searchFairly(jobs []*api.JobInfo) {
	before := func(a, b *api.JobInfo) bool {
		if a.Queue != b.Queue {
			return s.Volcano.QueueOrderFn(s.Volcano.Queues[a.Queue], s.Volcano.Queues[b.Queue])
		}
		return s.Volcano.JobOrderFn(a, b)
	}

	slices.SortFunc(jobs, func(a, b *api.JobInfo) int { return compareBy(before, a, b) })
	order := &s.search.fairOrder
	waiting := order.startSession(jobs)
	for len(waiting) > 0 {
		next := order.pickNext(waiting, before)
		job := waiting[next][0]
		waiting[next] = waiting[next][1:]
		if len(waiting[next]) == 0 {
			delete(waiting, next)
		}

		// Volcano lets an overused queue have no more, so its jobs are left out.
		if !s.Volcano.Overused(s.Volcano.Queues[job.Queue]) && !s.searchForJob(job) {
			return
		}
	}
}

// searchForJob searches cards for a job and places those of its pods that get some. It does nothing if the last search
// would only be repeated. It returns false if the budget of the session ended before.
func (s *reclaimSession) searchForJob(job *api.JobInfo) bool {
	if s.sessionExhausted() {
		s.unfinished = true
		return false
	}

	// The hash is of the pods that wait before the search, which changes them.
	pendingHash := s.hashPending(job)
	if s.search.searches.canSkip(s, job, pendingHash) {
		return true
	}

	before := s.totalWork()
	s.scope = searchScope{} // collects what this search looks at
	s.startJob(len(s.nodes))

	placed := s.placeJob(job)
	s.search.searches.recordSearch(s, job, pendingHash, placed)
	if s.jobExhausted() {
		s.unfinished = true
		klog.InfoS("Budget of a job is used up, other jobs come first now", "job", klog.KRef(job.Namespace, job.Name))
	}

	if !placed && (s.jobExhausted() || s.anySearchCut) {
		s.recordSearchCut(job)
	}

	// The next sessions would repeat this work, which decides whether they rest.
	if !placed {
		s.failedWork += s.totalWork() - before
	}

	s.search.fairOrder.recordSearched(job, s.totalWork()-before)
	return true
}

// placeJob places a job's pods, and reports whether it placed any. The pods that the job needs
// for its minimum are placed all or none, then as many others as possible. It tries all of them
// together first. Otherwise the first pod of a Deployment, whose minimum is one, might
// evict a job that does not help the others.
func (s *reclaimSession) placeJob(job *api.JobInfo) (placed bool) {
	missing := s.missingTasks(job) // what the job needs for its minimum
	// more are the others that one problem can have beside the minimum, rest are for further problems.
	more, rest := s.splitByKinds(job, missing, s.reclaimingTasks(job, missing))
	if len(missing) > 0 {
		// The minimum is placed in one problem or not at all, so it cannot be split into portions.
		if _, tooMany := s.splitByKinds(job, nil, missing); len(tooMany) > 0 || !s.canReclaimTogether(missing) {
			return false
		}

		// Only half of the budget is for all together, so that the minimum can still be tried alone.
		together := slices.Concat(missing, more)
		if len(more) > 0 && s.canReclaimTogether(together) && s.placeWithHalfBudget(job, together) {
			more = nil
		} else if !s.placeTasks(job, missing, true) {
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

// placeWithHalfBudget places all of some pods with at most half of their job's budget, and reports whether it did.
// If it fails, the other half is for the pods that the job needs for its minimum.
func (s *reclaimSession) placeWithHalfBudget(job *api.JobInfo, tasks []*api.TaskInfo) bool {
	end := s.jobEnd
	s.jobEnd = s.work + (s.jobEnd-s.work)/2
	placed := s.placeTasks(job, tasks, true)
	s.jobEnd = end
	return placed
}

// splitByKinds divides pods into portions of at most maxPodKinds kinds, each for one problem. The pods of
// included are in the first portion already, so their kinds count there. first are the pods that join them,
// rest the other portions.
func (s *reclaimSession) splitByKinds(job *api.JobInfo, included, tasks []*api.TaskInfo) (first []*api.TaskInfo, rest [][]*api.TaskInfo) {
	index := map[string]int{} // of a kind among all kinds
	portionOf := func(task *api.TaskInfo) int {
		kind := s.finder.needsKey(job, task)
		if _, known := index[kind]; !known {
			index[kind] = len(index)
		}
		return index[kind] / maxPodKinds
	}

	for _, task := range included {
		portionOf(task) // adds its kind to index
	}

	for _, task := range tasks {
		portion := portionOf(task)
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

// reclaimingTasks lists the pending pods of a job that may reclaim cards, without some and without those that the
// quota has no room for. Only pods with the reclaimerKey of the first are listed: they reclaim from the same jobs.
func (s *reclaimSession) reclaimingTasks(job *api.JobInfo, without []*api.TaskInfo) []*api.TaskInfo {
	var tasks []*api.TaskInfo
	others := sets.New(without...)
	for _, task := range job.TaskStatusIndex[api.Pending] {
		if !others.Has(task) && s.mayPreempt(task) && s.rules.CanReclaim(task) {
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

// dropBeyondQuota drops the pods for which the queue has no quota left after those of placedFirst and the
// pods before them. Of ten thousand pending pods few may remain, and the search need not look at the others.
// Pods with other alternatives may share quota: then too many remain, and the plugin refuses them when they
// are placed.
func (s *reclaimSession) dropBeyondQuota(job *api.JobInfo, placedFirst, tasks []*api.TaskInfo) []*api.TaskInfo {
	left := map[string]card.Count{} // by the card names of a request
	// takeQuota reports whether the quota has enough left for a pod, and takes that.
	takeQuota := func(task *api.TaskInfo) bool {
		request := s.RequestFor(task)
		if request.Count == 0 {
			return true
		}

		key := fmt.Sprint(request.Names)
		free, known := left[key]
		if !known {
			free = s.rules.FreeQuota(job.Queue, request.Names...)
		}

		if free < request.Count {
			left[key] = free
			return false
		}
		left[key] = free.Sub(request.Count)

		return true
	}

	for _, task := range placedFirst {
		takeQuota(task)
	}

	return slices.DeleteFunc(tasks, func(task *api.TaskInfo) bool { return !takeQuota(task) })
}

// canReclaimTogether reports whether one problem may place all of some pods: evictions must be allowed for each, and those
// that reclaim must all be allowed to, and from the same jobs.
func (s *reclaimSession) canReclaimTogether(tasks []*api.TaskInfo) bool {
	var first *api.TaskInfo
	for _, task := range tasks {
		if !s.mayPreempt(task) {
			return false
		}
		// Nothing is reclaimed for a pod that requests none of what is reclaimed.
		if !s.reclaimsFor(&s.RequestFor(task).Request) {
			continue
		}

		if first == nil {
			first = task
		}

		if !s.rules.CanReclaim(task) || s.reclaimerKeyFor(task) != s.reclaimerKeyFor(first) {
			return false
		}
	}

	return true
}

// missingTasks lists the pending pods that a job needs for its minimum, beside its running and
// pipelined pods. First come those that each role needs, then the first of the rest. If too
// few are pending, it lists all.
func (s *reclaimSession) missingTasks(job *api.JobInfo) []*api.TaskInfo {
	have, roles := gang.CountByRole(job, true)
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
	return gang.SelectToMinimum(job, have, roles, pending)
}

// fairOrder decides for which job the next search is while the budget of a session does not suffice for all. That
// is the namespace of a queue with the least work since the last session whose budget sufficed, and of it the job
// whose search was longest ago. While budgets suffice, the order of queues and jobs decides alone.
type fairOrder struct {
	// isScarce reports whether the last session's budget did not suffice.
	isScarce bool
	// work is the work since a budget sufficed for each namespace of a queue that waits. lastSearched is the number of
	// the last session that searched for a job. Both forget what does not wait any more.
	work         map[queueNamespace]int
	lastSearched map[api.JobID]int
	session      int // how many sessions have ended
}

// queueNamespace is one namespace with jobs in a queue, which fairOrder treats as one user.
type queueNamespace struct {
	queue     api.QueueID
	namespace string
}

func queueNamespaceOf(job *api.JobInfo) queueNamespace {
	return queueNamespace{job.Queue, job.Namespace}
}

// startSession begins a session with the jobs that wait. It returns them by namespace of a queue, those first whose
// last search was longest ago, or that had none. A new namespace begins with the least work of the others.
func (f *fairOrder) startSession(jobs []*api.JobInfo) map[queueNamespace][]*api.JobInfo {
	waiting := map[queueNamespace][]*api.JobInfo{}
	last := map[api.JobID]int{}
	for _, job := range jobs {
		waiting[queueNamespaceOf(job)] = append(waiting[queueNamespaceOf(job)], job)
		last[job.UID] = f.lastSearched[job.UID]
	}

	least := 0
	work := map[queueNamespace]int{}
	for namespace := range waiting {
		if n, known := f.work[namespace]; known {
			work[namespace] = n
			if len(work) == 1 || n < least {
				least = n
			}
		}
	}

	for namespace, all := range waiting {
		// With no work at first, a new namespace alone would get searches until it has as much as the others.
		if _, known := work[namespace]; !known {
			work[namespace] = least
		}
		slices.SortStableFunc(all, func(a, b *api.JobInfo) int { return cmp.Compare(last[a.UID], last[b.UID]) })
	}
	f.work = work
	f.lastSearched = last

	return waiting
}

// pickNext returns the waiting namespace with the least work. Between equal ones, before decides by their first jobs.
// At least one namespace waits.
func (f *fairOrder) pickNext(waiting map[queueNamespace][]*api.JobInfo, before func(a, b *api.JobInfo) bool) queueNamespace {
	return slices.MinFunc(slices.Collect(maps.Keys(waiting)), func(a, b queueNamespace) int {
		if by := cmp.Compare(f.work[a], f.work[b]); by != 0 {
			return by
		}
		return compareBy(before, waiting[a][0], waiting[b][0])
	})
}

// recordSearched records that a job had its search in this session, and the work of that.
func (f *fairOrder) recordSearched(job *api.JobInfo, work int) {
	f.work[queueNamespaceOf(job)] += work
	f.lastSearched[job.UID] = f.session + 1
}

// endSession ends a session. sufficed means that the budget sufficed for all jobs: then the fair order forgets all.
func (f *fairOrder) endSession(sufficed bool) {
	f.session++
	f.isScarce = !sufficed
	if sufficed {
		f.work = nil
		f.lastSearched = nil
	}
}
