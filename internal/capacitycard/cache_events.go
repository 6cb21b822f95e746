package capacitycard

import (
	"cmp"
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"

	"cardquota.dev/operator/internal/workload"
)

// voice tells users why something waits, once per reason and not once per
// session: Volcano asks in each, and a user reads one sentence.
type voice struct {
	mutex    sync.Mutex
	recorder record.EventRecorder
	said     map[types.UID]*sentence
	session  uint64
}

// sentence is what an object was told last. Its text stays while only the
// running total moved, so that a busy queue does not rewrite every waiting pod.
type sentence struct {
	topic   string
	text    string
	session uint64
}

func newVoice() *voice { return &voice{said: map[types.UID]*sentence{}} }

// say returns the sentence for an object and whether it is new.
func (v *voice) say(uid types.UID, refusal *workload.Refusal) (text string, isNew bool) {
	v.mutex.Lock()
	defer v.mutex.Unlock()
	topic := cmp.Or(refusal.Topic, refusal.Reason+refusal.Message)
	if s, ok := v.said[uid]; ok && s.topic == topic {
		s.session = v.session
		return s.text, false
	}
	v.said[uid] = &sentence{topic: topic, text: refusal.Message, session: v.session}
	return refusal.Message, true
}

// forget lets the next refusal of an object be told again.
func (v *voice) forget(uid types.UID) {
	v.mutex.Lock()
	defer v.mutex.Unlock()
	delete(v.said, uid)
}

// sweep forgets objects that were not refused for two sessions; refused again,
// they are told again.
func (v *voice) sweep() {
	v.mutex.Lock()
	defer v.mutex.Unlock()
	for uid, s := range v.said {
		if s.session+1 < v.session {
			delete(v.said, uid)
		}
	}
	v.session++
}

// events returns the recorder, with a source of its own: Volcano's scheduler
// spends the budget of its source on one warning per PodGroup and session.
func (v *voice) events(client kubernetes.Interface) record.EventRecorder {
	v.mutex.Lock()
	defer v.mutex.Unlock()
	if v.recorder == nil && client != nil {
		broadcaster := record.NewBroadcaster()
		broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: client.CoreV1().Events(metav1.NamespaceAll)})
		v.recorder = broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: PluginName})
	}
	return v.recorder
}

// mark sets the pod's condition PodScheduled, outside the session, because it
// asks the API server. What could not be written is said again.
func (v *voice) mark(client kubernetes.Interface, pod *corev1.Pod, refusal *workload.Refusal) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	changed := podutil.UpdatePodCondition(&pod.Status, &corev1.PodCondition{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: refusal.Message,
	})
	if !changed || client == nil {
		return
	}
	if _, err := client.CoreV1().Pods(pod.Namespace).UpdateStatus(ctx, pod, metav1.UpdateOptions{}); err != nil {
		klog.V(2).InfoS("Cannot set a pod's condition yet", "pod", klog.KObj(pod), "err", err)
		v.forget(pod.UID)
	}
}
