package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/test/bench/harness"
	"cardquota.dev/operator/test/tide"
)

// TestBothActionsAreMeasured runs the benchmark small. It says nothing of times
// and of what is better: another test may run at the same time.
func TestBothActionsAreMeasured(t *testing.T) {
	var out strings.Builder
	r, err := compareActions(t.Context(), size{Nodes: 4, Singles: 2, Requests: 2, Flood: 8, Gang: 9, Runs: 1, Period: 500 * time.Millisecond}, &out)
	t.Log(out.String())
	check.NoError(t, err)

	for _, action := range []string{tide.Reclaim, tide.CardReclaim} {
		if len(r.Runs[action]) != 1 {
			t.Fatalf("%s: %d runs, want 1", action, len(r.Runs[action]))
		}
		checkResult(t, action, r.Runs[action][0], out.String())
	}

	if lost := r.Runs[tide.Reclaim][0].Scenes[oneByOne].Loss; lost.Retries == 0 {
		t.Errorf("Volcano's action counts no retries: %+v", lost)
	}
	if lost := r.Runs[tide.CardReclaim][0].Scenes[oneByOne].Loss; lost.Retries != 0 {
		t.Errorf("cardreclaim counts retries: %+v", lost)
	}
}

// checkResult checks that a run measured everything, and that its report says so.
func checkResult(t *testing.T, action string, m *runResult, said string) {
	for _, name := range scenes {
		s := m.Scenes[name]
		isMeasured := s.First > 0 && s.Bound >= s.First && s.Running > 0
		check.That(t, s.Done == s.Pods && isMeasured && s.Loss.Gangs >= s.Loss.Least, "%s, %s: %+v", action, name, s)
		check.Contains(t, "report", said, "  "+name+", at a load of ")
	}

	check.That(t, len(m.Scenes[oneByOne].Waited) == 2 && m.Fill > 0 && len(m.Ebb) == len(scenes), "%s: %+v", action, m)
}

func TestImpossibleSizesAreRefused(t *testing.T) {
	good := size{Nodes: 4, Requests: 1, Flood: 8, Gang: 8, Runs: 1}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()

	for name, change := range map[string]func(*size){
		"no node":    func(s *size) { s.Nodes = 0 },
		"no run":     func(s *size) { s.Runs = 0 },
		"no request": func(s *size) { s.Requests = 0 },
		"flood":      func(s *size) { s.Flood = 12 },
		"no gang":    func(s *size) { s.Gang = 0 },
		"large gang": func(s *size) { s.Gang = 33 },
	} {
		s := good
		change(&s)
		t.Run(name, func(t *testing.T) {
			_, err := compareActions(ctx, s, os.Stderr)
			check.Says(t, err, "impossible size")
		})
	}
}

// newResult is a run in which every requirement holds when it is ours, and which
// loses so many card-seconds in each scene.
func newResult(lost float64, waited time.Duration) *runResult {
	m := &runResult{Load: []string{"1"}, Ebb: []*tide.Return{{}}, Scenes: map[string]*tide.Result{}}
	for _, name := range scenes {
		m.Scenes[name] = &tide.Result{
			Pods: 80, Done: 80, Bound: 10 * time.Second, Running: 20 * time.Second,
			Loss: harness.Loss{Gangs: 10, Least: 10, CardSeconds: lost},
		}
	}
	m.Scenes[oneByOne].Waited = []time.Duration{waited, time.Second}
	return m
}

func TestEveryRequirementIsChecked(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(ours *runResult)
		want   string // "" when all hold
	}{
		"all hold":          {func(*runResult) {}, ""},
		"slower":            {func(m *runResult) { m.Scenes[oneByOne].Waited[0] = 2001 * time.Millisecond }, "one pod is bound after 2.00 s (p95), with Volcano's action after 2.00 s"},
		"one Deployment":    {func(m *runResult) { m.Scenes[oneDeployment].Bound = 31 * time.Second }, "run 1: one Deployment bound after 31.0 s, limit 30 s"},
		"many Deployments":  {func(m *runResult) { m.Scenes[manyDeployments].Bound = 31 * time.Second }, "run 1: many Deployments bound after 31.0 s, limit 30 s"},
		"one gang":          {func(m *runResult) { m.Scenes[oneGang].Running = 61 * time.Second }, "run 1: one gang running after 61.0 s, limit 60 s"},
		"broken":            {func(m *runResult) { m.Scenes[oneGang].Loss.Gangs = 12 }, "run 1, one gang: 12 gangs broken, at most 11.0 may be"},
		"stuck":             {func(m *runResult) { m.Ebb[0].Stuck = []string{"gang-001"} }, "run 1: 1 gangs did not come back"},
		"stuck in between":  {func(m *runResult) { m.Scenes[oneByOne].Stuck = 2 }, "run 1: 2 gangs did not come back"},
		"a quarter is lost": {func(m *runResult) { m.Scenes[oneDeployment].Loss.CardSeconds += 1 }, "101 card-seconds lost, a quarter of those of Volcano's action is 100"},
	} {
		ours := newResult(25, 2*time.Second)
		tc.change(ours)

		r := &report{Runs: map[string][]*runResult{tide.Reclaim: {newResult(100, 2*time.Second)}, tide.CardReclaim: {ours}}}
		check.Equal(t, name, tc.want, strings.Join(r.unmetRequirements(), "\n"))
	}
}

func TestReportHasMediansRangesAndRatios(t *testing.T) {
	r := &report{Size: size{Runs: 3, Flood: 80, Gang: 80}, Runs: map[string][]*runResult{
		tide.Reclaim:     {newResult(100, time.Second), newResult(300, time.Second), newResult(200, time.Second)},
		tide.CardReclaim: {newResult(10, time.Second), newResult(20, time.Second), newResult(40, time.Second)},
	}}

	folder := filepath.Join(t.TempDir(), "dist")
	check.NoError(t, r.writeFiles(folder))

	table := check.Value(os.ReadFile(filepath.Join(folder, "bench-tide.md")))(t)
	for _, want := range []string{
		"| card-seconds lost in all | 800 (400 to 1200) | 80 (40 to 160) | 0.10 |\n",
		"| gangs broken by one gang (at least 10) | 10 (10 to 10) | 10 (10 to 10) | 1.00 |\n",
		"| retries counted against jobs | 0 (0 to 0) | 0 (0 to 0) |  |\n",
	} {
		check.Contains(t, "table", string(table), want)
	}

	text := check.Value(os.ReadFile(filepath.Join(folder, "bench-tide.json")))(t)
	read := &report{}
	check.NoError(t, json.Unmarshal(text, read))
	check.Equal(t, "card-seconds in the JSON", 160, cardSeconds(read.Runs[tide.CardReclaim][2]))
}
