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
	lane lane
	// needs are make targets that run before any stage starts; targets are run by the stage.
	needs, targets []string

	// packages are the folders of the Go packages to test.
	packages []string
	// run and skip select tests, as go test's flags do.
	run, skip string
	race      bool
	env       []string
	// timeout bounds one package, even on a machine half as fast as the budget assumes.
	timeout time.Duration
	// budget is how many seconds the stage may take, on two processors with warm caches. A stage
	// that takes a quarter more is named.
	budget float64

	// group marks a stage that is slow and rarely fails. It depends on its packages, on the packages
	// of the programs that its tests build, and on the other files and folders that it reads.
	group           bool
	programs, reads []string
	// onlyInTestAll runs the stage only in make test-all.
	onlyInTestAll bool
}

// lane is a sequence of stages: they run one after the other, beside the other lane. The stages
// of the background lane run with a low priority. Groups run after the clusters of every run,
// because they would slow each other down.
type lane int

const (
	background lane = iota
	clusters
)

var (
	suite    = []string{"controlplane-full", "test-programs"}
	programs = []string{"cmd/manager", "cmd/scheduler", "test/cluster/cmd/pause", "test/deviceplugin"}
	plugin   = slices.Concat(programs, []string{"cmd/kubectl-cardquota", "test/cluster/cmd/cluster"})
	imaging  = []string{"Dockerfile", ".dockerignore", "hack/images.sh", "hack/sbom", "LICENSE"}
)

// groups are the stages that run only when an input has changed.
var groups = []stage{
	{name: "docs", packages: []string{"test/docs"}, timeout: 20 * time.Minute, budget: 180,
		needs:    slices.Concat(suite, []string{"certmanager", "node-tools"}),
		programs: slices.Concat(plugin, []string{"test/demo", "test/tide/cmd/tide"}),
		reads:    slices.Concat(imaging, []string{"README.md", "docs", "bundle", "hack/build-certmanager.sh", "hack/build-olm.sh", "hack/bundle", "hack/certmanager", "hack/olm"})},
	{name: "olm", packages: []string{"test/olm"}, timeout: 15 * time.Minute, budget: 180,
		needs: slices.Concat(suite, []string{"olm-tools", "node-tools"}), programs: programs,
		reads: slices.Concat(imaging, []string{"bundle", "docs/install.md", "docs/upgrade.md", "hack/bundle", "hack/olm", "hack/build-olm.sh"})},
	{name: "monitoring", packages: []string{"test/monitoring"}, timeout: 10 * time.Minute, budget: 70,
		needs: slices.Concat(suite, []string{"prometheus"}), programs: plugin,
		reads: []string{"docs/runbooks.md", "hack/build-prometheus.sh"}},
	{name: "images", packages: []string{"test/images"}, timeout: 10 * time.Minute, budget: 40,
		needs: slices.Concat(suite, []string{"node-tools"}), programs: programs, reads: imaging},
	{name: "realnode", packages: []string{"test/realnode"}, timeout: 10 * time.Minute, budget: 90,
		needs: slices.Concat(suite, []string{"node-tools"}), programs: append(slices.Clone(programs), "test/realnode/responder")},
	{name: "harness", timeout: 15 * time.Minute, budget: 200, needs: suite, programs: plugin,
		packages: []string{"test/bench", "test/bench/cmd/bench-operator", "test/bench/harness", "test/cluster", "test/cluster/cmd/cluster", "test/tide", "test/tide/cmd/bench-tide"}},
	{name: "stock-reclaim", packages: []string{"test/e2e"}, run: "^TestStockReclaim$", timeout: 15 * time.Minute, budget: 100,
		needs: suite, programs: plugin, reads: []string{"docs/kubectl.md"}},
}

// allStages returns all stages. A package below test/ that no group names belongs to the stage
// clusters, or to unit when its tests start no cluster. So a new suite runs without a change
// here.
func allStages(p *project) []stage {
	unit := stage{name: "unit", timeout: 10 * time.Minute, budget: 150}
	// The race detector looks for races, not for wrong rules. It makes a draw ten times as slow.
	race := stage{name: "race", timeout: 20 * time.Minute, budget: 220, race: true, env: []string{"DRAWS=30"}}
	cluster := stage{name: "clusters", lane: clusters, timeout: 25 * time.Minute, budget: 400, needs: suite, skip: "^TestStockReclaim$"}
	// Their tests start API servers, which must not starve behind everything else.
	raceClusters := stage{name: "race-clusters", lane: clusters, timeout: 20 * time.Minute, budget: 60, race: true, env: race.env, needs: []string{"controlplane"}}

	var list []stage
	grouped := map[string]bool{}
	for _, s := range groups {
		s.lane = clusters
		s.group = true
		list = append(list, s)
		for _, dir := range s.packages {
			grouped[dir] = s.run == ""
		}
	}

	for _, dir := range slices.Sorted(maps.Keys(p.packages)) {
		pkg := p.packages[dir]
		switch {
		case pkg.testDeps == nil || grouped[dir]:
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

	return append([]stage{
		unit, race, cluster, raceClusters,
		{name: "verify", budget: 30, targets: []string{"verify"}},
		{name: "lint", budget: 60, targets: []string{"lint"}},
		// The plugin is the only program for other systems. The platform that differs most is compiled in
		// each run, and all of them in make test-all.
		{name: "platform", budget: 60, targets: []string{"kubectl-cardquota_windows_arm64"}},
		{name: "platforms", budget: 300, onlyInTestAll: true, targets: []string{"kubectl-cardquota-all"}},
		// The scenes that depend on the programs' own timeouts, with the shipped timeouts.
		{name: "shipped-clocks", lane: clusters, onlyInTestAll: true, packages: []string{"test/e2e"},
			run: "^(TestEnforcementIsProven|TestDisturbances)$", env: []string{"CLOCKS=shipped"},
			needs: []string{"controlplane", "programs"}, timeout: 25 * time.Minute, budget: 300},
		// The stage unit plays fewer sequences.
		{name: "sequences", onlyInTestAll: true, packages: []string{"test/liveness"},
			run: "^TestWhatFitsStarts", env: []string{"DRAWS=1500"}, timeout: 20 * time.Minute, budget: 300},
	}, list...)
}
