package capacitycard

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/cache"
	"volcano.sh/volcano/pkg/scheduler/conf"
	"volcano.sh/volcano/pkg/scheduler/framework"
	"volcano.sh/volcano/pkg/scheduler/util"
)

// ebb is one cache of Volcano through several sessions, with a job of four
// one-card pods on the node h200.
type ebb struct {
	t     *testing.T
	cache *cache.SchedulerCache
	pods  map[string]*corev1.Pod
	ssn   *framework.Session
	now   time.Time
}

func newEbb(t *testing.T, change func(*corev1.Pod)) *ebb {
	e := &ebb{t: t, pods: map[string]*corev1.Pod{}, now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC),
		cache: cache.NewCustomMockSchedulerCache("volcano", util.NewFakeBinder(0), nil, &util.FakeStatusUpdater{}, nil, &record.FakeRecorder{})}
	if err := e.cache.AddOrUpdateNode(cardNode("h200", "NVIDIA-H200")); err != nil {
		t.Fatal(err)
	}
	for _, queue := range tide(fullTide, fullTide) {
		e.cache.AddQueueV1beta1(queue)
	}
	e.cache.AddPodGroupV1beta1(group("t", "tra", 4, v1beta1.PodGroupRunning, "4"))
	for _, pod := range each(pods(4, "t", "1", "NVIDIA-H200", "h200"), change) {
		e.pods[pod.Name] = pod
		e.cache.AddPod(pod.DeepCopy())
	}
	framework.RegisterPluginBuilder(PluginName, New)
	t.Cleanup(framework.CleanupPluginBuilders)
	e.restart()
	return e
}

// restart forgets all that the process knows.
func (e *ebb) restart() {
	process = newMemory()
	process.now = func() time.Time { return e.now }
}

// next closes the session, if there is one, and opens another one.
func (e *ebb) next() *Tide {
	e.t.Helper()
	e.alone()
	rules, ok := TideOf(e.ssn)
	if !ok {
		e.t.Fatal("the session has no rules")
	}
	return rules
}

// alone is next without the action cardreclaim.
func (e *ebb) alone() {
	if e.ssn != nil {
		framework.CloseSession(e.ssn)
	} else {
		e.t.Cleanup(func() { framework.CloseSession(e.ssn) })
	}
	e.ssn = framework.OpenSession(e.cache, []conf.Tier{{Plugins: []conf.PluginOption{{Name: PluginName}}}}, nil)
}

func (e *ebb) task(name string) *api.TaskInfo { return e.ssn.Jobs["ns/t"].Tasks[api.TaskID(name)] }

func (e *ebb) update(name string, change func(*corev1.Pod)) {
	old := e.pods[name].DeepCopy()
	change(e.pods[name])
	e.cache.UpdatePod(old, e.pods[name].DeepCopy())
}

// expect compares which pods are on their way out, each known as that
// everywhere, and how many cards the queue is charged.
func (e *ebb) expect(what, leaving string, charged int) {
	e.t.Helper()
	var names []string
	for _, task := range e.ssn.Jobs["ns/t"].TaskStatusIndex[api.Releasing] {
		names = append(names, task.Name)
		if on := e.ssn.Nodes["h200"].Tasks[api.PodKey(task.Pod)]; on == nil || on.Status != api.Releasing {
			e.t.Errorf("%s: %s leaves, but not on its node: %v", what, task.Name, on)
		}
	}
	slices.Sort(names)
	if got := strings.Join(names, " "); got != leaving {
		e.t.Errorf("%s: %q leave, want %q", what, got, leaving)
	}
	if got := e.ssn.Nodes["h200"].Releasing.ScalarResources[gpu]; got != float64(1000*len(names)) {
		e.t.Errorf("%s: the node will get back %v thousandths of a card, want %d", what, got, 1000*len(names))
	}
	if got := open.Load().account.Used("tra", "NVIDIA-H200"); int(got) != charged {
		e.t.Errorf("%s: %d cards are charged, want %d", what, got, charged)
	}
}

func vcjobPod(p *corev1.Pod) {
	yes := true
	p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "batch.volcano.sh/v1alpha1", Kind: "Job", Name: "t", Controller: &yes}}
	p.Annotations["volcano.sh/job-name"], p.Annotations["volcano.sh/job-version"] = "t", "0"
}

func outOfSync(p *corev1.Pod) { p.Annotations["volcano.sh/controller-out-of-sync"] = "true" }

func TestAPodThatWasToldToGo(t *testing.T) {
	e := newEbb(t, vcjobPod)
	rules := e.next()
	e.expect("at first", "", 4)
	rules.Leaves(e.task("t-h2001"))

	rules = e.next()
	e.expect("in the next session", "t-h2001", 4)
	if e.task("t-h2001").Status == api.Running || e.ssn.Jobs["ns/t"].ReadyTaskNum() != 3 {
		t.Error("its job counts it as running")
	}
	if late := rules.Overdue(30 * time.Second); len(late) != 0 {
		t.Errorf("%d pods are overdue at once", len(late))
	}
	e.now = e.now.Add(20 * time.Second)
	e.update("t-h2001", outOfSync)
	rules = e.next()
	e.expect("once it is marked", "t-h2001", 4)
	if late := rules.Overdue(20 * time.Second); len(late) != 0 {
		t.Error("it is overdue after exactly the time it has")
	}
	e.now = e.now.Add(11 * time.Second)
	rules = e.next()
	if late := rules.Overdue(30 * time.Second); len(late) != 1 || late[0].Name != "t-h2001" {
		t.Errorf("overdue are %v, want the pod that was told 31 s ago", late)
	}
	now := metav1.Now()
	e.update("t-h2001", func(p *corev1.Pod) { p.DeletionTimestamp = &now })
	rules = e.next()
	e.expect("once it is deleted", "t-h2001", 3)
	if late := rules.Overdue(0); len(late) != 0 || len(process.leaving) != 0 {
		t.Errorf("overdue %v, remembered %v after the deletion", late, process.leaving)
	}
}

func TestLeavingPodsAreForgottenWhenTheyAreGone(t *testing.T) {
	e := newEbb(t, vcjobPod)
	e.next().Leaves(e.task("t-h2001"))
	e.next().Leaves(e.task("t-h2002"))
	e.next()
	e.expect("two are told", "t-h2001 t-h2002", 4)
	e.cache.DeletePod(e.pods["t-h2001"])
	e.update("t-h2002", func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed })
	e.next()
	e.expect("one is gone, one has failed", "", 2)
	if len(process.leaving) != 0 {
		t.Errorf("remembered are %v", slices.Collect(maps.Keys(process.leaving)))
	}
}

func TestAMarkOutlivesTheProcess(t *testing.T) {
	e := newEbb(t, func(p *corev1.Pod) {
		vcjobPod(p)
		if p.Name == "t-h2003" {
			outOfSync(p)
		}
	})
	rules := e.next()
	e.expect("in the first session", "t-h2003", 4)
	e.now = e.now.Add(31 * time.Second)
	if late := rules.Overdue(30 * time.Second); len(late) != 1 {
		t.Errorf("%d pods are overdue 31 s after the start, want 1", len(late))
	}
	e.restart()
	rules = e.next()
	e.expect("after another restart", "t-h2003", 4)
	if late := rules.Overdue(30 * time.Second); len(late) != 0 {
		t.Error("the time begins anew with the process")
	}
}

// TestAMarkOnPodsOfOthersMeansNothing: only Volcano's job controller replaces
// marked pods. Nobody may be evicted because of an annotation in its template.
func TestAMarkOnPodsOfOthersMeansNothing(t *testing.T) {
	yes := true
	for name, owners := range map[string][]metav1.OwnerReference{
		"a bare pod": nil, "a Deployment": {{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "r", Controller: &yes}}, "a Kubernetes job": {{APIVersion: "batch/v1", Kind: "Job", Name: "j", Controller: &yes}},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEbb(t, func(p *corev1.Pod) { p.OwnerReferences = owners; outOfSync(p) })
			rules := e.next()
			e.expect("marked", "", 4)
			e.now = e.now.Add(time.Hour)
			if late := rules.Overdue(0); len(late) != 0 {
				t.Errorf("%d pods would be deleted", len(late))
			}
		})
	}
}

// TestAMarkWithoutCardreclaimMeansNothing: Volcano's action reclaim does not see to
// it that who bears the mark goes, and its owner may be made up. In the first
// session of a process nobody knows which of them is at work.
func TestAMarkWithoutCardreclaimMeansNothing(t *testing.T) {
	e := newEbb(t, func(p *corev1.Pod) { vcjobPod(p); outOfSync(p) })
	e.alone()
	e.expect("in the first session", "t-h2000 t-h2001 t-h2002 t-h2003", 4)
	for range 3 {
		e.now = e.now.Add(time.Hour)
		e.alone()
		e.expect("later", "", 4)
		if len(process.leaving) != 0 {
			t.Errorf("%d pods are remembered as leaving", len(process.leaving))
		}
	}
	e.next()
	e.expect("in the first session with cardreclaim", "", 4)
	e.next()
	e.expect("once it is known to be at work", "t-h2000 t-h2001 t-h2002 t-h2003", 4)
	e.alone()
	e.alone()
	e.expect("once it is not any more", "", 4)
}

func TestAMadeUpOwnerIsNoMark(t *testing.T) {
	e := newEbb(t, func(p *corev1.Pod) {
		vcjobPod(p)
		outOfSync(p)
		delete(p.Annotations, "volcano.sh/job-name")
	})
	for range 3 {
		rules := e.next()
		e.expect("marked by its owner", "", 4)
		if late := rules.Overdue(0); len(late) != 0 {
			t.Errorf("%d pods would be deleted", len(late))
		}
		e.now = e.now.Add(time.Hour)
	}
}

func TestALeavingPodOnANodeThatIsNotInTheSession(t *testing.T) {
	e := newEbb(t, vcjobPod)
	stray := pods(1, "t", "1", "NVIDIA-H200", "lost")[0]
	vcjobPod(stray)
	outOfSync(stray)
	e.cache.AddPod(stray)
	e.next()
	if got := e.task("t-lost0").Status; got != api.Releasing {
		t.Errorf("the pod is %s, want Releasing", got)
	}
}
