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
	observed *clusterState
	clock    time.Time
	revision int64
	log      []change
}

var began = script.Began

func newSceneWithQuotaOfTwo() *scene {
	var options Options
	options.applyDefaults()
	s := &scene{observed: newClusterState(options), clock: began, Objects: script.New(map[string]string{
		"pod": "queue=q card=" + h200, "node": "cards=8 model=" + h200, "quota": "quota=2",
	})}
	s.playScript("load node h200-0; load node rtx4090-0 model=RTX4090; load node unnamed-0 model=; load queue q quota=H200:2")
	return s
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
func (s *scene) playScript(text string) *scene {
	for _, line := range script.Steps(text) {
		switch line.Verb {
		case "load":
			s.observed.loadObject(s.Apply(line), s.clock)
		case "make":
			s.Apply(line)
		case "write":
			s.writeObject(s.Apply(line))
		case "remove":
			s.removeObject(s.Apply(line))
		case "place":
			s.placePod(line)
		case "evict":
			s.writeObject(s.Pod(line.Name(), "evictedBy="+line.Value("by")))
			s.removeObject(s.Pod(line.Name()))
		case "run":
			s.loadGang(line.Name(), line.Value("min"), strings.Split(line.Value("pods"), ","))
		case "wait":
			d, err := time.ParseDuration(line.Name())
			if err != nil {
				panic(line.Errorf("%w", err))
			}
			s.clock = s.clock.Add(d)
		case "check":
			s.checkNow()
		default:
			panic(line.Errorf("%q is not a step", line.Verb))
		}
	}

	return s
}

// placePod creates a pod, and binds it to its node.
func (s *scene) placePod(line words.Line) {
	pending := line
	pending.Names = append([]string{"pod"}, line.Names...)
	pending.Words = slices.DeleteFunc(slices.Clone(line.Words), func(word words.Word) bool { return word.Key == "node" })
	s.writeObject(s.Apply(pending))
	s.writeObject(s.Pod(line.Name(), "node="+line.Value("node")))
}

// loadGang loads a PodGroup of the queue training and its pods, which run on h200-0.
func (s *scene) loadGang(name, pods string, names []string) {
	s.playScript("load group " + name + " queue=training min=" + pods)
	for _, pod := range names {
		s.playScript("load pod " + pod + " queue=training cards=1 priority=0 node=h200-0 group=" + name)
	}
}

// writeObject creates or changes an object, as far as the observer sees.
func (s *scene) writeObject(object client.Object) { s.applyObject(object, false) }

// removeObject deletes an object for good.
func (s *scene) removeObject(object client.Object) { s.applyObject(object, true) }

func (s *scene) applyObject(object client.Object, deleted bool) {
	s.revision++
	s.clock = s.clock.Add(time.Millisecond)
	c := change{revision: s.revision, deleted: deleted, seen: s.clock, object: object}
	s.log = append(s.log, c)
	s.observed.applyChange(c)
}

func (s *scene) checkNow() []string { return s.observed.checkAll(s.clock) }

// expectViolations compares the violated invariants in order, and those that are still tolerated: "card quota
// tolerated".
func (s *scene) expectViolations(t *testing.T, want string) {
	tolerated := s.checkNow()
	s.checkNow() // nothing is reported twice

	var got []string
	for _, v := range s.observed.violations {
		got = append(got, strings.Fields(string(v.Invariant))[1])
	}
	got = append(got, slices.Repeat([]string{"tolerated"}, len(tolerated))...)

	check.That(t, strings.Join(got, " ") == want, "found %v, tolerated %v, want %q", s.observed.violations, tolerated, want)
}

// scriptCase is a script and the violations that the observer finds in it.
type scriptCase struct{ text, wantViolations string }

func playAndExpectViolations(t *testing.T, newScene func() *scene, cases map[string]scriptCase) {
	for t, tc := range check.Cases(t, cases) {
		newScene().playScript(tc.text).expectViolations(t, tc.wantViolations)
	}
}
