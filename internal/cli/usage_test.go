package cli

import (
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"cardquota.dev/operator/internal/testing/check"
)

func TestNearWords(t *testing.T) {
	flags := []string{"watch", "namespace", "no-headers", "as", "as-group", "as-uid", "output", "sort-by"}
	for typed, want := range map[string][]string{
		"wacth":      {"watch"},
		"x":          nil,
		"s":          {"sort-by"},
		"sa":         {"as"},
		"xs":         nil,
		"as-gruop":   {"as-group"},
		"as-g":       {"as-group"},
		"n":          {"namespace", "no-headers"},
		"namespaces": {"namespace"},
		"nothing":    nil,
	} {
		check.Equal(t, typed, want, nearWords(typed, flags))
	}

	check.Equal(t, "the order of the words does not count", nearWords("n", []string{"no-headers", "namespace"}), nearWords("n", flags))
	check.Equal(t, "a swapped short word", []string{"top"}, nearWords("tpo", []string{"why", "top"}))
}

// TestSuggestions: each flag is written as it is typed, and the words have one order.
func TestSuggestions(t *testing.T) {
	for _, tc := range []struct {
		args []string
		want string
	}{
		{[]string{"top", "--n"}, "top has no flag --n: did you mean --namespace or --no-headers?"},
		{[]string{"top", "--x"}, "top has no flag --x\n"},
		{[]string{"why", "s/chat"}, "did you mean statefulset?"},
		{[]string{"why", "d/chat"}, "did you mean daemonset or deployment?"},
	} {
		for range 20 { // a map has another order each time
			r := execute(t, busyCluster(), interceptor.Funcs{}, append(tc.args, "-n", "lab")...)

			check.Contains(t, tc.args[1], r.errOut, tc.want)
		}
	}
}
