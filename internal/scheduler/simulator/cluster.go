//go:build !windows

package simulator

import (
	"context"
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
	"k8s.io/client-go/tools/record"
	"volcano.sh/apis/pkg/apis/scheduling/scheme"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	nodeshardv1alpha1 "volcano.sh/apis/pkg/apis/shard/v1alpha1"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/cache"

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

// newSimulatedCluster returns a simulated cluster before the first session: Volcano's cache has the objects of a snapshot,
// without what a drain evicts, and then new workloads. No client of a cluster is used.
func newSimulatedCluster(c *simulation.Cluster, workloads []simulation.Workload, now time.Time) *simulatedCluster {
	s := &simulatedCluster{
		cluster: c, workloads: workloads, now: now, pods: map[types.UID]*corev1.Pod{}, cached: map[types.UID]*corev1.Pod{}, groups: map[types.NamespacedName]*v1beta1.PodGroup{},
		placed: map[types.UID]bool{}, restarted: map[types.UID]*victim{}, jobs: newSimulatedJobs(c, workloads),
		statusWrites: statusWrites{statuses: map[types.UID]corev1.PodStatus{}, written: map[types.NamespacedName]*v1beta1.PodGroup{}},
	}

	s.cache = cache.NewCustomMockSchedulerCache(c.Schedulers[0], noBinder{}, noEvictor{}, &s.statusWrites, nil, &record.FakeRecorder{})
	missing := c.MissingPods()
	s.cache.BindFlowChannel = make(chan *cache.BindContext, len(c.Pods)+countPods(missing)+countPods(workloads)) // never full
	for _, class := range c.PriorityClasses {
		s.cache.AddPriorityClass(class)
	}

	informers := s.cache.SharedInformerFactory()
	addAll(informers.Core().V1().Namespaces().Informer().GetIndexer(), c.Namespaces)
	addAll(informers.Core().V1().Nodes().Informer().GetIndexer(), c.Nodes)
	addAll(informers.Scheduling().V1().PriorityClasses().Informer().GetIndexer(), c.PriorityClasses)
	addAll(informers.Policy().V1().PodDisruptionBudgets().Informer().GetIndexer(), c.Budgets)

	// Volcano's cache writes into its objects, so it gets copies.
	for _, node := range c.Nodes {
		_ = s.cache.AddOrUpdateNode(node.DeepCopy()) // always nil
	}

	for _, queue := range c.Queues {
		s.cache.AddQueueV1beta1(queue.DeepCopy())
		// Volcano writes the sum of all resources to the root queue. The client is a fake.
		_, _ = s.cache.VCClient().SchedulingV1beta1().Queues().Create(context.Background(), queue.DeepCopy(), metav1.CreateOptions{})
	}

	for _, group := range c.PodGroups {
		s.setPodGroup(group)
	}

	for _, pod := range c.Pods {
		// A scheduler's cache has no pods that wait for another scheduler.
		if !workload.IsFinished(pod) && (pod.Spec.NodeName != "" || slices.Contains(c.Schedulers, pod.Spec.SchedulerName)) {
			s.setPod(pod)
		}
	}

	s.applyDrain()
	s.addWorkloads(missing, now)
	for i, added := range workloads {
		// They are newer than what waits already, in the order of the files.
		s.addWorkloads([]simulation.Workload{added}, now.Add(time.Duration(i+1)*time.Millisecond))
	}

	return s
}

// countPods returns how many pods workloads have.
func countPods(workloads []simulation.Workload) (count int) {
	for _, w := range workloads {
		count += len(w.Pods)
	}
	return count
}

// addWorkloads adds the PodGroups of workloads, and those pods that are created at once. createPods creates the others
// when their turn comes.
func (s *simulatedCluster) addWorkloads(workloads []simulation.Workload, created time.Time) {
	for _, added := range workloads {
		if added.Group != nil && s.groups[nameOf(added.Group)] == nil {
			group := added.Group.DeepCopy()
			if group.CreationTimestamp.IsZero() {
				group.CreationTimestamp = metav1.NewTime(created)
			}
			s.setPodGroup(group)
		}

		switch {
		case added.WaitsForEnqueue:
			s.uncreated = append(s.uncreated, added)
		case added.OneByOne && len(added.Pods) > 1:
			s.setPod(added.Pods[0])
			s.uncreated = append(s.uncreated, added)
		default:
			for _, pod := range added.Pods {
				s.setPod(pod)
			}
		}
	}
}

// addAll adds objects to the store of an informer that does not run.
func addAll[Object metav1.Object](store clientcache.Indexer, objects []Object) {
	for _, object := range objects {
		_ = store.Add(object) // fails only for objects without a name
	}
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
