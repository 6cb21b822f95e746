package workload

import (
	"fmt"
	"math/big"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/testing/check"
)

// hugeExponent is one of four digits or more. Kubernetes needs seconds to add
// such quantities, which has nothing to do with cards.
var hugeExponent = regexp.MustCompile(`[eE][+-]?[0-9]{4,}`)

// parseQuantity reads a quantity; it is false for a text that is none.
func parseQuantity(text string) (resource.Quantity, bool) {
	if hugeExponent.MatchString(text) {
		return resource.Quantity{}, false
	}
	quantity, err := resource.ParseQuantity(text)
	return quantity, err == nil
}

// exact is a quantity as a fraction.
func exact(quantity resource.Quantity) *big.Rat {
	value, ok := new(big.Rat).SetString(quantity.AsDec().String())
	if !ok {
		panic("no decimal number: " + quantity.String())
	}
	return value
}

// roundedUp is the least whole number not below value, and not below zero.
func roundedUp(value *big.Rat) *big.Int {
	if value.Sign() <= 0 {
		return new(big.Int)
	}
	up := new(big.Int).Add(value.Num(), value.Denom())
	return up.Sub(up, big.NewInt(1)).Div(up, value.Denom())
}

// FuzzRequestFor: whatever a pod requests, the number of its cards is exact, rounded up to whole cards. More than a
// million count as a million and one. A pod is refused with a message that fits an event. Or it may use at least one
// name of its resource if it requests cards, else none. CPU and memory are between 0 and 2^53. Two containers request
// the amounts first and second of GPUs. The parameter shape makes the second an ordinary one, a sidecar or an init
// container, and may add 1 of another resource. The pod has annotation card.name if named is set. The same pod is
// always read in the same way.
func FuzzRequestFor(f *testing.F) {
	f.Add("H200|4090", true, "1", "0", uint8(0))
	f.Add("H200/mig-1g.18gb-mixed", true, "500m", "1.5", uint8(4))
	f.Add("", true, "9223372036854775807", "9223372036854775807", uint8(0))
	f.Add("H 200", true, "-1", "1e30", uint8(9))
	f.Add("", false, "0", "2", uint8(14))
	f.Add("910B", true, "0", "1n", uint8(7))
	f.Add("H200", true, "-1", "01", uint8(4))

	f.Fuzz(func(t *testing.T, annotation string, named bool, first, second string, shape uint8) {
		pod, want, ok := newFuzzedPod(annotation, named, first, second, shape)
		if !ok {
			return
		}

		inv := cluster()
		got := (&Resolver{Inventory: inv}).Request(pod)

		again := requestFor(pod.DeepCopy())
		check.Must(t, reflect.DeepEqual(got, again), "two results: %+v and %+v", got, again)
		check.Equal(t, fmt.Sprintf("%s and %s in shape %d are cards", first, second, shape), want, gpusOf(t, got))
		check.Must(t, got.MilliCPU >= 0 && got.MilliCPU <= 1<<53 && got.Memory >= 0 && got.Memory <= 1<<53,
			"%dm CPU, %d bytes", got.MilliCPU, got.Memory)

		expectRefusedOrAllowed(t, got, inv)
	})
}

// gpusOf is how many nvidia.com/gpu a request has. No count is out of bounds.
func gpusOf(t *testing.T, request Request) card.Count {
	var count card.Count
	for _, requested := range append([]ResourceCount{{request.Resource, request.Count}}, request.ExtraResources...) {
		check.Must(t, requested.Count >= 0 && requested.Count <= card.MaxCount+1 && (requested.Count == 0) == (requested.Resource == ""),
			"%d of %q", requested.Count, requested.Resource)
		if requested.Resource == "nvidia.com/gpu" {
			count = requested.Count
		}
	}
	return count
}

// expectRefusedOrAllowed: a request is refused, or may use cards of the resource that it requests.
func expectRefusedOrAllowed(t *testing.T, request Request, inv *card.Inventory) {
	switch {
	case request.Denied != nil:
		check.Must(t, len(request.Names) == 0 && request.Denied.Reason() == ReasonGetTaskRequestFailed && check.FitsEvent(request.Denied.Message()),
			"refused by %+v, may use %v", request.Denied, request.Names)
	case (request.Count > 0) != (len(request.Names) > 0) || len(request.ExtraResources) > 0:
		check.Must(t, false, "requests %d of %s and %v, may use %v", request.Count, request.Resource, request.ExtraResources, request.Names)
	}

	for _, name := range request.Names {
		resources := inv.ResourcesFor(name)
		check.Must(t, request.Named.Allows(name) && (len(resources) == 0 || resources[0] == request.Resource),
			"requests %s, may use %s, which is %v", request.Resource, name, resources)
	}
}

// newFuzzedPod requests nvidia.com/gpu twice, in a container and as the shape says, and 1 of another resource that
// the shape chooses. want is how many cards these are.
func newFuzzedPod(annotation string, named bool, first, second string, shape uint8) (p *corev1.Pod, want card.Count, ok bool) {
	a, good := parseQuantity(first)
	b, alsoGood := parseQuantity(second)
	if !good || !alsoGood {
		return nil, 0, false
	}

	built := waitingPod().Requests(gpu, first).Requests("cpu", first).Requests("memory", second)
	if named {
		built.Annotation("volcano.sh/card.name", annotation)
	}

	total := exact(a)
	switch shape % 3 {
	case 0:
		built.Container(gpu, second)
		total.Add(total, exact(b))
	case 1: // a sidecar runs beside the containers, and before them alone
		built.Sidecar(gpu, second)
		total.Add(total, exact(b))
		total = larger(total, exact(b))
	default:
		built.InitContainer(gpu, second)
		total = larger(total, exact(b))
	}

	others := []corev1.ResourceName{"", "nvidia.com/mig-1g.18gb", "huawei.com/Ascend910", "vendor.example/ppu", "amd.com/gpu", "rdma/hca"}
	if other := others[int(shape/3)%len(others)]; other != "" {
		built.Requests(other, "1")
	}

	p = built.Obj()
	if whole := roundedUp(total); whole.Cmp(big.NewInt(int64(card.MaxCount))) <= 0 {
		return p, card.Count(whole.Int64()), true
	}

	return p, card.MaxCount + 1, true
}

func larger(a, b *big.Rat) *big.Rat {
	if a.Cmp(b) >= 0 {
		return a
	}
	return b
}

// FuzzRulesOf: a Queue is refused exactly when it is not open or its quota is not valid. Its limits are the numbers
// of exact arithmetic, and never below zero. One with an invalid quota allows nothing. A Queue with the annotation of
// a quota is managed. In another one a capability of 0 or less is no limit. In both, one of 9 x 10^15 or more may be
// none, too (limitOf). ignore means that the policy ignores all Queues that are not managed.
func FuzzRulesOf(f *testing.F) {
	f.Add(`{"H200":8}`, true, "4", "4Gi", false, uint8(0))
	f.Add(`{"H200":8,"H200":4}`, true, "1u", "1500m", true, uint8(0))
	f.Add(`{}`, false, "-1", "1e30", true, uint8(1))
	f.Add(`{}`, true, "-10000000000000000000000000000000", "10000000000000", true, uint8(0))
	f.Add(`{}`, true, "10000000000000", "-10000000000000000000000000000000", true, uint8(0))
	f.Add("\ufeff{}", true, "9223372036854775807", "0", false, uint8(3))

	f.Fuzz(func(t *testing.T, text string, managed bool, cpu, memory string, ignore bool, state uint8) {
		c, good := parseQuantity(cpu)
		m, alsoGood := parseQuantity(memory)
		if !good || !alsoGood {
			return
		}

		q := newQueue(text, withCapability("cpu", cpu), withCapability("memory", memory), inState(states[int(state)%len(states)]))
		unmanaged := v1alpha1.UnmanagedEnforce
		if ignore {
			unmanaged = v1alpha1.UnmanagedIgnore
		}

		if !managed {
			q.Annotations = nil
		}

		got := QueueRulesFor(q, unmanaged, nil)
		again := QueueRulesFor(q.DeepCopy(), unmanaged, nil)
		check.Must(t, reflect.DeepEqual(got, again), "two results: %+v and %+v", got, again)

		read, err := card.ParseQuota(text)
		unreadable := managed && err != nil
		expectRefusalOfQueue(t, q, got, managed, unreadable)

		want := quota.Limits{AnyCard: !managed && ignore}
		if !unreadable {
			want.MilliCPU = limitOf(got.Limits.MilliCPU, exact(c), 1000, managed)
			want.Memory = limitOf(got.Limits.Memory, exact(m), 1, managed)
		}

		if managed {
			want.Cards = read
		}

		check.Equal(t, "limits", want, got.Limits, cmpopts.EquateEmpty())
	})
}

// states are what the status of a Queue may say.
var states = []v1beta1.QueueState{v1beta1.QueueStateOpen, v1beta1.QueueStateClosed, v1beta1.QueueStateClosing, v1beta1.QueueStateUnknown, ""}

// expectRefusalOfQueue: a queue is refused exactly when it must be, with the reason.
func expectRefusalOfQueue(t *testing.T, q *v1beta1.Queue, got QueueRules, managed, unreadable bool) {
	refused := unreadable || q.Status.State != v1beta1.QueueStateOpen
	check.Must(t, refused == (got.Refusal != nil) && got.Managed == managed, "%+v for the quota %q in state %q", got, q.Annotations,
		q.Status.State)
	if got.Refusal == nil {
		return
	}
	check.Must(t, unreadable == (got.Refusal.Reason() == ReasonInvalidQuota) && check.FitsEvent(got.Refusal.Message()) && strings.HasPrefix(got.Refusal.Message(),
		"Queue <q> "),
		"refused by %+v", got.Refusal)
}

// limitOf is the limit that a capability states, in unit parts. A limit may be
// none when the capability is so large that it could as well be.
func limitOf(got int64, value *big.Rat, unit int64, managed bool) int64 {
	const enough = 9_000_000_000_000_000
	if value.Sign() <= 0 {
		if managed {
			return 0
		}
		return quota.Unlimited
	}
	if got == quota.Unlimited && value.Cmp(new(big.Rat).SetInt64(enough)) >= 0 {
		return got
	}
	return roundedUp(value.Mul(value, new(big.Rat).SetInt64(unit))).Int64()
}
