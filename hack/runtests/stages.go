package main

import (
	"maps"
	"slices"
	"strings"
	"time"
)

// stage is one part of a run.
type stage struct {
	name string
	// lane says beside which stages it runs: those of one lane run one after the other.
	lane lane
	// needs are make targets that are made before any stage starts; targets are run by the stage.
	needs, targets []string

	// packages are the folders of the Go packages whose tests it runs.
	packages []string
	// run and skip choose among the tests of the packages, as go test's flags do.
	run, skip string
	race      bool
	// flags are further flags of go test.
	flags []string
	env   []string
	// most bounds how long one package may take, also on a machine half as fast as one that
	// keeps the budget.
	timeout time.Duration

	// group is a stage that is slow and rarely broken: see choose.go.
	group bool
	// onlyAll leaves the stage to make test-all.
	onlyInTestAll bool
}

// lane is a row of stages. The stages of the background lane run nicely: they take what the
// clusters leave. Groups stand behind the clusters of every run, because beside them each makes
// the other slow.
type lane int

const (
	background lane = iota
	clusters
)

var lanes = []lane{background, clusters}

// allStages lists all stages. A package below test/ that no group names belongs to the stage
// clusters, or to unit when its tests start no cluster: a new suite is run without a word here.
func allStages(p *project) []stage {
	suite := []string{"controlplane-full", "test-programs"}
	list := []stage{
		{name: "verify", lane: background, targets: []string{"verify"}},
		{name: "lint", lane: background, targets: []string{"lint"}},
		{name: "docs", lane: clusters, group: true, packages: []string{"test/docs"},
			needs: slices.Concat(suite, []string{"certmanager", "node-tools"}), timeout: 20 * time.Minute},
		{name: "olm", lane: clusters, group: true, packages: []string{"test/olm"},
			needs: slices.Concat(suite, []string{"olm-tools", "node-tools"}), timeout: 15 * time.Minute},
		{name: "images", lane: clusters, group: true, packages: []string{"test/images"},
			needs: slices.Concat(suite, []string{"node-tools"}), timeout: 10 * time.Minute},
		{name: "realnode", lane: clusters, group: true, packages: []string{"test/realnode"},
			needs: slices.Concat(suite, []string{"node-tools"}), timeout: 10 * time.Minute},
		{name: "harness", lane: clusters, group: true,
			packages: []string{"test/bench", "test/bench/harness", "test/cluster", "test/cluster/cmd/cluster", "test/tide", "test/tide/cmd/bench-tide"},
			needs:    suite, timeout: 15 * time.Minute},
		{name: "stock-reclaim", lane: clusters, group: true, packages: []string{"test/e2e"},
			run: "^TestTideByStockReclaim$", needs: suite, timeout: 15 * time.Minute},
		// The scenes that play what the programs' own clocks decide, at the shipped speed.
		{name: "shipped-clocks", lane: clusters, onlyInTestAll: true, packages: []string{"test/e2e"},
			run: "^(TestEnforcementIsProven|TestDisturbances)$", env: []string{"CLOCKS=shipped"},
			needs: []string{"controlplane", "programs"}, timeout: 25 * time.Minute},
	}
	taken := map[string]bool{}
	for _, s := range list {
		if s.run == "" {
			for _, dir := range s.packages {
				taken[dir] = true
			}
		}
	}
	unit := stage{name: "unit", lane: background, timeout: 10 * time.Minute, flags: []string{"-shuffle=on"}}
	// The race detector looks for races, not for rules: it makes a draw ten times as dear.
	race := stage{name: "race", lane: background, timeout: 20 * time.Minute, flags: []string{"-shuffle=on"}, race: true, env: []string{"DRAWS=30"}}
	// Their tests start API servers, which must not starve behind everything else.
	raceClusters := race
	raceClusters.name, raceClusters.lane, raceClusters.needs = "race-clusters", clusters, []string{"controlplane"}
	cluster := stage{name: "clusters", lane: clusters, timeout: 25 * time.Minute, needs: suite, skip: "^TestTideByStockReclaim$"}
	for _, dir := range slices.Sorted(maps.Keys(p.packages)) {
		pkg := p.packages[dir]
		switch {
		case len(pkg.testSources) == 0 || taken[dir]:
		case pkg.cluster && strings.HasPrefix(dir, "test/"):
			cluster.packages = append(cluster.packages, dir)
		case pkg.cluster && pkg.concurrent:
			raceClusters.packages = append(raceClusters.packages, dir)
		case pkg.concurrent:
			race.packages = append(race.packages, dir)
		default:
			unit.packages = append(unit.packages, dir)
		}
	}
	return slices.Concat([]stage{unit, race, cluster, raceClusters}, list)
}
