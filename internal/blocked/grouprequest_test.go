package blocked

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	batch "volcano.sh/apis/pkg/apis/batch/v1alpha1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/workload"
)

// TestGroupRequest: what the scheduler states of a PodGroup without pods says more than minResources.
func TestGroupRequest(t *testing.T) {
	resolver := &workload.Resolver{Inventory: card.NewInventory(map[string]card.Node{
		"a": {Model: "A", Cards: []card.NodeCard{{Name: "A", Resource: builder.GPU, Count: 8}}},
		"b": {Model: "B", Cards: []card.NodeCard{{Name: "B", Resource: builder.GPU, Count: 8}}},
		"c": {Model: "C", Cards: []card.NodeCard{{Name: "C", Resource: builder.GPU, Count: 8}}},
	})}
	stated := func(cards string, requested, limit int) string {
		return fmt.Sprintf("Origin reason is: Queue <q> has insufficient <%s> quota: requested <%d>, total would be <%d>, but capability is <%d>", cards, requested, requested, limit)
	}

	for t, tc := range check.Cases(t, map[string]struct {
		minimum        int
		total, message string
		isVCJob        bool
		want           string
	}{
		"nothing is stated":                            {minimum: 7, want: "A|B|C:7"},
		"another reason":                               {minimum: 7, message: "Queue <q> is Closed, not Open", want: "A|B|C:7"},
		"a card that the templates name":               {minimum: 7, message: stated("B", 7, 3), want: "B:7"},
		"cards that the queue has quota for":           {minimum: 7, message: stated("A|C", 7, 3), want: "A|C:7"},
		"a part of the job":                            {minimum: 7, message: stated("B", 5, 3), want: "B:5 A|B|C:2"},
		"more than minResources counts":                {minimum: 2, message: stated("B", 8, 3), isVCJob: true, want: "B:8"},
		"limits only":                                  {message: stated("B", 8, 3), isVCJob: true, want: "B:8"},
		"a PodGroup that requests no cards":            {message: stated("B", 8, 3), want: ""},
		"one card for many without quota":              {minimum: 7, message: stated("A", 7, 0) + "; none of the 2 other cards it may use has more room", want: "A|B|C:7"},
		"a card that no node has, of another resource": {minimum: 7, message: stated("X", 4, 3), isVCJob: true, want: "A|B|C:7 X:4"},
		"card.request says all":                        {minimum: 7, total: `{"A|B":9}`, message: stated("B", 9, 3), want: "A|B:9"},
		"a text that is no name":                       {minimum: 7, message: stated("a b", 7, 3), isVCJob: true, want: "A|B|C:7"},
	}) {
		group := builder.PodGroup("lab", "g").Queue("q").Obj()
		if tc.minimum > 0 {
			group = builder.PodGroup("lab", "g").Queue("q").MinResource(builder.GPU, fmt.Sprint(tc.minimum)).Obj()
		}

		if tc.total != "" {
			group.Annotations = map[string]string{v1alpha1.AnnotationCardRequest: tc.total}
		}

		if tc.isVCJob {
			group.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(&metav1.ObjectMeta{Name: "j", UID: "u"}, batch.SchemeGroupVersion.WithKind("Job"))}
		}

		before := group.DeepCopy()
		request, refusal := GroupRequest(resolver, group, tc.message)
		check.That(t, refusal == nil, "refused: %v", refusal)

		var words []string
		for _, d := range request.Cards {
			words = append(words, fmt.Sprintf("%s:%d", card.Join(d.Names, "|"), d.Count))
		}

		check.Equal(t, "request", tc.want, strings.Join(words, " "))
		check.Equal(t, "PodGroup", before, group)
	}
}
