package workload

import (
	"fmt"
	"math/big"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"pgregory.net/rapid"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/seed"
)

// minResources makes a list from names and quantities in turn.
func minResources(pairs ...string) *corev1.ResourceList {
	list := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		list[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return &list
}

// cardRequest is one card request of a job.
func cardRequest(count card.Count, names ...card.Name) quota.CardRequest {
	return quota.CardRequest{Names: names, Count: count}
}

func jobRequest(list ...quota.CardRequest) quota.JobRequest { return quota.JobRequest{Cards: list} }

// TestAPodGroupRequestsTheLargerOfTotalAndMinimum: before its pods exist, a job's PodGroup says what it requests:
// annotation card.request has the cards of the whole job by name, minResources what its minimum needs by resource.
// The larger counts. Where minResources of a resource is more than the cards named for it, each of these gets its
// part of the difference. A resource without a named card may be any of its cards: 4090 or H200 for nvidia.com/gpu,
// 910B for Huawei's. Amounts are rounded up to whole cards, and bounded by a million and one (card.MaxCount + 1), CPU
// and memory by 2^53. Below 0 counts as 0.
func TestAPodGroupRequestsTheLargerOfTotalAndMinimum(t *testing.T) {
	const (
		gpu   = "nvidia.com/gpu"
		npu   = "huawei.com/Ascend910"
		slice = "nvidia.com/mig-1g.18gb"
	)

	for t, tc := range check.Cases(t, map[string]struct {
		request string // "-" is no annotation
		minimum *corev1.ResourceList
		want    quota.JobRequest
	}{
		"neither card.request nor minResources": {
			request: "-",
			want:    jobRequest(),
		},
		"empty minResources": {
			request: "-",
			minimum: minResources(),
			want:    jobRequest(),
		},
		"an empty card.request": {
			request: "{}",
			want:    jobRequest(),
		},
		"minResources of CPU and memory only": {
			request: "-",
			minimum: minResources("cpu", "1500m", "memory", "2Gi"),
			want:    quota.JobRequest{MilliCPU: 1500, Memory: 2 << 30},
		},
		"minResources of a millionth of a CPU: rounded up to a thousandth": {
			request: "-",
			minimum: minResources("cpu", "1u"),
			want:    quota.JobRequest{MilliCPU: 1},
		},
		"minResources of negative CPU and memory: none": {
			request: "-",
			minimum: minResources("cpu", "-1", "memory", "-1Gi"),
			want:    jobRequest(),
		},
		"minResources of 1e30 CPU": {
			request: "-",
			minimum: minResources("cpu", "1e30"),
			want:    quota.JobRequest{MilliCPU: 1 << 53},
		},
		"minResources of 2^64 memory": {
			request: "-",
			minimum: minResources("memory", "18446744073709551616"),
			want:    quota.JobRequest{Memory: 1 << 53},
		},
		"minResources of network devices and huge pages: no cards": {
			request: "-",
			minimum: minResources("rdma/hca", "4", "hugepages-2Mi", "1Gi"),
			want:    jobRequest(),
		},
		"card.request of 1, minResources of 1 and of network devices": {
			request: `{"H200":1}`,
			minimum: minResources("rdma/hca", "4", gpu, "1"),
			want:    jobRequest(cardRequest(1, "H200")),
		},

		"minResources of 8 GPUs: any card of these": {
			request: "-",
			minimum: minResources(gpu, "8"),
			want:    jobRequest(cardRequest(8, "4090", "H200")),
		},
		"minResources of two card resources": {
			request: "-",
			minimum: minResources(gpu, "8", npu, "4"),
			want:    jobRequest(cardRequest(4, "910B"), cardRequest(8, "4090", "H200")),
		},
		"minResources of 0 GPUs": {
			request: "-",
			minimum: minResources(gpu, "0"),
			want:    jobRequest(),
		},
		"minResources of -8 GPUs": {
			request: "-",
			minimum: minResources(gpu, "-8"),
			want:    jobRequest(),
		},
		"minResources of half a GPU: rounded up": {
			request: "-",
			minimum: minResources(gpu, "500m"),
			want:    jobRequest(cardRequest(1, "4090", "H200")),
		},
		"minResources of 1e30 GPUs": {
			request: "-",
			minimum: minResources(gpu, "1e30"),
			want:    jobRequest(cardRequest(card.MaxCount+1, "4090", "H200")),
		},
		"minResources of 2^63-1 GPUs": {
			request: "-",
			minimum: minResources(gpu, "9223372036854775807"),
			want:    jobRequest(cardRequest(card.MaxCount+1, "4090", "H200")),
		},
		"minResources of a card that no label names: no names": {
			request: "-",
			minimum: minResources("vendor.example/ppu", "2"),
			want:    jobRequest(cardRequest(2)),
		},
		"card.request of 2 H200, minResources of 2 GPUs and 4 of Huawei": {
			request: `{"H200":2}`,
			minimum: minResources(gpu, "2", npu, "4"),
			want:    jobRequest(cardRequest(2, "H200"), cardRequest(4, "910B")),
		},
		"card.request of 0 H200, minResources of 2 GPUs": {
			request: `{"H200":0}`,
			minimum: minResources(gpu, "2"),
			want:    jobRequest(cardRequest(2, "4090", "H200")),
		},
		"card.request of 2 910B, minResources of 0 GPUs and 2 of Huawei": {
			request: `{"910B":2}`,
			minimum: minResources(gpu, "0", npu, "2"),
			want:    jobRequest(cardRequest(2, "910B")),
		},

		"card.request of 8 H200": {
			request: `{"H200":8}`,
			want:    jobRequest(cardRequest(8, "H200")),
		},
		"card.request of 8 H200, minResources of CPU": {
			request: `{"H200":8}`,
			minimum: minResources("cpu", "1"),
			want:    quota.JobRequest{Cards: []quota.CardRequest{cardRequest(8, "H200")}, MilliCPU: 1000},
		},
		"card.request of 8 B300, which no node has, so they are not these 2 GPUs of minResources": {
			request: `{"B300":8}`,
			minimum: minResources(gpu, "2"),
			want:    jobRequest(cardRequest(8, "B300"), cardRequest(2, "4090", "H200")),
		},
		"card.request of alternatives: in their order": {
			request: `{"H200|4090":8}`,
			want:    jobRequest(cardRequest(8, "H200", "4090")),
		},
		"card.request of B300 or H200, minResources of 2 GPUs, which H200 is": {
			request: `{"B300|H200":8}`,
			minimum: minResources(gpu, "2"),
			want:    jobRequest(cardRequest(8, "B300", "H200")),
		},
		"card.request of three cards: in the order of their names": {
			request: `{"H200":1,"4090":2,"910B":3}`,
			want:    jobRequest(cardRequest(2, "4090"), cardRequest(3, "910B"), cardRequest(1, "H200")),
		},
		"card.request of the same alternatives in two orders: two requests": {
			request: `{"H200|4090":1,"4090|H200":1}`,
			want:    jobRequest(cardRequest(1, "4090", "H200"), cardRequest(1, "H200", "4090")),
		},

		"card.request of 8, minResources of 2": {
			request: `{"H200":8}`,
			minimum: minResources(gpu, "2"),
			want:    jobRequest(cardRequest(8, "H200")),
		},
		"card.request of 2, minResources of 8": {
			request: `{"H200":2}`,
			minimum: minResources(gpu, "8"),
			want:    jobRequest(cardRequest(8, "H200")),
		},
		"card.request of 8, minResources of 8": {
			request: `{"H200":8}`,
			minimum: minResources(gpu, "8"),
			want:    jobRequest(cardRequest(8, "H200")),
		},
		"card.request of 8, minResources of 0": {
			request: `{"H200":8}`,
			minimum: minResources(gpu, "0"),
			want:    jobRequest(cardRequest(8, "H200")),
		},
		"card.request of 8, minResources of -1": {
			request: `{"H200":8}`,
			minimum: minResources(gpu, "-1"),
			want:    jobRequest(cardRequest(8, "H200")),
		},
		"card.request of 1, minResources of 1.2: rounded up": {
			request: `{"H200":1}`,
			minimum: minResources(gpu, "1200m"),
			want:    jobRequest(cardRequest(2, "H200")),
		},
		"card.request of 8, minResources of 1e30": {
			request: `{"H200":8}`,
			minimum: minResources(gpu, "1e30"),
			want:    jobRequest(cardRequest(card.MaxCount+1, "H200")),
		},
		"card.request of a million, minResources of one less": {
			request: `{"H200":1000000}`,
			minimum: minResources(gpu, "999999"),
			want:    jobRequest(cardRequest(1000000, "H200")),
		},
		"card.request of 8 + 4, minResources of 24: twice as much of each": {
			request: `{"H200":8,"4090":4}`,
			minimum: minResources(gpu, "24"),
			want:    jobRequest(cardRequest(8, "4090"), cardRequest(16, "H200")),
		},
		"card.request of 8 + 4, minResources of 13: 8 x 13/12 and 4 x 13/12, rounded up": {
			request: `{"H200":8,"4090":4}`,
			minimum: minResources(gpu, "13"),
			want:    jobRequest(cardRequest(5, "4090"), cardRequest(9, "H200")),
		},
		"card.request of 8 + 1, minResources of 1": {
			request: `{"H200":8,"4090":1}`,
			minimum: minResources(gpu, "1"),
			want:    jobRequest(cardRequest(1, "4090"), cardRequest(8, "H200")),
		},
		"card.request of 8 + 0, minResources of 16": {
			request: `{"H200":8,"4090":0}`,
			minimum: minResources(gpu, "16"),
			want:    jobRequest(cardRequest(16, "H200")),
		},
		"card.request of 6 alternatives + 2, minResources of 16: twice as much of each": {
			request: `{"H200|4090":6,"H200":2}`,
			minimum: minResources(gpu, "16"),
			want:    jobRequest(cardRequest(4, "H200"), cardRequest(12, "H200", "4090")),
		},
		"card.request of 8 H200 and 4 910B, minResources of 2 and 6: each resource for itself": {
			request: `{"H200":8,"910B":4}`,
			minimum: minResources(gpu, "2", npu, "6"),
			want:    jobRequest(cardRequest(6, "910B"), cardRequest(8, "H200")),
		},
		"card.request of 8 cards and 4 slices, minResources of 2 and 5": {
			request: `{"H200":8,"H200/mig-1g.18gb-mixed":4}`,
			minimum: minResources(gpu, "2", slice, "5"),
			want:    jobRequest(cardRequest(8, "H200"), cardRequest(5, "H200/mig-1g.18gb-mixed")),
		},
		"card.request of 8 H200 and of 8 B300, which no node has, minResources of 16 GPUs: all are H200": {
			request: `{"B300":8,"H200":8}`,
			minimum: minResources(gpu, "16"),
			want:    jobRequest(cardRequest(8, "B300"), cardRequest(16, "H200")),
		},
		"card.request of a million + a million, minResources of a million and one": {
			request: `{"H200":1000000,"4090":1000000}`,
			minimum: minResources(gpu, "1000001"),
			want:    jobRequest(cardRequest(1000000, "4090"), cardRequest(1000000, "H200")),
		},
		"card.request of 8 H200, minResources of 4 of Huawei": {
			request: `{"H200":8}`,
			minimum: minResources(npu, "4"),
			want:    jobRequest(cardRequest(8, "H200"), cardRequest(4, "910B")),
		},
	}) {
		got, refusal := requestOfPodGroup(tc.request, tc.minimum)
		check.Must(t, refusal == nil, "refused: %v", refusal)
		check.Equal(t, "request", tc.want, got, cmpopts.EquateEmpty())
	}
}

// requestOfPodGroup is what a PodGroup with a card.request requests, "-" for none, in the cluster of the package or
// in the given one.
func requestOfPodGroup(request string, least *corev1.ResourceList, inv ...*card.Inventory) (quota.JobRequest, *Refusal) {
	resolver := Resolver{Inventory: append(inv, cluster())[0]}
	group := &v1beta1.PodGroup{}
	group.Annotations = map[string]string{"volcano.sh/card.request": request}
	if request == "-" {
		group.Annotations = map[string]string{"volcano.sh/card.name": "B 300"} // says nothing on a PodGroup
	}
	total, written := CardRequestAnnotation(group)
	return resolver.PodGroupRequest(total, written, least)
}

// TestAnInvalidCardRequestIsRefused: a card.request that is not valid is refused, and requests nothing.
// The tests of card.ParseTotals have all texts that are not valid.
func TestAnInvalidCardRequestIsRefused(t *testing.T) {
	for text, want := range map[string]string{
		"":                         "is not a JSON object",
		`{"H200":0.5}`:             "write a whole number",
		strings.Repeat("{", 1<<20): "at most 8192 are read",
	} {
		got, refusal := requestOfPodGroup(text, minResources("nvidia.com/gpu", "1", "cpu", "1"))
		expectRefusal(t, refusal, "GetTaskRequestResourceFailed", "PodGroup annotation volcano.sh/card.request: ", want)
		check.Equal(t, "request", quota.JobRequest{}, got)
	}
}

// TestPodGroupRequestEqualsExactFractions: card.request and minResources are random. The request equals the rule of
// TestAPodGroupRequestsTheLargerOfTotalAndMinimum, which the test computes in exact fractions. The count of each
// entry of card.request is the larger of two: what it says, and its part of minResources, rounded up. That part is its
// fraction of all entries of the resource. A resource that no entry names may be any of its cards.
func TestPodGroupRequestEqualsExactFractions(t *testing.T) {
	// The resource of each request, and the cards of each resource in the cluster.
	resources := map[string]string{
		"H200": "nvidia.com/gpu", "4090": "nvidia.com/gpu", "H200|4090": "nvidia.com/gpu", "B300|H200": "nvidia.com/gpu",
		"910B": "huawei.com/Ascend910", "H200/mig-1g.18gb-mixed": "nvidia.com/mig-1g.18gb", "B300": "none", // no node has B300
	}
	anyCard := map[string]string{
		"nvidia.com/gpu":         "4090|H200",
		"huawei.com/Ascend910":   "910B",
		"nvidia.com/mig-1g.18gb": "H200/mig-1g.18gb-mixed",
		"vendor.example/ppu":     "",
	}
	requests := []string{"H200", "4090", "H200|4090", "B300|H200", "910B", "H200/mig-1g.18gb-mixed", "B300"}
	quantities := []string{"0", "-1", "1", "2", "3", "5", "7", "11", "13", "500m", "3500m", "999999", "1M", "1e30", "9223372036854775807"}

	inv := cluster()
	seed.Check(t, func(t *rapid.T) {
		counts := rapid.MapOfN(rapid.SampledFrom(requests), rapid.OneOf(rapid.IntRange(0, 20), rapid.IntRange(999_990, 1_000_000)), 0, 5).Draw(t,
			"card.request")
		minimum := rapid.MapOfN(rapid.SampledFrom([]string{"nvidia.com/gpu", "huawei.com/Ascend910", "nvidia.com/mig-1g.18gb", "vendor.example/ppu", "rdma/hca"}),
			rapid.SampledFrom(quantities), 0, 4).Draw(t, "minResources")

		var pairs, entries []string
		for name, quantity := range minimum {
			pairs = append(pairs, name, quantity)
		}

		totals := map[string]int64{}
		for request, count := range counts {
			entries = append(entries, fmt.Sprintf("%q:%d", request, count))
			totals[resources[request]] += int64(count)
		}

		want := map[string]card.Count{}
		for request, count := range counts {
			want[request] = card.Count(count)
			if quantity, ok := minimum[resources[request]]; ok && count > 0 {
				part := new(big.Rat).SetFrac64(int64(count), max(totals[resources[request]], 1))
				rounded := roundedUp(part.Mul(part, new(big.Rat).SetInt64(cardsIn(quantity)))).Int64()
				want[request] = card.Count(max(int64(count), rounded))
			}

			if want[request] == 0 {
				delete(want, request)
			}
		}

		for name, label := range anyCard {
			if n := cardsIn(minimum[name]); totals[name] == 0 && n > 0 {
				want[label] += card.Count(n) // equal requests are one
			}
		}

		got, refusal := requestOfPodGroup("{"+strings.Join(entries, ",")+"}", minResources(pairs...), inv)
		check.Must(t, refusal == nil, "refused: %v", refusal)

		found := map[string]card.Count{}
		for _, requested := range got.Cards {
			label := card.NewRequest(requested.Names...).String()
			_, twice := found[label]
			check.Must(t, !twice, "two requests for %q: %v", label, got.Cards)
			found[label] = requested.Count
		}

		check.Equal(t, fmt.Sprintf("%v with at least %v", counts, minimum), want, found)
	})
}

// cardsIn is a quantity as whole cards, "" is none.
func cardsIn(quantity string) int64 {
	if quantity == "" {
		return 0
	}
	whole := roundedUp(exact(resource.MustParse(quantity)))
	if most := big.NewInt(int64(card.MaxCount) + 1); whole.Cmp(most) > 0 {
		whole = most
	}
	return whole.Int64()
}
