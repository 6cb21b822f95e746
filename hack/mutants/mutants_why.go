package main

// reservationMutants break which enqueued jobs have reserved the cards that a workload waits for.
var reservationMutants = []mutant{
	{"internal/cli/why/reservations.go", `pods = r.found.namespacePods`, `pods = r.found.pods`, "a tenant's jobs have all their pods"},
	{"internal/cli/why/target.go", `if !workload.IsFinished(pod) {`, `if pod != nil {`, "a pod that has ended is counted once"},
	{"internal/cli/why/reservations.go", `[:max(0, min(missing, len(g.pending)))]`, `[:max(len(g.pending), min(missing, 0))]`, "only the minimum of a job is reserved"},
	{"internal/cli/why/reservations.go", `r.input.OrphanGroups = append(r.input.OrphanGroups, name)`, `r.input.OrphanGroups = append(r.input.OrphanGroups, r.input.PodGroup)`, "the gate names the PodGroup that is gone"},
}

// leaseMutants break what the Lease of the operator says about it.
var leaseMutants = []mutant{
	{"internal/cli/doctor/installation.go", `&& !c.hasLeadingOperator() && !c.HidesOperatorLease {`, `&& !c.hasLeadingOperator() {`, "a Lease that is hidden is not free"},
	{"internal/cli/version/command.go", `	if !leads {`, `	if false {`, "what led once has no version"},
}

// eventMutants break which events are about a workload.
var eventMutants = []mutant{
	{"internal/cli/why/events.go", `object.Name == o.reference.Name && o.isOwnGroup(object.APIVersion)`, `object.Name == o.reference.Name`, "two kinds of jobs may have one name"},
	{"internal/cli/why/events.go", `o.pods[object.Name] && !o.uids[object.UID]`, `o.pods[object.Name] && o.uids[object.UID]`, "a pod that was evicted is another one"},
}

// deletedQuotaMutants break what is said about a CardQuota that is being deleted.
var deletedQuotaMutants = []mutant{
	{"internal/cli/reader/quotas.go", `local.Status.State == v1alpha1.QueueDraining`, `local.Status.State == "deleted"`, "a tenant sees that a CardQuota is being deleted"},
	{"internal/cli/why/explanation/reasons.go", `if quota.DeletionTimestamp != nil {`, `if quota.DeletionTimestamp == nil {`, "only a CardQuota that is being deleted gives nothing"},
}

// availableMutants break how many cards top shows as free.
var availableMutants = []mutant{
	{"internal/cli/top/available.go", `case v1alpha1.ReasonParentNotFound, v1alpha1.ReasonParentCycle, v1alpha1.ReasonTooDeep:`, `case v1alpha1.ReasonParentNotFound:`, "no pod starts in a queue without a path to the top level"},
}

// operatorLeaseMutants break who leads by the Lease of the operator.
var operatorLeaseMutants = []mutant{
	{"internal/enforcement/operatorlease.go", `&& age < operatorLeaseAge`, `&& age < 99*operatorLeaseAge`, "an old Lease says nothing"},
}
