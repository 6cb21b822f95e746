package schedulerconf

import (
	"errors"
	"slices"

	"go.yaml.in/yaml/v3"
)

// outsiders are the plugins that must not stand beside capacity-card: two account for the
// same queues, and overcommit admits jobs by the size of the cluster.
var outsiders = append([]string{"overcommit"}, exclusive...)

// ErrHierarchy refuses a text in which plugin capacity limits a tree of queues. Capacity
// cannot stand beside capacity-card, and to take it out would lift the limits of parents.
var ErrHierarchy = errors.New("plugin capacity has enableHierarchy: true, and card quotas do not support a hierarchy of queues: " +
	"the limits of parent queues would no longer hold. First give each queue that runs work its own limits. " +
	"Then write enableHierarchy: false at plugin capacity, or remove the plugin. " +
	"Where an earlier policy took the plugin out, add it again with enableHierarchy: false")

// hasHierarchy reports whether plugin capacity limits a tree of queues.
func (p *plan) hasHierarchy() bool {
	return slices.ContainsFunc(p.plugins(), func(entry *yaml.Node) bool {
		value := field(entry, "enableHierarchy")
		return nameOf(entry) == "capacity" && value != nil && value.Value == "true"
	})
}

func isOutsider(entry *yaml.Node) bool { return slices.Contains(outsiders, nameOf(entry)) }

// removeTiers takes out tiers that hold nothing but outsiders.
func (p *plan) removeTiers() {
	tiers := field(p.root, "tiers")
	for i := 0; i < len(tiers.Content); {
		if slices.ContainsFunc(entriesOf(tiers.Content[i]), func(entry *yaml.Node) bool { return !isOutsider(entry) }) {
			i++
			continue
		}
		c := change{Kind: removedTier, Tier: i, Before: p.raw(tiers, i)}
		if i > 0 {
			c.Previous = nameOf(last(entriesOf(tiers.Content[i-1])))
		}
		if i+1 < len(tiers.Content) {
			c.Next = nameOf(entriesOf(tiers.Content[i+1])[0])
		}
		p.note(c)
		p.remove(tiers, i, 1)
	}
}

// removePlugins takes outsiders out of their tiers.
func (p *plan) removePlugins() {
	for i, tier := range field(p.root, "tiers").Content {
		list := pluginsOf(tier)
		for j := 0; j < len(list.Content); {
			if !isOutsider(list.Content[j]) {
				j++
				continue
			}
			c := change{Kind: removedPlugin, Plugin: nameOf(list.Content[j]), Tier: i, Before: p.raw(list, j)}
			if j > 0 {
				c.Previous = nameOf(list.Content[j-1])
			}
			if j+1 < len(list.Content) {
				c.Next = nameOf(list.Content[j+1])
			}
			p.note(c)
			p.remove(list, j, 1)
		}
	}
}

// restorePlugin puts an entry back beside its old neighbours, unless the plugin is there.
func (e *editor) restorePlugin(c change) {
	before := e.fragment(c.Before)
	if before == nil || before.Kind != yaml.SequenceNode || nameOf(before.Content[0]) != c.Plugin {
		return
	}
	if list, _ := e.find(c.Plugin); list != nil {
		return
	}
	list, i := e.find(c.Previous)
	if list != nil {
		i++
	} else if list, i = e.find(c.Next); list == nil {
		tiers := items(field(e.root, "tiers"))
		if len(tiers) == 0 {
			return
		}
		if list = pluginsOf(tiers[max(0, min(c.Tier, len(tiers)-1))]); list == nil {
			return
		}
		i = len(list.Content)
	}
	e.insert(list, i, before.Content[0])
}

// restoreTier puts a tier back, without the plugins that are there again.
func (e *editor) restoreTier(c change) {
	before, tiers := e.fragment(c.Before), field(e.root, "tiers")
	if before == nil || before.Kind != yaml.SequenceNode || tiers == nil || tiers.Kind != yaml.SequenceNode {
		return
	}
	tier := before.Content[0]
	for i, entry := range slices.Backward(entriesOf(tier)) {
		if list, _ := e.find(nameOf(entry)); list != nil {
			e.remove(pluginsOf(tier), i, 1)
		}
	}
	if len(entriesOf(tier)) == 0 {
		return
	}
	at := max(0, min(c.Tier, len(tiers.Content)))
	for i, t := range tiers.Content {
		switch {
		case holds(t, c.Previous):
			at = i + 1
		case c.Previous == "" && holds(t, c.Next):
			at = i
		}
	}
	e.insert(tiers, at, tier)
}
