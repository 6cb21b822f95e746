package liveness

import (
	"strings"
	"testing"

	"cardquota.dev/operator/internal/testing/check"
)

// TestWhatFitsStartsInATree runs random sequences with trees of queues.
func TestWhatFitsStartsInATree(t *testing.T) { playRandomSequences(t, *treeSequences, generateTree) }

// TestWhatFitsStartsInATreeBesidePreemption runs random sequences in which jobs of several queues of a
// tree preempt.
func TestWhatFitsStartsInATreeBesidePreemption(t *testing.T) {
	playRandomSequences(t, *treeSequences/4, generatePreemptingTree)
}

// TestWhatFitsStartsInATreeBehindOthers runs random sequences in which gangs wait for the ends of pods
// with which other queues borrow.
func TestWhatFitsStartsInATreeBehindOthers(t *testing.T) {
	playRandomSequences(t, *treeSequences/10, generateTreeTurns)
}

// TestTreesAreChecked runs schedulers that do not know the tree, or have a part missing.
func TestTreesAreChecked(t *testing.T) {
	const fleet = "node n model=A cards=4\nqueue top quota={\"A\":3} reclaimable=false parentOnly=true deserved={\"A\":2}\n" +
		"queue a quota={\"A\":4} priority=20000 serviceType=training parent=top deserved={\"A\":1}\nqueue b quota={\"A\":4} priority=20000 serviceType=training parent=top deserved={\"A\":1}\n" +
		"queue c quota={\"A\":4} priority=20000 serviceType=training deserved={\"A\":2}\n"
	const (
		tree    = "policy queueHierarchy=Tree\n"
		borrows = "job r queue=c min=4 running=n*4 age=1h\n"
	)

	sequences := map[string]struct{ text, wrong string }{
		"within every quota":                      {tree + fleet + "job x queue=a min=3 pending=3\n", ""},
		"a flat scheduler exceeds the parent":     {"policy check=Tree\n" + fleet + "job x queue=a min=4 pending=4\n", "placed above a quota"},
		"a flat scheduler takes a guarantee":      {"policy check=Tree\n" + strings.Replace(fleet, "deserved={\"A\":2}\n", "deserved={\"A\":2} guarantee={\"A\":2}\n", 2) + "job x queue=a min=3 pending=3\n", "took a guarantee"},
		"a flat scheduler starts in a parent":     {"policy check=Tree\n" + fleet + "job x queue=top min=1 pending=1\n", "placed in a closed queue"},
		"a flat scheduler lends for good":         {"policy check=Tree\n" + fleet + "job x queue=c min=3 pending=3 preemptable=false\n", "borrowed for good"},
		"what is borrowed comes back":             {tree + fleet + borrows + "job x queue=a min=1 pending=1\n", ""},
		"what is borrowed does not come back":     {tree + fleet + borrows + "job x queue=a min=1 pending=1\npolicy without=cardreclaim", "below what it deserves and waits for ever"},
		"what is deserved need not come back":     {tree + fleet + "job r queue=c min=1 running=n*2 age=1h\njob s queue=b min=1 running=n age=1h\njob q queue=a min=1 running=n age=1h\njob x queue=a min=1 pending=1\npolicy without=cardreclaim", ""},
		"a flat scheduler takes what is deserved": {"policy check=Tree\n" + strings.Replace(fleet, "queue a quota={\"A\":4} priority=20000 serviceType=training", "queue a quota={\"A\":4} priority=80000 serviceType=inference", 1) + "job r queue=c min=4 running=n*4 age=1h\njob x queue=a min=2 pending=2\n", "evicted in order to borrow"},
	}

	inBubble(t, func(t *testing.T, m *schedulerCache) {
		for name, tc := range sequences {
			wrong, trace := m.playSequence(parseSequence(tc.text))
			check.That(t, failureKind(wrong) == tc.wrong, "%s: found %q, want %q\n%s", name, wrong, tc.wrong, strings.Join(trace, "\n"))
		}
	})
}
