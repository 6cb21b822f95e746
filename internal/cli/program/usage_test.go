package program

import (
	"testing"

	"cardquota.dev/operator/internal/testing/check"
)

// TestAMistypedWordHasNearWords: a flag is near a typed word if it begins with the word, if at most two letters
// differ, or if it has the same letters in another order. Of a word of three or four letters only one may differ, and
// of a shorter one none. The result does not depend on the order of the flags.
func TestAMistypedWordHasNearWords(t *testing.T) {
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
		check.Equal(t, "words near "+typed, want, nearWords(typed, flags))
	}

	check.Equal(t, "words near n, the flags in another order", nearWords("n", flags), nearWords("n", []string{"no-headers", "namespace"}))
	check.Equal(t, "commands near tpo", []string{"top"}, nearWords("tpo", []string{"why", "top"}))
}
