package cardreclaim

// This file tries a plan of the solver in the session, and carries it out if Volcano's plugins accept it. A plan says which
// pods are evicted and on which nodes pending pods are pipelined, which is Volcano's word for placing a pod where others
// must leave first. addWork counts work, which a budget bounds.

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/framework"

	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/scheduler/gang"
	"cardquota.dev/operator/internal/scheduler/snapshot"
	"cardquota.dev/operator/internal/scheduler/solver"
	"cardquota.dev/operator/internal/schedulerconfig"
	"cardquota.dev/operator/internal/workload"
)

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

// jobEviction is the eviction of one job, or of some of its pods.
type jobEviction struct {
	victimJob *victimJob
	// indexes are those of the victims among the job's tasks, tasks are the victims.
	indexes []int
	tasks   []*api.TaskInfo
	whole   bool
}

// victims returns the evicted pods of all jobs.
func (tried *triedPlan) victims() (tasks []*api.TaskInfo) {
	for _, eviction := range tried.evictions {
		tasks = append(tasks, eviction.tasks...)
	}
	return tasks
}

// planApplier carries out a plan of the solver, and records it in events and metrics.
type planApplier struct {
	*searchSession
	victims  *victimFinder
	finder   *nodeFinder
	problems *problemBuilder
	unsolved *unsolvablePods
}

// applyPlan tries a plan in the session: all evictions, then the places of the pending pods. If all of them
// fit, it evicts the victims and returns true. Otherwise it leaves the session unchanged, and returns the
// node that turned out not to fit, nil if something else failed. allOrNone means that the pods include all
// that the job needs for its minimum.
func (a *planApplier) applyPlan(job *api.JobInfo, p *problem, plan *solver.Plan, allOrNone bool) (*unfitNode, bool) {
	tried := &triedPlan{evictions: newEvictions(p, plan), evicted: framework.NewStatement(a.Volcano), placed: framework.NewStatement(a.Volcano)}
	// The tried evictions release the charges that show who has borrowed, so borrowers are found before.
	borrowers := a.borrowersOf(tried.evictions)
	if err := a.tryEvictions(tried); err != nil {
		klog.ErrorS(err, "Cards cannot be reclaimed", "job", klog.KRef(job.Namespace, job.Name))
		tried.rollBack(a.Volcano)
		return nil, false
	}

	for i, nodes := range plan.Places {
		if unfit := a.pipelineTasks(p.podSets[i], nodes, tried); unfit != nil {
			tried.rollBack(a.Volcano)
			return unfit, false
		}
	}

	// Other plugins may keep the gang from starting, and then its victims would end in vain.
	if allOrNone && !a.Volcano.JobPipelined(job) {
		tried.rollBack(a.Volcano)
		return nil, false
	}

	// Evict writes the evictions, so only the places are committed.
	tried.placed.Commit()
	for _, eviction := range tried.evictions {
		a.search.evictions.Evict(a.evictions, eviction.tasks, schedulerconfig.CardReclaim)
	}

	// The freed cards are kept for the pipelined pods, until these run.
	if len(tried.evictions) > 0 {
		a.kept.KeepReclaimedCards(p.pipelinedTasks(), tried.victims())
	}

	// The borrowers would borrow the same cards again at once, and lose them again.
	for queue, names := range borrowers {
		a.rules.RecordReclaimed(api.QueueID(queue), names...)
	}

	a.forgetVictimJobs(tried.evictions)
	a.recordEvictions(job, a.reclaimerKeyOf(p.podSets).serviceType, tried.evictions, plan)

	return nil, true
}

// pipelinedTasks returns the pods of a problem that have got a node in the session.
func (p *problem) pipelinedTasks() (pipelined []*api.TaskInfo) {
	for _, set := range p.podSets {
		for _, task := range set.tasks {
			if task.Status == api.Pipelined {
				pipelined = append(pipelined, task)
			}
		}
	}
	return pipelined
}

// pipelineTasks places pods of a pod set in the session, one on each of nodes. Pods that spread may fit only
// after others are placed, so it tries nodes that do not fit again while others do and the budget
// lasts. It returns a node that does not fit in the end, nil if all do.
func (a *planApplier) pipelineTasks(set *podSet, nodes []int, tried *triedPlan) *unfitNode {
	accepted := map[int]int{} // pods by node
	next := 0                 // the pod that has no node yet; the pods are alike
	for len(nodes) > 0 {
		var left []int
		for _, node := range nodes {
			if err := a.pipelineTask(set.tasks[next], a.nodes[node], len(tried.evictions) > 0, tried.placed); err != nil {
				klog.V(4).InfoS("Pod would not run on the node", "pod", klog.KObj(set.tasks[next].Pod), "node", a.nodes[node].Name, "err", err)
				left = append(left, node)
				continue
			}
			accepted[node]++
			next++
		}

		if len(left) == len(nodes) || (len(left) > 0 && a.jobExhausted()) {
			unfit := left[0]
			return &unfitNode{
				podSet: set, node: unfit, fits: accepted[unfit], waits: a.finder.waitsForTerminating(set, a.nodes[unfit]),
			}
		}
		nodes = left
	}

	return nil
}

// rollBack undoes in the session all that was tried of a plan.
func (tried *triedPlan) rollBack(ssn *framework.Session) {
	tried.placed.Discard()
	tried.evicted.Discard()
	snapshot.RestoreBound(ssn, tried.bound)
}

// newEvictions returns the evictions of a plan by job.
func newEvictions(p *problem, plan *solver.Plan) []*jobEviction {
	evictions := make([]*jobEviction, len(plan.Victims))
	for i, victims := range plan.Victims {
		eviction := &jobEviction{victimJob: p.victimJobs[victims.Job], indexes: victims.Pods, whole: victims.Whole}
		if eviction.whole {
			eviction.indexes = nil
			for index := range eviction.victimJob.tasks {
				eviction.indexes = append(eviction.indexes, index)
			}
		}

		for _, index := range eviction.indexes {
			eviction.tasks = append(eviction.tasks, eviction.victimJob.tasks[index])
		}
		evictions[i] = eviction
	}
	return evictions
}

// borrowersOf returns the queues that lose cards with some evictions and use more of them than they
// deserve, with the names of those cards, so that they do not borrow again at once. If CPU and memory are reclaimed too,
// it has these as well. Flat queues borrow nothing.
func (a *planApplier) borrowersOf(evictions []*jobEviction) map[string][]quota.Resource {
	borrowers := map[string][]quota.Resource{}
	for _, eviction := range evictions {
		for _, task := range eviction.tasks {
			for _, name := range a.problems.reclaimedNames(a.Ledger.Charged(string(task.UID))) {
				for _, queue := range eviction.victimJob.path {
					if !slices.Contains(borrowers[queue], name) && a.Ledger.AboveDeserved(queue, name) > 0 {
						borrowers[queue] = append(borrowers[queue], name)
					}
				}
			}
		}
	}

	return borrowers
}

// tryEvictions evicts the victims of a tried plan in the session only. After an error, the caller rolls that back.
func (a *planApplier) tryEvictions(tried *triedPlan) error {
	victims := tried.victims()
	a.addWork(workPerMove * len(victims))
	for _, task := range victims {
		// Volcano's Discard would leave the pod as Running, so rollBack restores these.
		if task.Status == api.Bound {
			tried.bound = append(tried.bound, task)
		}

		if err := tried.evicted.Evict(task, schedulerconfig.CardReclaim); err != nil {
			return fmt.Errorf("evict %s: %w", klog.KObj(task.Pod), err)
		}
	}
	return nil
}

// pipelineTask places a pod on a node in the session if it would run there after the evictions, else it returns why not.
// It asks all of Volcano's plugins again, because the solver knows only amounts. hasVictims reports whether the plan
// evicts any pod.
func (a *planApplier) pipelineTask(task *api.TaskInfo, node *api.NodeInfo, hasVictims bool, stmt *framework.Statement) error {
	a.addWork(workPerMove)
	if err := a.Volcano.PrePredicateFn(task); err != nil {
		return fmt.Errorf("before the search for a node: %w", err)
	}
	if err := a.Volcano.PredicateForAllocateAction(task, node); err != nil {
		return fmt.Errorf("node does not fit: %w", err)
	}
	if !task.InitResreq.LessEqual(node.FutureIdle(), api.Zero) {
		return fmt.Errorf("node has too little for %s", task.InitResreq)
	}

	// Volcano tries the nominated node of a pod first, and Pipeline writes another one only if told of
	// evictions. A pod that moves must not keep its old nomination: there it could take the place of another
	// pod of its gang.
	nominated := task.Pod.Status.NominatedNodeName
	isMoved := nominated != "" && nominated != node.Name
	if err := stmt.Pipeline(task, node.Name, hasVictims || isMoved); err != nil {
		// Volcano changes the session before it fails, and leaves the undoing to its caller.
		if undo := stmt.UnPipeline(task); undo != nil {
			klog.ErrorS(undo, "Placement could not be undone", "pod", klog.KObj(task.Pod))
		}
		return fmt.Errorf("place: %w", err)
	}

	// From now on the pod keeps later ones off its node.
	if a.finder.antiAffinityNodes != nil && countAntiAffinityTerms(task.Pod) > 0 {
		a.finder.antiAffinityNodes.Insert(node.Name)
	}

	return nil
}

// forgetVictimJobs drops what evictions make untrue in the following searches. An evicted gang may free more
// than the reclaimer takes. So no pod counts as unsolvable any more, and the nodes of the victims count as
// changed. Jobs that were evicted as a whole are victim jobs no more. If a job lost only some pods, all
// victim jobs are dropped, because their elastic pods must be counted again.
func (a *planApplier) forgetVictimJobs(evictions []*jobEviction) {
	if len(evictions) > 0 {
		clear(a.unsolved.unsolvable)
		clear(a.unsolved.unsolvableSets)
	}

	for _, eviction := range evictions {
		for _, task := range eviction.tasks {
			a.search.searches.markChanged(a.indexOfNode(task.NodeName))
		}
	}

	gone := map[api.JobID]bool{}
	for _, eviction := range evictions {
		if !eviction.whole {
			clear(a.victims.victimJobs)
			return
		}
		gone[eviction.victimJob.job.UID] = true
	}

	for key, victimJobs := range a.victims.victimJobs {
		a.victims.victimJobs[key] = slices.DeleteFunc(victimJobs, func(victim *victimJob) bool { return gone[victim.job.UID] })
	}
}

// completePartialEvictions evicts the rest of jobs of which a scheduler evicted only a part
// before its process ended. No job may stay below its minimum. action is the name of the action that
// evicts.
func (a *planApplier) completePartialEvictions(action string) {
	for _, job := range a.Volcano.Jobs {
		rest := a.partlyEvictedTasks(job, action)
		if len(rest) == 0 {
			continue
		}

		klog.InfoS("Job was evicted only in part, the rest of it is evicted too", "job", klog.KRef(job.Namespace, job.Name), "pods", len(rest))
		gone := framework.NewStatement(a.Volcano) // never committed: it changes the session, and Evict writes
		for _, task := range rest {
			if err := gone.Evict(task, action); err != nil {
				klog.ErrorS(err, "Pod could not be evicted", "pod", klog.KObj(task.Pod))
			}
		}

		a.search.evictions.Evict(a.evictions, rest, action)
	}
}

// partlyEvictedTasks lists the pods of a job below its minimum that have the condition of an
// eviction, but were not evicted. The action cardreclaim evicts only from reclaimable queues, so it completes only these.
func (a *planApplier) partlyEvictedTasks(job *api.JobInfo, action string) []*api.TaskInfo {
	queue := a.Volcano.Queues[job.Queue]
	if job.PodGroup == nil || queue == nil || (action == schedulerconfig.CardReclaim && !queue.Reclaimable()) {
		return nil
	}
	if job.IsReady() && job.CheckTaskReady() {
		return nil
	}

	var rest []*api.TaskInfo
	for _, task := range job.Tasks {
		if gang.IsOnNode(task.Status) && workload.IsEvictable(task.Pod, job.PodGroup.Annotations) && a.isMarkedForEviction(task.Pod) {
			rest = append(rest, task)
		}
	}
	return rest
}

// isMarkedForEviction reports whether a pod got the condition that precedes its eviction so recently that the scheduler
// may not have evicted it yet. Kubelets never remove the condition, so an older one
// means nothing.
func (a *planApplier) isMarkedForEviction(pod *corev1.Pod) bool {
	since, evicted := workload.EvictedSince(pod)
	return evicted && a.now.Sub(since) < deletionTimeout+markTimeout
}
