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

	"cardquota.dev/operator/internal/testing/check"
)

// checkout is this project. Listing its packages takes seconds.
var checkout = sync.OnceValues(func() (*project, error) { return loadProject(context.Background()) })

// A stage that always runs, such as verify or lint, needs no list of inputs.
func TestAFileDecidesTheGroupsThatReadIt(t *testing.T) {
	p := check.Value(checkout())(t)

	const all = "docs olm monitoring images realnode harness stock-reclaim"
	for file, want := range map[string]string{
		"Makefile":                              all,
		"go.sum":                                all,
		"hack/controlplane/go.mod":              all,
		"config/rbac/a-new-file.yaml":           all,
		"internal/quota/a-new-file.go":          all,
		"test/cluster/cmd/pause/main.go":        all,
		"test/cluster/testdata/admission.yaml":  all,
		"a-new-folder/file":                     all,
		"hack/a-new-script.sh":                  all,
		"internal/a-package-that-went/rules.go": all,
		"internal/quota/a_test.go":              "",
		"internal/card/testdata/fuzz/FuzzA/1":   "",
		"hack/mutants/main.go":                  "",
		"hack/style/main.go":                    "",
		".golangci.yml":                         "",
		"cmd/kubectl-cardquota/main.go":         "docs monitoring harness stock-reclaim",
		"test/cluster/cluster_test.go":          "harness",
		"test/realnode/responder/main.go":       "realnode",
		"test/olm/testdata/previous/any.yaml":   "olm",
		"test/e2e/testdata/fleet.yaml":          "stock-reclaim",
		"README.md":                             "docs",
		"docs/kubectl.md":                       "docs stock-reclaim",
		"docs/install.md":                       "docs olm",
		"docs/runbooks.md":                      "docs monitoring",
		"bundle/metadata/annotations.yaml":      "docs olm",
		"hack/bundle/main.go":                   "docs olm",
		"Dockerfile":                            "docs olm images",
		"hack/build-prometheus.sh":              "monitoring",
	} {
		var decides []string
		for _, s := range groups {
			if p.isInput(s, file) {
				decides = append(decides, s.name)
			}
		}
		check.Equal(t, "what "+file+" decides", want, strings.Join(decides, " "))
	}
}

// The lists name what exists: a file that moves must not leave its group.
func TestTheListsOfInputsNameWhatExists(t *testing.T) {
	p := check.Value(checkout())(t)

	names := slices.Concat(readByAll, readByNone)
	for _, s := range groups {
		names = slices.Concat(names, s.packages, s.programs, s.reads)
	}
	for _, name := range names {
		_, err := os.Stat(filepath.Join(p.root, name))
		check.Says(t, err, "")
	}
}

// inputFiles are the files of the project in TestAChangedInputRunsItsGroup. Its group tests the
// package dir, which depends on the package kit.
var inputFiles = map[string]string{
	"dir/a_test.go": "package dir", "dir/testdata/a.yaml": "a", "kit/kit.go": "package kit", "config/a.yaml": "a",
	"other/other.go": "package other", "docs/a.md": "a", ".gitignore": "dist/",
}

func TestAChangedInputRunsItsGroup(t *testing.T) {
	for change, want := range map[string]bool{
		":": false, "echo b >dir/a_test.go": true, "echo b >dir/testdata/a.yaml": true, "touch dir/testdata/new": true,
		"echo b >kit/kit.go": true, "touch kit/new.s": true, "rm kit/kit.go": true, "mv kit/kit.go kit/b.go": true,
		"echo b >config/a.yaml": true, "chmod +x config/a.yaml": true, "rm config/a.yaml": true,
		"ln -sf ../docs/a.md config/a.yaml": true, "mv config/a.yaml docs": true, "touch new": true,
		"echo b >other/other.go": false, "echo b >docs/a.md": false, "touch config/a.yaml": false,
		"echo b >kit/kit.go; git add .; git commit -qm b": true, "git add .; git commit -qm a": false,
		"echo {} >dist/passed.json": true, "rm -r dist": true, "echo broken >dist/passed.json": true,
		"sed -i 's/go1/go0/' dist/passed.json": true, "sed -i 's/Tree\": \"..../Tree\": \"0000/' dist/passed.json": true,
	} {
		t.Run(change, func(t *testing.T) {
			p := projectOf(t, inputFiles)
			check.NoError(t, p.recordPass(t.Context(), "g"))
			runShell(t, p, change)

			group := stage{name: "g", group: true, packages: []string{"dir"}}
			choices := check.Value(p.chooseStages(t.Context(), []stage{group}, false, nil))(t)
			check.Equal(t, "runs, because "+choices["g"].reason, want, choices["g"].run)
		})
	}
}

// projectOf returns a project of these files, in a folder of its own.
func projectOf(t *testing.T, files map[string]string) *project {
	t.Helper()
	p := &project{root: t.TempDir(), packages: map[string]*goPackage{"dir": {testDeps: []string{"dir", "kit"}}, "kit": {}, "other": {}}}
	for name, text := range files {
		file := filepath.Join(p.root, name)
		check.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
		check.NoError(t, os.WriteFile(file, []byte(text), 0o644))
	}

	runShell(t, p, "mkdir dist; git init -q; git config user.name a; git config user.email a@example; git add .gitignore; git commit -qm a")
	return p
}

// runShell runs commands in a project, and reads its files again.
func runShell(t *testing.T, p *project, commands string) {
	t.Helper()
	check.Value(runOutput(t.Context(), p.root, "bash", "-euc", commands))(t)
	p.tree = check.Value(writeTree(t.Context(), p.root))(t)
}

func TestTheStagesThatAreChosen(t *testing.T) {
	p := &project{root: t.TempDir()}
	stages := []stage{{name: "unit"}, {name: "olm", group: true}, {name: "clocks", onlyInTestAll: true}}
	for t, tc := range check.Cases(t, map[string]struct {
		all  bool
		only []string
		want string
	}{
		"a fresh clone": {want: "olm unit"},
		"test-all":      {all: true, want: "clocks olm unit"},
		"named stages":  {only: []string{"clocks"}, want: "clocks"},
	}) {
		choices := check.Value(p.chooseStages(t.Context(), stages, tc.all, tc.only))(t)
		maps.DeleteFunc(choices, func(_ string, d decision) bool { return !d.run })
		check.Equal(t, "stages", tc.want, strings.Join(slices.Sorted(maps.Keys(choices)), " "))
	}

	_, err := p.chooseStages(t.Context(), stages, false, []string{"bogus"})
	check.Says(t, err, "there is no stage")
}

func TestEveryTestBelongsToOneStage(t *testing.T) {
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
