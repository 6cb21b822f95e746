// Package differential compares the rules of the observer, test/observer/rule, with
// those of the product on random nodes, pods, PodGroups and queues. Neither side
// knows the other: whatever both say was read twice from the same documents.
//
// `make mutants` breaks the product's rules one at a time, see mutants/, and counts
// which of the breaks these tests notice.
package differential
