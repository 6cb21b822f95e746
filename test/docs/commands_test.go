package docs

import (
	"strings"
	"testing"

	"cardquota.dev/operator/internal/testing/check"
)

// book is a document with three sections. Its code blocks are fenced with ”' here.
var book = strings.ReplaceAll(`# Book

## One

Words.

'''bash
first   # why
  indented
'''

'''yaml
no: command
'''

### Deeper

- in a list:

  '''bash
  second
  '''

## Two

'''bash
# not a heading
third
'''

## Empty
`, "'''", "```")

// TestCommandsAreTheBashBlocksOfASection: the tests type the bash blocks below a heading of a document, in order
// and with those of deeper headings. Blocks of another language are no commands, and a comment in a block is no
// heading. In book, section One has a bash block, a YAML block, and a second bash block below its heading Deeper. That
// one is in a list, and loses the indent of the list.
func TestCommandsAreTheBashBlocksOfASection(t *testing.T) {
	for heading, want := range map[string][]string{
		"## One":     {"first   # why\n  indented\n", "second\n"},
		"### Deeper": {"second\n"},
		"## Two":     {"# not a heading\nthird\n"},
	} {
		check.Equal(t, heading, want, check.Value(Commands(book, heading))(t))
	}
}

// TestAHeadingWithoutCommandsIsAnError: a test that types the commands of a section fails when the document no
// longer has the heading, or no bash block below it. It would pass without doing anything otherwise.
func TestAHeadingWithoutCommandsIsAnError(t *testing.T) {
	for heading, want := range map[string]string{"## Three": "no heading", "## Empty": "no bash"} {
		_, err := Commands(book, heading)
		check.Says(t, err, want)
	}
}
