package cardquota

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"cardquota.dev/operator/internal/conditions"
	"cardquota.dev/operator/internal/testing/check"
)

var (
	enforced    = metav1.Condition{Status: "True", Reason: "Enforced", Message: "ours enforces"}
	noHeartbeat = metav1.Condition{Status: "False", Reason: "NoHeartbeat", Message: "no session since noon"}
	bypassed    = metav1.Condition{Status: "False", Reason: "CardBypass", Message: "a pod bypassed admission"}
	noPolicy    = metav1.Condition{Status: "Unknown", Reason: "NoPolicy", Message: "no policy"}
)

// newStatusInputWithEnforced is for CardQuota team, whose queue is open, with condition Enforced, nil before the
// operator knows it, and the conditions before.
func newStatusInputWithEnforced(enforced *metav1.Condition, before ...metav1.Condition) StatusInput {
	input := newStatusInput(nil, nil)
	input.Quota.Status.Conditions = before
	input.Enforced = enforced
	return input
}

// TestReadyNeedsProvenEnforcement: condition Enforced says whether a heartbeat proves that the scheduler enforces
// quotas. Where Enforced is False, Ready is False too, because the quota may not be kept. A queue that is not open
// comes first in Ready. Where Enforced is Unknown, because there is no ServiceTypePolicy, Ready can be True. After a
// restart the old Enforced stays until the operator knows the new one.
func TestReadyNeedsProvenEnforcement(t *testing.T) {
	was := metav1.Condition{Type: "Enforced", Status: "False", Reason: "NoHeartbeat", Message: "before the restart"}
	closed := newStatusInputWithEnforced(&noHeartbeat)
	closed.Queue = nil // Volcano has not opened it
	for t, tc := range check.Cases(t, map[string]struct {
		input                   StatusInput
		wantEnforced, wantReady string
	}{
		"enforcement is proven": {
			input:        newStatusInputWithEnforced(&enforced),
			wantEnforced: "True/Enforced: ours enforces",
			wantReady:    "True/Ready: queue team carries this quota and starts pods",
		},
		"there is no heartbeat": {
			input:        newStatusInputWithEnforced(&noHeartbeat),
			wantEnforced: "False/NoHeartbeat: no session since noon",
			wantReady:    "False/NoHeartbeat: queue team carries this quota, but it is not proven to be enforced: no session since noon",
		},
		"there is no policy": {
			input:        newStatusInputWithEnforced(&noPolicy),
			wantEnforced: "Unknown/NoPolicy: no policy",
			wantReady:    "True/Ready: queue team carries this quota and starts pods",
		},
		"there is no heartbeat, and the queue is not open: Ready names the queue": {
			input:        closed,
			wantEnforced: "False/NoHeartbeat: no session since noon",
			wantReady:    "False/QueueNotOpen: queue team is not open yet: Volcano's controller manager opens it",
		},
		"Enforced is not known yet: the condition is missing": {
			input:     newStatusInputWithEnforced(nil),
			wantReady: "True/Ready: queue team carries this quota and starts pods",
		},
		"after a restart, the status still has Enforced from before: it stays": {
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

// TestReadyCutsALongMessageOfEnforced: the message of Enforced has as many bytes as a condition may have. Ready
// repeats it behind a text of its own, and cuts it to the same number of bytes.
func TestReadyCutsALongMessageOfEnforced(t *testing.T) {
	long := bypassed
	long.Message = strings.Repeat("x", conditions.MaxMessageLength)

	ready := meta.FindStatusCondition(NewStatus(newStatusInputWithEnforced(&long)).Conditions, "Ready")
	check.Contains(t, "message of Ready", ready.Message, "not proven to be enforced: xxx")
	check.Equal(t, "bytes of the message of Ready", conditions.MaxMessageLength, len(ready.Message))
}

// TestEventsReportChangesOfEnforcement: an event says that enforcement is proven, or that it is not and why. If only
// the message changes, there is no event. If Enforced becomes Unknown, because there is no policy, there is none
// either. Without a heartbeat Ready is False, too. Ready has an event only when it becomes True again.
func TestEventsReportChangesOfEnforcement(t *testing.T) {
	otherMessage := noHeartbeat
	otherMessage.Message = "no session since one"
	for t, tc := range check.Cases(t, map[string]struct {
		before, after *metav1.Condition // Enforced, nil before the operator knows it
		want          []string
	}{
		"not known yet, then proven": {
			after: &enforced,
			want:  []string{"Normal Enforced: ours enforces"},
		},
		"not known yet, then no heartbeat": {
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
		"not known yet, then no policy": {nil, &noPolicy, nil},
		"proven, then no policy":        {&enforced, &noPolicy, nil},
		"proven before and after":       {&enforced, &enforced, nil},
	}) {
		var got []string
		for _, e := range Events(NewStatus(newStatusInputWithEnforced(tc.before)), NewStatus(newStatusInputWithEnforced(tc.after))) {
			got = append(got, fmt.Sprintf("%s %s: %s", e.Type, e.Reason, e.Message))
		}

		check.Equal(t, "events", tc.want, got)
	}
}
