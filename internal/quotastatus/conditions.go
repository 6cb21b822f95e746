package quotastatus

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/clip"
)

// setConditions writes every condition; a condition that did not change keeps
// its transition time.
func setConditions(s *v1alpha1.CardQuotaStatus, f Facts) {
	set := func(kind string, verdict Sync) {
		meta.SetStatusCondition(&s.Conditions, metav1.Condition{
			Type:               kind,
			Status:             verdict.Status,
			Reason:             verdict.Reason,
			Message:            verdict.Message,
			ObservedGeneration: f.Quota.Generation,
			LastTransitionTime: metav1.NewTime(f.Now),
		})
	}
	set(v1alpha1.ConditionQueueSynced, f.Sync)
	set(v1alpha1.ConditionWithinQuota, within(s, f))
	if verdict, known := satisfied(f); known {
		set(v1alpha1.ConditionInventorySatisfied, verdict)
	}
	if verdict, known := enforced(f); known {
		set(v1alpha1.ConditionEnforced, verdict)
	}
	set(v1alpha1.ConditionReady, ready(s, f))
}

// within compares use with quota. Only cards matter: whether CPU and memory
// are limited is the scheduler's configuration.
func within(s *v1alpha1.CardQuotaStatus, f Facts) Sync {
	switch {
	case !f.Sync.owned():
		return Sync{metav1.ConditionUnknown, v1alpha1.ReasonNotCounted, "this CardQuota does not have its queue"}
	case f.Usage == nil:
		before := meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionWithinQuota)
		if before != nil && before.Reason != v1alpha1.ReasonNotCounted {
			return Sync{before.Status, before.Reason, before.Message}
		}
		return Sync{metav1.ConditionUnknown, v1alpha1.ReasonNotCounted, "pods have not been counted yet"}
	}
	var over []string
	for _, c := range s.Cards {
		if c.OverQuotaBy > 0 {
			over = append(over, fmt.Sprintf("%d %s too many (%d used, quota %d)", c.OverQuotaBy, c.Name, c.Used, c.Quota))
		}
	}
	if len(over) == 0 {
		return Sync{metav1.ConditionTrue, v1alpha1.ReasonWithinQuota, "no card is used beyond its quota"}
	}
	return Sync{metav1.ConditionFalse, v1alpha1.ReasonOverQuota,
		clip.Text(strings.Join(over, ", ")+": nothing is stopped, nothing new starts until use has fallen", v1alpha1.MaxMessageLength)}
}

// ready sums up: the Queue carries the quota, takes work, and the scheduler is
// not known to let the quota be passed. Use beyond the quota does not make a
// CardQuota unready, since the quota is being kept.
func ready(s *v1alpha1.CardQuotaStatus, f Facts) Sync {
	name := f.Quota.Queue()
	switch {
	case f.Sync.Status != metav1.ConditionTrue:
		return Sync{metav1.ConditionFalse, f.Sync.Reason, f.Sync.Message}
	case f.Queue == nil || f.Queue.Status.State == "":
		return Sync{metav1.ConditionFalse, v1alpha1.ReasonQueueNotOpen, fmt.Sprintf(
			"queue %s is not open yet: Volcano's controller manager opens it", name)}
	case f.Queue.Status.State != v1beta1.QueueStateOpen:
		return Sync{metav1.ConditionFalse, v1alpha1.ReasonQueueNotOpen, fmt.Sprintf(
			"queue %s is %s and takes no work: it was closed by hand or with its parent", name, f.Queue.Status.State)}
	}
	if verdict, is := unproven(s, name); is {
		return verdict
	}
	return Sync{metav1.ConditionTrue, v1alpha1.ReasonReady, fmt.Sprintf("queue %s carries this quota and takes work", name)}
}
