package capacitycard

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"pgregory.net/rapid"
	"volcano.sh/volcano/cmd/scheduler/app/options"
	"volcano.sh/volcano/pkg/scheduler/actions/allocate"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/cache"
	"volcano.sh/volcano/pkg/scheduler/conf"
	"volcano.sh/volcano/pkg/scheduler/framework"
	"volcano.sh/volcano/pkg/scheduler/util"
)

// sight is what a process sees and does, one session after the other.
type sight struct {
	*memory
	at time.Time
}

func newSight() *sight {
	s := &sight{memory: newMemory(), at: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
	s.now = func() time.Time { return s.at }
	s.completeness.done = true
	return s
}

// session opens a session that sees pods, and closes it after what it does.
func (s *sight) session(does func(), pods ...*corev1.Pod) {
	s.memory.session, s.seen = s.memory.session+1, 0
	s.second.begin(s.memory.session, s.completeness.done, s.at)
	for _, pod := range pods {
		s.facts(pod)
	}
	s.sweep()
	if does != nil {
		does()
	}
	s.closeSecond()
}

// settle lets the time of a predecessor pass.
func (s *sight) settle() {
	s.session(nil)
	s.at = s.at.Add(settled)
}

// ourPod is a pod of this scheduler; each call makes another object of it.
func ourPod(node string) *corev1.Pod {
	pod := pods(1, "j", "1", "", node)[0]
	pod.Name, pod.UID, pod.Spec.SchedulerName = "p", "p", "volcano"
	return pod
}

func TestSecondScheduler(t *testing.T) {
	const pod = types.UID("p")
	tests := map[string]struct {
		happens func(*sight)
		want    []string
	}{
		"a waiting pod is on a node where nobody placed it": {func(s *sight) {
			s.settle()
			s.session(nil, ourPod(""))
			s.session(nil, ourPod("n1"))
		}, []string{"ns/p"}},
		"it waits long, as one object or several": {func(s *sight) {
			s.settle()
			waiting := ourPod("")
			s.session(nil, waiting)
			s.session(nil, waiting)
			s.session(nil, ourPod(""))
			s.session(nil, ourPod("n1"))
		}, []string{"ns/p"}},
		"it is on another node than this process placed it on": {func(s *sight) {
			s.settle()
			s.session(func() { s.second.place(pod, "n1") }, ourPod(""))
			s.session(nil, ourPod("n2"))
		}, []string{"ns/p"}},
		"it is where a placement was taken back": {func(s *sight) {
			s.settle()
			s.session(func() { s.second.place(pod, "n1"); s.second.takeBack(pod, "n1") }, ourPod(""))
			s.session(nil, ourPod("n1"))
		}, []string{"ns/p"}},
		"it is where this process placed it": {func(s *sight) {
			s.settle()
			s.session(func() { s.second.place(pod, "n1") }, ourPod(""))
			s.session(nil, ourPod("n1"))
		}, nil},
		"it is where this process placed it long ago": {func(s *sight) {
			s.settle()
			s.session(func() { s.second.place(pod, "n1") }, ourPod(""))
			s.at = s.at.Add(24 * time.Hour)
			s.session(nil, ourPod(""))
			s.session(nil, ourPod("n1"))
		}, nil},
		"the first of two bindings went through": {func(s *sight) {
			s.settle()
			s.session(func() { s.second.place(pod, "n1") }, ourPod(""))
			s.session(func() { s.second.place(pod, "n2") }, ourPod(""))
			s.session(nil, ourPod("n1"))
		}, nil},
		"it was placed twice in a session, and the first went through": {func(s *sight) {
			s.settle()
			s.session(func() { s.second.place(pod, "n1"); s.second.place(pod, "n2") }, ourPod(""))
			s.session(nil, ourPod("n1"))
		}, nil},
		"a later trial of the same node is taken back": {func(s *sight) {
			s.settle()
			s.session(func() { s.second.place(pod, "n1") }, ourPod(""))
			s.session(func() { s.second.place(pod, "n1"); s.second.takeBack(pod, "n1") }, ourPod(""))
			s.session(nil, ourPod("n1"))
		}, nil},
		"nodes are tried one after the other": {func(s *sight) {
			s.settle()
			s.session(func() {
				s.second.place(pod, "n1")
				s.second.takeBack(pod, "n1")
				s.second.place(pod, "n2")
				s.second.place(pod, "n2") // the event may come twice
			}, ourPod(""))
			s.session(nil, ourPod("n2"))
		}, nil},
		"its PodGroup is gone for a moment while it is bound": {func(s *sight) {
			s.settle()
			s.session(func() { s.second.place(pod, "n1") }, ourPod(""))
			s.session(nil)
			s.session(nil, ourPod(""))
			s.session(nil, ourPod("n1"))
		}, nil},
		"Volcano wrote a node into the object and gave up": {func(s *sight) {
			s.settle()
			waiting := ourPod("")
			s.session(func() { waiting.Spec.NodeName = "n1"; s.second.place(pod, "n1"); s.second.takeBack(pod, "n1") }, waiting)
			s.meaning++ // the object is read again
			s.session(nil, waiting)
			s.session(nil, ourPod(""))
		}, nil},
		"it was bound before it was seen": {func(s *sight) {
			s.settle()
			s.session(nil, ourPod("n1"))
			s.session(nil, ourPod("n1"))
		}, nil},
		"it was seen waiting after it was seen bound": {func(s *sight) {
			s.settle()
			s.session(nil, ourPod("n1"))
			s.session(nil, ourPod("")) // a stale object
			s.session(nil, ourPod("n1"))
		}, nil},
		"it belongs to another scheduler": {func(s *sight) {
			s.settle()
			waiting, bound := ourPod(""), ourPod("n1")
			waiting.Spec.SchedulerName, bound.Spec.SchedulerName = "other", "other"
			s.session(nil, waiting)
			s.session(nil, bound)
		}, nil},
		"a binding of the predecessor arrives late": {func(s *sight) {
			s.session(nil, ourPod(""))
			s.at = s.at.Add(settled - time.Second)
			s.session(nil, ourPod(""))
			s.at = s.at.Add(time.Hour)
			s.session(nil, ourPod("n1"))
		}, nil},
		"it waits until the predecessor's time is over": {func(s *sight) {
			s.session(nil, ourPod(""))
			s.at = s.at.Add(settled)
			s.session(nil, ourPod(""))
			s.session(nil, ourPod("n1"))
		}, []string{"ns/p"}},
		"not everything was seen yet": {func(s *sight) {
			s.completeness.done = false
			s.settle()
			s.session(nil, ourPod(""))
			s.session(nil, ourPod("n1"))
		}, nil},
		"it is gone": {func(s *sight) {
			s.settle()
			s.session(nil, ourPod(""))
			s.session(nil, ourPod("n1"))
			s.session(nil)
		}, nil},
		"it stays": {func(s *sight) {
			s.settle()
			s.session(nil, ourPod(""))
			bound := ourPod("n1")
			s.session(nil, bound)
			s.session(nil, bound)
			s.session(nil, ourPod("n1"))
		}, []string{"ns/p"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s := newSight()
			tc.happens(s)
			if diff := cmp.Diff(tc.want, s.second.names()); diff != "" {
				t.Errorf("bound by somebody else (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSecondSchedulerNamesTheFirstFive(t *testing.T) {
	s := newSecond()
	for _, n := range []int{6, 2, 7, 4, 1, 3, 5} {
		s.foreign[types.UID(fmt.Sprint(n))] = fmt.Sprint("ns/", n)
	}
	if diff := cmp.Diff([]string{"ns/1", "ns/2", "ns/3", "ns/4", "ns/5"}, s.names()); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
}

func TestBindingsOfPodsThatAreGoneAreForgotten(t *testing.T) {
	s := newSight()
	s.session(func() { s.second.place("p", "n1") }, ourPod(""))
	s.session(nil)
	s.at = s.at.Add(unanswered)
	s.session(nil)
	if len(s.second.sent) != 1 {
		t.Error("forgotten too early")
	}
	s.at = s.at.Add(time.Second)
	s.session(nil)
	if len(s.second.sent) != 0 || len(s.second.placed) != 0 {
		t.Errorf("%d bindings of a pod that is gone are kept", len(s.second.sent))
	}
}

// TestOnlyWhatOthersBindIsTheirs drives Volcano's own sessions, statements and
// cache while somebody else binds pods as well. Named are exactly the pods that
// were seen waiting and are where no session left them.
func TestOnlyWhatOthersBindIsTheirs(t *testing.T) {
	t.Cleanup(framework.CleanupPluginBuilders)
	names := options.ServerOpts.SchedulerNames
	options.ServerOpts.SchedulerNames = []string{""} // the pods of a life name none
	t.Cleanup(func() { options.ServerOpts.SchedulerNames = names })
	conf.EnabledActionMap = map[string]bool{allocate.New().Name(): true}
	volcano := cache.NewCustomMockSchedulerCache("volcano", util.NewFakeBinder(0), nil, &util.FakeStatusUpdater{}, nil, &record.FakeRecorder{})
	found := 0
	rapid.Check(t, func(t *rapid.T) {
		l := newLife(t, volcano)
		clock := time.Now()
		process.now = func() time.Time { return clock }
		sessions := 1 // of this process
		mine, want := map[types.UID][]string{}, map[types.UID]string{}
		next := func(t *rapid.T) {
			waited := map[types.UID]bool{}
			for _, task := range l.tasks() {
				if slices.Contains([]api.TaskStatus{api.Allocated, api.Binding}, task.Status) {
					mine[task.Pod.UID] = append(mine[task.Pod.UID], task.NodeName)
				}
				// Bound and Running show their node; after two sessions and an hour all has settled.
				waited[task.Pod.UID] = sessions >= 3 && !slices.Contains([]api.TaskStatus{api.Bound, api.Running}, task.Status)
			}
			framework.CloseSession(l.ssn)
			l.answer(t)
			for _, name := range slices.Sorted(maps.Keys(l.pods)) {
				pod := l.pods[name]
				if pod.Spec.NodeName != "" || rapid.IntRange(0, 3).Draw(t, "somebody binds "+name) > 0 {
					continue
				}
				node := rapid.SampledFrom([]string{"n1", "n2", "n3"}).Draw(t, "node")
				delete(l.binding, name)
				l.update(name, func(p *corev1.Pod) { p.Spec.NodeName = node })
				if waited[pod.UID] && !slices.Contains(mine[pod.UID], node) {
					want[pod.UID] = "ns/" + name
					found++
				}
			}
			if rapid.IntRange(0, 9).Draw(t, "the process restarts") == 0 {
				l.restart()
				process.now = func() time.Time { return clock }
				sessions = 0
				clear(mine)
				clear(want)
			}
			clock = clock.Add(time.Hour)
			sessions++
			l.open()
			alive := map[types.UID]bool{}
			for _, pod := range l.pods {
				alive[pod.UID] = true
			}
			maps.DeleteFunc(want, func(pod types.UID, _ string) bool { return !alive[pod] })
			expected := slices.Sorted(maps.Values(want))
			if diff := cmp.Diff(expected[:min(len(expected), 5)], process.second.names()); diff != "" && len(expected)+len(process.second.names()) > 0 {
				t.Fatalf("bound by somebody else (-want +got):\n%s", diff)
			}
		}
		actions := map[string]func(*rapid.T){
			"allocate":         func(t *rapid.T) { l.place(t, allocates, unallocates) },
			"pipeline":         func(t *rapid.T) { l.place(t, pipelines, unpipelines) },
			"discard":          func(t *rapid.T) { take(t, &l.undecided).Discard() },
			"commit":           func(t *rapid.T) { l.commit(take(t, &l.undecided)) },
			"pods come and go": l.podsChange,
			"the next session": next,
		}
		for range 10 {
			t.Repeat(actions)
		}
		framework.CloseSession(l.ssn)
	})
	if found == 0 {
		t.Error("nobody else ever bound a pod")
	}
}
