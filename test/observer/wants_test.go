package observer

import "testing"

// preempts makes a pod p of high priority wait, for which a of the same queue is evicted. The other
// seven cards of h200-0 are used.
const preempts = `load group full queue=inference; load pod full queue=inference cards=7 priority=0 node=h200-0 group=full
	run g min=1 pods=a; write pod p queue=training cards=1 priority=7 unschedulable=waits
	write pod a gracePeriod=30s evictedBy=preempt; write pod p nominatedNode=h200-0;`

// placedLater places p within the time that it has.
const placedLater = `remove pod a; write pod p node=h200-0; wait 1m`

func TestWhoPreemptsGetsTheCard(t *testing.T) {
	const reclaims = `load group full queue=inference; load pod full queue=inference cards=7 priority=0 node=h200-0 group=full
		run g min=1 pods=a; write pod p queue=inference cards=1 priority=0 unschedulable=waits
		write pod a gracePeriod=30s evictedBy=cardreclaim; write pod p nominatedNode=h200-0; remove pod a; wait 1s;`
	const goes = preempts + `remove pod a; wait 1s;`
	const late = `check; wait 4s; check; write pod p node=h200-1; wait 1m`

	begin := func() *scene {
		return reclaimScene().playScript(`load node h200-1; load queue other quota=H200:8 serviceType=training priority=30000 reclaimable=true
			load queue first quota=H200:8 serviceType=inference priority=90000`)
	}

	runScripts(t, begin, map[string]scriptCase{
		"the preemptor gets it":                         {preempts + placedLater, ""},
		"another queue takes it":                        {goes + `place q node=h200-0 queue=other cards=1 priority=0;` + late, "eviction"},
		"a queue of higher priority takes it, too":      {goes + `place q node=h200-0 queue=first cards=1 priority=0;` + late, "eviction"},
		"a job of equal priority takes it":              {goes + `place q node=h200-0 queue=training cards=1 priority=7;` + late, "eviction"},
		"a job of higher priority may":                  {goes + `place q node=h200-0 queue=training cards=1 priority=8;` + late, ""},
		"the preemptor itself may have moved meanwhile": {goes + `place q node=h200-0 queue=other cards=1 priority=0; write pod p nominatedNode=h200-1; wait 1s;` + late, ""},
		"or be placed elsewhere":                        {goes + `place q node=h200-0 queue=other cards=1 priority=0; write pod p node=h200-1; wait 1m`, ""},
		"or be gone":                                    {goes + `place q node=h200-0 queue=other cards=1 priority=0; remove pod p; wait 1m`, ""},
		"enough is left":                                {`load node h200-0 cards=9;` + goes + `place q node=h200-0 queue=other cards=1 priority=0; write pod p node=h200-0; wait 1m`, ""},
		"its quota was lowered":                         {goes + `write queue training quota=H200:0; place q node=h200-0 queue=other cards=1 priority=0; wait 4s; remove pod p; wait 1m`, ""},
		"the node is cordoned":                          {goes + `write node h200-0 cordoned=true; place q node=h200-0 queue=other cards=1 priority=0; wait 4s; remove pod p; wait 1m`, ""},
		"five minutes are over":                         {goes + `wait 5m; place q node=h200-0 queue=other cards=1 priority=0; check; wait 4s; check; write pod p node=h200-1; wait 1m`, ""},
		"the same holds for cardreclaim":                {reclaims + `place q node=h200-0 queue=other cards=1 priority=0;` + late, "eviction"},
		"but for pods that are not reclaimable":         {reclaims + `place q node=h200-0 queue=first cards=1 priority=0;` + late, ""},
	})
}

// The preemptor asks for more CPU than its victims free, so that more victims would have a reason.
func TestNoSecondEvictionForTheSameWant(t *testing.T) {
	const again = `wait 5s; write pod b gracePeriod=30s evictedBy=preempt; wait 1s; check; wait 4s; check;`
	const other = `write node h200-0 cards=9 cpu=100; make pod p cpu=8;` + preempts + `run h min=1 pods=b;`
	const ends = `remove pod b;` + placedLater

	runScripts(t, reclaimScene, map[string]scriptCase{
		"the first victim ends still":        {other + again + ends, "eviction"},
		"its card is kept":                   {other + `remove pod a;` + again + ends, "eviction"},
		"no second one":                      {other + placedLater, ""},
		"another pod waits":                  {other + `write pod q queue=training cards=1 priority=7 unschedulable=waits;` + again + `write pod q node=h200-0;` + ends, ""},
		"it has not become enough":           {other + `write pod full cards=8;` + again + ends, ""},
		"another one took the card":          {other + `remove pod a; place q node=h200-0 queue=training cards=1 priority=9;` + again + ends, ""},
		"the node is cordoned":               {other + `write node h200-0 cordoned=true;` + again + ends, ""},
		"its quota was changed":              {other + `write queue training quota=H200:7;` + again + ends, ""},
		"the first eviction has failed":      {other + `wait 50s; check; wait 10s;` + again + ends, "eviction"}, // p was not placed in time
		"the marks of one session are apart": {other + `wait 2s; write pod b gracePeriod=30s evictedBy=preempt; wait 9s; check;` + ends, ""},
		"a second elastic pod": {other + `load pod c queue=training cards=1 priority=0 node=h200-0 group=h;` +
			`write node h200-0 cards=10;` + again + ends, "eviction"},
		"the rest of a gang": {`write node h200-0 cards=9 cpu=100; make pod p cpu=8; run g min=2 pods=a,b;` + preempts + again + ends, ""},
	})
}
