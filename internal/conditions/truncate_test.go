package conditions

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/seed"
)

// TestTruncateKeepsTextsWithinBytes: the API server refuses an event or a condition with a text of too many bytes,
// or that is not UTF-8. Truncate cuts between two characters, and ends the text with "…", which has 3 bytes.
func TestTruncateKeepsTextsWithinBytes(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		text     string
		maxBytes int
		want     string
	}{
		"a text of 5 bytes, at most 5: unchanged":                                  {"short", 5, "short"},
		"a text of 13 bytes, at most 8: 5 bytes and …":                             {"a longer text", 8, "a lon…"},
		"3 characters of 3 bytes, at most 7: 1 character and …, which are 6 bytes": {"卡卡卡", 7, "卡…"},
		"a byte that is not UTF-8 becomes ?":                                       {"tab\xff", 10, "tab?"},
		"an empty text":                                                            {"", 5, ""},
	}) {
		check.Equal(t, fmt.Sprintf("Truncate(%q, %d)", tc.text, tc.maxBytes), tc.want, Truncate(tc.text, tc.maxBytes))
	}
}

// TestATruncatedTextIsTheBeginningInValidUTF8: for any text and bound, what is before the "…" is the beginning of
// the text, and the whole is UTF-8 within the bound.
func TestATruncatedTextIsTheBeginningInValidUTF8(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		text := rapid.String().Draw(t, "text")
		maxBytes := rapid.IntRange(3, 40).Draw(t, "max bytes")
		got := Truncate(text, maxBytes)
		check.Must(t, len(got) <= maxBytes, "Truncate(%q, %d) = %q is too long", text, maxBytes, got)
		check.Must(t, utf8.ValidString(got), "Truncate(%q, %d) = %q is not UTF-8", text, maxBytes, got)
		check.Must(t, strings.HasPrefix(text, strings.TrimSuffix(got, ellipsis)), "Truncate(%q, %d) = %q is not its beginning", text, maxBytes, got)
	})
}

// TestJoinFirstCountsTheNamesThatItOmits: the length of a message is limited, so it names the first few of many
// objects and says how many more there are. When all fit, it counts none.
func TestJoinFirstCountsTheNamesThatItOmits(t *testing.T) {
	names := []string{"a", "b", "c"}
	for maxNames, want := range map[int]string{1: "a and 2 more", 2: "a, b and 1 more", 3: "a, b, c", 4: "a, b, c"} {
		check.Equal(t, fmt.Sprintf("at most %d names", maxNames), want, JoinFirst(names, maxNames))
	}
	check.Equal(t, "no names", "", JoinFirst([]string(nil), 2))
}
