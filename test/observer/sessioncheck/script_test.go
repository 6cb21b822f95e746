package sessioncheck

import (
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/script"
	"cardquota.dev/operator/internal/testing/words"
)

// checkerScript applies the changes and sessions of a script to a Checker. Its cluster has a
// node with eight H200, a node with eight 4090, and the open queue q with a quota of four H200,
// ten cores and ten GiB. A node has 16 cores and 64 GiB. A pod requests one core and one GiB.
type checkerScript struct {
	*testing.T
	*script.Objects
	checker *Checker
	clock   time.Time
	closed  int
}

func newSceneWithQuotaOfFour(t *testing.T, options Options) *checkerScript {
	s := &checkerScript{T: t, checker: New(options), clock: script.Began, Objects: script.New(map[string]string{
		"pod": "cpu=1 memory=1Gi", "queue": "cpu=10 memory=10Gi", "group": "phase=Inqueue",
		"node": "model=NVIDIA-H200 cards=8 cpu=16 memory=64Gi pods=20",
	})}
	return s.playScript(`
		load namespace test
		load node h200-0
		load node rtx4090-0 model=RTX4090
		load queue q quota=H200:4
		sessions 1`)
}

// playScript plays steps, one a line or between semicolons:
//
//	load KIND NAME …             the object was there before the checker
//	write KIND NAME …            is created or changed
//	remove KIND NAME             is deleted
//	single NAME queue= …         a pod for H200 with a PodGroup of its own, group-of-NAME
//	gang NAME queue= pods=N …    a PodGroup and its pods NAME-0, NAME-1 …, for H200
//	sessions COUNT               sessions close, one a second
//	manySessions                 as many sessions close as anything may take, and bindings arrive
//	nothingFound                 no violation has been found since the last step that looked
//	wait DURATION
//
// The words key=value behind a name are those of package script.
func (s *checkerScript) playScript(text string) *checkerScript {
	for _, line := range script.Steps(text) {
		switch line.Verb {
		case "load":
			s.checker.Load(s.Apply(line), s.clock)
		case "write":
			s.writeObject(s.Apply(line))
		case "remove":
			s.applyObject(s.Apply(line), true)
		case "single":
			s.writeSinglePod(line)
		case "gang":
			s.writeGang(line)
		case "sessions":
			s.closeSessions(check.Value(strconv.Atoi(line.Name()))(s.T))
		case "manySessions":
			s.closeSessions(5 + int(bindTimeout/time.Second))
		case "nothingFound":
			s.expectViolations("")
		case "wait":
			s.clock = s.clock.Add(check.Value(time.ParseDuration(line.Name()))(s.T))
		default:
			s.Fatal(line.Errorf("%q is not a step", line.Verb))
		}
	}

	return s
}

// writeSinglePod writes a pod with a PodGroup of its own.
func (s *checkerScript) writeSinglePod(line words.Line) {
	group := "group-of-" + line.Name()
	s.writeObject(s.Object("group", group, "queue="+line.Value("queue")))
	s.writePod(line, line.Name(), group)
}

// writeGang writes a PodGroup and its pods.
func (s *checkerScript) writeGang(line words.Line) {
	pods := line.Value("pods")
	s.writeObject(s.Object("group", line.Name(), "queue="+line.Value("queue"), "min="+pods))
	for i := range check.Value(strconv.Atoi(pods))(s.T) {
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
	s.writeObject(s.Pod(name, described...))
}

// writeObject creates or changes an object, as far as the checker sees.
func (s *checkerScript) writeObject(object client.Object) { s.applyObject(object, false) }

func (s *checkerScript) applyObject(object client.Object, deleted bool) {
	s.clock = s.clock.Add(time.Millisecond)
	s.checker.Apply(object, deleted, s.clock)
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
	s.checker.AddReading(r)
	s.checker.Check(s.clock)
}

// expectViolations compares the new violations with those of one invariant.
func (s *checkerScript) expectViolations(invariant string, wantObjects ...string) {
	var want, got []string
	for _, object := range wantObjects {
		want = append(want, invariant+" "+object)
	}

	found := s.checker.TakeViolations()
	for _, v := range found {
		got = append(got, v.Invariant+" "+v.Object)
	}
	check.That(s.T, slices.Equal(got, want), "found %v, want %v", found, want)
}
