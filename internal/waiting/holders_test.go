package waiting

import (
	"cmp"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/seed"
)

func deployment(name string) v1alpha1.WorkloadReference {
	return v1alpha1.WorkloadReference{APIGroup: "apps", Kind: "Deployment", Namespace: "lab", Name: name}
}

// TestTheLargestHoldersOfCardsComeFirst: a user whose pod waits wants to know which workloads use the cards. Holders
// adds up the cards of all pods of a workload. It returns the three largest holders of one queue, of a subtree of
// queues, or of the cluster. A pod without cards is no holder.
func TestTheLargestHoldersOfCardsComeFirst(t *testing.T) {
	var holders Holders
	check.Equal(t, "without pods", nil, holders.Anywhere([]card.Name{h200}))

	holders.Add(deployment("small"), "research", "training", h200, 1)
	holders.Add(deployment("large"), "research", "training", h200, 2)
	holders.Add(deployment("large"), "research", "training", h200, 2) // its second pod
	holders.Add(deployment("chat"), "serving", "inference", h200, 8)
	holders.Add(deployment("without-queue"), "", "none", h200, 1)
	holders.Add(deployment("other-card"), "research", "training", h800, 3)
	holders.Add(deployment("no-card"), "research", "training", h200, 0)

	holder := func(name, queue, serviceType string, of card.Name, count int64) v1alpha1.CardHolder {
		return v1alpha1.CardHolder{Workload: deployment(name), Queue: queue, ServiceType: serviceType, Card: string(of), Count: count}
	}
	chat := holder("chat", "serving", "inference", h200, 8)
	large := holder("large", "research", "training", h200, 4) // 2 pods with 2 cards each
	otherCard := holder("other-card", "research", "training", h800, 3)
	small := holder("small", "research", "training", h200, 1) // by name before without-queue, which uses 1 too
	queuesBelow := func(string) []string { return []string{"research", "serving"} }

	check.Equal(t, "H200 in queue research", []v1alpha1.CardHolder{large, small}, holders.InQueue("research", []card.Name{h200}))
	check.Equal(t, "H200 and H800 in queue research", []v1alpha1.CardHolder{large, otherCard, small},
		holders.InQueue("research", []card.Name{h200, h800}))
	check.Equal(t, "H200 below queue top", []v1alpha1.CardHolder{chat, large, small}, holders.InSubtree("top", queuesBelow, []card.Name{h200}))
	check.Equal(t, "H200 anywhere, three of four holders", []v1alpha1.CardHolder{chat, large, small}, holders.Anywhere([]card.Name{h200}))

	holders.Add(deployment("small"), "research", "training", h200, 9)
	small.Count = 10 // 1 + 9, now before the 4 of large
	check.Equal(t, "after one more pod of small", small, holders.InQueue("research", []card.Name{h200})[0])
}

// TestHoldersAgreeWithASimpleSum: up to 30 random pods of 6 workloads use H200 or H800. The oracle adds up the cards
// of all pods by workload, queue and card, sorts the sums, and takes the first three. Holders caches its answer for
// the queues below a queue, so the test asks twice for those below q, which are q and r.
func TestHoldersAgreeWithASimpleSum(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		var holders Holders
		sums := map[v1alpha1.CardHolder]int64{}
		for range rapid.IntRange(0, 30).Draw(t, "pods") {
			w := deployment(fmt.Sprint(rapid.IntRange(0, 5).Draw(t, "workload")))
			queue := rapid.SampledFrom([]string{"", "q", "r", "s"}).Draw(t, "queue")
			name := rapid.SampledFrom([]card.Name{h200, h800}).Draw(t, "card")
			count := rapid.Int64Range(1, 8).Draw(t, "count")
			holders.Add(w, queue, "", name, card.Count(count))
			sums[v1alpha1.CardHolder{Workload: w, Queue: queue, Card: string(name)}] += count
		}

		names := []card.Name{h200, h800}[:rapid.IntRange(1, 2).Draw(t, "names")]
		queuesBelow := func(string) []string { return []string{"q", "r"} }

		largestIn := func(queues ...string) (largest []v1alpha1.CardHolder) {
			for holder, count := range sums {
				holder.Count = count
				if slices.Contains(names, card.Name(holder.Card)) && slices.Contains(queues, holder.Queue) {
					largest = append(largest, holder)
				}
			}

			slices.SortFunc(largest, func(a, b v1alpha1.CardHolder) int {
				return cmp.Or(
					-cmp.Compare(a.Count, b.Count),
					cmp.Compare(a.Workload.Name, b.Workload.Name),
					cmp.Compare(a.Queue, b.Queue),
					cmp.Compare(a.Card, b.Card),
				)
			})
			return largest[:min(3, len(largest))]
		}

		check.Equal(t, "anywhere", largestIn("", "q", "r", "s"), holders.Anywhere(names))
		check.Equal(t, "below queue q", largestIn("q", "r"), holders.InSubtree("q", queuesBelow, names))
		check.Equal(t, "below queue q, asked again", largestIn("q", "r"), holders.InSubtree("q", queuesBelow, names))
		check.Equal(t, "in queue r", largestIn("r"), holders.InQueue("r", names))
	})
}

// TestASubtreeIsSearchedOncePerCard: thousands of workloads may wait for the quota of the same ancestor, so Holders
// remembers the answer for a queue and a card. Here InSubtree is called three times for queue top and three times for
// queue other. Holders searches each of them once for H200 and once for H800, and never for a card that no workload
// uses.
func TestASubtreeIsSearchedOncePerCard(t *testing.T) {
	var holders Holders
	holders.Add(deployment("a"), "q", "training", h200, 1)
	holders.Add(deployment("b"), "q", "training", h800, 1)

	searches := map[string]int{}
	queuesBelow := func(queue string) []string {
		searches[queue]++
		return []string{queue, "q"}
	}
	for range 3 {
		holders.InSubtree("top", queuesBelow, []card.Name{h200, h800, "a card without holder"})
		holders.InSubtree("other", queuesBelow, []card.Name{h200, h800, "a card without holder"})
	}

	check.Equal(t, "how often the queues below a queue are searched", map[string]int{"top": 2, "other": 2}, searches)
}

// TestHoldersOfOtherNamespacesAreHiddenInASum: a tenant may not see names of other tenants. It sees its own workload
// with 4 cards. For the others it sees one sum by service type and card, 3 + 2 = 5, without queue and name. The sum
// is larger than 4, so it comes first. The operator shows the given list elsewhere, so HideOthers does not change it.
func TestHoldersOfOtherNamespacesAreHiddenInASum(t *testing.T) {
	holder := func(namespace, name string, count int64) v1alpha1.CardHolder {
		workload := v1alpha1.WorkloadReference{Kind: "Pod", Namespace: namespace, Name: name}
		return v1alpha1.CardHolder{Workload: workload, Queue: name, ServiceType: "training", Card: "NVIDIA-H200", Count: count}
	}
	holders := []v1alpha1.CardHolder{holder("mine", "a", 4), holder("ads", "b", 3), holder("search", "c", 2)}

	sum := v1alpha1.CardHolder{ServiceType: "training", Card: "NVIDIA-H200", Count: 5}
	check.Equal(t, "holders that namespace mine sees", []v1alpha1.CardHolder{sum, holders[0]}, HideOthers(holders, "mine"))
	check.Equal(t, "the second of the given holders, afterwards", holder("ads", "b", 3), holders[1])
}
