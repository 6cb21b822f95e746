package clip

import (
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestText(t *testing.T) {
	tests := map[string]struct {
		text string
		most int
		want string
	}{
		"fits":                      {"short", 5, "short"},
		"is cut":                    {"a longer text", 8, "a lon…"},
		"is cut before a character": {"卡卡卡", 7, "卡…"},
		"is not UTF-8":              {"tab\xff", 10, "tab?"},
		"nothing stays nothing":     {"", 5, ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := Text(tc.text, tc.most); got != tc.want {
				t.Errorf("Text(%q, %d) = %q, want %q", tc.text, tc.most, got, tc.want)
			}
		})
	}
}

func TestTextIsValidAndBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text, most := rapid.String().Draw(t, "text"), rapid.IntRange(3, 40).Draw(t, "most")
		got := Text(text, most)
		if len(got) > most || !utf8.ValidString(got) {
			t.Fatalf("Text(%q, %d) = %q", text, most, got)
		}
		if kept := strings.TrimSuffix(got, mark); !strings.HasPrefix(text, kept) {
			t.Fatalf("Text(%q, %d) = %q is not its beginning", text, most, got)
		}
	})
}
