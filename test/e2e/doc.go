// Package e2e holds the end-to-end tests: operator and scheduler as shipped, on
// a local cluster, with assertions on what the API server shows and never on
// calls. An observer (package test/observer) checks the project's invariants
// during every test.
package e2e
