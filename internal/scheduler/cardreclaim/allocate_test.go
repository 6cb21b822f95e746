package cardreclaim

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/session"
)

// TestDeservedBeforeBorrowed: no pod of a tree borrows before those that need not borrow. Queue x
// has the higher priority.
func TestDeservedBeforeBorrowed(t *testing.T) {
	const tree = "x quota=8 deserved=4 serviceType=training priority=20500; y quota=8 deserved=4 serviceType=training"
	for t, tc := range check.Cases(t, map[string]struct{ runs, placed string }{
		"a higher priority does not borrow first":   {"node n model=A cards=6; job a queue=x min=1 running=n*4 age=1h; job b queue=x min=1 pending=2; job c queue=y min=2 pending=2", "c*2"},
		"it borrows what is left":                   {"node n model=A cards=7; job a queue=x min=1 running=n*4 age=1h; job b queue=x min=1 pending=2; job c queue=y min=2 pending=2", "b-0 c*2"},
		"a gang that borrows in part comes later":   {"node n model=A cards=6; job a queue=x min=1 running=n*2 age=1h; job b queue=x min=4 pending=4; job c queue=y min=2 pending=2", "c*2"},
		"an elastic job borrows with its last pods": {"node n model=A cards=6; job b queue=x min=1 pending=6; job c queue=y min=2 pending=2", "b*4 c*2"},
		"of deserved pods the higher priority":      {"node n model=A cards=2; job b queue=x min=2 pending=2; job c queue=y min=2 pending=2", "b*2"},
		"of those that borrow the higher priority":  {"node n model=A cards=9; job a queue=x min=1 running=n*4 age=1h; job d queue=y min=1 running=n*4 age=1h; job b queue=x min=1 pending=1; job c queue=y min=1 pending=1", "b-0"},
		"a job does not borrow what a gang lacks":   {"node n model=A cards=7; job a queue=x min=1 running=n*5 age=1h; job b queue=x min=1 pending=2; job c queue=y min=3 pending=3", ""},
		"it borrows beside what a gang lacks":       {"node n model=A cards=7; node m model=A cards=1; job a queue=x min=1 running=n*5 age=1h; job b queue=x min=1 pending=2; job c queue=y min=1 pending=1 cards=3", "b-0@m"},
		"it borrows what does not help a gang":      {"node n model=A cards=6; job a queue=x min=1 running=n*4 age=1h; job b queue=x min=1 pending=2; job c queue=y min=3 pending=3", "b*2"},
		"the card that it deserves":                 {"node n model=A cards=8; node m model=B cards=1; job a queue=x min=1 running=n*4 age=1h; job b queue=x min=1 pending=1 card=A|B; job c queue=y min=4 pending=4", "b-0@m c*4"},
		"the other card, if that has no node":       {"node n model=A cards=5; node m model=B cards=1; job a queue=x min=1 running=n*4 age=1h; job d queue=y min=1 running=m card=B age=1h; job b queue=x min=1 pending=1 card=A|B task=w,pods:1,min:1", "b-0"},
		"a job before less important ones":          {"node n model=A cards=6; job g queue=y min=6 pending=6 priorityClass=high; job s queue=y min=1 pending=1 priorityClass=low; job z queue=y min=1 pending=1 priorityClass=low", "g*6"},
		"others of its queue if it does not fit":    {"node n model=A cards=5; job g queue=y min=6 pending=6 priorityClass=high; job s queue=y min=1 pending=1 priorityClass=low; job z queue=y min=1 pending=1 priorityClass=low", "s-0 z-0"},
		"they do not lose to a higher priority":     {"node n model=A cards=9; job a queue=x min=1 running=n*4 age=1h; job b queue=x min=1 pending=4; job g queue=y min=6 pending=6 priorityClass=high; job s queue=y min=1 pending=4 priorityClass=low", "b-0 s*4"},
		"any card of its queue":                     {"node n model=A cards=5; job a queue=x min=1 running=n*4 age=1h; job b queue=x min=1 pending=1 card=none task=w,pods:1,min:1; job c queue=y min=1 pending=1 card=B", "b-0"},
	}) {
		w := newTree(tree, tc.runs).runAllocate(t)

		placed := session.Names(slices.Concat(w.In(api.Binding), w.In(api.Allocated)))
		check.Equal(t, "placed, on n unless it says so", session.Spell(tc.placed), strings.ReplaceAll(placed, "@n", ""))
	}
}

// TestReasonsOfDeservedPodsStay: the second run, in which others borrow, does not change why a pod
// waits.
func TestReasonsOfDeservedPodsStay(t *testing.T) {
	w := newTree("x quota=8 deserved=4 serviceType=training priority=20500; y quota=8 deserved=4 serviceType=training", "node n model=A cards=6; job a queue=x min=1 running=n*4 age=1h; job b queue=x min=1 pending=2; job c queue=y min=3 pending=3 task=w,pods:3,min:3").runAllocate(t)
	job := w.Ssn.Jobs["ns/c"]
	check.Must(t, job != nil && len(job.NodesFitErrors) > 0, "no reason why c waits")
	for uid, reason := range job.NodesFitErrors {
		check.That(t, !strings.Contains(fmt.Sprint(reason.Error()), "already"), "pod %s waits because %s", uid, reason.Error())
	}
}

// TestTenantsShareWhateverTheirQueues: two tenants that deserve, or borrow, the same get the same in
// one session, although one has many queues. A placement changes the order of all queues of its
// tenant.
func TestTenantsShareWhateverTheirQueues(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct{ deserved, other string }{
		"of what they deserve": {"16", ""},
		"of what they borrow":  {"0", "; d quota=16 deserved=16 serviceType=training"},
	}) {
		for _, queues := range []int{1, 2, 4, 8} {
			tree := fmt.Sprintf("t quota=16 deserved=%s; u quota=16 deserved=%s; u0 parent=u quota=16 deserved=%s serviceType=training%s", tc.deserved, tc.deserved, tc.deserved, tc.other)
			runs := "node n model=A cards=8"
			for i := range queues {
				part := "0"
				if tc.deserved != "0" {
					part = fmt.Sprint(16 / queues)
				}

				tree += fmt.Sprintf("; t%d parent=t quota=16 deserved=%s serviceType=training", i, part)
				for k := range 8 {
					runs += fmt.Sprintf("; job j%d-%d queue=t%d min=1 pending=1; job k%d-%d queue=u0 min=1 pending=1", i, k, i, i, k)
				}
			}

			w := newTree(tree, runs)
			w.openSession().Run(NewAllocate(w.action))
			placed := session.Names(w.In(api.Binding))
			check.Equal(t, fmt.Sprintf("cards of a tenant with %d queues", queues), 4, strings.Count(placed, "j"))
			check.Equal(t, "cards of the other one", 4, strings.Count(placed, "k"))
			w.Close()
		}
	}
}
