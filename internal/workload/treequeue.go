package workload

import (
	"math"
	"unicode"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/quota"
)

// TreeOf returns the tree of Queues as the scheduler enforces it. unmanaged says what Queues without card.quota may use.
func TreeOf(queues []*v1beta1.Queue, unmanaged v1alpha1.UnmanagedQueues) *quota.Tree {
	written := make(map[string]quota.TreeQueue, len(queues))
	for _, queue := range queues {
		written[queue.Name] = QueueRulesFor(queue, unmanaged, nil).Tree
	}
	return quota.ResolveTree(written)
}

// TreeQueueFor returns a Queue as part of a tree: its parent, what it deserves and its
// guarantee, from its annotations and Volcano's own fields for CPU and memory. limits are those
// of its QueueRules. The refusal says what cannot be parsed; then the queue has no amounts at all.
//
// A queue inherits the CPU or memory of its parent that it does not limit, as in Volcano's capacity plugin. A managed
// queue below a parent also inherits it if it writes what it deserves but no capability.
func TreeQueueFor(queue *v1beta1.Queue, limits quota.Limits, isManaged bool) (quota.TreeQueue, *Refusal) {
	t := quota.TreeQueue{
		Parent: queue.Spec.Parent, AnyCard: limits.AnyCard, Weight: max(1, queue.Spec.Weight), Created: queue.CreationTimestamp.Time,
		IsHeld:       StopsWork(v1alpha1.StopPolicy(queue.Annotations[v1alpha1.AnnotationStopPolicy])),
		HoldMessage:  HoldMessage(queue),
		IsParentOnly: queue.Annotations[v1alpha1.AnnotationParentOnly] == "true",
		Quota:        quota.Amounts{}, Deserved: quota.Amounts{}, Guarantee: quota.Amounts{},
	}
	if t.Parent == RootQueue {
		t.Parent = ""
	}

	t.Quota.AddCards(limits.Cards)
	readCompute(&t, queue, corev1.ResourceCPU, quota.CPU, resource.Milli, limits.MilliCPU, isManaged)
	readCompute(&t, queue, corev1.ResourceMemory, quota.Memory, 0, limits.Memory, isManaged)

	var refusal *Refusal
	for _, a := range []struct {
		key     string
		amounts quota.Amounts
	}{{v1alpha1.AnnotationCardDeserved, t.Deserved}, {v1alpha1.AnnotationCardGuarantee, t.Guarantee}} {
		text, isWritten := queue.Annotations[a.key]
		if !isWritten {
			continue
		}

		cards, err := card.ParseQuota(text)
		if err != nil {
			refusal = &Refusal{Code: CodeInvalidQuota, Queue: queue.Name, Object: a.key, Detail: err.Error()}
			// Part of the amounts would be a tree that no administrator wrote, so the queue gets
			// none.
			clear(t.Quota)
			clear(t.Deserved)
			clear(t.Guarantee)
			break
		}

		a.amounts.AddCards(cards)
	}

	return t, refusal
}

// readCompute sets in t the CPU or memory of a Queue: key is the resource in t, and name what Kubernetes
// calls it. Amounts are in units of 10^scale. limit is the quota of the flat queue. TreeQueueFor says which
// queue inherits that of its parent instead.
func readCompute(t *quota.TreeQueue, queue *v1beta1.Queue, name corev1.ResourceName, key quota.Resource, scale resource.Scale, limit int64, isManaged bool) {
	_, isLimited := queue.Spec.Capability[name]
	deserved, deserves := queue.Spec.Deserved[name]
	guarantee, guarantees := queue.Spec.Guarantee.Resource[name]

	if deserves {
		t.Deserved[key] = amountOf(deserved, scale)
	}
	if guarantees {
		t.Guarantee[key] = amountOf(guarantee, scale)
	}

	// What is inherited has no entry in Quota: as Unlimited, the tree would report it as above the
	// parent's.
	hasAmount := deserves || guarantees
	isInherited := limit == quota.Unlimited || (isManaged && hasAmount && t.Parent != "")
	if isLimited || !isInherited {
		t.Quota[key] = limit
	}
}

// StopsWork reports whether a stop policy lets nothing new start. An unknown value does, too.
func StopsWork(policy v1alpha1.StopPolicy) bool {
	return policy != "" && policy != v1alpha1.StopPolicyNone
}

// maxCapability is more cores or bytes than any cluster has. In millicores it still fits an int64.
const maxCapability = math.MaxInt64 / 1000

// amountOf returns a quantity in units of 10^scale, 0 if it is negative, and Unlimited from
// maxCapability on.
func amountOf(quantity resource.Quantity, scale resource.Scale) int64 {
	switch {
	case quantity.Sign() <= 0:
		return 0
	case quantity.AsApproximateFloat64() >= maxCapability:
		return quota.Unlimited
	}
	return quantity.ScaledValue(scale)
}

// maxHoldMessageLength bounds the message of a hold, in characters. The operator's are shorter.
const maxHoldMessageLength = 600

// HoldMessage returns why the operator holds a Queue, "" if it does not say so. Users can write the
// annotation, too, so only printable characters stay.
func HoldMessage(queue *v1beta1.Queue) string {
	message := []rune(queue.Annotations[v1alpha1.AnnotationHoldMessage])
	message = message[:min(len(message), maxHoldMessageLength)]
	for i, r := range message {
		if !unicode.IsPrint(r) {
			message[i] = ' '
		}
	}
	return string(message)
}
