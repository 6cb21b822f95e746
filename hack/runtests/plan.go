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

// plan is what a run executes and what it leaves out.
type plan struct {
	stages    []stage // all
	chosen    []stage
	decisions map[string]decision
	inputs    map[string]fileHashes
	commit    string
	records   recordStore
	hasher    *hasher
}

// defaultComparedCommits is the number of commits that a run on main compares with.
const defaultComparedCommits = 10

// planRun chooses the stages. With names in only, it runs only those.
func (r *runner) planRun(ctx context.Context, all bool, only []string) (*plan, error) {
	p := r.project
	made := &plan{stages: allStages(p), inputs: map[string]fileHashes{}, records: openRecords(), hasher: &hasher{p.root, fileHashes{}}}
	if all {
		drawFully(made.stages)
	}

	records := map[string][]record{}
	for _, s := range made.stages {
		if !s.group {
			continue
		}
		hashes, err := made.hasher.hashFiles(p.stageInputs(s))
		if err != nil {
			return nil, err
		}

		made.inputs[s.name] = hashes
		records[s.name] = nil
		for _, kept := range made.records.load(s.name) {
			// Files that tests opened beyond the derived inputs count as well.
			for _, file := range kept.Opened {
				if p.known[file] {
					more, err := made.hasher.hashFiles([]string{file})
					if err != nil {
						return nil, err
					}
					hashes[file] = more[file]
				}
			}
			records[s.name] = append(records[s.name], kept)
		}
	}

	c := decisionContext{all: all, turn: commitCount(ctx, p.root)}
	c.changed, c.base = p.changedFiles(ctx, defaultComparedCommits)
	made.decisions = chooseStages(made.stages, made.inputs, records, c)
	made.commit = describeCommit(ctx, p.root)
	if err := made.keepOnly(only); err != nil {
		return nil, err
	}

	for _, s := range made.stages {
		if made.decisions[s.name].run {
			made.chosen = append(made.chosen, s)
		}
	}

	return made, nil
}

// keepOnly leaves out all stages that were not requested, if any were.
func (p *plan) keepOnly(only []string) error {
	if len(only) == 0 {
		return nil
	}

	for name := range p.decisions {
		p.decisions[name] = decision{false, "it was not asked for"}
	}

	for _, name := range only {
		if _, known := p.decisions[name]; !known {
			return fmt.Errorf("there is no stage %q", name)
		}
		p.decisions[name] = decision{true, "it was asked for"}
	}

	return nil
}

// drawFully lets stages with the race detector draw as often as other stages.
func drawFully(stages []stage) {
	for i := range stages {
		if stages[i].race {
			stages[i].env = nil
		}
	}
}

func (p *plan) printDecisions(out io.Writer) {
	for _, s := range p.stages {
		word := "run     "
		if !p.decisions[s.name].run {
			word = "not run "
		}
		if s.group || s.onlyInTestAll || !p.decisions[s.name].run {
			_, _ = fmt.Fprintf(out, "%s %-14s %s\n", word, s.name, p.decisions[s.name].reason)
		}
	}
}

// recordPass records that a group passed.
func (p *plan) recordPass(o outcome) error {
	inputs := p.inputs[o.stage.name]
	var opened []string
	for _, file := range o.opened {
		if inputs[file] == "" {
			opened = append(opened, file)
		}
	}

	hashes, err := p.hasher.hashFiles(opened)
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

// changedFiles returns the files that differ from the base commit, and a description of that
// commit. The base is the merge base with main, of the upstream where there is one. When that
// is HEAD itself, the base is the given number of commits before it. Without such a commit (a
// shallow clone) it returns nil.
func (p *project) changedFiles(ctx context.Context, commits int) (map[string]bool, string) {
	head, err := runOutput(ctx, p.root, "git", "rev-parse", "HEAD")
	if err != nil {
		return nil, ""
	}

	base := strings.TrimSpace(head)
	name := "the merge base"
	for _, branch := range []string{"origin/main", "main"} {
		if text, err := runOutput(ctx, p.root, "git", "merge-base", "HEAD", branch); err == nil {
			base = strings.TrimSpace(text)
			break
		}
	}

	if base == strings.TrimSpace(head) {
		name = fmt.Sprintf("%d commits ago", commits)
		text, err := runOutput(ctx, p.root, "git", "rev-parse", "--verify", "--quiet", fmt.Sprintf("HEAD~%d", commits))
		if err != nil {
			return nil, ""
		}
		base = strings.TrimSpace(text)
	}

	if base == strings.TrimSpace(head) {
		name = "the last commit"
	}

	// The working tree counts, including untracked files.
	text, err := runOutput(ctx, p.root, "git", "diff", "--name-only", "-z", base)
	if err != nil {
		return nil, ""
	}

	changed := map[string]bool{}
	for file := range strings.SplitSeq(text, "\x00") {
		changed[file] = true
	}

	text, err = runOutput(ctx, p.root, "git", "ls-files", "-z", "--others", "--exclude-standard")
	if err != nil {
		return nil, ""
	}

	for file := range strings.SplitSeq(text, "\x00") {
		changed[file] = true
	}

	delete(changed, "")
	return changed, name
}

func describeCommit(ctx context.Context, root string) string {
	text, err := runOutput(ctx, root, "git", "describe", "--tags", "--always", "--dirty")
	if err != nil {
		return "an unknown commit"
	}
	return strings.TrimSpace(text)
}

// budgetsFile holds the budget of each stage in seconds: "stage seconds" per line.
const budgetsFile = "hack/runtests/budgets.txt"

// readBudgets reads the budget of each stage.
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
