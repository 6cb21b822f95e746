package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// expectThat reports a failed condition.
func expectThat(t *testing.T, holds bool, format string, args ...any) {
	t.Helper()
	if !holds {
		t.Errorf(format, args...)
	}
}

// requireThat is expectThat, but ends the test.
func requireThat(t *testing.T, holds bool, format string, args ...any) {
	t.Helper()
	if !holds {
		t.Fatalf(format, args...)
	}
}

func noError(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestBoardsAreUpToDate: config/grafana has what this program writes.
func TestBoardsAreUpToDate(t *testing.T) {
	files, err := filepath.Glob("../../config/grafana/*.json")
	requireThat(t, err == nil && len(files) == len(boards), "files %v, want %d (%v)", files, len(boards), err)

	kustomization, err := os.ReadFile("../../config/grafana/kustomization.yaml")
	noError(t, err)

	for _, b := range boards {
		want, err := b.render()
		noError(t, err)

		got, err := os.ReadFile("../../config/grafana/" + b.name + ".json")
		expectThat(t, err == nil && bytes.Equal(got, want), "%s.json is not what make boards writes (%v)", b.name, err)
		expectThat(t, strings.Contains(string(kustomization), "["+b.name+".json]"), "kustomization.yaml has no ConfigMap of %s.json", b.name)
	}
}

// renderedPanel is what TestNumbersAreThoseOfNow reads of a panel.
type renderedPanel struct {
	Title, Type string
	Options     struct{ ReduceOptions struct{ Calcs []string } }
	FieldConfig struct{ Defaults struct{ Unit string } }
	Targets     []struct {
		Expr           string
		Instant, Range bool
	}
}

// TestNumbersAreThoseOfNow: a number of hours ago would say that all is well while a program is dead.
func TestNumbersAreThoseOfNow(t *testing.T) {
	count := 0
	for _, b := range boards {
		text, err := b.render()
		noError(t, err)

		var rendered struct{ Panels []renderedPanel }
		noError(t, json.Unmarshal(text, &rendered))

		for _, p := range rendered.Panels {
			if p.Type == "stat" {
				count++
				checkNumber(t, b.name, p)
			}
		}
	}

	expectThat(t, count >= 5, "%d panels show a number", count)
}

// checkNumber checks that a panel with one number shows the last value, and asks for that of now.
func checkNumber(t *testing.T, board string, p renderedPanel) {
	t.Helper()
	expectThat(t, slices.Equal(p.Options.ReduceOptions.Calcs, []string{"lastNotNull"}), "%s: panel %q shows %v of its values", board, p.Title, p.Options.ReduceOptions.Calcs)

	for _, target := range p.Targets {
		expectThat(t, target.Instant && !target.Range, "%s: panel %q asks for a time that is past: %s", board, p.Title, target.Expr)
		expectThat(t, p.FieldConfig.Defaults.Unit != "bool_yes_no" || strings.HasSuffix(target.Expr, " or vector(0)"), "%s: panel %q shows nothing instead of no: %s", board, p.Title, target.Expr)
	}
}

// TestComponentHasTheLabelOfTheSidecar: Grafana's sidecar finds ConfigMaps by this label. The file of
// each ConfigMap is a board.
func TestComponentHasTheLabelOfTheSidecar(t *testing.T) {
	text, err := os.ReadFile("../../config/grafana/kustomization.yaml")
	noError(t, err)

	entries := strings.Split(string(text), "\n- name: ")[1:]
	expectThat(t, len(entries) == len(boards), "%d ConfigMaps of %d boards", len(entries), len(boards))

	for i, entry := range entries {
		want := "cardquota-board-" + boards[i].name + "\n  namespace: volcano-system\n  files: [" + boards[i].name + ".json]\n  options: {labels: {grafana_dashboard: \"1\"}}"
		expectThat(t, strings.TrimSpace(entry) == want, "ConfigMap %d is %q, want %q", i, entry, want)
	}
}

func TestPanelsSayWhatTheyShow(t *testing.T) {
	for _, b := range boards {
		seen := map[string]bool{}
		for _, p := range b.panels {
			isDescribed := p.title != "" && strings.HasSuffix(p.description, ".") && p.unit != ""
			hasWidth := p.width != 0 && p.width <= 24
			expectThat(t, isDescribed && hasWidth && len(p.queries) > 0 && !seen[p.title], "%s: panel %q: want a title of its own, a sentence, a unit, a width and a query", b.name, p.title)

			seen[p.title] = true
			for _, q := range p.queries {
				expectThat(t, q.legend != "", "%s: panel %q: query without a legend", b.name, p.title)
			}
		}
	}
}
