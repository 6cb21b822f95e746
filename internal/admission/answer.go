// Package admission holds the rules by which objects are refused, warned about or
// completed when they are written: objects and the world in, words for people
// out.
//
// The rules are those of the scheduler and the reconcilers: both ask the same
// functions (internal/card, internal/decision, internal/policy, internal/queue,
// internal/vcjob), so that what is admitted is what will work. Nothing here is
// needed for quotas to hold: the scheduler refuses again.
package admission

import (
	"fmt"
	"slices"
	"strings"
)

// Answer is what is said about an object. The zero Answer allows it.
type Answer struct {
	// Refusals are why it is refused, and what would help.
	Refusals []string
	// Warnings are shown to whoever writes it, and stop nothing.
	Warnings []string
}

// Allowed tells that nothing speaks against the object.
func (a *Answer) Allowed() bool { return len(a.Refusals) == 0 }

// Text is all refusals on one line.
func (a *Answer) Text() string { return strings.Join(a.Refusals, "; ") }

func (a *Answer) refuse(format string, values ...any) {
	a.Refusals = add(a.Refusals, fmt.Sprintf(format, values...))
}

func (a *Answer) warn(format string, values ...any) {
	a.Warnings = add(a.Warnings, fmt.Sprintf(format, values...))
}

func add(list []string, text string) []string {
	if slices.Contains(list, text) {
		return list
	}
	return append(list, text)
}

// Since keeps as refusals only what an object before the change was not refused
// for already: a change is answered for what it makes worse, so that an object
// that was stored before a rule can still be changed in other things. The rest
// becomes warnings.
func (a *Answer) Since(before Answer) Answer {
	out := Answer{Warnings: a.Warnings}
	for _, text := range a.Refusals {
		if slices.Contains(before.Refusals, text) {
			out.Warnings = add(out.Warnings, "as before: "+text)
		} else {
			out.Refusals = append(out.Refusals, text)
		}
	}
	return out
}

// softened turns every refusal into a warning.
func (a *Answer) softened() Answer {
	return Answer{Warnings: append(slices.Clone(a.Refusals), a.Warnings...)}
}
