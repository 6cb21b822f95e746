package cardreclaim

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/cache"

	"cardquota.dev/operator/internal/scheduler/capacitycard"
	"cardquota.dev/operator/internal/scheduler/snapshot"
	"cardquota.dev/operator/internal/schedulerconfig"
	"cardquota.dev/operator/internal/workload"
)

// Evictions carries out the evictions of all actions, in the way that each job's own policies on evictions need.
type Evictions struct {
	// JobPolicies are those of the jobs.
	JobPolicies
	pods podEvictor
}

// NewEvictions returns the evictions for sessions of the plugin with a cache. If jobs is nil, it takes the policies from
// the Volcano jobs that the plugin reads, and watches the Kubernetes Jobs. It lets the plugin read the failure limits of
// Kubernetes Jobs too: how many of their pods may fail or be evicted.
func NewEvictions(plugin *capacitycard.Cache, jobs JobPolicies) *Evictions {
	if jobs == nil {
		jobs = &jobInformer{vcJobs: plugin.VCJobs()}
	}
	e := &Evictions{JobPolicies: jobs, pods: newPodEvictor(maxConcurrentWrites)}
	plugin.UseFailureLimits(func(namespace, name string, uid types.UID) (workload.FailureLimit, bool) {
		return e.FailureLimitFor(namespace, name, uid)
	})
	return e
}

// Evict evicts pods of one job for an action, and returns at once. It reports whether Volcano's job controller recreates
// the pods. It records them in requested: sessions treat them as terminating until they are gone.
func (e *Evictions) Evict(requested *snapshot.Evictions, tasks []*api.TaskInfo, action string) (recreated bool) {
	recreated = e.isRecreated(tasks[0])
	go e.pods.evictPods(requested.Volcano.KubeClient(), tasks, recreated, action)
	for _, task := range tasks {
		requested.MarkEvicting(task)
	}
	return recreated
}

// isRecreated reports whether Volcano's job controller recreates an evicted pod of a vcjob
// without counting a retry. If the job's own policy ends it on an eviction, its pods are deleted
// instead, so that the policy sees it. Jobs with unknown policies are recreated.
func (e *Evictions) isRecreated(task *api.TaskInfo) bool {
	vcjob := workload.VCJobOwner(task.Pod)
	if vcjob == "" {
		return false
	}
	evictionPolicy, known := e.EvictionPolicyFor(task.Namespace, vcjob)
	return !known || !evictionPolicy.Terminates
}

// DeleteOverdue deletes pods that were evicted and still exist after deletionTimeout, because pipelined
// pods wait for their cards.
func (e *Evictions) DeleteOverdue(requested *snapshot.Evictions) {
	for _, task := range requested.OverdueEvictions(e.pods.deletion) {
		if e.isRecreated(task) && !workload.IsMarkedOutOfSync(task.Pod) && !requested.EvictingLongerThan(task, e.pods.mark) {
			continue // its annotation may still arrive; a deletion without it would count as a retry
		}
		klog.InfoS("Evicted pod still exists and is deleted", "pod", klog.KObj(task.Pod), "after", e.pods.deletion.String())
		go e.pods.writeAll(requested.Volcano.KubeClient(), []*api.TaskInfo{task}, deletePod)
		requested.MarkEvicting(task) // restarts the timeout, so that not every session deletes it
	}
}

// Evictor evicts pods for Volcano's cache. Volcano's own evictor writes to each pod once, so
// one failed write leaves a gang in part. This evictor tries each write again. Preempt evicts
// its own pods, because it knows the policies of their job.
type Evictor struct {
	pods *podEvictor
	// client and recorder are those of the cache.
	client   kubernetes.Interface
	recorder record.EventRecorder
}

var _ cache.Evictor = &Evictor{}

// NewEvictor returns the evictor that Volcano's cache must use.
func (e *Evictions) NewEvictor() *Evictor { return &Evictor{pods: &e.pods} }

// Use sets the client and the recorder of the cache.
func (e *Evictor) Use(client kubernetes.Interface, recorder record.EventRecorder) *Evictor {
	e.client = client
	e.recorder = recorder
	return e
}

// Evict deletes a pod, and returns when that is done or failed for good. After an error
// Volcano's cache reads the pod again. For preempt it does nothing: that action evicts the
// pod, and deletes it if it does not go.
func (e *Evictor) Evict(pod *corev1.Pod, reason string) error {
	if reason == schedulerconfig.Preempt {
		return nil
	}
	e.Record(pod, reason)
	return e.pods.evictPods(e.client, []*api.TaskInfo{{Pod: pod}}, false, reason)[pod.UID]
}

// Record records the event of an eviction that Volcano's own evictor records.
func (e *Evictor) Record(pod *corev1.Pod, reason string) {
	if e.recorder != nil {
		e.recorder.Eventf(pod, corev1.EventTypeWarning, "Evict", "Pod is evicted, because of %s", reason)
	}
}
