// Package docs follows what the documents tell a platform engineer to type,
// literally, on a cluster whose node, containers and schedulers are real.
package docs

import (
	"fmt"
	"strings"
)

// Commands are the bash blocks of a Markdown text below a heading; see blocksOf.
func Commands(markdown, heading string) ([]string, error) {
	return blocksOf(markdown, heading, "bash")
}

// blocksOf are the blocks in a language of a Markdown text below a heading, in their
// order, up to the next heading of the same or a higher level. A heading that is not
// there, or has no such blocks, is an error: a document that changed must not make a
// test empty.
func blocksOf(markdown, heading, language string) ([]string, error) {
	level := strings.IndexFunc(heading, func(r rune) bool { return r != '#' })
	var blocks []string
	inside, code, found, indent := false, false, false, ""
	for line := range strings.Lines(markdown) {
		trimmed := strings.TrimSpace(line)
		switch {
		case code && trimmed == "```":
			code = false
		case code:
			blocks[len(blocks)-1] += strings.TrimPrefix(line, indent)
		case trimmed == heading:
			inside, found = true, true
		case inside && endsSection(trimmed, level):
			inside = false
		case inside && trimmed == "```"+language:
			code, indent = true, line[:strings.Index(line, "`")]
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

// endsSection tells a heading of at most this level.
func endsSection(line string, level int) bool {
	hashes := len(line) - len(strings.TrimLeft(line, "#"))
	return hashes > 0 && hashes <= level && strings.HasPrefix(line[hashes:], " ")
}
