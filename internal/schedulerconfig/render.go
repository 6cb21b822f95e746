package schedulerconfig

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Overlay is what a policy sets in a scheduler configuration.
type Overlay struct {
	// Reclaim is the action that reclaims cards: "cardreclaim", "reclaim" or "" for none.
	Reclaim string
	// Preempt adds the action preempt, also for jobs that have their minimum. Otherwise that
	// action stays as the base has it.
	Preempt bool
	// Tree reports whether capacity-card enforces a tree of queues. It then takes over the
	// hierarchy of plugin capacity. Arguments must say the same.
	Tree bool
	// Arguments are the arguments of capacity-card by name; values are bool, string, int,
	// float64, []string, map[string]any.
	Arguments map[string]any
}

var (
	// reclaimActions are the actions that reclaim cards; at most one may be configured.
	reclaimActions = []string{"reclaim", CardReclaim}
	// replacedPlugins are those that capacity-card replaces: two account for the same queues,
	// overcommit enqueues jobs by the size of the cluster, and capacity-card is rendered again.
	replacedPlugins = append([]string{"overcommit", CapacityCard}, incompatiblePlugins...)
)

// ErrHierarchy refuses a base in which plugin capacity limits a hierarchy of queues, without a
// tree. Capacity cannot run beside capacity-card, and removing it would lift the limits of parents.
var ErrHierarchy = errors.New("plugin capacity has enableHierarchy: true, and with queueHierarchy: Flat the CPU and memory limits " +
	"of parent queues would no longer hold. Set queueHierarchy: Tree in the policy, and capacity-card keeps them. " +
	"Or first give each queue that runs work its own limits, and then write enableHierarchy: false at plugin capacity, or remove the plugin")

// ReplacedHierarchy names plugin capacity with a hierarchy among what Render replaced.
const ReplacedHierarchy = "plugin capacity with " + switchHierarchy

// Render lays an overlay over a base and writes the result below a comment. It also names what
// it replaced in the base.
//
// The result has capacity-card in its first tier, before predicates, so that it filters nodes
// first, and as the only plugin that selects victims. It has neither capacity, proportion,
// overcommit nor shuffle. It has the reclaim action of the overlay, and no other, behind
// allocate; preempt, if set, behind allocate as well; and gang's enableJobStarving off with
// reclaim or preempt. It satisfies Validate. Render refuses a base with errors of its own and
// lists them all with their lines. It returns ErrHierarchy for a hierarchy of queues without a
// tree. With one it replaces that plugin too, and names it ReplacedHierarchy.
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

	// The overlay relies on well-formed tiers, so faults of the base are reported before.
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

	// Check the result as the scheduler will. It would refuse a wrong text and keep an old one.
	text = "# " + strings.ReplaceAll(comment, "\n", "\n# ") + "\n" + text
	if err := Validate(text, Shipped()); err != nil {
		return "", nil, fmt.Errorf("the rendered text: %w", err)
	}

	slices.Sort(r.replaced)
	return text, slices.Compact(r.replaced), nil
}

// checkTiers refuses a base without tiers, and a tier that is no list of plugins. The plugins themselves are
// checked later.
func (v *validator) checkTiers(root *yaml.Node) {
	tiers := fieldValue(root, "tiers")
	if isUnset(tiers) || (tiers.Kind == yaml.SequenceNode && len(tiers.Content) == 0) {
		v.addFault(root, "tiers is missing or empty: list a tier with the plugins that you want, for example gang, and %s is added to it", CapacityCard)
	}
	v.forEachMapping(tiers, "tiers", func(tier *yaml.Node) { v.forEachPlugin(tier, func(*yaml.Node) {}) })
}

// renderer applies an overlay to the tree of a base and records what it replaces.
type renderer struct {
	root     *yaml.Node
	overlay  Overlay
	replaced []string
}

// applyOverlay changes the YAML of the base: it sets the actions, removes the plugins that capacity-card
// replaces, adds capacity-card, and turns off what would let other plugins select victims. It returns
// ErrHierarchy if the base has a hierarchy of queues and the overlay has no tree, because nothing would
// enforce that hierarchy then.
func (r *renderer) applyOverlay() error {
	if node := fieldValue(r.root, "actions"); isString(node) { // else an error that Validate reports
		r.setActions(node)
	}

	tiers := fieldValue(r.root, "tiers")
	for _, tier := range tiers.Content {
		plugins := fieldValue(tier, "plugins")
		if !r.overlay.Tree && slices.ContainsFunc(plugins.Content, limitsHierarchy) {
			return ErrHierarchy
		}
		plugins.Content = slices.DeleteFunc(plugins.Content, r.replacePlugin)
	}

	if err := r.addCapacityCard(fieldValue(tiers.Content[0], "plugins")); err != nil {
		return err
	}

	// Volcano asks tier after tier, so one without plugins only costs time in each session.
	tiers.Content = slices.DeleteFunc(tiers.Content, func(tier *yaml.Node) bool { return len(fieldValue(tier, "plugins").Content) == 0 })
	for _, entry := range pluginEntries(r.root) {
		r.disableVictimSelection(entry)
	}

	return nil
}

// limitsHierarchy reports whether an entry is plugin capacity with its hierarchy of queues. A word
// that is no switch to YAML may be one to Volcano.
func limitsHierarchy(entry *yaml.Node) bool {
	value := fieldValue(entry, switchHierarchy)
	return entryName(entry) == "capacity" && !isUnset(value) && value.Value != "false"
}

// replacePlugin reports whether an entry must go, and records it.
func (r *renderer) replacePlugin(entry *yaml.Node) bool {
	name := entryName(entry)
	if !slices.Contains(replacedPlugins, name) {
		return false
	}
	if limitsHierarchy(entry) {
		r.replaced = append(r.replaced, ReplacedHierarchy)
	} else {
		r.replaced = append(r.replaced, "plugin "+name)
	}
	return true
}

// addCapacityCard adds capacity-card with its arguments to a list of plugins, before predicates, so that it filters
// nodes first, else at the end.
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

// setActions replaces the actions of the base, and records those that go. It also records cardreclaim: that is the
// overlay's, even where the base has it too.
func (r *renderer) setActions(node *yaml.Node) {
	base := actionNames(r.root)
	refused := RefusedActions()
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

	node.Value = strings.Join(now, ", ")
	node.Style = yaml.DoubleQuotedStyle
}

// placeAction returns actions with action in place of the first of replaces behind the last allocate. If none
// is there, action goes to the end, since Volcano evicts last. It removes all others of replaces. If action
// is "" it only removes.
func placeAction(actions []string, action string, replaces ...string) []string {
	isAfterAllocate := false
	position := -1 // of the action to replace, -1 for none
	for i, a := range actions {
		switch {
		case a == "allocate": // the action must come after it, so earlier places do not count
			isAfterAllocate = true
			position = -1
		case isAfterAllocate && position < 0 && slices.Contains(replaces, a):
			position = i
		}
	}

	if position < 0 {
		position = len(actions)
		actions = append(slices.Clone(actions), replaces[0]) // the loop below replaces it
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

// disableVictimSelection leaves capacity-card as the only plugin that selects victims.
func (r *renderer) disableVictimSelection(entry *yaml.Node) {
	name := entryName(entry)
	for _, key := range disabledSwitches(name, actionNames(r.root), r.overlay.Preempt) {
		old := fieldValue(entry, key)
		if !isUnset(old) && old.Value != "true" {
			continue // off, or an error that Validate reports
		}
		if !isUnset(old) {
			r.replaced = append(r.replaced, fmt.Sprintf("%s: true of plugin %s", key, name))
		}
		setField(entry, key, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!bool", Value: "false"})
	}
}

// disabledSwitches returns the switches that must be off for a plugin beside capacity-card.
// With elastic, preempt also serves jobs that have their minimum.
func disabledSwitches(plugin string, actions []string, elastic bool) []string {
	var off []string
	if selectsVictims(plugin, switchReclaimable) {
		off = append(off, switchReclaimable)
	}

	if selectsVictims(plugin, switchPreemptable) && slices.Contains(actions, Preempt) {
		off = append(off, switchPreemptable)
	}

	if plugin == "gang" && (elastic || slices.Contains(actions, "reclaim")) {
		// A growing Deployment requests cards too, although its gang is complete. And pods of
		// one job preempt each other only in a complete gang.
		off = append(off, "enableJobStarving")
	}

	return off
}

// stripStyle removes comments and styles from a tree. It keeps quotes: without them another
// YAML parser might read a number or a boolean.
func stripStyle(node *yaml.Node) {
	node.HeadComment = ""
	node.LineComment = ""
	node.FootComment = ""
	if node.Kind == yaml.ScalarNode && node.Style != 0 {
		node.Style = yaml.DoubleQuotedStyle
	} else {
		node.Style = 0
	}
	for _, child := range node.Content {
		stripStyle(child)
	}
}
