package main

// The rules of who preempts, what enqueue counts for it, and what is kept for it.
var preemptMutants = []mutant{
	{"internal/scheduler/preemption/belowminimum.go", `	return job.MinAvailable <= 1 && !isVCJob(job)`, `	return job.MinAvailable <= 1`, "a vcjob with a minimum of one is one job"},
	{"internal/scheduler/preemption/belowminimum.go", `	return job.MinAvailable <= 1 && !isVCJob(job)`, `	return true`, "a gang preempts other jobs only for its minimum"},
	{"internal/scheduler/preemption/belowminimum.go", `	return job.MinAvailable <= 1 && !isVCJob(job)`, `	return false`, "every pod of a Deployment preempts"},
	{"internal/scheduler/preemption/belowminimum.go", `	isOfLackingRole := roles[task.TaskRole] < job.TaskMinAvailable[task.TaskRole]`, `	isOfLackingRole := true`, "only the role that lacks pods preempts"},
	{"internal/scheduler/preemption/preemptors.go", `	return run.mayPreemptJobs(job) || run.mayPreemptInside(job)`, `	return run.mayPreemptJobs(job)`, "inside a job the minimum does not matter"},
	{"internal/scheduler/preemption/preempt.go", `		p.Volcano.Jobs = byQueue[queue]`, ``, "each queue is served alone"},
	{"internal/scheduler/victims/missing.go", `max(0, used-most)`, `max(0, used-most-1000)`, "preempt borrows nothing for which another queue waits"},
	{"internal/scheduler/preemption/preempt.go", ` && s.DeservesCard(r, name)`, ``, "a queue that would borrow keeps no other one from borrowing"},
	{"internal/scheduler/victims/selection.go", ` || broken[task.Job]`, ``, "a gang breaks only if its elastic pods are evicted, too"},
	{"internal/scheduler/enqueue/preemptableusage.go", `class.Value < lowest.Value`, `class.Value > lowest.Value`, "of several default classes the lowest counts"},
	{"internal/scheduler/capacitycard/predicate.go", `	if c.preemption.IsRunning() || len(`, `	if len(`, "preempt looks at all nodes"},
	{"internal/scheduler/enqueue/preemptableusage.go", `job.Priority < key.priority && v.preemption.IsEvictableAsAWhole(job)`, `v.preemption.IsEvictableAsAWhole(job)`, "a vote counts only jobs of lower priority"},
	{"internal/scheduler/preemption/candidates.go", ` && run.canEvictWholeJob(job)`, ` && (true || run.canEvictWholeJob(job))`, "a vote counts no gang that stays"},
	{"internal/scheduler/enqueue/preemptableusage.go", `	if !conf.EnabledActionMap[schedulerconfig.Preempt] || `, `	if conf.EnabledActionMap[schedulerconfig.Preempt+"?"] || `, "a vote counts others only with the action preempt"},
	{"internal/scheduler/enqueue/preemptableusage.go", `		if gang.NeverPreempts(task) {`, `		if gang.NeverPreempts(task) && false {`, "a pod that never preempts counts no others"},
	{"internal/scheduler/keptcards/preempted.go", `		return job.Priority <= w.job.Priority`, `		return job.Priority < w.job.Priority`, "an equal job gets no kept cards"},
	{"internal/scheduler/keptcards/preempted.go", `		return job.Priority <= w.job.Priority`, `		return true`, "a higher job gets kept cards"},
	{"internal/scheduler/keptcards/preempted.go", `	case w.job.Queue != job.Queue:
		return true`, `	case w.job.Queue != job.Queue:
		return job.Priority <= w.job.Priority`, "no other queue gets kept cards"},
	{"internal/scheduler/keptcards/period.go", `p.Now().Sub(since) >= keptPeriod`, `p.Now().Sub(since) >= 2*keptPeriod`, "cards are kept for five minutes"},
	{"internal/scheduler/keptcards/preempted.go", `		released.Remove(preemptor.charge)`, `		_ = preemptor.charge`, "quota is kept as well"},
	{"internal/scheduler/victims/missing.go", `reused = min(lack, int64(missing[what]-missing[UnreclaimableQuota(what)]))`, `_ = lack`, "what is missing in a tree and what cannot be reclaimed are not added up"},
	{"internal/scheduler/enqueue/preemptableusage.go", `cmp.Or(spec.PriorityClassName, class)`, `cmp.Or(class, spec.PriorityClassName)`, "the class of a template comes before that of its job"},
	{"internal/scheduler/enqueue/preemptableusage.go", `			return *spec.PreemptionPolicy == corev1.PreemptNever`, `			return false`, "a template that never preempts counts no others"},
	{"internal/scheduler/keptcards/kept.go", `Memory: request.Memory, IsUnreclaimable: request.IsUnreclaimable}`, `Memory: request.Memory}`, "kept cards count as what cannot be reclaimed"},
	{"internal/scheduler/keptcards/kept.go", `	slices.SortFunc(jobs, func(a, b jobWithFreedCards) int { return compare(a.tasks[0], b.tasks[0]) })`, ``, "a lowered quota ends what was freed last"},
	{"internal/scheduler/victims/missing.go", `if insufficient.Kind == quota.Guaranteed {`, `if false {`, "a pod preempts no more than guarantees of others need"},
	{"internal/scheduler/preemption/nominatednodes.go", `p.IsBeingEvicted(task) && !p.run.evicts(task)`, `p.IsBeingEvicted(task)`, "no pod waits for what is just evicted for others of its gang"},
	{"internal/scheduler/victims/released.go", `if other.NodeName != victim.NodeName {`, `if false {`, "a gang that is evicted releases its quota on all nodes"},
	{"internal/scheduler/capacitycard/allocate.go", `append(a.preemption.TasksToComplete(), task)...`, `task`, "a pod gets the quota of the whole gang"},
	{"internal/scheduler/preemption/cheapestnode.go", `cmp.Or(cmp.Compare(c.job, other.job), `, `cmp.Or(`, "a gang is evicted before elastic pods of a higher priority"},
	{"internal/scheduler/preemption/cheapestnode.go", `CompareBool(c.breaksGang, other.breaksGang), `, ``, "elastic pods are evicted before a gang of their priority"},
	{"internal/scheduler/capacitycard/predicate.go", `quotaKeptForPreemptors, cardsAwaitedByOthers:`, `quotaKeptForPreemptors:`, "a job preempts beside cards that are kept for a gang"},
	{"internal/scheduler/keptcards/idle.go", `-min(free, float64(awaited)*snapshot.Milli)`, `-min(free, 0*snapshot.Milli)`, "a preemptor counts on no card that is kept for a gang"},
	{"internal/scheduler/keptcards/idle.go", `	return known && k.AwaitedOn(r, node) > 0`, `	return known && k.AwaitedOn(r, node) < 0`, "all victims go beside cards that are kept for a gang"},
	{"internal/scheduler/victims/missing.go", `MissingResources(task.InitResreq, s.kept.IdleFor(task, node))`, `MissingResources(task.InitResreq, s.FutureIdleOn(node))`, "a second preemptor does not count on kept cards"},
}

// How long freed cards are kept while victims end.
var keptPeriodMutants = []mutant{
	{"internal/scheduler/keptcards/period.go", `		since = p.lastVictimSeen(nomination.plan)`, `		_ = p.lastVictimSeen(nomination.plan)`, "cards are kept until the last victim of the plan has ended"},
	{"internal/scheduler/keptcards/period.go", `	return !now.Before(deleted.Time) //`, `	return false //`, "a victim that does not end keeps cards no longer than its grace period"},
	{"internal/scheduler/keptcards/period.go", `		plan.addVictimsOf(nomination.plan)`, `		_ = nomination`, "a second plan waits for the victims of the first one"},
	{"internal/scheduler/keptcards/reclaimed.go", `		maps.Copy(from, nomination.from)`, `		_ = nomination`, "a second plan keeps cards from the queues that lost them by the first one"},
	{"internal/scheduler/keptcards/period.go", `		return now.Sub(plan.began) >= snapshot.EvictionTimeout`, `		return false`, "a victim that is not deleted keeps no cards"},
	{"internal/scheduler/keptcards/period.go", `		left = append(left, victim)
		if !p.isVictimOverdue(task, plan) {`, `		if !p.isVictimOverdue(task, plan) {
			left = append(left, victim)`, "a victim that is deleted late keeps cards again"},
}

// What a job that preempts counts as elastic.
var replacedElasticMutants = []mutant{
	{"internal/quota/inqueue.go", `	for _, e := range removed {
		c.removeElastic(e)
	}
`, ``, "what a job gives is counted once"},
}

// What a plan of cardreclaim counts as free.
var keptFromReclaimMutants = []mutant{
	{"internal/scheduler/cardreclaim/problem.go", `b.kept.IdleFor(pending, node)`, `node.FutureIdle()`, "a plan counts no cards that are kept for others"},
}
