package main

// What the metrics show. Each table has the tests of one package.
var (
	queueMetricsMutants = []mutant{
		{"internal/controller/cardquota/metrics.go", `	return c.Quota == 0 && c.Used == 0 && c.Physical == 0`, `	return c.Quota == 0 && c.Physical == 0`, "metrics: a card in use has its name"},
		{"internal/controller/cardquota/metrics.go", `			unknown.Pending += c.Pending`, `			unknown.Pending = c.Pending`, "metrics: unknown cards add up"},
		{"internal/controller/cardquota/metrics.go", `	if m.isInTree {`, `	if m.isInTree || m.Used > 0 {`, "metrics: flat queues deserve nothing"},
		{"internal/controller/cardquota/metrics.go", `	gauge(pendingDesc, m.Pending)`, `	gauge(pendingDesc, m.Pending+m.Used)`, "metrics: pending cards are not in use"},
		{"internal/controller/cardquota/metrics.go", `c.Quota > 0 || c.Deserved > 0 || c.Used > 0 || c.Pending > 0`, `true`, "metrics: zeros have no series"},
		{"internal/controller/cardquota/cardsinuse.go", `		for _, amount := range pod.Charge.DistinctCards() {
			key`, `		for _, amount := range pod.Charge.Cards {
			key`, "metrics: a card that may be one of two is billed once"},
		{"internal/controller/cardquota/cardsinuse.go", `		for _, amount := range pod.Charge.DistinctCards() {
			usages`, `		for _, amount := range pod.Charge.Cards {
			usages`, "metrics: a card that may be one of two is credited once"},
		{"internal/controller/cardquota/cardsinuse.go", `if since.IsZero() {`, `if false {`, "metrics: a pod without a date is not credited"},
		{"internal/controller/cardquota/cardsinuse.go", `; exists {`, `; exists || pod.Charge.Queue != "" {`, "metrics: a pod adds no queue to a bill"},
	}
	bindingMetricsMutants = []mutant{
		{"internal/queueusage/bindings.go", `Cards: bound.Charge.DistinctCards(),`, `Cards: bound.Charge.Cards,`, "metrics: a pod that may use one of two cards is bound once"},
		{"internal/queueusage/usage.go", `last == nil && len(charge.Cards) > 0`, `last == nil && charge.Queue != ""`, "metrics: a pod without cards has no waiting time"},
		{"internal/queueusage/usage.go", `c.input.LastCharges != nil && last == nil`, `last == nil`, "metrics: what the first count finds was bound before"},
	}
	allowanceMetricsMutants = []mutant{
		{"internal/cardquota/overallocation.go", `!known || wasAllowed {`, `!known || !wasAllowed {`, "metrics: one CardQuota that warns keeps the alert"},
	}
	billedPodsMutants = []mutant{
		{"internal/workload/pod.go", `pod.DeletionTimestamp == nil || isNodeReady ||`, `pod.DeletionTimestamp == nil ||`, "metrics: a terminating pod runs on"},
		{"internal/workload/pod.go", `isNodeReady || pod.DeletionTimestamp.After(now))`, `true)`, "metrics: a pod on a lost node ends with its grace period"},
		{"internal/queueusage/billedpods.go", `		charges[pod.Pod.UID] = pod.Charge`, `		_ = charges`, "metrics: a terminating pod stays in its queue"},
	}
	sessionMetricsMutants = []mutant{
		{"internal/scheduler/capacitycard/plugin.go", `		found.pods += usage.Pods`, `		found.pods += len(usage.Used)`, "metrics: each charged pod counts"},
		{"internal/scheduler/capacitycard/metrics.go", `		requested[string(name)] = count`, `		requested[string(name)] = 0`, "metrics: what is placed is requested, too"},
		{"internal/scheduler/capacitycard/plugin.go", `if task.SchGated || !isKnown`, `if !isKnown`, "metrics: a gated pod requests nothing"},
		{"internal/scheduler/capacitycard/metrics.go", `float64(q.usage.MilliCPU)/1000`, `float64(q.usage.MilliCPU)`, "metrics: CPU is in cores"},
		{"internal/scheduler/capacitycard/metrics.go", `max(0, int64(count)-deserved)`, `int64(count)-deserved`, "metrics: what is borrowed is not negative"},
		{"internal/scheduler/capacitycard/metrics.go", `	slices.Sort(texts)`, `	slices.Reverse(texts)`, "metrics: alternatives are in alphabetical order"},
	}
	reclaimMetricsMutants = []mutant{
		{"internal/scheduler/cardreclaim/events.go", `	if eviction.whole {
		c.jobs.`, `	if len(eviction.indexes) > 0 {
		c.jobs.`, "metrics: a job that runs on is not reclaimed"},
		{"internal/scheduler/cardreclaim/events.go", `Add(float64(len(eviction.indexes)))`, `Inc()`, "metrics: each reclaimed pod counts"},
	}
)
