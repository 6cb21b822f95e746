package quotastatus

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/clip"
)

// enforced is condition Enforced. It is false while nothing was found out: then
// the condition stays as it was.
func enforced(f Facts) (Sync, bool) {
	if f.Enforced == nil {
		return Sync{}, false
	}
	return Sync{f.Enforced.Status, f.Enforced.Reason, f.Enforced.Message}, true
}

// unproven tells why a CardQuota whose Queue is in order is not ready all the
// same. It is false when enforcement is proven, and when nobody can know of it
// because there is no ServiceTypePolicy.
func unproven(s *v1alpha1.CardQuotaStatus, queue string) (Sync, bool) {
	is := meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionEnforced)
	if is == nil || is.Status != metav1.ConditionFalse {
		return Sync{}, false
	}
	return Sync{metav1.ConditionFalse, is.Reason, clip.Text(fmt.Sprintf(
		"queue %s carries this quota, but it is not proven to be enforced: %s", queue, is.Message), v1alpha1.MaxMessageLength)}, true
}
