package liveness

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
)

// apiServer has the pods and PodGroups of the API server, and the changes that watches have
// not seen yet. The fake clients allow one call at a time. Pods and PodGroups are independent
// here, since each has its own client.
type apiServer struct {
	pods   kind[*corev1.Pod]
	groups kind[*v1beta1.PodGroup]
	// resync are pods whose binding or eviction failed.
	resync map[string]bool
	// due is the first session in which a terminating pod may have ended.
	due     map[types.UID]int
	session int
}

// kind has the objects of one kind, by name.
type kind[Object metav1.Object] struct {
	objects map[string]Object
	version int
	// unseen are changes in their order.
	unseen []change[Object]
	// percent of the writes fail.
	percent int
	seed    string
	tries   map[string]int
}

// change is the new state of an object, or none when it is gone.
type change[Object metav1.Object] struct {
	name string
	now  Object
	gone bool
}

func newServer() *apiServer {
	return &apiServer{
		pods:   kind[*corev1.Pod]{objects: map[string]*corev1.Pod{}, tries: map[string]int{}},
		groups: kind[*v1beta1.PodGroup]{objects: map[string]*v1beta1.PodGroup{}, tries: map[string]int{}},
		due:    map[types.UID]int{}, resync: map[string]bool{},
	}
}

// sortedNames returns the names of the objects.
func (k *kind[Object]) sortedNames() []string { return slices.Sorted(maps.Keys(k.objects)) }

// store stores an object; the caller must not use it afterwards.
func (k *kind[Object]) store(object Object) {
	k.version++
	object.SetResourceVersion(fmt.Sprint(k.version))
	k.objects[object.GetName()] = object
	k.unseen = append(k.unseen, change[Object]{name: object.GetName(), now: any(object).(runtime.Object).DeepCopyObject().(Object)})
}

func (k *kind[Object]) remove(name string) {
	delete(k.objects, name)
	k.unseen = append(k.unseen, change[Object]{name: name, gone: true})
}

// Faults of a write.
const (
	done = iota
	refused
	// unheard is carried out, but the caller gets an error.
	unheard
)

// drawFault draws the fault of a write to an object. It depends only on the seed and on the
// number of attempts, not on concurrent writes.
func (k *kind[Object]) drawFault(verb, name string) int {
	if k.percent == 0 {
		return done
	}

	key := verb + " " + name
	k.tries[key]++
	h := fnv.New64a()
	fmt.Fprint(h, k.seed, key, k.tries[key])

	switch n := int(h.Sum64() >> 16 % 100); {
	case n < k.percent*3/4:
		return refused
	case n < k.percent:
		return unheard
	}

	return done
}

var (
	errRefused = apierrors.NewInternalError(errors.New("the API server is overloaded"))
	errUnheard = apierrors.NewTimeoutError("the API server did not answer in time", 1)
	podsOf     = corev1.Resource("pods")
)

// withFault carries out a write unless the fault refuses it, and returns the answer.
func withFault(fault int, write func() error) error {
	if fault == refused {
		return errRefused
	}
	if err := write(); err != nil {
		return err
	}
	if fault == unheard {
		return errUnheard
	}
	return nil
}

// answerPods answers the scheduler's calls about pods.
func (s *apiServer) answerPods(action clienttesting.Action) (bool, runtime.Object, error) {
	k := &s.pods
	var pod *corev1.Pod
	var err error

	switch a := action.(type) {
	case clienttesting.GetActionImpl:
		known, err := s.getPod(a.Name)
		return true, known, err
	case clienttesting.CreateActionImpl:
		b := a.Object.(*corev1.Binding)
		err = withFault(k.drawFault("bind", b.Name), func() error { return s.bindPod(b) })
		s.resync[b.Name] = s.resync[b.Name] || err != nil
		return true, b, err
	case clienttesting.UpdateActionImpl:
		pod = a.Object.(*corev1.Pod)
		err = withFault(k.drawFault("update", pod.Name), func() error { return s.updateStatus(pod) })
		s.resync[pod.Name] = s.resync[pod.Name] || (err != nil && pod.Spec.NodeName != "")
	case clienttesting.PatchActionImpl:
		err = withFault(k.drawFault("patch", a.Name), func() error { return s.patchStatus(a.Name, a.Patch) })
		pod = &corev1.Pod{}
	case clienttesting.DeleteActionImpl:
		err = withFault(k.drawFault("delete", a.Name), func() error { return s.deleteFor(a.Name, a.DeleteOptions.Preconditions) })
		pod = &corev1.Pod{}
		s.resync[a.Name] = s.resync[a.Name] || (err != nil && a.DeleteOptions.Preconditions == nil)
	default:
		return true, nil, fmt.Errorf("no answer is implemented for %v", action)
	}

	if err != nil {
		return true, nil, err
	}

	return true, pod, nil
}

// getPod returns a copy of a pod.
func (s *apiServer) getPod(name string) (runtime.Object, error) {
	known, is := s.pods.objects[name]
	switch {
	case s.pods.drawFault("get", name) != done:
		return nil, errRefused
	case !is:
		return nil, apierrors.NewNotFound(podsOf, name)
	}
	return known.DeepCopy(), nil
}

// bindPod gives a pod its node.
func (s *apiServer) bindPod(b *corev1.Binding) error {
	known, is := s.pods.objects[b.Name]
	switch {
	case !is:
		return apierrors.NewNotFound(podsOf, b.Name)
	case known.UID != b.UID || known.Spec.NodeName != "" || known.DeletionTimestamp != nil:
		return apierrors.NewConflict(podsOf, b.Name, errors.New("the pod cannot be assigned to a node"))
	}

	s.changePod(b.Name, func(p *corev1.Pod) {
		p.Spec.NodeName = b.Target.Name
		maps.Copy(p.Annotations, b.Annotations)
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()})
	})

	return nil
}

// updateStatus replaces the status of a pod that did not change meanwhile.
func (s *apiServer) updateStatus(pod *corev1.Pod) error {
	known, is := s.pods.objects[pod.Name]
	switch {
	case !is:
		return apierrors.NewNotFound(podsOf, pod.Name)
	case known.ResourceVersion != pod.ResourceVersion:
		return apierrors.NewConflict(podsOf, pod.Name, errors.New("the pod has been modified"))
	}
	s.changePod(pod.Name, func(p *corev1.Pod) { p.Status = *pod.Status.DeepCopy() })
	return nil
}

// patchStatus merges conditions and annotations into a pod.
func (s *apiServer) patchStatus(name string, text []byte) error {
	var patch struct {
		Metadata struct {
			UID         types.UID
			Annotations map[string]string
		}
		Status struct{ Conditions []corev1.PodCondition }
	}
	if err := json.Unmarshal(text, &patch); err != nil {
		return fmt.Errorf("read patch: %w", err)
	}

	known, is := s.pods.objects[name]
	switch {
	case !is:
		return apierrors.NewNotFound(podsOf, name)
	case known.UID != patch.Metadata.UID:
		return apierrors.NewConflict(podsOf, name, errors.New("the UID is another one"))
	}

	s.changePod(name, func(p *corev1.Pod) {
		maps.Copy(p.Annotations, patch.Metadata.Annotations)
		for _, c := range patch.Status.Conditions {
			p.Status.Conditions = slices.DeleteFunc(p.Status.Conditions, func(old corev1.PodCondition) bool { return old.Type == c.Type })
			p.Status.Conditions = append(p.Status.Conditions, c)
		}
	})

	return nil
}

func (s *apiServer) deleteFor(name string, preconditions *metav1.Preconditions) error {
	known, is := s.pods.objects[name]
	switch {
	case !is:
		return apierrors.NewNotFound(podsOf, name)
	case preconditions != nil && preconditions.UID != nil && *preconditions.UID != known.UID:
		return apierrors.NewConflict(podsOf, name, errors.New("the UID is another one"))
	}
	s.deletePod(name)
	return nil
}

// deletePod starts the termination of a pod; a pod without a node is gone at once.
func (s *apiServer) deletePod(name string) {
	switch known := s.pods.objects[name]; {
	case known == nil:
	case known.Spec.NodeName == "":
		s.pods.remove(name)
	case known.DeletionTimestamp == nil:
		s.due[known.UID] = s.session + 1
		s.changePod(name, func(p *corev1.Pod) {
			p.DeletionTimestamp = ptr.To(metav1.NewTime(time.Now().Add(gracePeriodOf(p))))
		})
	}
}

// hasEnded reports whether a terminating pod has had its time. Pods with names of odd length take a little
// longer.
func (s *apiServer) hasEnded(pod *corev1.Pod) bool {
	ends := pod.DeletionTimestamp.Time
	if len(pod.Name)%2 == 1 {
		ends = ends.Add(1500 * time.Millisecond)
	}
	return s.session >= s.due[pod.UID] && !time.Now().Before(ends)
}

func gracePeriodOf(pod *corev1.Pod) time.Duration {
	return time.Duration(ptr.Deref(pod.Spec.TerminationGracePeriodSeconds, 0)) * time.Second
}

// changePod changes a pod.
func (s *apiServer) changePod(name string, change func(*corev1.Pod)) {
	pod := s.pods.objects[name].DeepCopy()
	change(pod)
	s.pods.store(pod)
}

// answerGroups answers Volcano's updates of PodGroups.
func (s *apiServer) answerGroups(action clienttesting.Action) (bool, runtime.Object, error) {
	group := action.(clienttesting.UpdateAction).GetObject().(*v1beta1.PodGroup)
	err := withFault(s.groups.drawFault("update", group.Name), func() error {
		known, is := s.groups.objects[group.Name]
		resource := v1beta1.Resource("podgroups")
		switch {
		case !is:
			return apierrors.NewNotFound(resource, group.Name)
		case known.ResourceVersion != group.ResourceVersion:
			return apierrors.NewConflict(resource, group.Name, errors.New("the PodGroup has been modified"))
		}
		s.groups.store(group.DeepCopy())
		return nil
	})
	if err != nil {
		return true, nil, err
	}

	return true, s.groups.objects[group.Name].DeepCopy(), nil
}
