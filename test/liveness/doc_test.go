// Package liveness runs random sequences of sessions of Volcano's scheduler with the shipped
// configuration. The clusters are small, and their API server is slow or refuses requests. The
// tests check that what fits is scheduled all the same.
//
// A sequence is a text (sequence_test.go): nodes, queues and jobs in the notation of package
// session, and steps that change the cluster before a session. Volcano's cache and session, its
// binder and status updater are real. So are the shipped plugins and the actions cardreclaim and
// preempt with their evictor, as the program registers them. An API server (apiserver_test.go)
// answers them; kubelets and job controllers (controllers_test.go) act on it. All clocks are those
// of a bubble of testing/synctest.
//
// # What is checked
//
// After the last step the API server answers at once, and nothing changes from outside. From then
// on:
//
//   - A unit is a gang that lacks pods, or a pod above its gang's minimum. A unit that fits its
//     queue's quota and the nodes is bound within startsWithin sessions, while nothing else waits
//     or is releasing.
//   - Once nothing has changed for longer than reservations last, no unit is left that fits. Nor is
//     one left that would fit without the reclaimable jobs of other queues. What may be placed first in its
//     own queue counts against a unit.
//   - No gang is left below its minimum with evicted pods that still run.
//   - The cluster comes to rest: jobs are not evicted and restarted forever.
//
// In every session:
//
//   - Pods are evicted only for a pod that is pipelined to a node in the same session, may reclaim
//     from them, and would not fit without evictions.
//   - No gang is left below its minimum by an eviction.
//   - A job that was evicted for another one is not evicted for it again a moment after its start.
//   - Who preempts or reclaims gets the cards: what was freed for pods that still wait is placed only with
//     pods that have precedence (wants_test.go).
//   - No pod is evicted for pods only for which others were evicted before, while these end or what they
//     freed is kept. None is evicted for pods that fit once others have ended.
//   - Only pods that a job lacks for its minimum preempt other jobs, or pods that are each a job of their
//     own (preempting_test.go). At rest no such job waits, enqueued or not, that would certainly fit
//     without the jobs of lower priority in its queue.
//
// A gang that has its turn runs within a number of ends of other pods (turns_test.go). In flat queues such a
// gang may reclaim, while only jobs wait from which it may. In a tree it is within what its queue deserves,
// while all others that wait would borrow. It may wait for as many ends as pods run on its
// nodes when it begins to wait, and as many more as it lacks cards.
//
// In trees of queues (treecheck_test.go), in every session:
//
//   - No placement exceeds the quota of an ancestor, takes an unused guarantee of others, starts in
//     a held queue or a parent, or lends for good what cannot be reclaimed.
//   - Victims are taken by the reclaim matrix, or from queues that use more than they deserve, and
//     never from a guarantee. No queue evicts in order to borrow. Nearer victims come first.
//   - A drain takes whole jobs.
//
// At rest no queue below what it deserves waits for cards that another one uses reclaimably, and no
// job runs in a drained queue. Levels that guarantee more than they have left are not checked then.
//
// Whether a unit fits is found by trying every placement on a recount of the session's pods
// (sessionview_test.go, fits_test.go), without any rule of the product.
package liveness
