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
	const fleet = "node n A 4\nqueue top {\"A\":3} keeps parentonly=true deserved={\"A\":2}\n" +
		"queue a {\"A\":4} 20000 training parent=top deserved={\"A\":1}\nqueue b {\"A\":4} 20000 training parent=top deserved={\"A\":1}\n" +
		"queue c {\"A\":4} 20000 training deserved={\"A\":2}\n"
	const (
		tree    = "policy tree\n"
		borrows = "job r c 4: n*4 ran=1h\n"
	)

	sequences := map[string]struct{ text, wrong string }{
		"within every quota":                      {tree + fleet + "job x a 3: -*3\n", ""},
		"a flat scheduler exceeds the parent":     {"policy asks\n" + fleet + "job x a 4: -*4\n", "placed above a quota"},
		"a flat scheduler takes a guarantee":      {"policy asks\n" + strings.Replace(fleet, "deserved={\"A\":2}\n", "deserved={\"A\":2} guarantee={\"A\":2}\n", 2) + "job x a 3: -*3\n", "took a guarantee"},
		"a flat scheduler starts in a parent":     {"policy asks\n" + fleet + "job x top 1: -\n", "placed in a closed queue"},
		"a flat scheduler lends for good":         {"policy asks\n" + fleet + "job x c 3: -*3 protected\n", "borrowed for good"},
		"what is borrowed comes back":             {tree + fleet + borrows + "job x a 1: -\n", ""},
		"what is borrowed does not come back":     {tree + fleet + borrows + "job x a 1: -\npolicy without=cardreclaim", "below what it deserves and waits for ever"},
		"what is deserved need not come back":     {tree + fleet + "job r c 1: n*2 ran=1h\njob s b 1: n ran=1h\njob q a 1: n ran=1h\njob x a 1: -\npolicy without=cardreclaim", ""},
		"a flat scheduler takes what is deserved": {"policy asks\n" + strings.Replace(fleet, "queue a {\"A\":4} 20000 training", "queue a {\"A\":4} 80000 inference", 1) + "job r c 4: n*4 ran=1h\njob x a 2: -*2\n", "evicted in order to borrow"},
	}

	inBubble(t, func(t *testing.T, m *schedulerCache) {
		for name, tc := range sequences {
			wrong, trace := m.playSequence(parseSequence(tc.text))
			check.That(t, failureKind(wrong) == tc.wrong, "%s: found %q, want %q\n%s", name, wrong, tc.wrong, strings.Join(trace, "\n"))
		}
	})
}
