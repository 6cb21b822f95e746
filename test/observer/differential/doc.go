// Package differential compares the rules of the observer, test/observer/rule, with those of
// the product on random nodes, pods, PodGroups and queues. Both sides are written from the same
// documents and share no code.
//
// `make mutants` breaks the product's rules one at a time (hack/mutants) and counts which of
// the breaks these tests notice.
package differential
