package observer

import (
	"slices"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/script"
	"cardquota.dev/operator/internal/testing/words"
)

const (
	h200    = "NVIDIA-H200"
	rtx4090 = "NVIDIA-GeForce-RTX-4090"
)

// scene applies the changes of a script to a clusterState. Its cluster has an H200 node, a 4090
// node, a node that does not name its cards, and the queue q with a quota of two H200.
type scene struct {
	*script.Objects
	machine  *clusterState
	clock    time.Time
	revision int64
	log      []change
}

var began = script.Began

func newScene() *scene {
	var options Options
	options.applyDefaults()
	w := &scene{machine: newClusterState(options), clock: began, Objects: script.New(map[string]string{
		"pod": "queue=q card=" + h200, "node": "cards=8 model=" + h200, "quota": "quota=2",
	})}
	w.playScript("load node h200-0; load node rtx4090-0 model=RTX4090; load node unnamed-0 model=; load queue q quota=H200:2")
	return w
}

// playScript plays steps, one a line or between semicolons:
//
//	load KIND NAME …               the object was there before the observer
//	make KIND NAME …               is not written yet
//	write KIND NAME …              is created or changed
//	remove KIND NAME               is deleted for good
//	place NAME node=NODE …         a pod is created, and then bound
//	evict NAME by=ACTION           a pod is marked by an action, and then deleted
//	run GROUP min=N pods=NAME,…    a PodGroup and its pods were on h200-0 before the observer
//	wait DURATION
//	check
//
// The words key=value behind a name are those of package script.
func (w *scene) playScript(text string) *scene {
	for _, line := range script.Steps(text) {
		switch line.Verb {
		case "load":
			w.machine.loadObject(w.Apply(line), w.clock)
		case "make":
			w.Apply(line)
		case "write":
			w.applyObject(w.Apply(line), false)
		case "remove":
			w.applyObject(w.Apply(line), true)
		case "place":
			w.placePod(line)
		case "evict":
			w.applyObject(w.Pod(line.Name(), "evictedBy="+line.Value("by")), false)
			w.applyObject(w.Pod(line.Name()), true)
		case "run":
			w.loadGang(line.Name(), line.Value("min"), strings.Split(line.Value("pods"), ","))
		case "wait":
			d, err := time.ParseDuration(line.Name())
			if err != nil {
				panic(line.Errorf("%w", err))
			}
			w.clock = w.clock.Add(d)
		case "check":
			w.checkNow()
		default:
			panic(line.Errorf("%q is not a step", line.Verb))
		}
	}

	return w
}

// placePod creates a pod, and binds it to its node.
func (w *scene) placePod(line words.Line) {
	pending := line
	pending.Names = append([]string{"pod"}, line.Names...)
	pending.Words = slices.DeleteFunc(slices.Clone(line.Words), func(word words.Word) bool { return word.Key == "node" })
	w.applyObject(w.Apply(pending), false)
	w.applyObject(w.Pod(line.Name(), "node="+line.Value("node")), false)
}

// loadGang loads a PodGroup of the queue training and its pods, which run on h200-0.
func (w *scene) loadGang(name, pods string, names []string) {
	w.playScript("load group " + name + " queue=training min=" + pods)
	for _, pod := range names {
		w.playScript("load pod " + pod + " queue=training cards=1 priority=0 node=h200-0 group=" + name)
	}
}

func (w *scene) applyObject(object client.Object, deleted bool) {
	w.revision++
	w.clock = w.clock.Add(time.Millisecond)
	c := change{revision: w.revision, deleted: deleted, seen: w.clock, object: object}
	w.log = append(w.log, c)
	w.machine.applyChange(c)
}

func (w *scene) checkNow() []string { return w.machine.checkAll(w.clock) }

// expectViolations compares the violations in order, and the number of open ones: "card quota
// open".
func (w *scene) expectViolations(t *testing.T, want string) {
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

func runScripts(t *testing.T, begin func() *scene, cases map[string]scriptCase) {
	for t, tc := range check.Cases(t, cases) {
		begin().playScript(tc.text).expectViolations(t, tc.want)
	}
}
