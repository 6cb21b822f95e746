package schedulerconf

import (
	"fmt"
	"strings"
)

// hint says what to write instead of an unknown word: the nearest known one if there is a
// near one, else all of them.
func hint(word string, known []string) string {
	if near := nearest(word, known); near != "" {
		return fmt.Sprintf("did you mean %q?", near)
	}
	return "known are " + strings.Join(known, ", ")
}

// nearest returns the known word with the fewest edits from word, or "" if even that one
// differs in more than a third of its letters (two letters for short words).
func nearest(word string, known []string) string {
	best, bestDistance := "", -1
	for _, candidate := range known {
		d := distance(strings.ToLower(word), strings.ToLower(candidate))
		if bestDistance < 0 || d < bestDistance {
			best, bestDistance = candidate, d
		}
	}
	if bestDistance > max(2, len(best)/3) {
		return ""
	}
	return best
}

// distance is the Levenshtein distance in bytes. Words longer than any known one by far are
// not compared letter by letter, so that a hostile text costs nothing.
func distance(a, b string) int {
	const longest = 64
	if len(a) > longest || len(b) > longest {
		return longest
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			substitution := diagonal
			if a[i] != b[j] {
				substitution++
			}
			diagonal = row[j+1]
			row[j+1] = min(substitution, row[j]+1, diagonal+1)
		}
	}
	return row[len(b)]
}
