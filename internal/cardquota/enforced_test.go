package cardquota

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"cardquota.dev/operator/internal/conditions"
	"cardquota.dev/operator/internal/testing/check"
)

var (
	enforced    = metav1.Condition{Status: "True", Reason: "Enforced", Message: "ours enforces"}
	noHeartbeat = metav1.Condition{Status: "False", Reason: "NoHeartbeat", Message: "no session since noon"}
	bypassed    = metav1.Condition{Status: "False", Reason: "CardBypass", Message: strings.Repeat("x", conditions.MaxMessageLength)}
	noPolicy    = metav1.Condition{Status: "Unknown", Reason: "NoPolicy", Message: "no policy"}
)

// newStatusInputWithEnforced is for CardQuota team, whose queue is open, with condition Enforced, nil before the
// operator knows it, and the conditions before.
func newStatusInputWithEnforced(enforced *metav1.Condition, before ...metav1.Condition) StatusInput {
	f := newStatusInput(nil, nil)
	f.Quota.Status.Conditions = before
	f.Enforced = enforced
	return f
}

// TestReadyNeedsProvenEnforcement: condition Enforced says whether the scheduler's heartbeat proves that it enforces
// quotas. Where it is False, Ready is False too, because the quota may not be kept. An unknown policy says nothing.
// What the operator knew before its restart stays until it knows more.
func TestReadyNeedsProvenEnforcement(t *testing.T) {
	was := metav1.Condition{Type: "Enforced", Status: "False", Reason: "NoHeartbeat", Message: "before the restart"}
	closed := newStatusInputWithEnforced(&noHeartbeat)
	closed.Queue = nil
	for t, tc := range check.Cases(t, map[string]struct {
		input                   StatusInput
		wantEnforced, wantReady string
	}{
		"enforcement is proven": {
			input:        newStatusInputWithEnforced(&enforced),
			wantEnforced: "True/Enforced: ours enforces",
			wantReady:    "True/Ready: queue team carries this quota and starts pods",
		},
		"the heartbeat lacks": {
			input:        newStatusInputWithEnforced(&noHeartbeat),
			wantEnforced: "False/NoHeartbeat: no session since noon",
			wantReady:    "False/NoHeartbeat: queue team carries this quota, but it is not proven to be enforced: no session since noon",
		},
		"there is no policy": {
			input:        newStatusInputWithEnforced(&noPolicy),
			wantEnforced: "Unknown/NoPolicy: no policy",
			wantReady:    "True/Ready: queue team carries this quota and starts pods",
		},
		"the heartbeat lacks, and the queue is not open: that comes first": {
			input:        closed,
			wantEnforced: "False/NoHeartbeat: no session since noon",
			wantReady:    "False/QueueNotOpen: queue team is not open yet: Volcano's controller manager opens it",
		},
		"enforcement is not known yet": {
			input:     newStatusInputWithEnforced(nil),
			wantReady: "True/Ready: queue team carries this quota and starts pods",
		},
		"enforcement was known before the restart": {
			input:        newStatusInputWithEnforced(nil, was),
			wantEnforced: "False/NoHeartbeat: before the restart",
			wantReady:    "False/NoHeartbeat: queue team carries this quota, but it is not proven to be enforced: before the restart",
		},
	}) {
		status := NewStatus(tc.input)

		check.Equal(t, "Enforced", tc.wantEnforced, describeCondition(status, "Enforced"))
		check.Equal(t, "Ready", tc.wantReady, describeCondition(status, "Ready"))
	}
}

// TestALongReasonOfEnforcedIsCut: the longest message of Enforced, repeated in Ready, still fits a condition.
func TestALongReasonOfEnforcedIsCut(t *testing.T) {
	for _, c := range NewStatus(newStatusInputWithEnforced(&bypassed)).Conditions {
		check.That(t, len(c.Message) <= conditions.MaxMessageLength, "the message of %s has %d bytes", c.Type, len(c.Message))
	}
}

// TestEventsReportChangesOfEnforcement: an event tells users that enforcement is proven, or is not and why. A new
// message with the same reason has none, neither has an unknown policy.
func TestEventsReportChangesOfEnforcement(t *testing.T) {
	otherMessage := noHeartbeat
	otherMessage.Message = "no session since one"
	for t, tc := range check.Cases(t, map[string]struct {
		before, after *metav1.Condition
		want          []string
	}{
		"unknown, then proven": {
			after: &enforced,
			want:  []string{"Normal Enforced: ours enforces"},
		},
		"unknown, then no heartbeat": {
			after: &noHeartbeat,
			want:  []string{"Warning NotEnforced: NoHeartbeat: no session since noon"},
		},
		"proven, then no heartbeat": {
			before: &enforced,
			after:  &noHeartbeat,
			want:   []string{"Warning NotEnforced: NoHeartbeat: no session since noon"},
		},
		"no heartbeat, then proven": {
			before: &noHeartbeat,
			after:  &enforced,
			want:   []string{"Normal Enforced: ours enforces", "Normal Ready: queue team carries this quota and starts pods"},
		},
		"no heartbeat, with another message": {
			before: &noHeartbeat,
			after:  &otherMessage,
		},
		"no heartbeat, then another scheduler": {
			before: &noHeartbeat,
			after:  &metav1.Condition{Status: "False", Reason: "StockScheduler", Message: "stock"},
			want:   []string{"Warning NotEnforced: StockScheduler: stock"},
		},
		"unknown, then no policy": {nil, &noPolicy, nil},
		"proven, then no policy":  {&enforced, &noPolicy, nil},
		"proven before and after": {&enforced, &enforced, nil},
	}) {
		var got []string
		for _, e := range Events(NewStatus(newStatusInputWithEnforced(tc.before)), NewStatus(newStatusInputWithEnforced(tc.after))) {
			got = append(got, fmt.Sprintf("%s %s: %s", e.Type, e.Reason, e.Message))
		}

		check.Equal(t, "events", tc.want, got)
	}
}
