package observer

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
)

// TestAPodGroupWithoutPodsRequestsWhatTheSchedulerStates: minResources of a PodGroup names no card model, and that of
// a Volcano job may miss cards that its templates write as limits only. So the message of the scheduler counts for
// the cards that it names. Without minResources it counts only for the PodGroup of a Volcano job. In most rows
// minResources requests 7 of cards A or B, "{[A B] 7}". The message is about B with a quota of 3.
func TestAPodGroupWithoutPodsRequestsWhatTheSchedulerStates(t *testing.T) {
	refused := func(card string, requested, quota int) string {
		return fmt.Sprintf("Queue <q> has insufficient <%s> quota: requested <%d>, total would be <%d>, but capability is <%d>", card, requested, requested, quota)
	}

	sevenOfAOrB := []announcedRequest{{[]string{"A", "B"}, 7}}
	for t, tc := range check.Cases(t, map[string]struct {
		minResources []announcedRequest
		message      string
		isOfJob      bool
		want         string
	}{
		"no message":                               {sevenOfAOrB, "", true, "[{[A B] 7}]"},
		"7 of B are stated":                        {sevenOfAOrB, refused("B", 7, 3), false, "[{[B] 7}]"},
		"8 of B are stated, more than 7":           {sevenOfAOrB, refused("B", 8, 3), true, "[{[B] 8}]"},
		"5 of B are stated, so 2 of A or B remain": {sevenOfAOrB, refused("B", 5, 3), true, "[{[B] 5} {[A B] 2}]"},
		"the queue has no quota of A and B, so the scheduler names one of them for both": {sevenOfAOrB, refused("A", 7, 0), true, "[{[A B] 7}]"},
		"no minResources, of a Volcano job":                                              {nil, refused("B", 8, 3), true, "[{[B] 8}]"},
		"no minResources, of no Volcano job":                                             {nil, refused("B", 8, 3), false, "[]"},
		"a message that is not about a quota":                                            {nil, "Queue <q> is Closed, not Open", true, "[]"},
	}) {
		group := builder.PodGroup("lab", "g").Queue("q").Unschedulable(tc.message).Obj()
		if tc.isOfJob {
			group.OwnerReferences = []metav1.OwnerReference{{APIVersion: "batch.volcano.sh/v1alpha1", Kind: "Job", Name: "j", Controller: ptr.To(true)}}
		}
		check.Equal(t, "requests", tc.want, fmt.Sprint((&clusterState{}).withStated(group, tc.minResources)))
	}

	check.Equal(t, "given requests, which stay as they are", "[{[A B] 7}]", fmt.Sprint(sevenOfAOrB))
}
