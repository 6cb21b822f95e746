// Package schedulerconfig judges, renders and stamps the text of volcano-scheduler.conf.
//
// Volcano reads that text without strictness: unknown keys are dropped, an unknown plugin is
// an error log in every session, and a text that its parser refuses ends the scheduler when
// its default configuration is switched off. Nothing of this reaches the author. Here a text
// is accepted only if every word in it has an effect and if card quotas stay enforced.
//
// The package is pure: text in, verdict or text out; no client, no clock, no logger.
package schedulerconfig

import (
	"errors"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Validate accepts a volcano-scheduler.conf that Volcano reads completely and that enforces
// card quotas. It returns nil, or all faults joined, each with its line, what is wrong, and
// what to write instead. The rules are those of Volcano v1.14.1's parser, made strict:
//
//   - one YAML document without anchors, aliases, tags and duplicate keys;
//   - actions is a comma-separated text of known actions;
//   - every key on every level is one that Volcano reads, every plugin is a known one and
//     stands once, every switch is true or false;
//   - capacity-card stands exactly once, its two indispensable gates are not switched off,
//     its arguments satisfy known.Arguments, and neither capacity nor proportion is beside it;
//   - an action that evicts stands after allocate, nobody chooses its victims past
//     capacity-card, and only one of reclaim and cardreclaim takes cards back.
func Validate(text string, known Known) error {
	document, err := parse(text)
	if err != nil {
		return err
	}
	v := &validation{known: known, seen: map[string]int{}}
	v.errs = plainErrors(document)
	if len(v.errs) == 0 {
		v.document(document.Content[0])
	}
	return errors.Join(v.errs...)
}

// validation collects the faults of one text.
type validation struct {
	known Known
	errs  []error
	// seen holds the line in which each plugin was first named.
	seen map[string]int
}

func (v *validation) fault(node *yaml.Node, format string, values ...any) {
	v.errs = append(v.errs, at(node, format, values...))
}

func (v *validation) document(root *yaml.Node) {
	v.keys(root, "the text", documentKeys)
	v.actions(root)
	v.each(field(root, "tiers"), "tiers", func(tier *yaml.Node) {
		v.keys(tier, "a tier", tierKeys)
		v.plugins(tier, v.plugin)
	})
	v.each(field(root, "configurations"), "configurations", v.configuration)
	v.metrics(field(root, "metrics"))
	v.capacityCard(root)
	v.evictions(root)
}

// listed says what may be written.
func listed(known []string) string { return "known are " + strings.Join(known, ", ") }

// keys refuses keys outside the known ones; where names the level in messages.
func (v *validation) keys(mapping *yaml.Node, where string, known []string) {
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		key := mapping.Content[i]
		if key.Kind != yaml.ScalarNode {
			v.fault(key, "a key of %s is not a word: %s", where, listed(known))
		} else if !slices.Contains(known, key.Value) {
			v.fault(key, "unknown key %q in %s: %s", key.Value, where, listed(known))
		}
	}
}

func (v *validation) actions(root *yaml.Node) {
	const example = `write for example actions: "enqueue, allocate, backfill"`
	node := field(root, "actions")
	switch {
	case unset(node):
		v.fault(root, "actions is missing: %s", example)
		return
	case !isString(node):
		v.fault(node, "actions is not one text: %s", example)
		return
	case strings.TrimSpace(node.Value) == "":
		v.fault(node, "actions is empty: %s", example)
		return
	}
	for _, action := range actionsOf(root) {
		switch {
		case action == "":
			v.fault(node, "actions has a comma without an action beside it: %s", example)
		case !slices.Contains(v.known.Actions, action):
			v.fault(node, "unknown action %q: %s", action, listed(v.known.Actions))
		case v.known.Refused[action] != "":
			v.fault(node, "action %q is not allowed: %s", action, v.known.Refused[action])
		}
	}
}

// each calls item for the mappings of a list; a value that is not set has none.
func (v *validation) each(list *yaml.Node, name string, item func(*yaml.Node)) {
	if unset(list) {
		return
	}
	if list.Kind != yaml.SequenceNode {
		v.fault(list, "%s is not a list: begin each entry with a dash", name)
		return
	}
	first := "name" // the key with which an entry usually begins
	if name == "tiers" {
		first = "plugins"
	}
	for _, entry := range list.Content {
		if entry.Kind != yaml.MappingNode {
			v.fault(entry, "an entry of %s is not a mapping: write - %s: …", name, first)
			continue
		}
		item(entry)
	}
}

// plugins calls item for the plugins of a tier, which must have some.
func (v *validation) plugins(tier *yaml.Node, item func(*yaml.Node)) {
	plugins := field(tier, "plugins")
	if unset(plugins) || (plugins.Kind == yaml.SequenceNode && len(plugins.Content) == 0) {
		v.fault(tier, "a tier without plugins: list some or remove the tier")
		return
	}
	v.each(plugins, "plugins", item)
}

func (v *validation) configuration(entry *yaml.Node) {
	v.keys(entry, "an entry of configurations", configurationKeys)
	name := field(entry, "name")
	switch {
	case !isString(name):
		v.fault(entry, "an entry of configurations without a name: write the action it configures")
	case !slices.Contains(v.known.Actions, name.Value):
		v.fault(name, "unknown action %q in configurations: %s", name.Value, listed(v.known.Actions))
	}
	v.arguments(entry)
}

func (v *validation) metrics(metrics *yaml.Node) {
	if unset(metrics) {
		return
	}
	if metrics.Kind != yaml.MappingNode {
		v.fault(metrics, "metrics is not a mapping: write for example metrics: {type: prometheus, address: …}")
		return
	}
	v.keys(metrics, "metrics", metricsKeys)
	for i := 0; i+1 < len(metrics.Content); i += 2 {
		if value := metrics.Content[i+1]; value.Kind != yaml.ScalarNode {
			v.fault(value, "metrics %q is not a text: write one value", metrics.Content[i].Value)
		}
	}
}
