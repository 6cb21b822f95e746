package main

import (
	"bytes"
	"os"
	"path/filepath"
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

func TestPanelsSayWhatTheyShow(t *testing.T) {
	for _, b := range boards {
		seen := map[string]bool{}
		for _, p := range b.panels {
			if p.title == "" || !strings.HasSuffix(p.description, ".") || p.unit == "" || p.width == 0 || p.width > 24 || len(p.queries) == 0 || seen[p.title] {
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
