package main

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// decision is whether a stage runs, and why.
type decision struct {
	run    bool
	reason string
}

// decisionContext is what a decision depends on beside a group's own record.
type decisionContext struct {
	all bool // make test-all
	// changed are the files that differ from the merge base, nil when there is none; base
	// describes it.
	changed map[string]bool
	base    string
	// turn selects one of the groups without a record by rotation.
	turn int
}

// chooseStages decides which stages run. A stage that is not a group always runs. A group runs
// when one of its inputs has changed since it last passed on this machine. Without a record, it
// runs when an input has changed since the merge base. One more group without a record runs by
// rotation.
func chooseStages(stages []stage, inputs map[string]fileHashes, records map[string][]record, c decisionContext) map[string]decision {
	choices := map[string]decision{}
	var idle []string // groups without a record and without a changed input
	for _, s := range stages {
		switch {
		case c.all:
			choices[s.name] = decision{true, "test-all runs everything"}
		case s.onlyInTestAll:
			choices[s.name] = decision{false, "make test-all runs it"}
		case !s.group:
			choices[s.name] = decision{true, "runs always"}
		default:
			choices[s.name] = chooseGroup(inputs[s.name], records[s.name], c)
			if !choices[s.name].run && len(records[s.name]) == 0 {
				idle = append(idle, s.name)
			}
		}
	}

	if len(idle) > 0 {
		choices[idle[c.turn%len(idle)]] = decision{true, "it has no record here, and it is its turn"}
	}

	return choices
}

func chooseGroup(inputs fileHashes, records []record, c decisionContext) decision {
	if len(records) == 0 {
		if c.changed == nil {
			return decision{true, "it has no record here, and there is no earlier commit to compare with"}
		}

		var changed []string
		for file := range inputs {
			if c.changed[file] {
				changed = append(changed, file)
			}
		}

		if len(changed) > 0 {
			return decision{true, fmt.Sprintf("it has no record here, and since %s changed %s", c.base, firstThree(changed))}
		}

		return decision{false, fmt.Sprintf("it has no record here, and no input has changed since %s", c.base)}
	}

	var nearest []string
	for i, r := range records { // the newest first
		changed := r.changedSince(inputs)
		if len(changed) == 0 {
			return decision{false, "no input has changed since it passed on " + r.Passed.Format(time.DateTime) + " at " + r.Commit}
		}
		if i == 0 {
			nearest = changed
		}
	}

	return decision{true, "since it passed on " + records[0].Passed.Format(time.DateTime) + " changed " + firstThree(nearest)}
}

// firstThree names three of the files and counts the others.
func firstThree(files []string) string {
	slices.Sort(files)
	if len(files) <= 3 {
		return strings.Join(files, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(files[:3], ", "), len(files)-3)
}
