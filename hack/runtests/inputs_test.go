package main

import (
	"context"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// checkout is this project. Listing its packages takes seconds.
var checkout = sync.OnceValues(func() (*project, error) { return loadProject(context.Background()) })

// Otherwise a new kind of file could change without running any group.
func TestEveryTrackedFileDecidesAStage(t *testing.T) {
	p, err := checkout()
	if err != nil {
		t.Fatal(err)
	}

	// The list is in a file of its own: a name in a test counts as an input.
	untested, err := readLines(filepath.Join("testdata", "untested.txt"))
	if err != nil {
		t.Fatal(err)
	}

	decides := map[string]bool{}
	for _, s := range allStages(p) {
		for _, file := range p.stageInputs(s) {
			decides[file] = true
		}
	}

	for _, file := range p.files {
		if allowed := slices.Contains(untested, file); decides[file] == allowed {
			t.Errorf("%s: decides a stage: %v, listed in testdata/untested.txt: %v", file, decides[file], allowed)
		}
	}
}

func TestEveryTestBelongsToAStage(t *testing.T) {
	p, err := checkout()
	if err != nil {
		t.Fatal(err)
	}

	staged := map[string]int{}
	for _, s := range allStages(p) {
		for _, dir := range s.packages {
			if s.run == "" {
				staged[dir]++
			}
			if p.packages[dir] == nil || len(p.packages[dir].testSources) == 0 {
				t.Errorf("stage %s names %s, which has no tests", s.name, dir)
			}
		}
	}

	for dir, pkg := range p.packages {
		if want := min(1, len(pkg.testSources)); staged[dir] != want && !allowedTwice(p, dir) {
			t.Errorf("the tests of %s belong to %d stages, want %d", dir, staged[dir], want)
		}
	}
}

// allowedTwice reports whether a package may be in a second stage that runs it in another way.
func allowedTwice(p *project, dir string) bool {
	return slices.ContainsFunc(allStages(p), func(s stage) bool { return s.onlyInTestAll && slices.Contains(s.packages, dir) })
}

// inputsOf derives the inputs of the package dir/ in a project of the given files.
func inputsOf(t *testing.T, files map[string]string) []string {
	t.Helper()
	p := &project{root: t.TempDir(), known: map[string]bool{}, packages: map[string]*goPackage{}, makefile: parseMakefile(files["Makefile"])}
	for name, text := range files {
		file := filepath.Join(p.root, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}

		p.files = append(p.files, name)
		p.known[name] = true
		if path.Ext(name) != ".go" {
			continue
		}

		dir := path.Dir(name)
		if p.packages[dir] == nil {
			p.packages[dir] = &goPackage{dir: dir, main: strings.HasPrefix(text, "package main")}
		}

		if strings.HasSuffix(name, "_test.go") {
			p.packages[dir].testSources = append(p.packages[dir].testSources, name)
		} else {
			p.packages[dir].sources = append(p.packages[dir].sources, name)
		}
	}

	slices.Sort(p.files)
	p.packages["dir"].testDeps = []string{"test/kit"}
	if program := p.packages["cmd/program"]; program != nil {
		program.deps = []string{"internal/rules"}
	}

	return p.stageInputs(stage{packages: []string{"dir"}})
}

func TestInputsFollowWhatATestNames(t *testing.T) {
	const test = "dir/a_test.go"
	for name, tc := range map[string]struct {
		files map[string]string
		test  string
		want  []string
	}{
		"a file by its path": {map[string]string{"config/a.yaml": "", "config/b.yaml": ""}, `read("config/a.yaml")`, []string{"config/a.yaml"}},
		"a file from the test's own folder": {
			map[string]string{"dir/testdata/a.yaml": "", "config/a.yaml": ""}, `read("testdata/a.yaml"); read("../config/a.yaml")`,
			[]string{"config/a.yaml", "dir/testdata/a.yaml"},
		},
		"inputs that are played unnamed": {
			map[string]string{"dir/testdata/fuzz/FuzzA/1": "", "dir/testdata/rapid/TestB/2.fail": "", "dir/testdata/c": ""}, "",
			[]string{"dir/testdata/fuzz/FuzzA/1", "dir/testdata/rapid/TestB/2.fail"},
		},
		"a joined path":            {map[string]string{"config/rbac/a.yaml": ""}, `read(filepath.Join(root, "config", "rbac"))`, []string{"config/rbac/a.yaml"}},
		"a pattern":                {map[string]string{"config/a.yaml": "", "config/a.txt": ""}, `read("config/*.yaml")`, []string{"config/a.yaml"}},
		"a folder above":           {map[string]string{"config/a.yaml": ""}, `cd("../.."); cd(filepath.Join("..", ".."))`, nil},
		"a word is no folder":      {map[string]string{"config/a.yaml": "", "internal/rules/r.go": "package rules"}, `say("internal")`, nil},
		"a file that is not there": {map[string]string{"config/a.yaml": ""}, `read("config/c.yaml")`, nil},
		"a program, with its packages": {
			map[string]string{"cmd/program/main.go": "package main", "internal/rules/r.go": "package rules", "internal/other/o.go": "package other"},
			`build("./cmd/program")`, []string{"cmd/program/main.go", "internal/rules/r.go"},
		},
		"a script, and what it names": {
			map[string]string{"hack/x.sh": "# see docs/no.md\ncp config/a.yaml out\n", "config/a.yaml": "", "docs/no.md": ""},
			`run("hack/x.sh")`, []string{"config/a.yaml", "hack/x.sh"},
		},
		"a make target, and what it needs": {
			map[string]string{"Makefile": "a: b ## A\n\t@hack/a.sh\nb:\n\t@hack/b.sh\nc:\n\t@hack/c.sh\n", "hack/a.sh": "", "hack/b.sh": "", "hack/c.sh": ""},
			`exec.Command("make", "a")`, []string{"hack/a.sh", "hack/b.sh"},
		},
		"what a make target's definition names": {
			map[string]string{"Makefile": "define STEPS\n@hack/a.sh\nendef\na: X := 1\na: ## A\n\t$(STEPS)\n", "hack/a.sh": ""},
			`exec.Command("make", "a")`, []string{"hack/a.sh"},
		},
		"a document, but not what it links to": {
			map[string]string{"docs/a.md": "see [b](docs/b.md)\n    kubectl apply -f config/a.yaml\n", "docs/b.md": "config/b.yaml", "config/a.yaml": "", "config/b.yaml": ""},
			`read("docs/a.md")`, []string{"config/a.yaml", "docs/a.md"},
		},
		"what the packages under test/ name": {
			map[string]string{"test/kit/kit.go": `package kit; var _ = "config/a.yaml"`, "config/a.yaml": ""}, "", []string{"config/a.yaml"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			files := map[string]string{test: "package dir\nfunc f() { " + tc.test + " }\n", "Makefile": "", "go.mod": "", "hack/tools/go.sum": ""}
			for file, text := range tc.files {
				files[file] = text
			}

			if files["test/kit/kit.go"] == "" {
				files["test/kit/kit.go"] = "package kit"
			}

			want := append(tc.want, test, "Makefile", "go.mod", "hack/tools/go.sum", "test/kit/kit.go")
			slices.Sort(want)
			if got := inputsOf(t, files); !slices.Equal(got, want) {
				t.Errorf("inputs %v, want %v", got, want)
			}
		})
	}
}
