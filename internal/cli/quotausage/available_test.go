package quotausage

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
)

// TestAQueueWithoutAPathTakesNoPods: nothing new starts in it, whatever its quota is.
func TestAQueueWithoutAPathTakesNoPods(t *testing.T) {
	for reason, want := range map[string]bool{
		v1alpha1.ReasonParentNotFound: true, v1alpha1.ReasonParentCycle: true, v1alpha1.ReasonTooDeep: true,
		v1alpha1.ReasonScaled: false, v1alpha1.ReasonWorkInParent: false, // pods start below it
	} {
		quota := builder.CardQuota("chat").Condition(v1alpha1.ConditionHierarchyValid, metav1.ConditionFalse, reason, "said").Obj()
		check.Equal(t, reason, want, takesNoPods(quota))
	}
}
