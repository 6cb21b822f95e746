package cardquota

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	shared "cardquota.dev/operator/internal/controller"
	"cardquota.dev/operator/internal/queueusage"
	"cardquota.dev/operator/internal/testing/check"
)

// TestQueuesWakeTheirCardQuotaExceptForNumbers: a change of a Queue wakes (reconciles) its CardQuota, which then
// repairs a change of another field manager. The scheduler writes the allocated resources into the status all the time;
// nothing follows from them.
func TestQueuesWakeTheirCardQuotaExceptForNumbers(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		after    v1beta1.Queue
		wantWake bool
	}{
		"allocated resources":   {after: v1beta1.Queue{Status: v1beta1.QueueStatus{Allocated: corev1.ResourceList{"cpu": resource.MustParse("1")}}}},
		"the state":             {after: v1beta1.Queue{Status: v1beta1.QueueStatus{State: v1beta1.QueueStateClosed}}, wantWake: true},
		"an annotation":         {after: v1beta1.Queue{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"a": "b"}}}, wantWake: true},
		"the spec":              {after: v1beta1.Queue{ObjectMeta: metav1.ObjectMeta{Generation: 2}}, wantWake: true},
		"a deletion that began": {after: v1beta1.Queue{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &metav1.Time{}}}, wantWake: true},
	}) {
		check.Equal(t, "wakes", tc.wantWake, queueChanged.Update(event.TypedUpdateEvent[*v1beta1.Queue]{ObjectOld: &v1beta1.Queue{}, ObjectNew: &tc.after}))
	}
}

// TestACardQuotaIsNotWokenByItsOwnStatus: each reconcile may write the status, which must not wake (reconcile)
// the CardQuota again. A new spec (generation) and a deletion wake it.
func TestACardQuotaIsNotWokenByItsOwnStatus(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		after    v1alpha1.CardQuota
		wantWake bool
	}{
		"the status":            {after: v1alpha1.CardQuota{Status: v1alpha1.CardQuotaStatus{Summary: "new"}}},
		"the spec":              {after: v1alpha1.CardQuota{ObjectMeta: metav1.ObjectMeta{Generation: 2}}, wantWake: true},
		"a deletion that began": {after: v1alpha1.CardQuota{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &metav1.Time{}}}, wantWake: true},
	}) {
		check.Equal(t, "wakes", tc.wantWake, shared.SpecChanged.Update(event.UpdateEvent{ObjectOld: &v1alpha1.CardQuota{}, ObjectNew: &tc.after}))
	}
}

// TestACountWakesQueuesWhoseUsageDiffers: two counts of the pods are compared queue by queue. The status of
// each queue that is new, gone or uses another number of cards must follow, so the count wakes (reconciles) it.
func TestACountWakesQueuesWhoseUsageDiffers(t *testing.T) {
	used := func(n card.Count) queueusage.Usage { return queueusage.Usage{Used: map[card.Name]card.Count{"A": n}} }
	got := changedKeys(
		map[string]queueusage.Usage{"same": used(1), "more": used(1), "gone": used(1)},
		map[string]queueusage.Usage{"same": used(1), "more": used(2), "new": used(1)},
		queueusage.Usage.Equal,
	)
	check.Equal(t, "queues to wake", []string{"gone", "more", "new"}, got)
}

// TestAPolicyWakesCardQuotasOnlyForWhatTheyShow: all CardQuotas show the priority of their service type in force, and
// what condition Enforced of the ServiceTypePolicy says. Other changes of the ServiceTypePolicy must not reconcile
// them all. A bypass, a pod that got cards without our scheduler, concerns its queue alone, which the collector of
// usage reconciles. So a change from Enforced to CardBypass, or of the message of CardBypass, wakes none.
func TestAPolicyWakesCardQuotasOnlyForWhatTheyShow(t *testing.T) {
	// inForce returns a policy that has taken effect, with the priority of training.
	inForce := func(priority int32) *v1alpha1.ServiceTypePolicy {
		p := &v1alpha1.ServiceTypePolicy{}
		p.Status.ServiceTypes = []v1alpha1.ServiceTypeStatus{{Name: "inference", Priority: 80000}, {Name: "training", Priority: priority, ReclaimPolicy: "WhenNeeded"}}
		return p
	}
	usual := inForce(20000)

	counted := inForce(20000)
	counted.Status.ServiceTypes[1].CardQuotas = 7
	counted.Status.ConfigHash = "x"
	refused := inForce(20000)
	refused.Spec.ServiceTypes = []v1alpha1.ServiceType{{Name: "other"}}

	// enforced returns a policy with condition Enforced.
	enforced := func(status metav1.ConditionStatus, reason, message string) *v1alpha1.ServiceTypePolicy {
		p := inForce(20000)
		p.Status.Conditions = []metav1.Condition{{Type: "Enforced", Status: status, Reason: reason, Message: message}}
		return p
	}

	for t, tc := range check.Cases(t, map[string]struct {
		before, after *v1alpha1.ServiceTypePolicy
		wantWake      bool
	}{
		"the priority of training changes":     {before: usual, after: inForce(5), wantWake: true},
		"the CardQuotas and the hash change":   {before: usual, after: counted},
		"a spec changes that is not in force":  {before: usual, after: refused},
		"the first policy takes effect":        {before: &v1alpha1.ServiceTypePolicy{}, after: usual, wantWake: true},
		"quotas become enforced":               {before: usual, after: enforced("True", "Enforced", "yes"), wantWake: true},
		"quotas are no longer enforced":        {before: enforced("True", "Enforced", "yes"), after: enforced("False", "NoHeartbeat", "no"), wantWake: true},
		"the message of the condition changes": {before: enforced("False", "NoHeartbeat", "no"), after: enforced("False", "NoHeartbeat", "none"), wantWake: true},
		"pod lab/a bypasses the scheduler":     {before: enforced("True", "Enforced", "yes"), after: enforced("False", "CardBypass", "lab/a")},
		"pod lab/b bypasses it instead":        {before: enforced("False", "CardBypass", "lab/a"), after: enforced("False", "CardBypass", "lab/b")},
		"the scheduler stops after a bypass":   {before: enforced("False", "CardBypass", "lab/a"), after: enforced("False", "NoHeartbeat", "no"), wantWake: true},
	}) {
		check.Equal(t, "wakes", tc.wantWake, policyChanged.Update(event.UpdateEvent{ObjectOld: tc.before, ObjectNew: tc.after}))
	}
}
