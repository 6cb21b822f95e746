package schedulerconf

import (
	"slices"

	"go.yaml.in/yaml/v3"
)

// switches makes capacity-card the only one that chooses victims of reclaim, and of preempt
// where that is configured, and its gates and hooks effective.
func (p *plan) switches(entry *yaml.Node) {
	keys, wanted, actions := []string(nil), false, actionsOf(p.root)
	if nameOf(entry) == CapacityCard {
		keys, wanted = cardMustHave(actions), true
	} else {
		keys = othersMustNot(nameOf(entry), actions, p.want.Preempt)
	}
	for _, key := range keys {
		value := field(entry, key)
		if off := value != nil && value.Value == "false"; off == wanted {
			p.set(entry, change{Kind: setSwitch, Plugin: nameOf(entry), Key: key}, wanted)
		}
	}
}

// cardMustHave are the switches of capacity-card that must not be off.
func cardMustHave(actions []string) []string {
	on := slices.Clone(gates)
	for _, action := range actions {
		on = append(on, hooks[action]...)
	}
	return on
}

// othersMustNot are the switches that must be off for another plugin. elastic is set where
// preempt serves jobs that have their minimum, too.
func othersMustNot(plugin string, actions []string, elastic bool) []string {
	if plugin == "" {
		return nil // a fault that Validate tells
	}
	var off []string
	if chooses(plugin, switchReclaimable) {
		off = append(off, switchReclaimable)
	}
	if chooses(plugin, switchPreemptable) && slices.Contains(actions, "preempt") {
		off = append(off, switchPreemptable)
	}
	if plugin == "gang" && (elastic || slices.Contains(actions, "reclaim")) {
		// A Deployment that grows asks for cards too, although its gang is complete. And
		// pods of one job take each other's place only in a gang that is complete.
		off = append(off, "enableJobStarving")
	}
	return off
}
