package schedulerconf

import (
	"errors"
	"fmt"
	"slices"

	"go.yaml.in/yaml/v3"
)

// Wanted is what a policy demands of a scheduler configuration.
type Wanted struct {
	// Reclaim is the action that takes cards back: "cardreclaim", "reclaim" or "" for none.
	Reclaim string
	// Preempt adds the action preempt, also for jobs that have their minimum. Without it that
	// action stays where others wrote it, and serves whom they chose.
	Preempt bool
	// Arguments of capacity-card that the policy owns, by name; values are bool, string, int,
	// float64, []string, map[string]any. Other arguments stay as they are.
	Arguments map[string]any
	// Plugins are names that the scheduler knows besides those of Shipped, from its
	// --plugins-dir. A text with any other plugin is refused.
	Plugins []string
}

func (w Wanted) known() Known {
	known := Shipped()
	known.Plugins = append(known.Plugins, w.Plugins...)
	return known
}

// Merge returns the text changed as little as possible so that it carries what is wanted, and
// the record by which Remove undoes the changes. undo is the record of an earlier Merge of the
// same text, "" if there is none. Every line that needs no change stays byte for byte; merged
// is text itself when nothing is to change. A text that cannot be taken apart by lines, such
// as one in braces, keeps its meaning but may be wrapped anew, and then comments may move.
//
// The merged text has capacity-card in its first tier unless it stands elsewhere already, as
// the only plugin that chooses victims, with its gates on; neither capacity nor proportion nor
// overcommit; the wanted action behind allocate and not the other one; preempt behind allocate
// where it is wanted; no shuffle; gang's enableJobStarving off with reclaim, and where preempt
// is wanted; and the wanted arguments. It satisfies Validate. A text that would not, for faults
// of its own, is refused with all of them, by the lines of text; so is one that cannot be
// changed safely, and with ErrHierarchy one in which plugin capacity limits a tree of queues.
func Merge(text, undo string, want Wanted) (merged, newUndo string, err error) {
	if want.Reclaim != "" && !slices.Contains(takeBack, want.Reclaim) {
		return "", "", fmt.Errorf("%q is no action that takes cards back: known are reclaim and %s", want.Reclaim, CardReclaim)
	}
	earlier, err := readRecord(undo)
	if err != nil {
		return "", "", err
	}
	e, err := edit(text)
	if err != nil {
		return "", "", err
	}
	if err := e.hasTiers(); err != nil {
		return "", "", err
	}
	original, err := earlier.original(text)
	if err != nil {
		return "", "", err
	}
	p := &plan{editor: e, want: want}
	changes := e.standing(earlier.changes())
	if err := p.make(changes, e.undo(changes, true)); err != nil {
		return "", "", err
	}
	if merged, err = p.checked(); err != nil {
		return "", "", err
	}
	now := &record{Hash: Hash(merged), Original: original, Changes: p.changes}
	if len(now.Changes) == 0 {
		return merged, "", nil
	}
	if merged == text && earlier != nil && earlier.covers(now) {
		return merged, undo, nil
	}
	newUndo, err = now.write()
	if err != nil {
		return "", "", err
	}
	return merged, newUndo, nil
}

// checked returns the merged text if it is a good one: judged as a tree first, because its
// nodes still know the lines of the text they come from.
func (p *plan) checked() (string, error) {
	known := p.want.known()
	v := &validation{known: known, plugins: map[string]int{}}
	v.document(p.root)
	if err := errors.Join(v.errs...); err != nil {
		return "", err
	}
	merged, err := p.text()
	if err != nil {
		return "", err
	}
	if before, err := parse(p.source.text); err == nil && sameContent(before.Content[0], p.root) {
		return p.source.text, nil
	}
	if err := Validate(merged, known); err != nil {
		return "", fmt.Errorf("the merged text: %w", err)
	}
	return merged, nil
}

// hasTiers refuses a text without a first tier, or with tiers that are none.
func (e *editor) hasTiers() error {
	v := &validation{}
	tiers := field(e.root, "tiers")
	if unset(tiers) || (tiers.Kind == yaml.SequenceNode && len(tiers.Content) == 0) {
		v.fault(e.root, "tiers is missing or empty: list a tier with the plugins that you want, for example gang, and %s is added to it", CapacityCard)
	}
	v.each(tiers, "tiers", func(tier *yaml.Node) {
		plugins := field(tier, "plugins")
		if unset(plugins) || (plugins.Kind == yaml.SequenceNode && len(plugins.Content) == 0) {
			v.fault(tier, "a tier without plugins: list some or remove the tier")
			return
		}
		v.each(plugins, "plugins", func(*yaml.Node) {})
	})
	return errors.Join(v.errs...)
}
