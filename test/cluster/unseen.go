package cluster

import "strings"

// IsStaleAdmissionCache tells the refusal of an admission plugin that has not seen a queue or a
// PriorityClass yet which others have: each has a cache of its own, Volcano's
// webhooks of Queues, the API server of PriorityClasses. It is false for no error.
func IsStaleAdmissionCache(err error) bool {
	if err == nil {
		return false
	}
	for _, words := range []string{"to queue with state", "unable to find queue", "unable to find job queue", "no PriorityClass with name"} {
		if strings.Contains(err.Error(), words) {
			return true
		}
	}
	return false
}
