package schedulerconf

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// plan changes the tree so that it carries what is wanted, and notes what it changes.
type plan struct {
	*editor
	want    Wanted
	changes []change
	err     error
}

func (p *plan) note(c change) { p.changes = append(p.changes, c) }

// make makes all changes. earlier are those of the last time: of them the actions stand in the
// tree, and so may the entry of capacity-card, which then was added and not found.
func (p *plan) make(earlier []change, added bool) error {
	if p.hasHierarchy() {
		return ErrHierarchy
	}
	if added {
		p.note(change{Kind: addedPlugin, Plugin: CapacityCard})
	}
	p.card()
	p.actions(earlier)
	p.removeTiers()
	p.removePlugins()
	for _, entry := range p.plugins() {
		p.switches(entry)
	}
	p.arguments()
	return p.err
}

// card adds capacity-card to the first tier, before predicates, so that it leaves out nodes
// with other cards first. Where it stands already it stays: nobody else chooses victims.
func (p *plan) card() {
	if findCard(p.root) != nil {
		return
	}
	list := pluginsOf(items(field(p.root, "tiers"))[0])
	index := slices.IndexFunc(list.Content, func(entry *yaml.Node) bool { return nameOf(entry) == "predicates" })
	if index < 0 {
		index = len(list.Content)
	}
	p.insert(list, index, &yaml.Node{
		Kind: yaml.MappingNode, Tag: "!!map", Style: list.Content[0].Style & yaml.FlowStyle,
		Content: []*yaml.Node{word("name"), word(CapacityCard)},
	})
	p.note(change{Kind: addedPlugin, Plugin: CapacityCard})
}

// actions sets the actions, and notes how they were before the first merge.
func (p *plan) actions(earlier []change) {
	node := field(p.root, "actions")
	if !isString(node) {
		return // a fault that Validate tells
	}
	before := node.Value
	for _, c := range earlier {
		if c.Kind == changedActions {
			before = undoneActions(before, c.Before, c.After)
		}
	}
	after := wantedPreempt(wantedActions(node.Value, p.want.Reclaim), before, p.want.Preempt)
	if slices.Equal(splitActions(before), splitActions(after)) {
		after = before
	} else {
		p.note(change{Kind: changedActions, Before: before, After: after})
	}
	p.setActions(node, after)
}

// arguments gives capacity-card the arguments that the policy owns.
func (p *plan) arguments() {
	if len(p.want.Arguments) == 0 {
		return
	}
	entry := findCard(p.root)
	arguments := field(entry, "arguments")
	switch {
	case arguments == nil:
		arguments = &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
		p.insert(entry, len(entry.Content), word("arguments"), arguments)
		p.note(change{Kind: madeArguments, Plugin: CapacityCard})
	case unset(arguments):
		p.note(change{Kind: madeArguments, Plugin: CapacityCard, Before: encode(word("arguments"), bare(arguments))})
		lift(arguments)
		p.replace(arguments, &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"})
	case arguments.Kind != yaml.MappingNode:
		return // a fault that Validate tells
	case len(arguments.Content) == 0 && entry.Style&yaml.FlowStyle == 0:
		lift(arguments)
		arguments.Style &^= yaml.FlowStyle
	}
	for _, key := range slices.Sorted(maps.Keys(p.want.Arguments)) {
		p.set(arguments, change{Kind: setArgument, Plugin: CapacityCard, Key: key}, p.want.Arguments[key])
	}
}

// lift moves the comment beside a value above what takes its place.
func lift(value *yaml.Node) {
	value.HeadComment, value.LineComment = strings.TrimSpace(joinLines(value.LineComment, value.HeadComment)), ""
}

// set gives a key a value if it has another one, and notes both.
func (p *plan) set(mapping *yaml.Node, c change, value any) {
	node := &yaml.Node{}
	var err error
	if c.After, err = asJSON(value); err == nil {
		err = node.Encode(value)
	}
	if err != nil {
		p.err = fmt.Errorf("%s of %s cannot be written: %w", c.Key, c.Plugin, err)
		return
	}
	compact(node)
	old := field(mapping, c.Key)
	switch {
	case old == nil:
		p.insert(mapping, len(mapping.Content), word(c.Key), node)
	case valueOf(old) == c.After:
		return
	default:
		c.Before = encode(word(c.Key), old)
		p.replace(old, node)
	}
	p.note(c)
}

// compact writes what lies within the members of a value on one line.
func compact(value *yaml.Node) {
	for _, inner := range value.Content {
		if inner.Kind != yaml.ScalarNode {
			inner.Style |= yaml.FlowStyle
		}
	}
	if value.Kind == yaml.SequenceNode {
		value.Style |= yaml.FlowStyle
	}
}
