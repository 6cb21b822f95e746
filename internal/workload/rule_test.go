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

// The rows of the table are asked of the observer's rules as well, which are written
// from the documents alone: a row that only the code knows fails there.

// ruleCluster is the cluster of the table for the observer's rules.
func ruleCluster() *rule.Inventory {
	inv := rule.NewInventory()
	theirs := cluster()
	for _, name := range []string{"h200", "4090", "ascend", "mig", "sliced", "unnamed"} {
		known, _ := theirs.Node(name)
		node := rule.Node{Model: known.Model, Cards: map[corev1.ResourceName]rule.Offer{}}
		for _, held := range known.Cards {
			node.Cards[held.Resource] = rule.Offer{Card: string(held.Name), Count: int64(held.Count)}
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
	for _, held := range charge.Cards {
		out.Cards[string(held.Name)] += int64(held.Count)
	}
	return out
}

// agreeOnCharge asks a row of the observer's rules.
func agreeOnCharge(t *testing.T, pod *corev1.Pod, group *v1beta1.PodGroup, last *quota.Charge, origin rule.Origin, charge quota.Charge, holds bool) {
	want, counts := rule.ChargeOf(pod, group, ruleCluster(), ruleCharge(last), origin)
	got := *ruleCharge(&charge)
	check.That(t, holds == counts && (!holds || got.String() == want.String()),
		"counted %v as %s, by the observer's rules %v as %s", holds, got, counts, want)
}

// checkAgainstObserver asks a row of the observer's rules.
func checkAgainstObserver(t *testing.T, pod *corev1.Pod, ask Request) {
	want := rule.RequestOf(pod, ruleCluster())
	same := len(ask.Names) == len(want.Cards) && (ask.Denied != nil) == (want.Denial != "")
	for i, name := range ask.Names {
		same = same && string(name) == want.Cards[i]
	}
	check.That(t, same, "cards %v, refusal %v, by the observer's rules %v, %q", ask.Names, ask.Denied, want.Cards, want.Denial)
}

// agreeOnQueue asks a row of the observer's rules.
func agreeOnQueue(t *testing.T, queue *v1beta1.Queue, unmanaged v1alpha1.UnmanagedQueues, rules QueueRules) {
	want := rule.LimitsOf(queue, string(unmanaged))
	cards := rule.Quota{}
	for name, count := range rules.Limits.Cards {
		cards[string(name)] = int64(count)
	}

	l := rules.Limits
	sameLimits := l.AnyCard == want.AnyCard && l.MilliCPU == want.MilliCPU && l.Memory == want.Memory && cards.String() == want.Cards.String()
	sameRefusal := (rules.Refusal != nil) == (want.Closed != "")
	check.That(t, sameLimits && sameRefusal, "limits %v, refusal %v, by the observer's rules %s", l, rules.Refusal, want)
}
