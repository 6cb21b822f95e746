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

// least makes minResources from names and quantities in turn.
func least(pairs ...string) *corev1.ResourceList {
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

func TestWhatAJobWithoutPodsAnnounces(t *testing.T) {
	const (
		gpu   = "nvidia.com/gpu"
		npu   = "huawei.com/Ascend910"
		slice = "nvidia.com/mig-1g.18gb"
	)

	for t, tc := range check.Cases(t, map[string]struct {
		request string // "-" is no annotation
		least   *corev1.ResourceList
		want    quota.JobRequest
	}{
		"nothing at all": {
			request: "-",
			want:    jobRequest(),
		},
		"empty minResources": {
			request: "-",
			least:   least(),
			want:    jobRequest(),
		},
		"an empty request": {
			request: "{}",
			want:    jobRequest(),
		},
		"CPU and memory alone": {
			request: "-",
			least:   least("cpu", "1500m", "memory", "2Gi"),
			want:    quota.JobRequest{MilliCPU: 1500, Memory: 2 << 30},
		},
		"a part of a core": {
			request: "-",
			least:   least("cpu", "1u"),
			want:    quota.JobRequest{MilliCPU: 1},
		},
		"negative CPU is none": {
			request: "-",
			least:   least("cpu", "-1", "memory", "-1Gi"),
			want:    jobRequest(),
		},
		"CPU beyond 64 bits": {
			request: "-",
			least:   least("cpu", "1e30"),
			want:    quota.JobRequest{MilliCPU: 1 << 53},
		},
		"memory beyond 64 bits": {
			request: "-",
			least:   least("memory", "18446744073709551616"),
			want:    quota.JobRequest{Memory: 1 << 53},
		},
		"RDMA is no card": {
			request: "-",
			least:   least("rdma/hca", "4", "hugepages-2Mi", "1Gi"),
			want:    jobRequest(),
		},
		"other things than cards": {
			request: `{"H200":1}`,
			least:   least("rdma/hca", "4", gpu, "1"),
			want:    jobRequest(cardRequest(1, "H200")),
		},

		// minResources, no request
		"any card of its resource": {
			request: "-",
			least:   least(gpu, "8"),
			want:    jobRequest(cardRequest(8, "4090", "H200")),
		},
		"any card of two resources": {
			request: "-",
			least:   least(gpu, "8", npu, "4"),
			want:    jobRequest(cardRequest(4, "910B"), cardRequest(8, "4090", "H200")),
		},
		"no cards of its resource": {
			request: "-",
			least:   least(gpu, "0"),
			want:    jobRequest(),
		},
		"a negative number of cards": {
			request: "-",
			least:   least(gpu, "-8"),
			want:    jobRequest(),
		},
		"a part of a card": {
			request: "-",
			least:   least(gpu, "500m"),
			want:    jobRequest(cardRequest(1, "4090", "H200")),
		},
		"cards beyond 64 bits": {
			request: "-",
			least:   least(gpu, "1e30"),
			want:    jobRequest(cardRequest(card.MaxCount+1, "4090", "H200")),
		},
		"the largest number of 64 bits": {
			request: "-",
			least:   least(gpu, "9223372036854775807"),
			want:    jobRequest(cardRequest(card.MaxCount+1, "4090", "H200")),
		},
		"an unnamed card fits no quota": {
			request: "-",
			least:   least("vendor.example/ppu", "2"),
			want:    jobRequest(cardRequest(2)),
		},
		"another resource than the request's": {
			request: `{"H200":2}`,
			least:   least(gpu, "2", npu, "4"),
			want:    jobRequest(cardRequest(2, "H200"), cardRequest(4, "910B")),
		},
		"a resource that is requested as nothing": {
			request: `{"H200":0}`,
			least:   least(gpu, "2"),
			want:    jobRequest(cardRequest(2, "4090", "H200")),
		},
		"a resource of which none is needed": {
			request: `{"910B":2}`,
			least:   least(gpu, "0", npu, "2"),
			want:    jobRequest(cardRequest(2, "910B")),
		},

		// a request, no minResources of it
		"the whole job without minResources": {
			request: `{"H200":8}`,
			want:    jobRequest(cardRequest(8, "H200")),
		},
		"the whole job, as minResources has other ones": {
			request: `{"H200":8}`,
			least:   least("cpu", "1"),
			want:    quota.JobRequest{Cards: []quota.CardRequest{cardRequest(8, "H200")}, MilliCPU: 1000},
		},
		"a card that no node has": {
			request: `{"B300":8}`,
			least:   least(gpu, "2"),
			want:    jobRequest(cardRequest(8, "B300"), cardRequest(2, "4090", "H200")),
		},
		"alternatives keep their order": {
			request: `{"H200|4090":8}`,
			want:    jobRequest(cardRequest(8, "H200", "4090")),
		},
		"the second alternative is the known one": {
			request: `{"B300|H200":8}`,
			least:   least(gpu, "2"),
			want:    jobRequest(cardRequest(8, "B300", "H200")),
		},
		"requests in the order of their texts": {
			request: `{"H200":1,"4090":2,"910B":3}`,
			want:    jobRequest(cardRequest(2, "4090"), cardRequest(3, "910B"), cardRequest(1, "H200")),
		},
		"two orders of the same cards are two requests": {
			request: `{"H200|4090":1,"4090|H200":1}`,
			want:    jobRequest(cardRequest(1, "4090", "H200"), cardRequest(1, "H200", "4090")),
		},

		// both
		"the minimum is a part of the job": {
			request: `{"H200":8}`,
			least:   least(gpu, "2"),
			want:    jobRequest(cardRequest(8, "H200")),
		},
		"the job is smaller than its minimum": {
			request: `{"H200":2}`,
			least:   least(gpu, "8"),
			want:    jobRequest(cardRequest(8, "H200")),
		},
		"as much as the job": {
			request: `{"H200":8}`,
			least:   least(gpu, "8"),
			want:    jobRequest(cardRequest(8, "H200")),
		},
		"a minimum of no cards": {
			request: `{"H200":8}`,
			least:   least(gpu, "0"),
			want:    jobRequest(cardRequest(8, "H200")),
		},
		"a negative minimum": {
			request: `{"H200":8}`,
			least:   least(gpu, "-1"),
			want:    jobRequest(cardRequest(8, "H200")),
		},
		"a minimum of a part of a card": {
			request: `{"H200":1}`,
			least:   least(gpu, "1200m"),
			want:    jobRequest(cardRequest(2, "H200")),
		},
		"a minimum beyond 64 bits": {
			request: `{"H200":8}`,
			least:   least(gpu, "1e30"),
			want:    jobRequest(cardRequest(card.MaxCount+1, "H200")),
		},
		"the largest request and its minimum": {
			request: `{"H200":1000000}`,
			least:   least(gpu, "999999"),
			want:    jobRequest(cardRequest(1000000, "H200")),
		},
		"twice as much of each": {
			request: `{"H200":8,"4090":4}`,
			least:   least(gpu, "24"),
			want:    jobRequest(cardRequest(8, "4090"), cardRequest(16, "H200")),
		},
		"what is shared is rounded up": {
			request: `{"H200":8,"4090":4}`,
			least:   least(gpu, "13"),
			want:    jobRequest(cardRequest(5, "4090"), cardRequest(9, "H200")),
		},
		"less than either": {
			request: `{"H200":8,"4090":1}`,
			least:   least(gpu, "1"),
			want:    jobRequest(cardRequest(1, "4090"), cardRequest(8, "H200")),
		},
		"a request of none takes no part": {
			request: `{"H200":8,"4090":0}`,
			least:   least(gpu, "16"),
			want:    jobRequest(cardRequest(16, "H200")),
		},
		"alternatives share with the rest": {
			request: `{"H200|4090":6,"H200":2}`,
			least:   least(gpu, "16"),
			want:    jobRequest(cardRequest(4, "H200"), cardRequest(12, "H200", "4090")),
		},
		"each resource for itself": {
			request: `{"H200":8,"910B":4}`,
			least:   least(gpu, "2", npu, "6"),
			want:    jobRequest(cardRequest(6, "910B"), cardRequest(8, "H200")),
		},
		"a slice and the card are two resources": {
			request: `{"H200":8,"H200/mig-1g.18gb-mixed":4}`,
			least:   least(gpu, "2", slice, "5"),
			want:    jobRequest(cardRequest(8, "H200"), cardRequest(5, "H200/mig-1g.18gb-mixed")),
		},
		"a card that no node has does not share": {
			request: `{"B300":8,"H200":8}`,
			least:   least(gpu, "16"),
			want:    jobRequest(cardRequest(8, "B300"), cardRequest(16, "H200")),
		},
		"counts near the largest do not wrap around": {
			request: `{"H200":1000000,"4090":1000000}`,
			least:   least(gpu, "1000001"),
			want:    jobRequest(cardRequest(1000000, "4090"), cardRequest(1000000, "H200")),
		},
		"a request that names no resource of the minima": {
			request: `{"H200":8}`,
			least:   least(npu, "4"),
			want:    jobRequest(cardRequest(8, "H200"), cardRequest(4, "910B")),
		},
	}) {
		got, refusal := announced(tc.request, tc.least)
		check.Must(t, refusal == nil, "refused: %v", refusal)
		check.Equal(t, "announced", tc.want, got, cmpopts.EquateEmpty())
	}
}

// announced is what a PodGroup with a card.request asks for, "-" for none.
func announced(request string, least *corev1.ResourceList, inv ...*card.Inventory) (quota.JobRequest, *Refusal) {
	r := Resolver{Inventory: append(inv, cluster())[0]}
	group := &v1beta1.PodGroup{}
	group.Annotations = map[string]string{"volcano.sh/card.request": request}
	if request == "-" {
		group.Annotations = map[string]string{"volcano.sh/card.name": "B 300"} // says nothing on a PodGroup
	}
	total, written := CardRequestAnnotation(group)
	return r.PodGroupRequest(total, written, least)
}

// What texts are refused, and why, is tested with card.ParseTotals.
func TestAJobThatAnnouncesNonsenseIsRefused(t *testing.T) {
	for text, want := range map[string]string{
		"":                         "is not a JSON object",
		`{"H200":0.5}`:             "write a whole number",
		strings.Repeat("{", 1<<20): "at most 8192 are read",
	} {
		got, refusal := announced(text, least("nvidia.com/gpu", "1", "cpu", "1"))
		refused(t, refusal, "GetTaskRequestResourceFailed", "PodGroup annotation volcano.sh/card.request: ", want)
		check.Equal(t, "a refused job announces something", quota.JobRequest{}, got)
	}
}

// TestWhatIsAnnouncedEqualsAPlainReading compares with the rule worked out in
// fractions, request by request.
func TestWhatIsAnnouncedEqualsAPlainReading(t *testing.T) {
	// The cards of the cluster by the resource that stands for them, written
	// down once more.
	resources := map[string]string{
		"H200": "nvidia.com/gpu", "4090": "nvidia.com/gpu", "H200|4090": "nvidia.com/gpu", "B300|H200": "nvidia.com/gpu",
		"910B": "huawei.com/Ascend910", "H200/mig-1g.18gb-mixed": "nvidia.com/mig-1g.18gb", "B300": "none",
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
				share := roundedUp(part.Mul(part, new(big.Rat).SetInt64(cardsIn(quantity)))).Int64()
				want[request] = card.Count(max(int64(count), share))
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

		got, refusal := announced("{"+strings.Join(entries, ",")+"}", least(pairs...), inv)
		check.Must(t, refusal == nil, "refused: %v", refusal)

		found := map[string]card.Count{}
		for _, d := range got.Cards {
			label := card.NewRequest(d.Names...).String()
			_, twice := found[label]
			check.Must(t, !twice, "two requests for %q: %v", label, got.Cards)
			found[label] = d.Count
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
