package explanation

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"cardquota.dev/operator/api/v1alpha1"
)

// statedNames name what only the scheduler's answer shows, by its reason.
var statedNames = map[v1alpha1.BlockedReason]string{
	v1alpha1.BlockedGuaranteedToOthers: "guarantees",
	v1alpha1.BlockedNotReclaimable:     "borrowing",
	v1alpha1.BlockedRecentlyReclaimed:  "borrowing",
	v1alpha1.BlockedCardsTerminating:   "ending pods",
	v1alpha1.BlockedGangIncomplete:     "gang",
	v1alpha1.BlockedWrongCombination:   "request",
	v1alpha1.BlockedInvalidRequest:     "request",
	v1alpha1.BlockedUnmanagedClaim:     "resource claims",
}

// statedGates returns the gate that the reason stands for, unless another gate shows it. So a workload that waits
// has a gate with the answer No, except where only the scheduler's message says why.
func (g gateCheck) statedGates(reason v1alpha1.BlockedReason, gates []Gate) []Gate {
	name := statedNames[reason]
	prefix := ""
	switch reason {
	case v1alpha1.BlockedCPUQuotaExhausted:
		name = "CPU quota"
		prefix = "CPU of "
	case v1alpha1.BlockedMemoryQuotaExhausted:
		name = "memory quota"
		prefix = "memory of "
	case v1alpha1.BlockedOther, "":
		return nil
	}

	// CPU and memory have gates of their own, found by their prefix. A reason without a name needs no gate if
	// any other one has the answer No.
	isShown := func(gate Gate) bool { return gate.Answer == No && strings.HasPrefix(gate.Name, prefix) }
	if (name == "" || prefix != "") && slices.ContainsFunc(gates, isShown) {
		return nil
	}

	return []Gate{{cmp.Or(name, "scheduler's answer"), No, cmp.Or(g.describeReason(reason), string(reason))}}
}

// computeGates answers for the CPU and memory of a CardQuota, if it limits them. Beside cards, only a
// limit in the way is shown.
func (g gateCheck) computeGates(quota *v1alpha1.CardQuota) []Gate {
	if quota.DeletionTimestamp != nil && g.Request.Count > 0 { // the gate of its cards says that it gives nothing any more
		return nil
	}

	var gates []Gate
	for _, limited := range []struct {
		name   string
		status *v1alpha1.ResourceStatus
		wanted *resource.Quantity
	}{
		{"CPU of ", quota.Status.CPU, resource.NewMilliQuantity(g.Request.MilliCPU, resource.DecimalSI)},
		{"memory of ", quota.Status.Memory, resource.NewQuantity(g.Request.Memory, resource.BinarySI)},
	} {
		if limited.status == nil || limited.status.Quota == nil || limited.wanted.Sign() <= 0 {
			continue
		}

		left := limited.status.Quota.DeepCopy()
		left.Sub(limited.status.Used)
		gate := Gate{
			Name: limited.name + quota.Name, Answer: Yes,
			Detail: fmt.Sprintf("%s of %s used, %s requested", limited.status.Used.String(), limited.status.Quota.String(), limited.wanted.String()),
		}

		if limited.wanted.Cmp(left) > 0 {
			gate.Answer = No
		}
		if gate.Answer == No || g.Request.Count == 0 {
			gates = append(gates, gate)
		}
	}

	return gates
}
