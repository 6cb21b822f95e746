package quotastatus

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/clip"
	"cardquota.dev/operator/internal/queue"
)

// Sync is how writing the Queue went: condition QueueSynced.
type Sync struct {
	Status          metav1.ConditionStatus
	Reason, Message string
}

// owned tells whether the CardQuota has its queue.
func (s Sync) owned() bool {
	return s.Reason != v1alpha1.ReasonQueueConflict && s.Reason != v1alpha1.ReasonQueueReserved
}

// Written is what was found out while a Queue was written.
type Written struct {
	// Replaced is what others had written and the operator replaced.
	Replaced []queue.Conflict
	// WeightHeldBy is who keeps spec.weight, "" when nobody does.
	WeightHeldBy string
	// Pause is how long the next put-back waits if the same writers go on; a
	// second or less is not worth telling.
	Pause time.Duration
}

// Synced is the verdict on a Queue that carries the quota. before is condition
// QueueSynced as it was, nil when there was none: a replaced change stays
// visible until the spec changes.
func Synced(quota *v1alpha1.CardQuota, before *metav1.Condition, w Written, now time.Time) Sync {
	name := quota.Queue()
	sync := Sync{Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonSynced, Message: fmt.Sprintf("queue %s carries this quota", name)}
	replaced := ""
	if len(w.Replaced) > 0 {
		replaced = fmt.Sprintf("%s on queue %s; replaced at %s by what this CardQuota says",
			queue.Describe(w.Replaced), name, now.UTC().Format(time.RFC3339))
		if w.Pause > time.Second {
			replaced += fmt.Sprintf("; it is not the first time, so the next change of the same writer stands for up to %s", w.Pause)
		}
	}
	switch {
	case w.WeightHeldBy != "" && quota.Spec.Weight != nil:
		sync.Reason = v1alpha1.ReasonWeightConflict
		sync.Message = fmt.Sprintf("queue %s carries this quota, but spec.weight is managed by %s and was left alone instead of becoming %d: "+
			"remove weight here or let %s give the field up", name, w.WeightHeldBy, *quota.Spec.Weight, w.WeightHeldBy)
		if replaced != "" {
			sync.Message += "; " + replaced
		}
	case replaced != "":
		sync.Reason, sync.Message = v1alpha1.ReasonForeignChangeReplaced, replaced
	case before != nil && before.Reason == v1alpha1.ReasonForeignChangeReplaced && before.ObservedGeneration == quota.Generation:
		sync.Reason, sync.Message = before.Reason, before.Message
	}
	return sync
}

// Unchanged is the verdict on a Queue that somebody keeps writing and that is
// not put back yet: the one that was given when it was put back last.
func Unchanged(before metav1.Condition) Sync {
	return Sync{Status: before.Status, Reason: before.Reason, Message: before.Message}
}

// Contested is the verdict on a queue that an older CardQuota has.
func Contested(name, owner string) Sync {
	return Sync{Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonQueueConflict, Message: fmt.Sprintf(
		"queue %s belongs to the older CardQuota %s: this one takes over when that one is deleted, or choose another queueName", name, owner)}
}

// Reserved is the verdict on a queue that is never written.
func Reserved(name string) Sync {
	return Sync{Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonQueueReserved, Message: fmt.Sprintf(
		"queue %s belongs to Volcano and cannot carry a quota: choose another queueName", name)}
}

// BadNamespaces is the verdict on a CardQuota whose namespaceSelector selects
// nothing that Kubernetes knows. Nothing of its spec is written: a queue without
// the selector would be open to every namespace.
func BadNamespaces(name string, err error) Sync {
	return Sync{Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonInvalidNamespaceSelector, Message: clip.Text(fmt.Sprintf(
		"spec.namespaceSelector is not valid, so queue %s keeps what it had: %v", name, err), v1alpha1.MaxMessageLength)}
}

// Refused is the verdict on a Queue that could not be written or deleted.
func Refused(name string, live *v1beta1.Queue, err error) Sync {
	hint := ""
	if Frozen(live) {
		hint = fmt.Sprintf(" (Volcano refuses changes of a queue that is %s; they are made when that is over)", live.Status.State)
	}
	return Sync{Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonQueueRefused,
		Message: clip.Text(fmt.Sprintf("queue %s could not be written%s: %v", name, hint, err), v1alpha1.MaxMessageLength)}
}

// Frozen tells whether Volcano's webhook refuses every change of the Queue
// because of its state. The end of that state is an event of the Queue.
func Frozen(live *v1beta1.Queue) bool {
	return live != nil && (live.Status.State == v1beta1.QueueStateClosing || live.Status.State == v1beta1.QueueStateUnknown)
}

// Draining is the verdict on the Queue of a CardQuota that is being deleted.
func Draining(name string, members int) Sync {
	if members == 0 {
		return Sync{Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonDraining, Message: fmt.Sprintf(
			"being deleted: queue %s has no quota any more and goes when the API server confirms that no unfinished pod and PodGroup uses it", name)}
	}
	return Sync{Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonDraining, Message: fmt.Sprintf(
		"being deleted: queue %s has no quota any more and goes when its %d unfinished pods and PodGroups are gone", name, members)}
}
