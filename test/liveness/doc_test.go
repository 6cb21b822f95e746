// Package liveness plays random sequences of sessions of Volcano's scheduler with the
// shipped configuration, on small clusters whose API server is slow or refuses, and
// checks that work goes on.
//
// A sequence is a text (sequence_test.go): nodes, queues and jobs as package session
// reads them, and steps that change the cluster before a session. Real are Volcano's
// cache and session, its binder and status updater, the shipped plugins and the
// actions cardreclaim and preempt with their evictor, as the program registers them. An API
// server (apiserver_test.go) answers them; kubelets and job controllers
// (controllers_test.go) act on it. All clocks are those of a bubble of testing/synctest.
//
// # What is checked
//
// After the last step the API server answers at once, and nothing changes from outside.
// From then on:
//
//   - A unit is a gang that lacks pods, or a pod above its gang's minimum. One that fits
//     its queue's quota and the nodes, while nothing else waits and nothing leaves, is
//     bound within startsWithin sessions.
//   - Once nothing has changed for longer than reservations last, no unit is left that
//     fits, or that would fit without the jobs of other queues that may be taken for it.
//     What may stand ahead of it in its own queue is counted against it.
//   - No gang is left below its minimum with pods that were told to go and did not.
//   - The cluster comes to rest: jobs are not taken and started again for ever.
//
// In every session:
//
//   - Pods are evicted only for a pod that is promised a node in the same session, is
//     allowed to take from them, and would not fit without evictions.
//   - No gang is left below its minimum by an eviction.
//   - A job that was taken for another one is not taken for it again a moment after it
//     has started.
//
// Whether something fits is found by trying every placement, on a recount of the
// session's pods (view_test.go, fits_test.go), without any rule of the product.
package liveness
