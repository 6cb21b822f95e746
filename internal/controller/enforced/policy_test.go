package enforced

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/testing/check"
)

// TestOfThePolicyBeingWritten: a status that names a new configuration never
// says that the old one's proof holds for it.
func TestOfThePolicyBeingWritten(t *testing.T) {
	before := &v1alpha1.ServiceTypePolicy{Status: v1alpha1.ServiceTypePolicyStatus{
		Scheduler:  &v1alpha1.SchedulerStatus{Identity: "ours_0"},
		Conditions: []metav1.Condition{{Type: v1alpha1.ConditionEnforced, Status: metav1.ConditionFalse, Reason: "NoHeartbeat"}},
	}}
	unread := everythingRead()
	unread.leasesRead = false
	for t, tc := range check.Cases(t, map[string]struct {
		heard                                                 *heard
		policy                                                *v1alpha1.ServiceTypePolicy
		hash, notConfigured, status, reason, message, reports string
	}{
		"as it was heard":       {everythingRead(), before, "aa", "", "True", "Enforced", "the scheduler enforces the quotas by the configuration that was written", "ours_1"},
		"just written":          {everythingRead(), before, "bb", "", "False", "ConfigNotLoaded", "ours_1 works by configuration aa, written is bb and is being loaded", "ours_1"},
		"just found spoilt":     {everythingRead(), before, "aa", "no key", "False", "NotConfigured", "the scheduler is not configured as the ServiceTypePolicy says: no key", "ours_1"},
		"nothing can be said":   {unread, before, "aa", "", "False", "NoHeartbeat", "", "ours_0"},
		"nothing was ever said": {unread, &v1alpha1.ServiceTypePolicy{}, "aa", "", "Unknown", "NotConfigured", "the scheduler has not been looked at yet", ""},
	}) {
		got, err := (&Watch{heard: *tc.heard}).Policy(t.Context(), tc.policy, tc.hash, tc.notConfigured, noon)
		check.NoError(t, err)
		reports := ""
		if got.Scheduler != nil {
			reports = got.Scheduler.Identity
		}
		check.That(t, string(got.Status) == tc.status && got.Reason == tc.reason && got.Message == tc.message && reports == tc.reports,
			"%s/%s: %s, reported by %q", got.Status, got.Reason, got.Message, reports)
	}
}
