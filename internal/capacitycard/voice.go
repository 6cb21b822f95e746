package capacitycard

import (
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
	"volcano.sh/apis/pkg/apis/scheduling"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/api"

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
	topic := topicOf(refusal)
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

// topicOf is a refusal without its running total.
func topicOf(refusal *workload.Refusal) string {
	total := ", total would be <"
	if refusal.Reason == workload.ReasonCardsEnding {
		total = ": ending <"
	}
	before, rest, ok := strings.Cut(refusal.Message, total)
	if !ok {
		return refusal.Reason + refusal.Message
	}
	_, after, _ := strings.Cut(rest, ">")
	return refusal.Reason + before + after
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

func (p *plugin) event(object runtime.Object, refusal *workload.Refusal) {
	if recorder := p.memory.voice.events(p.ssn.KubeClient()); recorder != nil {
		recorder.Event(object, corev1.EventTypeWarning, refusal.Reason, refusal.Message)
	}
}

// tellPod says on a pod why it is refused: as an event when it is news, and
// through Volcano in the pod's condition PodScheduled.
func (p *plugin) tellPod(task *api.TaskInfo, refusal *workload.Refusal) {
	text, isNew := p.memory.voice.say(task.Pod.UID, refusal)
	if job, ok := p.ssn.Jobs[task.Job]; ok {
		fit := api.NewFitErrors()
		fit.SetError(text)
		job.NodesFitErrors[task.UID] = fit
	}
	if isNew && refusal.Reason != workload.ReasonNotReady {
		p.memory.meters.refused(p.ssn.Jobs[task.Job], refusal)
		p.event(task.Pod, refusal)
	}
}

// tellJob says on a PodGroup why it is not admitted. A vcjob has no pods then,
// so the PodGroup's event and condition are all its owner can see.
func (p *plugin) tellJob(job *api.JobInfo, refusal *workload.Refusal) {
	text, isNew := p.memory.voice.say(job.PgUID, refusal)
	job.JobFitErrors = text
	if isNew && refusal.Reason != workload.ReasonNotReady {
		p.memory.meters.refused(job, refusal)
		p.event(GroupOf(job), refusal)
	}
	if len(job.Tasks) > 0 || told(job.PodGroup, text) {
		return
	}
	err := p.ssn.UpdatePodGroupCondition(job, &scheduling.PodGroupCondition{
		Type: scheduling.PodGroupUnschedulableType, Status: corev1.ConditionTrue, Reason: refusal.Reason, Message: text,
		LastTransitionTime: metav1.Now(), TransitionID: string(p.ssn.UID),
	})
	if err != nil {
		klog.ErrorS(err, "Cannot set the condition of a PodGroup", "podGroup", klog.KRef(job.Namespace, job.Name))
	}
}

// GroupOf is the PodGroup of a job as the object of an event.
func GroupOf(job *api.JobInfo) runtime.Object {
	return &v1beta1.PodGroup{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1beta1.SchemeGroupVersion.String(), Kind: "PodGroup"},
		ObjectMeta: metav1.ObjectMeta{Namespace: job.Namespace, Name: job.PodGroup.Name, UID: job.PodGroup.UID},
	}
}

func told(group *api.PodGroup, text string) bool {
	for _, c := range group.Status.Conditions {
		if c.Type == scheduling.PodGroupUnschedulableType && c.Message == text {
			return true
		}
	}
	return false
}
