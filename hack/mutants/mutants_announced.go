package main

// announcedMutants break what a Volcano job requests before its pods exist.
var announcedMutants = []mutant{
	{"internal/workload/vcjob.go", `			defaultTo(&resources.Requests, resources.Limits)`, `			defaultTo(&resources.Requests, nil)`, "limits of a template count as requests"},
	{"internal/workload/vcjob.go", `	if len(names) == 0 {`, `	if len(names) < 99 {`, "a job without pods waits for the cards that its templates name"},
	{"internal/workload/vcjob.go", `	isBelowTasks := left < ofTasks`, `	isBelowTasks := left <= ofTasks`, "the minimum of a task counts in a job that needs all of them"},
	{"internal/workload/vcjob.go", `priorityOf(tasks[b].Template`, `priorityOf(tasks[a].Template`, "the tasks of a higher priority come first"},
}

// statedMutants break what is taken from the scheduler's words for a job without pods.
var statedMutants = []mutant{
	{"internal/waiting/grouprequest.go", `&& condition.TransitionID == why.TransitionID`, ``, "a refusal for programs counts only beside the text of the same session"},
	{"internal/waiting/grouprequest.go", `	if stated.Limit == 0 {`, `	if stated.Limit < 0 {`, "of cards without quota the one that is named is no choice"},
	{"internal/waiting/grouprequest.go", `refusal != nil || isWritten`, `refusal != nil`, "card.request says all"},
}

// voteMutants break the memory of refused requests, and what is kept of nodes and searches.
var voteMutants = []mutant{
	{"internal/scheduler/capacitycard/allocate.go", `	a.enqueue.ForgetRefusals() // quota is released`, ``, "a refused request is checked again after an eviction"},
	{"internal/scheduler/enqueue/podgrouprequest.go", `found.UID != metav1.GetControllerOf`, `found.UID == "" && found.UID != metav1.GetControllerOf`, "another job of the same name says nothing"},
}

// searchMutants break what cardreclaim keeps of nodes, victims and failed searches.
var searchMutants = []mutant{
	{"internal/scheduler/cardreclaim/podsets.go", `labels.Set(pod.Labels).String()`, `""`, "the labels of a pod decide which pods conflict with it"},
	{"internal/scheduler/cardreclaim/searchsession.go", `return victimKey{priority: s.Volcano.Queues[key.queue].Queue.Spec.Priority, serviceType: key.serviceType}`, `return victimKey{serviceType: key.serviceType}`, "queues of another priority have other victims"},
	{"internal/scheduler/cardreclaim/search.go", `float64(s.failedWork)`, `float64(s.totalWork())`, "searches that placed their pods cause no pause"},
	{"internal/scheduler/cardreclaim/preemptsearches.go", `|| began.Before(p.restsUntil) {`, `|| began.Before(p.restsUntil) && false {`, "preempt rests after a long search"},
}
