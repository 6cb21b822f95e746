package main

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"cardquota.dev/operator/internal/testing/check"
)

// checkout is this project. Listing its packages takes seconds.
var checkout = sync.OnceValues(func() (*project, error) { return loadProject(context.Background()) })

// TestAFileDecidesTheGroupsThatReadIt: make test runs a group of slow tests only if one of its inputs has
// changed. Each row is a file and the groups that must run after a change of it. A file of a Go package runs
// the groups whose tests or programs depend on the package. Its own tests and fuzz data do not count, except in
// packages of the group. For other files, lists in groups.go and stages.go name the groups that read them. A
// file that no list knows runs every group. Files that no group reads run none; stages such as lint always run,
// and need no list.
func TestAFileDecidesTheGroupsThatReadIt(t *testing.T) {
	p := check.Value(checkout())(t)

	const everyGroup = "docs olm monitoring images realnode harness stock-reclaim"
	for file, want := range map[string]string{
		// Every group reads these files.
		"Makefile":                    everyGroup,
		"go.sum":                      everyGroup,
		"hack/controlplane/go.mod":    everyGroup,
		"config/rbac/a-new-file.yaml": everyGroup,
		// Every group depends on these packages.
		"internal/quota/a-new-file.go":         everyGroup,
		"test/cluster/cmd/pause/main.go":       everyGroup,
		"test/cluster/testdata/admission.yaml": everyGroup,
		// No list knows these files.
		"a-new-folder/file":                   everyGroup,
		"hack/a-new-script.sh":                everyGroup,
		"internal/a-deleted-package/rules.go": everyGroup,
		// Only tests that are in no group use these files.
		"internal/quota/a_test.go":            "",
		"internal/card/testdata/fuzz/FuzzA/1": "",
		// No group depends on this package, and none reads these files.
		"hack/mutants/main.go": "",
		"hack/style/main.go":   "",
		".golangci.yml":        "",
		// These groups run kubectl cardquota.
		"cmd/kubectl-cardquota/main.go": "docs monitoring harness stock-reclaim",
		// The package is one that the group tests or builds.
		"test/cluster/cluster_test.go":        "harness",
		"test/realnode/responder/main.go":     "realnode",
		"test/olm/testdata/previous/any.yaml": "olm",
		"test/e2e/testdata/fleet.yaml":        "stock-reclaim",
		// The lists of these groups have the file.
		"README.md":                        "docs",
		"docs/kubectl.md":                  "docs stock-reclaim",
		"docs/install.md":                  "docs olm",
		"docs/runbooks.md":                 "docs monitoring",
		"bundle/metadata/annotations.yaml": "docs olm",
		"hack/bundle/main.go":              "docs olm",
		"Dockerfile":                       "docs olm images",
		"hack/build-prometheus.sh":         "monitoring",
	} {
		var decided []string
		for _, s := range groups {
			if p.isInput(s, file) {
				decided = append(decided, s.name)
			}
		}
		check.Equal(t, "groups that run after a change of "+file, want, strings.Join(decided, " "))
	}
}

// TestTheListsOfInputsNameFilesThatExist: the lists in groups.go name packages, programs and files. One that
// moves must be renamed there too. Otherwise a change of it would no longer run its group.
func TestTheListsOfInputsNameFilesThatExist(t *testing.T) {
	p := check.Value(checkout())(t)

	names := slices.Concat(readByAll, readByNone)
	for _, s := range groups {
		names = slices.Concat(names, s.packages, s.programs, s.reads)
	}
	for _, name := range names {
		_, err := os.Stat(filepath.Join(p.root, name))
		check.That(t, err == nil, "a list names a file that does not exist: %v", err)
	}
}

// inputFiles are the files of a small project. Package dir has the tests of a group, depends on package kit, and reads
// config/a.yaml.
var inputFiles = map[string]string{
	"dir/a_test.go":       "package dir",
	"dir/testdata/a.yaml": "a",
	"kit/kit.go":          "package kit",
	"config/a.yaml":       "a",
	"other/other.go":      "package other",
	"docs/a.md":           "a",
	".gitignore":          "dist/",
}

// TestAChangedInputRunsItsGroup: a group that has passed runs again only if an input of it has changed.
// Inputs are its package, the packages on which that depends, folder config, which every group reads, and
// files that no list knows. The pass is recorded in dist. The group tests package dir, which depends on
// package kit; docs and package other are no inputs. Each row is a shell command that changes the project
// after the pass, and whether the group runs then.
func TestAChangedInputRunsItsGroup(t *testing.T) {
	for command, wantRun := range map[string]bool{
		": # nothing changes":                                        false,
		"echo b >dir/a_test.go":                                      true,
		"echo b >dir/testdata/a.yaml":                                true,
		"touch dir/testdata/new":                                     true,
		"echo b >kit/kit.go":                                         true,
		"touch kit/new.s":                                            true,
		"rm kit/kit.go":                                              true,
		"mv kit/kit.go kit/b.go":                                     true,
		"echo b >config/a.yaml":                                      true,
		"chmod +x config/a.yaml":                                     true,
		"rm config/a.yaml":                                           true,
		"ln -sf ../docs/a.md config/a.yaml":                          true,
		"mv config/a.yaml docs":                                      true,
		"touch new # a file that no list knows":                      true,
		"echo b >other/other.go":                                     false,
		"echo b >docs/a.md":                                          false,
		"touch config/a.yaml # only its time changes":                false,
		"echo b >kit/kit.go; git add .; git commit -qm b":            true,
		"git add .; git commit -qm a # no file changes":              false,
		"echo {} >dist/passed.json # a record without the group":     true,
		"rm -r dist # no record":                                     true,
		"echo broken >dist/passed.json":                              true,
		"sed -i 's/go1/go0/' dist/passed.json # another Go":          true,
		"sed -i 's/Tree\": \"..../Tree\": \"0000/' dist/passed.json": true, // a record of a state that git does not have
	} {
		t.Run(command, func(t *testing.T) {
			p := newProject(t, inputFiles)
			check.NoError(t, p.recordPass(t.Context(), "g"))
			runShell(t, p, command)

			group := stage{name: "g", group: true, packages: []string{"dir"}}
			choices := check.Value(p.chooseStages(t.Context(), []stage{group}, false, nil))(t)
			check.Equal(t, "runs, because "+choices["g"].reason, wantRun, choices["g"].run)
		})
	}
}

// newProject creates a project of these files in a git repository of its own. Package dir depends on package
// kit.
func newProject(t *testing.T, files map[string]string) *project {
	p := &project{root: t.TempDir(), packages: map[string]*goPackage{"dir": {testDeps: []string{"dir", "kit"}}, "kit": {}, "other": {}}}
	tree := fstest.MapFS{}
	for name, text := range files {
		tree[name] = &fstest.MapFile{Data: []byte(text)}
	}

	check.NoError(t, os.CopyFS(p.root, tree))
	runShell(t, p, "mkdir dist; git init -q; git config user.name a; git config user.email a@example; git add .gitignore; git commit -qm a")
	return p
}

// runShell runs commands in a project, and reads its files again.
func runShell(t *testing.T, p *project, commands string) {
	check.Value(runOutput(t.Context(), p.root, "bash", "-euc", commands))(t)
	p.tree = check.Value(writeTree(t.Context(), p.root))(t)
}

// TestChosenStagesAreThoseOfTheCommand: make test runs each group that has not passed yet, and no stage that is
// only of make test-all. Stages that are named on the command line run alone. There is a stage unit, a group
// olm, and a stage clocks which is only of test-all.
func TestChosenStagesAreThoseOfTheCommand(t *testing.T) {
	p := &project{root: t.TempDir()}
	stages := []stage{{name: "unit"}, {name: "olm", group: true}, {name: "clocks", onlyInTestAll: true}}
	for t, tc := range check.Cases(t, map[string]struct {
		all  bool
		only []string
		want string
	}{
		"make test in a fresh clone": {want: "olm unit"},
		"make test-all":              {all: true, want: "clocks olm unit"},
		"runtests test clocks":       {only: []string{"clocks"}, want: "clocks"},
	}) {
		choices := check.Value(p.chooseStages(t.Context(), stages, tc.all, tc.only))(t)
		maps.DeleteFunc(choices, func(_ string, d decision) bool { return !d.run })
		check.Equal(t, "stages", tc.want, strings.Join(slices.Sorted(maps.Keys(choices)), " "))
	}

	_, err := p.chooseStages(t.Context(), stages, false, []string{"bogus"})
	check.Says(t, err, "there is no stage")
}

// TestThePackagesWithTestsBelongToOneStageEach: no test of the project may run twice in make test, or not at
// all. Stages that run a command instead of go test do not count.
func TestThePackagesWithTestsBelongToOneStageEach(t *testing.T) {
	p := check.Value(checkout())(t)

	staged := map[string]int{}
	for _, s := range allStages(p) {
		for _, dir := range s.packages {
			if s.run == "" {
				staged[dir]++
			}
		}
	}

	for dir, pkg := range p.packages {
		check.That(t, (staged[dir] == 1) == (pkg.testDeps != nil), "the tests of %s belong to %d stages", dir, staged[dir])
	}
}
