package contract

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"cardquota.dev/operator/internal/testing/check"
)

var (
	relativeLink = regexp.MustCompile(`\]\(([^)\s:]+)\)`)
	notInAnchor  = regexp.MustCompile(`[^a-z0-9_ -]`)
)

// TestLinksLeadSomewhere: a reader who follows a link of a page arrives: the file exists, and the heading too if
// the link names one. docs/api.md is generated from comments, so its links are not ours.
func TestLinksLeadSomewhere(t *testing.T) {
	root := filepath.Join("..", "..")
	pages := check.Value(filepath.Glob(filepath.Join(root, "docs", "*.md")))(t)

	pages = append(pages, filepath.Join(root, "README.md"), filepath.Join(root, "CONTRIBUTING.md"), filepath.Join(root, "CHANGELOG.md"))
	links := 0
	for _, page := range pages {
		if filepath.Base(page) == "api.md" {
			continue
		}

		for _, link := range relativeLink.FindAllStringSubmatch(readProse(t, page), -1) {
			links++
			file, anchor, _ := strings.Cut(link[1], "#")
			target := page
			if file != "" {
				target = filepath.Join(filepath.Dir(page), file)
			}

			_, err := os.Stat(target)
			check.That(t, err == nil, "%s links to %s, which does not exist", page, link[1])
			if err == nil && anchor != "" && filepath.Ext(target) == ".md" {
				check.That(t, anchors(readProse(t, target))[anchor], "%s links to %s, a heading that does not exist", page, link[1])
			}
		}
	}

	check.That(t, links >= 100, "only %d links were found", links)
}

// readProse returns a page without code blocks.
func readProse(t *testing.T, page string) string {
	text := check.Value(os.ReadFile(page))(t)

	var prose strings.Builder
	code := false
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			code = !code
		} else if !code {
			prose.WriteString(line)
		}
	}

	return prose.String()
}

// anchors returns GitHub's anchors of the headings of a page.
func anchors(page string) map[string]bool {
	found := map[string]bool{}
	for line := range strings.Lines(page) {
		if strings.HasPrefix(line, "#") {
			heading := strings.ToLower(strings.TrimSpace(strings.TrimLeft(line, "#")))
			found[strings.ReplaceAll(notInAnchor.ReplaceAllString(heading, ""), " ", "-")] = true
		}
	}
	return found
}
