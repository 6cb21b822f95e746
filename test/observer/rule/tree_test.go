package rule_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/script"
	"cardquota.dev/operator/test/observer/rule"
)

// newTree builds a tree of queues: "NAME key=value …", one a line.
func newTree(text string) *rule.Tree {
	objects := script.New(nil)
	queues := map[string]*v1beta1.Queue{}
	for _, line := range script.Steps(text) {
		name := line.Verb
		line.Names = []string{"queue", name}
		queues[name] = objects.Apply(line).(*v1beta1.Queue)
	}
	return rule.NewTree(queues, rule.UnmanagedEnforce)
}

// TestTheAmountsInForceFollowFromTheWholeTree: without a quota of a card that it deserves, a queue inherits that of
// its parent. Deserved is at most the quota, and guarantee is at most deserved. Both are at most those of the parent.
// If children deserve more than their parent, each gets its part, in whole cards: the largest remainder first, then by
// name. The same is true for guarantees. Each row wants quota, deserved and guarantee of card A of queue q, "4 3 2". Parent
// top has 8, 6 and 4.
func TestTheAmountsInForceFollowFromTheWholeTree(t *testing.T) {
	const top = "top quota=A:8 deserved=A:6 guarantee=A:4;"

	for t, tc := range check.Cases(t, map[string]struct{ queues, want string }{
		"all three are written":                         {`q quota=A:4 deserved=A:3 guarantee=A:2`, "4 3 2"},
		"only a quota is written: q deserves all of it": {`q quota=A:4`, "4 4 0"},
		"9 deserved and guaranteed, of a quota of 4":    {`q quota=A:4 deserved=A:9 guarantee=A:9`, "4 4 4"},
		"no quota of A, and no parent to inherit from":  {`q quota=B:1 deserved=A:3`, "0 0 0"},
		"no quota of A: that of top is inherited":       {top + `q parent=top quota=B:1 deserved=A:3 guarantee=A:1`, "8 3 1"},
		"8 deserved, and top deserves 6":                {top + `q parent=top quota=A:8 deserved=A:8`, "8 6 0"},
		"6 guaranteed, and top is guaranteed 4":         {top + `q parent=top quota=A:8 deserved=A:6 guarantee=A:6`, "8 6 4"},
		"A is not listed at all":                        {`q quota=B:1`, "0 0 0"},
		"two children deserve 4 each, and top 6: 3 each": {top + `
			q parent=top quota=A:8 deserved=A:4
			r parent=top quota=A:8 deserved=A:4`, "8 3 0"},
		"four children deserve 5 each, and top 6: 1.5 each, so q and r get 2": {top + `
			q parent=top quota=A:8 deserved=A:5
			r parent=top quota=A:8 deserved=A:5
			s parent=top quota=A:8 deserved=A:5
			t parent=top quota=A:8 deserved=A:5`, "8 2 0"},
		"children deserve 5 and 6, and top 6: 2.7 and 3.3, so a gets 3 and q 3": {top + `
			a parent=top quota=A:8 deserved=A:5
			q parent=top quota=A:8 deserved=A:6`, "8 3 0"},
		"two children are guaranteed 3 each, and top 4: 2 each": {top + `
			q parent=top quota=A:8 deserved=A:3 guarantee=A:3
			r parent=top quota=A:8 deserved=A:3 guarantee=A:3`, "8 3 2"},
		"two children deserve 6 each, and top 6: 3 each, so q is guaranteed 3 instead of 4": {top + `
			q parent=top quota=A:8 deserved=A:6 guarantee=A:4
			r parent=top quota=A:8 deserved=A:6`, "8 3 3"},
		"queues without a parent deserve all that they write": {`
			q quota=A:8 deserved=A:8
			r quota=A:8 deserved=A:8`, "8 8 0"},
		"the parent does not exist: only the quota counts": {`q parent=gone quota=A:4`, "4 0 0"},
		"q and r are parents of each other: only the quota counts": {`
			q parent=r quota=A:4
			r parent=q quota=A:4`, "4 0 0"},
		"parent root is the same as no parent":              {`q parent=root quota=A:4`, "4 4 0"},
		"deserved cannot be read, as if it was not written": {`q quota=A:4 deserved=x`, "4 4 0"},
	}) {
		q := newTree(tc.queues).Queue("q")
		check.Equal(t, "quota, deserved, guarantee", tc.want, fmt.Sprint(q.Cards["A"], q.Deserved["A"], q.Guarantee["A"]))
	}
}

// TestAQueueOfATreeTakesWorkOnlyIfItIsAnOpenLeaf: queue q takes work if it is open, is no parent, and has a
// path of at most six levels to the root. Neither it nor an ancestor may be stopped by a stopPolicy. Each row
// wants the reason why q takes none, or "".
func TestAQueueOfATreeTakesWorkOnlyIfItIsAnOpenLeaf(t *testing.T) {
	const fiveLevels = "a1 quota=A:1; a2 parent=a1 quota=A:1; a3 parent=a2 quota=A:1; a4 parent=a3 quota=A:1; a5 parent=a4 quota=A:1;"

	for t, tc := range check.Cases(t, map[string]struct{ queues, want string }{
		"q has no parent and no child": {`q quota=A:4`, ""},
		"q is on level six":            {fiveLevels + `q parent=a5 quota=A:1`, ""},
		"q is on level seven": {fiveLevels + `
			a6 parent=a5 quota=A:1
			q parent=a6 quota=A:1`, "its path to root is broken"},
		"q has a child": {`q quota=A:4; r parent=q quota=A:1`, "it is a parent of other queues"},
		"q has no child, and is marked as a parent":  {`q quota=A:4 parentOnly=true`, "it is a parent of other queues"},
		"the parent of q does not exist":             {`q parent=gone quota=A:4`, "its path to root is broken"},
		"the parent of q's parent does not exist":    {`p parent=gone quota=A:4; q parent=p quota=A:4`, "its path to root is broken"},
		"the parent of another queue does not exist": {`p parent=gone quota=A:4; q quota=A:4`, ""},
		"q is its own parent":                        {`q parent=q quota=A:4`, "its path to root is broken"},
		"q is on hold":                               {`q quota=A:4 stopPolicy=Hold`, "it is held: Hold"},
		"the parent of q is on hold":                 {`p quota=A:4 stopPolicy=Hold; q parent=p quota=A:4`, "it is held: Hold"},
		"q is on hold, and its parent is drained: the stricter one counts": {`
			p quota=A:4 stopPolicy=HoldAndDrain
			q parent=p quota=A:4 stopPolicy=Hold`, "it is held: HoldAndDrain"},
		"a sibling of q is on hold": {`
			p quota=A:4
			r parent=p quota=A:4 stopPolicy=Hold
			q parent=p quota=A:4`, ""},
		"q is closed":      {`q quota=A:4 state=Closed`, `its state is "Closed"`},
		"q does not exist": {`p quota=A:4`, "it does not exist"},
	}) {
		check.Equal(t, "reason", tc.want, newTree(tc.queues).WhyClosed("q"))
	}
}

// TestAPlacementLeavesUnusedGuaranteesOfOthersFree: after queue q has placed a pod with one card A, the free cards of
// the nodes must still cover what others are guaranteed and do not use. So must what is left of the quota of q's
// parent, for q's siblings. q may use its own guarantee, and that of its parent, as far as q's siblings leave it.
// "use" has the placed pod already: "q:5 r:3" means that q uses 5 and r uses 3. In "flat" q and r have no parent, and
// r is guaranteed 4. In "family" parent top has a quota of 8 and is guaranteed 4, its children q 1 and r 3. The last
// number of a row is the cards of all nodes.
func TestAPlacementLeavesUnusedGuaranteesOfOthersFree(t *testing.T) {
	const flat = "q quota=A:8; r quota=A:8 deserved=A:4 guarantee=A:4;"
	const family = "top quota=A:8 deserved=A:8 guarantee=A:4; q parent=top quota=A:8 guarantee=A:1; r parent=top quota=A:8 guarantee=A:3;"
	for t, tc := range check.Cases(t, map[string]struct {
		queues, use string
		nodeCards   int64
		wantTakes   bool
	}{
		"8 - 4 used by q = 4 free, r is guaranteed 4":                                                              {flat, "q:4", 8, false},
		"8 - 5 used by q = 3 free, r is guaranteed 4":                                                              {flat, "q:5", 8, true},
		"8 - 5 - 3 = 0 free, r is guaranteed 1 more than it uses":                                                  {flat, "q:5 r:3", 8, true},
		"8 - 4 - 4 = 0 free, r uses all that it is guaranteed":                                                     {flat, "q:4 r:4", 8, false},
		"4 - 1 = 3 free, q uses its own guarantee, r is guaranteed 3":                                              {family, "q:1", 4, false},
		"2 - 1 = 1 free, r is guaranteed 3, but q uses only its own guarantee":                                     {family, "q:1", 2, false},
		"q uses 6 of the 8 of top, and its sibling r is guaranteed 3":                                              {family, "q:6", 20, true},
		"q uses 5 of the 8 of top, and its sibling r is guaranteed 3":                                              {family, "q:5", 20, false},
		"6 - 2 - 1 = 3 free; r is guaranteed 2 more, s outside 2, and the 4 guaranteed to top are q's 1 and r's 3": {family + "s quota=A:8 guarantee=A:2", "q:2 r:1", 6, true},
		"9 - 5 = 4 free; r is guaranteed 3, s outside 2, but the pod uses only the 8 guaranteed to top": {
			strings.Replace(family, "guarantee=A:4", "guarantee=A:8", 1) + "s quota=A:8 guarantee=A:2", "q:5", 9, false,
		},
		"0 free; r is guaranteed 4, but a queue on hold keeps no guarantee": {
			strings.Replace(flat, "guarantee=A:4", "guarantee=A:4 stopPolicy=Hold", 1), "q:8", 8, false,
		},
		"0 free; r is guaranteed 4 of card B": {
			strings.Replace(flat, "guarantee=A:4", "guarantee=B:4", 1), "q:8", 8, false,
		},
	}) {
		use := rule.TreeUse{}
		for _, word := range strings.Fields(tc.use) {
			queue, cards, _ := strings.Cut(word, ":")
			use[queue] = check.Value(strconv.ParseInt(cards, 10, 64))(t)
		}

		why := newTree(tc.queues).TakesGuarantee("q", "A", 1, use, tc.nodeCards)
		check.Equal(t, "takes a guarantee: "+why, tc.wantTakes, why != "")
	}
}
