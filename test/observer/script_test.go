package observer

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
)

// script plays changes into a machine. Its cluster has an H200 node, a 4090
// node, a node that does not name its cards, and the queue q with a quota of
// two H200.
type script struct {
	machine  *machine
	clock    time.Time
	revision int64
	log      []change
}

var began = time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)

func newScript() *script {
	var options Options
	options.complete()
	s := &script{machine: newMachine(options), clock: began}
	s.load(node("h200-0", "NVIDIA-H200"), node("rtx4090-0", "NVIDIA-GeForce-RTX-4090"), node("unnamed-0", ""), queue("q", `{"NVIDIA-H200":2}`))
	return s
}

func (s *script) load(objects ...client.Object) {
	for _, o := range objects {
		s.machine.load(o, s.clock)
	}
}

// wait lets time pass.
func (s *script) wait(d time.Duration) { s.clock = s.clock.Add(d) }

// write applies a change of an object.
func (s *script) write(object client.Object) { s.change(object, false) }

// remove deletes an object for good.
func (s *script) remove(object client.Object) { s.change(object, true) }

func (s *script) change(object client.Object, deleted bool) {
	s.revision++
	s.wait(time.Millisecond)
	c := change{revision: s.revision, deleted: deleted, seen: s.clock, object: object.DeepCopyObject().(client.Object)}
	s.log = append(s.log, c)
	s.machine.apply(c)
}

func (s *script) judge() []string { return s.machine.judge(s.clock) }

// place gives a pod a node.
func (s *script) place(p *corev1.Pod, node string) {
	s.write(p)
	p.Spec.NodeName = node
	s.write(p)
}

func node(name, model string) *corev1.Node {
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), Labels: map[string]string{}},
		Status:     corev1.NodeStatus{Allocatable: corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("8")}},
	}
	if model != "" {
		n.Labels["nvidia.com/gpu.product"], n.Labels["nvidia.com/gpu.memory"] = model, "1024"
	}
	return n
}

func queue(name, quota string) *v1beta1.Queue {
	q := &v1beta1.Queue{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("queue-" + name)},
		Status:     v1beta1.QueueStatus{State: v1beta1.QueueStateOpen},
	}
	if quota != "" {
		q.Annotations = map[string]string{v1alpha1.AnnotationCardQuota: quota}
	}
	return q
}

// pod asks for cards in queue q by its own annotation.
func pod(name, cards, request string) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "test", Name: name, UID: types.UID("pod-" + name),
			Annotations: map[string]string{v1alpha1.AnnotationQueueName: "q"},
		},
		Spec:   corev1.PodSpec{SchedulerName: "volcano", Containers: []corev1.Container{{Name: "c"}}},
		Status: corev1.PodStatus{Phase: corev1.PodPending},
	}
	if request != "" {
		p.Annotations[v1alpha1.AnnotationCardName] = request
	}
	if cards != "" {
		p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{"nvidia.com/gpu": resource.MustParse(cards)}
	}
	return p
}

func group(name, queue string) *v1beta1.PodGroup {
	return &v1beta1.PodGroup{
		ObjectMeta: metav1.ObjectMeta{Namespace: "test", Name: name, UID: types.UID("group-" + name)},
		Spec:       v1beta1.PodGroupSpec{Queue: queue},
		Status:     v1beta1.PodGroupStatus{Phase: v1beta1.PodGroupPending},
	}
}

func inGroup(p *corev1.Pod, group string) *corev1.Pod {
	p.Annotations[v1alpha1.AnnotationPodGroup] = group
	return p
}

func unscheduled(p *corev1.Pod, message string) *corev1.Pod {
	p.Status.Conditions = []corev1.PodCondition{{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: message,
	}}
	return p
}

func cardQuota(name string, cards ...v1alpha1.CardSpec) *v1alpha1.CardQuota {
	return &v1alpha1.CardQuota{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("cardquota-" + name), CreationTimestamp: metav1.NewTime(began)},
		Spec:       v1alpha1.CardQuotaSpec{Tenant: "t", ServiceType: "training", Cards: cards},
	}
}

// wantInvariants checks which invariants were found broken, in order.
func wantInvariants(t *testing.T, found []Violation, want ...Invariant) {
	t.Helper()
	same := len(found) == len(want)
	for i := range min(len(found), len(want)) {
		same = same && found[i].Invariant == want[i]
	}
	if !same {
		t.Errorf("found %v, want %v", found, want)
	}
}
