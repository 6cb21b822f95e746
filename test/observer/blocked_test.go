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
		return right + `write quota q blocked=` + entry + `; judge; wait 11s`
	}

	const hold = `load queue r quota=H200:99; load pod x in=r cards=7 on=h200-0;`
	runScripts(t, newWorldOfEntries, map[string]scriptCase{
		"a card that no node has":                       {says(`a:NVIDIA-H2000:1:UnknownCard`), ""},
		"a card that a node has":                        {says(`a:H200:1:UnknownCard`), "truth"},
		"a resource of which the nodes name cards":      {says(`a:nvidia.com/gpu:1:UnknownCard`), "truth"},
		"one of two cards that a node has":              {says(`a:NVIDIA-H2000|H200:1:UnknownCard`), "truth"},
		"too few are free":                              {hold + says(`a:H200:2:NoFreeCard:x:r:7`), ""},
		"enough are free":                               {hold + says(`a:H200:1:NoFreeCard:x:r:7`), "truth"},
		"enough, without the pods of its gang":          {hold + says(`a:H200:1:NoFreeCard:x:r:7,a:H200:1:GangIncomplete`), ""},
		"enough, on a cordoned node":                    {`load node h200-0 cordoned;` + says(`a:H200:1:NoFreeCard`), ""},
		"enough, on a node that is not ready":           {`load node h200-0 ready=False;` + says(`a:H200:1:NoFreeCard`), ""},
		"enough, when a terminating pod has ended":      {`load queue r quota=H200:99; load pod x in=r cards=7 on=h200-0 deleted;` + says(`a:H200:1:NoFreeCard`), ""},
		"enough, while they are free for a moment":      {hold + `load quota q used=0 free=2; write quota q blocked=a:H200:1:NoFreeCard:x:r:7; judge; wait 9s`, "open"},
		"not on one node":                               {hold + `load node h200-1; load pod y in=r cards=7 on=h200-1; load quota q physical=16;` + says(`a:H200:2:Fragmented:x:r:7:y:r:7`), ""},
		"on one node":                                   {hold + says(`a:H200:1:Fragmented:x:r:7`), "truth"},
		"nowhere, so not fragmented":                    {hold + `load pod y in=r cards=1 on=h200-0;` + says(`a:H200:1:Fragmented:x:r:7:y:r:1`), "truth"},
		"a node that refuses":                           {says(`a:H200:1:NodesUnsuitable`), ""},
		"a cordoned node that refuses":                  {`load node h200-0 cordoned;` + says(`a:H200:1:NodesUnsuitable`), ""},
		"a node that refuses, and has no card":          {hold + `load pod y in=r cards=1 on=h200-0;` + says(`a:H200:1:NodesUnsuitable`), "truth"},
		"no quota of the card":                          {says(`a:RTX4090:1:NoQuota`), ""},
		"a quota of the card":                           {says(`a:H200:1:NoQuota`), "truth"},
		"a stopped queue":                               {`load queue q state=Closed;` + says(`a:H200:1:QueueStopped`), ""},
		"a held queue":                                  {`load queue q stop=Hold;` + says(`a:H200:1:QueueStopped`), ""},
		"an open queue":                                 {says(`a:H200:1:QueueStopped`), "truth"},
		"a queue that exists":                           {says(`a:H200:1:QueueNotFound`), "truth"},
		"holders that hold more":                        {hold + says(`a:H200:2:NoFreeCard:x:r:8`), "truth"},
		"holders that are missing":                      {hold + says(`a:H200:2:NoFreeCard`), "truth"},
		"holders of another queue":                      {hold + says(`a:H200:1:QuotaExhausted:x:r:7`), "truth"},
		"holders of another service type":               {hold + says(`a:H200:2:NoFreeCard:x:r/training:7`), "truth"},
		"holders without the type of their queue":       {strings.Replace(hold, "99", "99 type=training", 1) + says(`a:H200:2:NoFreeCard:x:r:7`), "truth"},
		"holders with the type of their queue":          {strings.Replace(hold, "99", "99 type=training", 1) + says(`a:H200:2:NoFreeCard:x:r/training:7`), ""},
		"no holders in the queue":                       {hold + says(`a:H200:1:QuotaExhausted`), ""},
		"a larger holder that is left out":              {hold + `load pod y in=r cards=1 on=h200-0;` + says(`a:H200:1:NoFreeCard:y:r:1`), "truth"},
		"what is wrong in another way has another time": {hold + says(`a:H200:2:NoFreeCard:x:r:8`)[:len(says(`a:H200:2:NoFreeCard:x:r:8`))-len("wait 11s")] + `wait 9s; write quota q blocked=a:H200:2:NoFreeCard:x:r:9; judge; wait 9s`, "open"},
	})
}

// newWorldOfEntries is a world in which nothing waits, so that only the reasons and holders of entries are
// looked at.
func newWorldOfEntries() *world {
	w := newWorld()
	w.machine.ignoresWaiting = true
	return w
}

func TestExcusedReasonsAreNotCounted(t *testing.T) {
	for _, invariant := range []Invariant{Status, Reason, Truth} {
		w := newWorld()
		w.machine.setExcused(invariant, true, w.clock)
		w.playScript(`load quota q used=0 free=2; write quota q blocked=a:H200:1:UnknownCard; judge; wait 1m`).expectViolations(t, "")
	}
}
