package schedulerconfig

import (
	"fmt"
	"strings"
	"testing"

	"cardquota.dev/operator/internal/testing/check"
)

// conf writes a text from its actions and plugins: "-" begins a tier, a plugin
// may be followed by switches, "gang enableReclaimable=false".
func conf(actions string, plugins ...string) string {
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

func TestActionsThatEvictNeedCapacityCardAlone(t *testing.T) {
	const (
		gangOff        = "gang enablePreemptable=false enableReclaimable=false"
		conformanceOff = "conformance enablePreemptable=false enableReclaimable=false"
		priorityOff    = "priority enablePreemptable=false"
		tree           = "    arguments: {queueHierarchy: Tree}\n"
		drfOff         = "drf enablePreemptable=false enableReclaimable=false"
	)

	for t, tc := range check.Cases(t, map[string]struct {
		text string
		want []string // fragments of the faults, none when it is accepted
	}{
		"without such actions every plugin may stand as it is": {conf("enqueue, allocate, backfill", "priority", "gang", "conformance", "-", "drf", CapacityCard), nil},
		"both actions, no other plugin chooses victims":        {conf("enqueue, allocate, preempt, reclaim, backfill", priorityOff, gangOff, conformanceOff, CapacityCard, "-", drfOff, "predicates"), nil},
		"priority does not choose victims of reclaim":          {conf("enqueue, allocate, reclaim", "priority", gangOff, CapacityCard), nil},
		"another chooses victims of preempt":                   {conf("enqueue, allocate, preempt", "priority", gangOff, CapacityCard), []string{"plugin priority", "enablePreemptable: false"}},
		"gang chooses victims of reclaim":                      {conf("enqueue, allocate, reclaim", "gang enablePreemptable=false", CapacityCard), []string{"plugin gang", "enableReclaimable: false"}},
		"conformance in a lower tier as well":                  {conf("enqueue, allocate, reclaim", CapacityCard, "-", "conformance"), []string{"plugin conformance"}},
		"every chooser is named":                               {conf("enqueue, allocate, reclaim", "gang", "pdb", CapacityCard, "-", "drf"), []string{"plugin gang", "plugin pdb", "plugin drf"}},
		"two others choose victims of preempt":                 {conf("enqueue, allocate, preempt", "priority", "pdb", CapacityCard), []string{"plugin priority", "plugin pdb"}},
		"another tier chooses victims of preempt":              {conf("enqueue, allocate, preempt", "priority", "-", CapacityCard), []string{"plugin priority"}},
		"an unknown plugin may choose victims":                 {conf("enqueue, allocate, reclaim", "ours", CapacityCard), []string{"plugin ours"}},
		"capacity-card does not choose victims of preempt":     {conf("enqueue, allocate, preempt", CapacityCard+" enablePreemptable=false"), []string{"enablePreemptable: false"}},
		"capacity-card does not choose victims of reclaim":     {conf("enqueue, allocate, reclaim", CapacityCard+" enableReclaimable=false"), []string{"enableReclaimable: false"}},
		"capacity-card does not guard reclaim":                 {conf("enqueue, allocate, reclaim", CapacityCard+" enablePreemptive=false"), []string{"enablePreemptive: false"}},
		"reclaim before allocate":                              {conf("enqueue, reclaim, allocate", CapacityCard), []string{"reclaim has no allocate before it", "allocate comes after"}},
		"preempt without allocate":                             {conf("enqueue, preempt", CapacityCard), []string{"preempt has no allocate before it"}},
		"allocate a second time":                               {conf("enqueue, allocate, preempt, allocate", CapacityCard), []string{"allocate comes after"}},
		"cardreclaim, no other plugin chooses victims":         {conf("enqueue, allocate, backfill, cardreclaim", gangOff, CapacityCard), nil},
		"cardreclaim before preempt":                           {conf("enqueue, allocate, cardreclaim, preempt", gangOff, CapacityCard), nil},
		"gang would choose when reclaim takes over":            {conf("enqueue, allocate, cardreclaim", "gang", CapacityCard), []string{"plugin gang would choose victims of cardreclaim", "enableReclaimable: false"}},
		"capacity-card does not choose for cardreclaim":        {conf("enqueue, allocate, cardreclaim", CapacityCard+" enableReclaimable=false"), []string{"enableReclaimable: false of capacity-card lets cardreclaim evict"}},
		"capacity-card does not guard cardreclaim":             {conf("enqueue, allocate, cardreclaim", CapacityCard+" enablePreemptive=false"), []string{"enablePreemptive: false"}},
		"cardreclaim before allocate":                          {conf("enqueue, cardreclaim, allocate", CapacityCard), []string{"cardreclaim has no allocate before it", "allocate comes after"}},
		"cardreclaim beside reclaim":                           {conf("enqueue, allocate, cardreclaim, reclaim", CapacityCard), []string{"reclaim and cardreclaim would both take cards back", "remove one of them"}},
		"reclaim in a tree of queues":                          {conf("enqueue, allocate, reclaim", CapacityCard) + tree, []string{"reclaim knows no tree of queues, and capacity-card has queueHierarchy: Tree: write cardreclaim instead"}},
		"cardreclaim in a tree of queues":                      {conf("enqueue, allocate, cardreclaim", CapacityCard) + tree, nil},
		"reclaim in flat queues, as they are called":           {conf("enqueue, allocate, reclaim", CapacityCard) + strings.Replace(tree, "Tree", "Flat", 1), nil},
		"an action that may not run at all":                    {conf("enqueue, allocate, shuffle", CapacityCard), []string{"shuffle"}},
	}) {
		known := known()
		known.Plugins = append(known.Plugins, "ours")
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
