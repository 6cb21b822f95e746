package localquota

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/seed"
)

func selecting(selector *metav1.LabelSelector) *v1alpha1.CardQuota {
	return builder.CardQuota("chat").With(func(q *v1alpha1.CardQuota) { q.Spec.NamespaceSelector = selector }).Obj()
}

func TestSelectNamespaces(t *testing.T) {
	ending := builder.Namespace("ending", "team", "chat")
	ending.DeletionTimestamp = &metav1.Time{Time: time.Unix(0, 0)}
	namespaces := []corev1.Namespace{*builder.Namespace("b", "team", "chat"), *builder.Namespace("a", "team", "chat"), *builder.Namespace("other", "team", "search"), *builder.Namespace("none"), *ending}
	chat := &metav1.LabelSelector{MatchLabels: map[string]string{"team": "chat"}}
	conflicting := func(reason string) *v1alpha1.CardQuota {
		q := selecting(chat)
		q.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionQueueSynced, Reason: reason}}
		return q
	}

	for t, tc := range check.Cases(t, map[string]struct {
		quota *v1alpha1.CardQuota
		want  []string
	}{
		"explicit":                      {selecting(chat), []string{"a", "b"}},
		"no selector":                   {selecting(nil), nil},
		"every namespace":               {selecting(&metav1.LabelSelector{}), nil},
		"invalid":                       {selecting(&metav1.LabelSelector{MatchLabels: map[string]string{"-": "-"}}), nil},
		"the queue belongs to another":  {conflicting(v1alpha1.ReasonQueueConflict), nil},
		"the queue belongs to Volcano":  {conflicting(v1alpha1.ReasonQueueReserved), nil},
		"the queue was written":         {conflicting(v1alpha1.ReasonSynced), []string{"a", "b"}},
		"selects by another expression": {selecting(&metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "team", Operator: metav1.LabelSelectorOpExists}}}), []string{"a", "b", "other"}},
	}) {
		var got []string
		if selector := ExplicitSelector(tc.quota); selector != nil && OwnsQueue(tc.quota) {
			got = SelectNamespaces(selector, namespaces)
		}
		check.Equal(t, "namespaces", tc.want, got)
	}

	check.That(t, ExplicitSelector(conflicting(v1alpha1.ReasonQueueConflict)) != nil, "a CardQuota that has just got its queue selects nothing until the condition is written")
}

func TestNewStatus(t *testing.T) {
	holder := func(namespace, name, queue, serviceType string, count int64) v1alpha1.CardHolder {
		h := v1alpha1.CardHolder{Queue: queue, ServiceType: serviceType, Card: "NVIDIA-H200", Count: count}
		if name != "" {
			h.Workload = v1alpha1.WorkloadReference{Kind: "Pod", Namespace: namespace, Name: name}
		}
		return h
	}

	q := builder.CardQuota("chat").ServiceType("inference").Card("NVIDIA-H200", 8).Queue("chat-queue").Obj()
	q.Status.Summary = "6/8 NVIDIA-H200"
	q.Status.PendingSummary = "1 NVIDIA-H200"
	q.Status.Cards = []v1alpha1.CardStatus{{Name: "NVIDIA-H200", Quota: 8, Used: 6, Pending: 1}}
	q.Status.CPU = &v1alpha1.ResourceStatus{Used: resource.MustParse("3"), Quota: ptr.To(resource.MustParse("4"))}
	q.Status.Memory = &v1alpha1.ResourceStatus{Used: resource.MustParse("1Gi")}
	q.Status.Queue = &v1alpha1.QueueStatus{Name: "chat-queue", State: "Open"}

	entry := v1alpha1.BlockedStatus{Card: "NVIDIA-H200", Count: 1, Reason: v1alpha1.BlockedNoFreeCard, Message: "full",
		Holders: []v1alpha1.CardHolder{holder("secret", "a", "search", "training", 4), holder("chat-1", "mine", "chat-queue", "inference", 3), holder("secret", "b", "vision", "training", 1)}}
	want := v1alpha1.LocalCardQuotaStatus{
		Queue: "chat-queue", State: "Open", ServiceType: "inference", Summary: "6/8 NVIDIA-H200", PendingSummary: "1 NVIDIA-H200", Cards: q.Status.Cards,
		CPU: q.Status.CPU, Memory: q.Status.Memory, BlockedTotal: 1, BlockedElsewhere: 2,
	}

	hidden := entry
	hidden.Holders = []v1alpha1.CardHolder{holder("", "", "", "training", 5), holder("chat-1", "mine", "chat-queue", "inference", 3)}
	want.Blocked = []v1alpha1.BlockedStatus{hidden}

	got := NewStatus(q, "chat-1", Waiting{Blocked: []v1alpha1.BlockedStatus{entry}, Total: 1}, 3)
	check.Equal(t, "status", want, got)
	check.That(t, got.CPU != q.Status.CPU && got.CPU.Quota != q.Status.CPU.Quota && got.Memory != q.Status.Memory, "a write of the view changes the CardQuota of the cache")
	check.Equal(t, "the entry of the count", "a", entry.Holders[0].Workload.Name)
	check.Equal(t, "more here than in all", int32(0), NewStatus(q, "chat-1", Waiting{Total: 3}, 1).BlockedElsewhere)
}

// TestAViewShowsTheStateOfTheQueue: Volcano keeps a queue Open that is held.
func TestAViewShowsTheStateOfTheQueue(t *testing.T) {
	const (
		ready     = v1alpha1.ConditionReady
		hierarchy = v1alpha1.ConditionHierarchyValid
	)

	for t, tc := range check.Cases(t, map[string]struct{ queue, condition, reason, want string }{
		"open":                     {"Open", ready, v1alpha1.ReasonReady, "Open"},
		"not enforced":             {"Open", ready, v1alpha1.EventNotEnforced, "Open"},
		"scaled in a tree":         {"Open", hierarchy, v1alpha1.ReasonScaled, "Open"},
		"held":                     {"Open", ready, v1alpha1.ReasonHeld, "Held"},
		"no parent":                {"Open", hierarchy, v1alpha1.ReasonParentNotFound, "Held"},
		"a cycle of parents":       {"Open", hierarchy, v1alpha1.ReasonParentCycle, "Held"},
		"too deep":                 {"Open", hierarchy, v1alpha1.ReasonTooDeep, "Held"},
		"its end":                  {"Open", v1alpha1.ConditionQueueSynced, v1alpha1.ReasonDraining, "Draining"},
		"closed":                   {"Closed", ready, v1alpha1.ReasonQueueNotOpen, "Closed"},
		"closing without a parent": {"Closing", hierarchy, v1alpha1.ReasonParentNotFound, "Closing"},
		"not opened yet":           {"", hierarchy, v1alpha1.ReasonParentNotFound, ""},
	}) {
		q := builder.CardQuota("chat").Condition(tc.condition, metav1.ConditionFalse, tc.reason, "said").Obj()
		q.Status.Queue = &v1alpha1.QueueStatus{Name: "chat", State: tc.queue}
		check.Equal(t, "state", tc.want, NewStatus(q, "chat-1", Waiting{}, 0).State)
	}

	for policy, want := range map[v1alpha1.StopPolicy]string{v1alpha1.StopPolicyNone: "Open", v1alpha1.StopPolicyHold: "Held", v1alpha1.StopPolicyHoldAndDrain: "Held"} {
		q := builder.CardQuota("chat").Condition(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonWaitingForChildren, "said").Obj()
		q.Spec.StopPolicy = policy
		q.Status.Queue = &v1alpha1.QueueStatus{Name: "chat", State: "Open"}
		check.Equal(t, string(policy), want, NewStatus(q, "chat-1", Waiting{}, 0).State)
	}

	check.Equal(t, "state without a status", "", NewStatus(selecting(nil), "chat-1", Waiting{}, 0).State)
}

// TestAViewNamesNoStranger: a view names only workloads and queues of its own
// namespace, and no card gets lost.
func TestAViewNamesNoStranger(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		var entry v1alpha1.BlockedStatus
		sums := map[string]int64{}
		for range rapid.IntRange(0, 3).Draw(t, "holders") {
			h := v1alpha1.CardHolder{
				Workload: v1alpha1.WorkloadReference{Kind: "Pod", Namespace: rapid.SampledFrom([]string{"mine", "theirs"}).Draw(t, "namespace"), Name: fmt.Sprint("secret", rapid.IntRange(0, 2).Draw(t, "name"))},
				Queue:    rapid.SampledFrom([]string{"", "secret"}).Draw(t, "queue"), ServiceType: rapid.SampledFrom([]string{"", "training"}).Draw(t, "type"),
				Card: rapid.SampledFrom([]string{"A", "B"}).Draw(t, "card"), Count: rapid.Int64Range(1, 8).Draw(t, "count"),
			}
			entry.Holders = append(entry.Holders, h)
			sums[h.Card+h.ServiceType] = sums[h.Card+h.ServiceType] + h.Count
		}

		got := NewStatus(selecting(nil), "mine", Waiting{Blocked: []v1alpha1.BlockedStatus{entry}, Total: 1}, 1).Blocked[0].Holders
		for _, h := range got {
			check.Must(t, h.Workload.Namespace == "mine" || (h.Workload == (v1alpha1.WorkloadReference{}) && h.Queue == ""), "%+v is named", h)
			sums[h.Card+h.ServiceType] -= h.Count
		}

		for key, left := range sums {
			check.Must(t, left == 0, "%d cards of %s are lost", left, key)
		}
		check.Must(t, slices.IsSortedFunc(got, func(a, b v1alpha1.CardHolder) int { return int(b.Count - a.Count) }), "%+v are not sorted", got)
	})
}

func TestNewBelongsToItsCardQuota(t *testing.T) {
	view := New(builder.CardQuota("chat").UID("1").Obj(), "chat-1")
	check.Equal(t, "name", "chat-1/chat", view.Namespace+"/"+view.Name)
	check.Equal(t, "owner", []metav1.OwnerReference{{APIVersion: "cardquota.dev/v1alpha1", Kind: "CardQuota", Name: "chat", UID: "1"}}, view.OwnerReferences)
}
