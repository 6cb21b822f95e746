package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"
)

// readByAll are the files outside Go packages that every group reads.
var readByAll = []string{
	"Makefile", "go.mod", "go.sum", "config", "hack/build-controlplane.sh", "hack/build-programs.sh", "hack/build-tools.sh", "hack/controlplane",
	"hack/folders.sh", "hack/in-temporary.sh", "hack/install-node-tools.sh", "hack/stamped-build.sh", "hack/tools",
}

// readByNone are the files outside Go packages that only stages read that always run, beside
// those that one group reads.
var readByNone = []string{
	".ci", ".gitignore", ".golangci.yml", "CHANGELOG.md", "CONTRIBUTING.md", "docs",
	"hack/alerts", "hack/bench-plugin.sh", "hack/bench-session.sh", "hack/boards", "hack/crd-ref-docs.yaml",
	"hack/fuzz.sh", "hack/lint.sh", "hack/pictures", "hack/style", "hack/verify-generated.sh",
}

// testInput matches the files that only the tests of their own package use.
var testInput = regexp.MustCompile(`_test\.go$|/testdata/(fuzz|rapid)/`)

// isInput reports whether a file decides a group. A file of a Go package does when the group's
// tests or programs depend on that package. Another file does when the group reads it, or
// when no list here has it: a new kind of file runs every group.
func (p *project) isInput(s stage, file string) bool {
	if dir := p.packageOf(file); dir != "" {
		return p.dependsOn(s, dir) && (slices.Contains(s.packages, dir) || !testInput.MatchString(file))
	}
	if isBelow(file, readByAll) || isBelow(file, s.reads) {
		return true
	}

	isKnown := isBelow(file, readByNone)
	for _, other := range groups {
		isKnown = isKnown || isBelow(file, other.reads)
	}
	return !isKnown
}

func (p *project) dependsOn(s stage, dir string) bool {
	return slices.ContainsFunc(s.packages, func(tested string) bool { return slices.Contains(p.packages[tested].testDeps, dir) }) ||
		slices.ContainsFunc(s.programs, func(program string) bool { return slices.Contains(p.packages[program].deps, dir) })
}

// isBelow reports whether a file is one of the paths, or in one of these folders.
func isBelow(file string, paths []string) bool {
	return slices.ContainsFunc(paths, func(path string) bool { return (file == path) || strings.HasPrefix(file, path+"/") })
}

// inputs returns the files that decide a group.
func (p *project) inputs(s stage) []string {
	return slices.DeleteFunc(slices.Clone(p.files), func(file string) bool { return !p.isInput(s, file) })
}

// record is the last pass of a group in this clone: the working tree in git, and what else
// affected the result.
type record struct {
	Passed                    time.Time
	Commit, Tree, Environment string
}

// environment is what affects results beside files.
func environment() string {
	return fmt.Sprintf("%s %s/%s, root: %v", runtime.Version(), runtime.GOOS, runtime.GOARCH, os.Geteuid() == 0)
}

// recordsFile has the records by group. make clean removes it.
const recordsFile = "dist/passed.json"

// loadRecords returns the records of the groups. Without a readable file there are none.
func (p *project) loadRecords() map[string]record {
	records := map[string]record{}
	text, err := os.ReadFile(filepath.Join(p.root, recordsFile))
	if (err != nil) || (json.Unmarshal(text, &records) != nil) {
		return map[string]record{}
	}
	return records
}

// recordPass records that a group passed with the files with which the run began.
func (p *project) recordPass(ctx context.Context, group string) error {
	commit, err := runOutput(ctx, p.root, "git", "describe", "--tags", "--always", "--dirty")
	if err != nil {
		return err
	}

	records := p.loadRecords()
	records[group] = record{time.Now(), commit, p.tree, environment()}
	text, err := json.MarshalIndent(records, "", "  ")
	if err != nil {
		return err
	}

	// A reader sees the old file or the new one, even when this process is killed.
	file := filepath.Join(p.root, recordsFile)
	if err := os.WriteFile(file+".tmp", text, 0o600); err != nil {
		return err
	}
	return os.Rename(file+".tmp", file)
}

// decision is whether a stage runs, and why.
type decision struct {
	run    bool
	reason string
}

// chooseStages decides which stages run: all that are no group, and the groups of which an input
// has changed since they last passed in this clone. With names in only, it chooses those.
func (p *project) chooseStages(ctx context.Context, stages []stage, all bool, only []string) (map[string]decision, error) {
	choices := map[string]decision{}
	for _, s := range stages {
		switch {
		case len(only) > 0:
			choices[s.name] = decision{slices.Contains(only, s.name), "the command names " + strings.Join(only, ", ")}
		case all:
			choices[s.name] = decision{true, "test-all runs everything"}
		case s.onlyInTestAll:
			choices[s.name] = decision{false, "make test-all runs it"}
		case !s.group:
			choices[s.name] = decision{true, "runs always"}
		default:
			choices[s.name] = p.chooseGroup(ctx, s)
		}
	}

	for _, name := range only {
		if _, isKnown := choices[name]; !isKnown {
			return nil, fmt.Errorf("there is no stage %q", name)
		}
	}
	return choices, nil
}

func (p *project) chooseGroup(ctx context.Context, s stage) decision {
	passed, hasRecord := p.loadRecords()[s.name]
	if !hasRecord {
		return decision{true, "it has not passed in this clone"}
	}
	if passed.Environment != environment() {
		return decision{true, "it passed with " + passed.Environment}
	}

	// git removes trees that no commit has after two weeks.
	changed, err := p.changedFiles(ctx, passed.Tree)
	if err != nil {
		return decision{true, "git no longer has the files with which it passed"}
	}

	when := passed.Passed.Format(time.DateTime) + " at " + passed.Commit
	changed = slices.DeleteFunc(changed, func(file string) bool { return !p.isInput(s, file) })
	if len(changed) == 0 {
		return decision{false, "no input has changed since it passed on " + when}
	}
	return decision{true, fmt.Sprintf("since it passed on %s changed %d inputs, such as %s", when, len(changed), changed[0])}
}
