package schedulerconf

import (
	"slices"

	"go.yaml.in/yaml/v3"
)

// choosers are the plugins of Volcano v1.14.1 that choose victims (they call
// AddPreemptableFn or AddReclaimableFn). A plugin that is none of Volcano's may
// do so as well.
var choosers = map[string][]string{
	switchPreemptable: {"priority", "gang", "conformance", "drf", "pdb", "cdp", "tdm", "extender"},
	switchReclaimable: {"gang", "conformance", "drf", "pdb", "cdp", "extender"},
}

// hooks are the switches of capacity-card that an action which evicts needs, the
// one that chooses victims first.
var hooks = map[string][]string{
	"preempt":   {switchPreemptable},
	"reclaim":   {switchReclaimable, switchPreemptive},
	CardReclaim: {switchReclaimable, switchPreemptive},
}

const (
	switchPreemptable = "enablePreemptable"
	switchReclaimable = "enableReclaimable"
	switchPreemptive  = "enablePreemptive"
)

// evictions refuses a text under which pods would be evicted past capacity-card.
//
// Volcano asks the plugins of one tier and takes what all of them allow; when
// that is nothing it asks the next tier, and when it is nothing after two of
// three plugins it takes the word of the third (Session.Reclaimable and
// Session.Preemptable). And victims that another plugin has cut down are evicted
// although the rest no longer makes room in the quota. So only capacity-card may
// choose victims. Evicted cards are promised to the one they were taken for, so
// allocate must have had its turn.
//
// cardreclaim asks no other plugin for victims. The same is demanded of it, so that a text
// stays good when reclaim takes its place.
func (v *validation) evictions(root *yaml.Node) {
	actions := actionsOf(root)
	if slices.Contains(actions, "reclaim") && slices.Contains(actions, CardReclaim) {
		v.fault(field(root, "actions"), "reclaim and %s would both take cards back, each without regard for what the other has freed: remove one of them", CardReclaim)
	}
	for _, action := range []string{"preempt", "reclaim", CardReclaim} {
		at := slices.Index(actions, action)
		if at < 0 {
			continue
		}
		if !slices.Contains(actions[:at], "allocate") {
			v.fault(field(root, "actions"), "%s has no allocate before it, so pods would be evicted although cards are free: write allocate first", action)
		}
		for _, name := range hooks[action] {
			v.mustBeOn(root, action, name)
		}
		choice := hooks[action][0]
		for _, other := range otherChoosers(root, choice) {
			v.fault(other.entry, "plugin %s would choose victims of %s beside %s: write %s: false", other.name, action, CapacityCard, choice)
		}
	}
	for i, action := range actions {
		if action == "allocate" && slices.ContainsFunc(actions[:i], evicts) {
			v.fault(field(root, "actions"), "allocate stands after an action that evicts, and would hand out cards that are promised to others: write it once, before")
		}
	}
}

func evicts(action string) bool { return hooks[action] != nil }

// mustBeOn refuses an action whose hook of capacity-card is switched off.
func (v *validation) mustBeOn(root *yaml.Node, action, name string) {
	entry := findCard(root)
	if entry == nil {
		return
	}
	if value := field(entry, name); value != nil && value.Value == "false" {
		v.fault(value, "%s: false of %s lets %s evict without asking about card quota: remove it, or %s from actions", name, CapacityCard, action, action)
	}
}

// chooser is a plugin beside capacity-card that chooses victims.
type chooser struct {
	name  string
	entry *yaml.Node
}

// chooses tells whether a plugin beside capacity-card chooses victims unless the switch is off.
func chooses(plugin, name string) bool {
	return slices.Contains(choosers[name], plugin) || !slices.Contains(VolcanoPlugins(), plugin)
}

// otherChoosers lists the plugins beside capacity-card whose switch is not off.
func otherChoosers(root *yaml.Node, name string) []chooser {
	var found []chooser
	for _, entry := range pluginsOf(root) {
		plugin := nameOf(entry)
		if plugin == "" || plugin == CapacityCard {
			continue
		}
		if off := field(entry, name); chooses(plugin, name) && (off == nil || off.Value != "false") {
			found = append(found, chooser{name: plugin, entry: entry})
		}
	}
	return found
}
