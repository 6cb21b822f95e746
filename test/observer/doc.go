// Package observer watches the API server while a test runs and checks what
// must hold at every instant, whoever did what: nobody tells it what a test is
// about, and it knows no component of the project.
//
// # How it can be exact
//
// Watches of different kinds are not ordered among each other, so a pod's
// deletion can be seen after the binding that it made room for. Acting on
// arrival would either raise false alarms or have to forgive real ones. But
// all kinds live in one etcd, where the resourceVersion of every change is the
// number of its transaction: the changes of all kinds have one total order.
// The observer starts from lists of all kinds at one and the same revision,
// collects what its watches bring, and from time to time asks for lists again:
// as soon as every watch has brought everything that its list shows, all
// changes up to the revision of the oldest list are known, and are put through
// the rules in the order in which they happened.
//
// # What is where
//
// The rules are pure: placement.go (I1, I2), status.go (I3), eviction.go (I4),
// reason.go (I6) on the state of machine.go, and the merging in order.go.
// process.go reads logs (I5). watch.go and observer.go are the shell.
package observer
