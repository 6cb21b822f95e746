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

func TestTruncate(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		text string
		most int
		want string
	}{
		"fits":                      {"short", 5, "short"},
		"is cut":                    {"a longer text", 8, "a lon…"},
		"is cut before a character": {"卡卡卡", 7, "卡…"},
		"is not UTF-8":              {"tab\xff", 10, "tab?"},
		"nothing stays nothing":     {"", 5, ""},
	}) {
		check.Equal(t, fmt.Sprintf("Truncate(%q, %d)", tc.text, tc.most), tc.want, Truncate(tc.text, tc.most))
	}
}

func TestTruncateIsValidAndBounded(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		text := rapid.String().Draw(t, "text")
		most := rapid.IntRange(3, 40).Draw(t, "most")
		got := Truncate(text, most)
		check.Must(t, len(got) <= most && utf8.ValidString(got), "Truncate(%q, %d) = %q", text, most, got)
		kept := strings.TrimSuffix(got, ellipsis)
		check.Must(t, strings.HasPrefix(text, kept), "Truncate(%q, %d) = %q is not its beginning", text, most, got)
	})
}

func TestJoinFirst(t *testing.T) {
	names := []string{"a", "b", "c"}
	for most, want := range map[int]string{1: "a and 2 more", 2: "a, b and 1 more", 3: "a, b, c", 4: "a, b, c"} {
		check.Equal(t, "names", want, JoinFirst(names, most))
	}
	check.Equal(t, "no names", "", JoinFirst([]string(nil), 2))
}
