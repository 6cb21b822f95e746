package observer

import "testing"

// newTreeWorld is newWorld with queueHierarchy: Tree, and two tenants: top with the leaves a
// and b, and other. Each leaf may borrow beyond what it deserves.
func newTreeWorld() *world {
	w := newWorld()
	w.machine.setTree(true, began)
	return w.playScript(`load queue q quota=H200:2
		load queue top quota=H200:6 deserved=H200:4 parentonly=true
		load queue a parent=top quota=H200:4 deserved=H200:2 type=training reclaimable=true priority=20000
		load queue b parent=top quota=H200:6 deserved=H200:2 type=training reclaimable=true priority=20000
		load queue other quota=H200:8 deserved=H200:4 type=training reclaimable=true priority=20000
		load queue inf quota=H200:4 deserved=H200:4 type=inference reclaimable=false priority=80000
		wait 1m`)
}

func TestPlacementInATree(t *testing.T) {
	const guarantee = `load queue other guarantee=H200:4; wait 1m;`

	runScripts(t, newTreeWorld, map[string]scriptCase{
		"within every quota": {`place x h200-0 cards=4 in=a; place y h200-0 cards=2 in=b`, ""},
		"beyond the leaf's":  {`place x h200-0 cards=5 in=a`, "quota"},
		"beyond the parent's": {`place x h200-0 cards=4 in=a; place y h200-0 cards=2 in=b
			place z h200-0 cards=1 in=b`, "quota"},
		"beyond the parent's of a moment ago":      {`write queue top quota=H200:2; wait 9s; place x h200-0 cards=3 in=a`, ""},
		"beyond the parent's of long ago":          {`write queue top quota=H200:2; wait 11s; place x h200-0 cards=3 in=a`, "quota"},
		"of an inherited quota":                    {`write queue a quota=RTX4090:1; wait 1m; place x h200-0 cards=6 in=a`, ""},
		"beyond an inherited quota":                {`write queue a quota=RTX4090:1; wait 1m; place x h200-0 cards=7 in=a`, "quota"},
		"an unused guarantee of another":           {guarantee + `place x h200-0 cards=4 in=a; place y h200-0 cards=1 in=b`, "quota"},
		"beside an unused guarantee":               {guarantee + `place x h200-0 cards=4 in=a`, ""},
		"its own guarantee":                        {guarantee + `place x h200-0 cards=4 in=a; place y h200-0 cards=4 in=other`, ""},
		"a guarantee that is written a moment ago": {`write queue other guarantee=H200:4; wait 9s; place x h200-0 cards=4 in=a; place y h200-0 cards=2 in=b`, ""},
		"a guarantee where a node is cordoned": {guarantee + `load node h200-1; wait 1m; write node h200-1 cordoned; wait 1m
			place x h200-0 cards=4 in=a; place y h200-0 cards=1 in=b`, "quota"},
		"a guarantee beside pods on a cordoned node": {guarantee + `load node h200-1; place x h200-1 cards=4 in=a; write node h200-1 cordoned; wait 1m
			place y h200-0 cards=2 in=b`, ""},
		"a guarantee that is held": {guarantee + `write queue other stop=Hold; wait 1m; place x h200-0 cards=4 in=a; place y h200-0 cards=2 in=b`, ""},
		"in a held queue":          {`write queue a stop=Hold; wait 1m; place x h200-0 cards=1 in=a`, "quota"},
		"below a held queue":       {`write queue top stop=HoldAndDrain; wait 1m; place x h200-0 cards=1 in=a`, "quota"},
		"in a queue held just now": {`write queue a stop=Hold; wait 9s; place x h200-0 cards=1 in=a`, ""},
		"in an inner queue":        {`place x h200-0 cards=1 in=top`, "quota"},
		"below a missing parent":   {`write queue a parent=gone; wait 1m; place x h200-0 cards=1 in=a`, "quota"},
		"beside a missing parent":  {`write queue b parent=gone; wait 1m; place x h200-0 cards=1 in=a`, ""},
		"what cannot be reclaimed": {`place x h200-0 cards=3 in=a volcano.sh/preemptable=false`, "quota"},
		"deserved for the same":    {`place x h200-0 cards=2 in=a volcano.sh/preemptable=false`, ""},
		"what cannot be, in its parent": {`write queue a deserved=H200:4; write queue b deserved=H200:1; write queue top deserved=H200:5; wait 1m
			place x h200-0 cards=4 in=a volcano.sh/preemptable=false; place y h200-0 cards=1 in=b volcano.sh/preemptable=false
			place z h200-0 cards=1 in=b volcano.sh/preemptable=false`, "quota"},
		"of an unknown type":         {`write queue a type=notebook; wait 1m; place x h200-0 cards=3 in=a`, "quota"},
		"of a queue that keeps":      {`write queue a reclaimable=false; wait 1m; place x h200-0 cards=3 in=a`, "quota"},
		"beside what is borrowed":    {`place x h200-0 cards=3 in=a; wait 1m; place y h200-0 cards=1 in=a volcano.sh/preemptable=false`, ""},
		"too much that is deleted":   {`place x h200-0 cards=4 in=a; write pod x deleted; place y h200-0 cards=4 in=a; write pod y deleted; place z h200-0 cards=2 in=b; write pod z deleted; load node h200-1 cards=8; place w h200-1 cards=4 in=b`, "quota"},
		"flat queues have no parent": {`place x h200-0 cards=4 in=a; place y h200-0 cards=2 in=b`, ""},
	})
}

func TestTheSwitchOfTheHierarchy(t *testing.T) {
	for name, tc := range map[string]struct {
		tree, now bool
		want      string
	}{
		"a tree":                    {true, false, "quota"},
		"flat queues":               {false, false, ""},
		"a tree until a moment ago": {false, true, ""},
	} {
		w := newTreeWorld()
		w.machine.setTree(tc.tree, w.clock)
		if !tc.now {
			w.playScript(`wait 1m`)
		}

		w.playScript(`place x h200-0 cards=4 in=a; place y h200-0 cards=3 in=b`)
		t.Log(name)
		w.expectViolations(t, tc.want)
	}
}

func TestTenancyInATree(t *testing.T) {
	const parent = `load queue top for={"matchLabels":{"team":"chat"}};`
	runScripts(t, newTreeWorld, map[string]scriptCase{
		"the parent takes the namespace":      {parent + `load namespace test team=chat; wait 1m; place x h200-0 cards=1 in=a`, ""},
		"the parent leaves it out":            {parent + `load namespace test team=lab; wait 1m; place x h200-0 cards=1 in=a`, "tenancy"},
		"the parent left it out just now":     {`load namespace test team=lab; write queue top for={"matchLabels":{"team":"chat"}}; wait 9s; place x h200-0 cards=1 in=a`, ""},
		"the parent of another queue":         {parent + `load namespace test team=lab; wait 1m; place x h200-0 cards=1 in=other`, ""},
		"only the queue itself leaves it out": {`load namespace test team=lab; load queue a for={"matchLabels":{"team":"chat"}}; wait 1m; place x h200-0 cards=1 in=a`, "tenancy"},
	})
}

// The queue q has a quota of two, top one of six.
func TestStatusInATree(t *testing.T) {
	const held = `place x h200-0 cards=1 in=a; write queue a allocated=H200:1; place y h200-0 cards=2 in=b; write queue b allocated=H200:2; write queue top allocated=H200:3;`
	runScripts(t, newTreeWorld, map[string]scriptCase{
		"a parent sums its subtree":   {held + `load quota top limit=6 used=3 free=3 deserved=4; judge; wait 1m`, ""},
		"a parent that counts itself": {held + `load quota top limit=6 used=0 free=6 deserved=4; judge; wait 1m`, "status"},
		"what waits below it":         {`write pod p in=a cards=2 says=full; load quota top limit=6 used=0 free=6 deserved=4 pending=2 blocked=p:H200:2:QuotaExhausted; judge; wait 1m`, ""},
		"what is borrowed":            {`place x h200-0 cards=3 in=a; write queue a allocated=H200:3; load quota a limit=4 used=3 free=1 deserved=2 borrowed=1; judge; wait 1m`, ""},
		"what is not borrowed":        {`place x h200-0 cards=3 in=a; write queue a allocated=H200:3; load quota a limit=4 used=3 free=1 deserved=2; judge; wait 1m`, "status"},
		"an inherited quota":          {`load queue a quota=RTX4090:1; load quota a limit=6 used=0 free=6 deserved=2; judge; wait 1m`, ""},
		"a change below restarts it":  {held + `load quota top limit=6 used=3 free=3 deserved=4; judge; wait 1m; place z h200-0 cards=1 in=b; wait 4s`, "open open"},
	})
}
