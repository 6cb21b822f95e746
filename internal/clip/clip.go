// Package clip shortens text for the API server, which bounds every string and
// takes none that is not UTF-8.
package clip

import (
	"strings"
	"unicode/utf8"
)

// mark ends a text that was shortened.
const mark = "…"

// Text shortens text to a number of bytes, at least len(mark), at the border of
// a character. What is not UTF-8 becomes "?".
func Text(text string, most int) string {
	text = strings.ToValidUTF8(text, "?")
	if len(text) <= most {
		return text
	}
	cut := most - len(mark)
	for !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut] + mark
}
