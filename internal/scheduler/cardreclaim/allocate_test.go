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

// TestDeservedCardsComeBeforeBorrowedOnes: in a tree the action allocate first places pods with which their
// queue stays within deserved, and only then pods with which it borrows. Otherwise a queue would lose the
// borrowed cards again as soon as their owner asks. Queues x and y deserve 4 of each card. Queue x has the
// higher priority. The jobs "running" and "running-y" are what the queues use already. "deserving*2" are the
// pods deserving-0 and deserving-1.
func TestDeservedCardsComeBeforeBorrowedOnes(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct{ text, wantPlaced string }{
		"2 free cards: y gets them, x of higher priority would borrow": {`
			node n model=A cards=6
			job running queue=x min=1 running=n*4 age=1h
			job borrower queue=x min=1 pending=2
			job deserving queue=y min=2 pending=2`, "deserving*2"},
		"3 free cards: x borrows the third": {`
			node n model=A cards=7
			job running queue=x min=1 running=n*4 age=1h
			job borrower queue=x min=1 pending=2
			job deserving queue=y min=2 pending=2`, "borrower-0 deserving*2"},
		"4 free cards: y gets its 2 first, as a gang of 4 in x would borrow 2": {`
			node n model=A cards=6
			job running queue=x min=1 running=n*2 age=1h
			job gang queue=x min=4 pending=4
			job deserving queue=y min=2 pending=2`, "deserving*2"},
		"6 free cards: a job of minimum one gets 4 that x deserves, y gets 2": {`
			node n model=A cards=6
			job elastic queue=x min=1 pending=6
			job deserving queue=y min=2 pending=2`, "deserving*2 elastic*4"},
		"2 free cards that both deserve: x of higher priority gets them": {`
			node n model=A cards=2
			job high queue=x min=2 pending=2
			job low queue=y min=2 pending=2`, "high*2"},
		"one free card that both would borrow: x of higher priority gets it": {`
			node n model=A cards=9
			job running queue=x min=1 running=n*4 age=1h
			job running-y queue=y min=1 running=n*4 age=1h
			job high queue=x min=1 pending=1
			job low queue=y min=1 pending=1`, "high-0"},
	}) {
		s := newTree(`
			queue x quota=8 deserved=4 serviceType=training priority=20500
			queue y quota=8 deserved=4 serviceType=training
			` + tc.text).runAllocate(t)

		s.expectPlacedOnFreeCards(t, tc.wantPlaced)
	}
}

// expectPlacedOnFreeCards compares the pods that allocate has placed: on node n unless the text says another one.
func (s *scene) expectPlacedOnFreeCards(t *testing.T, want string) {
	placed := session.Names(slices.Concat(s.In(api.Binding), s.In(api.Allocated)))
	check.Equal(t, "placed pods, on node n unless it says so", session.Spell(want), strings.ReplaceAll(placed, "@n", ""))
}

// TestCardsThatADeservingGangLacksAreNotLent: queue y waits for cards within what it deserves. Free cards are
// kept for its gang if they suffice together with the cards that x must give back. All other free cards are
// lent: job "borrower" of x borrows them. Queues x and y deserve 4 of card A. Job "running" is what x uses: what
// it uses beyond 4 is borrowed. Placed pods are on node n unless "@m" follows. "borrower*2" are the pods
// borrower-0 and borrower-1.
func TestCardsThatADeservingGangLacksAreNotLent(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct{ text, wantPlaced string }{
		"the gang needs 3 cards, 2 are free and x has borrowed one: kept": {`
			node n model=A cards=7
			job running queue=x min=1 running=n*5 age=1h
			job borrower queue=x min=1 pending=2
			job gang queue=y min=3 pending=3`, ""},
		"a pod of 3 cards waits for node n, and cannot use the card of node m: that is lent": {`
			node n model=A cards=7
			node m model=A cards=1
			job running queue=x min=1 running=n*5 age=1h
			job borrower queue=x min=1 pending=2
			job gang queue=y min=1 pending=1 cards=3`, "borrower-0@m"},
		"the gang needs 3 cards, 2 are free and x has borrowed none, so it gives none back: lent": {`
			node n model=A cards=6
			job running queue=x min=1 running=n*4 age=1h
			job borrower queue=x min=1 pending=2
			job gang queue=y min=3 pending=3`, "borrower*2"},
	}) {
		s := newTree(`
			queue x quota=8 deserved=4 serviceType=training priority=20500
			queue y quota=8 deserved=4 serviceType=training
			` + tc.text).runAllocate(t)

		s.expectPlacedOnFreeCards(t, tc.wantPlaced)
	}
}

// TestAPodPrefersACardThatItsQueueDeserves: a pod may accept several cards. It gets one with which its queue
// stays within deserved. If none of those is free, its queue borrows. Queues x and y deserve 4 of card A and 4
// of card B each. Job "running" uses the 4 cards A that x deserves, so x would borrow another card A.
// card=none names no card. task=w,pods:1,min:1 says that the pod is the only one of task w of a Volcano job. Volcano
// skips pods of a task that has found no node, but the second run of allocate, for borrowed cards, tries them again.
// Placed pods are on node n unless "@m" follows. "deserving*4" are the pods deserving-0 to deserving-3.
func TestAPodPrefersACardThatItsQueueDeserves(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct{ text, wantPlaced string }{
		"card A or B, a card B is free: B": {`
			node n model=A cards=8
			node m model=B cards=1
			job running queue=x min=1 running=n*4 age=1h
			job either queue=x min=1 pending=1 card=A|B
			job deserving queue=y min=4 pending=4`, "deserving*4 either-0@m"},
		"card A or B, no card B is free: A is borrowed": {`
			node n model=A cards=5
			node m model=B cards=1
			job running queue=x min=1 running=n*4 age=1h
			job other queue=y min=1 running=m card=B age=1h
			job either queue=x min=1 pending=1 card=A|B task=w,pods:1,min:1`, "either-0"},
		"any card, and no node has card B, for which y waits: A is borrowed": {`
			node n model=A cards=5
			job running queue=x min=1 running=n*4 age=1h
			job any queue=x min=1 pending=1 card=none task=w,pods:1,min:1
			job deserving queue=y min=1 pending=1 card=B`, "any-0"},
	}) {
		s := newTree(`
			queue x quota=8 deserved=4 serviceType=training priority=20500
			queue y quota=8 deserved=4 serviceType=training
			` + tc.text).runAllocate(t)

		s.expectPlacedOnFreeCards(t, tc.wantPlaced)
	}
}

// TestAGangKeepsItsTurnInItsQueue: in queue y, which deserves 4 cards, a gang of 6 of high priority waits beside
// jobs of low priority. If the gang fits, the others do not pass it, although they would not borrow. If it does
// not fit, they get their cards. "gang*6" are the pods gang-0 to gang-5.
func TestAGangKeepsItsTurnInItsQueue(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct{ text, wantPlaced string }{
		"6 free cards: the gang, which borrows 2": {`
			node n model=A cards=6
			job gang queue=y min=6 pending=6 priorityClass=high
			job small queue=y min=1 pending=1 priorityClass=low
			job tiny queue=y min=1 pending=1 priorityClass=low`, "gang*6"},
		"5 free cards: the others": {`
			node n model=A cards=5
			job gang queue=y min=6 pending=6 priorityClass=high
			job small queue=y min=1 pending=1 priorityClass=low
			job tiny queue=y min=1 pending=1 priorityClass=low`, "small-0 tiny-0"},
		"5 free cards and a borrower in queue x: 4 for the others, as y deserves them, and one is lent": {`
			node n model=A cards=9
			job running queue=x min=1 running=n*4 age=1h
			job borrower queue=x min=1 pending=4
			job gang queue=y min=6 pending=6 priorityClass=high
			job small queue=y min=1 pending=4 priorityClass=low`, "borrower-0 small*4"},
	}) {
		s := newTree(`
			queue x quota=8 deserved=4 serviceType=training priority=20500
			queue y quota=8 deserved=4 serviceType=training
			` + tc.text).runAllocate(t)

		s.expectPlacedOnFreeCards(t, tc.wantPlaced)
	}
}

// TestReasonOfADeservingPodStays: allocate runs twice, for deserved cards and for borrowed ones. The gang of queue y
// needs 3 cards, and finds 2 free in the first run. The second run skips it, and must not replace the reason why it
// waits by that of pods which Volcano skips: their task, here w, "has already predicated failed".
func TestReasonOfADeservingPodStays(t *testing.T) {
	s := newTree(`
		queue x quota=8 deserved=4 serviceType=training priority=20500
		queue y quota=8 deserved=4 serviceType=training
		node n model=A cards=6
		job running queue=x min=1 running=n*4 age=1h
		job borrower queue=x min=1 pending=2
		job gang queue=y min=3 pending=3 task=w,pods:3,min:3`).runAllocate(t)
	reasons := s.Job("gang").NodesFitErrors
	check.Must(t, len(reasons) > 0, "the gang has no reason why it waits")

	for uid, reason := range reasons {
		check.Text(t, fmt.Sprintf("reason of pod %s", uid), reason.Error()).Lacks("already")
	}
}

// TestTenantsGetEqualPartsHoweverManyQueuesTheyHave: tenants t and u have the same quota, and deserve the same. Each
// requests at least 8 cards, and 8 are free. Tenant u has one queue, tenant t has 1, 2, 4 or 8. Each tenant gets 4
// cards, because each placement counts for all queues of its tenant at once.
func TestTenantsGetEqualPartsHoweverManyQueuesTheyHave(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		deserved    int // of each tenant
		otherTenant string
	}{
		"cards that the tenants deserve":                       {16, ""},
		"cards that they borrow, as queue d deserves them all": {0, "queue d quota=16 deserved=16 serviceType=training\n"},
	}) {
		for _, queues := range []int{1, 2, 4, 8} {
			text := fmt.Sprintf(`
				node n model=A cards=8
				queue t quota=16 deserved=%[1]d
				queue u quota=16 deserved=%[1]d
				queue u0 parent=u quota=16 deserved=%[1]d serviceType=training
				%[2]s`, tc.deserved, tc.otherTenant)
			for i := range queues {
				text += fmt.Sprintf("queue t%d parent=t quota=16 deserved=%d serviceType=training\n", i, tc.deserved/queues)
				for k := range 8 {
					text += fmt.Sprintf("job of-t-%[1]d-%[2]d queue=t%[1]d min=1 pending=1; job of-u-%[1]d-%[2]d queue=u0 min=1 pending=1\n", i, k)
				}
			}

			s := newTree(text).runAllocate(t)
			placed := session.Names(s.In(api.Binding))
			check.Equal(t, fmt.Sprintf("cards of tenant t with %d queues", queues), 4, strings.Count(placed, "of-t-"))
			check.Equal(t, "cards of tenant u", 4, strings.Count(placed, "of-u-"))
			s.Close()
		}
	}
}
