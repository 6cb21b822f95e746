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
	"cardquota.dev/operator/internal/waiting"
	"cardquota.dev/operator/internal/workload"
)

// newQuotaFor returns CardQuota chat with a selector of namespaces.
func newQuotaFor(selector *metav1.LabelSelector) *v1alpha1.CardQuota {
	return builder.CardQuota("chat").With(func(q *v1alpha1.CardQuota) { q.Spec.NamespaceSelector = selector }).Obj()
}

// TestSelectedNamespacesSeeTheirCardQuota: tenants see a CardQuota as a LocalCardQuota in each namespace that it
// selects by labels. One that takes every namespace is shown in none, because it belongs to no tenant. A CardQuota
// whose queue belongs to another one shows nothing either. Namespaces a, b and deleted have the label team=chat, but
// "deleted" is being deleted, so it gets no view.
func TestSelectedNamespacesSeeTheirCardQuota(t *testing.T) {
	deleted := builder.Namespace("deleted", "team", "chat")
	deleted.DeletionTimestamp = &metav1.Time{Time: time.Unix(0, 0)}
	namespaces := []corev1.Namespace{
		*builder.Namespace("b", "team", "chat"),
		*builder.Namespace("a", "team", "chat"),
		*builder.Namespace("search", "team", "search"),
		*builder.Namespace("without-label"),
		*deleted,
	}

	chat := &metav1.LabelSelector{MatchLabels: map[string]string{"team": "chat"}}
	withQueueSynced := func(reason string) *v1alpha1.CardQuota {
		q := newQuotaFor(chat)
		q.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionQueueSynced, Reason: reason}}
		return q
	}

	for t, tc := range check.Cases(t, map[string]struct {
		quota *v1alpha1.CardQuota
		want  []string
	}{
		"the label of a team": {newQuotaFor(chat), []string{"a", "b"}},
		"no selector":         {newQuotaFor(nil), nil},
		"an empty selector, which takes every namespace": {newQuotaFor(&metav1.LabelSelector{}), nil},
		"an invalid selector": {
			quota: newQuotaFor(&metav1.LabelSelector{MatchLabels: map[string]string{"-": "-"}}),
		},
		"the queue belongs to another CardQuota": {withQueueSynced(v1alpha1.ReasonQueueConflict), nil},
		"the queue belongs to Volcano":           {withQueueSynced(v1alpha1.ReasonQueueReserved), nil},
		"the operator wrote the queue":           {withQueueSynced(v1alpha1.ReasonSynced), []string{"a", "b"}},
		"an expression: any team": {
			quota: newQuotaFor(&metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
				{Key: "team", Operator: metav1.LabelSelectorOpExists},
			}}),
			want: []string{"a", "b", "search"},
		},
	}) {
		var got []string
		if selector := workload.ExplicitSelector(tc.quota.Spec.NamespaceSelector); selector != nil && OwnsQueue(tc.quota) {
			got = SelectNamespaces(selector, namespaces)
		}
		check.Equal(t, "namespaces", tc.want, got)
	}
}

// TestStatusOfAViewHidesOtherTenants: the view shows the usage of the CardQuota, and what waits in its own
// namespace, chat-1, with who uses the cards. Workloads of other namespaces and queues have no names there:
// the 4 and 1 cards that two pods of namespace secret use are 5 of service type training. Of 3 blocked
// workloads one is here, so 2 are elsewhere. The CardQuota and its holders are in a cache, so the view has
// copies.
func TestStatusOfAViewHidesOtherTenants(t *testing.T) {
	newHolder := func(namespace, name, queue, serviceType string, count int64) v1alpha1.CardHolder {
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

	blocked := v1alpha1.BlockedStatus{
		Card: "NVIDIA-H200", Count: 1, Reason: v1alpha1.BlockedNoFreeCard, Message: "full",
		Holders: []v1alpha1.CardHolder{
			newHolder("secret", "a", "search", "training", 4),
			newHolder("chat-1", "own", "chat-queue", "inference", 3),
			newHolder("secret", "b", "vision", "training", 1),
		},
	}
	shown := blocked
	shown.Holders = []v1alpha1.CardHolder{newHolder("", "", "", "training", 4+1), newHolder("chat-1", "own", "chat-queue", "inference", 3)}

	got := NewStatus(q, "chat-1", waiting.Entries{Blocked: []v1alpha1.BlockedStatus{blocked}, Total: 1}, 3)
	check.Equal(t, "status", v1alpha1.LocalCardQuotaStatus{
		Queue:            "chat-queue",
		State:            "Open",
		ServiceType:      "inference",
		Summary:          "6/8 NVIDIA-H200",
		PendingSummary:   "1 NVIDIA-H200",
		Cards:            q.Status.Cards,
		CPU:              q.Status.CPU,
		Memory:           q.Status.Memory,
		BlockedTotal:     1,
		BlockedElsewhere: 3 - 1,
		Blocked:          []v1alpha1.BlockedStatus{shown},
	}, got)

	check.That(t, got.CPU != q.Status.CPU && got.CPU.Quota != q.Status.CPU.Quota, "the view shares the CPU of the CardQuota")
	check.That(t, got.Memory != q.Status.Memory, "the view shares the memory of the CardQuota")
	check.Equal(t, "first holder of the input", "a", blocked.Holders[0].Workload.Name)
}

// TestBlockedElsewhereIsNeverNegative: the number of all blocked workloads may be of an older count than that
// of the namespace. Here it is 1, while 3 workloads are blocked in the namespace.
func TestBlockedElsewhereIsNeverNegative(t *testing.T) {
	check.Equal(t, "blocked elsewhere", 0, NewStatus(newQuotaFor(nil), "chat-1", waiting.Entries{Total: 3}, 1).BlockedElsewhere)
}

// TestStateOfAViewSaysWhetherWorkStarts: Volcano calls a queue Open although a stop policy holds it, or its place in
// the tree closes it. Its tenants would wait without knowing why, so the view says Held, or Draining while the
// CardQuota is deleted. A queue that Volcano closes has Volcano's state. Only the reason of a condition counts, so
// each condition here is False.
func TestStateOfAViewSaysWhetherWorkStarts(t *testing.T) {
	const (
		ready     = v1alpha1.ConditionReady
		hierarchy = v1alpha1.ConditionHierarchyValid
	)

	for t, tc := range check.Cases(t, map[string]struct{ queue, condition, reason, want string }{
		"Open, ready": {queue: "Open", condition: ready, reason: v1alpha1.ReasonReady, want: "Open"},
		"Open, quotas are not proven to be enforced": {queue: "Open", condition: ready, reason: v1alpha1.EventNotEnforced, want: "Open"},
		"Open, amounts are scaled in a tree":         {queue: "Open", condition: hierarchy, reason: v1alpha1.ReasonScaled, want: "Open"},
		"Open, a stop policy holds it":               {queue: "Open", condition: ready, reason: v1alpha1.ReasonHeld, want: "Held"},
		"Open, its parent does not exist":            {queue: "Open", condition: hierarchy, reason: v1alpha1.ReasonParentNotFound, want: "Held"},
		"Open, its parents form a cycle":             {queue: "Open", condition: hierarchy, reason: v1alpha1.ReasonParentCycle, want: "Held"},
		"Open, it is too deep in the tree":           {queue: "Open", condition: hierarchy, reason: v1alpha1.ReasonTooDeep, want: "Held"},
		"Open, its CardQuota is being deleted": {
			queue:     "Open",
			condition: v1alpha1.ConditionQueueSynced,
			reason:    v1alpha1.ReasonDraining,
			want:      "Draining",
		},
		"Closed": {queue: "Closed", condition: ready, reason: v1alpha1.ReasonQueueNotOpen, want: "Closed"},
		"Closing, its parent does not exist": {
			queue:     "Closing",
			condition: hierarchy,
			reason:    v1alpha1.ReasonParentNotFound,
			want:      "Closing",
		},
		"no state yet, its parent does not exist: none": {condition: hierarchy, reason: v1alpha1.ReasonParentNotFound},
	}) {
		q := builder.CardQuota("chat").Condition(tc.condition, metav1.ConditionFalse, tc.reason, "said").Obj()
		q.Status.Queue = &v1alpha1.QueueStatus{Name: "chat", State: tc.queue}
		check.Equal(t, "state", tc.want, NewStatus(q, "chat-1", waiting.Entries{}, 0).State)
	}
	check.Equal(t, "state without a status", "", NewStatus(newQuotaFor(nil), "chat-1", waiting.Entries{}, 0).State)
}

// TestAStopPolicyHoldsAView: the view says Held as soon as a stop policy of the spec holds the queue.
// Condition Ready need not say so: here it has another reason, as a CardQuota that waits for its children.
func TestAStopPolicyHoldsAView(t *testing.T) {
	for policy, want := range map[v1alpha1.StopPolicy]string{
		v1alpha1.StopPolicyNone: "Open", v1alpha1.StopPolicyHold: "Held", v1alpha1.StopPolicyHoldAndDrain: "Held",
	} {
		q := builder.CardQuota("chat").Condition(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonWaitingForChildren, "said").Obj()
		q.Spec.StopPolicy = policy
		q.Status.Queue = &v1alpha1.QueueStatus{Name: "chat", State: "Open"}
		check.Equal(t, "state with stop policy "+string(policy), want, NewStatus(q, "chat-1", waiting.Entries{}, 0).State)
	}
}

// TestViewsNameOnlyTheirOwnWorkloads: in the view of namespace "mine" every holder of cards either is a workload of
// it, or has neither a name nor a queue. The numbers of cards by card name and service type add up to those of all
// holders, and the largest come first. Holders are random.
func TestViewsNameOnlyTheirOwnWorkloads(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		var entry v1alpha1.BlockedStatus
		sums := map[string]int64{}
		for range rapid.IntRange(0, 3).Draw(t, "holders") {
			h := v1alpha1.CardHolder{
				Workload: v1alpha1.WorkloadReference{
					Kind:      "Pod",
					Namespace: rapid.SampledFrom([]string{"mine", "theirs"}).Draw(t, "namespace"),
					Name:      fmt.Sprint("secret", rapid.IntRange(0, 2).Draw(t, "name")),
				},
				Queue:       rapid.SampledFrom([]string{"", "secret"}).Draw(t, "queue"),
				ServiceType: rapid.SampledFrom([]string{"", "training"}).Draw(t, "type"),
				Card:        rapid.SampledFrom([]string{"A", "B"}).Draw(t, "card"),
				Count:       rapid.Int64Range(1, 8).Draw(t, "count"),
			}
			entry.Holders = append(entry.Holders, h)
			sums[h.Card+h.ServiceType] += h.Count
		}

		got := NewStatus(newQuotaFor(nil), "mine", waiting.Entries{Blocked: []v1alpha1.BlockedStatus{entry}, Total: 1}, 1).Blocked[0].Holders
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

// TestViewIsDeletedWithItsCardQuota: a LocalCardQuota has the name of its CardQuota and is owned by it, so that
// Kubernetes deletes it with the CardQuota.
func TestViewIsDeletedWithItsCardQuota(t *testing.T) {
	view := New(builder.CardQuota("chat").UID("1").Obj(), "chat-1")
	check.Equal(t, "name", "chat-1/chat", view.Namespace+"/"+view.Name)
	check.Equal(t, "owner", []metav1.OwnerReference{
		{APIVersion: "cardquota.dev/v1alpha1", Kind: "CardQuota", Name: "chat", UID: "1"},
	}, view.OwnerReferences)
}
