package schedulerconfig

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Overlay is what a policy demands of a scheduler configuration.
type Overlay struct {
	// Reclaim is the action that takes cards back: "cardreclaim", "reclaim" or "" for none.
	Reclaim string
	// Preempt adds the action preempt, also for jobs that have their minimum. Without it that
	// action stays where the base has it, and serves whom the base chose.
	Preempt bool
	// Arguments of capacity-card, by name; values are bool, string, int, float64, []string,
	// map[string]any.
	Arguments map[string]any
}

var (
	// reclaimActions are the actions that take cards back; one of them at most may be configured.
	reclaimActions = []string{"reclaim", CardReclaim}
	// replacedPlugins are those that ours stands in for: two account for the same queues,
	// overcommit admits jobs by the size of the cluster, and capacity-card is laid over anew.
	replacedPlugins = append([]string{"overcommit", CapacityCard}, incompatiblePlugins...)
)

// ErrHierarchy refuses a base in which plugin capacity limits a tree of queues. Capacity
// cannot stand beside capacity-card, and to leave it out would lift the limits of parents.
var ErrHierarchy = errors.New("plugin capacity has enableHierarchy: true, and card quotas do not support a hierarchy of queues: " +
	"the limits of parent queues would no longer hold. First give each queue that runs work its own limits. " +
	"Then write enableHierarchy: false at plugin capacity, or remove the plugin")

// Render lays what is wanted over a base and writes the whole anew, below a comment. It also
// names what of the base was replaced.
//
// The text has capacity-card in its first tier, before predicates, so that nodes with other
// cards are left out first, as the only plugin that chooses victims; neither capacity nor
// proportion nor overcommit; the wanted action behind allocate and not the other one; preempt
// behind allocate where it is wanted; no shuffle; gang's enableJobStarving off with reclaim,
// and where preempt is wanted. It satisfies Validate. A base whose text would not, for faults
// of its own, is refused with all of them, by the lines of the base; and with ErrHierarchy one
// in which plugin capacity limits a tree of queues.
func Render(base, comment string, overlay Overlay) (text string, replaced []string, err error) {
	if overlay.Reclaim != "" && !slices.Contains(reclaimActions, overlay.Reclaim) {
		return "", nil, fmt.Errorf("%q is no action that takes cards back: known are %s", overlay.Reclaim, strings.Join(reclaimActions, ", "))
	}
	document, err := parseDocument(base)
	if err != nil {
		return "", nil, err
	}
	r := &renderer{root: document.Content[0], overlay: overlay}
	v := &validator{known: Shipped(), pluginLines: map[string]int{}, errs: findAmbiguities(document)}
	if len(v.errs) == 0 {
		v.checkTiers(r.root)
	}
	if len(v.errs) == 0 {
		if err := r.applyOverlay(); err != nil {
			return "", nil, err
		}
		v.checkDocument(r.root)
	}
	if err := errors.Join(v.errs...); err != nil {
		return "", nil, err
	}
	stripStyle(document)
	text, err = encodeDocument(document)
	if err != nil {
		return "", nil, err
	}
	text = "# " + strings.ReplaceAll(comment, "\n", "\n# ") + "\n" + text
	if err := Validate(text, Shipped()); err != nil {
		return "", nil, fmt.Errorf("the rendered text: %w", err)
	}
	slices.Sort(r.replaced)
	return text, slices.Compact(r.replaced), nil
}

// checkTiers refuses a base without a first tier, or with tiers that are none.
func (v *validator) checkTiers(root *yaml.Node) {
	tiers := fieldValue(root, "tiers")
	if isUnset(tiers) || (tiers.Kind == yaml.SequenceNode && len(tiers.Content) == 0) {
		v.addFault(root, "tiers is missing or empty: list a tier with the plugins that you want, for example gang, and %s is added to it", CapacityCard)
	}
	v.forEachMapping(tiers, "tiers", func(tier *yaml.Node) { v.forEachPlugin(tier, func(*yaml.Node) {}) })
}

// renderer changes the tree of a base so that it carries what is wanted, and names what it
// replaces.
type renderer struct {
	root     *yaml.Node
	overlay  Overlay
	replaced []string
}

func (r *renderer) applyOverlay() error {
	if node := fieldValue(r.root, "actions"); isString(node) { // else a fault that Validate tells
		r.setActions(node)
	}
	tiers := fieldValue(r.root, "tiers")
	for _, tier := range tiers.Content {
		plugins := fieldValue(tier, "plugins")
		for _, entry := range plugins.Content {
			if value := fieldValue(entry, "enableHierarchy"); entryName(entry) == "capacity" && value != nil && value.Tag != "!!null" && value.Value != "false" {
				return ErrHierarchy
			}
		}
		plugins.Content = slices.DeleteFunc(plugins.Content, func(entry *yaml.Node) bool {
			name := entryName(entry)
			out := slices.Contains(replacedPlugins, name)
			if out {
				r.replaced = append(r.replaced, "plugin "+name)
			}
			return out
		})
	}
	if err := r.addCapacityCard(fieldValue(tiers.Content[0], "plugins")); err != nil {
		return err
	}
	tiers.Content = slices.DeleteFunc(tiers.Content, func(tier *yaml.Node) bool { return len(fieldValue(tier, "plugins").Content) == 0 })
	for _, entry := range pluginEntries(r.root) {
		r.disableVictimSelection(entry)
	}
	return nil
}

// addCapacityCard adds capacity-card with its arguments to a list of plugins.
func (r *renderer) addCapacityCard(plugins *yaml.Node) error {
	entry := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Content: []*yaml.Node{stringNode("name"), stringNode(CapacityCard)}}
	if len(r.overlay.Arguments) > 0 {
		arguments := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
		for _, key := range slices.Sorted(maps.Keys(r.overlay.Arguments)) {
			value := &yaml.Node{}
			if err := value.Encode(r.overlay.Arguments[key]); err != nil {
				return fmt.Errorf("%s of %s cannot be written: %w", key, CapacityCard, err)
			}
			setField(arguments, key, value)
		}
		setField(entry, "arguments", arguments)
	}
	at := slices.IndexFunc(plugins.Content, func(entry *yaml.Node) bool { return entryName(entry) == "predicates" })
	if at < 0 {
		at = len(plugins.Content)
	}
	plugins.Content = slices.Insert(plugins.Content, at, entry)
	return nil
}

// setActions puts the wanted actions in the place of those of the base.
func (r *renderer) setActions(node *yaml.Node) {
	base, refused := actionNames(r.root), RefusedActions()
	now := slices.DeleteFunc(slices.Clone(base), func(action string) bool { return refused[action] != "" })
	now = placeAction(now, r.overlay.Reclaim, reclaimActions...)
	if r.overlay.Preempt {
		now = placeAction(now, Preempt, Preempt)
	}
	for _, action := range base {
		if action == CardReclaim || !slices.Contains(now, action) {
			r.replaced = append(r.replaced, "action "+action)
		}
	}
	node.Value, node.Style = strings.Join(now, ", "), yaml.DoubleQuotedStyle
}

// placeAction puts an action where the first of those that it replaces stands behind every allocate,
// else to the end, where Volcano puts what evicts. The others of them go.
func placeAction(actions []string, action string, replaces ...string) []string {
	afterAllocate, position := 0, -1
	for i, a := range actions {
		if a == "allocate" {
			afterAllocate, position = i+1, -1
		} else if position < 0 && afterAllocate > 0 && slices.Contains(replaces, a) {
			position = i
		}
	}
	if position < 0 {
		actions, position = append(slices.Clone(actions), replaces[0]), len(actions)
	}
	var out []string
	for i, a := range actions {
		switch {
		case i == position && action != "":
			out = append(out, action)
		case !slices.Contains(replaces, a):
			out = append(out, a)
		}
	}
	return out
}

// disableVictimSelection makes capacity-card the only one that chooses victims.
func (r *renderer) disableVictimSelection(entry *yaml.Node) {
	name := entryName(entry)
	for _, key := range disabledSwitches(name, actionNames(r.root), r.overlay.Preempt) {
		old := fieldValue(entry, key)
		if !isUnset(old) && old.Value != "true" {
			continue // off, or a fault that Validate tells
		}
		if !isUnset(old) {
			r.replaced = append(r.replaced, fmt.Sprintf("%s: true of plugin %s", key, name))
		}
		setField(entry, key, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!bool", Value: "false"})
	}
}

// disabledSwitches are the switches that must be off for a plugin beside capacity-card. elastic is set
// where preempt serves jobs that have their minimum, too.
func disabledSwitches(plugin string, actions []string, elastic bool) []string {
	var off []string
	if selectsVictims(plugin, switchReclaimable) {
		off = append(off, switchReclaimable)
	}
	if selectsVictims(plugin, switchPreemptable) && slices.Contains(actions, Preempt) {
		off = append(off, switchPreemptable)
	}
	if plugin == "gang" && (elastic || slices.Contains(actions, "reclaim")) {
		// A Deployment that grows asks for cards too, although its gang is complete. And
		// pods of one job take each other's place only in a gang that is complete.
		off = append(off, "enableJobStarving")
	}
	return off
}

// stripStyle takes comments out of a tree, and all style but that a text stands in quotes: without
// them a reader of another YAML might take it for a number or a switch.
func stripStyle(node *yaml.Node) {
	node.HeadComment, node.LineComment, node.FootComment = "", "", ""
	if node.Kind == yaml.ScalarNode && node.Style != 0 {
		node.Style = yaml.DoubleQuotedStyle
	} else {
		node.Style = 0
	}
	for _, child := range node.Content {
		stripStyle(child)
	}
}
