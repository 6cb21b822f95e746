// Package forecast plays a week of recorded load twice in virtual time: once in mode Observe, and once in mode
// Enforce. What waits in mode Enforce must be what the forecast named in mode Observe.
//
// In mode Observe each workload runs from its arrival on, on nodes that have room for all. After each arrival and
// each end the operator's rules count what the queues use, and say which workloads Enforce would let wait
// (observed_test.go).
//
// In mode Enforce sessions of Volcano's scheduler with the shipped configuration, the plugin and its actions decide
// when the same workloads start (enforced_test.go). The nodes have room for all, so only quotas let workloads wait.
// A workload that starts later also ends later.
//
// The forecast judges each moment by what runs in it. It does not know that a workload that waited would still run.
// So the two weeks agree less the more workloads wait.
package forecast
