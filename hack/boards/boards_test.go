package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestBoardsAreUpToDate: config/grafana has exactly the boards that make boards writes, byte for byte. A user installs
// these files, so a change of a board must be written there.
func TestBoardsAreUpToDate(t *testing.T) {
	files, err := filepath.Glob("../../config/grafana/*.json")
	require.True(t, err == nil && len(files) == len(boards), "files %v, want %d (%v)", files, len(boards), err)

	for _, b := range boards {
		want, err := b.render()
		require.NoError(t, err)

		got, err := os.ReadFile("../../config/grafana/" + b.name + ".json")
		assert.True(t, err == nil && bytes.Equal(got, want), "%s.json is not what make boards writes (%v)", b.name, err)

	}
}

// renderedPanel is what TestPanelsWithANumberShowTheValueOfNow reads of a panel.
type renderedPanel struct {
	Title, Type string
	Options     struct{ ReduceOptions struct{ Calcs []string } }
	FieldConfig struct{ Defaults struct{ Unit string } }
	Targets     []struct {
		Expr           string
		Instant, Range bool
	}
}

// TestPanelsWithANumberShowTheValueOfNow: a panel of type stat shows one number, such as whether quotas are
// enforced. It must ask for the value of now and show the last one. A mean or a value of hours ago would say
// that all is well while a program is dead. A yes or no needs a 0 where there is no series. At least five
// panels show a number.
func TestPanelsWithANumberShowTheValueOfNow(t *testing.T) {
	count := 0
	for _, b := range boards {
		text, err := b.render()
		require.NoError(t, err)

		var rendered struct{ Panels []renderedPanel }
		require.NoError(t, json.Unmarshal(text, &rendered))

		for _, p := range rendered.Panels {
			if p.Type == "stat" {
				count++
				checkNumber(t, b.name, p)
			}
		}
	}

	assert.True(t, count >= 5, "%d panels show a number", count)
}

// checkNumber checks that a panel with one number shows the last value, and asks for that of now.
func checkNumber(t *testing.T, board string, p renderedPanel) {
	t.Helper()
	assert.True(t, slices.Equal(p.Options.ReduceOptions.Calcs, []string{"lastNotNull"}), "%s: panel %q shows %v of its values", board, p.Title, p.Options.ReduceOptions.Calcs)

	for _, target := range p.Targets {
		assert.True(t, target.Instant && !target.Range, "%s: panel %q asks for a time that is past: %s", board, p.Title, target.Expr)
		assert.True(t, p.FieldConfig.Defaults.Unit != "bool_yes_no" || strings.HasSuffix(target.Expr, " or vector(0)"), "%s: panel %q shows nothing instead of no: %s", board, p.Title, target.Expr)
	}
}

// TestConfigMapsOfBoardsHaveTheLabelOfGrafanasSidecar: the sidecar loads each ConfigMap with the label
// grafana_dashboard. kustomization.yaml generates one for each board, with the label and the file of the board.
func TestConfigMapsOfBoardsHaveTheLabelOfGrafanasSidecar(t *testing.T) {
	text, err := os.ReadFile("../../config/grafana/kustomization.yaml")
	require.NoError(t, err)

	entries := strings.Split(string(text), "\n- name: ")[1:]
	assert.True(t, len(entries) == len(boards), "%d ConfigMaps of %d boards", len(entries), len(boards))

	for i, entry := range entries {
		want := "cardquota-board-" + boards[i].name + "\n  namespace: volcano-system\n  files: [" + boards[i].name + ".json]\n  options: {labels: {grafana_dashboard: \"1\"}}"
		assert.True(t, strings.TrimSpace(entry) == want, "ConfigMap %d is %q, want %q", i, entry, want)
	}
}

// TestEachPanelSaysWhatItShows: a panel has a title of its own on its board, a description that is a sentence, and a
// unit. It is at most as wide as a board, which has 24 columns, and has queries with a legend each.
func TestEachPanelSaysWhatItShows(t *testing.T) {
	for _, b := range boards {
		seen := map[string]bool{}
		for _, p := range b.panels {
			where := b.name + ": panel " + p.title
			assert.True(t, p.title != "" && !seen[p.title], "%s: the title is empty, or that of another panel", where)
			assert.True(t, strings.HasSuffix(p.description, "."), "%s: the description is no sentence", where)
			assert.True(t, p.unit != "", "%s has no unit", where)
			assert.True(t, p.width > 0 && p.width <= 24, "%s is %d columns wide", where, p.width)
			assert.True(t, len(p.queries) > 0, "%s has no query", where)

			seen[p.title] = true
			for _, q := range p.queries {
				assert.True(t, q.legend != "", "%s: a query has no legend", where)
			}
		}
	}
}
