package observer

import "testing"

func TestPlacement(t *testing.T) {
	runScripts(t, newScene, map[string]scriptCase{
		"a pod within the quota is fine":        {`place a node=h200-0 cards=2`, ""},
		"a pod beyond the quota is a violation": {`place a node=h200-0 cards=3`, "quota"},
		"pods add up": {`place a node=h200-0 cards=1
			place b node=h200-0 cards=1; place c node=h200-0 cards=1`, "quota"},
		"a pod that is created on a node counts as placed": {`write pod a cards=3 node=h200-0`, "quota"},
		"a card without a quota is a violation":            {`place a node=rtx4090-0 cards=1 card=RTX4090`, "quota"},
		"a queue without card.quota may use no card": {`load queue q quota=
			place a node=h200-0 cards=1`, ""}, // the quota of a moment ago still counts
		"a queue that never had card.quota may use no card": {`load queue bare; place a node=h200-0 cards=1 queue=bare`, "quota"},
		"a queue that does not exist may use no card":       {`place a node=h200-0 cards=1 queue=nowhere`, "quota"},
		"a queue that was closed a while ago takes nothing": {`write queue q state=Closed
			wait 9s; place a node=h200-0 cards=1; wait 2s; place b node=h200-0 cards=1`, "quota"},
		"an unreadable quota allows nothing": {`load queue broken quota=H200:-1
			place a node=h200-0 cards=1 queue=broken`, "quota"},
		"a deleted pod makes room": {`place a node=h200-0 cards=2
			write pod a deleted=true; place b node=h200-0 cards=2`, ""},
		"a pod that is gone at once makes room": {`place a node=h200-0 cards=2
			remove pod a; place b node=h200-0 cards=2`, ""},
		"a placement before the deletion is a violation although the pod goes later": {`place a node=h200-0 cards=2
			place b node=h200-0 cards=1; remove pod a`, "quota"},
		"a finished pod makes room": {`place a node=h200-0 cards=1; write pod a phase=Succeeded
			place b node=h200-0 cards=1; write pod b phase=Failed; place c node=h200-0 cards=2`, ""},
		"a quota that was lowered less than 10 s ago still counts": {`write queue q quota=H200:0; wait 9s; place a node=h200-0 cards=2`, ""},
		"a quota that was lowered more than 10 s ago does not count": {`write queue q quota=H200:0
			wait 11s; place a node=h200-0 cards=2`, "quota"},
		"a quota that is raised afterwards does not count":                  {`place a node=h200-0 cards=3; write queue q quota=H200:3`, "quota"},
		"a quota lowered below use is no violation while nothing is placed": {`place a node=h200-0 cards=2; write queue q quota=H200:1; wait 1m`, ""},
		"the largest quota of the last 10 s counts, not the first": {`write queue q quota=H200:0; wait 11s; write queue q quota=H200:3; wait 1s
			write queue q quota=H200:1; place a node=h200-0 cards=3; place b node=h200-0 cards=1`, "quota"},
		"over-use of one card does not spoil another": {`place a node=h200-0 cards=2; write queue q quota=H200:1,RTX4090:1; wait 1m
			place b node=rtx4090-0 cards=1 card=RTX4090`, ""},
		"a recreated queue has only its new quota": {`remove queue q; wait 11s; write queue q quota=H200:1; place a node=h200-0 cards=2`, "quota"},
		"the PodGroup's queue pays":                {`load queue other; write group g queue=other; place a node=h200-0 cards=1 group=g`, "quota"},
		"without its PodGroup a pod stays with the queue that paid": {`load queue other quota=H200:1; write group g queue=other
			place a node=h200-0 cards=1 group=g; remove group g; place b node=h200-0 cards=2`, ""},
		"a pod without a queue is charged to none":                         {`place a node=h200-0 cards=4 queue= card=`, ""},
		"a pod on another card than it names is a violation of both rules": {`place a node=rtx4090-0 cards=1`, "card quota"},
		"any of the alternatives is right": {`load queue q quota=H200:2,RTX4090:1
			place a node=h200-0 cards=1 card=RTX4090|H200; place b node=rtx4090-0 cards=1 card=RTX4090|H200`, ""},
		"a pod that names no card may be on any":          {`place a node=h200-0 cards=1 card=`, ""},
		"a pod that names no card is charged where it is": {`place a node=rtx4090-0 cards=1 card=`, "quota"},
		"a node that does not name its card takes no pod": {`place a node=unnamed-0 cards=1`, "card"},
		"a pod that asks for two card resources must not run": {`
			load node npu-0 model= cards= label:huawei.com/npu.product=Ascend-910B label:huawei.com/npu.memory=65536 resource:huawei.com/Ascend910=8
			load queue q quota=H200:2,Ascend-910B:2; place a node=h200-0 cards=1 resource:huawei.com/Ascend910=1`, "card"},
		"a node that loses its label moves nothing": {`place a node=h200-0 cards=1; write node h200-0 model=; load node h200-1
			place b node=h200-1 cards=1; place c node=h200-1 cards=1`, "quota"},
		"a pod without cards is not checked": {`place a node=rtx4090-0 card=`, ""},
	})
}

func TestWhatWasPlacedBeforeTheStartIsNoViolation(t *testing.T) {
	newScene().playScript(`load pod a cards=5 node=rtx4090-0; write pod a`).expectViolations(t, "")
}

func TestEveryHolderOfAViolationIsNamed(t *testing.T) {
	w := newScene().playScript(`place a node=h200-0 cards=3`)
	want := "was placed on node h200-0 with 3 of <NVIDIA-H200>: queue <q> now holds 3, and its quota was at most 2 in the 10s before (revision 2)"
	if got := w.machine.violations; len(got) != 1 || got[0].Message != want || got[0].Object != "pod/test/a" {
		t.Errorf("found %v, want %q", got, want)
	}
}

// TestTerminatingCardsAreBounded: the queue q has a quota of two.
func TestTerminatingCardsAreBounded(t *testing.T) {
	const first = `place p1 node=h200-0 cards=2; write pod p1 deleted=true;`
	const second = `place p2 node=h200-0 cards=2; write pod p2 deleted=true;`
	const lost = `write node h200-1; place p1 node=h200-1 cards=2; write pod p1 deleted=true;` + second

	runScripts(t, newScene, map[string]scriptCase{
		"a restart of all":                        {first + `place a node=h200-0 cards=2`, ""},
		"a second one before the first has ended": {first + second + `place a node=h200-0 cards=1`, "quota"},
		"a second one after the first has ended":  {first + `remove pod p1;` + second + `place a node=h200-0 cards=2`, ""},
		"what has finished has ended":             {first + `write pod p1 phase=Failed;` + second + `place a node=h200-0 cards=2`, ""},
		"what hangs on a node that is gone":       {lost + `remove node h200-1; place a node=h200-0 cards=2`, ""},
		"what hangs on a node that does not work, or did not a moment ago": {lost + `write node h200-1 ready=Unknown; wait 1m
			place a node=h200-0 cards=1; write node h200-1 ready=True; place b node=h200-0 cards=1`, ""},
		"a node that works again": {lost + `write node h200-1 ready=False; write node h200-1 ready=True; wait 11s; place a node=h200-0 cards=1`, "quota"},
		"another card":            {`write queue q quota=H200:2,RTX4090:1;` + first + second + `place a node=rtx4090-0 cards=1 card=RTX4090`, ""},
	})
}

// TestTenancy tests that a queue with a namespace selector gives cards to no other namespace.
func TestTenancy(t *testing.T) {
	const chooses = `load queue q namespaceSelector={"matchLabels":{"team":"chat"}};`
	const (
		chat = chooses + `load namespace test team=chat; wait 1m;`
		lab  = chooses + `load namespace test team=lab; wait 1m;`
	)

	runScripts(t, newScene, map[string]scriptCase{
		"a chosen namespace is fine":                         {chat + `place a node=h200-0 cards=1`, ""},
		"a queue that does not choose takes every namespace": {`load namespace test team=lab; place a node=h200-0 cards=1`, ""},
		"a left-out namespace is a violation":                {lab + `place a node=h200-0 cards=1`, "tenancy"},
		"an unknown namespace is not allowed":                {chooses + `wait 1m; place a node=h200-0 cards=1`, "tenancy"},
		"an unreadable selector allows no namespace": {`load queue q namespaceSelector=team=chat
			load namespace test team=chat; wait 1m; place a node=h200-0 cards=1`, "quota tenancy"},
		"a pod without cards takes none":                         {lab + `place a node=h200-0 card=`, ""},
		"a label that was there less than 10 s ago still counts": {chat + `write namespace test team=lab; wait 9s; place a node=h200-0 cards=1`, ""},
		"and no longer": {chat + `write namespace test team=lab; wait 11s; place a node=h200-0 cards=1`, "tenancy"},
		"a queue whose selector is younger than 10 s allowed all namespaces before": {`load namespace test team=lab
			write queue q namespaceSelector={"matchLabels":{"team":"chat"}}; wait 9s; place a node=h200-0 cards=1; wait 2s; place b node=h200-0 cards=1`, "tenancy"},
		"a label that comes afterwards does not count": {lab + `place a node=h200-0 cards=1; write namespace test team=chat`, "tenancy"},
		"a running pod stays when its namespace is no longer selected": {chooses + `load namespace test team=chat; place a node=h200-0 cards=1
			write namespace test team=lab; wait 1m; write pod a unschedulable=`, ""},
		"a recreated namespace has only its new labels": {chat + `remove namespace test; write namespace test team=lab
			place a node=h200-0 cards=1`, "tenancy"},
	})
}
