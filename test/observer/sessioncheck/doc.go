// Package sessioncheck judges what the scheduler's sessions did: whether what can start
// does start (progress.go), whether what waits says the truth (truth.go), and
// whether placements stay within CPU, memory and the nodes (capacity.go). It is
// told of every change of the cluster in order and of the number of closed
// sessions, reads no clock, and knows the rules from package rule alone.
//
// # Progress
//
// A unit is a gang that lacks pods, a pod above its gang's minimum, or a PodGroup
// without pods that waits to be enqueued. A unit that fits its queue's quota and
// the nodes, beside everything that may stand ahead of it, must make progress
// within Options.Sessions sessions that opened after that became true. A pod that
// is gone gives its place back in the same way, so this holds after evictions too.
//
// What stands ahead of a unit is counted against it in full: every waiting unit
// that could start now, or that holds a reservation in the same queue as
// docs/scheduler.md describes it. A unit that can never fit its queue's quota
// stands ahead of none, and one that fits its quota but no nodes does so for five
// minutes after it last made progress.
//
// Out of scope, and never an alarm: pods without cards; gangs whose pods ask for
// different things; pods with affinity, spread constraints, host ports, volumes
// that are claimed, resource claims or a nominated node; nodes with pods that
// keep others away; network topologies; several tasks with minimums of their own
// unless all pods are needed; queues below another parent than root.
//
// # Evictions
//
// Where cardreclaim runs, a single pod that cannot start must make progress in the
// same time when a node has room for it without the pods that may be taken, while
// no other unit may take any and nothing leaves already (eviction.go). And preempt
// must not evict for pods for which it has evicted enough.
package sessioncheck
