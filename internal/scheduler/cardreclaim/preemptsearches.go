package cardreclaim

import (
	"time"

	"k8s.io/klog/v2"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/conf"

	"cardquota.dev/operator/internal/scheduler/capacitycard"
	"cardquota.dev/operator/internal/scheduler/gang"
	"cardquota.dev/operator/internal/schedulerconfig"
)

// workPerSearchedNode is the approximate work of Volcano's preempt for a pod on a node:
// predicates, scores and the choice of victims.
const workPerSearchedNode = 3_000

// PreemptSearches bounds the searches of the action preempt, as Search bounds its own. Volcano's preempt looks at all
// nodes for each pending pod. Searches that are known to find no node are left out.
type PreemptSearches struct {
	search *Search
	// history remembers searches that placed no pod. searchedSince are the jobs with a search since
	// the last session whose budget sufficed for all jobs.
	history       searchHistory
	searchedSince map[api.JobID]bool
	// restsUntil is when preempt may search again.
	restsUntil time.Time
	// count is for how many pods the last session searched a node.
	count int
}

// NewPreemptSearches returns the bounds of preempt beside a search of the same sessions.
func NewPreemptSearches(search *Search) *PreemptSearches {
	return &PreemptSearches{search: search, searchedSince: map[api.JobID]bool{}}
}

// Start begins the searches of a session. It returns false if preempt must not search in it: preempt rests
// after a long search, or cardreclaim leaves out jobs in it. A job takes cards of other queues before it
// takes those of its own queue, so preempt waits until cardreclaim has searched for all jobs.
func (p *PreemptSearches) Start(plugin *capacitycard.Plugin) (*PreemptSession, bool) {
	began := p.search.clock()
	if (conf.EnabledActionMap[schedulerconfig.CardReclaim] && p.search.hasLeftOutJobs(plugin.Volcano.UID)) || began.Before(p.restsUntil) {
		return nil, false
	}
	return &PreemptSession{
		preempt: p, plugin: plugin, began: began,
		hopelessKinds: map[preemptorKind]bool{}, hopelessJobs: map[uint64]bool{}, searched: map[api.JobID]*searchedJob{},
	}, true
}

// PreemptSession are the searches of preempt in one session.
type PreemptSession struct {
	preempt *PreemptSearches
	plugin  *capacitycard.Plugin
	began   time.Time
	// session is nil while no pod may preempt others.
	session *reclaimSession
	// job is the job of the last search, last the search itself.
	job  *searchedJob
	last preemptSearch
	// hopelessKinds are the kinds of pods that found no node since the last change of
	// generation, hopelessJobs the hashes of jobs that found none since the last job that did.
	hopelessKinds map[preemptorKind]bool
	hopelessJobs  map[uint64]bool
	// generation changes with each eviction of the session.
	generation int
	searched   map[api.JobID]*searchedJob
}

// preemptSearch is the search for a pod. hasKind is set if the search for another pod of the kind would find the same. It
// is not set if pods of its own job may be evicted for it: Volcano tries other jobs and its own one in two searches.
type preemptSearch struct {
	task       *api.TaskInfo
	kind       preemptorKind
	hasKind    bool
	generation int
}

// preemptorKind identifies pods for which the same pods may be evicted, on the same nodes.
type preemptorKind struct {
	queue     api.QueueID
	priority  int32
	namespace string
	needs     string
	// labels is a hash: pods that stay on a node may keep a pod off it by its labels.
	labels uint64
}

// searchedJob is a job for which preempt searched in this session.
type searchedJob struct {
	job *api.JobInfo
	// pendingHash identifies its pending pods, kindsHash their kinds, before the search.
	// hasKinds is set if jobs with the same kindsHash find the same nodes.
	pendingHash, kindsHash uint64
	hasKinds               bool
	// pipelined is how many of its pods were pipelined before.
	pipelined int
	// isNominated is set if a node is nominated for one of them: it waits until pods have left.
	isNominated bool
	scope       searchScope
}

// hasPlaced reports whether the search gave a node to any of the job's pods.
func (j *searchedJob) hasPlaced() bool {
	return len(j.job.TaskStatusIndex[api.Pipelined]) > j.pipelined
}

// Begin prepares the searches of a session. The caller calls it only once some pod may preempt others, because it looks at
// the whole cluster.
func (s *PreemptSession) Begin() {
	s.preempt.count = 0
	s.session = newReclaimSession(s.plugin, s.preempt.search)
	var waiting []*api.JobInfo
	for _, job := range s.plugin.Volcano.Jobs {
		if !job.IsPending() && len(job.TaskStatusIndex[api.Pending]) > 0 {
			waiting = append(waiting, job)
		}
	}
	s.preempt.history.startSession(s.session, waiting)
}

// MaySearch reports whether preempt may search a node for a pod now: the budget lasts, and no earlier search
// shows that it would find none. If so, it counts the work of that search. It is called before each search,
// so it also records how the search before ended. The caller changes generation with each eviction.
func (s *PreemptSession) MaySearch(task *api.TaskInfo, generation int) bool {
	// Volcano does not report how a search ended. The state of its pod shows it when the next one
	// begins.
	s.endSearch(generation)
	job := s.plugin.Volcano.Jobs[task.Job]
	if !s.beginJob(job) {
		return false
	}

	search := s.newSearch(job, task, generation)
	// Also a job whose search is left out, by the result for an equal pod, searches again when the nodes
	// change.
	s.addToScope(job, task)
	if search.hasKind && s.hopelessKinds[search.kind] {
		return false
	}
	// A gang whose search has begun ends it beyond the budget: a part of it would evict in vain.
	if job.MinAvailable <= 1 && s.session.sessionExhausted() {
		s.session.unfinished = true
		return false
	}

	s.last = search
	s.preempt.count++
	s.job.isNominated = s.job.isNominated || s.plugin.Kept.IsNominated(task)
	s.session.addPredicateWork(workPerSearchedNode * len(s.session.nodes))

	return true
}

// beginJob makes a job the current one, and reports whether preempt may search for it now. It may not if a
// search for this job or an equal one found no node. If the budget of a session does not suffice for all
// jobs, those that had a search wait until the others have had one too.
func (s *PreemptSession) beginJob(job *api.JobInfo) bool {
	if s.job != nil && s.job.job == job {
		return true
	}

	s.endJob()
	if known := s.searched[job.UID]; known != nil { // its next pod, or it preempts inside the job now
		s.job = known
		return !s.isHopeless(known)
	}
	if s.preempt.searchedSince[job.UID] {
		return false
	}
	if s.session.sessionExhausted() {
		s.session.unfinished = true
		return false
	}

	begun := &searchedJob{job: job, pendingHash: s.hashPending(job), pipelined: len(job.TaskStatusIndex[api.Pipelined])}
	begun.kindsHash, begun.hasKinds = s.hashKinds(job)
	if s.preempt.history.canSkip(s.session, job, begun.pendingHash) { // an earlier session found no node
		return false
	}

	s.searched[job.UID] = begun
	s.job = begun
	if s.isHopeless(begun) { // the failed search for an equal job counts as its search
		for _, task := range job.TaskStatusIndex[api.Pending] {
			s.addToScope(job, task)
		}
		s.job = nil
		return false
	}

	return true
}

// endJob ends the searches for the current job, and remembers whether they found nodes. After a job that found some,
// all others may find some again.
func (s *PreemptSession) endJob() {
	last := s.job
	if last == nil {
		return
	}
	s.job = nil
	switch {
	case last.hasPlaced():
		clear(s.hopelessJobs)
	case last.hasKinds:
		s.hopelessJobs[last.kindsHash] = true
	}
}

// isHopeless reports whether the search for a job, or for an equal one, found no node.
func (s *PreemptSession) isHopeless(job *searchedJob) bool {
	return job.hasKinds && s.hopelessJobs[job.kindsHash]
}

// hashPending returns a hash of a job's pending pods, with what decides whom they may preempt.
func (s *PreemptSession) hashPending(job *api.JobInfo) uint64 {
	sum := s.session.hashPending(job) + hashOf(job.Priority)
	for uid, task := range job.TaskStatusIndex[api.Pending] {
		sum += hashOf(struct {
			uid      api.TaskID
			priority int32
		}{uid, task.Priority})
	}
	return sum
}

// hashKinds returns the same hash for all jobs that find the same nodes. hasKinds is false for a job that has no such
// hash, because one of its pods has no kind.
func (s *PreemptSession) hashKinds(job *api.JobInfo) (sum uint64, hasKinds bool) {
	sum = hashOf(struct {
		minimum, ready int32
		pipelined      int
	}{job.MinAvailable, job.ReadyTaskNum(), len(job.TaskStatusIndex[api.Pipelined])})

	for _, task := range job.TaskStatusIndex[api.Pending] {
		search := s.newSearch(job, task, 0)
		if !search.hasKind {
			return 0, false
		}
		sum += hashOf(search.kind)
	}
	return sum, true
}

// newSearch returns the search for a pod. The search has a kind if equal pods find the same. A pod for which a node is
// nominated finds more than others: only it may use what is kept there. For a pod that may preempt its own job Volcano
// searches twice, first in other jobs. So the failure of one search does not mean that both fail.
func (s *PreemptSession) newSearch(job *api.JobInfo, task *api.TaskInfo, generation int) preemptSearch {
	search := preemptSearch{task: task, generation: generation}
	if !gang.HasLowerPodOnNode(job, task) && !s.plugin.Kept.IsNominated(task) {
		search.hasKind = true
		search.kind = preemptorKind{job.Queue, job.Priority, job.Namespace, s.session.finder.needsKey(job, task), hashLabels(task.Pod.Labels)}
	}
	return search
}

// endSearch ends the last search. It remembers the kind of its pod if it found no node and evicted nothing. After an
// eviction, which changes generation, all kinds may find nodes again.
func (s *PreemptSession) endSearch(generation int) {
	if s.generation != generation {
		s.generation = generation
		clear(s.hopelessKinds)
	}
	last := s.last
	s.last = preemptSearch{}
	if last.hasKind && last.generation == generation && last.task.Status == api.Pending {
		s.hopelessKinds[last.kind] = true
	}
}

// addToScope adds the nodes that may take a pod to what the search for the current job looks at.
func (s *PreemptSession) addToScope(job *api.JobInfo, task *api.TaskInfo) {
	// offeringNodesFor adds its nodes to the scope of the session, which is that of one job at a time.
	s.session.scope = s.job.scope
	s.session.finder.offeringNodesFor(podKind{s.session.reclaimerKeyFor(task), s.session.finder.needsKey(job, task)}, task)
	s.job.scope = s.session.scope
}

// End ends the searches of a session, and remembers the jobs that found no node. If the budget did not suffice for all
// jobs, the next sessions search for the others first.
func (s *PreemptSession) End() {
	defer s.rest()

	for _, searched := range s.searched {
		s.session.scope = searched.scope
		isFound := searched.hasPlaced() || searched.isNominated
		s.preempt.history.recordSearch(s.session, searched.job, searched.pendingHash, isFound)
	}

	if s.session == nil || !s.session.unfinished {
		s.preempt.searchedSince = map[api.JobID]bool{}
		return
	}

	klog.InfoS("Budget of preempt is used up, other jobs come first now", "jobs", len(s.searched), "searches", s.preempt.count)
	for id := range s.searched {
		s.preempt.searchedSince[id] = true
	}
}

// rest keeps the next sessions from searching if the searches of this one took long, because no pod is scheduled
// meanwhile.
func (s *PreemptSession) rest() {
	// Searches may take one part in restFactor of the time. Shorter ones need no rest: even the shortest schedule
	// period after them (minPeriod) is restFactor-1 times as long.
	if took := s.preempt.search.clock().Sub(s.began); took > minPeriod/(restFactor-1) {
		s.preempt.restsUntil = s.began.Add(restFactor * took)
	}
}

// hashLabels returns a hash of labels, which is the same in each order of the map.
func hashLabels(labels map[string]string) (sum uint64) {
	for key, value := range labels {
		sum += hashOf([2]string{key, value})
	}
	return sum
}
