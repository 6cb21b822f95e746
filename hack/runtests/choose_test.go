package main

import (
	"strings"
	"testing"
	"time"
)

func TestChooseRunsAGroupWhoseInputsChanged(t *testing.T) {
	now := fileHashes{"a.go": "1", "b.go": "1"}
	passed := func(inputs fileHashes) record {
		return record{Passed: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), Commit: "abc", Inputs: inputs}
	}

	everything := decisionContext{changed: map[string]bool{"a.go": true}, base: "10 commits ago"}
	for name, tc := range map[string]struct {
		records []record
		c       decisionContext
		want    bool
		why     string
	}{
		"passed with these inputs": {[]record{passed(now)}, everything, false, "passed on 2026-03-01 12:00:00 at abc"},
		"passed before with these inputs, later with others": {
			[]record{passed(fileHashes{"a.go": "2", "b.go": "1"}), passed(now)}, everything, false, "no input has changed",
		},
		"an input has another content": {[]record{passed(fileHashes{"a.go": "2", "b.go": "1"})}, decisionContext{}, true, "changed a.go"},
		"an input is new":              {[]record{passed(fileHashes{"a.go": "1"})}, decisionContext{}, true, "changed b.go"},
		"an input is gone": {
			[]record{passed(fileHashes{"a.go": "1", "b.go": "1", "c.go": "1"})}, decisionContext{}, true, "changed c.go",
		},
		"another version of Go":                      {[]record{passed(fileHashes{"a.go": "1", "b.go": "1", "(Go)": "go1"})}, decisionContext{}, true, "changed (Go)"},
		"no record, an input changed since the base": {nil, everything, true, "since 10 commits ago changed a.go"},
		"no record, no base":                         {nil, decisionContext{}, true, "no earlier commit"},
		"test-all ignores the record":                {[]record{passed(now)}, decisionContext{all: true}, true, "everything"},
	} {
		t.Run(name, func(t *testing.T) {
			got := chooseStages([]stage{{name: "g", group: true}}, map[string]fileHashes{"g": now}, map[string][]record{"g": tc.records}, tc.c)["g"]
			if got.run != tc.want || !strings.Contains(got.reason, tc.why) {
				t.Errorf("run %v because %q, want %v because of %q", got.run, got.reason, tc.want, tc.why)
			}
		})
	}
}

func TestChooseTakesTurnsWithoutRecords(t *testing.T) {
	groups := []stage{{name: "unit"}, {name: "a", group: true}, {name: "b", group: true}, {name: "c", group: true}, {name: "clocks", onlyInTestAll: true}}
	inputs := map[string]fileHashes{"a": {"a": "1"}, "b": {"b": "1"}, "c": {"c": "1"}}
	records := map[string][]record{"c": {{Inputs: fileHashes{"c": "1"}}}}
	ran := map[string]int{}
	for turn := range 6 {
		for name, choice := range chooseStages(groups, inputs, records, decisionContext{changed: map[string]bool{}, turn: turn}) {
			if choice.run {
				ran[name]++
			}
		}
	}

	want := map[string]int{"unit": 6, "a": 3, "b": 3}
	for _, g := range groups {
		if ran[g.name] != want[g.name] {
			t.Errorf("%s ran %d times in 6 turns, want %d", g.name, ran[g.name], want[g.name])
		}
	}
}
