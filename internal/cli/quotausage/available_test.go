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

// TestALeafWithoutAServiceTypeTakesNoPods: only a parent needs none, since pods start below it.
func TestALeafWithoutAServiceTypeTakesNoPods(t *testing.T) {
	quotaOf := func(name, parent, serviceType string) *v1alpha1.CardQuota {
		return builder.CardQuota(name).ServiceType(serviceType).Parent(parent).With(func(q *v1alpha1.CardQuota) {
			q.Status.Summary = "0/4 H200"
			q.Status.Cards = []v1alpha1.CardStatus{{Name: "H200", Quota: 4, Free: 4}}
		}).Condition(v1alpha1.ConditionHierarchyValid, metav1.ConditionTrue, v1alpha1.ReasonReady, "said").Obj()
	}
	quotas := []*v1alpha1.CardQuota{quotaOf("top", "", ""), quotaOf("chat", "top", "inference"), quotaOf("empty", "top", "")}

	list, _ := NewList(quotas)
	list.SetAvailable(quotas, nil)

	got := map[string]int64{}
	for _, usage := range list.Items {
		got[usage.Name] = usage.Cards[0].Available
	}

	check.Equal(t, "FREE", map[string]int64{"top": 4, "chat": 4, "empty": 0}, got)
}
