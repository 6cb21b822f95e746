package capacitycard

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/framework"

	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/session"
	"cardquota.dev/operator/internal/workload"
)

func vcjobPod(p *corev1.Pod) {
	session.OwnedBy("batch.volcano.sh/v1alpha1", "Job", "t", "t")(p)
	p.Annotations["volcano.sh/job-name"] = "t"
	p.Annotations["volcano.sh/job-version"] = "0"
}

func outOfSync(p *corev1.Pod) { annotate("volcano.sh/controller-out-of-sync", "true")(p) }

// checkReleasing compares which pods are on their way out, each known as that everywhere,
// and how many cards the queue is charged.
func (s *scene) checkReleasing(leaving string, charged int) error {
	tasks := s.In(api.Releasing)
	for _, task := range tasks {
		if on := s.Ssn.Nodes["a"].Tasks[api.PodKey(task.Pod)]; on == nil || on.Status != api.Releasing {
			return fmt.Errorf("%s leaves, but not on its node: %v", task.Name, on)
		}
	}

	back := s.Ssn.Nodes["a"].Releasing.ScalarResources[gpu]
	return errors.Join(
		equal("on their way out", session.Names(tasks), session.Spell(leaving)),
		equal("thousandths of a card that the node will get back", back, float64(1000*len(tasks))),
		equal("cards that are charged", s.usedCards("tra", "A"), charged))
}

// TestOutOfSyncPodsAreReleasing plays what happens to four pods of a gang, sessions
// with the action cardreclaim (next) and without it (alone).
func TestOutOfSyncPodsAreReleasing(t *testing.T) {
	owned := func(apiVersion, kind string) func(*corev1.Pod) { return session.OwnedBy(apiVersion, kind, "o", "o") }
	for t, tc := range check.Cases(t, map[string]struct {
		pod    func(*corev1.Pod)
		script string
	}{
		"one is evicted: requested, marked and deleted": {vcjobPod, `next, leave - 4, tell t-1, next, leave t-1 4, ready 3, overdue 30s -, after 20s, mark t-1, next, leave t-1 4, overdue 20s -,
			after 11s, next, overdue 30s t-1, delete t-1, next, leave t-1 3, overdue 0s -, remember 0`},
		"they are forgotten when they are gone": {vcjobPod, "next, tell t-1, next, tell t-2, next, leave t-1+t-2 4, gone t-1, fail t-2, next, leave - 2, remember 0"},
		"a mark outlives the process": {func(p *corev1.Pod) { vcjobPod(p); changePod("t-3", outOfSync)(p) },
			"next, leave t-3 4, after 31s, overdue 30s t-3, restart, next, leave t-3 4, overdue 30s -"},
		// Only Volcano's job controller recreates marked pods. An annotation in a pod template
		// must cause no eviction.
		"a mark on a bare pod means nothing":             {func(p *corev1.Pod) { outOfSync(p) }, "next, leave - 4, after 1h, overdue 0s -"},
		"a mark on a Deployment's pod means nothing":     {func(p *corev1.Pod) { owned("apps/v1", "ReplicaSet")(p); outOfSync(p) }, "next, leave - 4, after 1h, overdue 0s -"},
		"a mark on a Kubernetes job's pod means nothing": {func(p *corev1.Pod) { owned("batch/v1", "Job")(p); outOfSync(p) }, "next, leave - 4, after 1h, overdue 0s -"},
		"a made-up owner is no mark": {func(p *corev1.Pod) { vcjobPod(p); outOfSync(p); delete(p.Annotations, "volcano.sh/job-name") },
			"next, leave - 4, overdue 0s -, after 1h, next, leave - 4, overdue 0s -, after 1h, next, leave - 4, overdue 0s -"},
		// Volcano's action reclaim does not delete marked pods, and their owner may be forged.
		// In the first session of a process it is unknown which action runs.
		"a mark without cardreclaim means nothing": {func(p *corev1.Pod) { vcjobPod(p); outOfSync(p) }, `alone, leave t*4 4, after 1h, alone, leave - 4, remember 0, after 1h, alone, leave - 4, remember 0,
			next, leave - 4, next, leave t*4 4, alone, alone, leave - 4`},
	}) {
		e := &ebb{scene: newReclaimScene(t, "job t queue=tra min=4 running=a*4", tc.pod).useClock()}

		for _, line := range strings.Split(tc.script, ",") {
			words := append(strings.Fields(line), "", "")
			if err := steps[words[0]](e, strings.ReplaceAll(words[1], "+", " "), words[2]); err != nil {
				t.Errorf("%s: %v", strings.TrimSpace(line), err)
			}
		}
	}
}

// ebb is a scene with a clock, and what its session says of pods that leave.
type ebb struct {
	*scene
	rules *ReclaimPolicy
}

func (e *ebb) updated(pod string, change func(*corev1.Pod)) error {
	e.Update(pod, change)
	return nil
}

// steps are those of the scripts, by their first words.
var steps = map[string]func(e *ebb, of, want string) error{
	"next": func(e *ebb, _, _ string) error {
		e.rules = e.openSession().reclaimPolicy()
		return nil
	},
	"alone": func(e *ebb, _, _ string) error { e.openSession(); return nil },
	"restart": func(e *ebb, _, _ string) error {
		e.m = NewCache()
		e.m.now = func() time.Time { return e.clock }
		return nil
	},
	"tell":   func(e *ebb, pod, _ string) error { e.rules.MarkEvicting(e.Task(pod)); return nil },
	"mark":   func(e *ebb, pod, _ string) error { return e.updated(pod, outOfSync) },
	"delete": func(e *ebb, pod, _ string) error { return e.updated(pod, deleted) },
	"fail": func(e *ebb, pod, _ string) error {
		return e.updated(pod, func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed })
	},
	"gone":  func(e *ebb, pod, _ string) error { e.Cache.DeletePod(e.Pod(pod)); return nil },
	"after": func(e *ebb, time, _ string) error { e.clock = e.clock.Add(parsed(time)); return nil },
	"leave": func(e *ebb, pods, charged string) error {
		return e.checkReleasing(strings.TrimPrefix(pods+" ", "- "), int(charged[0]-'0'))
	},
	"overdue": func(e *ebb, patience, pods string) error {
		return equal("overdue", session.Names(e.rules.OverdueEvictions(parsed(patience))), strings.TrimPrefix(pods, "-"))
	},
	"ready": func(e *ebb, pods, _ string) error { return equal("ready", fmt.Sprint(e.Job("t").ReadyTaskNum()), pods) },
	"remember": func(e *ebb, pods, _ string) error {
		return equal("remembered", fmt.Sprint(len(e.m.evictingSince)), pods)
	},
}

func equal[V comparable](what string, got, want V) error {
	if got != want {
		return fmt.Errorf("%s: %v, want %v", what, got, want)
	}
	return nil
}

func parsed(text string) time.Duration {
	d, err := time.ParseDuration(text)
	if err != nil {
		panic(err)
	}
	return d
}

func TestOutOfSyncPodOnANodeOutsideTheSession(t *testing.T) {
	s := newReclaimScene(t, "job t queue=tra min=4 running=a*4,lost", func(p *corev1.Pod) {
		vcjobPod(p)
		if p.Spec.NodeName == "lost" {
			outOfSync(p)
		}
	}).openSession()
	check.Equal(t, "the pod", api.Releasing, s.Task("t-4").Status)
}

// TestSecondScheduler plays what a process sees of a pod in one session after the
// other. waits and n1 are the pod without and with a node, each another object,
// again is the object of the session before, none no pod; then follows what the
// session does: +n1 places it there, -n1 takes that back.
func TestSecondScheduler(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		script  string
		foreign bool
	}{
		"a pending pod is on a node without a placement":               {"settle, waits, n1", true},
		"it waits long, as one object or several":                      {"settle, waits, again, waits, n1", true},
		"it is on another node than this process placed it on":         {"settle, waits +n1, n2", true},
		"it is where a placement was taken back":                       {"settle, waits +n1 -n1, n1", true},
		"it is where this process placed it":                           {"settle, waits +n1, n1", false},
		"it is where this process placed it long ago":                  {"settle, waits +n1, after 24h, waits, n1", false},
		"the first of two bindings went through":                       {"settle, waits +n1, waits +n2, n1", false},
		"it was placed twice in a session, and the first went through": {"settle, waits +n1 +n2, n1", false},
		"a later trial of the same node is taken back":                 {"settle, waits +n1, waits +n1 -n1, n1", false},
		"nodes are tried one after the other":                          {"settle, waits +n1 -n1 +n2 +n2, n2", false}, // the event may come twice
		"its PodGroup is gone for a moment while it is bound":          {"settle, waits +n1, none, waits, n1", false},
		"Volcano wrote a node into the object and gave up":             {"settle, waits write=n1 +n1 -n1, reread, again, waits", false},
		"it was bound before it was seen":                              {"settle, n1, n1", false},
		"it was seen waiting after it was seen bound":                  {"settle, n1, waits, n1", false}, // a stale object
		"it belongs to another scheduler":                              {"other, settle, waits, n1", false},
		"a binding of the predecessor arrives late":                    {"waits, after 29s, waits, after 1h, n1", false},
		"it waits until the predecessor's time is over":                {"waits, after 30s, waits, n1", true},
		"not everything was seen yet":                                  {"incomplete, settle, waits, n1", false},
		"it is gone":                                                   {"settle, waits, n1, none", false},
		"it stays":                                                     {"settle, waits, n1, again, n1", true},
	}) {
		v := newBindingScript()
		v.runSteps(tc.script)

		check.Equal(t, "bound by another scheduler", map[bool]string{true: "ns/p"}[tc.foreign], strings.Join(v.otherBindings.boundByOthersNames(), " "))
	}
}

// bindingScript is what a process sees and does, one session after the other.
type bindingScript struct {
	*Cache
	at        time.Time
	scheduler string
	last      *corev1.Pod
}

func newBindingScript() *bindingScript {
	s := &bindingScript{Cache: NewCache(), at: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), scheduler: "volcano"}
	s.now = func() time.Time { return s.at }
	s.cacheSync.synced = true
	s.resolver = workload.Resolver{Inventory: s.inventory, Schedulers: []string{"volcano"}}
	return s
}

func (s *bindingScript) runSteps(script string) {
	for _, step := range strings.Split(script, ",") {
		words := strings.Fields(step)
		switch words[0] {
		case "incomplete":
			s.cacheSync.synced = false
		case "other":
			s.scheduler = "other"
		case "reread":
			s.requestGeneration++
		case "after":
			s.at = s.at.Add(parsed(words[1]))
		case "settle": // lets the time of a predecessor pass
			s.runSession(nil, nil)
			s.at = s.at.Add(bindingGracePeriod)
		case "none":
			s.runSession(nil, nil)
		default:
			if words[0] != "again" {
				s.last = builder.Pod("ns", "p").UID("p").Scheduler(s.scheduler).Node(strings.TrimPrefix(words[0], "waits")).Obj()
			}

			s.runSession(words[1:], s.last)
		}
	}
}

// runSession opens a session that sees a pod, or none, and closes it after what it
// does.
func (s *bindingScript) runSession(does []string, pod *corev1.Pod) {
	s.session++
	s.podsSeen = 0
	s.otherBindings.openSession(s.session, s.cacheSync.synced, s.at)
	if pod != nil {
		s.observePod(pod)
	}

	s.forgetUnseenPods()
	for _, word := range does {
		switch node := word[1:]; word[0] {
		case '+':
			s.otherBindings.assume("p", node)
		case '-':
			s.otherBindings.forgetAssumed("p", node)
		default:
			pod.Spec.NodeName = strings.TrimPrefix(word, "write=")
		}
	}
	s.closeOtherBindings()
}

func TestSecondSchedulerNamesTheFirstFive(t *testing.T) {
	s := newOtherBindings()
	for _, n := range []int{6, 2, 7, 4, 1, 3, 5} {
		s.boundByOthers[types.UID(fmt.Sprint(n))] = fmt.Sprint("ns/", n)
	}
	check.Equal(t, "names", "[ns/1 ns/2 ns/3 ns/4 ns/5]", fmt.Sprint(s.boundByOthersNames()))
}

func TestBindingsOfDeletedPodsAreForgotten(t *testing.T) {
	s := newBindingScript()
	s.runSteps("waits +n1, none, after 10m, none")
	check.That(t, pendingBindingTimeout == 10*time.Minute && len(s.otherBindings.pending) == 1, "forgotten too early")
	s.runSteps("after 1s, none")
	check.That(t, len(s.otherBindings.pending) == 0 && len(s.otherBindings.assumed) == 0, "%d bindings of a pod that is gone are kept", len(s.otherBindings.pending))
}

// TestEvictedPodsCountAsUsed: a pod whose eviction was requested counts as used until it is
// deleted. Only while a search assumes its eviction, it counts as terminating.
func TestEvictedPodsCountAsUsed(t *testing.T) {
	for hierarchy, assumed := range map[string]string{"Tree": "3 used, 1 terminating", "Flat": "3 used, 1 terminating"} {
		s := newScene(t, tenant+"job j queue=q min=1 running=a*4").withArguments(framework.Arguments{"queueHierarchy": hierarchy, "cardUnlimitedCpuMemory": true}).openSession()
		s.reclaimPolicy().MarkEvicting(s.Task("j-1"))
		s.openSession()
		uses := func() string {
			terminating, _ := s.p.ledger.Terminating("q", "A")
			return fmt.Sprintf("%d used, %d terminating", s.usedCards("q", "A"), terminating)
		}
		check.Equal(t, hierarchy+" before", "4 used, 0 terminating", uses())

		restore := s.reclaimPolicy().AssumeEvicted()
		check.Equal(t, hierarchy+" while a search assumes the eviction", assumed, uses())
		restore()
		check.Equal(t, hierarchy+" after", "4 used, 0 terminating", uses())
	}
}
