package cli

import (
	"testing"

	"cardquota.dev/operator/internal/testing/check"
)

// TestAMistypedWordHasNearWords: a flag is near a typed word if it begins with the word, if at most two letters differ, or if
// it has the same letters in another order. Of a word of three or four letters only one may differ, and of a shorter one
// none. The result does not depend on the order of the flags.
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

// TestSuggestionsAreWrittenAsTheUserTypesThem: a flag is suggested with its dashes, and several words always in the
// same order. They come from a map, which has another order each time, so each command runs twenty times.
func TestSuggestionsAreWrittenAsTheUserTypesThem(t *testing.T) {
	for command, want := range map[string]string{
		"top --n":    "top has no flag --n: did you mean --namespace or --no-headers?",
		"top --x":    "top has no flag --x\n",
		"why s/chat": "did you mean statefulset?",
		"why d/chat": "did you mean daemonset or deployment?",
	} {
		for range 20 {
			execute(t, clusterWithOneFreeCard(), mayReadAll, command+" -n lab").reports(want)
		}
	}
}
