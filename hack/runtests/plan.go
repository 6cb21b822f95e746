package main

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// plan is what a run does, and what it leaves out.
type plan struct {
	stages  []stage // all
	chosen  []stage
	choices map[string]choice
	inputs  map[string]fileHashes
	commit  string
	records recordBook
	hasher  *hasher
}

// comparedCommits is with how many of the newest commits a run on main itself compares.
const comparedCommits = 10

// plan chooses the stages. Names in only leave out all others.
func (r *runner) plan(ctx context.Context, all bool, only []string) (*plan, error) {
	p := r.project
	made := &plan{stages: stages(p), inputs: map[string]fileHashes{}, records: openRecords(), hasher: &hasher{p.root, fileHashes{}}}
	if all {
		drawAll(made.stages)
	}
	records := map[string][]record{}
	for _, s := range made.stages {
		if !s.group {
			continue
		}
		hashes, err := made.hasher.hash(p.inputs(s))
		if err != nil {
			return nil, err
		}
		made.inputs[s.name], records[s.name] = hashes, nil
		for _, kept := range made.records.read(s.name) {
			// What tests opened beyond the derived files counts as well.
			for _, file := range kept.Opened {
				if p.known[file] {
					more, err := made.hasher.hash([]string{file})
					if err != nil {
						return nil, err
					}
					hashes[file] = more[file]
				}
			}
			records[s.name] = append(records[s.name], kept)
		}
	}
	c := circumstances{all: all, turn: commitCount(ctx, p.root)}
	c.changed, c.base = p.changedFiles(ctx, comparedCommits)
	made.choices = choose(made.stages, made.inputs, records, c)
	made.commit = describeCommit(ctx, p.root)
	if err := made.keepOnly(only); err != nil {
		return nil, err
	}
	for _, s := range made.stages {
		if made.choices[s.name].run {
			made.chosen = append(made.chosen, s)
		}
	}
	return made, nil
}

// keepOnly leaves out all stages but those that were asked for, if any were.
func (p *plan) keepOnly(only []string) error {
	if len(only) == 0 {
		return nil
	}
	for name := range p.choices {
		p.choices[name] = choice{false, "it was not asked for"}
	}
	for _, name := range only {
		if _, known := p.choices[name]; !known {
			return fmt.Errorf("there is no stage %q", name)
		}
		p.choices[name] = choice{true, "it was asked for"}
	}
	return nil
}

// drawAll has the stages with the race detector draw as often as every other stage.
func drawAll(stages []stage) {
	for i := range stages {
		if stages[i].race {
			stages[i].env = nil
		}
	}
}

func (p *plan) print(out io.Writer) {
	for _, s := range p.stages {
		word := "run     "
		if !p.choices[s.name].run {
			word = "not run "
		}
		if s.group || s.onlyAll || !p.choices[s.name].run {
			_, _ = fmt.Fprintf(out, "%s %-14s %s\n", word, s.name, p.choices[s.name].why)
		}
	}
}

// keep records that a group passed.
func (p *plan) keep(o outcome) error {
	inputs := p.inputs[o.stage.name]
	var opened []string
	for _, file := range o.opened {
		if inputs[file] == "" {
			opened = append(opened, file)
		}
	}
	hashes, err := p.hasher.hash(opened)
	if err != nil {
		return err
	}
	for name, hash := range inputs {
		hashes[name] = hash
	}
	slices.Sort(opened)
	return p.records.add(o.stage.name, record{
		Passed: time.Now(), Commit: p.commit, Inputs: hashes, Opened: slices.Compact(opened),
	})
}

// changedFiles returns the files that differ from the commit that the work began at, and how
// that commit is called: the merge base with main, upstream's where there is one. When that is
// the checked out commit itself, the base is so many commits before it. Without such a commit
// (a shallow clone) it returns nil.
func (p *project) changedFiles(ctx context.Context, commits int) (map[string]bool, string) {
	head, err := output(ctx, p.root, "git", "rev-parse", "HEAD")
	if err != nil {
		return nil, ""
	}
	base, name := strings.TrimSpace(head), "the merge base"
	for _, branch := range []string{"origin/main", "main"} {
		if text, err := output(ctx, p.root, "git", "merge-base", "HEAD", branch); err == nil {
			base = strings.TrimSpace(text)
			break
		}
	}
	if base == strings.TrimSpace(head) {
		name = fmt.Sprintf("%d commits ago", commits)
		text, err := output(ctx, p.root, "git", "rev-parse", "--verify", "--quiet", fmt.Sprintf("HEAD~%d", commits))
		if err != nil {
			return nil, ""
		}
		base = strings.TrimSpace(text)
	}
	if base == strings.TrimSpace(head) {
		name = "the last commit"
	}
	// The working tree counts, with files that git does not know yet.
	text, err := output(ctx, p.root, "git", "diff", "--name-only", "-z", base)
	if err != nil {
		return nil, ""
	}
	changed := map[string]bool{}
	for file := range strings.SplitSeq(text, "\x00") {
		changed[file] = true
	}
	if text, err = output(ctx, p.root, "git", "ls-files", "-z", "--others", "--exclude-standard"); err != nil {
		return nil, ""
	}
	for file := range strings.SplitSeq(text, "\x00") {
		changed[file] = true
	}
	delete(changed, "")
	return changed, name
}

func describeCommit(ctx context.Context, root string) string {
	text, err := output(ctx, root, "git", "describe", "--tags", "--always", "--dirty")
	if err != nil {
		return "an unknown commit"
	}
	return strings.TrimSpace(text)
}

// budgetsFile holds the seconds that a stage may take: "stage seconds" a line.
const budgetsFile = "hack/runtests/budgets.txt"

// readBudgets reads how long each stage may take.
func (r *runner) readBudgets() (map[string]time.Duration, error) {
	text, err := readLines(filepath.Join(r.project.root, budgetsFile))
	if err != nil {
		return nil, err
	}
	budgets := map[string]time.Duration{}
	for _, line := range text {
		var name string
		var seconds int
		if _, err := fmt.Sscanf(line, "%s %d", &name, &seconds); err != nil {
			return nil, fmt.Errorf("%s: %q is not a stage and its seconds", budgetsFile, line)
		}
		budgets[name] = time.Duration(seconds) * time.Second
	}
	return budgets, nil
}
