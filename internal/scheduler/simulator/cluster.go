//go:build !windows

package simulator

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	clientcache "k8s.io/client-go/tools/cache"
	batch "volcano.sh/apis/pkg/apis/batch/v1alpha1"
	"volcano.sh/apis/pkg/apis/scheduling/scheme"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	nodeshardv1alpha1 "volcano.sh/apis/pkg/apis/shard/v1alpha1"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/cache"
	"volcano.sh/volcano/pkg/scheduler/framework"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/scheduler/solver"
	"cardquota.dev/operator/internal/simulation"
	"cardquota.dev/operator/internal/workload"
)

// simulatedCluster is the simulated API server and Volcano's cache of it.
type simulatedCluster struct {
	cluster   *simulation.Cluster
	workloads []simulation.Workload
	cache     *cache.SchedulerCache
	session   int
	now       time.Time
	// pods are all pods by UID, cached the copies in Volcano's cache, which writes into them.
	pods, cached map[types.UID]*corev1.Pod
	groups       map[types.NamespacedName]*v1beta1.PodGroup
	// uncreated are the workloads of which a controller has not created all pods yet.
	uncreated []simulation.Workload
	// placed are the pods that a session placed.
	placed  map[types.UID]bool
	victims []*victim
	// restarted has the victim of each pod that was created in the place of an evicted one.
	restarted map[types.UID]*victim
	jobs      simulatedJobs
	statusWrites
}

func (s *simulatedCluster) podStore() clientcache.Indexer {
	return s.cache.SharedInformerFactory().Core().V1().Pods().Informer().GetIndexer()
}

// setPod adds or updates a pod, as a watch does. A pod without a time of its creation is new.
func (s *simulatedCluster) setPod(pod *corev1.Pod) {
	if pod.CreationTimestamp.IsZero() {
		pod = pod.DeepCopy()
		pod.CreationTimestamp = metav1.NewTime(s.now)
	}

	seen := withoutClaims(pod)
	s.pods[pod.UID] = pod
	if old, known := s.cached[pod.UID]; known {
		s.cache.UpdatePod(old, seen)
	} else {
		s.cache.AddPod(seen)
	}

	s.cached[pod.UID] = seen
	_ = s.podStore().Add(seen)
}

// withoutClaims returns a copy of a pod without the volumes and the devices that a snapshot does not have.
func withoutClaims(pod *corev1.Pod) *corev1.Pod {
	pod = pod.DeepCopy()
	pod.Spec.ResourceClaims = nil
	pod.Spec.Volumes = slices.DeleteFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.PersistentVolumeClaim != nil || v.Ephemeral != nil })
	return pod
}

// removePod removes a pod, as a watch does.
func (s *simulatedCluster) removePod(uid types.UID) {
	old := s.cached[uid]
	s.cache.DeletePod(old)
	_ = s.podStore().Delete(old)
	delete(s.pods, uid)
	delete(s.cached, uid)
}

func (s *simulatedCluster) setPodGroup(group *v1beta1.PodGroup) {
	s.groups[nameOf(group)] = group
	s.cache.AddPodGroupV1beta1(group.DeepCopy())
}

func nameOf(object metav1.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()}
}

// applyPodGroups stores the PodGroups that the session wrote, and reports whether a phase changed.
func (s *simulatedCluster) applyPodGroups() (changed bool) {
	for _, name := range slices.SortedFunc(maps.Keys(s.written), compareNames) {
		group := s.written[name]
		if known := s.groups[name]; known != nil {
			changed = changed || known.Status.Phase != group.Status.Phase
			s.setPodGroup(group)
		}
	}
	clear(s.written)
	return changed
}

// applyPodStatuses stores the conditions and the nominated node that the session wrote on pods that wait. Other pods keep
// their status.
func (s *simulatedCluster) applyPodStatuses() {
	for uid, status := range s.statuses {
		if known := s.pods[uid]; known != nil && known.Spec.NodeName == "" {
			pod := known.DeepCopy()
			pod.Status.Conditions = status.Conditions
			pod.Status.NominatedNodeName = status.NominatedNodeName
			s.setPod(pod)
		}
	}
	clear(s.statuses)
}

func compareNames(a, b types.NamespacedName) int { return strings.Compare(a.String(), b.String()) }

// applyBindings starts the pods that the session placed, and reports whether there were any.
func (s *simulatedCluster) applyBindings() (changed bool) {
	for len(s.cache.BindFlowChannel) > 0 {
		binding := (<-s.cache.BindFlowChannel).TaskInfo
		known := s.pods[binding.Pod.UID]
		if known == nil || known.Spec.NodeName != "" { // it is gone, or runs already
			continue
		}

		pod := known.DeepCopy()
		now := metav1.Now()
		pod.Spec.NodeName = binding.NodeName
		pod.Annotations = maps.Clone(binding.Pod.Annotations) // the plugin adds the charged queue
		pod.Status.Phase = corev1.PodRunning
		pod.Status.StartTime = &now
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: now}}
		s.setPod(pod)
		s.placed[pod.UID] = true
		changed = true
	}
	return changed
}

// endTerminating removes the pods that are terminating, because they end in time, and reports whether there were any.
// Those that Volcano's job controller deletes only because it recreates them wait again.
func (s *simulatedCluster) endTerminating() (changed bool) {
	for uid, pod := range s.pods {
		if pod.DeletionTimestamp != nil || (workload.IsMarkedOutOfSync(pod) && workload.ManagedByVCJob(pod)) {
			s.removePod(uid)
			if metav1.GetControllerOf(pod) != nil && pod.DeletionTimestamp == nil {
				s.setPod(simulation.Recreate(pod))
			}
			changed = true
		}
	}
	return changed
}

// createPods creates the pods whose turn it is: those of Volcano jobs whose PodGroup has been enqueued,
// and those of a StatefulSet whose predecessors run. It reports whether it created any.
func (s *simulatedCluster) createPods() (changed bool) {
	// A workload leaves the list with its last pod.
	s.uncreated = slices.DeleteFunc(s.uncreated, func(waits simulation.Workload) bool {
		if waits.OneByOne {
			created, all := s.createNext(waits.Pods)
			changed = changed || created
			return all
		}

		if phase := s.groups[nameOf(waits.Group)].Status.Phase; phase == v1beta1.PodGroupPending || phase == "" {
			return false
		}

		for _, pod := range waits.Pods {
			s.setPod(pod)
		}

		changed = true
		return true
	})

	return changed
}

// createNext creates the first pod that does not exist, if the one before it runs. It reports whether
// it did, and whether all pods exist.
func (s *simulatedCluster) createNext(pods []*corev1.Pod) (created, all bool) {
	next := slices.IndexFunc(pods, func(pod *corev1.Pod) bool { return s.pods[pod.UID] == nil })
	if next < 0 {
		return false, true
	}
	if next > 0 && s.pods[pods[next-1].UID].Spec.NodeName == "" {
		return false, false
	}
	s.setPod(pods[next])
	return true, next == len(pods)-1
}

// statusWrites receive what Volcano's cache writes to the status of objects, in parallel.
type statusWrites struct {
	lock sync.Mutex
	// statuses are those of the pods that wait.
	statuses map[types.UID]corev1.PodStatus
	// written are the PodGroups of this session.
	written map[types.NamespacedName]*v1beta1.PodGroup
}

var _ cache.StatusUpdater = &statusWrites{}

// UpdatePodStatus keeps the status of a pod for the next session.
func (s *statusWrites) UpdatePodStatus(pod *corev1.Pod) (*corev1.Pod, error) {
	s.lock.Lock()
	defer s.lock.Unlock()
	s.statuses[pod.UID] = *pod.Status.DeepCopy()
	return pod, nil
}

// UpdatePodGroup keeps a PodGroup for the next session.
func (s *statusWrites) UpdatePodGroup(group *api.PodGroup) (*api.PodGroup, error) {
	out := &v1beta1.PodGroup{}
	if err := scheme.Scheme.Convert(&group.PodGroup, out, nil); err != nil {
		return nil, err
	}
	s.lock.Lock()
	defer s.lock.Unlock()
	s.written[nameOf(out)] = out
	return group, nil
}

// UpdateQueueStatus does nothing: sessions count themselves what queues use.
func (*statusWrites) UpdateQueueStatus(*api.QueueInfo) error { return nil }

// UpdateNodeShardStatus does nothing.
func (*statusWrites) UpdateNodeShardStatus(shard *nodeshardv1alpha1.NodeShard) (*nodeshardv1alpha1.NodeShard, error) {
	return shard, nil
}

// noBinder and noEvictor do nothing: the simulated cluster reads the decisions of a session itself.
type (
	noBinder  struct{}
	noEvictor struct{}
)

func (noBinder) Bind(kubernetes.Interface, []*api.TaskInfo) map[api.TaskID]string { return nil }

func (noEvictor) Evict(*corev1.Pod, string) error { return nil }

// startOf returns when a pod started, the zero time if it has not.
func startOf(pod *corev1.Pod) time.Time {
	if pod.Status.StartTime == nil {
		return time.Time{}
	}
	return pod.Status.StartTime.Time
}

// victim is a workload that lost pods, and the nodes on which it did.
type victim struct {
	simulation.Victim
	nodes map[string]bool
}

// addPod counts a pod that the workload lost, with what it was charged and the work since its start or a later checkpoint.
func (v *victim) addPod(pod *corev1.Pod, charge quota.Charge, checkpoint, now time.Time) {
	for _, amount := range charge.Cards {
		v.Cards[amount.Name] = v.Cards[amount.Name].Add(amount.Count)
		v.CardSeconds = quota.AddSaturating(v.CardSeconds, solver.PodLoss(int64(amount.Count), startOf(pod), checkpoint, now))
	}
	v.Pods++
	v.Queue = charge.Queue
	v.nodes[pod.Spec.NodeName] = true
}

// addVictim adds the workload of a pod as a victim that has lost no pods yet, and returns it.
func (s *simulatedCluster) addVictim(pod *corev1.Pod) *victim {
	v := &victim{nodes: map[string]bool{}}
	v.Workload = workload.ReferenceFor(pod)
	v.Cards = map[card.Name]card.Count{}
	s.victims = append(s.victims, v)
	return v
}

// simulatedJobs are all jobs of a snapshot, and how they react to evictions.
type simulatedJobs struct {
	// volcano are Volcano jobs by namespace and name, kubernetes what Kubernetes Jobs do.
	volcano    map[string]*batch.Job
	kubernetes map[types.UID]workload.FailureLimit
}

// newSimulatedJobs returns the Volcano jobs and Kubernetes Jobs of a snapshot, and the Volcano jobs of new workloads.
func newSimulatedJobs(c *simulation.Cluster, workloads []simulation.Workload) simulatedJobs {
	all := simulatedJobs{volcano: map[string]*batch.Job{}, kubernetes: map[types.UID]workload.FailureLimit{}}
	for _, job := range c.Jobs {
		all.volcano[job.Namespace+"/"+job.Name] = workload.StripVCJob(job)
	}

	for _, w := range workloads {
		if w.Job != nil {
			all.volcano[w.Job.Namespace+"/"+w.Job.Name] = workload.StripVCJob(w.Job)
		}
	}

	for _, job := range c.KubernetesJobs {
		all.kubernetes[job.UID] = workload.FailureLimitFor(job)
	}

	return all
}

// OpenSession does nothing: the jobs are known.
func (simulatedJobs) OpenSession(*framework.Session) bool { return true }

// VCJob returns a Volcano job.
func (j simulatedJobs) VCJob(namespace, name string) (*batch.Job, bool) {
	job, known := j.volcano[namespace+"/"+name]
	return job, known
}

// EvictionPolicyFor returns how a Volcano job reacts to evictions.
func (j simulatedJobs) EvictionPolicyFor(namespace, name string) (workload.EvictionPolicy, bool) {
	job, known := j.VCJob(namespace, name)
	if !known {
		return workload.EvictionPolicy{}, false
	}
	return workload.EvictionPolicyFor(job), true
}

// FailureLimitFor returns how many pods of a Kubernetes Job may fail.
func (j simulatedJobs) FailureLimitFor(_, _ string, uid types.UID) (workload.FailureLimit, bool) {
	limit, known := j.kubernetes[uid]
	return limit, known
}
