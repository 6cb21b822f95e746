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

// unfit is a node that does not take a claim's pod although it has room.
type unfit struct {
	claim *claim
	node  int
	// beside is how many of the claim's pods it takes.
	beside int
	// waits tells that it will, once those are gone that are on their way out.
	waits bool
}

// eviction is what goes for a job, on its way through the session.
type eviction struct {
	// evicted is never committed: Volcano would write to each pod once, and leave a
	// part of a gang running where that fails. The manner tells them to go instead.
	evicted *framework.Statement
	// placed are the pods that nodes are promised to.
	placed *framework.Statement
	// bound lists those that go and had not started to run.
	bound  []*api.TaskInfo
	parted []*parting
}

// parting is what one job gives.
type parting struct {
	giver *giver
	// places are those of the pods that go among the giver's, tasks are these pods.
	places []int
	tasks  []*api.TaskInfo
	whole  bool
}

// carryOut tries a plan in the session: first everybody goes, then the pods that
// wait must really fit, and only then anybody is told to go. If a node turns out
// not to fit it is returned, and the session is as it was.
func (w *wave) carryOut(job *api.JobInfo, q *question, plan *solver.Plan, all bool) (*unfit, bool) {
	e := &eviction{evicted: framework.NewStatement(w.ssn), placed: framework.NewStatement(w.ssn)}
	if err := w.evict(q, plan, e); err != nil {
		klog.ErrorS(err, "Cards cannot be taken back", "job", klog.KRef(job.Namespace, job.Name))
		e.discard(w.ssn)
		return nil, false
	}
	for i, nodes := range plan.Place {
		if unfit := w.promise(q.claims[i], nodes, e); unfit != nil {
			e.discard(w.ssn)
			return unfit, false
		}
	}
	if all && !w.ssn.JobPipelined(job) {
		e.discard(w.ssn)
		return nil, false
	}
	e.placed.Commit()
	for _, p := range e.parted {
		w.remove(p.tasks, w.action.isReplaced(p.giver.job.Namespace, workload.VCJobOwner(p.giver.tasks[0].Pod)), Name)
	}
	for _, c := range q.claims {
		for _, task := range c.tasks {
			if len(e.parted) > 0 && task.Status == api.Pipelined {
				w.tide.Hold(task) // what is freed is kept for it
			}
		}
	}
	w.forget(e.parted)
	w.tell(job, e.parted, plan)
	return nil, true
}

// promise gives a claim's pods their nodes. Pods that must spread may fit only
// after others have come elsewhere, so who does not fit is tried again as long as
// others do and the effort for it lasts. It returns a node that does not fit in the end, nil when all do.
func (w *wave) promise(c *claim, nodes []int, e *eviction) *unfit {
	there := map[int]int{}
	next := 0
	for len(nodes) > 0 {
		var left []int
		for _, node := range nodes {
			if err := w.pipeline(c.tasks[next], w.list[node], len(e.parted) > 0, e.placed); err != nil {
				klog.V(4).InfoS("A pod would not run there", "pod", klog.KObj(c.tasks[next].Pod), "node", w.list[node].Name, "err", err)
				left = append(left, node)
				continue
			}
			there[node]++
			next++
		}
		if len(left) == len(nodes) || len(left) > 0 && w.exhausted() {
			return &unfit{c, left[0], there[left[0]], w.waitsFor(c, w.list[left[0]])}
		}
		nodes = left
	}
	return nil
}

// remove tells pods of one job to go, and why: for the action of a name. It returns at once.
// Until they are gone coming sessions know that they are on their way out.
func (w *wave) remove(tasks []*api.TaskInfo, replaced bool, action string) {
	go w.action.manner.inTwoSteps(w.ssn.KubeClient(), tasks, replaced, action)
	for _, task := range tasks {
		w.tide.Leaves(task)
	}
}

// discard leaves the session as it was.
func (e *eviction) discard(ssn *framework.Session) {
	e.placed.Discard()
	e.evicted.Discard()
	capacitycard.BindAgain(ssn, e.bound)
}

// evict lets everybody go in the session whom a plan takes.
func (w *wave) evict(q *question, plan *solver.Plan, e *eviction) error {
	for _, taking := range plan.Take {
		p := &parting{giver: q.givers[taking.Job], places: taking.Pods, whole: taking.Whole}
		if p.whole {
			p.places = nil
			for i := range p.giver.tasks {
				p.places = append(p.places, i)
			}
		}
		w.spend(effortOfMove * len(p.places))
		for _, place := range p.places {
			task := p.giver.tasks[place]
			p.tasks = append(p.tasks, task)
			if task.Status == api.Bound {
				e.bound = append(e.bound, task)
			}
			if err := e.evicted.Evict(task, Name); err != nil {
				return fmt.Errorf("evict %s: %w", klog.KObj(task.Pod), err)
			}
		}
		e.parted = append(e.parted, p)
	}
	return nil
}

// pipeline promises a node to a pod if it would run there once everybody has
// gone: what is left of neighbours, ports, taints and volumes is asked again.
func (w *wave) pipeline(task *api.TaskInfo, node *api.NodeInfo, evicted bool, stmt *framework.Statement) error {
	w.spend(effortOfMove)
	if err := w.ssn.PrePredicateFn(task); err != nil {
		return fmt.Errorf("before looking for a node: %w", err)
	}
	if err := w.ssn.PredicateForAllocateAction(task, node); err != nil {
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

// forget leaves out the jobs that gave all they have, and lets everybody be
// looked at anew when one gave a part. A gang may leave cards over: they are for the jobs
// that wait, also for those for which earlier sessions found nothing.
func (w *wave) forget(parted []*parting) {
	if len(parted) > 0 {
		clear(w.hopeless)
		clear(w.together)
	}
	for _, p := range parted {
		for _, task := range p.tasks {
			w.action.attempts.free(w.placeOf(task.NodeName))
		}
	}
	gone := map[api.JobID]bool{}
	for _, p := range parted {
		if !p.whole {
			clear(w.givers)
			return
		}
		gone[p.giver.job.UID] = true
	}
	for key, givers := range w.givers {
		w.givers[key] = slices.DeleteFunc(givers, func(g *giver) bool { return gone[g.job.UID] })
	}
}

// finish takes the rest of jobs of which a scheduler that ended in between took only a
// part, for the action of a name: pods of a job below its minimum that were told a moment
// ago why they go, and not to go. A job is never left running below its minimum.
func (w *wave) finish(action string) {
	for _, job := range w.ssn.Jobs {
		rest := w.unfinished(job, action)
		if len(rest) == 0 {
			continue
		}
		klog.InfoS("A job was taken in part only, the rest of it goes too", "job", klog.KRef(job.Namespace, job.Name), "pods", len(rest))
		gone := framework.NewStatement(w.ssn)
		for _, task := range rest {
			if err := gone.Evict(task, action); err != nil {
				klog.ErrorS(err, "A pod could not be taken", "pod", klog.KObj(task.Pod))
			}
		}
		w.remove(rest, w.action.isReplaced(job.Namespace, workload.VCJobOwner(rest[0].Pod)), action)
	}
}

// isReplaced reports whether Volcano's job controller replaces the pods that a vcjob, "" for
// none, gives, and counts no retry. A job that its own policy ends on an evicted pod has its
// pods deleted instead, so that the policy sees it. Where policies are unknown it replaces.
func (a *Action) isReplaced(namespace, vcjob string) bool {
	if vcjob == "" {
		return false
	}
	habit, known := a.jobs.HabitOf(namespace, vcjob)
	return !known || !habit.Terminates
}

// unfinished lists the pods of a job that were told why they go, and not to go,
// if the job runs below its minimum and the action may have taken the others:
// cardreclaim those of reclaimable queues, preempt those of any.
func (w *wave) unfinished(job *api.JobInfo, action string) []*api.TaskInfo {
	queue := w.ssn.Queues[job.Queue]
	if job.PodGroup == nil || queue == nil || action == Name && !queue.Reclaimable() || job.IsReady() && job.CheckTaskReady() {
		return nil
	}
	var rest []*api.TaskInfo
	for _, task := range job.Tasks {
		if onNode(task) && workload.IsEvictable(task.Pod, job.PodGroup.Annotations) && w.sentenced(task.Pod) {
			rest = append(rest, task)
		}
	}
	return rest
}

// sentenced reports whether a pod got the condition that is written before it is told
// to go, and not longer ago than the writers of a scheduler try for. Kubelets leave
// the condition alone, so that an older one says nothing about what is to be done now.
func (w *wave) sentenced(pod *corev1.Pod) bool {
	since, evicted := workload.EvictedSince(pod)
	return evicted && w.now.Sub(since) < patience+unmarked
}
