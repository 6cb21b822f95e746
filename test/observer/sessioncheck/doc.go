// Package sessioncheck checks the scheduler's sessions: whether what can start does
// start (progress.go), whether stated reasons are true (statedreasons.go), and whether
// placements stay within CPU, memory and the nodes (capacity.go). It receives every
// change of the cluster in order, and the number of closed sessions. It reads no
// clock and takes the rules from package rule alone.
//
// # Progress
//
// A unit is a gang that lacks pods, a pod above its gang's minimum, or a PodGroup
// without pods that waits to be enqueued. A unit must make progress when it fits its
// queue's quota and the nodes, beside everything that may be placed first. It has
// Options.Sessions sessions that opened after that became true. A pod that is gone
// releases its cards in the same way, so this is true after evictions too.
//
// What may be placed first counts against a unit in full: every waiting unit that could
// start now, or that has a reservation in the same queue (docs/scheduler.md). A
// unit that can never fit its queue's quota does not count. One that fits its quota
// but no nodes counts for five minutes after its last progress.
//
// Out of scope, and never reported: pods without cards; gangs whose pods have
// different requests; pods with affinity, spread constraints, host ports, persistent
// volume claims, resource claims or a nominated node; nodes with pods that have
// required anti-affinity; network topologies; several tasks with minimums of their
// own unless all pods are needed; queues below another parent than root, unless
// queues form a tree (tree.go, treereclaim.go).
//
// # Evictions
//
// Where cardreclaim runs, a single pod that cannot start must make progress in the
// same time when a node would have room for it without reclaimable pods. This is true
// while no other unit may reclaim and no eviction is under way (eviction.go). And
// preempt must not evict for pods for which it has already evicted enough.
package sessioncheck
