package observer

import "testing"

func TestEvictionInATree(t *testing.T) {
	// Queue b borrows two, queue other borrows two.
	const borrows = `place b1 h200-0 cards=1 in=b; place b2 h200-0 cards=1 in=b; place b3 h200-0 cards=1 in=b; place b4 h200-0 cards=1 in=b; wait 1m;`
	const alone = `place o1 h200-0 cards=2 in=other; place o2 h200-0 cards=2 in=other; place o3 h200-0 cards=2 in=other; wait 1m;`
	const group = `write group g queue=b members=3; place g1 h200-0 cards=1 in=b group=g; place g2 h200-0 cards=1 in=b group=g; place g3 h200-0 cards=1 in=b group=g; wait 1m;`

	runScripts(t, newTreeWorld, map[string]scriptCase{
		"a sibling takes what is borrowed": {borrows + `write pod n cards=1 in=a; evict b1 cardreclaim; place n h200-0`, ""},
		"another tenant may not, while the parent borrows nothing": {`load queue top deserved=H200:4; wait 1m;` + borrows + `write pod n cards=1 in=other
			evict b1 cardreclaim; place n h200-0`, "eviction"},
		"another tenant takes what the whole path borrows": {`load queue top quota=H200:8 deserved=H200:3; wait 1m;` + borrows + `write pod n cards=1 in=other
			evict b1 cardreclaim; place n h200-0`, ""},
		"across the tree":               {alone + `write pod n cards=2 in=a; evict o1 cardreclaim; place n h200-0`, ""},
		"no more than what is borrowed": {alone + `write pod n cards=2 in=a; write pod m cards=2 in=b; evict o1 cardreclaim; place n h200-0; evict o2 cardreclaim; place m h200-0`, "eviction"},
		"nothing to borrow":             {alone + `place x h200-0 cards=1 in=a; wait 1m; write pod n cards=2 in=a; evict o1 cardreclaim; place n h200-0`, "eviction"},
		"the gang may go below deserved": {group + `write pod n cards=1 in=a; write pod g1 evicted=cardreclaim; write pod g2 evicted=cardreclaim; write pod g3 evicted=cardreclaim
			remove pod g1; remove pod g2; remove pod g3; place n h200-0`, ""},
		"the gang may not go below its guarantee": {`load queue top guarantee=H200:1; load queue b guarantee=H200:1; wait 1m;` + group + `write pod n cards=1 in=a
			write pod g1 evicted=cardreclaim; write pod g2 evicted=cardreclaim; write pod g3 evicted=cardreclaim
			remove pod g1; remove pod g2; remove pod g3; place n h200-0`, "eviction"},
		"the matrix goes below deserved": {`place o h200-0 cards=1 in=other; wait 1m; write pod n cards=1 in=inf; evict o cardreclaim; place n h200-0`, ""},
		"the matrix stops at a guarantee": {`load queue other guarantee=H200:1; wait 1m; place o h200-0 cards=1 in=other; wait 1m; write pod n cards=1 in=inf
			evict o cardreclaim; place n h200-0`, "eviction"},
		"the matrix stops at an ancestor's guarantee": {`load queue top guarantee=H200:1; wait 1m; place o h200-0 cards=1 in=a; wait 1m; write pod n cards=1 in=inf
			evict o cardreclaim; place n h200-0`, "eviction"},
		"the matrix does not borrow": {`load queue inf deserved=H200:0; wait 1m; place o h200-0 cards=1 in=other; wait 1m; write pod n cards=1 in=inf
			evict o cardreclaim; place n h200-0`, "eviction quota"},
		"a queue that keeps its cards":                         {`load queue other reclaimable=false; wait 1m;` + alone + `write pod n cards=2 in=a; evict o1 cardreclaim; place n h200-0`, "quota eviction"},
		"an unknown type":                                      {`load queue other type=notebook; wait 1m;` + alone + `write pod n cards=2 in=a; evict o1 cardreclaim; place n h200-0`, "quota eviction"},
		"what the matrix does not allow and the tree does not": {`place o h200-0 cards=1 in=other; wait 1m; write pod n cards=1 in=a; evict o cardreclaim; place n h200-0`, "eviction"},
		"deserved was higher a moment ago": {`load queue other deserved=H200:6; wait 1m;` + alone + `write pod n cards=2 in=a; write queue other deserved=H200:4
			evict o1 cardreclaim; place n h200-0`, ""},
		"deserved was lower a moment ago": {alone + `write pod n cards=2 in=a; write queue other deserved=H200:8; wait 9s; evict o1 cardreclaim; place n h200-0`, ""},
		"deserved was lower long ago":     {alone + `write pod n cards=2 in=a; write queue other deserved=H200:8; wait 11s; evict o1 cardreclaim; place n h200-0`, "eviction"},
		"the parent was another one a moment ago": {borrows + `write pod n cards=1 in=other; write queue b parent=; wait 1m; write queue b parent=top; wait 9s
			evict b1 cardreclaim; place n h200-0`, ""},
		"a pod that ended meanwhile counts": {alone + `write pod n cards=2 in=a; write pod o2 phase=Succeeded; evict o1 cardreclaim; place n h200-0`, ""},
		"no reclaimer is placed":            {alone + `write pod n cards=2 in=a; evict o1 cardreclaim; write pod n says=full; wait 1m`, "eviction"},
		"a held queue reclaims nothing":     {`load queue a stop=Hold; wait 1m;` + alone + `write pod n cards=2 in=a; evict o1 cardreclaim; remove pod n`, "eviction"},
	})
}

func TestFlatQueuesReclaimNothingByTheTree(t *testing.T) {
	w := newTreeWorld()
	w.machine.setTree(false, w.clock)
	w.playScript(`wait 1m; place o1 h200-0 cards=2 in=other; place o2 h200-0 cards=4 in=other; wait 1m; write pod n cards=2 in=a; evict o1 cardreclaim; place n h200-0`)
	w.expectViolations(t, "eviction")
}

func TestDrain(t *testing.T) {
	const runs = `write group g queue=a members=2; place g1 h200-0 cards=1 in=a group=g; place g2 h200-0 cards=1 in=a group=g; wait 1m;`
	const held = runs + `write queue a stop=HoldAndDrain;`

	runScripts(t, newTreeWorld, map[string]scriptCase{
		"of a queue that is drained":          {held + `evict g1 drain; evict g2 drain; wait 2m`, ""},
		"of a queue below one":                {runs + `write queue top stop=HoldAndDrain; evict g1 drain; evict g2 drain; wait 2m`, ""},
		"of a queue that is only held":        {runs + `write queue a stop=Hold; wait 1m; evict g1 drain; evict g2 drain`, "eviction eviction"},
		"of a queue that is not held":         {runs + `evict g1 drain; evict g2 drain`, "eviction eviction"},
		"of a part of a gang":                 {held + `evict g1 drain; wait 5s; judge; wait 20s`, "eviction"},
		"of a part of a gang that comes back": {held + `evict g1 drain; write queue a stop=; wait 11s; judge; wait 30s`, ""},
		"of what is not preemptable":          {`place x h200-0 cards=1 in=a volcano.sh/preemptable=false; wait 1m; write queue a stop=HoldAndDrain; evict x drain; wait 2m`, ""},
		"of what the system needs":            {`place x h200-0 cards=1 in=a class=system-node-critical; wait 1m; write queue a stop=HoldAndDrain; evict x drain`, "eviction"},
	})
}
