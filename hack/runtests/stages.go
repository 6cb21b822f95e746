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
	// lane is the lane of the stage: the stages of one lane run one after the other.
	lane lane
	// needs are make targets that run before any stage starts; targets are run by the stage.
	needs, targets []string

	// packages are the folders of the Go packages to test.
	packages []string
	// run and skip select tests, as go test's flags do.
	run, skip string
	race      bool
	// flags are further flags of go test.
	flags []string
	env   []string
	// timeout bounds one package, even on a machine half as fast as the budget assumes.
	timeout time.Duration

	// group marks a stage that is slow and rarely fails: see choose.go.
	group bool
	// onlyInTestAll runs the stage only in make test-all.
	onlyInTestAll bool
}

// lane is a sequence of stages. The stages of the background lane run with a low priority.
// Groups run after the clusters of every run, because they would slow each other down.
type lane int

const (
	background lane = iota
	clusters
)

var lanes = []lane{background, clusters}

// allStages returns all stages. A package below test/ that no group names belongs to the stage
// clusters, or to unit when its tests start no cluster. So a new suite runs without a change
// here.
func allStages(p *project) []stage {
	suite := []string{"controlplane-full", "test-programs"}
	list := []stage{
		{name: "verify", lane: background, targets: []string{"verify"}},
		{name: "lint", lane: background, targets: []string{"lint"}},
		// The plugin is the only program for other systems. The platform that differs most is compiled in
		// each run, and all of them in make test-all.
		{name: "platform", lane: background, targets: []string{"kubectl-cardquota_windows_arm64"}},
		{name: "platforms", lane: background, onlyInTestAll: true, targets: []string{"kubectl-cardquota-all"}},
		{name: "docs", lane: clusters, group: true, packages: []string{"test/docs"},
			needs: slices.Concat(suite, []string{"certmanager", "node-tools"}), timeout: 20 * time.Minute},
		{name: "olm", lane: clusters, group: true, packages: []string{"test/olm"},
			needs: slices.Concat(suite, []string{"olm-tools", "node-tools"}), timeout: 15 * time.Minute},
		{name: "monitoring", lane: clusters, group: true, packages: []string{"test/monitoring"},
			needs: slices.Concat(suite, []string{"prometheus"}), timeout: 10 * time.Minute},
		{name: "images", lane: clusters, group: true, packages: []string{"test/images"},
			needs: slices.Concat(suite, []string{"node-tools"}), timeout: 10 * time.Minute},
		{name: "realnode", lane: clusters, group: true, packages: []string{"test/realnode"},
			needs: slices.Concat(suite, []string{"node-tools"}), timeout: 10 * time.Minute},
		{name: "harness", lane: clusters, group: true,
			packages: []string{"test/bench", "test/bench/cmd/bench-operator", "test/bench/harness", "test/cluster", "test/cluster/cmd/cluster", "test/tide", "test/tide/cmd/bench-tide"},
			needs:    suite, timeout: 15 * time.Minute},
		{name: "stock-reclaim", lane: clusters, group: true, packages: []string{"test/e2e"},
			run: "^TestStockReclaim$", needs: suite, timeout: 15 * time.Minute},
		// The scenes that depend on the programs' own timeouts, with the shipped timeouts.
		{name: "shipped-clocks", lane: clusters, onlyInTestAll: true, packages: []string{"test/e2e"},
			run: "^(TestEnforcementIsProven|TestDisturbances)$", env: []string{"CLOCKS=shipped"},
			needs: []string{"controlplane", "programs"}, timeout: 25 * time.Minute},
		// The stage unit plays fewer sequences.
		{name: "sequences", lane: background, onlyInTestAll: true, packages: []string{"test/liveness"},
			run: "^TestWhatFitsStarts", env: []string{"DRAWS=1500"}, timeout: 20 * time.Minute},
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
	// The race detector looks for races, not for wrong rules. It makes a draw ten times as
	// slow.
	race := stage{name: "race", lane: background, timeout: 20 * time.Minute, flags: []string{"-shuffle=on"}, race: true, env: []string{"DRAWS=30"}}

	// Their tests start API servers, which must not starve behind everything else.
	raceClusters := race
	raceClusters.name = "race-clusters"
	raceClusters.lane = clusters
	raceClusters.needs = []string{"controlplane"}

	cluster := stage{name: "clusters", lane: clusters, timeout: 25 * time.Minute, needs: suite, skip: "^TestStockReclaim$"}
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
