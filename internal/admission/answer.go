// Package admission holds the rules by which objects are refused, warned about or
// completed when they are written: objects and the world in, words for people
// out.
//
// The rules are those of the scheduler and the reconcilers: both ask the same
// functions (internal/card, internal/workload, internal/policy, internal/queue,
// internal/workload), so that what is admitted is what will work. Nothing here is
// needed for quotas to hold: the scheduler refuses again.
package admission

import (
	"fmt"
	"slices"
	"strings"

	"cardquota.dev/operator/internal/clip"
)

// What is shown of one list of an Answer: so many sentences, of so many bytes
// each. The API server cuts warnings off after 4096 bytes in all.
const (
	mostSentences = 20
	mostBytes     = 2 << 10
)

// Answer is what is said about an object. The zero Answer allows it.
type Answer struct {
	// Refusals are why it is refused, and what would help. No two are equal.
	Refusals []string
	// Warnings are shown to whoever writes it, and stop nothing. No two are equal.
	Warnings []string

	// refused and warned are the same as sets.
	refused, warned map[string]bool
}

// Allowed tells that nothing speaks against the object.
func (a *Answer) Allowed() bool { return len(a.Refusals) == 0 }

// Text is all refusals on one line.
func (a *Answer) Text() string { return strings.Join(a.Refusals, "; ") }

// Short is the answer as it is shown: the first sentences of each list, and how
// many there are besides.
func (a *Answer) Short() Answer {
	return Answer{Refusals: first(a.Refusals), Warnings: first(a.Warnings)}
}

func first(texts []string) []string {
	out := make([]string, 0, min(len(texts), mostSentences+1))
	for _, text := range texts[:min(len(texts), mostSentences)] {
		out = append(out, clip.Text(text, mostBytes))
	}
	if more := len(texts) - mostSentences; more > 0 {
		out = append(out, fmt.Sprintf("and %d more", more))
	}
	return out
}

func (a *Answer) refuse(format string, values ...any) {
	add(&a.Refusals, &a.refused, fmt.Sprintf(format, values...))
}

func (a *Answer) warn(format string, values ...any) {
	add(&a.Warnings, &a.warned, fmt.Sprintf(format, values...))
}

// add appends texts that are not in the list, of which set is a copy or nothing.
func add(list *[]string, set *map[string]bool, texts ...string) {
	if *set == nil {
		*set = setOf(*list)
	}
	for _, text := range texts {
		if !(*set)[text] {
			(*set)[text] = true
			*list = append(*list, text)
		}
	}
}

func setOf(list []string) map[string]bool {
	set := make(map[string]bool, len(list))
	for _, text := range list {
		set[text] = true
	}
	return set
}

// join adds what another answer says.
func (a *Answer) join(other Answer) {
	add(&a.Refusals, &a.refused, other.Refusals...)
	add(&a.Warnings, &a.warned, other.Warnings...)
}

// Since keeps as refusals only what an object before the change was not refused
// for already: a change is answered for what it makes worse, so that an object
// that was stored before a rule can still be changed in other things. The rest
// becomes warnings.
func (a *Answer) Since(before Answer) Answer {
	var out Answer
	then := setOf(before.Refusals)
	out.join(Answer{Warnings: a.Warnings})
	for _, text := range a.Refusals {
		if then[text] {
			out.warn("as before: %s", text)
		} else {
			out.refuse("%s", text)
		}
	}
	return out
}

// softened turns every refusal into a warning.
func (a *Answer) softened() Answer {
	var out Answer
	out.join(Answer{Warnings: slices.Concat(a.Refusals, a.Warnings)})
	return out
}
