package waiting

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	batch "volcano.sh/apis/pkg/apis/batch/v1alpha1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/workload"
)

// TestGroupRequestTakesTheCardsThatTheSchedulerStates: while a job has no pods, only its PodGroup says what
// it requests. spec.minResources names a resource, nvidia.com/gpu, but no card, so all cards of the resource
// are alternatives. Here these are A, B and C. The scheduler also reads the pod templates and the quotas of
// the queue. So where it refuses the PodGroup, the cards and the count in its message are more precise. Cards
// that minResources does not have are taken from a message only for a Volcano job, whose templates may have
// limits without requests. The annotation volcano.sh/card.request comes before both. What the scheduler says
// to programs, in a condition with the same transitionID, comes before its message. GroupRequest does not
// change the PodGroup.
//
// The wanted request "B:5 A|B|C:2" is 5 cards of B, and 2 cards of A, B or C.
func TestGroupRequestTakesTheCardsThatTheSchedulerStates(t *testing.T) {
	nodes := map[string]card.Node{}
	for _, model := range []string{"A", "B", "C"} {
		nodes[model] = card.Node{Model: model, Cards: []card.NodeCard{{Name: card.Name(model), Resource: builder.GPU, Count: 8}}}
	}
	resolver := &workload.Resolver{Inventory: card.NewInventory(nodes)}

	stated := func(cards string, requested, quota int) string {
		const message = "Origin reason is: Queue <q> has insufficient <%s> quota: requested <%d>, total would be <%d>, but capability is <%d>"
		return fmt.Sprintf(message, cards, requested, requested, quota)
	}
	ofVolcanoJob := []metav1.OwnerReference{
		*metav1.NewControllerRef(&metav1.ObjectMeta{Name: "j", UID: "u"}, batch.SchemeGroupVersion.WithKind("Job")),
	}

	for t, tc := range check.Cases(t, map[string]struct {
		minResources string // nvidia.com/gpu, "" for none
		cardRequest  string
		owner        []metav1.OwnerReference
		message      string
		data         string // to programs: "7 B" refuses 7 cards of B, "unknown" is of a later version
		dataID       string // the transitionID of data; "" is that of message
		want         string
	}{
		"the scheduler states nothing": {minResources: "7", want: "A|B|C:7"},
		"the scheduler states another reason": {
			minResources: "7", message: "Queue <q> is Closed, not Open", want: "A|B|C:7",
		},
		"refused for 7 B: the templates name B":              {minResources: "7", message: stated("B", 7, 3), want: "B:7"},
		"refused for 7 A or C: the queue has quota for both": {minResources: "7", message: stated("A|C", 7, 3), want: "A|C:7"},
		"refused for 5 B of 7 cards: 2 of any card remain":   {minResources: "7", message: stated("B", 5, 3), want: "B:5 A|B|C:2"},
		"refused for 8 B, and minResources has only 2 cards": {
			minResources: "2", message: stated("B", 8, 3), owner: ofVolcanoJob, want: "B:8",
		},
		"refused for 8 B, and minResources has none: the templates have limits and no requests": {
			message: stated("B", 8, 3), owner: ofVolcanoJob, want: "B:8",
		},
		"refused for 8 B, minResources has none, and the owner is no Volcano job: the message does not count": {
			message: stated("B", 8, 3), want: "",
		},
		"refused for 7 A, because the queue has no quota of any card: each of the three may be meant": {
			minResources: "7", message: stated("A", 7, 0) + "; none of the 2 other cards it may use has more room", want: "A|B|C:7",
		},
		"refused for 4 X, which are not of nvidia.com/gpu: they are requested beside the 7": {
			minResources: "7", message: stated("X", 4, 3), owner: ofVolcanoJob, want: "A|B|C:7 X:4",
		},
		"volcano.sh/card.request names 9 A or B: the message about B does not count": {
			minResources: "7", cardRequest: `{"A|B":9}`, message: stated("B", 9, 3), want: "A|B:9",
		},
		"refused for 7 B, which only data says": {minResources: "7", message: "in other words", data: "7 B", want: "B:7"},
		"refused for 7 B by data, and for 7 A in words of another time": {
			minResources: "7", message: stated("A", 7, 3), data: "7 B", dataID: "earlier", want: "A:7",
		},
		"refused for 7 A in words, and data is of a later version": {
			minResources: "7", message: stated("A", 7, 3), data: "unknown", want: "A:7",
		},
		"data names an invalid card: a tenant wrote it": {minResources: "7", message: "in other words", data: "7 <B>", want: "A|B|C:7"},
		"refused for a card of which the name is invalid: a tenant wrote it": {
			minResources: "7", message: stated("a b", 7, 3), owner: ofVolcanoJob, want: "A|B|C:7",
		},
	}) {
		b := builder.PodGroup("lab", "g").Queue("q").Request(tc.cardRequest).Unschedulable(tc.message)
		if tc.minResources != "" {
			b.MinResource(builder.GPU, tc.minResources)
		}
		group := b.Obj()
		group.OwnerReferences = tc.owner
		if tc.data != "" {
			refusal := workload.Refusal{Code: workload.CodeCardQuota, Queue: "q", Limit: 3}
			if _, err := fmt.Sscan(tc.data, &refusal.Requested, &refusal.Cards); err != nil {
				refusal.Code = "OfALaterVersion"
			}
			group.Status.Conditions = append(group.Status.Conditions, v1beta1.PodGroupCondition{
				Type: workload.PodGroupCardsRefused, Message: refusal.Data(), TransitionID: tc.dataID,
			})
		}

		before := group.DeepCopy()
		request, refusal := GroupRequest(resolver, group)
		check.That(t, refusal == nil, "refused: %v", refusal)
		check.Equal(t, "PodGroup afterwards", before, group)

		var cards []string
		for _, c := range request.Cards {
			cards = append(cards, fmt.Sprintf("%s:%d", card.Join(c.Names, "|"), c.Count))
		}
		check.Equal(t, "request", tc.want, strings.Join(cards, " "))
	}
}
