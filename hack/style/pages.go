package main

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"unicode"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/text"

	"cardquota.dev/operator/hack/style/form"
)

const (
	maxSentenceWords = 40 // of one sentence
	maxAverageWords  = 18 // of the sentences of a page
)

// checkPages returns a finding for every sentence of a Markdown page below root that is too
// long, for every page whose sentences are too long on average, and for every avoided phrase.
// Code, tables, headings, block quotes and quoted messages do not count.
func checkPages(root string) ([]string, error) {
	var findings []string
	err := form.Walk(root, ".md", func(path, name string) error {
		source, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		findings = append(findings, checkPage(name, source)...)
		return nil
	})

	return findings, err
}

func checkPage(name string, source []byte) []string {
	var findings []string
	words := 0
	sentences := 0
	for _, paragraph := range paragraphs(source) {
		for _, sentence := range splitSentences(paragraph) {
			count := countWords(sentence)
			if count == 0 {
				continue
			}

			words += count
			sentences++
			if count > maxSentenceWords {
				findings = append(findings, fmt.Sprintf("%s: a sentence of %d words, more than %d: %q", name, count, maxSentenceWords, sentence))
			}

			for _, phrase := range findPhrases(sentence, avoidedPhrases) {
				findings = append(findings, fmt.Sprintf("%s: %q says %q: name the actor and what it does", name, sentence, phrase))
			}
			for _, phrase := range findPhrases(sentence, avoidedInProse) {
				findings = append(findings, fmt.Sprintf("%s: %q says %q: CONTRIBUTING.md has the word for it", name, sentence, phrase))
			}
		}
	}

	if words > sentences*maxAverageWords {
		findings = append(findings, fmt.Sprintf("%s: %.1f words a sentence on average, more than %d", name, float64(words)/float64(sentences), maxAverageWords))
	}

	return findings
}

// paragraphs returns the prose of a page: the text of each paragraph and list item. A code span
// or a link counts as its text without breaks.
func paragraphs(source []byte) []string {
	page := goldmark.New(goldmark.WithExtensions(extension.GFM)).Parser().Parse(text.NewReader(source))
	var found []string

	// The walk cannot fail: the visitor returns no error.
	_ = ast.Walk(page, func(node ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}

		switch node.Kind() {
		case ast.KindParagraph, ast.KindTextBlock:
			found = append(found, inlineText(node, source))
			return ast.WalkSkipChildren, nil
		case ast.KindBlockquote, ast.KindHeading, ast.KindHTMLBlock:
			return ast.WalkSkipChildren, nil
		}

		return ast.WalkContinue, nil
	})

	return found
}

func inlineText(node ast.Node, source []byte) string {
	var b strings.Builder
	for child := node.FirstChild(); child != nil; child = child.NextSibling() {
		switch child := child.(type) {
		case *ast.CodeSpan:
			b.WriteString("code")
		case *ast.Text:
			b.Write(child.Segment.Value(source))
			if child.SoftLineBreak() || child.HardLineBreak() {
				b.WriteByte(' ')
			}
		case *ast.AutoLink:
			b.WriteString("link")
		case *ast.RawHTML:
		default:
			b.WriteString(inlineText(child, source))
		}
	}

	return b.String()
}

var (
	quotedMessage = regexp.MustCompile(`"[^"]*"|“[^”]*”`)
	sentenceEnd   = regexp.MustCompile(`[.!?]["')*]*\s+`)
	abbreviation  = regexp.MustCompile(`\b(e\.g|i\.e|etc|vs)\. `)
)

// splitSentences splits a paragraph at full stops, question marks and exclamation marks.
func splitSentences(paragraph string) []string {
	paragraph = quotedMessage.ReplaceAllString(paragraph, "quote")
	paragraph = abbreviation.ReplaceAllString(paragraph, "$1 ")
	return sentenceEnd.Split(paragraph, -1)
}

func countWords(sentence string) int {
	count := 0
	for _, word := range strings.Fields(sentence) {
		if strings.IndexFunc(word, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }) >= 0 {
			count++
		}
	}

	return count
}
