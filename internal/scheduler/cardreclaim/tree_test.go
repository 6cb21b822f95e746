package cardreclaim

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/session"
)

// evictedByQueue counts the evicted pods of each queue.
func (w *world) evictedByQueue() string {
	counts := map[string]int{}
	for _, task := range w.In(api.Releasing) {
		counts[string(w.Ssn.Jobs[task.Job].Queue)]++
	}
	var parts []string
	for _, queue := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf("%s %d", queue, counts[queue]))
	}
	return strings.Join(parts, ", ")
}

// TestPrecedenceOfReclaimInTree is one page of precedence. Tenants x and y deserve 4 of the 8
// cards of node n each. The job r reclaims; it is placed exactly when the row has victims or
// says so.
func TestPrecedenceOfReclaimInTree(t *testing.T) {
	const (
		tenants = "x 8/4; xa<x 8/2 training; xb<x 8/2 training; y 8/4; ya<y 8/4 training"
		node    = "node n A 8; "
	)

	for t, tc := range check.Cases(t, map[string]struct {
		tree, runs string
		// victims are the evicted pods by queue, placed how many pods of r get cards.
		victims        string
		placed         int
		minimumRuntime string
	}{
		// Who may reclaim.
		"below its deserved, from a sibling that has borrowed":      {tree: tenants, runs: node + "b xb 1: n*4 ran=1h; c ya 1: n*4 ran=1h; r xa 2: -*2", victims: "xb 2", placed: 2},
		"at its deserved, none: no queue evicts in order to borrow": {tree: tenants, runs: node + "b xb 1: n*4 ran=1h; d xa 1: n*2 ran=1h; c ya 1: n*2 ran=1h; r xa 1: -"},
		"a gang beyond its deserved, none":                          {tree: tenants, runs: node + "b xb 1: n*4 ran=1h; c ya 1: n*4 ran=1h; r xa 3: -*3"},
		"the part of its pods that it deserves":                     {tree: tenants, runs: node + "b xb 1: n*4 ran=1h; c ya 1: n*4 ran=1h; r xa 1: -*3", victims: "xb 2", placed: 2},
		"the part of its pods that its guarantee covers":            {tree: "x 8/8/6; xa<x 8/8/6 training; y 8/8/4; ya<y 8/8/4 training; z 8/1; za<z 8/1 training", runs: node + "b za 1: n*4 ran=1h; d xa 1: n*4 ran=1h; r xa 1: -*4", victims: "za 2", placed: 2},
		"none of its own queue, whatever its priority":              {tree: tenants, runs: node + "b xb 1: n*8 ran=1h priority=1; r xb 1: - priority=9"},
		"a priority inside a type evicts none":                      {tree: strings.Replace(tenants, "xa<x 8/2 training", "xa<x 8/2 training 29000", 1), runs: node + "b xb 1: n*6 ran=1h; d xa 1: n*2 ran=1h; r xa 1: -"},
		"an unknown service type, none":                             {tree: strings.Replace(tenants, "xa<x 8/2 training", "xa<x 8/2 batch 20000", 1), runs: node + "b xb 1: n*4 ran=1h; c ya 1: n*4 ran=1h; r xa 1: -"},

		// From whom.
		"siblings first, then up the tree":                           {tree: tenants, runs: node + "b xb 1: n ran=9h; e xb 1: n ran=9h; f xb 1: n ran=9h; c ya 1: n*5 ran=1h; r xa 2: -*2", victims: "xb 1, ya 1", placed: 2},
		"a sibling before a queue of another tenant that loses less": {tree: tenants, runs: node + "b xb 1: n*3 ran=9h; c ya 1: n*5 ran=1h; r xa 1: -", victims: "xb 1", placed: 1},
		"another tenant that has borrowed":                           {tree: tenants, runs: node + "b xb 1: n*2 ran=1h; c ya 1: n*6 ran=1h; r xa 2: -*2", victims: "ya 2", placed: 2},
		"not another tenant for a tenant that borrows":               {tree: strings.Replace(tenants, "y 8/4; ya<y 8/4", "y 8/2; ya<y 8/2", 1), runs: node + "b xb 1: n*4 ran=10s; c ya 1: n*4 ran=1h; r xa 2: -*2", minimumRuntime: "1m"},
		"not a queue within its deserved":                            {tree: tenants, runs: node + "b xb 1: n*2 ran=1h; c ya 1: n*4 ran=1h; e ya 1: n*2 ran=1h protected; r xa 2: -*2", victims: "ya 2", placed: 2},
		"not a queue that borrows from its own tenant":               {tree: "x 8/2; xa<x 8/2 training; y 8/6; ya<y 8/2 training; yb<y 8/4 training", runs: "node n A 7; c ya 1: n*6 ran=1h; d xa 1: n ran=1h; r xa 1: -"},
		"not a queue that cannot be reclaimed":                       {tree: strings.Replace(tenants, "ya<y 8/4 training", "ya<y 8/4 training keeps", 1), runs: node + "b xb 1: n*2 ran=1h; c ya 1: n*6 ran=1h; r xa 1: -"},
		"not an unknown service type":                                {tree: strings.Replace(tenants, "ya<y 8/4 training", "ya<y 8/4 batch 20000", 1), runs: node + "b xb 1: n*2 ran=1h; c ya 1: n*6 ran=1h; r xa 1: -"},
		"not a protected job":                                        {tree: tenants, runs: node + "b xb 1: n*2 ran=1h; c ya 1: n*6 ran=1h protected; r xa 1: -"},
		"not before its minimum runtime":                             {tree: tenants, runs: node + "b xb 1: n*2 ran=1h; c ya 1: n*6 ran=10s; r xa 1: -", minimumRuntime: "1m"},
		"a victim of a higher priority, by the tree":                 {tree: "x 8/4; xa<x 8/4 training; y 8/4; ya<y 8/4 inference gives", runs: node + "c ya 1: n*8 ran=1h; r xa 1: -", victims: "ya 1", placed: 1},
		"between levels and priorities the lower one":                {tree: "x 8/4; xa<x 8/4 training; y 8/2; ya<y 8/2 training 20009; z 8/2; za<z 8/2 training 20001", runs: node + "c ya 1: n*4 ran=1h; d za 1: n*4 ran=9h; r xa 1: -", victims: "za 1", placed: 1},

		// How far.
		"an elastic job to its deserved and not below it": {tree: tenants, runs: node + "b xb 1: n*3 ran=1h; c ya 1: n*5 ran=1h; r xa 2: -*2", victims: "xb 1, ya 1", placed: 2},
		"a gang goes whole, even below its deserved":      {tree: tenants, runs: node + "b xb 2: n*2 ran=1h; c ya 6: n*6 ran=1h; r xa 1: -", victims: "ya 6", placed: 1},
		"but not below its guarantee":                     {tree: strings.Replace(tenants, "y 8/4; ya<y 8/4", "y 8/4/1; ya<y 8/4/1", 1), runs: node + "b xb 2: n*2 ran=1h; c ya 6: n*6 ran=1h; r xa 1: -"},
		"nor below the guarantee of its tenant":           {tree: strings.Replace(tenants, "y 8/4", "y 8/4/1", 1), runs: node + "b xb 2: n*2 ran=1h; c ya 6: n*6 ran=1h; r xa 1: -"},
		"by the matrix below its deserved":                {tree: "x 8/4; xa<x 8/4 inference; y 8/8; ya<y 8/8 training", runs: node + "c ya 1: n*8 ran=1h; r xa 4: -*4", victims: "ya 4", placed: 4},
		"by the matrix down to its guarantee":             {tree: "x 8/4; xa<x 8/4 inference; y 8/8/6; ya<y 8/8/6 training", runs: node + "c ya 1: n*8 ran=1h; r xa 1: -*4", victims: "ya 2", placed: 2},
		"by the matrix within the reclaimer's deserved":   {tree: "x 8/3; xa<x 8/3 inference; y 8/8; ya<y 8/8 training", runs: node + "c ya 1: n*8 ran=1h; r xa 4: -*4"},
		"by the matrix not from a higher priority":        {tree: "x 8/4; xa<x 8/4 inference; y 8/8; ya<y 8/8 training 90000", runs: node + "c ya 1: n*8 ran=1h; r xa 1: -"},

		// When.
		"no eviction while free cards suffice":             {tree: tenants, runs: "node n A 10; b xb 1: n*4 ran=1h; c ya 1: n*4 ran=1h; r xa 2: -*2", placed: 2},
		"for an ancestor's quota, although cards are free": {tree: tenants, runs: "node n A 16; b xb 1: n*8 ran=1h; r xa 2: -*2", victims: "xb 2", placed: 2},
		"for it only a victim below that ancestor":         {tree: tenants, runs: "node n A 16; b xb 1: n*8 ran=9h; c ya 1: n*6 ran=1h; r xa 2: -*2", victims: "xb 2", placed: 2},
		"for it a victim on any node":                      {tree: tenants, runs: "node n A 4; node m A 8; b xb 1: m*8 ran=1h; r xa 2: -*2", victims: "xb 2", placed: 2},
		"for cards that are guaranteed to others":          {tree: strings.Replace(tenants, "y 8/4; ya<y 8/4", "y 8/4/4; ya<y 8/4/4", 1), runs: node + "b xb 1: n*4 ran=1h; r xa 2: -*2", victims: "xb 2", placed: 2},
		"not for a card that the victim does not hold":     {tree: tenants, runs: "node n B 8; node m A 2; b xb 1: n*8 card=B ran=1h; c ya 1: m*2 ran=1h; r xa 1: -"},
		"each card by its own numbers":                     {tree: tenants, runs: "node n B 8; b xb 1: n*8 card=B ran=1h; r xa 2: -*2 card=B", victims: "xb 2", placed: 2},
	}) {
		w := newTree(tc.tree, tc.runs)
		if tc.minimumRuntime != "" {
			w.args["serviceTypes"] = map[string]any{
				"inference": map[string]any{"reclaimFrom": []any{"training"}}, "training": map[string]any{"reclaimable": true, "minimumRuntime": tc.minimumRuntime}}
		}

		w.alone = true
		w.runAction(t)
		check.Equal(t, "victims", tc.victims, w.evictedByQueue())
		check.Equal(t, "pods of r that get cards", tc.placed, len(w.Job("r").TaskStatusIndex[api.Pipelined])+len(w.Job("r").TaskStatusIndex[api.Allocated]))
	}
}

// TestCardsOfACordonedNodeServeNoGuarantee: two cards are free, and as many are guaranteed to y. A victim on
// the cordoned node m would lose less, but its cards leave the inventory with it.
func TestCardsOfACordonedNodeServeNoGuarantee(t *testing.T) {
	w := newTree("x 8/6; xa<x 8/6 training; y 8/8/2; ya<y 8/8/2 training; z 8/1; za<z 8/1 training", "node n,m A 4; b za 1: m*2 ran=1h; c za 1: n*2 ran=9h; r xa 2: -*2")
	for _, node := range w.Nodes {
		node.Spec.Unschedulable = node.Name == "m"
	}
	w.runAction(t).expectEvictedAndPlaced(t, "c*2", "r@n*2")
}

// TestWithheldCardsServeNoGuarantee: the node m has more cards than its labels say, so that new pods get none
// of them. A victim there would lose less, but no card of the inventory becomes free with it. Without a tree
// nothing is guaranteed, and the pods on n are evicted as well.
func TestWithheldCardsServeNoGuarantee(t *testing.T) {
	w := newTree("x 8/6; xa<x 8/6 training; y 8/8/2; ya<y 8/8/2 training; z 8/1; za<z 8/1 training", "node n,m A 4; b za 1: m*2 ran=1h; c za 1: n*2 ran=9h; r xa 2: -*2")
	withholdCards(w, "m")
	w.runAction(t).expectEvictedAndPlaced(t, "c*2", "r@n*2")

	flat := newWorld("node n,m A 2; queue a {\"A\":8} 20000 training cpu=1000; queue b {\"A\":8} 90000 inference cpu=1000; s a 2: n*2 ran=1h; o a 2: m*2 ran=1h; u b 2: -*2")
	withholdCards(flat, "m")
	flat.runAction(t).expectEvictedAndPlaced(t, "s*2", "u@n*2")
}

// withholdCards says in the label of a node that it has fewer cards than it offers.
func withholdCards(w *world, name string) {
	for _, node := range w.Nodes {
		if node.Name == name {
			node.Labels["nvidia.com/gpu.count"] = "1"
		}
	}
}

// TestAQueueWithoutQuotaDeservesNothing: while unmanagedQueues is Ignore such a queue may use any
// cards, but its pods, which may choose their service type, evict none, and come after the pods
// of queues that deserve cards.
func TestAQueueWithoutQuotaDeservesNothing(t *testing.T) {
	for _, kind := range []string{"training", "inference"} {
		w := newTree("y 8/4; ya<y 8/4 training", "node n A 8; queue free - cpu=1000 gives 90000; c ya 1: n*8 ran=1h; r free 1: -*6 type="+kind)
		w.args["unmanagedQueues"] = "Ignore"
		w.runAction(t).expectEvictedAndPlaced(t, "", "")
		w.Close()

		w = newTree("y 8/4; ya<y 8/4 training", "node n A 4; queue free - cpu=1000 gives 90000; c ya 1: -*3; r free 1: -*6 type="+kind)
		w.args["unmanagedQueues"] = "Ignore"
		w.runAction(t)
		placed := session.Names(w.In(api.Binding))
		check.That(t, strings.HasPrefix(placed, "c-0@n c-1@n c-2@n r-"), "%q are placed", placed)
		w.Close()
	}
}

// TestBothRulesTakeOnlyOnceWhatIsBorrowed: t deserves 1 and uses 2. A pod of tra goes by the matrix.
// After it t has borrowed nothing, so that the pod of inf is not to be had by the tree.
func TestBothRulesTakeOnlyOnceWhatIsBorrowed(t *testing.T) {
	const runs = "node n A 2; node m A 1; a inf 1: m ran=1h; b tra 1: n ran=1h; r own 1: -*3"
	for t, tc := range check.Cases(t, map[string]struct{ deserved, victims string }{
		"t has borrowed one":        {"1", "tra 1"},
		"t has borrowed both":       {"0", "inf 1, tra 1"},
		"t has borrowed nothing":    {"2", "tra 1"},
		"t deserves more than both": {"5", "tra 1"},
	}) {
		w := newTree("o 8/3; own<o 8/3 inference; t 8/"+tc.deserved+"; inf<t 8/0 inference gives; tra<t 8/0 training", runs)
		w.runAction(t)
		check.Equal(t, "victims", tc.victims, w.evictedByQueue())

		w.Close()
	}
}
