package workload

import (
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
)

// expectRefusal expects a refusal with a reason, whose message has all wanted texts and fits an event.
func expectRefusal(t *testing.T, refusal *Refusal, reason string, wants ...string) {
	check.Must(t, refusal != nil, "not refused, want %q", wants)
	check.Equal(t, "reason", reason, refusal.Reason())
	check.Refused(t, errors.New(refusal.Message()), wants...)
}

// TestRequestForRefusesPodsThatCannotBePlaced: some pods can never be placed. Their card name is not valid or no
// card of the requested resource. Or they request two card resources, more than a million cards, or a card that no
// label names. The request is refused with the reason, so that the pod does not wait for ever. A card name that is
// not valid is the first reason. The cluster has H200, 4090 and slices of NVIDIA, 910B of Huawei, and
// vendor.example/ppu, whose card no label names. The observer, a second implementation of the rules from the
// documents alone, agrees.
func TestRequestForRefusesPodsThatCannotBePlaced(t *testing.T) {
	const (
		slice = "nvidia.com/mig-1g.18gb"
		npu   = "huawei.com/Ascend910"
		ppu   = "vendor.example/ppu"
	)

	for t, tc := range check.Cases(t, map[string]struct {
		pod          *builder.PodBuilder
		wantMessages []string
	}{
		"a card name with a space": {
			pod:          waitingPod().GPUs(1).Card("H 200"),
			wantMessages: []string{"must be a label value"},
		},
		"an empty card name": {
			pod:          waitingPod().GPUs(1).Annotation("volcano.sh/card.name", ""),
			wantMessages: []string{"card name is empty"},
		},
		"a card name in the form of card.request": {
			pod:          waitingPod().GPUs(1).Card(`{"H200":1}`),
			wantMessages: []string{"Pod annotation volcano.sh/card.name", "must be a label value"},
		},
		"a card and its own slice": {
			pod:          waitingPod().GPUs(1).Card("H200|H200/mig-1g.18gb-mixed"),
			wantMessages: []string{"one resource request cannot mean either"},
		},
		"an annotation of 1 MiB": {
			pod:          waitingPod().GPUs(1).Card(strings.Repeat("H", 1<<20)),
			wantMessages: []string{"is longer than 160 characters"},
		},
		"a card name with a space, and a resource that no node offers": {
			pod:          waitingPod().Requests("amd.com/gpu", "1").Card("MI 300X"),
			wantMessages: []string{`"MI 300X"`, "must be a label value"},
		},

		"names the card, requests a slice": {
			pod:          waitingPod().Requests(slice, "1").Card("H200"),
			wantMessages: []string{"is requested as nvidia.com/gpu"},
		},
		"names 910B, requests an NVIDIA card": {
			pod:          waitingPod().GPUs(1).Card("910B"),
			wantMessages: []string{"is requested as huawei.com/Ascend910, but requests nvidia.com/gpu"},
		},
		"names a slice, requests the card": {
			pod: waitingPod().GPUs(1).Card("H200/mig-1g.18gb-mixed"),
			wantMessages: []string{"names card <H200/mig-1g.18gb-mixed>, which is requested as nvidia.com/mig-1g.18gb, but requests " +
				"nvidia.com/gpu"},
		},
		"names H200, requests an Ascend": {
			pod:          waitingPod().Requests(npu, "8").Card("H200"),
			wantMessages: []string{"names card <H200>, which is requested as nvidia.com/gpu, but requests huawei.com/Ascend910"},
		},
		"names B300, which no node has, and 910B, requests an NVIDIA card": {
			pod:          waitingPod().GPUs(1).Card("B300|910B"),
			wantMessages: []string{"names card <910B>, which is requested as huawei.com/Ascend910"},
		},
		"names H200, requests a card that no label names": {
			pod:          waitingPod().Requests(ppu, "1").Card("H200"),
			wantMessages: []string{"is requested as nvidia.com/gpu, but requests vendor.example/ppu"},
		},
		"names H200, requests nvidia.com/gpus": {
			pod:          waitingPod().Requests("nvidia.com/gpus", "1").Card("H200"),
			wantMessages: []string{"names card <H200> but requests nvidia.com/gpus, which no node offers as a card"},
		},
		"names H200, requests nvidia.com/GPU": {
			pod:          waitingPod().Requests("nvidia.com/GPU", "1").Card("H200"),
			wantMessages: []string{"requests nvidia.com/GPU, which no node offers as a card"},
		},
		"names H200, requests only a network device": {
			pod:          waitingPod().Requests("rdma/hca", "1").Card("H200"),
			wantMessages: []string{"names card <H200> but requests rdma/hca, which no node offers as a card"},
		},
		"names a card, requests two resources that are cards on no node": {
			pod:          waitingPod().Requests("amd.com/gpu", "1").Requests("intel.com/gpu", "1").Card("MI300X"),
			wantMessages: []string{"requests amd.com/gpu, intel.com/gpu, which no node offers as a card"},
		},
		"names two cards, requests a resource that is a card on no node": {
			pod:          waitingPod().Requests("amd.com/gpu", "1").Card("MI300X|MI250X"),
			wantMessages: []string{"names card <MI300X|MI250X> but requests amd.com/gpu"},
		},
		"requests a card that no label names": {
			pod:          waitingPod().Requests(ppu, "1"),
			wantMessages: []string{"requests vendor.example/ppu, but no node says which card that is", "<vendor>/<type>.product and .memory"},
		},
		"requests a card that no label names in an init container": {
			pod:          waitingPod().InitContainer(ppu, "1"),
			wantMessages: []string{"requests vendor.example/ppu, but no node says which card that is"},
		},

		"two containers with cards of two vendors": {
			pod:          waitingPod().GPUs(1).Container(npu, "1"),
			wantMessages: []string{"requests two card resources, huawei.com/Ascend910 and nvidia.com/gpu"},
		},
		"an init container with a card of another vendor": {
			pod:          waitingPod().GPUs(1).InitContainer(npu, "1"),
			wantMessages: []string{"requests two card resources"},
		},
		"a sidecar with a slice": {
			pod: waitingPod().GPUs(1).Sidecar(slice, "1").Card("H200"),
			wantMessages: []string{
				"requests two card resources, nvidia.com/gpu and nvidia.com/mig-1g.18gb", "a pod may request only one card resource",
			},
		},
		"three card resources": {
			pod:          waitingPod().GPUs(1).Requests(slice, "1").Requests(npu, "1"),
			wantMessages: []string{"requests two card resources, huawei.com/Ascend910 and nvidia.com/gpu"},
		},
		"a card that labels name, and one that none names": {
			pod:          waitingPod().GPUs(1).Requests(ppu, "1").Card("H200"),
			wantMessages: []string{"requests two card resources, nvidia.com/gpu and vendor.example/ppu"},
		},
		"two card resources, and a card name with a space": {
			pod:          waitingPod().GPUs(1).Requests(npu, "1").Card("H 200"),
			wantMessages: []string{"Pod annotation volcano.sh/card.name", "must be a label value"},
		},

		"1,000,001 cards": {
			pod:          waitingPod().GPUs(1000001),
			wantMessages: []string{"requests more than 1000000 of nvidia.com/gpu"},
		},
		"2^63-1 cards": {
			pod:          waitingPod().Requests(gpu, "9223372036854775807").Card("H200"),
			wantMessages: []string{"requests more than 1000000 of nvidia.com/gpu"},
		},
		"1e30 cards": {
			pod:          waitingPod().Requests(gpu, "1e30"),
			wantMessages: []string{"requests more than 1000000 of nvidia.com/gpu"},
		},
		"2^64-1 cards": {
			pod:          waitingPod().Requests(gpu, "18446744073709551615"),
			wantMessages: []string{"requests more than 1000000 of nvidia.com/gpu"},
		},
		"two containers, whose sum is beyond 64 bits": {
			pod:          waitingPod().Requests(gpu, "9223372036854775807").Container(gpu, "9223372036854775807"),
			wantMessages: []string{"requests more than 1000000 of nvidia.com/gpu"},
		},
		"a sidecar whose sum is beyond 64 bits": {
			pod:          waitingPod().Requests(gpu, "9223372036854775807").Sidecar(gpu, "1"),
			wantMessages: []string{"requests more than 1000000 of nvidia.com/gpu"},
		},
		"2 million cards in an init container": {
			pod:          waitingPod().GPUs(1).InitContainer(gpu, "2M"),
			wantMessages: []string{"requests more than 1000000 of nvidia.com/gpu"},
		},
		"80Gi of cards": {
			pod:          waitingPod().Requests(gpu, "80Gi"),
			wantMessages: []string{"requests more than 1000000 of nvidia.com/gpu"},
		},
		"1e30 of a resource that no node offers": {
			pod:          waitingPod().Requests("amd.com/gpu", "1e30").Card("MI300X"),
			wantMessages: []string{"requests amd.com/gpu, which no node offers as a card"},
		},
		"1e30 of a card that no label names": {
			pod:          waitingPod().Requests(ppu, "1e30"),
			wantMessages: []string{"requests more than 1000000 of vendor.example/ppu"},
		},
	}) {
		pod := tc.pod.Obj()
		got := requestFor(pod)
		expectRequestOfObserver(t, pod, got)
		expectRefusal(t, got.Denied, ReasonGetTaskRequestFailed, tc.wantMessages...)
		check.Equal(t, "names", 0, len(got.Names))
	}
}

// TestRequestRefusalFitsIntoEvent: the pod requests 40 resources with long names that are cards on no node, and names
// as many alternatives as it may. The refusal still fits an event, with room for what the scheduler adds.
func TestRequestRefusalFitsIntoEvent(t *testing.T) {
	many := waitingPod()
	for i := range 40 {
		many.Requests(corev1.ResourceName("example.com/"+strings.Repeat("r", 50)+string(rune('a'+i%26))+string(rune('a'+i/26))), "1")
	}

	alternatives := make([]string, card.MaxAlternatives)
	for i := range alternatives {
		alternatives[i] = strings.Repeat("m", 62) + string(rune('a'+i)) + "/mps-999999g*1/9999"
	}

	got := requestFor(many.Card(strings.Join(alternatives, "|")).Obj())
	expectRefusal(t, got.Denied, ReasonGetTaskRequestFailed, ", which no node offers as a card")
	check.That(t, len(got.Denied.Message()) < 700, // of the 1024 of an event
		"the message has %d bytes", len(got.Denied.Message()))
}

// TestRequestForReadsOddQuantities: the API accepts parts of cards, negative quantities and numbers beyond 64 bits.
// The requests of containers are added first. Then parts of a card, of a thousandth of a CPU and of a byte are
// rounded up. A negative sum counts as 0. Sums are bounded: cards by a million and one, CPU and memory by 2^53.
func TestRequestForReadsOddQuantities(t *testing.T) {
	const most = int64(1 << 53)
	for t, tc := range check.Cases(t, map[string]struct {
		pod          *builder.PodBuilder
		wantCards    card.Count
		wantMilliCPU int64
		wantMemory   int64
	}{
		"500m cards":                           {pod: waitingPod().Requests(gpu, "500m"), wantCards: 1},
		"1.5 cards":                            {pod: waitingPod().Requests(gpu, "1.5"), wantCards: 2},
		"0 cards":                              {pod: waitingPod().Requests(gpu, "0")},
		"-8 cards":                             {pod: waitingPod().Requests(gpu, "-8")},
		"1k cards":                             {pod: waitingPod().Requests(gpu, "1k"), wantCards: 1000},
		"a million cards":                      {pod: waitingPod().Requests(gpu, "1000000"), wantCards: card.MaxCount},
		"1e30 cards":                           {pod: waitingPod().Requests(gpu, "1e30"), wantCards: card.MaxCount + 1},
		"500m cards in each of two containers": {pod: waitingPod().Requests(gpu, "500m").Container(gpu, "500m"), wantCards: 1},
		"-1 cards beside a container of 3":     {pod: waitingPod().GPUs(-1).Container(gpu, "3"), wantCards: 2},
		"only a card name":                     {pod: waitingPod().Card("H200")},
		"only a wrong card name, and 1 CPU":    {pod: waitingPod().Card("H 200").CPU("1"), wantMilliCPU: 1000},
		"2^63-1 CPU":                           {pod: waitingPod().CPU("9223372036854775807"), wantMilliCPU: most},
		"1e30 CPU":                             {pod: waitingPod().CPU("1e30"), wantMilliCPU: most},
		"a millionth of a CPU":                 {pod: waitingPod().CPU("1u"), wantMilliCPU: 1},
		"-1 CPU":                               {pod: waitingPod().CPU("-1")},
		"1e30 of memory":                       {pod: waitingPod().Memory("1e30"), wantMemory: most},
		"1.5 bytes of memory":                  {pod: waitingPod().Memory("1500m"), wantMemory: 2},
		"12 Ti of memory":                      {pod: waitingPod().Memory("12Ti"), wantMemory: 12 << 40},
		"2^63-1 of memory in each of two containers": {
			pod:        waitingPod().Memory("9223372036854775807").Container("memory", "9223372036854775807"),
			wantMemory: most,
		},
	}) {
		got := requestFor(tc.pod.Obj())

		check.Equal(t, "cards", tc.wantCards, got.Count)
		check.Equal(t, "millicores", tc.wantMilliCPU, got.MilliCPU)
		check.Equal(t, "memory", tc.wantMemory, got.Memory)
		check.Equal(t, "has a card resource", tc.wantCards > 0, got.Resource != "")
	}
}
