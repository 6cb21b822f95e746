package schedulerconfig

import (
	"fmt"
	"strings"
	"testing"

	"cardquota.dev/operator/internal/testing/check"
)

// newText writes a text from its actions and plugins: "-" begins a tier, and switches may follow the name of a
// plugin, "gang enableReclaimable=false".
func newText(actions string, plugins ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "actions: %q\ntiers:\n- plugins:\n", actions)
	for _, plugin := range plugins {
		if plugin == "-" {
			b.WriteString("- plugins:\n")
			continue
		}

		words := strings.Fields(plugin)
		fmt.Fprintf(&b, "  - name: %s\n", words[0])
		for _, word := range words[1:] {
			key, value, _ := strings.Cut(word, "=")
			fmt.Fprintf(&b, "    %s: %s\n", key, value)
		}
	}

	return b.String()
}

// TestActionsThatEvictNeedCapacityCardAlone: Volcano asks all plugins which pods an action may evict. If another
// plugin removes some of them, Volcano evicts the rest, although that frees too little quota. So with an action that
// evicts, only capacity-card may choose victims: other plugins have enablePreemptable (for preempt) or
// enableReclaimable (for reclaim) off. Capacity-card has them on, and enablePreemptive too, by which it checks who
// reclaims. Such an action stands behind allocate, which would otherwise give away cards that were freed for others.
// Only one of reclaim and cardreclaim may run. In a tree of queues that is cardreclaim, which alone knows what each
// level deserves. Cardreclaim asks no other plugin, but its configuration must stay valid if an administrator writes
// reclaim instead. newText makes a text from its actions and plugins: "-" begins another tier.
func TestActionsThatEvictNeedCapacityCardAlone(t *testing.T) {
	const (
		gangOff        = "gang enablePreemptable=false enableReclaimable=false"
		conformanceOff = "conformance enablePreemptable=false enableReclaimable=false"
		priorityOff    = "priority enablePreemptable=false"
		drfOff         = "drf enablePreemptable=false enableReclaimable=false"
		tree           = "    arguments: {queueHierarchy: Tree}\n"
		flat           = "    arguments: {queueHierarchy: Flat}\n"
	)

	for t, tc := range check.Cases(t, map[string]struct {
		text string
		want []string // parts of the faults, none if the text is accepted
	}{
		"no action evicts: plugins may choose victims": {
			text: newText("enqueue, allocate, backfill", "priority", "gang", "conformance", "-", "drf", CapacityCard),
		},
		"preempt and reclaim: no other plugin chooses victims": {
			text: newText("enqueue, allocate, preempt, reclaim, backfill",
				priorityOff, gangOff, conformanceOff, CapacityCard, "-", drfOff, "predicates"),
		},
		"reclaim without preempt: priority, which is asked in preempt only, needs no switch": {
			text: newText("enqueue, allocate, reclaim", "priority", gangOff, CapacityCard),
		},
		"preempt: priority chooses victims": {
			text: newText("enqueue, allocate, preempt", "priority", gangOff, CapacityCard),
			want: []string{"plugin priority would choose victims of preempt", "enablePreemptable: false"},
		},
		"reclaim: gang chooses victims": {
			text: newText("enqueue, allocate, reclaim", "gang enablePreemptable=false", CapacityCard),
			want: []string{"plugin gang would choose victims of reclaim", "enableReclaimable: false"},
		},
		"reclaim: conformance of a lower tier chooses victims": {
			text: newText("enqueue, allocate, reclaim", CapacityCard, "-", "conformance"),
			want: []string{"plugin conformance would choose victims of reclaim"},
		},
		"reclaim: gang, pdb and drf choose victims": {
			text: newText("enqueue, allocate, reclaim", "gang", "pdb", CapacityCard, "-", "drf"),
			want: []string{
				"plugin gang would choose victims of reclaim",
				"plugin pdb would choose victims of reclaim",
				"plugin drf would choose victims of reclaim",
			},
		},
		"preempt: priority and pdb choose victims": {
			text: newText("enqueue, allocate, preempt", "priority", "pdb", CapacityCard),
			want: []string{"plugin priority would choose victims of preempt", "plugin pdb would choose victims of preempt"},
		},
		"preempt: priority of a higher tier chooses victims": {
			text: newText("enqueue, allocate, preempt", "priority", "-", CapacityCard),
			want: []string{"plugin priority would choose victims of preempt"},
		},
		"reclaim: a plugin that is not Volcano's may choose victims": {
			text: newText("enqueue, allocate, reclaim", "ours", CapacityCard),
			want: []string{"plugin ours would choose victims of reclaim"},
		},
		"preempt: capacity-card does not choose victims": {
			text: newText("enqueue, allocate, preempt", CapacityCard+" enablePreemptable=false"),
			want: []string{"enablePreemptable: false"},
		},
		"reclaim: capacity-card does not choose victims": {
			text: newText("enqueue, allocate, reclaim", CapacityCard+" enableReclaimable=false"),
			want: []string{"enableReclaimable: false"},
		},
		"reclaim: capacity-card does not check who reclaims": {
			text: newText("enqueue, allocate, reclaim", CapacityCard+" enablePreemptive=false"),
			want: []string{"enablePreemptive: false"},
		},
		"reclaim before allocate": {
			text: newText("enqueue, reclaim, allocate", CapacityCard),
			want: []string{"reclaim has no allocate before it", "allocate comes after"},
		},
		"preempt without allocate": {
			text: newText("enqueue, preempt", CapacityCard),
			want: []string{"preempt has no allocate before it"},
		},
		"preempt between two allocates": {
			text: newText("enqueue, allocate, preempt, allocate", CapacityCard),
			want: []string{"allocate comes after"},
		},
		"cardreclaim: no other plugin chooses victims": {
			text: newText("enqueue, allocate, backfill, cardreclaim", gangOff, CapacityCard),
		},
		"cardreclaim before preempt: no other plugin chooses victims": {
			text: newText("enqueue, allocate, cardreclaim, preempt", gangOff, CapacityCard),
		},
		"cardreclaim: gang would choose victims if reclaim replaced it": {
			text: newText("enqueue, allocate, cardreclaim", "gang", CapacityCard),
			want: []string{"plugin gang would choose victims of cardreclaim", "enableReclaimable: false"},
		},
		"cardreclaim: capacity-card does not choose victims": {
			text: newText("enqueue, allocate, cardreclaim", CapacityCard+" enableReclaimable=false"),
			want: []string{"enableReclaimable: false of capacity-card lets cardreclaim evict"},
		},
		"cardreclaim: capacity-card does not check who reclaims": {
			text: newText("enqueue, allocate, cardreclaim", CapacityCard+" enablePreemptive=false"),
			want: []string{"enablePreemptive: false"},
		},
		"cardreclaim before allocate": {
			text: newText("enqueue, cardreclaim, allocate", CapacityCard),
			want: []string{"cardreclaim has no allocate before it", "allocate comes after"},
		},
		"cardreclaim and reclaim": {
			text: newText("enqueue, allocate, cardreclaim, reclaim", CapacityCard),
			want: []string{"reclaim and cardreclaim would both take cards back", "remove one of them"},
		},
		"reclaim in a tree of queues": {
			text: newText("enqueue, allocate, reclaim", CapacityCard) + tree,
			want: []string{"reclaim knows no tree of queues, and capacity-card has queueHierarchy: Tree: write cardreclaim instead"},
		},
		"cardreclaim in a tree of queues": {
			text: newText("enqueue, allocate, cardreclaim", CapacityCard) + tree,
		},
		"reclaim in flat queues, which the argument says": {
			text: newText("enqueue, allocate, reclaim", CapacityCard) + flat,
		},
		"shuffle, which may not run at all": {
			text: newText("enqueue, allocate, shuffle", CapacityCard),
			want: []string{"shuffle"},
		},
	}) {
		known := known()
		known.Plugins = append(known.Plugins, "ours") // not one of Volcano's
		known.Actions = append(known.Actions, CardReclaim)
		err := Validate(tc.text, known)
		if tc.want == nil {
			check.NoError(t, err)
			continue
		}

		check.Must(t, err != nil, "accepted, want %q", tc.want)
		check.Contains(t, "error", err.Error(), tc.want...)
	}
}
