package liveness

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// runControllers simulates the kubelets and the job controllers.
func (w *sequenceRun) runControllers() {
	for _, name := range w.server.pods.sortedNames() {
		if pod, is := w.server.pods.objects[name]; is { // it may have been deleted with its job
			w.actOn(name, pod)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(w.jobs)) {
		w.recreatePods(w.jobs[name])
	}
}

// actOn simulates the kubelet of a pod's node, or the controller of its job.
func (w *sequenceRun) actOn(name string, pod *corev1.Pod) {
	s := w.server

	switch works := w.isNodeUp(pod.Spec.NodeName); {
	case pod.DeletionTimestamp != nil && works && s.hasEnded(pod):
		w.removeEnded(name, pod)
	case pod.DeletionTimestamp != nil:
	case isMarkedForRecreation(pod) && len(pod.OwnerReferences) > 0:
		s.deletePod(name)
	case pod.Spec.NodeName != "" && pod.Status.Phase == corev1.PodPending && works:
		s.changePod(name, func(p *corev1.Pod) {
			p.Status.Phase = corev1.PodRunning
			p.Status.StartTime = ptr.To(metav1.Now())
		})
	}
}

// removeEnded removes a pod that has ended. A job that is not elastic restarts then.
func (w *sequenceRun) removeEnded(name string, pod *corev1.Pod) {
	w.server.pods.remove(name)
	if j := w.jobs[pod.Annotations["scheduling.k8s.io/group-name"]]; j != nil && j.inelastic && !isMarkedForRecreation(pod) {
		j.restarts = true
	}
}

// isNodeUp reports whether a node's kubelet runs.
func (w *sequenceRun) isNodeUp(node string) bool { return w.nodes[node] != nil && !w.down[node] }

// isMarkedForRecreation reports whether Volcano's job controller must recreate a pod.
func isMarkedForRecreation(pod *corev1.Pod) bool {
	return pod.Annotations["volcano.sh/controller-out-of-sync"] != ""
}

// recreatePods recreates the pods that a job lacks. A job that restarts loses all of them
// first.
func (w *sequenceRun) recreatePods(j *job) {
	for _, template := range j.pods {
		if _, is := w.server.pods.objects[template.Name]; is && j.restarts {
			w.server.deletePod(template.Name)
		}
	}

	j.restarts = j.restarts && slices.ContainsFunc(j.pods, func(template *corev1.Pod) bool {
		return w.server.pods.objects[template.Name] != nil
	})
	if j.restarts {
		return
	}

	for _, template := range j.pods {
		if _, is := w.server.pods.objects[template.Name]; is {
			continue
		}

		w.born++
		pod := template.DeepCopy()
		pod.UID = types.UID(fmt.Sprintf("%s#%d", template.UID, w.born))
		pod.CreationTimestamp = metav1.Now()
		pod.Spec.NodeName = ""
		pod.Status = corev1.PodStatus{Phase: corev1.PodPending}
		w.server.pods.store(pod)
	}
}
