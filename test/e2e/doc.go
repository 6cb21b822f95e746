// Package e2e contains the end-to-end tests: operator and scheduler as shipped, on a local cluster.
// They check the state of the API server and never single calls. An observer (package
// test/observer) checks the project's invariants during every test.
//
// A scene is one test's environment (scene_test.go): a namespace and queues of its own. A new
// scene belongs in the file of its subject. Scenes about reclaim are listed in reclaim_test.go.
package e2e
