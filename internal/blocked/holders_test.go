package blocked

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

func TestHolders(t *testing.T) {
	var h Holders
	below := func(queue string) []string { return []string{queue, "r"} }
	check.Equal(t, "of nothing", nil, h.Anywhere([]card.Name{h200}))

	h.Add(deployment("small"), "q", "training", h200, 1)
	h.Add(deployment("large"), "q", "training", h200, 2)
	h.Add(deployment("large"), "q", "training", h200, 2)
	h.Add(deployment("elsewhere"), "r", "inference", h200, 8)
	h.Add(deployment("stray"), "", "none", h200, 1)
	h.Add(deployment("other"), "q", "training", h800, 3)
	h.Add(deployment("none"), "q", "training", h200, 0)

	holder := func(name, queue, serviceType string, of card.Name, count int64) v1alpha1.CardHolder {
		return v1alpha1.CardHolder{Workload: deployment(name), Queue: queue, ServiceType: serviceType, Card: string(of), Count: count}
	}

	large := holder("large", "q", "training", h200, 4)
	small := holder("small", "q", "training", h200, 1)
	elsewhere := holder("elsewhere", "r", "inference", h200, 8)
	other := holder("other", "q", "training", h800, 3)
	check.Equal(t, "of a queue", []v1alpha1.CardHolder{large, small}, h.InQueue("q", []card.Name{h200}))
	check.Equal(t, "of two cards", []v1alpha1.CardHolder{large, other, small}, h.InQueue("q", []card.Name{h200, h800}))
	check.Equal(t, "of two queues", []v1alpha1.CardHolder{elsewhere, large, small}, h.InSubtree("q", below, []card.Name{h200}))
	check.Equal(t, "of all", []v1alpha1.CardHolder{elsewhere, large, small}, h.Anywhere([]card.Name{h200}))

	h.Add(deployment("small"), "q", "training", h200, 9)
	small.Count = 10
	check.Equal(t, "of more pods", small, h.InQueue("q", []card.Name{h200})[0])
}

// TestHoldersAgreeWithASimpleSum: the sums of all pods, sorted.
func TestHoldersAgreeWithASimpleSum(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		var h Holders
		sums := map[v1alpha1.CardHolder]int64{}
		for range rapid.IntRange(0, 30).Draw(t, "pods") {
			w := deployment(fmt.Sprint(rapid.IntRange(0, 5).Draw(t, "workload")))
			queue := rapid.SampledFrom([]string{"", "q", "r", "s"}).Draw(t, "queue")
			name := rapid.SampledFrom([]card.Name{h200, h800}).Draw(t, "card")
			count := rapid.Int64Range(1, 8).Draw(t, "count")
			h.Add(w, queue, "", name, card.Count(count))
			sums[v1alpha1.CardHolder{Workload: w, Queue: queue, Card: string(name)}] += count
		}

		names := []card.Name{h200, h800}[:rapid.IntRange(1, 2).Draw(t, "names")]
		queues := []string{"q", "r"}
		below := func(string) []string { return queues }
		largest := func(of func(v1alpha1.CardHolder) bool) (out []v1alpha1.CardHolder) {
			for holder, count := range sums {
				holder.Count = count
				if slices.Contains(names, card.Name(holder.Card)) && of(holder) {
					out = append(out, holder)
				}
			}
			slices.SortFunc(out, func(a, b v1alpha1.CardHolder) int {
				return cmp.Or(-cmp.Compare(a.Count, b.Count), cmp.Compare(a.Workload.Name, b.Workload.Name), cmp.Compare(a.Queue, b.Queue), cmp.Compare(a.Card, b.Card))
			})
			return out[:min(3, len(out))]
		}

		check.Equal(t, "anywhere", largest(func(v1alpha1.CardHolder) bool { return true }), h.Anywhere(names))
		check.Equal(t, "in queues", largest(func(of v1alpha1.CardHolder) bool { return slices.Contains(queues, of.Queue) }), h.InSubtree("q", below, names))
		check.Equal(t, "the second time", h.InSubtree("q", below, names), h.InSubtree("q", below, names))
		check.Equal(t, "in one queue", largest(func(of v1alpha1.CardHolder) bool { return of.Queue == "r" }), h.InQueue("r", names))
	})
}

// TestASubtreeIsSearchedOncePerCard: thousands of workloads may wait for the same ancestor.
func TestASubtreeIsSearchedOncePerCard(t *testing.T) {
	var h Holders
	h.Add(deployment("a"), "q", "training", h200, 1)
	h.Add(deployment("b"), "q", "training", h800, 1)
	searches := map[string]int{}
	for range 3 {
		for _, queue := range []string{"top", "other"} {
			h.InSubtree(queue, func(queue string) []string { searches[queue]++; return []string{queue, "q"} }, []card.Name{h200, h800, "no node has it"})
		}
	}
	check.Equal(t, "searches", map[string]int{"top": 2, "other": 2}, searches)
}

// TestOthersAreSums: the sum of others may be larger than what a workload of the namespace holds.
func TestOthersAreSums(t *testing.T) {
	holder := func(namespace, name, serviceType string, count int64) v1alpha1.CardHolder {
		return v1alpha1.CardHolder{Workload: v1alpha1.WorkloadReference{Kind: "Pod", Namespace: namespace, Name: name}, Queue: name, ServiceType: serviceType, Card: "NVIDIA-H200", Count: count}
	}
	sum := v1alpha1.CardHolder{ServiceType: "training", Card: "NVIDIA-H200", Count: 5}
	given := []v1alpha1.CardHolder{holder("mine", "a", "training", 4), holder("ads", "b", "training", 3), holder("search", "c", "training", 2)}
	check.Equal(t, "holders", []v1alpha1.CardHolder{sum, given[0]}, HideOthers(given, "mine"))
	check.Equal(t, "the given ones stay", "b", given[1].Workload.Name)
}
