// Package workload is the table of rules that turns pods, PodGroups, Queues
// and nodes into what card quota means by them: which queue a pod belongs to,
// which card it holds, whether it counts, and why it may be refused.
//
// The scheduler, the operator and the observer of the tests all ask this
// package, so that they can disagree about when they look but never about what
// they see. The rules are spelled out, one line each, in table_test.go.
package workload
