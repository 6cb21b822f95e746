package capacitycard

import (
	"context"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
	"volcano.sh/apis/pkg/apis/scheduling"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/internal/enforcement"
	"cardquota.dev/operator/internal/scheduler/snapshot"
	"cardquota.dev/operator/internal/schedulerconfig"
	"cardquota.dev/operator/internal/workload"
)

// Events reports on objects why something was decided.
type Events struct {
	*snapshot.Session
	messages *messageDeduper
	reports  *sessionReports
	// countRefusal counts a new refusal of a job or of one of its pods.
	countRefusal func(*api.JobInfo, *workload.Refusal)
	// ownFitErrors are what this plugin states about a pod.
	ownFitErrors map[api.TaskID]*api.FitErrors
}

// RecordEvent emits an event of the plugin.
func (e *Events) RecordEvent(object runtime.Object, eventType, reason, message string) {
	if recorder := e.messages.recorderFor(e.Volcano.KubeClient()); recorder != nil {
		recorder.Event(object, eventType, reason, message)
	}
}

func (e *Events) recordRefusal(object runtime.Object, refusal *workload.Refusal) {
	e.RecordEvent(object, corev1.EventTypeWarning, refusal.Reason(), refusal.Message())
}

// recordIfNew emits an event about a refusal if it is new, on the pod, or on the job's PodGroup
// if pod is nil. job is nil if it is not known. It returns the text to state, which stays that of the first
// event while the reason is the same.
func (e *Events) recordIfNew(uid types.UID, job *api.JobInfo, pod *corev1.Pod, refusal *workload.Refusal) string {
	text, isNew := e.messages.currentMessage(uid, refusal)
	// NotReady refuses all pods of the cluster for the same reason, so an event on each would only be noise.
	if !isNew || refusal.Reason() == workload.ReasonNotReady {
		return text
	}

	e.countRefusal(job, refusal)
	if pod != nil {
		e.recordRefusal(pod, refusal)
	} else {
		e.recordRefusal(PodGroupReference(job), refusal)
	}
	return text
}

// recordPodUnschedulable reports on a pod why it is refused: by event, and through Volcano in
// the condition PodScheduled.
func (e *Events) recordPodUnschedulable(task *api.TaskInfo, refusal *workload.Refusal) {
	job := e.Volcano.Jobs[task.Job]
	fit := api.NewFitErrors()
	fit.SetError(e.recordIfNew(task.Pod.UID, job, task.Pod, refusal))
	if job != nil {
		job.NodesFitErrors[task.UID] = fit
		e.ownFitErrors[task.UID] = fit
	}
}

// recordJobUnschedulable reports on a PodGroup why it is not enqueued. A Volcano job has no pods yet, so its owner
// sees only the event and the condition of the PodGroup. A second condition has the refusal as JSON, for programs.
// Where pods exist, Volcano writes the text into their conditions, from JobFitErrors.
func (e *Events) recordJobUnschedulable(job *api.JobInfo, refusal *workload.Refusal) {
	text := e.recordIfNew(job.PgUID, job, nil, refusal)
	job.JobFitErrors = text

	isReported := func(c scheduling.PodGroupCondition) bool {
		return c.Type == scheduling.PodGroupUnschedulableType && c.Message == text
	}
	isForPrograms := func(c scheduling.PodGroupCondition) bool {
		return v1beta1.PodGroupConditionType(c.Type) == workload.PodGroupCardsRefused
	}
	conditions := job.PodGroup.Status.Conditions
	if len(job.Tasks) > 0 || (slices.ContainsFunc(conditions, isReported) && slices.ContainsFunc(conditions, isForPrograms)) {
		return
	}

	unschedulable := scheduling.PodGroupCondition{
		Type: scheduling.PodGroupUnschedulableType, Status: corev1.ConditionTrue, Reason: refusal.Reason(), Message: text,
		LastTransitionTime: metav1.Now(), TransitionID: string(e.Volcano.UID),
	}
	refused := unschedulable
	refused.Type = scheduling.PodGroupConditionType(workload.PodGroupCardsRefused)
	refused.Message = refusal.Data()

	// Volcano writes both with the status, in one request.
	for _, condition := range []*scheduling.PodGroupCondition{&unschedulable, &refused} {
		if err := e.Volcano.UpdatePodGroupCondition(job, condition); err != nil {
			klog.ErrorS(err, "Cannot set a condition of a PodGroup", "podGroup", klog.KRef(job.Namespace, job.Name), "condition", condition.Type)
		}
	}
}

// PodGroupReference returns the PodGroup of a job as the object of an event.
func PodGroupReference(job *api.JobInfo) runtime.Object {
	return &v1beta1.PodGroup{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1beta1.SchemeGroupVersion.String(), Kind: "PodGroup"},
		ObjectMeta: metav1.ObjectMeta{Namespace: job.Namespace, Name: job.PodGroup.Name, UID: job.PodGroup.UID},
	}
}

// reportPodWithoutPodGroup reports on a pending pod that its queue does not exist or accepts no
// pods. Volcano creates no PodGroup for such a pod, so no session contains it.
func (e *Events) reportPodWithoutPodGroup(pod *corev1.Pod) {
	if !workload.IsPending(pod) || workload.PodGroupName(pod) != "" || !e.Cache.Resolver.UsesOurScheduler(pod) {
		return
	}
	queue := e.Cache.Resolver.Queue(pod, nil, "")
	if queue == "" {
		queue = workload.DefaultQueue
	}

	refusal := e.CheckQueue(&api.JobInfo{Queue: api.QueueID(queue), Namespace: pod.Namespace})
	// Without a refusal, Volcano is about to create the PodGroup.
	if refusal == nil || refusal.Reason() == workload.ReasonNotReady {
		return
	}

	// A write to the API server must not delay the session.
	if _, isNew := e.messages.currentMessage(pod.UID, refusal); isNew {
		e.recordRefusal(pod, refusal)
		go e.messages.setPodUnschedulable(e.Volcano.KubeClient(), pod.DeepCopy(), refusal)
	}
}

// notice is what an event on a queue says.
type notice struct{ reason, message string }

// recordOnQueue emits an event on a queue, once.
func (e *Events) recordOnQueue(queue *scheduling.Queue, says notice) {
	e.recordNotice(queue, "", says)
}

// recordNotice emits an event on a queue, once. kind is a suffix of the queue's UID: notices of two kinds
// about a queue do not replace each other.
func (e *Events) recordNotice(queue *scheduling.Queue, kind types.UID, says notice) {
	if e.messages.isNewNotice(queue.UID+kind, says) {
		// Volcano's cache keeps a Queue without its type, which an event needs.
		typeMeta := metav1.TypeMeta{APIVersion: v1beta1.SchemeGroupVersion.String(), Kind: "Queue"}
		e.RecordEvent(&v1beta1.Queue{TypeMeta: typeMeta, ObjectMeta: queue.ObjectMeta}, corev1.EventTypeWarning, says.reason, says.message)
	}
}

// messageDeduper reports a refusal once per reason instead of once per session.
type messageDeduper struct {
	mutex        sync.Mutex
	recorder     record.EventRecorder
	lastMessages map[types.UID]*lastMessage
	session      uint64
}

// lastMessage is the last message about an object. The text stays while only the total of the
// queue changes, so a busy queue does not rewrite all its pending pods.
type lastMessage struct {
	topic   workload.Refusal
	text    string
	session uint64
}

func newMessageDeduper() *messageDeduper {
	return &messageDeduper{lastMessages: map[types.UID]*lastMessage{}}
}

// currentMessage returns the message about an object, and whether it is new: the first one, or about
// another topic than the last one. The topic is the refusal without the usage of the queue.
func (m *messageDeduper) currentMessage(uid types.UID, refusal *workload.Refusal) (text string, isNew bool) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	topic := refusal.Topic()
	if last, ok := m.lastMessages[uid]; ok && last.topic == topic {
		last.session = m.session
		return last.text, false
	}
	text = refusal.Message()
	m.lastMessages[uid] = &lastMessage{topic: topic, text: text, session: m.session}
	return text, true
}

// isNewNotice reports whether a notice about an object differs from the last one, and remembers it.
func (m *messageDeduper) isNewNotice(uid types.UID, says notice) bool {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	text := says.reason + says.message
	if last, isKnown := m.lastMessages[uid]; isKnown && last.text == text {
		last.session = m.session
		return false
	}
	m.lastMessages[uid] = &lastMessage{text: text, session: m.session}
	return true
}

// forget makes the next refusal of an object new.
func (m *messageDeduper) forget(uid types.UID) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	delete(m.lastMessages, uid)
}

// removeStale ends a session: it removes objects without a refusal for two sessions.
func (m *messageDeduper) removeStale() {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	for uid, last := range m.lastMessages {
		if last.session+1 < m.session {
			delete(m.lastMessages, uid)
		}
	}
	m.session++
}

// recorderFor returns the event recorder. It has a source of its own, because Volcano's events
// use up the rate limit of theirs.
func (m *messageDeduper) recorderFor(client kubernetes.Interface) record.EventRecorder {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	if m.recorder == nil && client != nil {
		broadcaster := record.NewBroadcaster()
		broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: client.CoreV1().Events(metav1.NamespaceAll)})
		m.recorder = broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: schedulerconfig.CapacityCard})
	}
	return m.recorder
}

// setPodUnschedulable sets the condition PodScheduled outside the session, because it calls the
// API server. After a failed write the next session tries again.
func (m *messageDeduper) setPodUnschedulable(client kubernetes.Interface, pod *corev1.Pod, refusal *workload.Refusal) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()

	changed := podutil.UpdatePodCondition(&pod.Status, &corev1.PodCondition{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: refusal.Message(),
	})
	if !changed || client == nil {
		return
	}

	if _, err := client.CoreV1().Pods(pod.Namespace).UpdateStatus(ctx, pod, metav1.UpdateOptions{}); err != nil {
		klog.V(2).InfoS("Cannot set a pod's condition yet", "pod", klog.KObj(pod), "err", err)
		m.forget(pod.UID)
	}
}

// SessionReport is what a session proves when it closes, or while it runs. A session that waits
// for the cache to sync enforces quotas, too.
type SessionReport struct {
	// ConfigHash is the hash of the session's configuration, "" if its arguments are invalid.
	ConfigHash string
	// Problem is why the arguments are invalid, "" if they are valid.
	Problem string
	// BoundByOthers are pods of this scheduler that another scheduler bound, as namespace/name,
	// sorted, at most five.
	BoundByOthers []string
	// At is when the session closed, or decided last.
	At time.Time
}

// sessionReports are what sessions report.
type sessionReports struct {
	// observe receives reports, nil if there is none.
	observe func(SessionReport)
	// last is when the session opened, or reported last.
	last time.Time
}

// reportInterval is how often a long session reports: several times before its heartbeat would be too old.
var reportInterval = enforcement.StaleAfter / 4

// reportLongSession reports a session that runs long, so that the heartbeat does not expire
// while it places many pods. Decisions call it, not a timer, so a session that hangs stays
// visible.
func (e *Events) reportLongSession() {
	if now := e.Now(); now.Sub(e.reports.last) >= reportInterval {
		e.reports.last = now
		e.reportSession()
	}
}

// reportSession reports the session to the observer.
func (e *Events) reportSession() {
	if e.reports.observe == nil {
		return
	}

	report := SessionReport{ConfigHash: e.Args.ConfigHash, BoundByOthers: e.Cache.OtherBindings.BoundByOthersNames(), At: e.Now()}
	if e.ArgumentsErr != nil { // the configuration of this hash is not enforced
		report.ConfigHash = ""
		report.Problem = e.ArgumentsErr.Error()
	}
	e.reports.observe(report)
}
