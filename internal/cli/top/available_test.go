package top

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
)

// TestAQueueWithoutAPathTakesNoPods: in a tree of queues, the operator cannot know the quotas above a CardQuota whose
// parents do not lead to a root within six levels. So nothing new starts in its queue, whatever its quota is. Other
// faults of the tree do not keep pods away.
func TestAQueueWithoutAPathTakesNoPods(t *testing.T) {
	for reason, wantNoPods := range map[string]bool{
		v1alpha1.ReasonParentNotFound: true,
		v1alpha1.ReasonParentCycle:    true,
		v1alpha1.ReasonTooDeep:        true,
		v1alpha1.ReasonScaled:         false, // the children deserve more than the parent, so each gets a part
		v1alpha1.ReasonWorkInParent:   false, // pods run in a parent, and new ones start in its children
	} {
		quota := builder.CardQuota("chat").Condition(v1alpha1.ConditionHierarchyValid, metav1.ConditionFalse, reason, "message").Obj()
		check.Equal(t, reason+": the queue takes no pods", wantNoPods, takesNoPods(quota))
	}
}

// TestALeafWithoutAServiceTypeTakesNoPods: each of three CardQuotas has 4 free cards. A pod needs the service type of
// its queue, so the leaf without one has nothing available. A parent needs none, because pods start in its children.
func TestALeafWithoutAServiceTypeTakesNoPods(t *testing.T) {
	newQuota := func(name, parent, serviceType string) *v1alpha1.CardQuota {
		return builder.CardQuota(name).ServiceType(serviceType).Parent(parent).With(func(q *v1alpha1.CardQuota) {
			q.Status.Summary = "0/4 H200" // without it the cards would count as not observed yet
			q.Status.Cards = []v1alpha1.CardStatus{{Name: "H200", Quota: 4, Free: 4}}
		}).Condition(v1alpha1.ConditionHierarchyValid, metav1.ConditionTrue, v1alpha1.ReasonReady, "message").Obj()
	}
	quotas := []*v1alpha1.CardQuota{newQuota("top", "", ""), newQuota("chat", "top", "inference"), newQuota("without-type", "top", "")}

	list, _ := NewList(quotas)
	list.SetAvailable(quotas, nil) // it is not known which cards of nodes no pod uses

	available := map[string]int64{}
	for _, usage := range list.Items {
		available[usage.Name] = usage.Cards[0].Available
	}
	check.Equal(t, "available cards", map[string]int64{"top": 4, "chat": 4, "without-type": 0}, available)
}
