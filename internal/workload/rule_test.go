package workload

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/test/observer/rule"
)

// The observer has rules of its own, written from the documents alone. Each row of the tables is checked against
// them, so a rule that only the code knows fails.

// ruleCluster is the cluster of the table for the observer's rules.
func ruleCluster() *rule.Inventory {
	inv := rule.NewInventory()
	theirs := cluster()
	for _, name := range []string{"h200", "4090", "ascend", "mig", "sliced", "unnamed"} {
		known, _ := theirs.Node(name)
		node := rule.Node{Model: known.Model, Cards: map[corev1.ResourceName]rule.Offer{}}
		for _, offered := range known.Cards {
			node.Cards[offered.Resource] = rule.Offer{Card: string(offered.Name), Count: int64(offered.Count)}
		}

		for _, resource := range known.Unnamed {
			node.Cards[resource] = rule.Offer{}
		}
		inv.Set(name, node)
	}

	return inv
}

// ruleCharge states a charge as the observer does.
func ruleCharge(charge *quota.Charge) *rule.Charge {
	if charge == nil {
		return nil
	}
	out := &rule.Charge{Queue: charge.Queue, Cards: rule.Quota{}, MilliCPU: charge.MilliCPU, Memory: charge.Memory}
	for _, amount := range charge.Cards {
		out.Cards[string(amount.Name)] += int64(amount.Count)
	}
	return out
}

// expectChargeOfObserver expects that the observer charges the pod for the same.
func expectChargeOfObserver(t *testing.T, pod *corev1.Pod, group *v1beta1.PodGroup, last *quota.Charge, origin rule.Origin, charge quota.Charge, isAssigned bool) {
	want, counts := rule.ChargeOf(pod, group, ruleCluster(), ruleCharge(last), origin)
	got := *ruleCharge(&charge)
	check.That(t, isAssigned == counts && (!isAssigned || got.String() == want.String()),
		"counted %v as %s, by the observer's rules %v as %s", isAssigned, got, counts, want)
}

// expectRequestOfObserver expects that the observer reads the same request.
func expectRequestOfObserver(t *testing.T, pod *corev1.Pod, request Request) {
	want := rule.RequestOf(pod, ruleCluster())
	same := len(request.Names) == len(want.Cards) && (request.Denied != nil) == (want.Denial != "")
	for i, name := range request.Names {
		same = same && string(name) == want.Cards[i]
	}
	check.That(t, same, "cards %v, refusal %v, by the observer's rules %v, %q", request.Names, request.Denied, want.Cards, want.Denial)
}

// expectLimitsOfObserver expects that the observer reads the same limits of a Queue.
func expectLimitsOfObserver(t *testing.T, queue *v1beta1.Queue, unmanaged v1alpha1.UnmanagedQueues, rules QueueRules) {
	want := rule.LimitsOf(queue, string(unmanaged))
	cards := rule.Quota{}
	for name, count := range rules.Limits.Cards {
		cards[string(name)] = int64(count)
	}

	limits := rules.Limits
	sameLimits := limits.AnyCard == want.AnyCard && limits.MilliCPU == want.MilliCPU && limits.Memory == want.Memory && cards.String() == want.Cards.String()
	sameRefusal := (rules.Refusal != nil) == (want.Closed != "")
	check.That(t, sameLimits && sameRefusal, "limits %v, refusal %v, by the observer's rules %s", limits, rules.Refusal, want)
}
