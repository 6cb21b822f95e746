package observer

import "testing"

// newComputeScene is newTreeScene with reclaimResources: All and a node of 64 cores. The leaves a
// and b deserve 16 of them, and other and inf 32.
func newComputeScene() *scene {
	w := newTreeScene()
	w.machine.options.ReclaimsAll = true
	return w.playScript(`load node h200-0 cpu=64; load node rtx4090-0 cpu=; load node unnamed-0 cpu=; load queue top cpu=64 deservedCPU=32
		load queue a cpu=64 deservedCPU=16; load queue b cpu=64 deservedCPU=16
		load queue other cpu=64 deservedCPU=32; load queue inf cpu=64 deservedCPU=32; wait 1m`)
}

func TestPlacementOfCPUInATree(t *testing.T) {
	const guarantee = `load queue other guaranteedCPU=32; wait 1m; place x node=h200-0 cpu=32 queue=a;`

	runScripts(t, newComputeScene, map[string]scriptCase{
		"beside an unused guarantee":                    {guarantee, ""},
		"an unused guarantee of another":                {guarantee + `place y node=h200-0 cpu=1 queue=b`, "quota"},
		"its own guarantee":                             {guarantee + `place y node=h200-0 cpu=32 queue=other`, ""},
		"a guarantee that was written a moment ago":     {`place x node=h200-0 cpu=33 queue=a; wait 1m; write queue other guaranteedCPU=32; wait 9s; place y node=h200-0 cpu=1 queue=b`, ""},
		"a guarantee beside a node that takes no pods":  {guarantee + `load node h200-1 cpu=64; write node h200-1 cordoned=true; wait 1m; place y node=h200-0 cpu=1 queue=b`, "quota"},
		"a guarantee that another node covers":          {guarantee + `load node h200-1 cpu=64; wait 1m; place y node=h200-0 cpu=8 queue=b`, ""},
		"what cannot be reclaimed, as much as deserved": {`place x node=h200-0 cpu=16 queue=a volcano.sh/preemptable=false`, ""},
		"what cannot be reclaimed, and more":            {`place x node=h200-0 cpu=17 queue=a volcano.sh/preemptable=false`, "quota"},
		"what can be reclaimed, and more":               {`place x node=h200-0 cpu=17 queue=a`, ""},
		"in a held queue":                               {`write queue a stopPolicy=Hold; wait 1m; place x node=h200-0 cpu=1 queue=a`, "quota"},
		"CPU that no queue deserves is only a ceiling": {`load queue top deservedCPU=; load queue a deservedCPU=; load queue b deservedCPU=; wait 1m
			place x node=h200-0 cpu=60 queue=a volcano.sh/preemptable=false`, ""},
	})
}

func TestEvictionForCPUInATree(t *testing.T) {
	const borrows = `place b1 node=h200-0 cpu=8 queue=b; place b2 node=h200-0 cpu=8 queue=b; place b3 node=h200-0 cpu=8 queue=b; wait 1m;`
	const trains = `place o1 node=h200-0 cpu=8 queue=other; wait 1m;`
	cases := map[string]scriptCase{
		"a sibling takes what is borrowed":     {borrows + `write pod n cpu=8 queue=a; evict b1 by=cardreclaim; place n node=h200-0`, ""},
		"a tenant takes what a tenant borrows": {borrows + `load queue top deservedCPU=16; wait 1m; write pod n cpu=8 queue=other; evict b1 by=cardreclaim; place n node=h200-0`, ""},
		"a tenant takes nothing from one that borrows nothing": {borrows + `write pod n cpu=8 queue=other; evict b1 by=cardreclaim
			place n node=h200-0`, "eviction"},
		"no more than is borrowed": {borrows + `write pod n cpu=8 queue=a; evict b1 by=cardreclaim; place n node=h200-0; wait 1m
			write pod m cpu=8 queue=a; evict b2 by=cardreclaim; place m node=h200-0`, "eviction"},
		"nothing to borrow":               {borrows + `place x node=h200-0 cpu=16 queue=a; wait 1m; write pod n cpu=8 queue=a; evict b1 by=cardreclaim; place n node=h200-0`, "eviction"},
		"the matrix goes below deserved":  {trains + `write pod n cpu=8 queue=inf; evict o1 by=cardreclaim; place n node=h200-0`, ""},
		"the matrix stops at a guarantee": {`load queue other guaranteedCPU=8; wait 1m;` + trains + `write pod n cpu=8 queue=inf; evict o1 by=cardreclaim; place n node=h200-0`, "eviction"},
		"the matrix does not borrow":      {`load queue inf deservedCPU=4; wait 1m;` + trains + `write pod n cpu=4 queue=inf; place x node=h200-0 cpu=1 queue=inf; wait 1m; evict o1 by=cardreclaim; remove pod n`, "eviction"},
		"a pod with a card lacks CPU":     {trains + `write pod n cards=1 cpu=8 queue=inf; evict o1 by=cardreclaim; place n node=h200-0`, ""},
		"training with a card lacks CPU":  {borrows + `write pod n cards=1 cpu=8 queue=a; evict b1 by=cardreclaim; place n node=h200-0`, ""},
		"its queue deserves no card":      {`load queue a deserved=H200:0; wait 1m;` + borrows + `write pod n cards=1 cpu=8 queue=a; evict b1 by=cardreclaim; place n node=h200-0`, "eviction"},
		"one that needs no CPU":           {trains + `write pod n cards=1 queue=inf; evict o1 by=cardreclaim; place n node=h200-0; wait 1m`, "eviction"},
		"a pod with cards goes if its queue borrows the cards too": {`place b1 node=h200-0 cpu=24 cards=3 queue=b; wait 1m; write pod n cpu=8 queue=a
			evict b1 by=cardreclaim; place n node=h200-0`, ""},
		"but not if it borrows only CPU": {`place b1 node=h200-0 cpu=24 cards=2 queue=b; wait 1m; write pod n cpu=8 queue=a; evict b1 by=cardreclaim; place n node=h200-0`, "eviction"},
		"two victims for the CPU of one": {borrows + `place b4 node=h200-0 cpu=8 queue=b; wait 1m; write pod n cpu=16 queue=a
			evict b1 by=cardreclaim; evict b2 by=cardreclaim; place n node=h200-0`, ""},
		"three victims for the CPU of two": {borrows + `write group g queue=b; write group h queue=b
			place b4 node=h200-0 cpu=8 queue=b group=g; place b5 node=h200-0 cpu=8 queue=b group=h; wait 1m; write pod n cpu=16 queue=a
			evict b1 by=cardreclaim; evict b4 by=cardreclaim; evict b5 by=cardreclaim; place n node=h200-0; wait 1m`, "eviction"},
	}

	runScripts(t, newComputeScene, cases)
	for name, tc := range cases { // with reclaimResources Cards no pod goes for CPU
		w := newComputeScene()
		w.machine.options.ReclaimsAll = false
		w.playScript(tc.text + `; wait 1m; check`)
		if len(w.machine.violations) == 0 {
			t.Errorf("%s: with reclaimResources Cards there is no violation", name)
		}
	}
}

// TestEvictionForCPUBesideCardsWithoutLimits: the CPU of pods with cards does not count in their
// queues. They lack it on nodes all the same.
func TestEvictionForCPUBesideCardsWithoutLimits(t *testing.T) {
	begin := func() *scene {
		w := newComputeScene()
		w.machine.options.UnlimitedCPUMemory = true
		return w.playScript(`load node rtx4090-0 cpu=64; place o1 node=h200-0 cpu=8 queue=other; place o2 node=rtx4090-0 cpu=8 queue=other; wait 1m
			write pod n cards=1 cpu=60 queue=inf`)
	}
	runScripts(t, begin, map[string]scriptCase{
		"on a node with its card":    {`evict o1 by=cardreclaim; place n node=h200-0`, ""},
		"on a node without its card": {`evict o2 by=cardreclaim; place n node=h200-0; wait 1m`, "eviction"},
	})
}

func TestEvictionForCPUOfFlatQueues(t *testing.T) {
	for _, all := range []bool{true, false} {
		begin := func() *scene {
			w := reclaimScene()
			w.machine.options.ReclaimsAll = all
			return w.playScript(`load pod victim queue=training cpu=8 priority=0 node=h200-0; wait 1m`)
		}

		want := map[bool]string{true: "", false: "eviction"}[all]
		runScripts(t, begin, map[string]scriptCase{
			"a pod without cards":  {`write pod n queue=inference cpu=8 priority=0 unschedulable=waits; evict victim by=cardreclaim; write pod n node=h200-0; wait 1m`, want},
			"a pod that lacks CPU": {`write pod n queue=inference cards=1 cpu=8 priority=0 unschedulable=waits; evict victim by=cardreclaim; write pod n node=h200-0; wait 1m`, want},
			"training does not":    {`write pod n queue=training cpu=8 priority=0 unschedulable=waits; evict victim by=cardreclaim; write pod n node=h200-0; wait 1m`, "eviction"},
		})
	}
}
