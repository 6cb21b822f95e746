package sessioncheck

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"cardquota.dev/operator/internal/testing/script"
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
//	load KIND NAME [OPTION…]          the object was there before the judge
//	write KIND NAME [OPTION…]         is created or changed
//	remove KIND NAME                  is deleted
//	single NAME QUEUE [OPTION…]       a pod for H200 with a PodGroup of its own, group-of-NAME
//	gang NAME QUEUE PODS [OPTION…]    a PodGroup and its pods NAME-0, NAME-1 …, for H200
//	sessions COUNT                    sessions close, one a second
//	enough                            as many as anything may take, and bindings arrive
//	clean                             nothing has been found
//	wait DURATION
func (s *checkerScript) run(text string) *checkerScript {
	s.Helper()
	for _, words := range script.Steps(text) {
		step := words[0]
		words := words[1:]
		switch step {
		case "load":
			s.judge.Load(s.Object(words[0], words[1], words[2:]...), s.clock)
		case "write":
			s.applyObject(s.Object(words[0], words[1], words[2:]...), false)
		case "remove":
			s.applyObject(s.Object(words[0], words[1]), true)
		case "single":
			s.writeSinglePod(words[0], words[1], words[2:])
		case "gang":
			s.writeGang(words[0], words[1], words[2], words[3:])
		case "sessions":
			s.closeSessions(s.mustParse(words[0]))
		case "enough":
			s.closeSessions(5 + int(bindTimeout/time.Second))
		case "clean":
			s.expectViolations()
		case "wait":
			d, err := time.ParseDuration(words[0])
			if err != nil {
				s.Fatal(err)
			}
			s.clock = s.clock.Add(d)
		default:
			s.Fatal("no step ", step)
		}
	}

	return s
}

// writeSinglePod writes a pod with a PodGroup of its own.
func (s *checkerScript) writeSinglePod(name, queue string, options []string) {
	group := "group-of-" + name
	s.applyObject(s.Object("group", group, "queue="+queue), false)
	s.applyObject(s.Pod(name, append([]string{"card=NVIDIA-H200", "group=" + group}, options...)...), false)
}

// writeGang writes a PodGroup and its pods.
func (s *checkerScript) writeGang(name, queue, members string, options []string) {
	s.applyObject(s.Object("group", name, "queue="+queue, "members="+members), false)
	for i := range s.mustParse(members) {
		s.applyObject(s.Pod(fmt.Sprint(name, "-", i), append([]string{"card=NVIDIA-H200", "group=" + name}, options...)...), false)
	}
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
