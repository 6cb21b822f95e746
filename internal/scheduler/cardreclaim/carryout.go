package cardreclaim

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/framework"

	"cardquota.dev/operator/internal/scheduler/capacitycard"
	"cardquota.dev/operator/internal/scheduler/solver"
	"cardquota.dev/operator/internal/workload"
)

// unfitNode is a node that does not take a claim's pod although it has room.
type unfitNode struct {
	podSet *podSet
	node   int
	// beside is how many of the claim's pods it takes.
	fits int
	// waits tells that it will, once those are gone that are on their way out.
	waits bool
}

// simulation is what goes for a job, on its way through the session.
type simulation struct {
	// evicted is never committed: Volcano would write to each pod once, and leave a
	// part of a gang running where that fails. The manner tells them to go instead.
	evicted *framework.Statement
	// placed are the pods that nodes are promised to.
	placed *framework.Statement
	// bound lists those that go and had not started to run.
	bound     []*api.TaskInfo
	evictions []*jobEviction
}

// jobEviction is what one job gives.
type jobEviction struct {
	victimJob *victimJob
	// places are those of the pods that go among the giver's, tasks are these pods.
	indexes []int
	tasks   []*api.TaskInfo
	whole   bool
}

// applyPlan tries a plan in the session: first everybody goes, then the pods that
// wait must really fit, and only then anybody is told to go. If a node turns out
// not to fit it is returned, and the session is as it was.
func (s *reclaimSession) applyPlan(job *api.JobInfo, q *problem, plan *solver.Plan, all bool) (*unfitNode, bool) {
	e := &simulation{evicted: framework.NewStatement(s.ssn), placed: framework.NewStatement(s.ssn)}
	if err := s.simulateEvictions(q, plan, e); err != nil {
		klog.ErrorS(err, "Cards cannot be taken back", "job", klog.KRef(job.Namespace, job.Name))
		e.rollBack(s.ssn)
		return nil, false
	}
	for i, nodes := range plan.Places {
		if unfit := s.pipelineTasks(q.podSets[i], nodes, e); unfit != nil {
			e.rollBack(s.ssn)
			return unfit, false
		}
	}
	if all && !s.ssn.JobPipelined(job) {
		e.rollBack(s.ssn)
		return nil, false
	}
	e.placed.Commit()
	for _, p := range e.evictions {
		s.evictTasks(p.tasks, s.action.isRecreated(p.victimJob.job.Namespace, workload.VCJobOwner(p.victimJob.tasks[0].Pod)), Name)
	}
	for _, c := range q.podSets {
		for _, task := range c.tasks {
			if len(e.evictions) > 0 && task.Status == api.Pipelined {
				s.policy.KeepReclaimedRoom(task) // what is freed is kept for it
			}
		}
	}
	s.forgetVictimJobs(e.evictions)
	s.recordEvictions(job, e.evictions, plan)
	return nil, true
}

// pipelineTasks gives a claim's pods their nodes. Pods that must spread may fit only
// after others have come elsewhere, so who does not fit is tried again as long as
// others do and the effort for it lasts. It returns a node that does not fit in the end, nil when all do.
func (s *reclaimSession) pipelineTasks(c *podSet, nodes []int, e *simulation) *unfitNode {
	there := map[int]int{}
	next := 0
	for len(nodes) > 0 {
		var left []int
		for _, node := range nodes {
			if err := s.pipelineTask(c.tasks[next], s.nodes[node], len(e.evictions) > 0, e.placed); err != nil {
				klog.V(4).InfoS("A pod would not run there", "pod", klog.KObj(c.tasks[next].Pod), "node", s.nodes[node].Name, "err", err)
				left = append(left, node)
				continue
			}
			there[node]++
			next++
		}
		if len(left) == len(nodes) || len(left) > 0 && s.jobExhausted() {
			return &unfitNode{c, left[0], there[left[0]], s.waitsForTerminating(c, s.nodes[left[0]])}
		}
		nodes = left
	}
	return nil
}

// evictTasks tells pods of one job to go, and why: for the action of a name. It returns at once.
// Until they are gone coming sessions know that they are on their way out.
func (s *reclaimSession) evictTasks(tasks []*api.TaskInfo, replaced bool, action string) {
	go s.action.evictor.evictPods(s.ssn.KubeClient(), tasks, replaced, action)
	for _, task := range tasks {
		s.policy.MarkEvicting(task)
	}
}

// rollBack leaves the session as it was.
func (e *simulation) rollBack(ssn *framework.Session) {
	e.placed.Discard()
	e.evicted.Discard()
	capacitycard.RestoreBound(ssn, e.bound)
}

// simulateEvictions lets everybody go in the session whom a plan takes.
func (s *reclaimSession) simulateEvictions(q *problem, plan *solver.Plan, e *simulation) error {
	for _, taking := range plan.Victims {
		p := &jobEviction{victimJob: q.victimJobs[taking.Job], indexes: taking.Pods, whole: taking.Whole}
		if p.whole {
			p.indexes = nil
			for i := range p.victimJob.tasks {
				p.indexes = append(p.indexes, i)
			}
		}
		s.addWork(workPerMove * len(p.indexes))
		for _, place := range p.indexes {
			task := p.victimJob.tasks[place]
			p.tasks = append(p.tasks, task)
			if task.Status == api.Bound {
				e.bound = append(e.bound, task)
			}
			if err := e.evicted.Evict(task, Name); err != nil {
				return fmt.Errorf("evict %s: %w", klog.KObj(task.Pod), err)
			}
		}
		e.evictions = append(e.evictions, p)
	}
	return nil
}

// pipelineTask promises a node to a pod if it would run there once everybody has
// gone: what is left of neighbours, ports, taints and volumes is asked again.
func (s *reclaimSession) pipelineTask(task *api.TaskInfo, node *api.NodeInfo, evicted bool, stmt *framework.Statement) error {
	s.addWork(workPerMove)
	if err := s.ssn.PrePredicateFn(task); err != nil {
		return fmt.Errorf("before looking for a node: %w", err)
	}
	if err := s.ssn.PredicateForAllocateAction(task, node); err != nil {
		return fmt.Errorf("node does not fit: %w", err)
	}
	if !task.InitResreq.LessEqual(node.FutureIdle(), api.Zero) {
		return fmt.Errorf("node has too little for %s", task.InitResreq)
	}
	if err := stmt.Pipeline(task, node.Name, evicted); err != nil {
		if undo := stmt.UnPipeline(task); undo != nil {
			klog.ErrorS(undo, "A placement could not be undone", "pod", klog.KObj(task.Pod))
		}
		return fmt.Errorf("place: %w", err)
	}
	return nil
}

// forgetVictimJobs leaves out the jobs that gave all they have, and lets everybody be
// looked at anew when one gave a part. A gang may leave cards over: they are for the jobs
// that wait, also for those for which earlier sessions found nothing.
func (s *reclaimSession) forgetVictimJobs(evictions []*jobEviction) {
	if len(evictions) > 0 {
		clear(s.unsolvable)
		clear(s.unsolvableSets)
	}
	for _, p := range evictions {
		for _, task := range p.tasks {
			s.action.searches.markChanged(s.indexOfNode(task.NodeName))
		}
	}
	gone := map[api.JobID]bool{}
	for _, p := range evictions {
		if !p.whole {
			clear(s.victimJobs)
			return
		}
		gone[p.victimJob.job.UID] = true
	}
	for key, victimJobs := range s.victimJobs {
		s.victimJobs[key] = slices.DeleteFunc(victimJobs, func(g *victimJob) bool { return gone[g.job.UID] })
	}
}

// completePartialEvictions takes the rest of jobs of which a scheduler that ended in between took only a
// part, for the action of a name: pods of a job below its minimum that were told a moment
// ago why they go, and not to go. A job is never left running below its minimum.
func (s *reclaimSession) completePartialEvictions(action string) {
	for _, job := range s.ssn.Jobs {
		rest := s.partlyEvictedTasks(job, action)
		if len(rest) == 0 {
			continue
		}
		klog.InfoS("A job was taken in part only, the rest of it goes too", "job", klog.KRef(job.Namespace, job.Name), "pods", len(rest))
		gone := framework.NewStatement(s.ssn)
		for _, task := range rest {
			if err := gone.Evict(task, action); err != nil {
				klog.ErrorS(err, "A pod could not be taken", "pod", klog.KObj(task.Pod))
			}
		}
		s.evictTasks(rest, s.action.isRecreated(job.Namespace, workload.VCJobOwner(rest[0].Pod)), action)
	}
}

// isRecreated reports whether Volcano's job controller replaces the pods that a vcjob, "" for
// none, gives, and counts no retry. A job that its own policy ends on an evicted pod has its
// pods deleted instead, so that the policy sees it. Where policies are unknown it replaces.
func (a *Action) isRecreated(namespace, vcjob string) bool {
	if vcjob == "" {
		return false
	}
	evictionPolicy, known := a.jobPolicies.EvictionPolicyFor(namespace, vcjob)
	return !known || !evictionPolicy.Terminates
}

// partlyEvictedTasks lists the pods of a job that were told why they go, and not to go,
// if the job runs below its minimum and the action may have taken the others:
// cardreclaim those of reclaimable queues, preempt those of any.
func (s *reclaimSession) partlyEvictedTasks(job *api.JobInfo, action string) []*api.TaskInfo {
	queue := s.ssn.Queues[job.Queue]
	if job.PodGroup == nil || queue == nil || action == Name && !queue.Reclaimable() || job.IsReady() && job.CheckTaskReady() {
		return nil
	}
	var rest []*api.TaskInfo
	for _, task := range job.Tasks {
		if isOnNode(task) && workload.IsEvictable(task.Pod, job.PodGroup.Annotations) && s.isMarkedForEviction(task.Pod) {
			rest = append(rest, task)
		}
	}
	return rest
}

// isMarkedForEviction reports whether a pod got the condition that is written before it is told
// to go, and not longer ago than the writers of a scheduler try for. Kubelets leave
// the condition alone, so that an older one says nothing about what is to be done now.
func (s *reclaimSession) isMarkedForEviction(pod *corev1.Pod) bool {
	since, evicted := workload.EvictedSince(pod)
	return evicted && s.now.Sub(since) < evictionTimeout+markTimeout
}
