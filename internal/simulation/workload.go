package simulation

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	batch "volcano.sh/apis/pkg/apis/batch/v1alpha1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/validation"
	"cardquota.dev/operator/internal/workload"
)

// Workload is what a new object would become in the cluster.
type Workload struct {
	// Group is the PodGroup that Volcano creates, nil if the pods name one that exists.
	Group *v1beta1.PodGroup
	// Pods are those that the controller creates.
	Pods []*corev1.Pod
	// WaitsForEnqueue reports whether the controller creates the pods only after the PodGroup has been
	// enqueued, as that of Volcano jobs does.
	WaitsForEnqueue bool
	// OneByOne reports whether the controller creates a pod only after those before it run, as that of
	// StatefulSets does. It is set where that makes a difference: for gangs.
	OneByOne bool
	// Job is the Volcano job, nil for other kinds.
	Job *batch.Job
}

// MaxPods bounds the pods of all new workloads.
const MaxPods = 10000

// NewWorkloads returns what objects of files would become in a cluster. namespace is that of objects
// without one. It refuses other kinds than workloads.
func NewWorkloads(c *Cluster, objects []*unstructured.Unstructured, namespace string) ([]Workload, error) {
	m := newWorkloadMaker(c)
	for _, object := range objects {
		object = object.DeepCopy()
		if object.GetNamespace() == "" {
			object.SetNamespace(namespace)
		}

		if object.GetName() == "" {
			return nil, fmt.Errorf("%s without metadata.name: whatif needs one", object.GetKind())
		}

		// A file that was read from a cluster may have the values of an object there. Owners are found by
		// UID.
		object.SetCreationTimestamp(metav1.Time{})
		object.SetUID(types.UID(strings.Join([]string{"whatif", strings.ToLower(object.GetKind()), object.GetNamespace(), object.GetName()}, "-")))
		if err := m.add(object); err != nil {
			return nil, fmt.Errorf("%s %s/%s: %w", object.GetKind(), object.GetNamespace(), object.GetName(), err)
		}
	}

	if m.pods == 0 {
		return nil, errors.New("the files have no pods: write a Job of Volcano, Job, Deployment, StatefulSet or Pod")
	}

	// Files can be in any order, so PodGroups are looked for once all of them are read.
	for _, w := range m.workloads {
		if w.Group != nil {
			m.setNamespaceQueue(w.Group)
			continue
		}
		first := w.Pods[0]
		if name := workload.PodGroupName(first); m.podGroup(first.Namespace, name) == nil {
			return nil, fmt.Errorf("pod %s/%s names PodGroup %s, which does not exist: add it to the files", first.Namespace, first.Name, name)
		}
	}

	return m.workloads, nil
}

var errExists = errors.New("it exists already; whatif shows what a new one would do: give it another name")

// workloadMaker makes workloads of the objects of files, and of the jobs of a cluster whose pods are missing.
type workloadMaker struct {
	cluster   *Cluster
	workloads []Workload
	pods      int
	// taken are the names of pods, of the cluster and of new ones.
	taken map[types.NamespacedName]bool
	// groups are the PodGroups of the cluster and of new workloads.
	groups map[types.NamespacedName]*v1beta1.PodGroup
	// existing are the workloads that have pods in the cluster.
	existing map[v1alpha1.WorkloadReference]bool
	// admission is what the webhooks know.
	admission validation.WorkloadInput
}

// newWorkloadMaker returns a maker that knows the pods, controllers and PodGroups of a cluster, but has no workloads yet.
func newWorkloadMaker(c *Cluster) *workloadMaker {
	m := &workloadMaker{cluster: c, taken: map[types.NamespacedName]bool{}, groups: make(map[types.NamespacedName]*v1beta1.PodGroup, len(c.PodGroups)), existing: map[v1alpha1.WorkloadReference]bool{}, admission: c.admissionInput()}
	for _, pod := range c.Pods {
		m.existing[workload.ReferenceFor(pod)] = true
		m.taken[types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}] = true
	}
	for _, group := range c.PodGroups {
		m.addGroup(group)
	}
	return m
}

// add adds the workload of an object. It returns an error for a kind that whatif does not know.
func (m *workloadMaker) add(object *unstructured.Unstructured) error {
	switch kind := object.GroupVersionKind(); kind {
	case batch.SchemeGroupVersion.WithKind("Job"):
		return addAs(m, object, m.addVolcanoJob)
	case batchv1.SchemeGroupVersion.WithKind("Job"):
		return addAs(m, object, m.addJob)
	case appsv1.SchemeGroupVersion.WithKind("Deployment"):
		return addAs(m, object, m.addDeployment)
	case appsv1.SchemeGroupVersion.WithKind("StatefulSet"):
		return addAs(m, object, m.addStatefulSet)
	case corev1.SchemeGroupVersion.WithKind("Pod"):
		return addAs(m, object, m.addPod)
	case v1beta1.SchemeGroupVersion.WithKind("PodGroup"):
		return addAs(m, object, m.addPodGroup)
	default:
		return fmt.Errorf("%s is no kind that whatif knows: write a Job of Volcano, Job, Deployment, StatefulSet, Pod or PodGroup", kind)
	}
}

// addAs converts an object to its type, admits it as the webhooks do, and adds it. An unknown field is an error, because
// it is mostly a mistake in writing.
func addAs[T any, P interface {
	*T
	runtime.Object
}](m *workloadMaker, object *unstructured.Unstructured, add func(P) error) error {
	typed := P(new(T))
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object.Object, typed, true); err != nil {
		return fmt.Errorf("read: %w", err)
	}
	if err := m.admit(typed, object.GetNamespace()); err != nil {
		return err
	}
	return add(typed)
}

// addPodGroup adds a PodGroup for pods of the files that name it. It is not enqueued yet.
func (m *workloadMaker) addPodGroup(group *v1beta1.PodGroup) error {
	if m.podGroup(group.Namespace, group.Name) != nil {
		return errExists
	}
	if group.Spec.NetworkTopology != nil {
		return errors.New("whatif does not know the network topology: leave out spec.networkTopology")
	}

	group.Spec.Queue = cmp.Or(group.Spec.Queue, workload.DefaultQueue)
	if err := m.checkQueue(group.Spec.Queue); err != nil {
		return err
	}

	group.Status = v1beta1.PodGroupStatus{Phase: v1beta1.PodGroupPending}
	m.addWorkload(Workload{Group: group})
	return nil
}

// controller is an object that creates equal pods.
type controller struct {
	// owner is the object of the files. apiVersion, kind and named are those of the controller that the pods name: for a
	// Deployment, its ReplicaSet.
	owner                   metav1.Object
	apiVersion, kind, named string
	// podPrefix is the beginning of the names of its pods.
	podPrefix string
	replicas  int32
	oneByOne  bool
}

// addController adds the pods of a controller as one workload. Volcano makes one PodGroup of them. A controller without
// replicas adds nothing; one that has pods in the cluster is an error.
func (m *workloadMaker) addController(c *controller, template *corev1.PodTemplateSpec) error {
	if err := m.countPods(c.replicas); err != nil || c.replicas == 0 {
		return err
	}

	reference := metav1.OwnerReference{APIVersion: c.apiVersion, Kind: c.kind, Name: c.named, UID: c.owner.GetUID(), Controller: ptr.To(true)}
	w := Workload{}
	// Pods of the same controller in the cluster are found by a pod like theirs.
	like := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: c.owner.GetNamespace(), Labels: template.Labels, OwnerReferences: []metav1.OwnerReference{reference}}}
	if m.existing[workload.ReferenceFor(like)] {
		return errExists
	}

	for i := range c.replicas {
		pod := &corev1.Pod{ObjectMeta: *template.ObjectMeta.DeepCopy(), Spec: *template.Spec.DeepCopy()}
		pod.Namespace = c.owner.GetNamespace()
		pod.Name = fmt.Sprintf("%s-%d", c.podPrefix, i)
		pod.OwnerReferences = []metav1.OwnerReference{reference}
		w.Pods = append(w.Pods, pod)
	}

	least := int32(1) // the minimum of the PodGroup
	if text, written := c.owner.GetAnnotations()[v1beta1.VolcanoGroupMinMemberAnnotationKey]; written {
		if n, err := strconv.ParseInt(text, 10, 32); err == nil && n >= 0 { // otherwise Volcano ignores it
			least = int32(n)
		}
	}

	// Volcano keeps a PodGroup that exists, with its minimum.
	if group := m.podGroup(c.owner.GetNamespace(), workload.PodGroupName(w.Pods[0])); group != nil {
		least = group.Spec.MinMember
	}

	w.OneByOne = c.oneByOne && least > 1 // without a gang, each pod runs as soon as it exists
	return m.addPods(w, least, c.owner.GetAnnotations())
}

// newHash stands for the hash of a pod template, and for the random end of the name of a pod.
const newHash = "new"

// addDeployment adds the pods of a Deployment's ReplicaSet. The end of its name, a hash of the pod template, is made up.
func (m *workloadMaker) addDeployment(d *appsv1.Deployment) error {
	template := d.Spec.Template.DeepCopy()
	metav1.SetMetaDataLabel(&template.ObjectMeta, workload.PodTemplateHash, newHash)
	named := d.Name + "-" + newHash
	return m.addController(&controller{
		owner: d, apiVersion: appsv1.SchemeGroupVersion.String(), kind: "ReplicaSet", named: named, podPrefix: named, replicas: ptr.Deref(d.Spec.Replicas, 1),
	}, template)
}

// addStatefulSet adds the pods of a StatefulSet, which come one after the other unless its policy is Parallel.
func (m *workloadMaker) addStatefulSet(s *appsv1.StatefulSet) error {
	return m.addController(&controller{
		owner: s, apiVersion: appsv1.SchemeGroupVersion.String(), kind: "StatefulSet", named: s.Name, podPrefix: s.Name, replicas: ptr.Deref(s.Spec.Replicas, 1),
		oneByOne: s.Spec.PodManagementPolicy != appsv1.ParallelPodManagement,
	}, &s.Spec.Template)
}

// addJob adds the pods that a Kubernetes Job runs at the same time, no more than it needs in all.
func (m *workloadMaker) addJob(j *batchv1.Job) error {
	if ptr.Deref(j.Spec.Suspend, false) {
		return errors.New("it is suspended, so it has no pods: leave out spec.suspend")
	}
	parallelism := ptr.Deref(j.Spec.Parallelism, 1)
	count := min(parallelism, ptr.Deref(j.Spec.Completions, parallelism))
	return m.addController(&controller{
		owner: j, apiVersion: batchv1.SchemeGroupVersion.String(), kind: "Job", named: j.Name, podPrefix: j.Name + "-" + newHash, replicas: count,
	}, &j.Spec.Template)
}

// addPod adds a pod without a controller as a workload.
func (m *workloadMaker) addPod(pod *corev1.Pod) error {
	if err := m.countPods(1); err != nil {
		return err
	}
	return m.addPods(Workload{Pods: []*corev1.Pod{pod}}, 1, nil)
}

// countPods adds to the number of pods, and returns an error if that is more than MaxPods.
func (m *workloadMaker) countPods(count int32) error {
	if count < 0 {
		return fmt.Errorf("%d pods: write a number that is not negative", count)
	}
	m.pods += int(count)
	if m.pods > MaxPods {
		return fmt.Errorf("the files have more than %d pods: whatif is for less", MaxPods)
	}
	return nil
}

// addPods completes the pods of a workload as the API server does, and adds the workload. Volcano creates a PodGroup for
// them with a minimum of least pods, unless they name one: pkg/controllers/podgroup. annotations are those of their owner.
func (m *workloadMaker) addPods(w Workload, least int32, annotations map[string]string) error {
	for _, pod := range w.Pods {
		if err := m.completePod(pod); err != nil {
			return err
		}
	}

	first := w.Pods[0]
	if err := m.checkScheduler(first); err != nil {
		return err
	}

	if workload.PodGroupName(first) == "" {
		w.Group = newGroupFor(first, least, annotations)
		for _, pod := range w.Pods {
			metav1.SetMetaDataAnnotation(&pod.ObjectMeta, v1beta1.KubeGroupNameAnnotationKey, w.Group.Name)
		}
	}

	m.addWorkload(w)
	return nil
}

// checkScheduler returns an error for a pod of another scheduler, which this simulation knows nothing of.
func (m *workloadMaker) checkScheduler(pod *corev1.Pod) error {
	if slices.Contains(m.cluster.Schedulers, pod.Spec.SchedulerName) {
		return nil
	}
	return fmt.Errorf("its pods name the scheduler %s: whatif answers for %s, write schedulerName: %s",
		cmp.Or(pod.Spec.SchedulerName, corev1.DefaultSchedulerName), strings.Join(m.cluster.Schedulers, " and "), m.cluster.Schedulers[0])
}

// newGroupFor returns the PodGroup with a minimum of least pods that Volcano creates for pods without one. pod is the first
// of them, ofOwner the annotations of their owner. It is not enqueued yet.
func newGroupFor(pod *corev1.Pod, least int32, ofOwner map[string]string) *v1beta1.PodGroup {
	uid := pod.UID
	resources := timesRequests(pod, least)
	if owner := metav1.GetControllerOf(pod); owner != nil {
		uid = owner.UID
	}

	// Volcano inherits all of its prefix from the owner, but only a few keys from the pod.
	annotations := maps.Clone(ofOwner)
	maps.DeleteFunc(annotations, func(key, _ string) bool { return !strings.HasPrefix(key, v1beta1.AnnotationPrefix) })
	return &v1beta1.PodGroup{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: pod.Namespace, Name: batch.PodgroupNamePrefix + string(uid), UID: "whatif-group-" + uid, OwnerReferences: pod.OwnerReferences,
			Annotations: labels.Merge(annotations, handedDown(pod.Annotations, inheritedAnnotations)), Labels: handedDown(pod.Labels, inheritedLabels),
		},
		Spec: v1beta1.PodGroupSpec{
			MinMember: least, PriorityClassName: pod.Spec.PriorityClassName, MinResources: &resources, Queue: cmp.Or(pod.Annotations[v1beta1.QueueNameAnnotationKey], workload.DefaultQueue),
		},
		Status: v1beta1.PodGroupStatus{Phase: v1beta1.PodGroupPending},
	}
}
