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
func (w *scene) evictedByQueue() string {
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
		tenants = "x quota=8 deserved=4; xa parent=x quota=8 deserved=2 serviceType=training; xb parent=x quota=8 deserved=2 serviceType=training; y quota=8 deserved=4; ya parent=y quota=8 deserved=4 serviceType=training"
		node    = "node n model=A cards=8; "
	)

	for t, tc := range check.Cases(t, map[string]struct {
		tree, runs string
		// victims are the evicted pods by queue, placed how many pods of r get cards.
		victims        string
		placed         int
		minimumRuntime string
	}{
		// Who may reclaim.
		"below its deserved, from a sibling that has borrowed":      {tree: tenants, runs: node + "job b queue=xb min=1 running=n*4 age=1h; job c queue=ya min=1 running=n*4 age=1h; job r queue=xa min=2 pending=2", victims: "xb 2", placed: 2},
		"at its deserved, none: no queue evicts in order to borrow": {tree: tenants, runs: node + "job b queue=xb min=1 running=n*4 age=1h; job d queue=xa min=1 running=n*2 age=1h; job c queue=ya min=1 running=n*2 age=1h; job r queue=xa min=1 pending=1"},
		"a gang beyond its deserved, none":                          {tree: tenants, runs: node + "job b queue=xb min=1 running=n*4 age=1h; job c queue=ya min=1 running=n*4 age=1h; job r queue=xa min=3 pending=3"},
		"the part of its pods that it deserves":                     {tree: tenants, runs: node + "job b queue=xb min=1 running=n*4 age=1h; job c queue=ya min=1 running=n*4 age=1h; job r queue=xa min=1 pending=3", victims: "xb 2", placed: 2},
		"the part of its pods that its guarantee covers":            {tree: "x quota=8 deserved=8 guarantee=6; xa parent=x quota=8 deserved=8 guarantee=6 serviceType=training; y quota=8 deserved=8 guarantee=4; ya parent=y quota=8 deserved=8 guarantee=4 serviceType=training; z quota=8 deserved=1; za parent=z quota=8 deserved=1 serviceType=training", runs: node + "job b queue=za min=1 running=n*4 age=1h; job d queue=xa min=1 running=n*4 age=1h; job r queue=xa min=1 pending=4", victims: "za 2", placed: 2},
		"none of its own queue, whatever its priority":              {tree: tenants, runs: node + "job b queue=xb min=1 running=n*8 age=1h priority=1; job r queue=xb min=1 pending=1 priority=9"},
		"a priority inside a type evicts none":                      {tree: strings.Replace(tenants, "xa parent=x quota=8 deserved=2 serviceType=training", "xa parent=x quota=8 deserved=2 serviceType=training priority=29000", 1), runs: node + "job b queue=xb min=1 running=n*6 age=1h; job d queue=xa min=1 running=n*2 age=1h; job r queue=xa min=1 pending=1"},
		"an unknown service type, none":                             {tree: strings.Replace(tenants, "xa parent=x quota=8 deserved=2 serviceType=training", "xa parent=x quota=8 deserved=2 serviceType=batch priority=20000", 1), runs: node + "job b queue=xb min=1 running=n*4 age=1h; job c queue=ya min=1 running=n*4 age=1h; job r queue=xa min=1 pending=1"},

		// From whom.
		"siblings first, then up the tree":                           {tree: tenants, runs: node + "job b queue=xb min=1 running=n age=9h; job e queue=xb min=1 running=n age=9h; job f queue=xb min=1 running=n age=9h; job c queue=ya min=1 running=n*5 age=1h; job r queue=xa min=2 pending=2", victims: "xb 1, ya 1", placed: 2},
		"a sibling before a queue of another tenant that loses less": {tree: tenants, runs: node + "job b queue=xb min=1 running=n*3 age=9h; job c queue=ya min=1 running=n*5 age=1h; job r queue=xa min=1 pending=1", victims: "xb 1", placed: 1},
		"another tenant that has borrowed":                           {tree: tenants, runs: node + "job b queue=xb min=1 running=n*2 age=1h; job c queue=ya min=1 running=n*6 age=1h; job r queue=xa min=2 pending=2", victims: "ya 2", placed: 2},
		"not another tenant for a tenant that borrows":               {tree: strings.Replace(tenants, "y quota=8 deserved=4; ya parent=y quota=8 deserved=4", "y quota=8 deserved=2; ya parent=y quota=8 deserved=2", 1), runs: node + "job b queue=xb min=1 running=n*4 age=10s; job c queue=ya min=1 running=n*4 age=1h; job r queue=xa min=2 pending=2", minimumRuntime: "1m"},
		"not a queue within its deserved":                            {tree: tenants, runs: node + "job b queue=xb min=1 running=n*2 age=1h; job c queue=ya min=1 running=n*4 age=1h; job e queue=ya min=1 running=n*2 age=1h preemptable=false; job r queue=xa min=2 pending=2", victims: "ya 2", placed: 2},
		"not a queue that borrows from its own tenant":               {tree: "x quota=8 deserved=2; xa parent=x quota=8 deserved=2 serviceType=training; y quota=8 deserved=6; ya parent=y quota=8 deserved=2 serviceType=training; yb parent=y quota=8 deserved=4 serviceType=training", runs: "node n model=A cards=7; job c queue=ya min=1 running=n*6 age=1h; job d queue=xa min=1 running=n age=1h; job r queue=xa min=1 pending=1"},
		"not a queue that cannot be reclaimed":                       {tree: strings.Replace(tenants, "ya parent=y quota=8 deserved=4 serviceType=training", "ya parent=y quota=8 deserved=4 serviceType=training reclaimable=false", 1), runs: node + "job b queue=xb min=1 running=n*2 age=1h; job c queue=ya min=1 running=n*6 age=1h; job r queue=xa min=1 pending=1"},
		"not an unknown service type":                                {tree: strings.Replace(tenants, "ya parent=y quota=8 deserved=4 serviceType=training", "ya parent=y quota=8 deserved=4 serviceType=batch priority=20000", 1), runs: node + "job b queue=xb min=1 running=n*2 age=1h; job c queue=ya min=1 running=n*6 age=1h; job r queue=xa min=1 pending=1"},
		"not a protected job":                                        {tree: tenants, runs: node + "job b queue=xb min=1 running=n*2 age=1h; job c queue=ya min=1 running=n*6 age=1h preemptable=false; job r queue=xa min=1 pending=1"},
		"not before its minimum runtime":                             {tree: tenants, runs: node + "job b queue=xb min=1 running=n*2 age=1h; job c queue=ya min=1 running=n*6 age=10s; job r queue=xa min=1 pending=1", minimumRuntime: "1m"},
		"a victim of a higher priority, by the tree":                 {tree: "x quota=8 deserved=4; xa parent=x quota=8 deserved=4 serviceType=training; y quota=8 deserved=4; ya parent=y quota=8 deserved=4 serviceType=inference reclaimable=true", runs: node + "job c queue=ya min=1 running=n*8 age=1h; job r queue=xa min=1 pending=1", victims: "ya 1", placed: 1},
		"between levels and priorities the lower one":                {tree: "x quota=8 deserved=4; xa parent=x quota=8 deserved=4 serviceType=training; y quota=8 deserved=2; ya parent=y quota=8 deserved=2 serviceType=training priority=20009; z quota=8 deserved=2; za parent=z quota=8 deserved=2 serviceType=training priority=20001", runs: node + "job c queue=ya min=1 running=n*4 age=1h; job d queue=za min=1 running=n*4 age=9h; job r queue=xa min=1 pending=1", victims: "za 1", placed: 1},

		// How far.
		"an elastic job to its deserved and not below it": {tree: tenants, runs: node + "job b queue=xb min=1 running=n*3 age=1h; job c queue=ya min=1 running=n*5 age=1h; job r queue=xa min=2 pending=2", victims: "xb 1, ya 1", placed: 2},
		"a gang goes whole, even below its deserved":      {tree: tenants, runs: node + "job b queue=xb min=2 running=n*2 age=1h; job c queue=ya min=6 running=n*6 age=1h; job r queue=xa min=1 pending=1", victims: "ya 6", placed: 1},
		"but not below its guarantee":                     {tree: strings.Replace(tenants, "y quota=8 deserved=4; ya parent=y quota=8 deserved=4", "y quota=8 deserved=4 guarantee=1; ya parent=y quota=8 deserved=4 guarantee=1", 1), runs: node + "job b queue=xb min=2 running=n*2 age=1h; job c queue=ya min=6 running=n*6 age=1h; job r queue=xa min=1 pending=1"},
		"nor below the guarantee of its tenant":           {tree: strings.Replace(tenants, "y quota=8 deserved=4", "y quota=8 deserved=4 guarantee=1", 1), runs: node + "job b queue=xb min=2 running=n*2 age=1h; job c queue=ya min=6 running=n*6 age=1h; job r queue=xa min=1 pending=1"},
		"by the matrix below its deserved":                {tree: "x quota=8 deserved=4; xa parent=x quota=8 deserved=4 serviceType=inference; y quota=8 deserved=8; ya parent=y quota=8 deserved=8 serviceType=training", runs: node + "job c queue=ya min=1 running=n*8 age=1h; job r queue=xa min=4 pending=4", victims: "ya 4", placed: 4},
		"by the matrix down to its guarantee":             {tree: "x quota=8 deserved=4; xa parent=x quota=8 deserved=4 serviceType=inference; y quota=8 deserved=8 guarantee=6; ya parent=y quota=8 deserved=8 guarantee=6 serviceType=training", runs: node + "job c queue=ya min=1 running=n*8 age=1h; job r queue=xa min=1 pending=4", victims: "ya 2", placed: 2},
		"by the matrix within the reclaimer's deserved":   {tree: "x quota=8 deserved=3; xa parent=x quota=8 deserved=3 serviceType=inference; y quota=8 deserved=8; ya parent=y quota=8 deserved=8 serviceType=training", runs: node + "job c queue=ya min=1 running=n*8 age=1h; job r queue=xa min=4 pending=4"},
		"by the matrix not from a higher priority":        {tree: "x quota=8 deserved=4; xa parent=x quota=8 deserved=4 serviceType=inference; y quota=8 deserved=8; ya parent=y quota=8 deserved=8 serviceType=training priority=90000", runs: node + "job c queue=ya min=1 running=n*8 age=1h; job r queue=xa min=1 pending=1"},

		// When.
		"no eviction while free cards suffice":             {tree: tenants, runs: "node n model=A cards=10; job b queue=xb min=1 running=n*4 age=1h; job c queue=ya min=1 running=n*4 age=1h; job r queue=xa min=2 pending=2", placed: 2},
		"for an ancestor's quota, although cards are free": {tree: tenants, runs: "node n model=A cards=16; job b queue=xb min=1 running=n*8 age=1h; job r queue=xa min=2 pending=2", victims: "xb 2", placed: 2},
		"for it only a victim below that ancestor":         {tree: tenants, runs: "node n model=A cards=16; job b queue=xb min=1 running=n*8 age=9h; job c queue=ya min=1 running=n*6 age=1h; job r queue=xa min=2 pending=2", victims: "xb 2", placed: 2},
		"for it a victim on any node":                      {tree: tenants, runs: "node n model=A cards=4; node m model=A cards=8; job b queue=xb min=1 running=m*8 age=1h; job r queue=xa min=2 pending=2", victims: "xb 2", placed: 2},
		"for cards that are guaranteed to others":          {tree: strings.Replace(tenants, "y quota=8 deserved=4; ya parent=y quota=8 deserved=4", "y quota=8 deserved=4 guarantee=4; ya parent=y quota=8 deserved=4 guarantee=4", 1), runs: node + "job b queue=xb min=1 running=n*4 age=1h; job r queue=xa min=2 pending=2", victims: "xb 2", placed: 2},
		"not for a card that the victim does not hold":     {tree: tenants, runs: "node n model=B cards=8; node m model=A cards=2; job b queue=xb min=1 running=n*8 card=B age=1h; job c queue=ya min=1 running=m*2 age=1h; job r queue=xa min=1 pending=1"},
		"each card by its own numbers":                     {tree: tenants, runs: "node n model=B cards=8; job b queue=xb min=1 running=n*8 card=B age=1h; job r queue=xa min=2 pending=2 card=B", victims: "xb 2", placed: 2},
	}) {
		w := newTree(tc.tree, tc.runs)
		if tc.minimumRuntime != "" {
			maps.Copy(w.args, protectFor(tc.minimumRuntime))
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
	w := newTree("x quota=8 deserved=6; xa parent=x quota=8 deserved=6 serviceType=training; y quota=8 deserved=8 guarantee=2; ya parent=y quota=8 deserved=8 guarantee=2 serviceType=training; z quota=8 deserved=1; za parent=z quota=8 deserved=1 serviceType=training", "node n,m model=A cards=4; job b queue=za min=1 running=m*2 age=1h; job c queue=za min=1 running=n*2 age=9h; job r queue=xa min=2 pending=2")
	for _, node := range w.Nodes {
		node.Spec.Unschedulable = node.Name == "m"
	}
	w.runAction(t).expectEvictedAndPlaced(t, "c*2", "r@n*2")
}

// TestWithheldCardsServeNoGuarantee: the node m has more cards than its labels say, so that new pods get none
// of them. A victim there would lose less, but no card of the inventory becomes free with it. Without a tree
// nothing is guaranteed, and the pods on n are evicted as well.
func TestWithheldCardsServeNoGuarantee(t *testing.T) {
	w := newTree("x quota=8 deserved=6; xa parent=x quota=8 deserved=6 serviceType=training; y quota=8 deserved=8 guarantee=2; ya parent=y quota=8 deserved=8 guarantee=2 serviceType=training; z quota=8 deserved=1; za parent=z quota=8 deserved=1 serviceType=training", "node n,m model=A cards=4; job b queue=za min=1 running=m*2 age=1h; job c queue=za min=1 running=n*2 age=9h; job r queue=xa min=2 pending=2")
	withholdCards(w, "m")
	w.runAction(t).expectEvictedAndPlaced(t, "c*2", "r@n*2")

	flat := newScene("node n,m model=A cards=2; queue a quota={\"A\":8} priority=20000 serviceType=training cpu=1000; queue b quota={\"A\":8} priority=90000 serviceType=inference cpu=1000; job s queue=a min=2 running=n*2 age=1h; job o queue=a min=2 running=m*2 age=1h; job u queue=b min=2 pending=2")
	withholdCards(flat, "m")
	flat.runAction(t).expectEvictedAndPlaced(t, "s*2", "u@n*2")
}

// withholdCards says in the label of a node that it has fewer cards than it offers.
func withholdCards(w *scene, name string) {
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
		w := newTree("y quota=8 deserved=4; ya parent=y quota=8 deserved=4 serviceType=training", "node n model=A cards=8; queue free cpu=1000 reclaimable=true priority=90000; job c queue=ya min=1 running=n*8 age=1h; job r queue=free min=1 pending=6 serviceType="+kind)
		w.args["unmanagedQueues"] = "Ignore"
		w.runAction(t).expectEvictedAndPlaced(t, "", "")
		w.Close()

		w = newTree("y quota=8 deserved=4; ya parent=y quota=8 deserved=4 serviceType=training", "node n model=A cards=4; queue free cpu=1000 reclaimable=true priority=90000; job c queue=ya min=1 pending=3; job r queue=free min=1 pending=6 serviceType="+kind)
		w.args["unmanagedQueues"] = "Ignore"
		w.runAction(t)
		placed := session.Names(w.In(api.Binding))
		check.That(t, strings.HasPrefix(placed, "c-0@n c-1@n c-2@n r-"), "%q are placed", placed)
		w.Close()
	}
}

// TestBothRulesTakeOnlyOnceWhatIsBorrowed: t deserves 1 and uses 2. A pod of tra is evicted by the matrix.
// After it t has borrowed nothing, so that the pod of inf is not to be had by the tree.
func TestBothRulesTakeOnlyOnceWhatIsBorrowed(t *testing.T) {
	const runs = "node n model=A cards=2; node m model=A cards=1; job a queue=inf min=1 running=m age=1h; job b queue=tra min=1 running=n age=1h; job r queue=own min=1 pending=3"
	for t, tc := range check.Cases(t, map[string]struct{ deserved, victims string }{
		"t has borrowed one":        {"1", "tra 1"},
		"t has borrowed both":       {"0", "inf 1, tra 1"},
		"t has borrowed nothing":    {"2", "tra 1"},
		"t deserves more than both": {"5", "tra 1"},
	}) {
		w := newTree("o quota=8 deserved=3; own parent=o quota=8 deserved=3 serviceType=inference; t quota=8 deserved="+tc.deserved+"; inf parent=t quota=8 deserved=0 serviceType=inference reclaimable=true; tra parent=t quota=8 deserved=0 serviceType=training", runs)
		w.runAction(t)
		check.Equal(t, "victims", tc.victims, w.evictedByQueue())
	}
}
