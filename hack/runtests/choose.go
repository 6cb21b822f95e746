package main

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// choice says whether a stage runs, and why.
type choice struct {
	run bool
	why string
}

// circumstances are what a choice depends on beside a group's own record.
type circumstances struct {
	all bool // make test-all
	// changed are the files that differ from the merge base, or nil when there is none to
	// compare with; base is how it is called.
	changed map[string]bool
	base    string
	// turn rotates over the groups without a record.
	turn int
}

// choose decides which stages run. A stage that is no group always runs. A group runs when one
// of its inputs has changed since it last passed here. Where there is no record of it (a fresh
// machine), it runs when an input has changed since the merge base, and one more group without
// a record runs by rotation.
func choose(stages []stage, inputs map[string]fileHashes, records map[string][]record, c circumstances) map[string]choice {
	choices := map[string]choice{}
	var idle []string // groups without a record and without a changed input
	for _, s := range stages {
		switch {
		case c.all:
			choices[s.name] = choice{true, "test-all runs everything"}
		case s.onlyAll:
			choices[s.name] = choice{false, "make test-all runs it"}
		case !s.group:
			choices[s.name] = choice{true, "runs always"}
		default:
			choices[s.name] = chooseGroup(inputs[s.name], records[s.name], c)
			if !choices[s.name].run && len(records[s.name]) == 0 {
				idle = append(idle, s.name)
			}
		}
	}
	if len(idle) > 0 {
		choices[idle[c.turn%len(idle)]] = choice{true, "it has no record here, and it is its turn"}
	}
	return choices
}

func chooseGroup(inputs fileHashes, records []record, c circumstances) choice {
	if len(records) == 0 {
		if c.changed == nil {
			return choice{true, "it has no record here, and there is no earlier commit to compare with"}
		}
		var changed []string
		for file := range inputs {
			if c.changed[file] {
				changed = append(changed, file)
			}
		}
		if len(changed) > 0 {
			return choice{true, fmt.Sprintf("it has no record here, and since %s changed %s", c.base, listed3(changed))}
		}
		return choice{false, fmt.Sprintf("it has no record here, and no input has changed since %s", c.base)}
	}
	var nearest []string
	for i, r := range records { // the newest first
		changed := r.changedSince(inputs)
		if len(changed) == 0 {
			return choice{false, "no input has changed since it passed on " + r.Passed.Format(time.DateTime) + " at " + r.Commit}
		}
		if i == 0 {
			nearest = changed
		}
	}
	return choice{true, "since it passed on " + records[0].Passed.Format(time.DateTime) + " changed " + listed3(nearest)}
}

// listed3 names three of the files and counts the others.
func listed3(files []string) string {
	slices.Sort(files)
	if len(files) <= 3 {
		return strings.Join(files, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(files[:3], ", "), len(files)-3)
}
