package cardquota

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/servicetype"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/seed"
)

// plannedFields are the managed fields of a Queue that the operator applied.
const plannedFields = `{"f:metadata":{"f:labels":{"f:app.kubernetes.io/managed-by":{}},"f:annotations":{".":{},"f:volcano.sh/card.quota":{},"f:volcano.sh/unlimited.resources":{},"f:volcano.sh/service.type":{},` +
	`"f:volcano.sh/closed-by-parent":{}}},"f:spec":{"f:parent":{},"f:capability":{".":{},"f:cpu":{}}}}`

// newSyncedQueue is a CardQuota with 8 CPU, and its Queue with all fields that it wants, which the operator owns.
func newSyncedQueue() (*v1alpha1.CardQuota, *v1beta1.Queue) {
	quota := newNotebookQuota(withResources("8", ""))
	live := liveQueue(func(q *v1beta1.Queue) {
		q.Annotations = map[string]string{
			"volcano.sh/card.quota": "{}", "volcano.sh/unlimited.resources": "memory", "volcano.sh/service.type": "notebook", "volcano.sh/closed-by-parent": "false",
		}
		q.Labels = map[string]string{"app.kubernetes.io/managed-by": "cardquota"}
		q.Spec.Capability = corev1.ResourceList{"cpu": resource.MustParse("8000m")}
	}, managedFields("cardquota", "Apply", plannedFields))
	return quota, live
}

// TestDriftIsAnotherValueOfAnOwnField: a Queue is in sync if each field of the CardQuota has its value, and the
// operator owns exactly these fields by Apply. Otherwise the operator applies the Queue again. Drift are the fields
// of the CardQuota that have another value in the Queue. The operator reports them as the change of another manager.
// The label managed-by is never drift.
func TestDriftIsAnotherValueOfAnOwnField(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		change     func(*v1beta1.Queue)
		wantInSync bool
		wantDrift  []string
	}{
		"all values are right, and the operator owns them": {change: func(*v1beta1.Queue) {}, wantInSync: true},
		"another manager added an annotation and a limit of memory": {
			change: func(q *v1beta1.Queue) {
				q.Annotations["team/owner"] = "x"
				q.Spec.Capability["memory"] = resource.MustParse("1Gi")
			},
			wantInSync: true,
		},
		"the quota has another value": {change: func(q *v1beta1.Queue) { q.Annotations["volcano.sh/card.quota"] = `{"NVIDIA-H200":99}` },
			wantDrift: []string{".metadata.annotations.volcano.sh/card.quota"}},
		"the quota was removed": {change: func(q *v1beta1.Queue) { delete(q.Annotations, "volcano.sh/card.quota") },
			wantDrift: []string{".metadata.annotations.volcano.sh/card.quota"}},
		"another manager wrote a namespace selector, and the CardQuota has none": {
			change: func(q *v1beta1.Queue) { q.Annotations["volcano.sh/namespace-selector"] = `{}` }, wantInSync: true},
		"the label managed-by is missing, because an earlier version did not write it": {change: func(q *v1beta1.Queue) {
			q.Labels = nil
			q.ManagedFields[0].FieldsV1.Raw = []byte(strings.Replace(plannedFields, `"f:app.kubernetes.io/managed-by":{}`, "", 1))
		}},
		"the capability has another value": {change: func(q *v1beta1.Queue) { q.Spec.Capability["cpu"] = resource.MustParse("9") },
			wantDrift: []string{".spec.capability.cpu"}},
		"all values are right, and the operator owns none": {change: func(q *v1beta1.Queue) { q.ManagedFields = nil }},
		"the operator owns a weight, which it does not want any more": {change: func(q *v1beta1.Queue) {
			q.ManagedFields[0].FieldsV1.Raw = []byte(strings.Replace(plannedFields, `"f:parent"`, `"f:weight":{},"f:parent"`, 1))
		}},
		"the operator owns all by Update, not by Apply: a webhook added the fields to its request": {
			change: func(q *v1beta1.Queue) { q.ManagedFields[0].Operation = "Update" }},
		"the managed fields are not readable": {
			change: func(q *v1beta1.Queue) { q.ManagedFields[0].FieldsV1.Raw = []byte("nonsense") }},
	}) {
		quota, live := newSyncedQueue()
		tc.change(live)
		desired := flatQueue(quota, servicetype.BuiltIn, live)

		check.Equal(t, "InSync", tc.wantInSync, desired.InSync(live))
		check.Equal(t, "drift", tc.wantDrift, desired.DriftedFields(live))
	}
}

// TestAnotherNamespaceSelectorIsDrift: the CardQuota selects namespaces of team chat, and its Queue selects all
// namespaces ({}). So the Queue is not in sync, and the annotation is drift.
func TestAnotherNamespaceSelectorIsDrift(t *testing.T) {
	quota, live := newSyncedQueue()
	quota.Spec.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": "chat"}}
	live.Annotations["volcano.sh/namespace-selector"] = `{}`

	desired := flatQueue(quota, servicetype.BuiltIn, live)
	check.Equal(t, "drift", []string{".metadata.annotations.volcano.sh/namespace-selector"}, desired.DriftedFields(live))
	check.That(t, !desired.InSync(live), "the Queue is in sync")
}

// TestAMissingQueueIsNotInSync: a CardQuota whose Queue does not exist is not in sync, so that the operator creates
// the Queue.
func TestAMissingQueueIsNotInSync(t *testing.T) {
	quota, _ := newSyncedQueue()
	desired := flatQueue(quota, servicetype.BuiltIn, nil)
	check.That(t, !desired.InSync(nil), "the missing Queue is in sync")
}

// TestADifferenceOfAnOwnPriorityIsAChangeOfThePolicy: priority and reclaimable of a Queue follow its service
// type. Here the Queue has priority 7 and is not reclaimable. plannedFields are fields that the operator
// owns, without priority and reclaimable. If the operator owns a field with another value, the policy changed
// the service type, and no other manager is overridden. A policy that first defines the type, or no longer
// does, is a change, too. Where another manager owns a field, or removed the fields of the operator, the
// difference is drift. A policy that says 7 or 8 also says not reclaimable, as the Queue has it.
func TestADifferenceOfAnOwnPriorityIsAChangeOfThePolicy(t *testing.T) {
	withoutType := plannedFields
	withType := strings.Replace(withoutType, `"f:parent":{}`, `"f:parent":{},"f:priority":{},"f:reclaimable":{}`, 1)
	typeOfPriority := func(priority int32) ServiceTypeLookup {
		return func(string) (servicetype.Type, bool) { return servicetype.Type{Priority: priority}, true }
	}

	noType := func(string) (servicetype.Type, bool) { return servicetype.Type{}, false }
	for t, tc := range check.Cases(t, map[string]struct {
		types       ServiceTypeLookup
		entries     []metav1.ManagedFieldsEntry
		isMissing   bool // there is no Queue
		wantChanged bool // by the policy
	}{
		"the operator owns both fields, and the policy says 7": {
			types:   typeOfPriority(7),
			entries: []metav1.ManagedFieldsEntry{managedFields("cardquota", "Apply", withType)},
		},
		"the operator owns both fields, and the policy says 8": {
			types:       typeOfPriority(8),
			entries:     []metav1.ManagedFieldsEntry{managedFields("cardquota", "Apply", withType)},
			wantChanged: true,
		},
		"the operator owns both fields, and the policy does not define the type": {
			types:       noType,
			entries:     []metav1.ManagedFieldsEntry{managedFields("cardquota", "Apply", withType)},
			wantChanged: true,
		},
		"the operator owns neither field, and the policy does not define the type": {
			types:   noType,
			entries: []metav1.ManagedFieldsEntry{managedFields("cardquota", "Apply", withoutType)},
		},
		"the operator owns neither field, and the policy says 7": {
			types:       typeOfPriority(7),
			entries:     []metav1.ManagedFieldsEntry{managedFields("cardquota", "Apply", withoutType)},
			wantChanged: true,
		},
		"helm took the priority": {
			types: typeOfPriority(8),
			entries: []metav1.ManagedFieldsEntry{
				managedFields("cardquota", "Apply", strings.Replace(withType, `"f:priority":{},`, "", 1)),
				managedFields("helm", "Update", `{"f:spec":{"f:priority":{}}}`),
			},
		},
		"helm owns the priority, and the policy says 8 for the first time": {
			types: typeOfPriority(8),
			entries: []metav1.ManagedFieldsEntry{
				managedFields("cardquota", "Apply", withoutType),
				managedFields("helm", "Update", `{"f:spec":{"f:priority":{}}}`),
			},
		},
		"kubectl removed all fields of the operator": {
			types:   typeOfPriority(7),
			entries: []metav1.ManagedFieldsEntry{managedFields("kubectl", "Update", `{"f:spec":{"f:weight":{}}}`)},
		},
		"there is no Queue: nothing was changed": {
			types:     typeOfPriority(8),
			isMissing: true,
		},
	}) {
		quota, live := newSyncedQueue()
		live.Spec.Priority = 7
		live.Spec.Reclaimable = ptr(false)
		live.ManagedFields = tc.entries
		if tc.isMissing {
			live = nil
		}
		check.Equal(t, "changed", tc.wantChanged, flatQueue(quota, tc.types, live).ServiceTypeChanged(live))
	}
}

// TestTheOperatorRemovesItsManagedFields: when the operator gives a Queue up, it removes its own entries from the
// managed fields. These are what it applied, and what a webhook added to its requests. Entries of other managers and
// of the status stay. The API server ignores an empty list, so a list with one empty entry stands for it.
// HasOwnedFields is about applied fields only.
func TestTheOperatorRemovesItsManagedFields(t *testing.T) {
	helm := managedFields("helm", "Update", `{"f:spec":{"f:weight":{}}}`)
	status := managedFields("cardquota", "Update", `{"f:status":{}}`)
	status.Subresource = "status"
	ours := managedFields("cardquota", "Apply", plannedFields)
	added := managedFields("cardquota", "Update", `{"f:spec":{"f:reclaimable":{}}}`)

	check.Equal(t, "entries without those of the operator", []metav1.ManagedFieldsEntry{
		helm,
		status,
	}, ManagedFieldsWithoutOperator(liveQueue(nil, helm, ours, added, status)))
	check.Equal(t, "entries if only the operator had one", []metav1.ManagedFieldsEntry{{}},
		ManagedFieldsWithoutOperator(liveQueue(nil, ours)))
	check.That(t, !HasOwnedFields(liveQueue(nil, helm, added)), "what a webhook added is owned")
	check.That(t, HasOwnedFields(liveQueue(nil, helm, ours)), "what the operator applied is not owned")
}

// applyConflict is the answer of an API server to a conflicting apply.
func applyConflict(causes ...metav1.StatusCause) error {
	return fmt.Errorf("apply queue: %w", apierrors.NewApplyConflict(causes, "Apply failed"))
}

func cause(message, field string) metav1.StatusCause {
	return metav1.StatusCause{Type: metav1.CauseTypeFieldManagerConflict, Message: message, Field: field}
}

// TestFieldConflictsNameManagerAndField: the API server refuses an apply of fields that other managers own, with a
// cause for each field. The operator reads manager and field from each cause. A cause that names the operator itself
// is no other manager, but still a conflict of fields. Any other error is no conflict of fields.
func TestFieldConflictsNameManagerAndField(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		err          error
		want         []FieldConflict
		wantConflict bool
	}{
		"helm applied the field": {
			err:          applyConflict(cause(`conflict with "helm" using scheduling.volcano.sh/v1beta1`, ".spec.weight")),
			want:         []FieldConflict{{Manager: "helm", Field: ".spec.weight"}},
			wantConflict: true,
		},
		"kubectl-edit updated the field, with a time": {
			err: applyConflict(cause(`conflict with "kubectl-edit" using scheduling.volcano.sh/v1beta1 at `+
				`2026-01-02T15:04:05Z`, ".spec.priority")),
			want:         []FieldConflict{{Manager: "kubectl-edit", Field: ".spec.priority"}},
			wantConflict: true,
		},
		"the operator itself, by what a webhook added": {
			err:          applyConflict(cause(`conflict with "cardquota" using scheduling.volcano.sh/v1beta1`, ".spec.weight")),
			wantConflict: true},
		"the resource version is old": {
			err: apierrors.NewConflict(v1beta1.Resource("queues"), "team", fmt.Errorf("changed"))},
		"the API server is not reachable": {err: fmt.Errorf("no route to host")},
		"no error":                        {},
	}) {
		check.Equal(t, "conflicts", tc.want, FieldConflicts(tc.err))

		check.Equal(t, "IsConflict", tc.wantConflict, IsFieldConflict(tc.err))
	}
}

// TestDescribeConflictsGroupsFieldsByManager: a message lists the managers by name, each with its fields in short
// form. A field without a manager was changed or removed by another client.
func TestDescribeConflictsGroupsFieldsByManager(t *testing.T) {
	got := DescribeConflicts([]FieldConflict{
		{Manager: "kubectl-edit", Field: ".spec.priority"},
		{Field: ".spec.capability.cpu"},
		{Manager: "helm", Field: ".spec.reclaimable"},
		{Manager: "kubectl-edit", Field: ".metadata.annotations.volcano.sh/card.quota"},
	})
	check.Equal(t, "message", "another client changed or removed spec.capability.cpu; helm wrote spec.reclaimable; "+
		"kubectl-edit wrote spec.priority, volcano.sh/card.quota", got)
}

// TestTheOldestCardQuotaOwnsTheQueue: of several CardQuotas for one queue the oldest owns it, of the same age the
// first by name. One that is being deleted owns it until it is gone, and then the next owner is the oldest that is
// not being deleted.
func TestTheOldestCardQuotaOwnsTheQueue(t *testing.T) {
	young := builder.CardQuota("young").Created(noon).Obj()
	old := builder.CardQuota("old").Created(noon.Add(-time.Hour)).Obj()
	twin := builder.CardQuota("a-twin").Created(noon.Add(-time.Hour)).Obj()
	leaving := builder.CardQuota("leaving").Created(noon.Add(-2 * time.Hour)).Deleted(noon).Obj()

	for t, tc := range check.Cases(t, map[string]struct {
		candidates []*v1alpha1.CardQuota
		wantOwner  *v1alpha1.CardQuota
		deleted    *v1alpha1.CardQuota
		wantNext   *v1alpha1.CardQuota // after deleted is gone
	}{
		"old and young": {
			candidates: []*v1alpha1.CardQuota{young, old},
			wantOwner:  old,
			deleted:    old,
			wantNext:   young,
		},
		"old and a-twin of the same age": {
			candidates: []*v1alpha1.CardQuota{old, twin},
			wantOwner:  twin,
			deleted:    twin,
			wantNext:   old,
		},
		"leaving is the oldest, and is being deleted": {
			candidates: []*v1alpha1.CardQuota{old, leaving},
			wantOwner:  leaving,
			deleted:    leaving,
			wantNext:   old,
		},
		"old alone": {
			candidates: []*v1alpha1.CardQuota{old},
			wantOwner:  old,
			deleted:    old,
		},
		"old is deleted, and leaving is being deleted too": {
			candidates: []*v1alpha1.CardQuota{leaving, old},
			wantOwner:  leaving,
			deleted:    old,
		},
	}) {
		check.Equal(t, "owner", tc.wantOwner, QueueOwner(tc.candidates))
		check.Equal(t, "next owner", tc.wantNext, NextOwner(tc.deleted, tc.candidates))
	}
	check.Equal(t, "owner of a queue without a CardQuota", nil, QueueOwner(nil))
}

// TestQueueOwnerDoesNotDependOnTheOrder: watches list CardQuotas in any order. Among random candidates, some of the
// same age, the owner of the queue is the same when they are listed in another order.
func TestQueueOwnerDoesNotDependOnTheOrder(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		candidates := make([]*v1alpha1.CardQuota, rapid.IntRange(1, 6).Draw(t, "candidates"))
		for i := range candidates {
			candidates[i] = &v1alpha1.CardQuota{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("q", i),
				CreationTimestamp: metav1.NewTime(time.Unix(rapid.Int64Range(0, 2).Draw(t, "second"), 0))}}
		}
		want := QueueOwner(candidates)
		got := QueueOwner(rapid.Permutation(candidates).Draw(t, "order"))
		check.Must(t, got == want, "Owner = %s, in another order %s", want.Name, got.Name)
	})
}
