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

func TestValuesInForce(t *testing.T) {
	const parent = "top quota=A:8 deserved=A:6 guarantee=A:4;"

	for t, tc := range check.Cases(t, map[string]struct{ text, want string }{
		"as written":                         {`q quota=A:4 deserved=A:3 guarantee=A:2`, "4 3 2"},
		"without deserved":                   {`q quota=A:4`, "4 4 0"},
		"deserved is at most the quota":      {`q quota=A:4 deserved=A:9 guarantee=A:9`, "4 4 4"},
		"without quota at the top":           {`q quota=B:1 deserved=A:3`, "0 0 0"},
		"without quota":                      {parent + `q parent=top quota=B:1 deserved=A:3 guarantee=A:1`, "8 3 1"},
		"deserved is at most the parent's":   {parent + `q parent=top quota=A:8 deserved=A:8`, "8 6 0"},
		"guarantee is at most the parent's":  {parent + `q parent=top quota=A:8 deserved=A:6 guarantee=A:6`, "8 6 4"},
		"a card that nothing lists":          {`q quota=B:1`, "0 0 0"},
		"deserved is scaled":                 {parent + `q parent=top quota=A:8 deserved=A:4; r parent=top quota=A:8 deserved=A:4`, "8 3 0"},
		"the first name gets what is left":   {parent + `q parent=top quota=A:8 deserved=A:5; r parent=top quota=A:8 deserved=A:5; s parent=top quota=A:8 deserved=A:5; t parent=top quota=A:8 deserved=A:5`, "8 2 0"},
		"the largest remainder comes first":  {parent + `a parent=top quota=A:8 deserved=A:5; q parent=top quota=A:8 deserved=A:6`, "8 3 0"},
		"guarantee is scaled":                {parent + `q parent=top quota=A:8 deserved=A:3 guarantee=A:3; r parent=top quota=A:8 deserved=A:3 guarantee=A:3`, "8 3 2"},
		"guarantee follows scaled deserved":  {parent + `q parent=top quota=A:8 deserved=A:6 guarantee=A:4; r parent=top quota=A:8 deserved=A:6`, "8 3 3"},
		"the top level is not scaled":        {`q quota=A:8 deserved=A:8; r quota=A:8 deserved=A:8`, "8 8 0"},
		"a path that is broken":              {`q parent=gone quota=A:4`, "4 0 0"},
		"a cycle":                            {`q parent=r quota=A:4; r parent=q quota=A:4`, "4 0 0"},
		"root by name is root":               {`q parent=root quota=A:4`, "4 4 0"},
		"a text that cannot be read is none": {`q quota=A:4 deserved=x`, "4 4 0"},
	}) {
		q := newTree(tc.text).Queue("q")
		check.Equal(t, "quota, deserved, guarantee", tc.want, fmt.Sprint(q.Cards["A"], q.Deserved["A"], q.Guarantee["A"]))
	}
}

func TestClosedQueues(t *testing.T) {
	deep := "a1 quota=A:1; a2 parent=a1 quota=A:1; a3 parent=a2 quota=A:1; a4 parent=a3 quota=A:1; a5 parent=a4 quota=A:1;"

	for t, tc := range check.Cases(t, map[string]struct{ text, want string }{
		"a leaf":                      {`q quota=A:4`, ""},
		"a leaf of level six":         {deep + `q parent=a5 quota=A:1`, ""},
		"a leaf of level seven":       {deep + `a6 parent=a5 quota=A:1; q parent=a6 quota=A:1`, "its path to root is broken"},
		"an inner queue":              {`q quota=A:4; r parent=q quota=A:1`, "it is a parent of other queues"},
		"a parent without children":   {`q quota=A:4 parentOnly=true`, "it is a parent of other queues"},
		"a missing parent":            {`q parent=gone quota=A:4`, "its path to root is broken"},
		"below a missing parent":      {`p parent=gone quota=A:4; q parent=p quota=A:4`, "its path to root is broken"},
		"beside a missing parent":     {`p parent=gone quota=A:4; q quota=A:4`, ""},
		"a cycle":                     {`q parent=q quota=A:4`, "its path to root is broken"},
		"a hold":                      {`q quota=A:4 stopPolicy=Hold`, "it is held: Hold"},
		"a hold of an ancestor":       {`p quota=A:4 stopPolicy=Hold; q parent=p quota=A:4`, "it is held: Hold"},
		"the stricter stop":           {`p quota=A:4 stopPolicy=HoldAndDrain; q parent=p quota=A:4 stopPolicy=Hold`, "it is held: HoldAndDrain"},
		"a hold of a child":           {`p quota=A:4; r parent=p quota=A:4 stopPolicy=Hold; q parent=p quota=A:4`, ""},
		"a queue that is not open":    {`q quota=A:4 state=Closed`, `its state is "Closed"`},
		"a queue that does not exist": {`p quota=A:4`, "it does not exist"},
	}) {
		check.Equal(t, "reason", tc.want, newTree(tc.text).WhyClosed("q"))
	}
}

// TestGuaranteesOfOthers: q takes its last card of A; use is written as "q:2 r:1".
func TestGuaranteesOfOthers(t *testing.T) {
	const flat = "q quota=A:8; r quota=A:8 deserved=A:4 guarantee=A:4;"
	const family = "top quota=A:8 deserved=A:8 guarantee=A:4; q parent=top quota=A:8 guarantee=A:1; r parent=top quota=A:8 guarantee=A:3;"
	for t, tc := range check.Cases(t, map[string]struct {
		text, use string
		nodes     int64
		takes     bool
	}{
		"beside an unused guarantee":             {flat, "q:4", 8, false},
		"of an unused guarantee":                 {flat, "q:5", 8, true},
		"of a used guarantee's rest":             {flat, "q:5 r:3", 8, true},
		"beside a used guarantee":                {flat, "q:4 r:4", 8, false},
		"its own guarantee":                      {family, "q:1", 4, false},
		"its own where the nodes do not suffice": {family, "q:1", 2, false},
		"a sibling's guarantee":                  {family, "q:6", 20, true},
		"beside a sibling's guarantee":           {family, "q:5", 20, false},
		"root's last cards in the family":        {family + "s quota=A:8 guarantee=A:2", "q:2 r:1", 6, true},
		"the family's guarantee at root":         {strings.Replace(family, "guarantee=A:4", "guarantee=A:8", 1) + "s quota=A:8 guarantee=A:2", "q:5", 9, false},
		"of a queue that is held":                {strings.Replace(flat, "guarantee=A:4", "guarantee=A:4 stopPolicy=Hold", 1), "q:8", 8, false},
		"of another card":                        {strings.Replace(flat, "guarantee=A:4", "guarantee=B:4", 1), "q:8", 8, false},
	}) {
		use := rule.TreeUse{}
		for _, word := range strings.Fields(tc.use) {
			queue, text, _ := strings.Cut(word, ":")
			n, err := strconv.ParseInt(text, 10, 64)
			check.NoError(t, err)
			use[queue] = n
		}

		why := newTree(tc.text).TakesGuarantee("q", "A", 1, use, tc.nodes)
		check.Equal(t, "takes: "+why, tc.takes, why != "")
	}
}
