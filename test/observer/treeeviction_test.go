package observer

import "testing"

func TestEvictionInATree(t *testing.T) {
	// Queue b borrows two, queue other borrows two.
	const borrows = `place b1 node=h200-0 cards=1 queue=b; place b2 node=h200-0 cards=1 queue=b; place b3 node=h200-0 cards=1 queue=b; place b4 node=h200-0 cards=1 queue=b; wait 1m;`
	const alone = `place o1 node=h200-0 cards=2 queue=other; place o2 node=h200-0 cards=2 queue=other; place o3 node=h200-0 cards=2 queue=other; wait 1m;`
	const group = `write group g queue=b min=3; place g1 node=h200-0 cards=1 queue=b group=g; place g2 node=h200-0 cards=1 queue=b group=g; place g3 node=h200-0 cards=1 queue=b group=g; wait 1m;`

	runScripts(t, newTreeScene, map[string]scriptCase{
		"a sibling takes what is borrowed": {borrows + `write pod n cards=1 queue=a; evict b1 by=cardreclaim; place n node=h200-0`, ""},
		"another tenant may not, while the parent borrows nothing": {`load queue top deserved=H200:4; wait 1m;` + borrows + `write pod n cards=1 queue=other
			evict b1 by=cardreclaim; place n node=h200-0`, "eviction"},
		"another tenant takes what the whole path borrows": {`load queue top quota=H200:8 deserved=H200:3; wait 1m;` + borrows + `write pod n cards=1 queue=other
			evict b1 by=cardreclaim; place n node=h200-0`, ""},
		"across the tree":               {alone + `write pod n cards=2 queue=a; evict o1 by=cardreclaim; place n node=h200-0`, ""},
		"no more than what is borrowed": {alone + `write pod n cards=2 queue=a; write pod m cards=2 queue=b; evict o1 by=cardreclaim; place n node=h200-0; evict o2 by=cardreclaim; place m node=h200-0`, "eviction"},
		"nothing to borrow":             {alone + `place x node=h200-0 cards=1 queue=a; wait 1m; write pod n cards=2 queue=a; evict o1 by=cardreclaim; place n node=h200-0`, "eviction"},
		"the gang may go below deserved": {group + `write pod n cards=1 queue=a; write pod g1 evictedBy=cardreclaim; write pod g2 evictedBy=cardreclaim; write pod g3 evictedBy=cardreclaim
			remove pod g1; remove pod g2; remove pod g3; place n node=h200-0`, ""},
		"the gang may not go below its guarantee": {`load queue top guarantee=H200:1; load queue b guarantee=H200:1; wait 1m;` + group + `write pod n cards=1 queue=a
			write pod g1 evictedBy=cardreclaim; write pod g2 evictedBy=cardreclaim; write pod g3 evictedBy=cardreclaim
			remove pod g1; remove pod g2; remove pod g3; place n node=h200-0`, "eviction"},
		"the matrix goes below deserved": {`place o node=h200-0 cards=1 queue=other; wait 1m; write pod n cards=1 queue=inf; evict o by=cardreclaim; place n node=h200-0`, ""},
		"the matrix stops at a guarantee": {`load queue other guarantee=H200:1; wait 1m; place o node=h200-0 cards=1 queue=other; wait 1m; write pod n cards=1 queue=inf
			evict o by=cardreclaim; place n node=h200-0`, "eviction"},
		"the matrix stops at an ancestor's guarantee": {`load queue top guarantee=H200:1; wait 1m; place o node=h200-0 cards=1 queue=a; wait 1m; write pod n cards=1 queue=inf
			evict o by=cardreclaim; place n node=h200-0`, "eviction"},
		"the matrix does not borrow": {`load queue inf deserved=H200:0; wait 1m; place o node=h200-0 cards=1 queue=other; wait 1m; write pod n cards=1 queue=inf
			evict o by=cardreclaim; place n node=h200-0`, "eviction quota"},
		"a queue that keeps its cards":                         {`load queue other reclaimable=false; wait 1m;` + alone + `write pod n cards=2 queue=a; evict o1 by=cardreclaim; place n node=h200-0`, "quota eviction"},
		"an unknown type":                                      {`load queue other serviceType=notebook; wait 1m;` + alone + `write pod n cards=2 queue=a; evict o1 by=cardreclaim; place n node=h200-0`, "quota eviction"},
		"what the matrix does not allow and the tree does not": {`place o node=h200-0 cards=1 queue=other; wait 1m; write pod n cards=1 queue=a; evict o by=cardreclaim; place n node=h200-0`, "eviction"},
		"deserved was higher a moment ago": {`load queue other deserved=H200:6; wait 1m;` + alone + `write pod n cards=2 queue=a; write queue other deserved=H200:4
			evict o1 by=cardreclaim; place n node=h200-0`, ""},
		"deserved was lower a moment ago": {alone + `write pod n cards=2 queue=a; write queue other deserved=H200:8; wait 9s; evict o1 by=cardreclaim; place n node=h200-0`, ""},
		"deserved was lower long ago":     {alone + `write pod n cards=2 queue=a; write queue other deserved=H200:8; wait 11s; evict o1 by=cardreclaim; place n node=h200-0`, "eviction"},
		"the parent was another one a moment ago": {borrows + `write pod n cards=1 queue=other; write queue b parent=; wait 1m; write queue b parent=top; wait 9s
			evict b1 by=cardreclaim; place n node=h200-0`, ""},
		"a pod that ended meanwhile counts": {alone + `write pod n cards=2 queue=a; write pod o2 phase=Succeeded; evict o1 by=cardreclaim; place n node=h200-0`, ""},
		"no reclaimer is placed":            {alone + `write pod n cards=2 queue=a; evict o1 by=cardreclaim; write pod n unschedulable=full; wait 1m`, "eviction"},
		"a held queue reclaims nothing":     {`load queue a stopPolicy=Hold; wait 1m;` + alone + `write pod n cards=2 queue=a; evict o1 by=cardreclaim; remove pod n`, "eviction"},
	})
}

func TestFlatQueuesReclaimNothingByTheTree(t *testing.T) {
	w := newTreeScene()
	w.machine.setTree(false, w.clock)
	w.playScript(`wait 1m; place o1 node=h200-0 cards=2 queue=other; place o2 node=h200-0 cards=4 queue=other; wait 1m; write pod n cards=2 queue=a; evict o1 by=cardreclaim; place n node=h200-0`)
	w.expectViolations(t, "eviction")
}

func TestDrain(t *testing.T) {
	const runs = `write group g queue=a min=2; place g1 node=h200-0 cards=1 queue=a group=g; place g2 node=h200-0 cards=1 queue=a group=g; wait 1m;`
	const held = runs + `write queue a stopPolicy=HoldAndDrain;`

	runScripts(t, newTreeScene, map[string]scriptCase{
		"of a queue that is drained":          {held + `evict g1 by=drain; evict g2 by=drain; wait 2m`, ""},
		"of a queue below one":                {runs + `write queue top stopPolicy=HoldAndDrain; evict g1 by=drain; evict g2 by=drain; wait 2m`, ""},
		"of a queue that is only held":        {runs + `write queue a stopPolicy=Hold; wait 1m; evict g1 by=drain; evict g2 by=drain`, "eviction eviction"},
		"of a queue that is not held":         {runs + `evict g1 by=drain; evict g2 by=drain`, "eviction eviction"},
		"of a part of a gang":                 {held + `evict g1 by=drain; wait 5s; check; wait 20s`, "eviction"},
		"of a part of a gang that comes back": {held + `evict g1 by=drain; write queue a stopPolicy=; wait 11s; check; wait 30s`, ""},
		"of what is not preemptable":          {`place x node=h200-0 cards=1 queue=a volcano.sh/preemptable=false; wait 1m; write queue a stopPolicy=HoldAndDrain; evict x by=drain; wait 2m`, ""},
		"of what the system needs":            {`place x node=h200-0 cards=1 queue=a priorityClass=system-node-critical; wait 1m; write queue a stopPolicy=HoldAndDrain; evict x by=drain`, "eviction"},
	})
}
