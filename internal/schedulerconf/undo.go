package schedulerconf

import (
	"maps"
	"slices"

	"go.yaml.in/yaml/v3"
)

// undo takes changes back, the last first, each as far as nobody has changed it since. With
// keepCard the entry of capacity-card stays where it is, with what others wrote into it, to
// be merged anew, and so do the actions; the result tells whether that entry was added.
func (e *editor) undo(changes []change, keepCard bool) (added bool) {
	for _, c := range slices.Backward(changes) {
		switch c.Kind {
		case changedActions:
			if node := field(e.root, "actions"); isString(node) && !keepCard {
				e.setActions(node, undoneActions(node.Value, c.Before, c.After))
			}
		case addedPlugin:
			list, i := e.find(c.Plugin)
			if added = list != nil; added && !keepCard {
				e.remove(list, i, 1)
			}
		case removedPlugin:
			e.restorePlugin(c)
		case removedTier:
			e.restoreTier(c)
		case setSwitch, setArgument, madeArguments:
			e.undoKey(c)
		}
	}
	return added
}

// standing returns the changes that are to be undone in this text: all, or none if somebody
// has written the text anew, as an upgrade of Volcano does. Then neither the plugin nor the
// action that was added is there, nor all of the switches that were set, and what was removed
// from the old text does not belong into the new one.
func (e *editor) standing(changes []change) []change {
	added, switches := 0, 0
	for _, c := range changes {
		switch c.Kind {
		case addedPlugin, changedActions:
			added++
			if list, _ := e.find(c.Plugin); list != nil || e.hasAdded(c) {
				return changes
			}
		case setSwitch:
			if list, i := e.find(c.Plugin); list == nil || field(list.Content[i], c.Key) == nil || valueOf(field(list.Content[i], c.Key)) != c.After {
				switches++
			}
		}
	}
	if added > 0 && switches > 0 {
		return nil
	}
	return changes
}

// hasAdded tells whether an action that a change has added is in the text.
func (e *editor) hasAdded(c change) bool {
	was, actions := splitActions(c.Before), actionsOf(e.root)
	return slices.ContainsFunc(splitActions(c.After), func(a string) bool {
		return c.Kind == changedActions && !slices.Contains(was, a) && slices.Contains(actions, a)
	})
}

// undoKey gives a switch or an argument back the value it had.
func (e *editor) undoKey(c change) {
	list, i := e.find(c.Plugin)
	if list == nil {
		return
	}
	mapping, key := list.Content[i], c.Key
	switch c.Kind {
	case setArgument:
		if mapping = field(mapping, "arguments"); mapping == nil || mapping.Kind != yaml.MappingNode {
			return
		}
	case madeArguments:
		key = "arguments"
	}
	at := slices.IndexFunc(members(mapping), func(member []*yaml.Node) bool { return member[0].Value == key })
	if at < 0 {
		return
	}
	value := mapping.Content[2*at+1]
	ours := valueOf(value) == c.After
	if c.Kind == madeArguments {
		ours = value.Kind == yaml.MappingNode && len(value.Content) == 0
	}
	before := e.fragment(c.Before)
	switch {
	case !ours:
	case before == nil || before.Kind != yaml.MappingNode:
		e.remove(mapping, 2*at, 2)
	default:
		e.replace(value, before.Content[1])
	}
}

// fragment reads what a record says was there: one key with its value, or one entry. It
// returns nil if there is none.
func (e *editor) fragment(text string) *yaml.Node {
	document := &yaml.Node{}
	if yaml.Unmarshal([]byte(text), document) != nil || len(document.Content) != 1 || len(plainErrors(document)) > 0 {
		return nil
	}
	root := document.Content[0]
	if len(members(root)) != 1 {
		return nil
	}
	if root.Kind == yaml.SequenceNode && root.Content[0].Kind == yaml.MappingNode {
		layout := measure(newSource(text), document)
		maps.Copy(e.layout, layout)
		if b := layout[root]; b != nil && !b.inline && b.column == 0 {
			e.restored[root.Content[0]] = b
		}
	}
	return root
}
