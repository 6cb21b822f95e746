package workload

import (
	"testing"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/testing/check"
)

// TestExcessesAreDescribedByTheFirstAndCounted: some amounts of queue chat do not count, because there is no quota to
// inherit, or its parent web has less than chat or than all its children together. CPU is in millicores. The message
// explains the first amount and says how many others there are.
func TestExcessesAreDescribedByTheFirstAndCounted(t *testing.T) {
	above := quota.Excess{Kind: quota.QuotaAboveParent, Of: "H200", Parent: "web", Written: 8, Limit: 6, Allowed: 6}
	scaled := quota.Excess{
		Kind:    quota.DeservedAboveParent,
		Of:      quota.CPU,
		Parent:  "web",
		Written: 4000,
		Limit:   6000,
		Sum:     8000,
		Allowed: 3000,
	}
	missing := quota.Excess{Kind: quota.NothingToInherit, Of: quota.Memory}

	for t, tc := range check.Cases(t, map[string]struct {
		excess                  []quota.Excess
		wantReason, wantMessage string
	}{
		"one amount: the quota": {
			excess:      []quota.Excess{above},
			wantReason:  v1alpha1.ReasonQuotaAboveParent,
			wantMessage: "Queue <chat>: H200: quota is 8, but parent web has 6, which is in force: lower it here, or raise the parent",
		},
		"two amounts: what CPU is deserved, and one more": {
			excess:     []quota.Excess{scaled, above},
			wantReason: v1alpha1.ReasonScaled,
			wantMessage: "Queue <chat>: CPU: deserved is 4, but the children of web have 8 together and it has 6, so 3 is in force: " +
				"lower the children, or raise the parent; 1 more amount of the queue does not count",
		},
		"three amounts: memory without a quota, and two more": {
			excess:     []quota.Excess{missing, scaled, above},
			wantReason: v1alpha1.ReasonCardNotInParent,
			wantMessage: "Queue <chat>: memory: has no quota to inherit at the top level, so it is 0: write quota; 2 more amounts of " +
				"the queue do not count",
		},
	}) {
		reason, message := DescribeExcesses("chat", tc.excess)
		check.Equal(t, "reason", tc.wantReason, reason)
		check.Equal(t, "message", tc.wantMessage, message)
	}
}
