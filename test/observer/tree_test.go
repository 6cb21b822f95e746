package observer

import "testing"

// newTreeScene is newScene with queueHierarchy: Tree, and two tenants: top with the leaves a
// and b, and other. Each leaf may borrow beyond what it deserves.
func newTreeScene() *scene {
	w := newScene()
	w.machine.setTree(true, began)
	return w.playScript(`load queue q quota=H200:2
		load queue top quota=H200:6 deserved=H200:4 parentOnly=true
		load queue a parent=top quota=H200:4 deserved=H200:2 serviceType=training reclaimable=true priority=20000
		load queue b parent=top quota=H200:6 deserved=H200:2 serviceType=training reclaimable=true priority=20000
		load queue other quota=H200:8 deserved=H200:4 serviceType=training reclaimable=true priority=20000
		load queue inf quota=H200:4 deserved=H200:4 serviceType=inference reclaimable=false priority=80000
		wait 1m`)
}

func TestPlacementInATree(t *testing.T) {
	const guarantee = `load queue other guarantee=H200:4; wait 1m;`

	runScripts(t, newTreeScene, map[string]scriptCase{
		"within every quota": {`place x node=h200-0 cards=4 queue=a; place y node=h200-0 cards=2 queue=b`, ""},
		"beyond the leaf's":  {`place x node=h200-0 cards=5 queue=a`, "quota"},
		"beyond the parent's": {`place x node=h200-0 cards=4 queue=a; place y node=h200-0 cards=2 queue=b
			place z node=h200-0 cards=1 queue=b`, "quota"},
		"beyond the parent's of a moment ago":      {`write queue top quota=H200:2; wait 9s; place x node=h200-0 cards=3 queue=a`, ""},
		"beyond the parent's of long ago":          {`write queue top quota=H200:2; wait 11s; place x node=h200-0 cards=3 queue=a`, "quota"},
		"of an inherited quota":                    {`write queue a quota=RTX4090:1; wait 1m; place x node=h200-0 cards=6 queue=a`, ""},
		"beyond an inherited quota":                {`write queue a quota=RTX4090:1; wait 1m; place x node=h200-0 cards=7 queue=a`, "quota"},
		"an unused guarantee of another":           {guarantee + `place x node=h200-0 cards=4 queue=a; place y node=h200-0 cards=1 queue=b`, "quota"},
		"beside an unused guarantee":               {guarantee + `place x node=h200-0 cards=4 queue=a`, ""},
		"its own guarantee":                        {guarantee + `place x node=h200-0 cards=4 queue=a; place y node=h200-0 cards=4 queue=other`, ""},
		"a guarantee that is written a moment ago": {`write queue other guarantee=H200:4; wait 9s; place x node=h200-0 cards=4 queue=a; place y node=h200-0 cards=2 queue=b`, ""},
		"a guarantee where a node is cordoned": {guarantee + `load node h200-1; wait 1m; write node h200-1 cordoned=true; wait 1m
			place x node=h200-0 cards=4 queue=a; place y node=h200-0 cards=1 queue=b`, "quota"},
		"a guarantee beside pods on a cordoned node": {guarantee + `load node h200-1; place x node=h200-1 cards=4 queue=a; write node h200-1 cordoned=true; wait 1m
			place y node=h200-0 cards=2 queue=b`, ""},
		"a guarantee that is held": {guarantee + `write queue other stopPolicy=Hold; wait 1m; place x node=h200-0 cards=4 queue=a; place y node=h200-0 cards=2 queue=b`, ""},
		"in a held queue":          {`write queue a stopPolicy=Hold; wait 1m; place x node=h200-0 cards=1 queue=a`, "quota"},
		"below a held queue":       {`write queue top stopPolicy=HoldAndDrain; wait 1m; place x node=h200-0 cards=1 queue=a`, "quota"},
		"in a queue held just now": {`write queue a stopPolicy=Hold; wait 9s; place x node=h200-0 cards=1 queue=a`, ""},
		"in an inner queue":        {`place x node=h200-0 cards=1 queue=top`, "quota"},
		"below a missing parent":   {`write queue a parent=gone; wait 1m; place x node=h200-0 cards=1 queue=a`, "quota"},
		"beside a missing parent":  {`write queue b parent=gone; wait 1m; place x node=h200-0 cards=1 queue=a`, ""},
		"what cannot be reclaimed": {`place x node=h200-0 cards=3 queue=a volcano.sh/preemptable=false`, "quota"},
		"deserved for the same":    {`place x node=h200-0 cards=2 queue=a volcano.sh/preemptable=false`, ""},
		"what cannot be, in its parent": {`write queue a deserved=H200:4; write queue b deserved=H200:1; write queue top deserved=H200:5; wait 1m
			place x node=h200-0 cards=4 queue=a volcano.sh/preemptable=false; place y node=h200-0 cards=1 queue=b volcano.sh/preemptable=false
			place z node=h200-0 cards=1 queue=b volcano.sh/preemptable=false`, "quota"},
		"of an unknown type":         {`write queue a serviceType=notebook; wait 1m; place x node=h200-0 cards=3 queue=a`, "quota"},
		"of a queue that keeps":      {`write queue a reclaimable=false; wait 1m; place x node=h200-0 cards=3 queue=a`, "quota"},
		"beside what is borrowed":    {`place x node=h200-0 cards=3 queue=a; wait 1m; place y node=h200-0 cards=1 queue=a volcano.sh/preemptable=false`, ""},
		"too much that is deleted":   {`place x node=h200-0 cards=4 queue=a; write pod x deleted=true; place y node=h200-0 cards=4 queue=a; write pod y deleted=true; place z node=h200-0 cards=2 queue=b; write pod z deleted=true; load node h200-1 cards=8; place w node=h200-1 cards=4 queue=b`, "quota"},
		"flat queues have no parent": {`place x node=h200-0 cards=4 queue=a; place y node=h200-0 cards=2 queue=b`, ""},
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
		w := newTreeScene()
		w.machine.setTree(tc.tree, w.clock)
		if !tc.now {
			w.playScript(`wait 1m`)
		}

		w.playScript(`place x node=h200-0 cards=4 queue=a; place y node=h200-0 cards=3 queue=b`)
		t.Log(name)
		w.expectViolations(t, tc.want)
	}
}

func TestTenancyInATree(t *testing.T) {
	const parent = `load queue top namespaceSelector={"matchLabels":{"team":"chat"}};`
	runScripts(t, newTreeScene, map[string]scriptCase{
		"the parent takes the namespace":      {parent + `load namespace test team=chat; wait 1m; place x node=h200-0 cards=1 queue=a`, ""},
		"the parent leaves it out":            {parent + `load namespace test team=lab; wait 1m; place x node=h200-0 cards=1 queue=a`, "tenancy"},
		"the parent left it out just now":     {`load namespace test team=lab; write queue top namespaceSelector={"matchLabels":{"team":"chat"}}; wait 9s; place x node=h200-0 cards=1 queue=a`, ""},
		"the parent of another queue":         {parent + `load namespace test team=lab; wait 1m; place x node=h200-0 cards=1 queue=other`, ""},
		"only the queue itself leaves it out": {`load namespace test team=lab; load queue a namespaceSelector={"matchLabels":{"team":"chat"}}; wait 1m; place x node=h200-0 cards=1 queue=a`, "tenancy"},
	})
}

// The queue q has a quota of two, top one of six.
func TestStatusInATree(t *testing.T) {
	const held = `place x node=h200-0 cards=1 queue=a; write queue a allocated=H200:1; place y node=h200-0 cards=2 queue=b; write queue b allocated=H200:2; write queue top allocated=H200:3;`
	runScripts(t, newTreeScene, map[string]scriptCase{
		"a parent sums its subtree":   {held + `load quota top quota=6 used=3 free=3 deserved=4; check; wait 1m`, ""},
		"a parent that counts itself": {held + `load quota top quota=6 used=0 free=6 deserved=4; check; wait 1m`, "status"},
		"what waits below it":         {`write pod p queue=a cards=2 unschedulable=full; load quota top quota=6 used=0 free=6 deserved=4 pending=2 blocked=pod:p,card:H200,count:2,reason:QuotaExhausted; check; wait 1m`, ""},
		"what is borrowed":            {`place x node=h200-0 cards=3 queue=a; write queue a allocated=H200:3; load quota a quota=4 used=3 free=1 deserved=2 borrowed=1; check; wait 1m`, ""},
		"what is not borrowed":        {`place x node=h200-0 cards=3 queue=a; write queue a allocated=H200:3; load quota a quota=4 used=3 free=1 deserved=2; check; wait 1m`, "status"},
		"an inherited quota":          {`load queue a quota=RTX4090:1; load quota a quota=6 used=0 free=6 deserved=2; check; wait 1m`, ""},
		"a change below restarts it":  {held + `load quota top quota=6 used=3 free=3 deserved=4; check; wait 1m; place z node=h200-0 cards=1 queue=b; wait 4s`, "open open"},
	})
}
