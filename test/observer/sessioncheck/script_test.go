package sessioncheck

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"cardquota.dev/operator/internal/testing/script"
	"cardquota.dev/operator/internal/testing/words"
)

// checkerScript applies the changes and sessions of a script to a Checker. Its cluster has a
// node with eight H200, a node with eight 4090, and the open queue q with a quota of four H200,
// ten cores and ten GiB.
type checkerScript struct {
	*testing.T
	*script.Objects
	judge  *Checker
	clock  time.Time
	closed int
}

func newScene(t *testing.T, options Options) *checkerScript {
	s := &checkerScript{T: t, judge: New(options), clock: script.Began, Objects: script.New(map[string]string{
		"pod": "cpu=1 memory=1Gi", "queue": "cpu=10 memory=10Gi", "group": "phase=Inqueue",
		"node": "model=NVIDIA-H200 cards=8 cpu=16 memory=64Gi pods=20",
	})}
	return s.run(`load namespace test; load node h200-0; load node rtx4090-0 model=RTX4090; load queue q quota=H200:4; sessions 1`)
}

// run plays steps, one a line or between semicolons:
//
//	load KIND NAME …             the object was there before the judge
//	write KIND NAME …            is created or changed
//	remove KIND NAME             is deleted
//	single NAME queue= …         a pod for H200 with a PodGroup of its own, group-of-NAME
//	gang NAME queue= pods=N …    a PodGroup and its pods NAME-0, NAME-1 …, for H200
//	sessions COUNT               sessions close, one a second
//	enough                       as many as anything may take, and bindings arrive
//	clean                        nothing has been found
//	wait DURATION
//
// The words key=value behind a name are those of package script.
func (s *checkerScript) run(text string) *checkerScript {
	s.Helper()
	for _, line := range script.Steps(text) {
		switch line.Verb {
		case "load":
			s.judge.Load(s.Apply(line), s.clock)
		case "write":
			s.applyObject(s.Apply(line), false)
		case "remove":
			s.applyObject(s.Apply(line), true)
		case "single":
			s.writeSinglePod(line)
		case "gang":
			s.writeGang(line)
		case "sessions":
			s.closeSessions(s.mustParse(line.Name()))
		case "enough":
			s.closeSessions(5 + int(bindTimeout/time.Second))
		case "clean":
			s.expectViolations()
		case "wait":
			d, err := time.ParseDuration(line.Name())
			if err != nil {
				s.Fatal(line.Errorf("%w", err))
			}
			s.clock = s.clock.Add(d)
		default:
			s.Fatal(line.Errorf("%q is not a step", line.Verb))
		}
	}

	return s
}

// writeSinglePod writes a pod with a PodGroup of its own.
func (s *checkerScript) writeSinglePod(line words.Line) {
	group := "group-of-" + line.Name()
	s.applyObject(s.Object("group", group, "queue="+line.Value("queue")), false)
	s.writePod(line, line.Name(), group)
}

// writeGang writes a PodGroup and its pods.
func (s *checkerScript) writeGang(line words.Line) {
	pods := line.Value("pods")
	s.applyObject(s.Object("group", line.Name(), "queue="+line.Value("queue"), "min="+pods), false)
	for i := range s.mustParse(pods) {
		s.writePod(line, fmt.Sprint(line.Name(), "-", i), line.Name())
	}
}

// writePod writes a pod of a group with the words of a line that are about the pod.
func (s *checkerScript) writePod(line words.Line, name, group string) {
	described := []string{"card=NVIDIA-H200", "group=" + group}
	for _, word := range line.Words {
		if word.Key != "queue" && word.Key != "pods" {
			described = append(described, word.String())
		}
	}
	s.applyObject(s.Pod(name, described...), false)
}

func (s *checkerScript) mustParse(word string) int {
	n, err := strconv.Atoi(word)
	if err != nil {
		s.Fatal(err)
	}
	return n
}

func (s *checkerScript) applyObject(object client.Object, deleted bool) {
	s.clock = s.clock.Add(time.Millisecond)
	s.judge.Apply(object, deleted, s.clock)
}

func (s *checkerScript) closeSessions(n int) {
	for range n {
		s.clock = s.clock.Add(time.Second)
		s.closed++
		s.addReading(Reading{Closed: s.closed, Decides: true})
	}
}

func (s *checkerScript) addReading(r Reading) {
	r.Asked = s.clock
	r.Answered = s.clock
	s.judge.AddReading(r)
	s.judge.Check(s.clock)
}

// expectViolations compares the violations, as invariant and object.
func (s *checkerScript) expectViolations(want ...string) {
	s.Helper()
	var got []string
	found := s.judge.TakeViolations()
	for _, v := range found {
		got = append(got, v.Invariant+" "+v.Object)
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		s.Errorf("found %v, want %v", found, want)
	}
}

// violationsOf returns the violations of an invariant by objects.
func violationsOf(invariant string, objects ...string) (violations []string) {
	for _, object := range objects {
		violations = append(violations, invariant+" "+object)
	}
	return violations
}
