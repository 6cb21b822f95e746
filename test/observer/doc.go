// Package observer watches the API server while a test runs and checks the
// invariants of card quota at every instant. It knows neither the test nor any
// component of the project.
//
// # Order of changes
//
// Watches of different kinds are not ordered among each other: a pod's deletion
// may arrive after the binding that it made room for. Checking on arrival would
// raise false alarms or excuse real ones. But all kinds live in one etcd, where
// the resourceVersion of a change is the number of its transaction. So the
// changes of all kinds have one total order.
//
// The observer starts from lists of all kinds at one revision and collects what
// its watches deliver. Periodically it lists all kinds again. When every watch
// has delivered what its list shows, and after a short delay for objects that
// were created and deleted in between, all changes up to the revision of the
// oldest list are known. The observer then checks them in their order. It reports
// a change that arrives later than that.
//
// # Invariants
//
//   - I1: no placement exceeds the quota of its queue, and no queue serves a namespace that it
//     does not allow.
//     In a tree of quotas this is true for every ancestor too; no placement takes an unused
//     guarantee of others, what cannot be reclaimed stays within what its queues deserve, and
//     nothing starts in a held or an inner queue.
//   - I2: each pod runs on a card that its request names.
//   - I3: the usage in CardQuotas, LocalCardQuotas and Queues equals a recount of the pods. The
//     CardInventory equals a recount of nodes, pods and quotas. So do the card-seconds and the
//     bindings in the operator's metrics. Its other metrics are the numbers of these statuses.
//   - I4: each eviction follows the rules of preempt, reclaim, the tree or a drain, and its
//     preemptor or reclaimer is placed. Who preempts gets the card, and no pod is evicted for a want
//     for which others were evicted before.
//   - I5: no program panics, has a data race or ends by itself.
//   - I6: each workload that waits for cards states a reason.
//   - I7: a workload that fits the quota and the nodes starts within a few sessions.
//   - I8: a quota that a message calls insufficient was insufficient at that time, and the
//     reasons and holders in status.blocked equal a recount.
//   - I9: no placement exceeds the CPU and memory of its queue or node.
//
// # Rules
//
// Package rule states the rules of card quota from the documents alone. The
// linter forbids the product's packages here. Package differential compares both
// implementations, and `make mutants` counts which wrong rules it notices.
//
// # Files
//
// The checks are pure functions of the state in state.go: placement.go (I1, I2),
// namespaces.go (I1), status.go, waiting.go, views.go, inventory.go, inventorycheck.go,
// bindings.go, metricscheck.go, cardseconds.go and pages.go (I3), reason.go (I6), blocked.go (I8), and for I4
// eviction.go (what an eviction is), evictionrules.go (who may be evicted for whom), reclaimer.go
// (for whom it was), wants.go (what becomes of what was freed) and gang.go (what is left). The rules of a tree are in tree.go,
// treeplacement.go (I1) and treeeviction.go (I4); compute.go has those of CPU and
// memory beyond their limits. process.go reads logs (I5).
// Package sessioncheck checks sessions (I7 to I9) where they are counted
// (sessions.go). order.go merges the watches; watch.go and observer.go do the I/O.
package observer
