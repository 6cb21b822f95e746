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

// TestBoardsAreUpToDate: config/grafana has what this program writes.
func TestBoardsAreUpToDate(t *testing.T) {
	files, err := filepath.Glob("../../config/grafana/*.json")
	if err != nil || len(files) != len(boards) {
		t.Fatalf("files %v, want %d (%v)", files, len(boards), err)
	}

	kustomization, err := os.ReadFile("../../config/grafana/kustomization.yaml")
	if err != nil {
		t.Fatal(err)
	}

	for _, b := range boards {
		want, err := b.render()
		if err != nil {
			t.Fatal(err)
		}

		got, err := os.ReadFile("../../config/grafana/" + b.name + ".json")
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s.json is not what make boards writes (%v)", b.name, err)
		}
		if !strings.Contains(string(kustomization), "["+b.name+".json]") {
			t.Errorf("kustomization.yaml has no ConfigMap of %s.json", b.name)
		}
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
		if err != nil {
			t.Fatal(err)
		}

		var rendered struct{ Panels []renderedPanel }
		if err := json.Unmarshal(text, &rendered); err != nil {
			t.Fatal(err)
		}

		for _, p := range rendered.Panels {
			if p.Type == "stat" {
				count++
				checkNumber(t, b.name, p)
			}
		}
	}

	if count < 5 {
		t.Errorf("%d panels show a number", count)
	}
}

// checkNumber checks that a panel with one number shows the last value, and asks for that of now.
func checkNumber(t *testing.T, board string, p renderedPanel) {
	t.Helper()
	if !slices.Equal(p.Options.ReduceOptions.Calcs, []string{"lastNotNull"}) {
		t.Errorf("%s: panel %q shows %v of its values", board, p.Title, p.Options.ReduceOptions.Calcs)
	}

	for _, target := range p.Targets {
		if !target.Instant || target.Range {
			t.Errorf("%s: panel %q asks for a time that is past: %s", board, p.Title, target.Expr)
		}
		if p.FieldConfig.Defaults.Unit == "bool_yes_no" && !strings.HasSuffix(target.Expr, " or vector(0)") {
			t.Errorf("%s: panel %q shows nothing instead of no: %s", board, p.Title, target.Expr)
		}
	}
}

// TestComponentHasTheLabelOfTheSidecar: Grafana's sidecar finds ConfigMaps by this label. The file of
// each ConfigMap is a board.
func TestComponentHasTheLabelOfTheSidecar(t *testing.T) {
	text, err := os.ReadFile("../../config/grafana/kustomization.yaml")
	if err != nil {
		t.Fatal(err)
	}

	entries := strings.Split(string(text), "\n- name: ")[1:]
	if len(entries) != len(boards) {
		t.Errorf("%d ConfigMaps of %d boards", len(entries), len(boards))
	}

	for i, entry := range entries {
		want := "cardquota-board-" + boards[i].name + "\n  namespace: volcano-system\n  files: [" + boards[i].name + ".json]\n  options: {labels: {grafana_dashboard: \"1\"}}"
		if strings.TrimSpace(entry) != want {
			t.Errorf("ConfigMap %d is %q, want %q", i, entry, want)
		}
	}
}

func TestPanelsSayWhatTheyShow(t *testing.T) {
	for _, b := range boards {
		seen := map[string]bool{}
		for _, p := range b.panels {
			isDescribed := p.title != "" && strings.HasSuffix(p.description, ".") && p.unit != ""
			hasWidth := p.width != 0 && p.width <= 24
			if !isDescribed || !hasWidth || len(p.queries) == 0 || seen[p.title] {
				t.Errorf("%s: panel %q: want a title of its own, a sentence, a unit, a width and a query", b.name, p.title)
			}

			seen[p.title] = true
			for _, q := range p.queries {
				if q.legend == "" {
					t.Errorf("%s: panel %q: query without a legend", b.name, p.title)
				}
			}
		}
	}
}
