package observer

import (
	"strings"
	"testing"
)

// TestBlocked: the cluster has a node of 8 H200, a node of 8 RTX4090, and the queue q with a
// quota of 2 H200, of which none are used unless a line says so.
func TestBlocked(t *testing.T) {
	// says writes a status with one entry, and waits for longer than it may be wrong.
	const right = `load quota q used=0 free=2;`
	says := func(entry string) string {
		return right + `write quota q ` + entry + `; check; wait 11s`
	}

	const hold = `load queue r quota=H200:99; load pod x queue=r cards=7 node=h200-0;`
	runScripts(t, newSceneOfEntries, map[string]scriptCase{
		"a card that no node has":                       {says(`blocked=pod:a,card:NVIDIA-H2000,count:1,reason:UnknownCard`), ""},
		"a card that a node has":                        {says(`blocked=pod:a,card:H200,count:1,reason:UnknownCard`), "truth"},
		"a resource of which the nodes name cards":      {says(`blocked=pod:a,card:nvidia.com/gpu,count:1,reason:UnknownCard`), "truth"},
		"one of two cards that a node has":              {says(`blocked=pod:a,card:NVIDIA-H2000|H200,count:1,reason:UnknownCard`), "truth"},
		"too few are free":                              {hold + says(`blocked=pod:a,card:H200,count:2,reason:NoFreeCard holder=pod:x,queue:r,count:7`), ""},
		"enough are free":                               {hold + says(`blocked=pod:a,card:H200,count:1,reason:NoFreeCard holder=pod:x,queue:r,count:7`), "truth"},
		"enough, without the pods of its gang":          {hold + says(`blocked=pod:a,card:H200,count:1,reason:NoFreeCard holder=pod:x,queue:r,count:7 blocked=pod:a,card:H200,count:1,reason:GangIncomplete`), ""},
		"enough, on a cordoned node":                    {`load node h200-0 cordoned=true;` + says(`blocked=pod:a,card:H200,count:1,reason:NoFreeCard`), ""},
		"enough, on a node that is not ready":           {`load node h200-0 ready=False;` + says(`blocked=pod:a,card:H200,count:1,reason:NoFreeCard`), ""},
		"enough, when a terminating pod has ended":      {`load queue r quota=H200:99; load pod x queue=r cards=7 node=h200-0 deleted=true;` + says(`blocked=pod:a,card:H200,count:1,reason:NoFreeCard`), ""},
		"enough, while they are free for a moment":      {hold + `load quota q used=0 free=2; write quota q blocked=pod:a,card:H200,count:1,reason:NoFreeCard holder=pod:x,queue:r,count:7; check; wait 9s`, "open"},
		"not on one node":                               {hold + `load node h200-1; load pod y queue=r cards=7 node=h200-1; load quota q physical=16;` + says(`blocked=pod:a,card:H200,count:2,reason:Fragmented holder=pod:x,queue:r,count:7 holder=pod:y,queue:r,count:7`), ""},
		"on one node":                                   {hold + says(`blocked=pod:a,card:H200,count:1,reason:Fragmented holder=pod:x,queue:r,count:7`), "truth"},
		"nowhere, so not fragmented":                    {hold + `load pod y queue=r cards=1 node=h200-0;` + says(`blocked=pod:a,card:H200,count:1,reason:Fragmented holder=pod:x,queue:r,count:7 holder=pod:y,queue:r,count:1`), "truth"},
		"a node that refuses":                           {says(`blocked=pod:a,card:H200,count:1,reason:NodesUnsuitable`), ""},
		"a cordoned node that refuses":                  {`load node h200-0 cordoned=true;` + says(`blocked=pod:a,card:H200,count:1,reason:NodesUnsuitable`), ""},
		"a node that refuses, and has no card":          {hold + `load pod y queue=r cards=1 node=h200-0;` + says(`blocked=pod:a,card:H200,count:1,reason:NodesUnsuitable`), "truth"},
		"no quota of the card":                          {says(`blocked=pod:a,card:RTX4090,count:1,reason:NoQuota`), ""},
		"a quota of the card":                           {says(`blocked=pod:a,card:H200,count:1,reason:NoQuota`), "truth"},
		"a stopped queue":                               {`load queue q state=Closed;` + says(`blocked=pod:a,card:H200,count:1,reason:QueueStopped`), ""},
		"a held queue":                                  {`load queue q stopPolicy=Hold;` + says(`blocked=pod:a,card:H200,count:1,reason:QueueStopped`), ""},
		"an open queue":                                 {says(`blocked=pod:a,card:H200,count:1,reason:QueueStopped`), "truth"},
		"a queue that exists":                           {says(`blocked=pod:a,card:H200,count:1,reason:QueueNotFound`), "truth"},
		"holders that hold more":                        {hold + says(`blocked=pod:a,card:H200,count:2,reason:NoFreeCard holder=pod:x,queue:r,count:8`), "truth"},
		"holders that are missing":                      {hold + says(`blocked=pod:a,card:H200,count:2,reason:NoFreeCard`), "truth"},
		"holders of another queue":                      {hold + says(`blocked=pod:a,card:H200,count:1,reason:QuotaExhausted holder=pod:x,queue:r,count:7`), "truth"},
		"holders of another service type":               {hold + says(`blocked=pod:a,card:H200,count:2,reason:NoFreeCard holder=pod:x,queue:r,serviceType:training,count:7`), "truth"},
		"holders without the type of their queue":       {strings.Replace(hold, "99", "99 serviceType=training", 1) + says(`blocked=pod:a,card:H200,count:2,reason:NoFreeCard holder=pod:x,queue:r,count:7`), "truth"},
		"holders with the type of their queue":          {strings.Replace(hold, "99", "99 serviceType=training", 1) + says(`blocked=pod:a,card:H200,count:2,reason:NoFreeCard holder=pod:x,queue:r,serviceType:training,count:7`), ""},
		"no holders in the queue":                       {hold + says(`blocked=pod:a,card:H200,count:1,reason:QuotaExhausted`), ""},
		"a larger holder that is missing":               {hold + `load pod y queue=r cards=1 node=h200-0;` + says(`blocked=pod:a,card:H200,count:1,reason:NoFreeCard holder=pod:y,queue:r,count:1`), "truth"},
		"what is wrong in another way has another time": {hold + says(`blocked=pod:a,card:H200,count:2,reason:NoFreeCard holder=pod:x,queue:r,count:8`)[:len(says(`blocked=pod:a,card:H200,count:2,reason:NoFreeCard holder=pod:x,queue:r,count:8`))-len("wait 11s")] + `wait 9s; write quota q blocked=pod:a,card:H200,count:2,reason:NoFreeCard holder=pod:x,queue:r,count:9; check; wait 9s`, "open"},
	})
}

// newSceneOfEntries is a scene in which nothing waits, so that only the reasons and holders of entries are
// looked at.
func newSceneOfEntries() *scene {
	w := newScene()
	w.machine.ignoresWaiting = true
	return w
}

func TestExcusedReasonsAreNotCounted(t *testing.T) {
	for _, invariant := range []Invariant{Status, Reason, Truth} {
		w := newScene()
		w.machine.setExcused(invariant, true, w.clock)
		w.playScript(`load quota q used=0 free=2; write quota q blocked=pod:a,card:H200,count:1,reason:UnknownCard; check; wait 1m`).expectViolations(t, "")
	}
}
