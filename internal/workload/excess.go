package workload

import (
	"fmt"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/quota"
)

// RefusalForExcess returns what an event on a queue says about written amounts that do not
// count. There is at least one.
func RefusalForExcess(queue string, excess []quota.Excess) *Refusal {
	refusal := refusalForOneExcess(queue, &excess[0])
	switch more := len(excess) - 1; {
	case more == 1:
		refusal.Message += "; 1 more amount of the queue does not count"
	case more > 1:
		refusal.Message += fmt.Sprintf("; %d more amounts of the queue do not count", more)
	}
	return refusal
}

func refusalForOneExcess(queue string, e *quota.Excess) *Refusal {
	of := &quota.InsufficientQuota{Of: quota.Cards}
	resource := fmt.Sprintf("<%s>", e.Name)
	switch e.Name {
	case quota.CPUName:
		of.Of = quota.CPU
		resource = "cpu"
	case quota.MemoryName:
		of.Of = quota.Memory
		resource = "memory"
	}

	amount := func(n int64) string { return formatAmount(of, n) }
	say := func(reason, format string, args ...any) *Refusal {
		return &Refusal{Reason: reason, Message: fmt.Sprintf("Queue <%s> ", queue) + fmt.Sprintf(format, args...)}
	}

	switch e.Kind {
	case quota.NothingToInherit:
		return say(v1alpha1.ReasonCardNotInParent, "has no quota of %s and no parent to inherit it from, so it has <0>: write a quota", resource)
	case quota.NotInParent:
		return say(v1alpha1.ReasonCardNotInParent, "may use no %s, because its parent <%s> has no quota of it: grant it there", resource, e.Parent)
	case quota.QuotaAboveParent:
		return say(v1alpha1.ReasonQuotaAboveParent, "has a quota of <%s> of %s, but its parent <%s> only <%s>, which limits it: lower the quota, or raise the parent's",
			amount(e.Written), resource, e.Parent, amount(e.Limit))
	case quota.DeservedAboveQuota:
		return say(v1alpha1.ReasonDeservedAboveParent, "deserves <%s> of %s, but its quota is <%s>, which counts: lower what it deserves", amount(e.Written), resource, amount(e.Limit))
	case quota.GuaranteeAboveDeserved:
		return say(v1alpha1.ReasonGuaranteeAboveParent, "has a guarantee of <%s> of %s, but deserves <%s>, which counts: lower the guarantee", amount(e.Written), resource, amount(e.Limit))
	}

	reason := v1alpha1.ReasonDeservedAboveParent
	has := "deserves"
	their := "deserve"
	if e.Kind == quota.GuaranteeAboveParent {
		reason = v1alpha1.ReasonGuaranteeAboveParent
		has = "is guaranteed"
		their = "are guaranteed"
	}

	if e.Written <= e.Limit {
		reason = v1alpha1.ReasonScaled
	}

	return say(reason, "%s <%s> of %s, but the children of <%s> together %s <%s> and it has <%s>, so <%s> counts: lower the children, or raise the parent",
		has, amount(e.Written), resource, e.Parent, their, amount(e.Sum), amount(e.Limit), amount(e.Allowed))
}
