package workload

import (
	"errors"
	"math"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
)

// refused wants a refusal for a reason, that says all of wants and that an event can
// hold.
func refused(t *testing.T, refusal *Refusal, reason string, wants ...string) {
	check.Must(t, refusal != nil, "not refused, want %q", wants)
	check.Equal(t, "reason", reason, refusal.Reason)
	check.Refused(t, errors.New(refusal.Message), wants...)
}

// What people write on pods that can never be placed, beside the cases of
// TestRequestForReadsWaitingPods.
func TestRequestForRefusesPodsThatCannotBePlaced(t *testing.T) {
	const (
		slice = "nvidia.com/mig-1g.18gb"
		npu   = "huawei.com/Ascend910"
		ppu   = "vendor.example/ppu"
	)

	for t, tc := range check.Cases(t, map[string]struct {
		pod   *builder.PodBuilder
		wants []string
	}{
		// the annotation
		"a name that is none": {
			pod:   pod().GPUs(1).Card("H 200"),
			wants: []string{"must be a label value"},
		},
		"an empty name": {
			pod:   pod().GPUs(1).Annotation("volcano.sh/card.name", ""),
			wants: []string{"card name is empty"},
		},
		"the form of card.request": {
			pod:   pod().GPUs(1).Card(`{"H200":1}`),
			wants: []string{"Pod annotation volcano.sh/card.name", "must be a label value"},
		},
		"a card and its own slice": {
			pod:   pod().GPUs(1).Card("H200|H200/mig-1g.18gb-mixed"),
			wants: []string{"one resource request cannot mean either"},
		},
		"an annotation of 1 MiB": {
			pod:   pod().GPUs(1).Card(strings.Repeat("H", 1<<20)),
			wants: []string{"is longer than 160 characters"},
		},
		"a bad name beside a resource that no node offers": {
			pod:   pod().Requests("amd.com/gpu", "1").Card("MI 300X"),
			wants: []string{`"MI 300X"`, "must be a label value"},
		},

		// the annotation and the resource
		"a slice is asked for, the card is named": {
			pod:   pod().Requests(slice, "1").Card("H200"),
			wants: []string{"is requested as nvidia.com/gpu"},
		},
		"an Ascend is named, an NVIDIA card is asked for": {
			pod:   pod().GPUs(1).Card("910B"),
			wants: []string{"is requested as huawei.com/Ascend910, but requests nvidia.com/gpu"},
		},
		"a slice is named, the card is asked for": {
			pod: pod().GPUs(1).Card("H200/mig-1g.18gb-mixed"),
			wants: []string{"names card <H200/mig-1g.18gb-mixed>, which is requested as nvidia.com/mig-1g.18gb, but requests " +
				"nvidia.com/gpu"},
		},
		"an NVIDIA card is named, an Ascend is asked for": {
			pod:   pod().Requests(npu, "8").Card("H200"),
			wants: []string{"names card <H200>, which is requested as nvidia.com/gpu, but requests huawei.com/Ascend910"},
		},
		"the second alternative is of another vendor": {
			pod:   pod().GPUs(1).Card("B300|910B"),
			wants: []string{"names card <910B>, which is requested as huawei.com/Ascend910"},
		},
		"a card is named, one without a name is asked for": {
			pod:   pod().Requests(ppu, "1").Card("H200"),
			wants: []string{"is requested as nvidia.com/gpu, but requests vendor.example/ppu"},
		},
		"the resource is misspelt": {
			pod:   pod().Requests("nvidia.com/gpus", "1").Card("H200"),
			wants: []string{"names card <H200> but requests nvidia.com/gpus, which no node offers as a card"},
		},
		"the resource is in capitals": {
			pod:   pod().Requests("nvidia.com/GPU", "1").Card("H200"),
			wants: []string{"requests nvidia.com/GPU, which no node offers as a card"},
		},
		"only a network device is asked for": {
			pod:   pod().Requests("rdma/hca", "1").Card("H200"),
			wants: []string{"names card <H200> but requests rdma/hca, which no node offers as a card"},
		},
		"two resources that are cards nowhere": {
			pod:   pod().Requests("amd.com/gpu", "1").Requests("intel.com/gpu", "1").Card("MI300X"),
			wants: []string{"requests amd.com/gpu, intel.com/gpu, which no node offers as a card"},
		},
		"alternatives on a resource that is a card nowhere": {
			pod:   pod().Requests("amd.com/gpu", "1").Card("MI300X|MI250X"),
			wants: []string{"names card <MI300X|MI250X> but requests amd.com/gpu"},
		},
		"no node says which card the resource is": {
			pod:   pod().Requests(ppu, "1"),
			wants: []string{"requests vendor.example/ppu, but no node says which card that is", "<vendor>/<type>.product and .memory"},
		},
		"no node says which card the init container requests": {
			pod:   pod().InitContainer(ppu, "1"),
			wants: []string{"requests vendor.example/ppu, but no node says which card that is"},
		},

		// two card resources
		"two containers with cards of two vendors": {
			pod:   pod().GPUs(1).Container(npu, "1"),
			wants: []string{"requests two card resources, huawei.com/Ascend910 and nvidia.com/gpu"},
		},
		"an init container with a card of another": {
			pod:   pod().GPUs(1).InitContainer(npu, "1"),
			wants: []string{"requests two card resources"},
		},
		"a sidecar with a slice": {
			pod:   pod().GPUs(1).Sidecar(slice, "1").Card("H200"),
			wants: []string{"requests two card resources, nvidia.com/gpu and nvidia.com/mig-1g.18gb", "a pod may request only one card resource"},
		},
		"three card resources": {
			pod:   pod().GPUs(1).Requests(slice, "1").Requests(npu, "1"),
			wants: []string{"requests two card resources, huawei.com/Ascend910 and nvidia.com/gpu"},
		},
		"a named card and an unnamed one": {
			pod:   pod().GPUs(1).Requests(ppu, "1").Card("H200"),
			wants: []string{"requests two card resources, nvidia.com/gpu and vendor.example/ppu"},
		},
		"two card resources and a name that is no one": {
			pod:   pod().GPUs(1).Requests(npu, "1").Card("H 200"),
			wants: []string{"Pod annotation volcano.sh/card.name", "must be a label value"},
		},

		// counts that no node has
		"one card more than can be given": {
			pod:   pod().GPUs(1000001),
			wants: []string{"requests more than 1000000 of nvidia.com/gpu"},
		},
		"the largest number of 64 bits": {
			pod:   pod().Requests(gpu, "9223372036854775807").Card("H200"),
			wants: []string{"requests more than 1000000 of nvidia.com/gpu"},
		},
		"a number beyond 64 bits": {
			pod:   pod().Requests(gpu, "1e30"),
			wants: []string{"requests more than 1000000 of nvidia.com/gpu"},
		},
		"a number whose 64 bits are all ones": {
			pod:   pod().Requests(gpu, "18446744073709551615"),
			wants: []string{"requests more than 1000000 of nvidia.com/gpu"},
		},
		"two containers whose sum is beyond 64": {
			pod:   pod().Requests(gpu, "9223372036854775807").Container(gpu, "9223372036854775807"),
			wants: []string{"requests more than 1000000 of nvidia.com/gpu"},
		},
		"a sidecar whose sum is beyond 64 bits": {
			pod:   pod().Requests(gpu, "9223372036854775807").Sidecar(gpu, "1"),
			wants: []string{"requests more than 1000000 of nvidia.com/gpu"},
		},
		"an init container beyond reason": {
			pod:   pod().GPUs(1).InitContainer(gpu, "2M"),
			wants: []string{"requests more than 1000000 of nvidia.com/gpu"},
		},
		"memory written where cards belong": {
			pod:   pod().Requests(gpu, "80Gi"),
			wants: []string{"requests more than 1000000 of nvidia.com/gpu"},
		},
		"too many of a resource that no node offers": {
			pod:   pod().Requests("amd.com/gpu", "1e30").Card("MI300X"),
			wants: []string{"requests amd.com/gpu, which no node offers as a card"},
		},
		"too many of an unnamed card": {
			pod:   pod().Requests(ppu, "1e30"),
			wants: []string{"requests more than 1000000 of vendor.example/ppu"},
		},
	}) {
		pod := tc.pod.Obj()
		got := requestFor(pod)
		checkAgainstObserver(t, pod, got)
		refused(t, got.Denied, ReasonGetTaskRequestFailed, tc.wants...)
		check.Equal(t, "names", 0, len(got.Names))
	}
}

// A refusal fits into an event, however much the pod asks for.
func TestRequestRefusalFitsIntoEvent(t *testing.T) {
	many := pod()
	for i := range 40 {
		many.Requests(corev1.ResourceName("example.com/"+strings.Repeat("r", 50)+string(rune('a'+i%26))+string(rune('a'+i/26))), "1")
	}
	alternatives := make([]string, card.MaxAlternatives)
	for i := range alternatives {
		alternatives[i] = strings.Repeat("m", 62) + string(rune('a'+i)) + "/mps-999999g*1/9999"
	}
	got := requestFor(many.Card(strings.Join(alternatives, "|")).Obj())
	refused(t, got.Denied, ReasonGetTaskRequestFailed, ", which no node offers as a card")
	check.That(t, len(got.Denied.Message) < 700, "it takes %d bytes", len(got.Denied.Message))
}

// Quantities that look odd are read so that nothing is counted too low.
func TestRequestForReadsOddQuantities(t *testing.T) {
	asks := func(what string, b *builder.PodBuilder, cards card.Count, milliCPU, memory int64) {
		got := requestFor(b.Obj())
		check.That(t, got.Count == cards && got.MilliCPU == milliCPU && got.Memory == memory,
			"%s: %d cards, %dm, %d bytes; want %d, %dm, %d", what, got.Count, got.MilliCPU, got.Memory, cards, milliCPU, memory)
		check.That(t, (got.Resource != "") == (got.Count > 0) && got.Count <= math.MaxInt32, "%s: %d of %q", what, got.Count, got.Resource)
	}

	for text, want := range map[string]card.Count{
		"500m": 1, "1.5": 2, "0": 0, "-8": 0, "1k": 1000, "1000000": card.MaxCount, "1e30": card.MaxCount + 1,
	} {
		asks("cards "+text, pod().Requests(gpu, text), want, 0, 0)
	}

	asks("the parts of two containers add up", pod().Requests(gpu, "500m").Container(gpu, "500m"), 1, 0, 0)
	asks("a negative container beside another", pod().GPUs(-1).Container(gpu, "3"), 2, 0, 0)
	asks("the name alone", pod().Card("H200"), 0, 0, 0)
	asks("a bad name alone", pod().Card("H 200").CPU("1"), 0, 1000, 0)

	for text, want := range map[string]int64{"9223372036854775807": 1 << 53, "1e30": 1 << 53, "1u": 1, "-1": 0} {
		asks("CPU "+text, pod().CPU(text), 0, want, 0)
	}
	for text, want := range map[string]int64{"1e30": 1 << 53, "1500m": 2, "12Ti": 12 << 40} {
		asks("memory "+text, pod().Memory(text), 0, 0, want)
	}

	asks("memory whose sum is beyond 64 bits", pod().Memory("9223372036854775807").Container("memory", "9223372036854775807"), 0, 0, 1<<53)
}
