package observer

import (
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/script"
)

const (
	h200    = "NVIDIA-H200"
	rtx4090 = "NVIDIA-GeForce-RTX-4090"
)

// world applies the changes of a script to a clusterState. Its cluster has an H200 node, a 4090
// node, a node that does not name its cards, and the queue q with a quota of two H200.
type world struct {
	*script.Objects
	machine  *clusterState
	clock    time.Time
	revision int64
	log      []change
}

var began = script.Began

func newWorld() *world {
	var options Options
	options.applyDefaults()
	w := &world{machine: newClusterState(options), clock: began, Objects: script.New(map[string]string{
		"pod": "in=q card=" + h200, "node": "cards=8 model=" + h200, "quota": "limit=2",
	})}
	w.playScript("load node h200-0; load node rtx4090-0 model=RTX4090; load node unnamed-0 model=; load queue q quota=H200:2")
	return w
}

// playScript plays steps, one a line or between semicolons:
//
//	load KIND NAME [OPTION…]    the object was there before the observer
//	make KIND NAME [OPTION…]    is not written yet
//	write KIND NAME [OPTION…]   is created or changed
//	remove KIND NAME            is deleted for good
//	place NAME NODE [OPTION…]   a pod is created, and then bound
//	evict NAME ACTION           a pod is marked by an action, and then deleted
//	runs GROUP MEMBERS POD…     a PodGroup and its pods were on h200-0 before the observer
//	wait DURATION
//	judge
func (w *world) playScript(text string) *world {
	for _, words := range script.Steps(text) {
		step := words[0]
		words := words[1:]
		switch step {
		case "load":
			w.machine.loadObject(w.Object(words[0], words[1], words[2:]...), w.clock)
		case "make":
			w.Object(words[0], words[1], words[2:]...)
		case "write":
			w.applyObject(w.Object(words[0], words[1], words[2:]...), false)
		case "remove":
			w.applyObject(w.Object(words[0], words[1]), true)
		case "place":
			w.applyObject(w.Pod(words[0], words[2:]...), false)
			w.applyObject(w.Pod(words[0], "on="+words[1]), false)
		case "evict":
			w.applyObject(w.Pod(words[0], "evicted="+words[1]), false)
			w.applyObject(w.Pod(words[0]), true)
		case "runs":
			w.loadGang(words[0], words[1], words[2:])
		case "wait":
			d, err := time.ParseDuration(words[0])
			if err != nil {
				panic(err)
			}
			w.clock = w.clock.Add(d)
		case "judge":
			w.checkNow()
		default:
			panic("no step " + step)
		}
	}

	return w
}

// loadGang loads a PodGroup of the queue training and its pods, which run on h200-0.
func (w *world) loadGang(name, members string, pods []string) {
	w.playScript("load group " + name + " queue=training members=" + members)
	for _, pod := range pods {
		w.playScript("load pod " + pod + " in=training cards=1 priority=0 on=h200-0 group=" + name)
	}
}

func (w *world) applyObject(object client.Object, deleted bool) {
	w.revision++
	w.clock = w.clock.Add(time.Millisecond)
	c := change{revision: w.revision, deleted: deleted, seen: w.clock, object: object}
	w.log = append(w.log, c)
	w.machine.applyChange(c)
}

func (w *world) checkNow() []string { return w.machine.checkAll(w.clock) }

// expectViolations compares the violations in order, and the number of open ones: "card quota
// open".
func (w *world) expectViolations(t *testing.T, want string) {
	t.Helper()
	open := w.checkNow()
	w.checkNow() // nothing is reported twice

	var got []string
	for _, v := range w.machine.violations {
		got = append(got, strings.Fields(string(v.Invariant))[1])
	}
	for range open {
		got = append(got, "open")
	}

	if strings.Join(got, " ") != want {
		t.Errorf("found %v, open %v, want %q", w.machine.violations, open, want)
	}
}

// scriptCase is a script and its final violations.
type scriptCase struct{ text, want string }

func runScripts(t *testing.T, begin func() *world, cases map[string]scriptCase) {
	for t, tc := range check.Cases(t, cases) {
		begin().playScript(tc.text).expectViolations(t, tc.want)
	}
}
