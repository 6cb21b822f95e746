// Package answers brings a real cluster into every state that kubectl cardquota explains, and compares
// the answers with golden files: why for each reason why a workload waits, doctor for each finding. A
// tenant with the rights of one namespace asks too, by kubectl describe pod, by his LocalCardQuota, and
// by why. The three must agree.
//
//	go test ./test/answers -update
//
// writes the golden files. states_test.go has the states, and findings_test.go what is wrong with the
// installation.
package answers
