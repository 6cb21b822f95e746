package script

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/testing/words"
)

// quotaKeys are the words of a CardQuota of one card, H200. All of them except quota, queue and created
// are its status.
var quotaKeys = words.Keys[*v1alpha1.CardQuota]{
	"quota": words.Int(func(q *v1alpha1.CardQuota, cards int) {
		q.Spec.Cards = []v1alpha1.Card{{Name: models.Replace("H200"), Quota: ptr.To(int64(cards))}}
	}),
	"queue":   words.Text(func(q *v1alpha1.CardQuota, name string) { q.Spec.QueueName = name }),
	"created": second(func(q *v1alpha1.CardQuota, at metav1.Time) { q.CreationTimestamp = at }),

	"used":        statusNumber(func(c *v1alpha1.CardStatus) *int64 { return &c.Used }),
	"free":        statusNumber(func(c *v1alpha1.CardStatus) *int64 { return &c.Free }),
	"pending":     statusNumber(func(c *v1alpha1.CardStatus) *int64 { return &c.Pending }),
	"deserved":    statusNumber(func(c *v1alpha1.CardStatus) *int64 { return &c.Deserved }),
	"guarantee":   statusNumber(func(c *v1alpha1.CardStatus) *int64 { return &c.Guarantee }),
	"borrowed":    statusNumber(func(c *v1alpha1.CardStatus) *int64 { return &c.Borrowed }),
	"physical":    statusNumber(func(c *v1alpha1.CardStatus) *int64 { return &c.Physical }),
	"overQuotaBy": statusNumber(func(c *v1alpha1.CardStatus) *int64 { return &c.OverQuotaBy }),
	"usedCPU":     usedAmount(func(q *v1alpha1.CardQuota, status *v1alpha1.ResourceStatus) { q.Status.CPU = status }),
	"usedMemory":  usedAmount(func(q *v1alpha1.CardQuota, status *v1alpha1.ResourceStatus) { q.Status.Memory = status }),

	// blocked=pod:NAME,card:NAME,count:N,reason:REASON is an entry of status.blocked, with podgroup:NAME
	// for a PodGroup. blocked= without a value is no entry, and entries replace those of earlier steps.
	"blocked": addBlocked,
	// holder=pod:NAME,queue:NAME,serviceType:NAME,count:N uses cards for which the entry before it waits.
	"holder": addHolder,
}

// statusNumber returns a setter of a number in the status of the card.
func statusNumber(field func(*v1alpha1.CardStatus) *int64) func(*v1alpha1.CardQuota, string) error {
	return words.Int(func(q *v1alpha1.CardQuota, n int) {
		if len(q.Status.Cards) == 0 {
			q.Status.Cards = []v1alpha1.CardStatus{{Name: models.Replace("H200"), Quota: ptr.Deref(q.Spec.Cards[0].Quota, 0), Physical: 8}}
		}
		*field(&q.Status.Cards[0]) = int64(n)
	})
}

func usedAmount(set func(*v1alpha1.CardQuota, *v1alpha1.ResourceStatus)) func(*v1alpha1.CardQuota, string) error {
	return func(q *v1alpha1.CardQuota, value string) error {
		used, err := resource.ParseQuantity(value)
		set(q, &v1alpha1.ResourceStatus{Used: used})
		return err
	}
}

var blockedKeys = words.Keys[*v1alpha1.BlockedStatus]{
	"pod":      words.Text(func(b *v1alpha1.BlockedStatus, name string) { b.Workload = podReference(name) }),
	"podgroup": words.Text(func(b *v1alpha1.BlockedStatus, name string) { b.Workload = groupReference(name) }),
	"card":     words.Text(func(b *v1alpha1.BlockedStatus, name string) { b.Card = name }),
	"count":    words.Int(func(b *v1alpha1.BlockedStatus, cards int) { b.Count = int64(cards) }),
	"reason":   words.Text(func(b *v1alpha1.BlockedStatus, reason string) { b.Reason = v1alpha1.BlockedReason(reason) }),
}

func addBlocked(q *v1alpha1.CardQuota, value string) error {
	if value == "" {
		q.Status.BlockedTotal = 0
		return nil
	}

	var entry v1alpha1.BlockedStatus
	if err := words.ApplyParts(value, &entry, blockedKeys, "card", "count", "reason"); err != nil {
		return err
	}

	q.Status.Blocked = append(q.Status.Blocked, entry)
	waiting := map[v1alpha1.WorkloadReference]bool{}
	for _, entry := range q.Status.Blocked {
		waiting[entry.Workload] = true
	}
	q.Status.BlockedTotal = int32(len(waiting))
	return nil
}

var holderKeys = words.Keys[*v1alpha1.CardHolder]{
	"pod":         words.Text(func(h *v1alpha1.CardHolder, name string) { h.Workload = podReference(name) }),
	"podgroup":    words.Text(func(h *v1alpha1.CardHolder, name string) { h.Workload = groupReference(name) }),
	"queue":       words.Text(func(h *v1alpha1.CardHolder, name string) { h.Queue = name }),
	"serviceType": words.Text(func(h *v1alpha1.CardHolder, name string) { h.ServiceType = name }),
	"count":       words.Int(func(h *v1alpha1.CardHolder, cards int) { h.Count = int64(cards) }),
}

func addHolder(q *v1alpha1.CardQuota, value string) error {
	if len(q.Status.Blocked) == 0 {
		return fmt.Errorf("write blocked= before it")
	}

	holder := v1alpha1.CardHolder{ServiceType: "none", Card: models.Replace("H200")}
	if err := words.ApplyParts(value, &holder, holderKeys, "count"); err != nil {
		return err
	}

	entry := &q.Status.Blocked[len(q.Status.Blocked)-1]
	entry.Holders = append(entry.Holders, holder)
	return nil
}

func podReference(name string) v1alpha1.WorkloadReference {
	return v1alpha1.WorkloadReference{Kind: "Pod", Namespace: Namespace, Name: name}
}

func groupReference(name string) v1alpha1.WorkloadReference {
	return v1alpha1.WorkloadReference{APIGroup: v1beta1.GroupName, Kind: "PodGroup", Namespace: Namespace, Name: name}
}
