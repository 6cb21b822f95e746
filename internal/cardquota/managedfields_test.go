package cardquota

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/servicetype"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/seed"
)

const plannedFields = `{"f:metadata":{"f:labels":{"f:app.kubernetes.io/managed-by":{}},"f:annotations":{".":{},"f:volcano.sh/card.quota":{},"f:volcano.sh/service.type":{},` +
	`"f:volcano.sh/closed-by-parent":{}}},"f:spec":{"f:parent":{},"f:capability":{".":{},"f:cpu":{}}}}`

// synced is a CardQuota and the Queue it wants.
func synced() (*v1alpha1.CardQuota, *v1beta1.Queue) {
	quota := quotaOf(limiting("8", ""))
	live := liveQueue(func(q *v1beta1.Queue) {
		q.Annotations = map[string]string{
			"volcano.sh/card.quota": "{}", "volcano.sh/service.type": "notebook", "volcano.sh/closed-by-parent": "false",
		}
		q.Labels = map[string]string{"app.kubernetes.io/managed-by": "cardquota"}
		q.Spec.Capability = corev1.ResourceList{"cpu": resource.MustParse("8000m")}
	}, wrote("cardquota", "Apply", plannedFields))
	return quota, live
}

func TestInSync(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		change    func(*v1beta1.Queue)
		want      bool
		wantDrift []string
	}{
		"every value in place and owned": {change: func(*v1beta1.Queue) {}, want: true},
		"a foreign field is none of our business": {
			change: func(q *v1beta1.Queue) {
				q.Annotations["team/owner"] = "x"
				q.Spec.Capability["memory"] = resource.MustParse("1Gi")
			},
			want: true,
		},
		"another quota": {change: func(q *v1beta1.Queue) { q.Annotations["volcano.sh/card.quota"] = `{"NVIDIA-H200":99}` },
			wantDrift: []string{".metadata.annotations.volcano.sh/card.quota"}},
		"a quota that is gone": {change: func(q *v1beta1.Queue) { delete(q.Annotations, "volcano.sh/card.quota") },
			wantDrift: []string{".metadata.annotations.volcano.sh/card.quota"}},
		"a selector of another manager, and none in the CardQuota, is no drift": {
			change: func(q *v1beta1.Queue) { q.Annotations["volcano.sh/namespace-selector"] = `{}` }, want: true},
		"the label that an earlier version did not write is to be written, but is no drift": {change: func(q *v1beta1.Queue) {
			q.Labels = nil
			q.ManagedFields[0].FieldsV1.Raw = []byte(strings.Replace(plannedFields, `"f:app.kubernetes.io/managed-by":{}`, "", 1))
		}},
		"another capability": {change: func(q *v1beta1.Queue) { q.Spec.Capability["cpu"] = resource.MustParse("9") },
			wantDrift: []string{".spec.capability.cpu"}},
		"right values without an owner are to be claimed, but are no drift": {change: func(q *v1beta1.Queue) { q.ManagedFields = nil }},
		"a field that is still owned and not wanted any more is to be released": {change: func(q *v1beta1.Queue) {
			q.ManagedFields[0].FieldsV1.Raw = []byte(strings.Replace(plannedFields, `"f:parent"`, `"f:weight":{},"f:parent"`, 1))
		}},
		"what a webhook added to our request is not what we applied": {
			change: func(q *v1beta1.Queue) { q.ManagedFields[0].Operation = "Update" }},
		"a manager with unreadable fields owns nothing": {
			change: func(q *v1beta1.Queue) { q.ManagedFields[0].FieldsV1.Raw = []byte("nonsense") }},
	}) {
		quota, live := synced()
		tc.change(live)
		plan := NewDesiredQueue(quota, PolicyInput{Types: servicetype.BuiltIn}, live, "", nil)
		check.Equal(t, "InSync", tc.want, plan.InSync(live))
		check.Equal(t, "drift", tc.wantDrift, plan.DriftedFields(live))
	}

	t.Run("another selector", func(t *testing.T) {
		quota, live := synced()
		quota.Spec.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": "chat"}}
		live.Annotations["volcano.sh/namespace-selector"] = `{}`
		plan := NewDesiredQueue(quota, PolicyInput{Types: servicetype.BuiltIn}, live, "", nil)
		diff := cmp.Diff([]string{".metadata.annotations.volcano.sh/namespace-selector"}, plan.DriftedFields(live))
		check.That(t, diff == "" && !plan.InSync(live), "in sync %v; drift differs (-want +got):\n%s", plan.InSync(live), diff)
	})

	t.Run("no queue is never in sync", func(t *testing.T) {
		quota, _ := synced()
		check.That(t, !NewDesiredQueue(quota, PolicyInput{Types: servicetype.BuiltIn}, nil, "", nil).InSync(nil), "a missing queue must be made")
	})
}

func TestServiceTypeChanged(t *testing.T) {
	none := plannedFields
	both := strings.Replace(none, `"f:parent":{}`, `"f:parent":{},"f:priority":{},"f:reclaimable":{}`, 1)
	means := func(priority int32) ServiceTypeLookup {
		return func(string) (servicetype.Type, bool) { return servicetype.Type{Priority: priority}, true }
	}

	meansNothing := func(string) (servicetype.Type, bool) { return servicetype.Type{}, false }
	for t, tc := range check.Cases(t, map[string]struct {
		types      ServiceTypeLookup
		entries    []metav1.ManagedFieldsEntry
		gone, want bool
	}{
		"the same meaning":                  {types: means(7), entries: []metav1.ManagedFieldsEntry{wrote("cardquota", "Apply", both)}},
		"another priority":                  {types: means(8), entries: []metav1.ManagedFieldsEntry{wrote("cardquota", "Apply", both)}, want: true},
		"no meaning any more":               {types: meansNothing, entries: []metav1.ManagedFieldsEntry{wrote("cardquota", "Apply", both)}, want: true},
		"no meaning, as before":             {types: meansNothing, entries: []metav1.ManagedFieldsEntry{wrote("cardquota", "Apply", none)}},
		"a meaning for the first time":      {types: means(7), entries: []metav1.ManagedFieldsEntry{wrote("cardquota", "Apply", none)}, want: true},
		"another manager took the priority": {types: means(8), entries: []metav1.ManagedFieldsEntry{wrote("cardquota", "Apply", strings.Replace(both, `"f:priority":{},`, "", 1)), wrote("helm", "Update", `{"f:spec":{"f:priority":{}}}`)}},
		"another manager owns a field that is new in the CardQuota": {types: means(8), entries: []metav1.ManagedFieldsEntry{wrote("cardquota", "Apply", none), wrote("helm", "Update", `{"f:spec":{"f:priority":{}}}`)}},
		"another manager removed all fields of the operator":        {types: means(7), entries: []metav1.ManagedFieldsEntry{wrote("kubectl", "Update", `{"f:spec":{"f:weight":{}}}`)}},
		"there is no Queue that could be of the past":               {types: means(8), gone: true},
	}) {
		quota, live := synced()
		live.Spec.Priority = 7
		live.Spec.Reclaimable = ptr(false)
		live.ManagedFields = tc.entries
		if tc.gone {
			live = nil
		}
		check.Equal(t, "Redefined", tc.want, NewDesiredQueue(quota, PolicyInput{Types: tc.types}, live, "", nil).ServiceTypeChanged(live))
	}
}

func TestManagedFieldsWithoutOperator(t *testing.T) {
	helm := wrote("helm", "Update", `{"f:spec":{"f:weight":{}}}`)
	status := wrote("cardquota", "Update", `{"f:status":{}}`)
	status.Subresource = "status"
	ours := wrote("cardquota", "Apply", plannedFields)
	added := wrote("cardquota", "Update", `{"f:spec":{"f:reclaimable":{}}}`)
	check.Equal(t, "only our own entries must go", []metav1.ManagedFieldsEntry{helm, status}, ManagedFieldsWithoutOperator(liveQueue(nil, helm, ours, added, status)))
	check.Equal(t, "one empty entry must stay", []metav1.ManagedFieldsEntry{{}}, ManagedFieldsWithoutOperator(liveQueue(nil, ours)))
	check.That(t, !HasOwnedFields(liveQueue(nil, helm, added)) && HasOwnedFields(liveQueue(nil, helm, ours)), "owned is what was applied")
}

// applyConflict is the answer of an API server to a conflicting apply.
func applyConflict(causes ...metav1.StatusCause) error {
	return fmt.Errorf("apply queue: %w", apierrors.NewApplyConflict(causes, "Apply failed"))
}

func cause(message, field string) metav1.StatusCause {
	return metav1.StatusCause{Type: metav1.CauseTypeFieldManagerConflict, Message: message, Field: field}
}

func TestConflicts(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		err          error
		want         []FieldConflict
		wantConflict bool
	}{
		"who applied": {err: applyConflict(cause(`conflict with "helm" using scheduling.volcano.sh/v1beta1`, ".spec.weight")),
			want: []FieldConflict{{Manager: "helm", Field: ".spec.weight"}}, wantConflict: true},
		"who updated, with the time": {
			err:  applyConflict(cause(`conflict with "kubectl-edit" using scheduling.volcano.sh/v1beta1 at 2026-01-02T15:04:05Z`, ".spec.priority")),
			want: []FieldConflict{{Manager: "kubectl-edit", Field: ".spec.priority"}}, wantConflict: true},
		"our own name on what a webhook added is no other manager": {
			err:          applyConflict(cause(`conflict with "cardquota" using scheduling.volcano.sh/v1beta1`, ".spec.weight")),
			wantConflict: true},
		"a stale resource version is no field conflict": {
			err: apierrors.NewConflict(v1beta1.Resource("queues"), "team", fmt.Errorf("changed"))},
		"another error is no field conflict": {err: fmt.Errorf("no route to host")},
		"no error is no field conflict":      {},
	}) {
		check.Equal(t, "conflicts", tc.want, FieldConflicts(tc.err))

		check.Equal(t, "IsConflict", tc.wantConflict, IsFieldConflict(tc.err))
	}
}

func TestDescribeConflicts(t *testing.T) {
	got := DescribeConflicts([]FieldConflict{
		{Manager: "kubectl-edit", Field: ".spec.priority"},
		{Field: ".spec.capability.cpu"},
		{Manager: "helm", Field: ".spec.reclaimable"},
		{Manager: "kubectl-edit", Field: ".metadata.annotations.volcano.sh/card.quota"},
	})
	want := "another client changed or removed spec.capability.cpu; helm wrote spec.reclaimable; " +
		"kubectl-edit wrote spec.priority, volcano.sh/card.quota"
	check.Equal(t, "Describe", want, got)
}

func TestQueueOwner(t *testing.T) {
	at := func(name string, age time.Duration, deleting bool) *v1alpha1.CardQuota {
		q := &v1alpha1.CardQuota{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(time.Unix(1e9, 0).Add(-age))}}
		if deleting {
			q.DeletionTimestamp = &metav1.Time{}
		}
		return q
	}

	old := at("old", time.Hour, false)
	young := at("young", 0, false)
	twin := at("a-twin", time.Hour, false)
	leaving := at("leaving", 2*time.Hour, true)
	cases := map[string]struct {
		rivals        []*v1alpha1.CardQuota
		want          string
		of            *v1alpha1.CardQuota
		wantSuccessor string
	}{
		"the older one has the queue":              {rivals: []*v1alpha1.CardQuota{young, old}, want: "old", of: old, wantSuccessor: "young"},
		"of equally old ones the first by name":    {rivals: []*v1alpha1.CardQuota{old, twin}, want: "a-twin", of: twin, wantSuccessor: "old"},
		"one that is leaving has it until it left": {rivals: []*v1alpha1.CardQuota{old, leaving}, want: "leaving", of: leaving, wantSuccessor: "old"},
		"alone there is no successor":              {rivals: []*v1alpha1.CardQuota{old}, want: "old", of: old},
		"a terminating one succeeds no other":      {rivals: []*v1alpha1.CardQuota{leaving, old}, want: "leaving", of: old},
	}

	name := func(q *v1alpha1.CardQuota) string {
		if q == nil {
			return ""
		}
		return q.Name
	}

	for t, tc := range check.Cases(t, cases) {
		check.Equal(t, "Owner", tc.want, name(QueueOwner(tc.rivals)))
		check.Equal(t, "Successor", tc.wantSuccessor, name(NextOwner(tc.of, tc.rivals)))
	}
	check.That(t, QueueOwner(nil) == nil, "a queue without a CardQuota has an owner")
}

func TestQueueOwnerDoesNotDependOnTheOrder(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		rivals := make([]*v1alpha1.CardQuota, rapid.IntRange(1, 6).Draw(t, "rivals"))
		for i := range rivals {
			rivals[i] = &v1alpha1.CardQuota{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("q", i),
				CreationTimestamp: metav1.NewTime(time.Unix(rapid.Int64Range(0, 2).Draw(t, "second"), 0))}}
		}
		want := QueueOwner(rivals)
		got := QueueOwner(rapid.Permutation(rivals).Draw(t, "order"))
		check.Must(t, got == want, "Owner = %s, in another order %s", want.Name, got.Name)
	})
}
