package program

import (
	"testing"

	"cardquota.dev/operator/internal/testing/check"
)

// TestKubectlStartsTheProgramToComplete: for "kubectl cardquota top <tab>" kubectl runs kubectl_complete-cardquota, a
// link to the program. By this name the program knows that it has to complete.
func TestKubectlStartsTheProgramToComplete(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct{ args, want []string }{
		"a command":             {[]string{"/bin/kubectl-cardquota", "top", "-w"}, []string{"top", "-w"}},
		"a command to complete": {[]string{"/bin/kubectl_complete-cardquota", "top", ""}, []string{"__complete", "top", ""}},
		"no name of a program":  {nil, nil},
	}) {
		check.Equal(t, "arguments", tc.want, completionArguments(tc.args))
	}
}
