package contract

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"cardquota.dev/operator/internal/testing/check"
)

var (
	codeSpan = regexp.MustCompile("`[^`]*`")
	htmlTag  = regexp.MustCompile(`<[A-Za-z][^ >]*>?`)
)

// TestPlaceholdersSurviveMarkdown: users see a placeholder such as <vendor> in a page of docs only if it is in a code
// span or block. Elsewhere it is taken for HTML and vanishes. Four tags are meant as HTML: br, details, summary, img.
func TestPlaceholdersSurviveMarkdown(t *testing.T) {
	pages := check.Value(filepath.Glob(filepath.Join("..", "..", "docs", "*.md")))(t)
	check.That(t, len(pages) >= 20, "only %d pages are found", len(pages))
	for _, page := range pages {
		for _, tag := range htmlTag.FindAllString(codeSpan.ReplaceAllString(readProse(t, page), ""), -1) {
			name := strings.Trim(tag, "<>/")
			isMeant := name == "br" || name == "details" || name == "summary" || name == "img"
			check.That(t, isMeant, "%s: %s is taken for HTML: write it in backticks, in docs/api.md in the comment of the API", page, tag)
		}
	}
}

// TestTheColumnsOfCardQuotasFitATerminal: kubectl get cardq takes at most 120 columns for names of usual
// length, because a line that breaks is hard to read. Other columns are for -o wide.
func TestTheColumnsOfCardQuotasFitATerminal(t *testing.T) {
	var definition struct {
		Spec struct {
			Versions []struct {
				Columns []struct {
					Name     string `json:"name"`
					Priority int    `json:"priority"`
				} `json:"additionalPrinterColumns"`
			} `json:"versions"`
		} `json:"spec"`
	}

	text := check.Value(os.ReadFile(filepath.Join("..", "..", "config", "crd", "bases", "cardquota.dev_cardquotas.yaml")))(t)
	check.NoError(t, yaml.Unmarshal(text, &definition))

	// The longest usual value of each column. A sum of cards has no longest one.
	longest := map[string]int{"Tenant": 17, "Type": 10, "Mode": 7, "Blocked": 5, "Enforced": 7, "Ready": 5, "Age": 5}
	const (
		name = 40
		gap  = 3
	)

	columns := name
	for _, column := range definition.Spec.Versions[0].Columns {
		if column.Priority > 0 {
			continue
		}
		width, isBounded := longest[column.Name]
		check.That(t, isBounded, "column %s has no usual length: give it priority 1", column.Name)
		columns += gap + max(width, len(column.Name))
	}

	check.That(t, columns <= 120, "kubectl get cardq takes %d columns", columns)
}
