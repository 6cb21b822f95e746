//go:build !windows

package simulator

import (
	"cmp"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/framework"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/scheduler/loss"
	"cardquota.dev/operator/internal/simulation"
	"cardquota.dev/operator/internal/waiting"
	"cardquota.dev/operator/internal/workload"
)

// evictions are what a session evicted, by job, and the nodes of the pods that it promised a place.
type evictions struct {
	tasks    [][]*api.TaskInfo
	promised []*api.TaskInfo
}

// readEvictions reads the evictions of an open session, in the order of job UIDs and pod names, so that simulations are
// reproducible. Pods that were terminating before are no evictions.
func readEvictions(ssn *framework.Session) evictions {
	var found evictions
	jobs := slices.SortedFunc(maps.Values(ssn.Jobs), func(a, b *api.JobInfo) int { return cmp.Compare(a.UID, b.UID) })
	for _, job := range jobs {
		var evicted []*api.TaskInfo
		for _, task := range sortedTasks(job.TaskStatusIndex[api.Releasing]) {
			if task.Pod.DeletionTimestamp == nil && !workload.IsMarkedOutOfSync(task.Pod) {
				evicted = append(evicted, task)
			}
		}

		if len(evicted) > 0 {
			found.tasks = append(found.tasks, evicted)
		}
		found.promised = append(found.promised, sortedTasks(job.TaskStatusIndex[api.Pipelined])...)
	}

	return found
}

func sortedTasks(tasks map[api.TaskID]*api.TaskInfo) []*api.TaskInfo {
	return slices.SortedFunc(maps.Values(tasks), func(a, b *api.TaskInfo) int { return cmp.Compare(a.Name, b.Name) })
}

// applyEvictions ends the evicted pods, and records their jobs as victims. Their controllers create new ones, which wait.
// It reports whether anything was evicted.
func (s *simulatedCluster) applyEvictions(found evictions) bool {
	if len(found.tasks) == 0 {
		return false
	}

	resolver := s.resolver()
	for _, tasks := range found.tasks {
		evicted := s.knownPods(tasks)
		if len(evicted) == 0 {
			continue
		}

		v := s.addVictim(evicted[0])
		checkpoint := s.lastCheckpoint(evicted)
		for _, pod := range evicted {
			v.addPod(pod, resolver.Usage(pod, s.groups[groupOf(pod)], nil), checkpoint, s.now)
			// No time passes in a simulation, so a victim ends before the next session.
			s.removePod(pod.UID)
			if s.isRecreated(pod) {
				again := simulation.Recreate(pod)
				s.restarted[again.UID] = v
				s.setPod(again)
			}
		}

		// The victim's cards are for the pods to which the session promised a place on its nodes.
		for _, task := range found.promised {
			if name := workload.ReferenceFor(task.Pod); v.nodes[task.NodeName] && !slices.Contains(v.For, name) {
				v.For = append(v.For, name)
			}
		}
	}

	return true
}

// knownPods returns the pods of those tasks that the simulated cluster has.
func (s *simulatedCluster) knownPods(tasks []*api.TaskInfo) []*corev1.Pod {
	var pods []*corev1.Pod
	for _, task := range tasks {
		if pod := s.pods[task.Pod.UID]; pod != nil {
			pods = append(pods, pod)
		}
	}
	return pods
}

// isRecreated reports whether a controller creates a new pod after an eviction.
func (s *simulatedCluster) isRecreated(pod *corev1.Pod) bool {
	if metav1.GetControllerOf(pod) == nil {
		return false
	}
	policy, known := s.jobs.EvictionPolicyFor(pod.Namespace, workload.VCJobOwner(pod))
	return !known || !policy.Terminates
}

func groupOf(pod *corev1.Pod) types.NamespacedName {
	return types.NamespacedName{Namespace: pod.Namespace, Name: workload.PodGroupName(pod)}
}

// lastCheckpoint returns the last checkpoint of the job that pods belong to.
func (s *simulatedCluster) lastCheckpoint(pods []*corev1.Pod) time.Time {
	var written []map[string]string
	if group := s.groups[groupOf(pods[0])]; group != nil {
		written = append(written, group.Annotations)
	}
	for _, pod := range pods {
		written = append(written, pod.Annotations)
	}
	return loss.LatestCheckpoint(written...)
}

func (s *simulatedCluster) resolver() workload.Resolver {
	return workload.Resolver{Inventory: s.cluster.Inventory()}
}

// fill sets in a result what became of the new workloads, of drained pods, of others that waited, and of victims.
func (s *simulatedCluster) fill(result *simulation.Result) {
	result.Sessions = s.session
	resolver := s.resolver()
	isNew := map[types.UID]bool{}

	blocked := simulation.BlockedByWorkload(s.cluster.Blocked(s.newAndDrained()))
	for _, added := range s.workloads {
		for _, pod := range added.Pods {
			isNew[pod.UID] = true
			result.Pods = append(result.Pods, s.placementOf(&resolver, blocked, pod))
		}
	}

	drained := s.fillDrained(result, &resolver, blocked)
	others := s.fillPlaced(result, isNew, drained)
	result.OthersPlaced = len(others)
	result.Others = s.startedWorkloads(&resolver, others)
	if len(s.workloads) == 0 { // without new workloads, the question is why pods of the cluster wait
		result.Waiting = s.cluster.Blocked(slices.Collect(maps.Values(s.pods)), slices.Collect(maps.Values(s.groups)))
	}

	for _, v := range s.victims {
		result.Victims = append(result.Victims, v.Victim)
	}
}

// fillDrained sets in a result what became of the pods of drained nodes, except how many are placed, which fillPlaced
// counts. It returns the pods that were created in their place.
func (s *simulatedCluster) fillDrained(result *simulation.Result, resolver *workload.Resolver, blocked map[v1alpha1.WorkloadReference][]v1alpha1.BlockedStatus) map[types.UID]bool {
	drained := map[types.UID]bool{}
	for _, evicted := range s.cluster.Evicted {
		if evicted.Successor == "" {
			result.DrainedEnded++
			continue
		}
		drained[evicted.Successor] = true
		if pod := s.pods[evicted.Successor]; pod != nil && pod.Spec.NodeName == "" {
			result.DrainedWaiting = append(result.DrainedWaiting, s.placementOf(resolver, blocked, pod))
		}
	}

	result.DrainedPods = len(drained)
	return drained
}

// fillPlaced counts the pods that got a node in the place of evicted ones: for each victim, and in a result
// those of drained, which were created in the place of drained pods. It returns the other pods that got a
// node: those that waited in the cluster before. Pods of new workloads (isNew) do not count.
func (s *simulatedCluster) fillPlaced(result *simulation.Result, isNew, drained map[types.UID]bool) (others []*corev1.Pod) {
	for uid := range s.placed {
		pod := s.pods[uid]
		if pod == nil || isNew[uid] {
			continue
		}

		v := s.restarted[uid]
		if v != nil {
			v.Restarted++
		}

		switch {
		case drained[uid]:
			result.DrainedPlaced++
		case v == nil:
			others = append(others, pod)
		}
	}

	return others
}

// placedWithClaims returns the pods with ResourceClaims that a session placed, sorted.
func (s *simulatedCluster) placedWithClaims() []types.NamespacedName {
	var names []types.NamespacedName
	for uid := range s.placed {
		if pod := s.pods[uid]; pod != nil && len(pod.Spec.ResourceClaims) > 0 {
			names = append(names, nameOf(pod))
		}
	}
	slices.SortFunc(names, compareNames)
	return names
}

// startedWorkloads returns the workloads of pods that a session placed, sorted by queue and name.
func (s *simulatedCluster) startedWorkloads(resolver *workload.Resolver, pods []*corev1.Pod) []simulation.Started {
	byReference := map[v1alpha1.WorkloadReference]*simulation.Started{}
	var all []*simulation.Started
	for _, pod := range pods {
		reference := workload.ReferenceFor(pod)
		started := byReference[reference]
		if started == nil {
			started = &simulation.Started{Workload: reference, Cards: map[card.Name]card.Count{}}
			byReference[reference] = started
			all = append(all, started)
		}

		charge := resolver.Usage(pod, s.groups[groupOf(pod)], nil)
		started.Queue = charge.Queue
		started.Pods++
		for _, amount := range charge.DistinctCards() {
			started.Cards[amount.Name] = started.Cards[amount.Name].Add(amount.Count)
		}

		if !slices.Contains(started.Nodes, pod.Spec.NodeName) {
			started.Nodes = append(started.Nodes, pod.Spec.NodeName)
		}
	}

	slices.SortFunc(all, func(a, b *simulation.Started) int {
		return cmp.Or(cmp.Compare(a.Queue, b.Queue), cmp.Compare(a.Workload.Namespace, b.Workload.Namespace),
			cmp.Compare(a.Workload.Kind, b.Workload.Kind), cmp.Compare(a.Workload.Name, b.Workload.Name))
	})

	out := make([]simulation.Started, len(all))
	for i, started := range all {
		slices.Sort(started.Nodes)
		out[i] = *started
	}

	return out
}

// newAndDrained returns the pods for which fill needs reasons for waiting, with their PodGroups: those of new
// workloads and those created in the place of drained pods. It also returns all pods that run, because they
// use the cards.
func (s *simulatedCluster) newAndDrained() ([]*corev1.Pod, []*v1beta1.PodGroup) {
	var pods []*corev1.Pod
	groups := map[types.NamespacedName]*v1beta1.PodGroup{}
	isShown := map[types.UID]bool{}
	for _, evicted := range s.cluster.Evicted {
		isShown[evicted.Successor] = true
	}

	for _, added := range s.workloads {
		if added.Group != nil {
			groups[nameOf(added.Group)] = s.groups[nameOf(added.Group)]
		}
		for _, pod := range added.Pods {
			isShown[pod.UID] = true
		}
	}

	for uid, pod := range s.pods {
		if pod.Spec.NodeName == "" && !isShown[uid] {
			continue
		}
		pods = append(pods, pod)
		if group := s.groups[groupOf(pod)]; group != nil && isShown[uid] {
			groups[nameOf(group)] = group
		}
	}

	return pods, slices.Collect(maps.Values(groups))
}

// placementOf returns where a pod runs after the last session, or why it waits. blocked are the reasons of all workloads.
func (s *simulatedCluster) placementOf(resolver *workload.Resolver, blocked map[v1alpha1.WorkloadReference][]v1alpha1.BlockedStatus, pod *corev1.Pod) simulation.Placement {
	p := simulation.Placement{Namespace: pod.Namespace, Name: pod.Name}
	created := s.pods[pod.UID] // nil if the pod was not created
	group := s.groups[groupOf(pod)]
	if created != nil && created.Spec.NodeName != "" {
		p.Node = created.Spec.NodeName
		p.Cards = resolver.Usage(created, group, nil).Cards
		return p
	}

	if created != nil {
		for _, c := range created.Status.Conditions {
			if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
				p.Message = c.Message
			}
		}
	}

	p.Reason, p.Message = waiting.ReasonIn(blocked[workload.ReferenceFor(pod)], p.Message)
	if p.Reason != "" {
		return p
	}

	// In these cases the scheduler states nothing, so the simulation says why.
	p.Reason = v1alpha1.BlockedOther
	queue := resolver.Queue(pod, group, "")
	switch isKnown := slices.ContainsFunc(s.cluster.Queues, func(q *v1beta1.Queue) bool { return q.Name == queue }); {
	case !isKnown:
		p.Reason = v1alpha1.BlockedQueueNotFound
		p.Message = (&workload.Refusal{Code: workload.CodeQueueNotFound, Queue: queue}).Message()
	case len(pod.Spec.SchedulingGates) > 0:
		p.Message = "it has scheduling gates, and waits until they are removed"
	case created == nil:
		p.Message = "Volcano creates it only after what comes before it"
	case p.Message == "":
		p.Message = "the scheduler states no reason"
	}

	return p
}
