package cli

import (
	"testing"

	"cardquota.dev/operator/internal/testing/check"
)

// TestAMistypedWordHasNearWords: of the flags, those are near that the word begins, or that differ by a few letters or a swap
// of two. A short word has few letters to differ in. The result does not depend on the order of the flags.
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
