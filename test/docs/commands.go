// Package docs runs the commands of the documents literally, as a platform engineer would type
// them, on a cluster with a real node, containers and schedulers.
package docs

import (
	"fmt"
	"strings"
)

// Commands returns the bash blocks of a Markdown text below a heading; see blocksOf.
func Commands(markdown, heading string) ([]string, error) {
	return blocksOf(markdown, heading, "bash")
}

// blocksOf returns the code blocks in a language below a heading of a Markdown text, up to the
// next heading of the same or a higher rank (h1 to h6). A missing heading, or one without such blocks, is
// an error: a changed document must not make a test empty.
func blocksOf(markdown, heading, language string) ([]string, error) {
	hashes := strings.IndexFunc(heading, func(r rune) bool { return r != '#' })
	var blocks []string
	inside := false
	code := false
	found := false

	indent := ""
	for line := range strings.Lines(markdown) {
		trimmed := strings.TrimSpace(line)
		switch {
		case code && trimmed == "```":
			code = false
		case code:
			blocks[len(blocks)-1] += strings.TrimPrefix(line, indent)
		case trimmed == heading:
			inside = true
			found = true
		case inside && endsSection(trimmed, hashes):
			inside = false
		case inside && trimmed == "```"+language:
			code = true
			indent = line[:strings.Index(line, "`")]
			blocks = append(blocks, "")
		}
	}

	if !found {
		return nil, fmt.Errorf("no heading %q", heading)
	}
	if len(blocks) == 0 {
		return nil, fmt.Errorf("no %s under %q", language, heading)
	}

	return blocks, nil
}

// endsSection reports whether a line is a heading of at most this many hashes.
func endsSection(line string, most int) bool {
	hashes := len(line) - len(strings.TrimLeft(line, "#"))
	return hashes > 0 && hashes <= most && strings.HasPrefix(line[hashes:], " ")
}
