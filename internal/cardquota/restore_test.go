package cardquota

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/servicetype"
	"cardquota.dev/operator/internal/testing/check"
)

// newUserQueue is a Queue that a user wrote: priority 7, reclaimable, weight 3, 4 CPU, memory that is not limited, and a
// quota of 2 H200 by hand.
func newUserQueue() *v1beta1.Queue {
	return liveQueue(func(q *v1beta1.Queue) {
		q.Annotations = map[string]string{v1alpha1.AnnotationCardQuota: `{"H200":2}`, v1alpha1.AnnotationUnlimitedResources: "memory", "team/owner": "x"}
		q.Spec.Priority = 7
		q.Spec.Reclaimable = ptr(true)
		q.Spec.Weight = 3
		q.Spec.Capability = corev1.ResourceList{"cpu": resource.MustParse("4")}
	})
}

// TestTheFirstWriteRecordsWhatAQueueHad: the operator writes 8 CPU over those of the user. Its first write adds the
// record of what the Queue had, of the fields that the operator may write: the annotation team/owner is none. Later
// writes keep this record, although the Queue has other values then. A Queue that an earlier version adopted, without
// a record, gets none, and neither does one that the operator created.
func TestTheFirstWriteRecordsWhatAQueueHad(t *testing.T) {
	quota := newNotebookQuota(withResources("8", ""))
	recordOf := func(live *v1beta1.Queue) string {
		return flatQueue(quota, servicetype.BuiltIn, live).Config.Annotations[v1alpha1.AnnotationBefore]
	}

	live := newUserQueue()
	record := recordOf(live)
	check.Equal(t, "record", `{"spec":{"weight":3,"capability":{"cpu":"4"},"reclaimable":true,"guarantee":{},"parent":"root","priority":7},`+
		`"annotations":{"volcano.sh/card.quota":"{\"H200\":2}","volcano.sh/unlimited.resources":"memory"}}`, record)

	live.Annotations[v1alpha1.AnnotationBefore] = record
	live.Spec.Capability["cpu"] = resource.MustParse("8")
	live.ManagedFields = append(live.ManagedFields, managedFields("cardquota", "Apply",
		`{"f:metadata":{"f:annotations":{"f:cardquota.dev/before":{}}},"f:spec":{"f:capability":{"f:cpu":{}}}}`))
	check.Equal(t, "record of a later write", record, recordOf(live))

	adopted := newUserQueue()
	adopted.ManagedFields = append(adopted.ManagedFields, managedFields("cardquota", "Apply", `{"f:spec":{"f:capability":{"f:cpu":{}}}}`))
	check.Equal(t, "record of a Queue that an earlier version adopted", "", recordOf(adopted))

	check.Equal(t, "record of a Queue that does not exist", "", recordOf(nil))
}

// newAdoptedQueue is the Queue of newUserQueue as the operator has written it since: 8 CPU, priority 20000, not
// reclaimable, and an empty quota. The user changed the weight to 5 afterwards. owned are the fields that the operator
// owns; record is what the Queue had.
func newAdoptedQueue(record string) *v1beta1.Queue {
	return liveQueue(func(q *v1beta1.Queue) {
		q.Annotations = map[string]string{v1alpha1.AnnotationCardQuota: "{}", v1alpha1.AnnotationBefore: record}
		q.Spec.Priority = 20000
		q.Spec.Reclaimable = ptr(false)
		q.Spec.Weight = 5
		q.Spec.Capability = corev1.ResourceList{"cpu": resource.MustParse("8")}
	}, managedFields("cardquota", "Apply", `{"f:metadata":{"f:annotations":{"f:cardquota.dev/before":{},"f:volcano.sh/card.quota":{}}},`+
		`"f:spec":{"f:capability":{"f:cpu":{}},"f:priority":{},"f:reclaimable":{},"f:parent":{}}}`),
		managedFields("kubectl", "Update", `{"f:spec":{"f:weight":{}}}`))
}

// TestARestoredQueueIsAsItWasBefore: in mode Observe the Queue gets back priority 7, reclaimable, 4 CPU and the quota of
// the user. The weight stays, since the user owns it. The record stays until the operator gives up its fields, so that
// a crash in between loses nothing. The label of the operator goes.
func TestARestoredQueueIsAsItWasBefore(t *testing.T) {
	quota := newNotebookQuota(withResources("8", ""))
	record := flatQueue(quota, servicetype.BuiltIn, newUserQueue()).Config.Annotations[v1alpha1.AnnotationBefore]
	restored := NewRestoredQueue(quota, newAdoptedQueue(record)).Config

	check.Equal(t, "annotations", map[string]string{
		v1alpha1.AnnotationCardQuota: `{"H200":2}`, v1alpha1.AnnotationUnlimitedResources: "memory", v1alpha1.AnnotationBefore: record,
		annotationClosedByParent: notClosedByParent,
	}, restored.Annotations)
	check.Equal(t, "priority", 7, *restored.Spec.Priority)
	check.Equal(t, "reclaimable", true, *restored.Spec.Reclaimable)
	check.Equal(t, "parent", "root", *restored.Spec.Parent)
	check.Equal(t, "CPU", "4", (*restored.Spec.Capability).Cpu().String())
	check.That(t, restored.Spec.Weight == nil, "the weight of the user is written")
	check.Equal(t, "labels", 0, len(restored.Labels))
}

// TestAQueueWithoutAReadableRecordLosesOnlyOwnFields: an earlier version adopted the Queue, or a user destroyed the
// record. Then the operator does not know what the Queue had, and only removes its own fields.
func TestAQueueWithoutAReadableRecordLosesOnlyOwnFields(t *testing.T) {
	for t, record := range check.Cases(t, map[string]string{"no record": "", "a text that is no record": "nonsense"}) {
		restored := NewRestoredQueue(newNotebookQuota(), newAdoptedQueue(record)).Config
		_, hasQuota := restored.Annotations[v1alpha1.AnnotationCardQuota]
		check.That(t, restored.Spec == nil && !hasQuota, "restored: %v", restored)
	}
}

// TestAReleasedQueueLimitsNothing: a Queue that the operator created stays for its pods without quota, service type,
// selector and limits. The operator goes on to own it, by the annotation of who created it.
func TestAReleasedQueueLimitsNothing(t *testing.T) {
	quota := newNotebookQuota(withResources("8", ""))
	live := liveQueue(func(q *v1beta1.Queue) { q.Annotations[v1alpha1.AnnotationCreatedBy] = "team" },
		managedFields("cardquota", "Apply", `{"f:metadata":{"f:annotations":{"f:cardquota.dev/created-by":{}}}}`))

	released := NewReleasedQueue(quota, live, CurrentParent(live)).Config
	check.Equal(t, "annotations", map[string]string{v1alpha1.AnnotationCreatedBy: "team", annotationClosedByParent: notClosedByParent}, released.Annotations)
	check.Equal(t, "parent", "root", *released.Spec.Parent)
	check.That(t, released.Spec.Capability == nil && released.Spec.Priority == nil, "the spec has limits: %v", released.Spec)
}
