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
	proven   = metav1.Condition{Status: "True", Reason: "Enforced", Message: "ours enforces"}
	silent   = metav1.Condition{Status: "False", Reason: "NoHeartbeat", Message: "no session since noon"}
	bypassed = metav1.Condition{Status: "False", Reason: "CardBypass", Message: strings.Repeat("x", conditions.MaxMessageLength)}
	noPolicy = metav1.Condition{Status: "Unknown", Reason: "NoPolicy", Message: "no policy"}
)

// judged are the facts of an open queue with a verdict, nil for none yet.
func judged(verdict *metav1.Condition, before ...metav1.Condition) StatusInput {
	f := facts(nil, nil)
	f.Quota.Status.Conditions = before
	f.Enforced = verdict
	return f
}

func TestEnforced(t *testing.T) {
	was := metav1.Condition{Type: "Enforced", Status: "False", Reason: "NoHeartbeat", Message: "before the restart"}
	closed := judged(&silent)
	closed.Queue = nil
	for t, tc := range check.Cases(t, map[string]struct {
		facts           StatusInput
		enforced, ready string
	}{
		"proven":                               {judged(&proven), "True/Enforced: ours enforces", "True/Ready: queue team carries this quota and starts pods"},
		"not proven":                           {judged(&silent), "False/NoHeartbeat: no session since noon", "False/NoHeartbeat: queue team carries this quota, but it is not proven to be enforced: no session since noon"},
		"no policy says nothing":               {judged(&noPolicy), "Unknown/NoPolicy: no policy", "True/Ready: queue team carries this quota and starts pods"},
		"a queue that is not open goes before": {closed, "False/NoHeartbeat: no session since noon", "False/QueueNotOpen: queue team is not open yet: Volcano's controller manager opens it"},
		"not judged yet":                       {judged(nil), "", "True/Ready: queue team carries this quota and starts pods"},
		"judged before the restart":            {judged(nil, was), "False/NoHeartbeat: before the restart", "False/NoHeartbeat: queue team carries this quota, but it is not proven to be enforced: before the restart"},
	}) {
		status := NewStatus(tc.facts)
		show := func(kind string) string {
			c := meta.FindStatusCondition(status.Conditions, kind)
			if c == nil {
				return ""
			}
			return fmt.Sprintf("%s/%s: %s", c.Status, c.Reason, c.Message)
		}
		check.Equal(t, "Enforced, Ready", []string{tc.enforced, tc.ready}, []string{show("Enforced"), show("Ready")})
	}

	for _, c := range NewStatus(judged(&bypassed)).Conditions {
		check.That(t, len(c.Message) <= conditions.MaxMessageLength, "the message of %s has %d bytes", c.Type, len(c.Message))
	}
}

func TestEventsOfEnforced(t *testing.T) {
	other := silent
	other.Message = "no session since one"
	for t, tc := range check.Cases(t, map[string]struct {
		before, after *metav1.Condition
		want          []string
	}{
		"proven for the first time":     {nil, &proven, []string{"Normal Enforced: ours enforces"}},
		"not proven from the beginning": {nil, &silent, []string{"Warning NotEnforced: NoHeartbeat: no session since noon"}},
		"lost":                          {&proven, &silent, []string{"Warning NotEnforced: NoHeartbeat: no session since noon"}},
		"won back":                      {&silent, &proven, []string{"Normal Enforced: ours enforces", "Normal Ready: queue team carries this quota and starts pods"}},
		"other words only":              {&silent, &other, nil},
		"another reason":                {&silent, &metav1.Condition{Status: "False", Reason: "StockScheduler", Message: "stock"}, []string{"Warning NotEnforced: StockScheduler: stock"}},
		"no policy":                     {nil, &noPolicy, nil},
		"no policy any more":            {&proven, &noPolicy, nil},
		"what stays is silent":          {&proven, &proven, nil},
	}) {
		var got []string
		for _, e := range Events(NewStatus(judged(tc.before)), NewStatus(judged(tc.after))) {
			got = append(got, fmt.Sprintf("%s %s: %s", e.Type, e.Reason, e.Message))
		}

		check.Equal(t, "events", tc.want, got)
	}
}
