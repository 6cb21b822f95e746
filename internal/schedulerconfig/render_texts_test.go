package schedulerconfig

import (
	"fmt"
	"strings"

	"pgregory.net/rapid"
)

// writer draws configurations that Volcano accepts, in many ways of writing them down. Each
// comment has a number of its own, so that a lost or doubled one is seen.
type writer struct {
	t        *rapid.T
	b        strings.Builder
	comments int
	// hierarchies also draws plugins with a hierarchy of queues.
	hierarchies bool
}

// configurations draws texts with everything that rendering has to deal with, with hierarchies of
// queues if wanted.
func configurations(hierarchies bool) *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		w := &writer{t: t, hierarchies: hierarchies}
		if w.bool("actions first") {
			w.actions()
			w.tiers()
			w.sections()
		} else {
			w.sections()
			w.tiers()
			w.actions()
		}

		text := w.b.String()
		// A script that ends without a line end cannot be followed by a line: such a text is
		// written as a whole.
		if w.bool("no last line end") && !strings.HasSuffix(text, " - name: gang\n") {
			text = strings.TrimSuffix(text, "\n")
		}

		if w.bool("Windows") {
			text = strings.ReplaceAll(text, "\n", "\r\n")
		}

		return text
	})
}

func (w *writer) bool(label string) bool { return rapid.IntRange(0, 2).Draw(w.t, label) == 0 }

func (w *writer) pick(label string, from ...string) string {
	return rapid.SampledFrom(from).Draw(w.t, label)
}

// comment writes the end of a line, sometimes with a comment or blank lines.
func (w *writer) comment() {
	if w.bool("comment") {
		w.comments++
		fmt.Fprintf(&w.b, "%s# c%d;", w.pick("space", " ", "   ", "\t"), w.comments)
	}
	w.b.WriteString(w.pick("line end", "\n", "\n", "\n", "\n\n"))
}

// above writes a comment on a line of its own.
func (w *writer) above(indent int) {
	if w.bool("above") {
		w.comments++
		fmt.Fprintf(&w.b, "%s# %sc%d;\n", strings.Repeat(" ", indent), w.pick("disabled", "", "", "- name: "), w.comments)
	}
}

func (w *writer) actions() {
	w.above(0)
	actions := rapid.SampledFrom([][]string{
		{"enqueue", "allocate", "backfill"}, {"allocate"}, {"enqueue", "allocate", "preempt", "backfill"},
		{"enqueue", "reclaim", "allocate", "backfill"}, {"enqueue", "allocate", "reclaim", "preempt"},
		{"allocate", "shuffle", "backfill", "reclaim", "cardreclaim"}, {"cardreclaim", "allocate"}, {"enqueue", "shuffle", "allocate", "allocate"},
		{"enqueue", "allocate", "backfill", "cardreclaim"}, {"reclaim", "allocate", "reclaim", "reclaim"},
	}).Draw(w.t, "actions")
	quote := w.pick("quote", `"`, "'", "")
	w.b.WriteString("actions:" + w.pick("blanks", " ", "   ") + quote + strings.Join(actions, w.pick("comma", ",", ", ", " , ")) + quote)
	w.comment()
}

func (w *writer) tiers() {
	w.above(0)
	w.b.WriteString("tiers:")
	w.comment()
	names := rapid.Permutation([]string{
		"priority", "gang", "conformance", "drf", "predicates", "nodeorder", "binpack", "proportion", "overcommit", "capacity", "tdm", CapacityCard,
	}).Draw(w.t, "plugins")[:rapid.IntRange(1, 12).Draw(w.t, "count")]

	indent := rapid.IntRange(0, 3).Draw(w.t, "indentation of tiers")
	for len(names) > 0 {
		count := rapid.IntRange(1, len(names)).Draw(w.t, "in this tier")
		w.tier(indent, names[:count])
		names = names[count:]
	}
}

func (w *writer) tier(indent int, names []string) {
	w.above(indent)
	w.b.WriteString(strings.Repeat(" ", indent) + "- plugins:")
	if w.bool("flow list") {
		for i, name := range names {
			w.b.WriteString(map[bool]string{true: " [", false: ", "}[i == 0] + w.flow(name))
		}
		w.b.WriteString("]")
		w.comment()
		return
	}

	w.comment()
	indent += 2 + rapid.IntRange(0, 3).Draw(w.t, "indentation of plugins")
	for _, name := range names {
		w.above(indent)
		if w.bool("flow entry") {
			w.b.WriteString(strings.Repeat(" ", indent) + "- " + w.flow(name))
			w.comment()
			continue
		}
		w.entry(indent, name)
	}
}

// switches draws switches that have an effect, as keys and values.
func (w *writer) switches() [][2]string {
	var drawn [][2]string
	for _, key := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{
		"enablePreemptable", "enableReclaimable", "enableJobStarving", "enablePreemptive", "enabledAllocatable", "enablePredicate", "enableJobOrder",
	}), 0, 3, rapid.ID).Draw(w.t, "switches") {
		drawn = append(drawn, [2]string{key, w.pick("value", "true", "false")})
	}
	if w.hierarchies && w.bool("hierarchy") {
		drawn = append(drawn, [2]string{"enableHierarchy", w.pick("value", "true", "false")})
	}
	return drawn
}

func (w *writer) flow(name string) string {
	text := "{name: " + name
	for _, s := range w.switches() {
		text += ", " + s[0] + ": " + s[1]
	}
	if w.bool("arguments") {
		text += `, arguments: {a.b: 1, nodeOrderWeight: "x y"}`
	}
	return text + "}"
}

func (w *writer) entry(indent int, name string) {
	blanks := w.pick("behind the dash", " ", "   ")
	pad := strings.Repeat(" ", indent) + " " + strings.Repeat(" ", len(blanks))
	w.b.WriteString(strings.Repeat(" ", indent) + "-" + blanks)
	lines := [][2]string{{"name", w.pick("quoted", name, `"`+name+`"`, "'"+name+"'")}}

	at := rapid.IntRange(0, 1).Draw(w.t, "name second")
	if switches := w.switches(); at < len(switches) {
		lines = append(switches[:at:at], append(lines, switches[at:]...)...)
	}

	for i, line := range lines {
		if i > 0 {
			w.b.WriteString(pad)
		}
		w.b.WriteString(line[0] + ": " + line[1])
		w.comment()
	}

	w.above(len(pad))
	switch rapid.IntRange(0, 4).Draw(w.t, "arguments") {
	case 1:
		w.b.WriteString(pad + "arguments:" + w.pick("none", "", " {}", " ~", " null"))
		w.comment()
	case 2:
		w.b.WriteString(pad + "arguments:")
		w.comment()
		w.b.WriteString(pad + "  cardUnlimitedCpuMemory: false")
		w.comment()
		w.above(len(pad) + 2)
		w.b.WriteString(pad + "  serviceTypes:\n" + pad + "    x: {reclaimable: true}\n" + pad + "  other.key: [1, two]")
		w.comment()
	case 3:
		w.b.WriteString(pad + "arguments:\n" + pad + "  script: |\n" + pad + "    # no comment\n\n" + pad + "    - name: gang\n")
	}
}

func (w *writer) sections() {
	if w.bool("configurations") {
		w.above(0)
		w.b.WriteString("configurations:\n- name: enqueue\n  arguments:\n    \"factor\":   1.5")
		w.comment()
	}
	if w.bool("metrics") {
		w.b.WriteString("metrics: {type: prometheus, address: 'http://p:9090'}")
		w.comment()
	}
}
