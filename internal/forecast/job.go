package forecast

import (
	"cmp"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/waiting"
	"cardquota.dev/operator/internal/workload"
)

// job is what starts together: the pods of a PodGroup, a pod without one, or a PodGroup without pods.
type job struct {
	workload v1alpha1.WorkloadReference
	// queue is where it counts, "" for none. namesQueue is false if it counts there by its namespace.
	queue      string
	namesQueue bool
	created    metav1.Time
	// minimum is how many pods it needs to start.
	minimum int
	pods    []*podRequest
	// canBeEvicted reports whether every pod may be evicted for other queues.
	canBeEvicted bool
}

// podRequest is what one pod requests, or one part of what a PodGroup without pods requests.
type podRequest struct {
	key     string
	request quota.Request
	// denied is why the scheduler would refuse the pod wherever it is, nil if it would not.
	denied *workload.Refusal
	// used is what the pod uses, nil if it has no node.
	used []card.Amount
	// notOffered are the used cards that its node offers no more, see quota.Charge, all of a node that is not ready.
	notOffered []card.Amount
	// bypass says how the pod bypasses the schedulers that enforce quotas, "" if it does not.
	bypass string
	// placed is the card that the pod gets of its queue, "" for none. isPlaced is also true for pods without cards.
	placed   card.Name
	isPlaced bool
}

// isRunning reports whether a pod of the job has a node.
func (j *job) isRunning() bool {
	return slices.ContainsFunc(j.pods, func(p *podRequest) bool { return p.used != nil })
}

// compareAges orders jobs by when they were created. A workload may have several of one second: their pods order these, so
// that two forecasts of the same pods say the same.
func compareAges(a, b *job) int {
	return cmp.Or(a.created.Compare(b.created.Time), waiting.CompareWorkloads(&a.workload, &b.workload), cmp.Compare(a.firstKey(), b.firstKey()))
}

// firstKey returns the key of the first pod, "" without pods.
func (j *job) firstKey() string {
	if len(j.pods) == 0 {
		return ""
	}
	return j.pods[0].key
}

// jobKey is the PodGroup and the queue of a job. The pods of a PodGroup that has moved stay in the queue that is charged
// for them, and are a job of their own there.
type jobKey struct {
	group types.NamespacedName
	queue string
}

// readJobs returns the jobs of all pods and PodGroups that have or request cards, or that name a queue, the oldest
// first.
func (f *forecaster) readJobs() []*job {
	groups := make(map[types.NamespacedName]*v1beta1.PodGroup, len(f.input.PodGroups))
	for _, group := range f.input.PodGroups {
		groups[types.NamespacedName{Namespace: group.Namespace, Name: group.Name}] = group
	}

	all, hasPods := f.readPods(groups)
	for key, group := range groups {
		if !hasPods[key] && workload.IsPodGroupPending(group) {
			all = append(all, f.newJobWithoutPods(group))
		}
	}

	for _, one := range all {
		slices.SortFunc(one.pods, func(a, b *podRequest) int {
			return cmp.Or(cmp.Compare(a.placeInJob(), b.placeInJob()), cmp.Compare(a.key, b.key))
		})
	}
	slices.SortFunc(all, compareAges)
	return all
}

// placeInJob is 0 for a pod with a node, which comes first in its job, and 1 for one that waits.
func (p *podRequest) placeInJob() int {
	if p.used != nil {
		return 0
	}
	return 1
}

// readPods returns the jobs of all pods, in no order, and which PodGroups have pods: also such that end, or that a
// scheduling gate holds, as in a count.
func (f *forecaster) readPods(groups map[types.NamespacedName]*v1beta1.PodGroup) (all []*job, hasPods map[types.NamespacedName]bool) {
	jobs := map[jobKey]*job{}
	hasPods = map[types.NamespacedName]bool{}

	for _, pod := range f.input.Pods {
		groupKey := types.NamespacedName{Namespace: pod.Namespace, Name: workload.PodGroupName(pod)}
		if workload.IsFinished(pod) {
			continue
		}
		hasPods[groupKey] = true
		if !workload.IsAssigned(pod) && !workload.IsPending(pod) {
			continue
		}

		one := f.newJob(pod, groups[groupKey])
		if one == nil {
			continue
		}

		key := jobKey{groupKey, one.queue}
		of := jobs[key]
		if groupKey.Name == "" || of == nil {
			jobs[key] = one
			all = append(all, one)
		} else {
			of.add(one)
		}
	}
	return all, hasPods
}

// newJob returns a job with one pod, nil if it neither has or requests cards, nor names a queue.
func (f *forecaster) newJob(pod *corev1.Pod, group *v1beta1.PodGroup) *job {
	read := f.input.Facts.Request(&f.resolver, pod)
	charge, isCharged := f.input.Charges[pod.UID]
	queue := charge.Queue
	if !isCharged {
		queue = f.resolver.Queue(pod, group, "")
	}

	namesQueue := queue != ""
	hasCards := read.Count > 0 || read.Denied != nil || len(charge.Cards) > 0
	if !namesQueue && hasCards {
		queue = f.input.Namespaces.QueueFor(pod.Namespace)
	}
	if !namesQueue && !hasCards {
		return nil
	}

	request := f.newPodRequest(pod, read.Request, read.Denied)
	if isCharged {
		request.setUsed(&charge, f.hasHealthyCards(pod.Spec.NodeName))
	}
	if f.input.IgnoresComputeOfCardPods && hasCards {
		request.request.MilliCPU = 0
		request.request.Memory = 0
	}

	one := &job{
		workload: workload.ReferenceFor(pod), queue: queue, namesQueue: namesQueue, created: pod.CreationTimestamp, minimum: 1,
		pods: []*podRequest{request},
	}
	var groupAnnotations map[string]string
	if group != nil { // Volcano starts jobs in the order of their PodGroups, whatever became of the pods
		one.created = group.CreationTimestamp
		one.minimum = int(group.Spec.MinMember)
		groupAnnotations = group.Annotations
	}
	one.canBeEvicted = workload.IsEvictable(pod, groupAnnotations)
	return one
}

// newPodRequest returns what a pod requests, and how it bypasses the schedulers that enforce quotas.
func (f *forecaster) newPodRequest(pod *corev1.Pod, request quota.Request, denied *workload.Refusal) *podRequest {
	read := &podRequest{key: string(pod.UID), request: request, denied: denied, bypass: f.bypasses[pod.Namespace+"/"+pod.Name]}
	if !f.resolver.UsesOurScheduler(pod) {
		read.bypass = "schedulerName is " + pod.Spec.SchedulerName
	}
	return read
}

// setUsed sets what the pod uses. The card that it has comes first in its request: a quota for it suffices. isHealthy
// reports whether the cards of its node are among the healthy ones.
func (p *podRequest) setUsed(charge *quota.Charge, isHealthy bool) {
	p.used = charge.DistinctCards()
	p.notOffered = charge.NotOffered
	if !isHealthy {
		p.notOffered = p.used
	}
	if p.used == nil {
		p.used = []card.Amount{} // a pod without cards
		return
	}

	has := p.used[0]
	others := slices.DeleteFunc(slices.Clone(p.request.Names), func(name card.Name) bool { return name == has.Name })
	p.request.Names = append([]card.Name{has.Name}, others...)
	p.request.Count = has.Count
}

// add adds the pods of another job of the same PodGroup and queue.
func (j *job) add(other *job) {
	j.pods = append(j.pods, other.pods...)
	j.canBeEvicted = j.canBeEvicted && other.canBeEvicted
	j.namesQueue = j.namesQueue && other.namesQueue
	if other.created.Before(&j.created) {
		j.created = other.created
	}
	if waiting.CompareWorkloads(&other.workload, &j.workload) < 0 {
		j.workload = other.workload
	}
}

// newJobWithoutPods returns the job of a PodGroup that waits without pods. It starts with all that it requests.
func (f *forecaster) newJobWithoutPods(group *v1beta1.PodGroup) *job {
	request, denied := waiting.GroupRequest(&f.resolver, group)
	one := &job{
		workload: workload.ControllerReference(group, v1beta1.SchemeGroupVersion.Group, "PodGroup"), queue: workload.PodGroupQueue(group),
		namesQueue: true, created: group.CreationTimestamp,
	}

	for i, part := range request.Cards {
		one.pods = append(one.pods, &podRequest{
			key: group.Namespace + "/" + group.Name + "/" + strconv.Itoa(i), request: quota.Request{Names: part.Names, Count: part.Count}, denied: denied,
		})
	}
	one.minimum = len(one.pods)
	return one
}
