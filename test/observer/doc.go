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
// as soon as every watch has brought everything that its list shows, and a
// moment for objects that came and went in between, all changes up to the
// revision of the oldest list are known, and are put through the rules in the
// order in which they happened. A change that comes later than that is reported.
//
// # Whose rules
//
// Package rule states the rules of card quota from the documents alone, and the
// linter forbids the product's packages here. Package differential compares both,
// and `make mutants` counts which wrong rules of the product that notices.
//
// # What is where
//
// The judgements are pure: placement.go (I1, I2), status.go and allocated.go (I3),
// reason.go (I6), and for I4 eviction.go (what an eviction is), matrix.go (who
// may be evicted for whom), reclaimer.go (for whom it was) and gang.go (what is
// left), all on the state of machine.go, and the merging in order.go.
// process.go reads logs (I5). Package judge judges what sessions did (I7 to I9),
// where sessions are counted (sessions.go). watch.go and observer.go are the shell.
package observer
