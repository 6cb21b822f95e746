package workload

import (
	"fmt"
	"strconv"

	"k8s.io/apimachinery/pkg/api/resource"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/conditions"
	"cardquota.dev/operator/internal/quota"
)

// DescribeExcesses returns the reason and the message of an event on a queue about written amounts that do
// not count. There is at least one.
func DescribeExcesses(queue string, excess []quota.Excess) (reason, message string) {
	reason, message = DescribeExcess(excess[0])
	message = fmt.Sprintf("Queue <%s>: %s", queue, message)
	switch more := len(excess) - 1; {
	case more == 1:
		message += "; 1 more amount of the queue does not count"
	case more > 1:
		message += fmt.Sprintf("; %d more amounts of the queue do not count", more)
	}
	return reason, message
}

// DescribeExcess returns the reason and the message for a written amount that is not in force. The message
// says which amount is in force instead (Allowed), and why. Limit is what the parent has, and Sum what all of
// its children have.
func DescribeExcess(e quota.Excess) (reason, message string) {
	amount := func(n int64) string { return FormatTreeAmount(e.Of, n) }
	label := e.Of.Label() + ": "
	switch e.Kind {
	case quota.NothingToInherit:
		return v1alpha1.ReasonCardNotInParent, fmt.Sprintf("%shas no quota to inherit at the top level, so it is 0: write quota", label)
	case quota.NotInParent:
		if e.Written > 0 {
			return v1alpha1.ReasonCardNotInParent, fmt.Sprintf("%squota is %s, but parent %s grants none, so it is 0: grant it there, or remove it here", label, amount(e.Written), e.Parent)
		}
		return v1alpha1.ReasonCardNotInParent, fmt.Sprintf("%sis not granted by parent %s, so it is 0: grant it there, or remove it here", label, e.Parent)
	case quota.QuotaAboveParent:
		return v1alpha1.ReasonQuotaAboveParent, fmt.Sprintf("%squota is %s, but parent %s has %s, which is in force: lower it here, or raise the parent", label, amount(e.Written), e.Parent, amount(e.Allowed))
	case quota.DeservedAboveQuota:
		return v1alpha1.ReasonDeservedAboveParent, fmt.Sprintf("%sdeserved is %s, but the quota in force is %s, which counts: lower deserved", label, amount(e.Written), amount(e.Allowed))
	case quota.GuaranteeAboveDeserved:
		return v1alpha1.ReasonGuaranteeAboveParent, fmt.Sprintf("%sguarantee is %s, but the deserved in force is %s, which counts: lower the guarantee", label, amount(e.Written), amount(e.Allowed))
	}

	field := ExcessField(e.Kind)
	reason = v1alpha1.ReasonDeservedAboveParent
	if e.Kind == quota.GuaranteeAboveParent {
		reason = v1alpha1.ReasonGuaranteeAboveParent
	}

	// Children that have too much together are scaled down in proportion. But an amount above the parent's own would
	// be cut without siblings as well.
	if e.Written > e.Limit {
		return reason, fmt.Sprintf("%s%s is %s, but parent %s has %s, so %s is in force: lower it here, or raise the parent", label, field, amount(e.Written), e.Parent, amount(e.Limit), amount(e.Allowed))
	}

	return v1alpha1.ReasonScaled, fmt.Sprintf("%s%s is %s, but the children of %s have %s together and it has %s, so %s is in force: lower the children, or raise the parent",
		label, field, amount(e.Written), e.Parent, amount(e.Sum), amount(e.Limit), amount(e.Allowed))
}

// DescribeLackBelow says that a CardQuota has too little for those below it, in the comment of an import. Their
// sum is its own amount (Limit), and what they have over that.
func DescribeLackBelow(e quota.Excess) string {
	return fmt.Sprintf("%s of %s: CardQuota %s has %s, too little for the %s of the queues below it. Raise it or lower theirs, for the operator refuses them.",
		ExcessField(e.Kind), e.Of.Label(), e.Parent, FormatTreeAmount(e.Of, e.Limit), FormatTreeAmount(e.Of, e.Limit+e.Over()))
}

// ExcessField returns the field of a CardQuota's amount that is too large: quota, deserved or guarantee.
func ExcessField(kind quota.ExcessKind) string {
	switch kind {
	case quota.DeservedAboveQuota, quota.DeservedAboveParent:
		return "deserved"
	case quota.GuaranteeAboveDeserved, quota.GuaranteeAboveParent:
		return "guarantee"
	}
	return "quota"
}

// RefuseExcess returns why an amount of the CardQuota child is refused at its field, and what would help. hint
// says more about what the parent grants. again ends the advice to change the parent first. The parts of a sum
// are named as they are in e.
func RefuseExcess(e quota.Excess, child, hint, again string) string {
	amount := func(n int64) string { return FormatTreeAmount(e.Of, n) }
	switch e.Kind {
	case quota.NothingToInherit:
		return "is not set, and there is no parent to inherit it from: write it"
	case quota.NotInParent:
		return fmt.Sprintf("parent %s grants no %s%s: grant it there first%s, or remove it from %s", e.Parent, e.Of, hint, again, child)
	case quota.QuotaAboveParent:
		return fmt.Sprintf("is %s, but parent %s has %s: lower it, or raise the parent first%s", amount(e.Written), e.Parent, amount(e.Limit), again)
	case quota.DeservedAboveQuota, quota.GuaranteeAboveDeserved:
		return fmt.Sprintf("is %s, but the quota inherited from parent %s is %s: lower it, or raise the parent first%s", amount(e.Written), e.Parent, amount(e.Limit), again)
	}

	parts := make([]string, len(e.Parts))
	for i, part := range e.Parts {
		parts[i] = amount(part.Amount) + " " + part.Queue
	}

	return fmt.Sprintf("the children of %s have %s together (%s), but %s has %s, %s too many: lower a child, or raise the parent first%s",
		e.Parent, amount(e.Sum), conditions.JoinFirst(parts, maxNamedParts), e.Parent, amount(e.Limit), amount(e.Over()), again)
}

// maxNamedParts is how many parts of a sum a message names.
const maxNamedParts = 5

// FormatTreeAmount formats whole cards, and CPU and memory as users write them.
func FormatTreeAmount(key quota.Resource, n int64) string {
	switch key {
	case quota.CPU:
		return resource.NewMilliQuantity(n, resource.DecimalSI).String()
	case quota.Memory:
		return resource.NewQuantity(n, resource.BinarySI).String()
	}
	return strconv.FormatInt(n, 10)
}
