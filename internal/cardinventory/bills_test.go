package cardinventory

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/testing/check"
)

// TestConfigMapsThatAreRefusedAlikeAreOneAnomaly: the operator stores card-seconds in ConfigMaps, and the API
// server may refuse to write them: all of them where the operator lacks its Role, or one that is immutable.
// Those that are refused for the same reason, here ns/a to ns/d, are one anomaly. It names three of them and
// what would help, and is about no node. ns/e and ns/f are refused for other reasons, so each is an anomaly
// of its own.
func TestConfigMapsThatAreRefusedAlikeAreOneAnomaly(t *testing.T) {
	status := NewStatus(Input{
		Count: &Count{},
		Bills: Bills{Refused: map[string]metav1.StatusReason{
			"ns/a": metav1.StatusReasonForbidden,
			"ns/b": metav1.StatusReasonForbidden,
			"ns/c": metav1.StatusReasonForbidden,
			"ns/d": metav1.StatusReasonForbidden,
			"ns/e": metav1.StatusReasonInvalid,
			"ns/f": metav1.StatusReasonUnknown,
		}},
	})

	var messages []string
	for _, anomaly := range status.Anomalies {
		check.Equal(t, "reason", v1alpha1.AnomalyBillsNotStored, anomaly.Reason)
		messages = append(messages, anomaly.Message)
	}

	check.Equal(t, "messages", []string{
		"ConfigMap ns/e cannot be used (Invalid), so a restart of the operator would lose card-seconds of bills: make it " +
			"mutable: save it, delete it, and create it without immutable",
		"ConfigMap ns/f cannot be used (no answer of the API server), so a restart of the operator would lose card-seconds of " +
			"bills: see the log of cardquota-manager",
		"ConfigMaps ns/a, ns/b, ns/c and 1 more cannot be used (Forbidden), so a restart of the operator would lose " +
			"card-seconds of bills: apply the Roles of the operator's version, or let the policy that refuses it allow the operator",
	}, messages)
	check.Equal(t, "nodes", int32(0), status.Nodes)
}
