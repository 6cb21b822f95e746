package docs

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"cardquota.dev/operator/internal/testing/check"
)

const text = "# Book\n\n## One\n\nWords.\n\n```bash\nfirst   # why\n  indented\n```\n\n```yaml\nno: command\n```\n\n### Deeper\n\n" +
	"- in a list:\n\n  ```bash\n  second\n  ```\n\n## Two\n\n```bash\n# not a heading\nthird\n```\n\n## Empty\n"

func TestCommandsOfASection(t *testing.T) {
	for heading, want := range map[string][]string{
		"## One":     {"first   # why\n  indented\n", "second\n"},
		"### Deeper": {"second\n"},
		"## Two":     {"# not a heading\nthird\n"},
	} {
		got, err := Commands(text, heading)
		diff := cmp.Diff(want, got)
		check.That(t, err == nil && diff == "", "%s: %v (-want +got)\n%s", heading, err, diff)
	}
}

func TestADocumentThatChangedIsAnError(t *testing.T) {
	for heading, want := range map[string]string{"## Three": "no heading", "## Empty": "no bash"} {
		_, err := Commands(text, heading)
		check.That(t, err != nil && strings.Contains(err.Error(), want), "%s: %v, want %q", heading, err, want)
	}
}
