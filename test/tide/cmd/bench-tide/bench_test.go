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

// TestBothActionsAreMeasured: the benchmark compares Volcano's action reclaim with cardreclaim, in clusters of their own. It
// runs small, once each on 4 nodes of 8 cards: 2 pods of inference come one by one, 8 in Deployments, and 9 as a gang, while
// 2 single pods of training wait. Each scene serves all its pods and has its times. For the pods that come one by one,
// Volcano's action deletes single pods of gangs, which counts retries against their jobs; cardreclaim counts none. Other
// tests may run at the same time, so no times are compared.
func TestBothActionsAreMeasured(t *testing.T) {
	var out strings.Builder
	r, err := compareActions(t.Context(), size{Nodes: 4, Singles: 2, Requests: 2, Flood: 8, Gang: 9, Runs: 1, Period: 500 * time.Millisecond}, &out)
	t.Log(out.String())
	check.NoError(t, err)

	for _, action := range []string{tide.Reclaim, tide.CardReclaim} {
		check.Must(t, len(r.Runs[action]) == 1, "%s: %d runs, want 1", action, len(r.Runs[action]))
		expectMeasured(t, action, r.Runs[action][0], out.String())
	}

	lossOfVolcano := r.Runs[tide.Reclaim][0].Scenes[oneByOne].Loss
	check.That(t, lossOfVolcano.Retries > 0, "Volcano's action counts no retries: %+v", lossOfVolcano)
	check.Equal(t, "retries that cardreclaim counts", 0, r.Runs[tide.CardReclaim][0].Scenes[oneByOne].Loss.Retries)
}

// expectMeasured checks that a run measured everything, and that its report has each scene.
func expectMeasured(t *testing.T, action string, m *runResult, report string) {
	for _, name := range scenes {
		s := m.Scenes[name]
		hasTimes := s.First > 0 && s.Bound >= s.First && s.Running > 0
		check.That(t, hasTimes, "%s, %s: the times are %+v", action, name, s)
		check.Equal(t, action+", "+name+": served pods", s.Pods, s.Done)
		check.That(t, s.Loss.Gangs >= s.Loss.Least, "%s, %s: the loss is %+v", action, name, s.Loss)
		check.Contains(t, "report", report, "  "+name+", at a load of ")
	}

	check.Equal(t, action+": waiting times of single pods", 2, len(m.Scenes[oneByOne].Waited))
	check.Equal(t, action+": returns to training", len(scenes), len(m.Ebb))
	check.That(t, m.Fill > 0, "%s: the time to fill the cluster is not measured", action)
}

// TestImpossibleSizesAreRefused: a benchmark that cannot run as asked ends before it starts a cluster. There must be at
// least one node, run, request and pod of the gang. The flood must fill whole training gangs of 8 pods. The 4 nodes have 32
// cards. The context has ended, so that a wrong check starts no cluster.
func TestImpossibleSizesAreRefused(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()

	for t, change := range check.Cases(t, map[string]func(*size){
		"no node":    func(s *size) { s.Nodes = 0 },
		"no run":     func(s *size) { s.Runs = 0 },
		"no request": func(s *size) { s.Requests = 0 },
		"a flood of 12 pods, one and a half gangs": func(s *size) { s.Flood = 12 },
		"a gang without pods":                      func(s *size) { s.Gang = 0 },
		"a gang of 33 pods":                        func(s *size) { s.Gang = 33 },
	}) {
		changed := size{Nodes: 4, Requests: 1, Flood: 8, Gang: 8, Runs: 1}
		change(&changed)
		_, err := compareActions(ctx, changed, os.Stderr)
		check.Says(t, err, "impossible size")
	}
}

// newResult is a run that keeps every requirement. It loses so many card-seconds in each of the four scenes, and the first
// single pod waited for so long.
func newResult(cardSeconds float64, waited time.Duration) *runResult {
	m := &runResult{Load: []string{"1"}, Ebb: []*tide.Return{{}}, Scenes: map[string]*tide.Result{}}
	for _, name := range scenes {
		m.Scenes[name] = &tide.Result{
			Pods: 80, Done: 80, Bound: 10 * time.Second, Running: 20 * time.Second,
			Loss: harness.Loss{Gangs: 10, Least: 10, CardSeconds: cardSeconds},
		}
	}
	m.Scenes[oneByOne].Waited = []time.Duration{waited, time.Second}
	return m
}

// TestEveryRequirementIsChecked: Volcano's action loses 4 × 100 card-seconds, and its first pod waits for 2 seconds.
// Ours loses 4 × 25, a quarter, and waits as long. Pods must be bound within 30 seconds, and a gang must run within
// 60. At most a tenth more gangs may be evicted than needed. Each row breaks one requirement, which the report then
// names.
func TestEveryRequirementIsChecked(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		change func(ours *runResult)
		want   string
	}{
		"all requirements are met": {func(*runResult) {}, ""},
		"a pod waits for 2.001 seconds, printed as 2.00": {func(m *runResult) { m.Scenes[oneByOne].Waited[0] = 2001 * time.Millisecond },
			"one pod is bound after 2.00 s (p95), with Volcano's action after 2.00 s"},
		"one Deployment is bound after 31 seconds": {func(m *runResult) { m.Scenes[oneDeployment].Bound = 31 * time.Second },
			"run 1: one Deployment bound after 31.0 s, limit 30 s"},
		"many Deployments are bound after 31 seconds": {func(m *runResult) { m.Scenes[manyDeployments].Bound = 31 * time.Second },
			"run 1: many Deployments bound after 31.0 s, limit 30 s"},
		"a gang runs after 61 seconds": {func(m *runResult) { m.Scenes[oneGang].Running = 61 * time.Second },
			"run 1: one gang running after 61.0 s, limit 60 s"},
		"12 gangs are evicted, 10 were needed": {func(m *runResult) { m.Scenes[oneGang].Loss.Gangs = 12 },
			"run 1, one gang: 12 gangs broken, at most 11.0 may be"},
		"a gang does not run again after a scene": {func(m *runResult) { m.Ebb[0].Stuck = []string{"gang-001"} },
			"run 1: 1 gangs did not come back"},
		"two gangs do not run again during a scene": {func(m *runResult) { m.Scenes[oneByOne].Stuck = 2 },
			"run 1: 2 gangs did not come back"},
		"101 card-seconds are lost": {func(m *runResult) { m.Scenes[oneDeployment].Loss.CardSeconds += 1 },
			"101 card-seconds lost, a quarter of those of Volcano's action is 100"},
	}) {
		ours := newResult(25, 2*time.Second)
		tc.change(ours)

		r := &report{Runs: map[string][]*runResult{tide.Reclaim: {newResult(100, 2*time.Second)}, tide.CardReclaim: {ours}}}
		check.Equal(t, "broken requirements", tc.want, strings.Join(r.unmetRequirements(), "\n"))
	}
}

// TestReportHasMediansRangesAndRatios: in each of 4 scenes, the runs of Volcano's action lose 100, 300 and 200
// card-seconds, ours 10, 20 and 40. So the table has the medians 800 and 80, with their ranges, and the ratio 0.10.
// All runs evict 10 gangs in scene "one gang", and count no retry; a ratio to 0 is not shown. The JSON file has each
// run.
func TestReportHasMediansRangesAndRatios(t *testing.T) {
	r := &report{Size: size{Runs: 3, Flood: 80, Gang: 80}, Runs: map[string][]*runResult{
		tide.Reclaim:     {newResult(100, time.Second), newResult(300, time.Second), newResult(200, time.Second)},
		tide.CardReclaim: {newResult(10, time.Second), newResult(20, time.Second), newResult(40, time.Second)},
	}}

	folder := filepath.Join(t.TempDir(), "dist")
	check.NoError(t, r.writeFiles(folder))
	check.Contains(t, "table", string(check.Value(os.ReadFile(filepath.Join(folder, "bench-tide.md")))(t)),
		"| card-seconds lost in all | 800 (400 to 1200) | 80 (40 to 160) | 0.10 |\n",
		"| gangs broken by one gang (at least 10) | 10 (10 to 10) | 10 (10 to 10) | 1.00 |\n",
		"| retries counted against jobs | 0 (0 to 0) | 0 (0 to 0) |  |\n")

	text := check.Value(os.ReadFile(filepath.Join(folder, "bench-tide.json")))(t)
	read := &report{}
	check.NoError(t, json.Unmarshal(text, read))
	check.Equal(t, "card-seconds of the third run in the JSON", 4*40, cardSeconds(read.Runs[tide.CardReclaim][2]))
}
