package cardreclaim

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/framework"

	"cardquota.dev/operator/internal/scheduler/gang"
	"cardquota.dev/operator/internal/scheduler/snapshot"
	"cardquota.dev/operator/internal/scheduler/solver"
	"cardquota.dev/operator/internal/schedulerconfig"
	"cardquota.dev/operator/internal/workload"
)

// unfitNode is a node that does not accept a pod although enough is free.
type unfitNode struct {
	podSet *podSet
	node   int
	// fits is how many pods of the pod set it accepts.
	fits int
	// waits reports whether it will accept the pod once terminating pods are gone.
	waits bool
}

// triedPlan is a plan that is tried in the session.
type triedPlan struct {
	// evicted is never committed: Volcano would write to each pod once, and leave a gang in
	// part if that fails. The podEvictor evicts them instead.
	evicted *framework.Statement
	// placed has the pipelined pods.
	placed *framework.Statement
	// bound lists the victims that had not started to run.
	bound     []*api.TaskInfo
	evictions []*jobEviction
}

// jobEviction is the eviction of one job or of some of its pods.
type jobEviction struct {
	victimJob *victimJob
	// indexes are those of the victims among the job's tasks, tasks are the victims.
	indexes []int
	tasks   []*api.TaskInfo
	whole   bool
}

// victims returns the evicted pods of all jobs.
func (e *triedPlan) victims() (tasks []*api.TaskInfo) {
	for _, p := range e.evictions {
		tasks = append(tasks, p.tasks...)
	}
	return tasks
}

// planApplier carries out a plan of the solver, and records why.
type planApplier struct {
	*searchSession
	victims  *victimFinder
	finder   *nodeFinder
	problems *problemBuilder
	unsolved *unsolvablePods
}

// applyPlan tries a plan in the session. It tries all evictions, then places the pending
// pods, and evicts only if all of them fit. If a node turns out not to fit, it returns that
// node and leaves the session unchanged.
func (s *planApplier) applyPlan(job *api.JobInfo, q *problem, plan *solver.Plan, all bool) (*unfitNode, bool) {
	e := &triedPlan{evicted: framework.NewStatement(s.ssn), placed: framework.NewStatement(s.ssn)}
	// The tried evictions release what the borrowers use, so these are found first.
	borrowers := s.problems.borrowersOf(q, plan)
	if err := s.tryEvictions(q, plan, e); err != nil {
		klog.ErrorS(err, "Cards cannot be reclaimed", "job", klog.KRef(job.Namespace, job.Name))
		e.rollBack(s.ssn)
		return nil, false
	}

	for i, nodes := range plan.Places {
		if unfit := s.pipelineTasks(q.podSets[i], nodes, e); unfit != nil {
			e.rollBack(s.ssn)
			return unfit, false
		}
	}

	// Other plugins may keep the gang from starting, and then its victims would end in vain.
	if all && !s.ssn.JobPipelined(job) {
		e.rollBack(s.ssn)
		return nil, false
	}

	e.placed.Commit()
	for _, p := range e.evictions {
		s.search.evictions.Evict(s.ssn, s.plugin, p.tasks, schedulerconfig.CardReclaim)
	}

	if len(e.evictions) > 0 {
		s.plugin.Kept.KeepReclaimedCards(q.pipelinedTasks(), e.victims()) // keeps the freed cards for them
	}

	for queue, names := range borrowers {
		s.plugin.Rules.RecordReclaimed(api.QueueID(queue), names...)
	}

	s.forgetVictimJobs(e.evictions)
	by := s.reclaimerKeyFor(q.podSets[max(0, s.firstReclaimer(q.podSets))].tasks[0]).serviceType
	s.recordEvictions(job, by, e.evictions, plan)

	return nil, true
}

// pipelinedTasks returns the pods that are pipelined.
func (q *problem) pipelinedTasks() (pipelined []*api.TaskInfo) {
	for _, c := range q.podSets {
		for _, task := range c.tasks {
			if task.Status == api.Pipelined {
				pipelined = append(pipelined, task)
			}
		}
	}
	return pipelined
}

// pipelineTasks places the pods of a pod set on their nodes. Pods that spread may fit only
// after others are placed, so it repeats those that do not fit while others do and the budget
// lasts. It returns a node that does not fit in the end, nil if all do.
func (s *planApplier) pipelineTasks(c *podSet, nodes []int, e *triedPlan) *unfitNode {
	accepted := map[int]int{}
	next := 0
	for len(nodes) > 0 {
		var left []int
		for _, node := range nodes {
			if err := s.pipelineTask(c.tasks[next], s.nodes[node], len(e.evictions) > 0, e.placed); err != nil {
				klog.V(4).InfoS("Pod would not run on the node", "pod", klog.KObj(c.tasks[next].Pod), "node", s.nodes[node].Name, "err", err)
				left = append(left, node)
				continue
			}
			accepted[node]++
			next++
		}

		if len(left) == len(nodes) || (len(left) > 0 && s.jobExhausted()) {
			return &unfitNode{c, left[0], accepted[left[0]], s.finder.waitsForTerminating(c, s.nodes[left[0]])}
		}
		nodes = left
	}

	return nil
}

// rollBack leaves the session unchanged.
func (s *triedPlan) rollBack(ssn *framework.Session) {
	s.placed.Discard()
	s.evicted.Discard()
	snapshot.RestoreBound(ssn, s.bound)
}

// tryEvictions evicts the victims of a plan in the session only.
func (s *planApplier) tryEvictions(q *problem, plan *solver.Plan, e *triedPlan) error {
	for _, victims := range plan.Victims {
		p := &jobEviction{victimJob: q.victimJobs[victims.Job], indexes: victims.Pods, whole: victims.Whole}
		if p.whole {
			p.indexes = nil
			for i := range p.victimJob.tasks {
				p.indexes = append(p.indexes, i)
			}
		}

		s.addWork(workPerMove * len(p.indexes))
		for _, index := range p.indexes {
			task := p.victimJob.tasks[index]
			p.tasks = append(p.tasks, task)
			// Volcano's Discard would leave the pod as Running.
			if task.Status == api.Bound {
				e.bound = append(e.bound, task)
			}

			if err := e.evicted.Evict(task, schedulerconfig.CardReclaim); err != nil {
				return fmt.Errorf("evict %s: %w", klog.KObj(task.Pod), err)
			}
		}
		e.evictions = append(e.evictions, p)
	}
	return nil
}

// pipelineTask places a pod on a node if it would run there after the evictions. It checks
// neighbors, ports, taints and volumes again.
func (s *planApplier) pipelineTask(task *api.TaskInfo, node *api.NodeInfo, evicted bool, stmt *framework.Statement) error {
	s.addWork(workPerMove)
	if err := s.ssn.PrePredicateFn(task); err != nil {
		return fmt.Errorf("before the search for a node: %w", err)
	}
	if err := s.ssn.PredicateForAllocateAction(task, node); err != nil {
		return fmt.Errorf("node does not fit: %w", err)
	}
	if !task.InitResreq.LessEqual(node.FutureIdle(), api.Zero) {
		return fmt.Errorf("node has too little for %s", task.InitResreq)
	}

	// Volcano tries the nominated node of a pod first, and writes another one only after evictions. A gang
	// that gets other nodes would not start as long as one of its pods takes its old node from another one.
	nominated := task.Pod.Status.NominatedNodeName
	isMoved := nominated != "" && nominated != node.Name
	if err := stmt.Pipeline(task, node.Name, evicted || isMoved); err != nil {
		// Volcano changes the session before it fails, and leaves the undoing to its caller.
		if undo := stmt.UnPipeline(task); undo != nil {
			klog.ErrorS(undo, "Placement could not be undone", "pod", klog.KObj(task.Pod))
		}
		return fmt.Errorf("place: %w", err)
	}

	// From now on the pod keeps later ones off its node.
	if s.finder.antiAffinityNodes != nil && countAntiAffinityTerms(task.Pod) > 0 {
		s.finder.antiAffinityNodes.Insert(node.Name)
	}

	return nil
}

// forgetVictimJobs drops the jobs that were evicted as a whole, and all results if a job lost
// only some pods. A gang may leave cards over for other pending jobs, even for those for which
// earlier sessions found nothing.
func (s *planApplier) forgetVictimJobs(evictions []*jobEviction) {
	if len(evictions) > 0 {
		clear(s.unsolved.unsolvable)
		clear(s.unsolved.unsolvableSets)
	}

	for _, p := range evictions {
		for _, task := range p.tasks {
			s.search.searches.markChanged(s.indexOfNode(task.NodeName))
		}
	}

	gone := map[api.JobID]bool{}
	for _, p := range evictions {
		if !p.whole {
			clear(s.victims.victimJobs)
			return
		}
		gone[p.victimJob.job.UID] = true
	}

	for key, victimJobs := range s.victims.victimJobs {
		s.victims.victimJobs[key] = slices.DeleteFunc(victimJobs, func(g *victimJob) bool { return gone[g.job.UID] })
	}
}

// completePartialEvictions evicts the rest of jobs of which a scheduler evicted only a part
// before it ended. No job may stay below its minimum. action is the name of the action that
// evicts.
func (s *planApplier) completePartialEvictions(action string) {
	for _, job := range s.ssn.Jobs {
		rest := s.partlyEvictedTasks(job, action)
		if len(rest) == 0 {
			continue
		}

		klog.InfoS("Job was evicted only in part, the rest of it is evicted too", "job", klog.KRef(job.Namespace, job.Name), "pods", len(rest))
		gone := framework.NewStatement(s.ssn)
		for _, task := range rest {
			if err := gone.Evict(task, action); err != nil {
				klog.ErrorS(err, "Pod could not be evicted", "pod", klog.KObj(task.Pod))
			}
		}

		s.search.evictions.Evict(s.ssn, s.plugin, rest, action)
	}
}

// partlyEvictedTasks lists the pods of a job below its minimum that have the condition of an
// eviction, but were not evicted. cardreclaim handles only reclaimable queues, preempt all of
// them.
func (s *planApplier) partlyEvictedTasks(job *api.JobInfo, action string) []*api.TaskInfo {
	queue := s.ssn.Queues[job.Queue]
	if job.PodGroup == nil || queue == nil || (action == schedulerconfig.CardReclaim && !queue.Reclaimable()) {
		return nil
	}
	if job.IsReady() && job.CheckTaskReady() {
		return nil
	}

	var rest []*api.TaskInfo
	for _, task := range job.Tasks {
		if gang.IsOnNode(task.Status) && workload.IsEvictable(task.Pod, job.PodGroup.Annotations) && s.isMarkedForEviction(task.Pod) {
			rest = append(rest, task)
		}
	}
	return rest
}

// isMarkedForEviction reports whether a pod got the condition that precedes its eviction while
// a scheduler may still try to evict it. Kubelets never remove the condition, so an older one
// means nothing.
func (s *planApplier) isMarkedForEviction(pod *corev1.Pod) bool {
	since, evicted := workload.EvictedSince(pod)
	return evicted && s.now.Sub(since) < deletionTimeout+markTimeout
}
