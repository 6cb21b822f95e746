package forecast

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	clientcache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/ptr"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	vcfake "volcano.sh/apis/pkg/client/clientset/versioned/fake"
	volcano "volcano.sh/volcano/pkg/scheduler"

	// Volcano's own actions register themselves.
	_ "volcano.sh/volcano/pkg/scheduler/actions"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/cache"
	"volcano.sh/volcano/pkg/scheduler/conf"
	"volcano.sh/volcano/pkg/scheduler/framework"

	"cardquota.dev/operator/internal/scheduler/actions"
	"cardquota.dev/operator/internal/scheduler/capacitycard"
	"cardquota.dev/operator/internal/schedulerconfig"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"

	// It sets Volcano's options, and initialises its metrics.
	_ "cardquota.dev/operator/internal/testing/session"
	"cardquota.dev/operator/internal/workload"
)

const (
	// shippedConf is the configuration that the operator renders from Volcano's.
	shippedConf = "../../internal/schedulerconfig/testdata/render/installer_1_14/rendered.conf"
	// sessionPeriod is the time between sessions while something changes.
	sessionPeriod = time.Second
)

// enforcedWeek is the week in mode Enforce.
type enforcedWeek struct {
	cache   *cache.SchedulerCache
	actions []framework.Action
	tiers   []conf.Tier
	configs []conf.Configuration
	begin   time.Time
	// live are the workloads that have arrived and not ended, by name.
	live map[string]*liveWorkload
	// written are the PodGroups that the last session wrote.
	written map[string]*v1beta1.PodGroup
	waited  map[string]bool
}

// liveWorkload is a workload that waits or runs.
type liveWorkload struct {
	*recordedWorkload
	group *v1beta1.PodGroup
	pods  []*corev1.Pod
	// started is zero while it waits.
	started time.Time
}

// newEnforcedWeek returns the week with a Queue for each tenant, before the first workload. Volcano's cache cannot be
// stopped, so it is made outside of a bubble of testing/synctest, as is all that the first session initialises.
func newEnforcedWeek(t check.T, quotas map[string]int) *enforcedWeek {
	e := &enforcedWeek{
		cache: cache.NewCustomMockSchedulerCache(scheduler, nil, nil, nil, nil, &record.FakeRecorder{}),
		live:  map[string]*liveWorkload{}, written: map[string]*v1beta1.PodGroup{}, waited: map[string]bool{},
	}
	e.answerWrites()
	e.loadConfiguration(t)

	for _, node := range newNodes() {
		check.NoError(t, e.cache.AddOrUpdateNode(node))
	}
	for _, tenant := range slices.Sorted(maps.Keys(quotas)) {
		e.cache.AddQueueV1beta1(builder.Queue(tenant).Quota(fmt.Sprintf(`{"%s":%d}`, cardName, quotas[tenant])).ServiceType("training").Obj())
	}

	e.warmUp(t, quotas)
	return e
}

// warmUp runs a session outside of a bubble, with a workload that starts and one that exceeds its quota. What starts
// goroutines for the first time does so here.
func (e *enforcedWeek) warmUp(t check.T, quotas map[string]int) {
	tenant := slices.Min(slices.Collect(maps.Keys(quotas)))
	e.begin = time.Now()
	e.arrive(t, &recordedWorkload{name: "small", tenant: tenant, cards: 1})
	e.arrive(t, &recordedWorkload{name: "large", tenant: tenant, cards: quotas[tenant] + 1})
	e.runSession()

	check.Must(t, !e.live["small"].started.IsZero(), "a workload does not start")
	check.Must(t, e.live["large"].started.IsZero(), "a workload starts beyond its quota")
	e.end(t, e.live["small"])
	e.end(t, e.live["large"])
}

// answerWrites lets the API server accept all that sessions write. Only PodGroups matter to the next session. The fake
// clients allow one call at a time.
func (e *enforcedWeek) answerWrites() {
	kube := e.cache.Client().(*fake.Clientset)
	kube.PrependReactor("*", "events", func(clienttesting.Action) (bool, runtime.Object, error) { return true, &corev1.Event{}, nil })
	kube.PrependReactor("update", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
		return true, a.(clienttesting.UpdateAction).GetObject(), nil
	})

	client := e.cache.VCClient().(*vcfake.Clientset)
	client.PrependReactor("update", "queues", func(a clienttesting.Action) (bool, runtime.Object, error) {
		return true, a.(clienttesting.UpdateAction).GetObject(), nil
	})
	client.PrependReactor("update", "podgroups", func(a clienttesting.Action) (bool, runtime.Object, error) {
		group := a.(clienttesting.UpdateAction).GetObject().(*v1beta1.PodGroup)
		e.written[group.Name] = group.DeepCopy()
		return true, group, nil
	})
}

// loadConfiguration loads the shipped configuration, and registers plugin and actions as cmd/scheduler does.
func (e *enforcedWeek) loadConfiguration(t check.T) {
	text := string(check.Value(os.ReadFile(shippedConf))(t))
	cards := capacitycard.NewCache()
	framework.RegisterPluginBuilder(schedulerconfig.CapacityCard, capacitycard.Builder(cards))

	shared := actions.NewShared(cards, noJobPolicies{})
	preempt := actions.NewPreempt(shared)
	framework.RegisterAction(actions.NewCardReclaim(shared))
	framework.RegisterAction(preempt)
	framework.RegisterAction(actions.NewAllocate(shared))
	e.cache.Evictor = preempt.Evictor().Use(e.cache.Client(), e.cache.Recorder)

	var err error
	e.actions, e.tiers, e.configs, _, err = volcano.UnmarshalSchedulerConf(text)
	check.NoError(t, err)
}

// play plays the week, and returns the names of the workloads that waited for quota.
func (e *enforcedWeek) play(t check.T, week []*recordedWorkload, wait func()) map[string]bool {
	e.begin = time.Now()
	changed := false
	for {
		next := e.nextChange(week, changed)
		if next.IsZero() {
			break
		}
		time.Sleep(time.Until(next))

		now := time.Now()
		for _, name := range slices.Sorted(maps.Keys(e.live)) {
			if w := e.live[name]; w.hasEnded(now) {
				e.end(t, w)
			}
		}
		for len(week) > 0 && !e.begin.Add(week[0].arrival).After(now) {
			e.arrive(t, week[0])
			week = week[1:]
		}

		changed = e.hasWaiting() && e.runSession() // otherwise a session has nothing to decide
		wait()
	}

	check.Must(t, len(e.live) == 0, "%d workloads never started", len(e.live))
	return e.waited
}

// nextChange returns when the next session is: when a workload ends or the first of week arrives, or soon after a
// session that changed something while workloads wait. It is zero when the week is over.
func (e *enforcedWeek) nextChange(week []*recordedWorkload, changed bool) (next time.Time) {
	consider := func(at time.Time) {
		if next.IsZero() || at.Before(next) {
			next = at
		}
	}

	if len(week) > 0 {
		consider(e.begin.Add(week[0].arrival))
	}
	for _, w := range e.live {
		switch {
		case !w.started.IsZero():
			consider(w.started.Add(w.duration))
		case changed:
			consider(time.Now().Add(sessionPeriod))
		}
	}
	return next
}

// hasWaiting reports whether a workload waits.
func (e *enforcedWeek) hasWaiting() bool {
	for _, w := range e.live {
		if w.started.IsZero() {
			return true
		}
	}
	return false
}

// hasEnded reports whether a workload has run for its duration.
func (w *liveWorkload) hasEnded(now time.Time) bool {
	return !w.started.IsZero() && !w.started.Add(w.duration).After(now)
}

// arrive creates the PodGroup and the pods of a workload.
func (e *enforcedWeek) arrive(t check.T, recorded *recordedWorkload) {
	w := &liveWorkload{recordedWorkload: recorded, group: recorded.podGroup(e.begin), pods: recorded.pods(e.begin)}
	e.live[w.name] = w
	e.cache.AddPodGroupV1beta1(w.group.DeepCopy())
	for _, pod := range w.pods {
		check.NoError(t, e.podStore().Add(pod))
		e.cache.AddPod(pod)
	}
}

// end deletes the PodGroup and the pods of a workload.
func (e *enforcedWeek) end(t check.T, w *liveWorkload) {
	for _, pod := range w.pods {
		e.cache.DeletePod(pod)
		check.NoError(t, e.podStore().Delete(pod))
	}
	e.cache.DeletePodGroupV1beta1(w.group)
	delete(e.cache.Jobs, api.JobID(w.tenant+"/"+w.name)) // no worker of the cache cleans up
	delete(e.live, w.name)
}

// podStore returns the store of the pod informers.
func (e *enforcedWeek) podStore() clientcache.Indexer {
	return e.cache.SharedInformerFactory().Core().V1().Pods().Informer().GetIndexer()
}

// runSession runs a session and applies what it decided. It reports whether that changed anything.
func (e *enforcedWeek) runSession() bool {
	conf.EnabledActionMap = map[string]bool{}
	for _, action := range e.actions {
		conf.EnabledActionMap[action.Name()] = true
	}

	ssn := framework.OpenSession(e.cache, e.tiers, e.configs)
	for _, action := range e.actions {
		action.Initialize()
		action.Execute(ssn)
		action.UnInitialize()
	}
	framework.CloseSession(ssn)

	e.cache.Client().(*fake.Clientset).ClearActions()
	e.cache.VCClient().(*vcfake.Clientset).ClearActions()
	changed := e.applyPodGroups()
	return e.applyBindings() || changed
}

// applyPodGroups gives the cache the PodGroups that a session wrote, and reports whether a phase changed.
func (e *enforcedWeek) applyPodGroups() (changed bool) {
	for name, group := range e.written {
		if w := e.live[name]; w != nil {
			changed = changed || w.group.Status.Phase != group.Status.Phase
			w.group = group
			e.cache.AddPodGroupV1beta1(group.DeepCopy())
		}
	}
	clear(e.written)
	return changed
}

// applyBindings lets the pods run that a session placed, and reports whether there are any.
func (e *enforcedWeek) applyBindings() (changed bool) {
	for len(e.cache.BindFlowChannel) > 0 {
		e.bind((<-e.cache.BindFlowChannel).TaskInfo)
		changed = true
	}
	return changed
}

// bind lets a pod run on the node of its task. The workload starts with its last pod.
func (e *enforcedWeek) bind(task *api.TaskInfo) {
	name, _, _ := strings.Cut(task.Name, "-pod-")
	w := e.live[name]
	for i, pod := range w.pods {
		if pod.Name == task.Name {
			w.pods[i] = e.startPod(pod, task)
		}
	}
	if slices.ContainsFunc(w.pods, func(pod *corev1.Pod) bool { return pod.Spec.NodeName == "" }) {
		return
	}

	w.started = time.Now()
	if w.started.After(e.begin.Add(w.arrival)) { // not in the first session
		e.waited[w.name] = true
	}
}

// startPod returns a pod as it runs on the node of its task, and updates the cache.
func (e *enforcedWeek) startPod(pod *corev1.Pod, task *api.TaskInfo) *corev1.Pod {
	bound := pod.DeepCopy()
	bound.Spec.NodeName = task.NodeName
	bound.Annotations = maps.Clone(task.Pod.Annotations) // the plugin adds the charged queue
	bound.Status.Phase = corev1.PodRunning
	bound.Status.StartTime = ptr.To(metav1.Now())
	_ = e.podStore().Update(bound) // fails only for objects without a name
	e.cache.UpdatePod(pod, bound)
	return bound
}

// noJobPolicies knows no Volcano job and no Kubernetes Job: in the week, no queue reclaims.
type noJobPolicies struct{}

// OpenSession reports that all jobs are read.
func (noJobPolicies) OpenSession(*framework.Session) bool { return true }

// EvictionPolicyFor knows no job.
func (noJobPolicies) EvictionPolicyFor(string, string) (workload.EvictionPolicy, bool) {
	return workload.EvictionPolicy{}, false
}

// FailureLimitFor knows no Job.
func (noJobPolicies) FailureLimitFor(string, string, types.UID) (workload.FailureLimit, bool) {
	return workload.FailureLimit{}, false
}
