package queueusage

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/waiting"
	"cardquota.dev/operator/internal/workload"
)

// PodFacts keeps what a count reads from pods for the next count. Its key is the object: nothing
// changes the objects of a watch's cache, and a changed pod is another object. The zero value is
// empty. It is not safe for concurrent use.
type PodFacts struct {
	// Requests depend on these two as well.
	inventory  *card.Inventory
	schedulers []string
	pods       map[*corev1.Pod]*podFacts
	groups     map[types.NamespacedName]*groupRecord
	// newlyCharged are the pods with cards that had no charge before the last count.
	newlyCharged []waiting.ChargedPod
	// billed are the pods that used cards by the last count, ending the charges of those that were terminating.
	billed []BilledPod
	ending map[types.UID]*quota.Charge
}

// podFacts is what a count reads from one pod.
type podFacts struct {
	request   workload.Request
	reference v1alpha1.WorkloadReference
	// group is the PodGroup that the pod names, nil if it names none.
	group *groupRecord
	// charge is that of the last two counts with these facts, nil if it differed or had no queue.
	charge *quota.Charge
	// stated is what the scheduler stated last of a pod that waits.
	stated waiting.LastStated
}

// groupOrNil returns the PodGroup of the pod, nil if it names none or none exists.
func (f *podFacts) groupOrNil() *v1beta1.PodGroup {
	if f.group == nil {
		return nil
	}
	return f.group.group
}

// groupRecord is a PodGroup, nil if it does not exist, and whether it has unfinished pods in this
// count. These count as pending then, not the request of the PodGroup.
type groupRecord struct {
	group   *v1beta1.PodGroup
	hasPods bool
}

// beginCount prepares a count: it takes over the PodGroups, and forgets what the last count found of them. It drops all
// facts when the requests depend on another inventory or other schedulers now, or when many may be of objects that are
// gone. The charges of terminating pods stay: once a node is gone, nothing else says which cards they use.
func (f *PodFacts) beginCount(input *Input) {
	// nil schedulers are all schedulers, and an empty list is none.
	isSame := f.inventory == input.Inventory && slices.Equal(f.schedulers, input.Schedulers) && (f.schedulers == nil) == (input.Schedulers == nil)

	// To find facts of deleted pods one by one would cost a look at all facts in each count. Dropping all,
	// once a sixteenth more are kept than pods exist, bounds them as well. With few pods 100 more do no harm.
	most := len(input.Pods) + len(input.Pods)/16 + 100
	if !isSame || f.pods == nil || len(f.pods) > most || len(f.groups) > most+2*len(input.PodGroups) {
		*f = PodFacts{
			inventory: input.Inventory, schedulers: input.Schedulers,
			pods:   make(map[*corev1.Pod]*podFacts, len(input.Pods)),
			groups: make(map[types.NamespacedName]*groupRecord, len(input.PodGroups)),
			ending: f.ending,
		}
	}

	f.newlyCharged = nil
	for _, record := range f.groups {
		*record = groupRecord{}
	}

	for _, group := range input.PodGroups {
		f.recordOf(types.NamespacedName{Namespace: group.Namespace, Name: group.Name}).group = group
	}
}

// recordOf returns the record of a PodGroup, a new one if there is none.
func (f *PodFacts) recordOf(key types.NamespacedName) *groupRecord {
	record := f.groups[key]
	if record == nil {
		record = &groupRecord{}
		f.groups[key] = record
	}
	return record
}

// Request returns what a pod requests. It reads an object once, as a count does.
func (f *PodFacts) Request(resolver *workload.Resolver, pod *corev1.Pod) *workload.Request {
	return &f.factsOf(resolver, pod).request
}

// factsOf returns what a count reads from a pod. It reads an object once, since a changed pod is another object.
func (f *PodFacts) factsOf(resolver *workload.Resolver, pod *corev1.Pod) *podFacts {
	facts := f.pods[pod]
	if facts == nil {
		facts = &podFacts{request: resolver.Request(pod), reference: workload.ReferenceFor(pod)}
		if name := workload.PodGroupName(pod); name != "" {
			facts.group = f.recordOf(types.NamespacedName{Namespace: pod.Namespace, Name: name})
		}
		f.pods[pod] = facts
	}
	return facts
}
