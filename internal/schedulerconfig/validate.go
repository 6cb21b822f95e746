// Package schedulerconfig validates and renders volcano-scheduler.conf, and adds its hash.
//
// Volcano parses that text leniently: it drops unknown keys, logs an unknown plugin in every
// session, and exits on a text that it cannot parse when its default configuration is off. The
// author learns none of this. This package accepts a text only if every word in it has an
// effect and card quotas stay enforced.
//
// The package is pure: no client, no clock, no logger.
package schedulerconfig

import (
	"errors"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Validate accepts a volcano-scheduler.conf in which Volcano ignores nothing and that enforces
// card quotas. It returns nil or all errors joined, each with its line, what is wrong, and
// what to write instead. The rules are those of Volcano v1.14.1's parser, made strict:
//
//   - one YAML document without anchors, aliases, tags and duplicate keys;
//   - actions is a comma-separated text of known actions;
//   - every key on every level is one that Volcano reads, every plugin is a known one and
//     stands once, every switch is true or false;
//   - capacity-card stands exactly once, its two mandatory switches are not off, it has no
//     switch for a hierarchy, which is an argument, its arguments satisfy known.ValidateArguments, and
//     neither capacity nor proportion is beside it;
//   - an action that evicts stands after allocate, only capacity-card selects its victims,
//     and reclaim stands neither together with cardreclaim nor in a tree of queues.
func Validate(text string, known Known) error {
	document, err := parseDocument(text)
	if err != nil {
		return err
	}
	v := &validator{known: known, pluginLines: map[string]int{}}
	v.errs = findAmbiguities(document)
	if len(v.errs) == 0 {
		v.checkDocument(document.Content[0])
	}
	return errors.Join(v.errs...)
}

// validator collects the errors of one text.
type validator struct {
	known Known
	errs  []error
	// pluginLines has the first line of each plugin.
	pluginLines map[string]int
}

// addFault adds an error with the line of a node.
func (v *validator) addFault(node *yaml.Node, format string, values ...any) {
	v.errs = append(v.errs, errorAt(node, format, values...))
}

// checkDocument checks all levels of the text. checkCapacityCard comes after the plugins, whose lines it reads.
func (v *validator) checkDocument(root *yaml.Node) {
	v.checkKeys(root, "the text", documentKeys)
	v.checkActions(root)
	v.forEachMapping(fieldValue(root, "tiers"), "tiers", func(tier *yaml.Node) {
		v.checkKeys(tier, "a tier", tierKeys)
		v.forEachPlugin(tier, v.checkPlugin)
	})
	v.forEachMapping(fieldValue(root, "configurations"), "configurations", v.checkConfiguration)
	v.checkMetrics(fieldValue(root, "metrics"))
	v.checkCapacityCard(root)
	v.checkEvictions(root)
}

// listKnown lists the names that may be written.
func listKnown(known []string) string { return "known are " + strings.Join(known, ", ") }

// checkKeys refuses unknown keys; where names the level in messages.
func (v *validator) checkKeys(mapping *yaml.Node, where string, known []string) {
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		key := mapping.Content[i]
		if key.Kind != yaml.ScalarNode {
			v.addFault(key, "a key of %s is not a word: %s", where, listKnown(known))
		} else if !slices.Contains(known, key.Value) {
			v.addFault(key, "unknown key %q in %s: %s", key.Value, where, listKnown(known))
		}
	}
}

// checkActions requires a text of known actions that may run.
func (v *validator) checkActions(root *yaml.Node) {
	const example = `write for example actions: "enqueue, allocate, backfill"`
	node := fieldValue(root, "actions")
	switch {
	case isUnset(node):
		v.addFault(root, "actions is missing: %s", example)
		return
	case !isString(node):
		v.addFault(node, "actions is not one text: %s", example)
		return
	case strings.TrimSpace(node.Value) == "":
		v.addFault(node, "actions is empty: %s", example)
		return
	}

	for _, action := range actionNames(root) {
		switch {
		case action == "":
			v.addFault(node, "actions has a comma without an action beside it: %s", example)
		case !slices.Contains(v.known.Actions, action):
			v.addFault(node, "unknown action %q: %s", action, listKnown(v.known.Actions))
		case v.known.RefusedActions[action] != "":
			v.addFault(node, "action %q is not allowed: %s", action, v.known.RefusedActions[action])
		}
	}
}

// forEachMapping calls item for each mapping of a list, and adds a fault for each other entry, or if it is no
// list. An unset list is empty. name is the key of the list: tiers, or another one whose entries have names.
func (v *validator) forEachMapping(list *yaml.Node, name string, item func(*yaml.Node)) {
	if isUnset(list) {
		return
	}
	if list.Kind != yaml.SequenceNode {
		v.addFault(list, "%s is not a list: begin each entry with a dash", name)
		return
	}

	first := "name" // the key with which an entry usually begins
	if name == "tiers" {
		first = "plugins"
	}

	for _, entry := range list.Content {
		if entry.Kind != yaml.MappingNode {
			v.addFault(entry, "an entry of %s is not a mapping: write - %s: …", name, first)
			continue
		}
		item(entry)
	}
}

// forEachPlugin calls item for the plugins of a tier, which must have some.
func (v *validator) forEachPlugin(tier *yaml.Node, item func(*yaml.Node)) {
	plugins := fieldValue(tier, "plugins")
	if isUnset(plugins) || (plugins.Kind == yaml.SequenceNode && len(plugins.Content) == 0) {
		v.addFault(tier, "a tier without plugins: list some or remove the tier")
		return
	}
	v.forEachMapping(plugins, "plugins", item)
}

// checkConfiguration checks the arguments that an entry of configurations gives to an action.
func (v *validator) checkConfiguration(entry *yaml.Node) {
	v.checkKeys(entry, "an entry of configurations", configurationKeys)
	name := fieldValue(entry, "name")
	switch {
	case !isString(name):
		v.addFault(entry, "an entry of configurations without a name: write the action it configures")
	case !slices.Contains(v.known.Actions, name.Value):
		v.addFault(name, "unknown action %q in configurations: %s", name.Value, listKnown(v.known.Actions))
	}
	v.checkArguments(entry)
}

// checkMetrics requires known keys with one text each, as Volcano reads them.
func (v *validator) checkMetrics(metrics *yaml.Node) {
	if isUnset(metrics) {
		return
	}
	if metrics.Kind != yaml.MappingNode {
		v.addFault(metrics, "metrics is not a mapping: write for example metrics: {type: prometheus, address: …}")
		return
	}

	v.checkKeys(metrics, "metrics", metricsKeys)
	for i := 0; i+1 < len(metrics.Content); i += 2 {
		if value := metrics.Content[i+1]; value.Kind != yaml.ScalarNode {
			v.addFault(value, "metrics %q is not a text: write one value", metrics.Content[i].Value)
		}
	}
}
