package observer

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
)

// TestStatedRequests: a PodGroup without pods requests what the scheduler states, where minResources says
// less.
func TestStatedRequests(t *testing.T) {
	stated := func(cards string, requested, limit int) string {
		return fmt.Sprintf("Queue <q> has insufficient <%s> quota: requested <%d>, total would be <%d>, but capability is <%d>", cards, requested, requested, limit)
	}

	any := []announcedRequest{{[]string{"A", "B"}, 7}}
	for t, tc := range check.Cases(t, map[string]struct {
		announced []announcedRequest
		message   string
		isVCJob   bool
		want      string
	}{
		"nothing stated":              {any, "", true, "[{[A B] 7}]"},
		"one of the cards":            {any, stated("B", 7, 3), false, "[{[B] 7}]"},
		"more than minResources":      {any, stated("B", 8, 3), true, "[{[B] 8}]"},
		"a part of it":                {any, stated("B", 5, 3), true, "[{[B] 5} {[A B] 2}]"},
		"no card with quota":          {any, stated("A", 7, 0), true, "[{[A B] 7}]"},
		"limits only":                 {nil, stated("B", 8, 3), true, "[{[B] 8}]"},
		"a PodGroup without a vcjob":  {nil, stated("B", 8, 3), false, "[]"},
		"another reason than a quota": {nil, "Queue <q> is Closed, not Open", true, "[]"},
	}) {
		group := builder.PodGroup("lab", "g").Queue("q").Unschedulable(tc.message).Obj()
		if tc.isVCJob {
			yes := true
			group.OwnerReferences = []metav1.OwnerReference{{APIVersion: "batch.volcano.sh/v1alpha1", Kind: "Job", Name: "j", Controller: &yes}}
		}
		check.Equal(t, "requests", tc.want, fmt.Sprint((&clusterState{}).withStated(group, tc.announced)))
	}

	check.Equal(t, "requests that were given", "[{[A B] 7}]", fmt.Sprint(any))
}
