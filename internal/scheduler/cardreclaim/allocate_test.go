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
	const tree = "x 8/4 training 20500; y 8/4 training"
	for t, tc := range check.Cases(t, map[string]struct{ runs, placed string }{
		"a higher priority does not borrow first":   {"node n A 6; a x 1: n*4 ran=1h; b x 1: -*2; c y 2: -*2", "c*2"},
		"it borrows what is left":                   {"node n A 7; a x 1: n*4 ran=1h; b x 1: -*2; c y 2: -*2", "b-0 c*2"},
		"a gang that borrows in part comes later":   {"node n A 6; a x 1: n*2 ran=1h; b x 4: -*4; c y 2: -*2", "c*2"},
		"an elastic job borrows with its last pods": {"node n A 6; b x 1: -*6; c y 2: -*2", "b*4 c*2"},
		"of deserved pods the higher priority":      {"node n A 2; b x 2: -*2; c y 2: -*2", "b*2"},
		"of those that borrow the higher priority":  {"node n A 9; a x 1: n*4 ran=1h; d y 1: n*4 ran=1h; b x 1: -; c y 1: -", "b-0"},
		"a job does not borrow what a gang lacks":   {"node n A 7; a x 1: n*5 ran=1h; b x 1: -*2; c y 3: -*3", ""},
		"it borrows beside what a gang lacks":       {"node n A 7; node m A 1; a x 1: n*5 ran=1h; b x 1: -*2; c y 1: - cards=3", "b-0@m"},
		"it borrows what does not help a gang":      {"node n A 6; a x 1: n*4 ran=1h; b x 1: -*2; c y 3: -*3", "b*2"},
		"the card that it deserves":                 {"node n A 8; node m B 1; a x 1: n*4 ran=1h; b x 1: - card=A|B; c y 4: -*4", "b-0@m c*4"},
		"the other card, if that has no node":       {"node n A 5; node m B 1; a x 1: n*4 ran=1h; d y 1: m card=B ran=1h; b x 1: - card=A|B tasks=w*1/1", "b-0"},
		"a job before less important ones":          {"node n A 6; g y 6: -*6 class=high; s y 1: - class=low; z y 1: - class=low", "g*6"},
		"others of its queue if it does not fit":    {"node n A 5; g y 6: -*6 class=high; s y 1: - class=low; z y 1: - class=low", "s-0 z-0"},
		"they do not lose to a higher priority":     {"node n A 9; a x 1: n*4 ran=1h; b x 1: -*4; g y 6: -*6 class=high; s y 1: -*4 class=low", "b-0 s*4"},
		"any card of its queue":                     {"node n A 5; a x 1: n*4 ran=1h; b x 1: - card=- tasks=w*1/1; c y 1: - card=B", "b-0"},
	}) {
		w := newTree(tree, tc.runs)
		w.openSession().Run(NewAllocate(w.action))
		placed := session.Names(slices.Concat(w.In(api.Binding), w.In(api.Allocated)))
		check.Equal(t, "placed, on n unless it says so", session.Spell(tc.placed), strings.ReplaceAll(placed, "@n", ""))

		w.Close()
	}
}

// TestReasonsOfDeservedPodsStay: the second run, in which others borrow, does not change why a pod
// waits.
func TestReasonsOfDeservedPodsStay(t *testing.T) {
	w := newTree("x 8/4 training 20500; y 8/4 training", "node n A 6; a x 1: n*4 ran=1h; b x 1: -*2; c y 3: -*3 tasks=w*3/3")
	w.openSession().Run(NewAllocate(w.action))
	t.Cleanup(w.Close)
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
		"of what they borrow":  {"0", "; d 16/16 training"},
	}) {
		for _, queues := range []int{1, 2, 4, 8} {
			tree := fmt.Sprintf("t 16/%s; u 16/%s; u0<u 16/%s training%s", tc.deserved, tc.deserved, tc.deserved, tc.other)
			runs := "node n A 8"
			for i := range queues {
				part := "0"
				if tc.deserved != "0" {
					part = fmt.Sprint(16 / queues)
				}

				tree += fmt.Sprintf("; t%d<t 16/%s training", i, part)
				for k := range 8 {
					runs += fmt.Sprintf("; j%d-%d t%d 1: -; k%d-%d u0 1: -", i, k, i, i, k)
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
