package schedulerconfig

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Wanted is what a policy demands of a scheduler configuration.
type Wanted struct {
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
	// takeBack are the actions that take cards back; one of them at most may be configured.
	takeBack = []string{"reclaim", CardReclaim}
	// replacedPlugins are those that ours stands in for: two account for the same queues,
	// overcommit admits jobs by the size of the cluster, and capacity-card is laid over anew.
	replacedPlugins = append([]string{"overcommit", CapacityCard}, exclusive...)
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
func Render(base, comment string, want Wanted) (text string, replaced []string, err error) {
	if want.Reclaim != "" && !slices.Contains(takeBack, want.Reclaim) {
		return "", nil, fmt.Errorf("%q is no action that takes cards back: known are %s", want.Reclaim, strings.Join(takeBack, ", "))
	}
	document, err := parse(base)
	if err != nil {
		return "", nil, err
	}
	r := &renderer{root: document.Content[0], want: want}
	v := &validation{known: Shipped(), seen: map[string]int{}, errs: plainErrors(document)}
	if len(v.errs) == 0 {
		v.hasTiers(r.root)
	}
	if len(v.errs) == 0 {
		if err := r.overlay(); err != nil {
			return "", nil, err
		}
		v.document(r.root)
	}
	if err := errors.Join(v.errs...); err != nil {
		return "", nil, err
	}
	bare(document)
	text, err = encode(document)
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

// hasTiers refuses a base without a first tier, or with tiers that are none.
func (v *validation) hasTiers(root *yaml.Node) {
	tiers := field(root, "tiers")
	if unset(tiers) || (tiers.Kind == yaml.SequenceNode && len(tiers.Content) == 0) {
		v.fault(root, "tiers is missing or empty: list a tier with the plugins that you want, for example gang, and %s is added to it", CapacityCard)
	}
	v.each(tiers, "tiers", func(tier *yaml.Node) { v.plugins(tier, func(*yaml.Node) {}) })
}

// renderer changes the tree of a base so that it carries what is wanted, and names what it
// replaces.
type renderer struct {
	root     *yaml.Node
	want     Wanted
	replaced []string
}

func (r *renderer) overlay() error {
	if node := field(r.root, "actions"); isString(node) { // else a fault that Validate tells
		r.actions(node)
	}
	tiers := field(r.root, "tiers")
	for _, tier := range tiers.Content {
		plugins := field(tier, "plugins")
		for _, entry := range plugins.Content {
			if value := field(entry, "enableHierarchy"); nameOf(entry) == "capacity" && value != nil && value.Tag != "!!null" && value.Value != "false" {
				return ErrHierarchy
			}
		}
		plugins.Content = slices.DeleteFunc(plugins.Content, func(entry *yaml.Node) bool {
			name := nameOf(entry)
			out := slices.Contains(replacedPlugins, name)
			if out {
				r.replaced = append(r.replaced, "plugin "+name)
			}
			return out
		})
	}
	if err := r.card(field(tiers.Content[0], "plugins")); err != nil {
		return err
	}
	tiers.Content = slices.DeleteFunc(tiers.Content, func(tier *yaml.Node) bool { return len(field(tier, "plugins").Content) == 0 })
	for _, entry := range pluginsOf(r.root) {
		r.switches(entry)
	}
	return nil
}

// card adds capacity-card with its arguments to a list of plugins.
func (r *renderer) card(plugins *yaml.Node) error {
	entry := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Content: []*yaml.Node{word("name"), word(CapacityCard)}}
	if len(r.want.Arguments) > 0 {
		arguments := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
		for _, key := range slices.Sorted(maps.Keys(r.want.Arguments)) {
			value := &yaml.Node{}
			if err := value.Encode(r.want.Arguments[key]); err != nil {
				return fmt.Errorf("%s of %s cannot be written: %w", key, CapacityCard, err)
			}
			setField(arguments, key, value)
		}
		setField(entry, "arguments", arguments)
	}
	at := slices.IndexFunc(plugins.Content, func(entry *yaml.Node) bool { return nameOf(entry) == "predicates" })
	if at < 0 {
		at = len(plugins.Content)
	}
	plugins.Content = slices.Insert(plugins.Content, at, entry)
	return nil
}

// actions puts the wanted actions in the place of those of the base.
func (r *renderer) actions(node *yaml.Node) {
	base, refused := actionsOf(r.root), Refused()
	now := slices.DeleteFunc(slices.Clone(base), func(action string) bool { return refused[action] != "" })
	now = place(now, r.want.Reclaim, takeBack...)
	if r.want.Preempt {
		now = place(now, Preempt, Preempt)
	}
	for _, action := range base {
		if action == CardReclaim || !slices.Contains(now, action) {
			r.replaced = append(r.replaced, "action "+action)
		}
	}
	node.Value, node.Style = strings.Join(now, ", "), yaml.DoubleQuotedStyle
}

// place puts an action where the first of those that it replaces stands behind every allocate,
// else to the end, where Volcano puts what evicts. The others of them go.
func place(actions []string, action string, replaces ...string) []string {
	behind, at := 0, -1
	for i, a := range actions {
		if a == "allocate" {
			behind, at = i+1, -1
		} else if at < 0 && behind > 0 && slices.Contains(replaces, a) {
			at = i
		}
	}
	if at < 0 {
		actions, at = append(slices.Clone(actions), replaces[0]), len(actions)
	}
	var out []string
	for i, a := range actions {
		switch {
		case i == at && action != "":
			out = append(out, action)
		case !slices.Contains(replaces, a):
			out = append(out, a)
		}
	}
	return out
}

// switches makes capacity-card the only one that chooses victims.
func (r *renderer) switches(entry *yaml.Node) {
	name := nameOf(entry)
	for _, key := range mustBeOff(name, actionsOf(r.root), r.want.Preempt) {
		old := field(entry, key)
		if !unset(old) && old.Value != "true" {
			continue // off, or a fault that Validate tells
		}
		if !unset(old) {
			r.replaced = append(r.replaced, fmt.Sprintf("%s: true of plugin %s", key, name))
		}
		setField(entry, key, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!bool", Value: "false"})
	}
}

// mustBeOff are the switches that must be off for a plugin beside capacity-card. elastic is set
// where preempt serves jobs that have their minimum, too.
func mustBeOff(plugin string, actions []string, elastic bool) []string {
	var off []string
	if chooses(plugin, switchReclaimable) {
		off = append(off, switchReclaimable)
	}
	if chooses(plugin, switchPreemptable) && slices.Contains(actions, Preempt) {
		off = append(off, switchPreemptable)
	}
	if plugin == "gang" && (elastic || slices.Contains(actions, "reclaim")) {
		// A Deployment that grows asks for cards too, although its gang is complete. And
		// pods of one job take each other's place only in a gang that is complete.
		off = append(off, "enableJobStarving")
	}
	return off
}

// bare takes comments out of a tree, and all style but that a text stands in quotes: without
// them a reader of another YAML might take it for a number or a switch.
func bare(node *yaml.Node) {
	node.HeadComment, node.LineComment, node.FootComment = "", "", ""
	if node.Kind == yaml.ScalarNode && node.Style != 0 {
		node.Style = yaml.DoubleQuotedStyle
	} else {
		node.Style = 0
	}
	for _, child := range node.Content {
		bare(child)
	}
}
