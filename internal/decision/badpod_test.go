package decision

import (
	"math"
	"strings"
	"testing"
	"unicode"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"cardquota.dev/operator/internal/card"
)

// another adds a container that asks for count of a resource.
func another(name corev1.ResourceName, count string) podOption {
	return func(p *corev1.Pod) {
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{name: resource.MustParse(count)}}})
	}
}

// before adds an init container, or a sidecar, that asks for count of a resource.
func before(name corev1.ResourceName, count string, sidecar bool) podOption {
	return func(p *corev1.Pod) {
		c := corev1.Container{Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{name: resource.MustParse(count)}}}
		if sidecar {
			always := corev1.ContainerRestartPolicyAlways
			c.RestartPolicy = &always
		}
		p.Spec.InitContainers = append(p.Spec.InitContainers, c)
	}
}

// tellable tells whether an event can hold a message and a terminal can show it.
func tellable(message string) bool {
	return message != "" && len(message) <= 1024 &&
		strings.IndexFunc(message, func(r rune) bool { return !unicode.IsPrint(r) }) < 0
}

// What people write on pods that can never be placed, beside the cases of
// TestWhatAPodMayAskFor.
func TestAskOfRefusesWhatPeopleWrite(t *testing.T) {
	named := func(text string) podOption { return note("volcano.sh/card.name", text) }
	const slice, npu, ppu = "nvidia.com/mig-1g.18gb", "huawei.com/Ascend910", "vendor.example/ppu"
	tests := map[string]struct {
		pod   *corev1.Pod
		wants []string
	}{
		// the annotation
		"the form of card.request":               {pod(gpus("1"), named(`{"H200":1}`)), []string{"Pod annotation volcano.sh/card.name", "must be a label value"}},
		"a card and its own slice":               {pod(gpus("1"), named("H200|H200/mig-1g.18gb-mixed")), []string{"one resource request cannot mean either"}},
		"an annotation of 1 MiB":                 {pod(gpus("1"), named(strings.Repeat("H", 1<<20))), []string{"is longer than 160 characters"}},
		"a bad name beside a resource of nobody": {pod(asks("amd.com/gpu", "1"), named("MI 300X")), []string{`"MI 300X"`, "must be a label value"}},

		// the annotation and the resource
		"a slice is named, the card is asked for":            {pod(gpus("1"), named("H200/mig-1g.18gb-mixed")), []string{"names card <H200/mig-1g.18gb-mixed>, which is requested as nvidia.com/mig-1g.18gb, but requests nvidia.com/gpu"}},
		"an NVIDIA card is named, an Ascend is asked for":    {pod(asks(npu, "8"), named("H200")), []string{"names card <H200>, which is requested as nvidia.com/gpu, but requests huawei.com/Ascend910"}},
		"the second alternative is of another vendor":        {pod(gpus("1"), named("B300|910B")), []string{"names card <910B>, which is requested as huawei.com/Ascend910"}},
		"a card is named, one without a name is asked for":   {pod(asks(ppu, "1"), named("H200")), []string{"is requested as nvidia.com/gpu, but requests vendor.example/ppu"}},
		"the resource is misspelt":                           {pod(asks("nvidia.com/gpus", "1"), named("H200")), []string{"names card <H200> but requests nvidia.com/gpus, which no node offers as a card"}},
		"the resource is in capitals":                        {pod(asks("nvidia.com/GPU", "1"), named("H200")), []string{"requests nvidia.com/GPU, which no node offers as a card"}},
		"only a network device is asked for":                 {pod(asks("rdma/hca", "1"), named("H200")), []string{"names card <H200> but requests rdma/hca, which no node offers as a card"}},
		"two resources that are cards nowhere":               {pod(asks("amd.com/gpu", "1"), asks("intel.com/gpu", "1"), named("MI300X")), []string{"requests amd.com/gpu, intel.com/gpu, which no node offers as a card"}},
		"alternatives on a resource that is a card nowhere":  {pod(asks("amd.com/gpu", "1"), named("MI300X|MI250X")), []string{"names card <MI300X|MI250X> but requests amd.com/gpu"}},
		"nobody says which card the resource is":             {pod(asks(ppu, "1")), []string{"requests vendor.example/ppu, but no node says which card that is", "<vendor>/<type>.product and .memory"}},
		"nobody says which card the init container asks for": {pod(before(ppu, "1", false)), []string{"requests vendor.example/ppu, but no node says which card that is"}},

		// two card resources
		"two containers with cards of two vendors":     {pod(gpus("1"), another(npu, "1")), []string{"requests two card resources, huawei.com/Ascend910 and nvidia.com/gpu"}},
		"an init container with a card of another":     {pod(gpus("1"), before(npu, "1", false)), []string{"requests two card resources"}},
		"a sidecar with a slice":                       {pod(gpus("1"), before(slice, "1", true), named("H200")), []string{"requests two card resources, nvidia.com/gpu and nvidia.com/mig-1g.18gb"}},
		"three card resources":                         {pod(gpus("1"), asks(slice, "1"), asks(npu, "1")), []string{"requests two card resources, huawei.com/Ascend910 and nvidia.com/gpu"}},
		"a card that is named and one that nobody is":  {pod(gpus("1"), asks(ppu, "1"), named("H200")), []string{"requests two card resources, nvidia.com/gpu and vendor.example/ppu"}},
		"two card resources and a name that is no one": {pod(gpus("1"), asks(npu, "1"), named("H 200")), []string{"Pod annotation volcano.sh/card.name", "must be a label value"}},

		// counts that no node has
		"one card more than can be given":           {pod(gpus("1000001")), []string{"requests more than 1000000 of nvidia.com/gpu"}},
		"the largest number of 64 bits":             {pod(gpus("9223372036854775807"), named("H200")), []string{"requests more than 1000000 of nvidia.com/gpu"}},
		"a number beyond 64 bits":                   {pod(gpus("1e30")), []string{"requests more than 1000000 of nvidia.com/gpu"}},
		"a number whose 64 bits are all ones":       {pod(gpus("18446744073709551615")), []string{"requests more than 1000000 of nvidia.com/gpu"}},
		"two containers whose sum is beyond 64":     {pod(gpus("9223372036854775807"), another("nvidia.com/gpu", "9223372036854775807")), []string{"requests more than 1000000 of nvidia.com/gpu"}},
		"a sidecar whose sum is beyond 64 bits":     {pod(gpus("9223372036854775807"), before("nvidia.com/gpu", "1", true)), []string{"requests more than 1000000 of nvidia.com/gpu"}},
		"an init container beyond reason":           {pod(gpus("1"), before("nvidia.com/gpu", "2M", false)), []string{"requests more than 1000000 of nvidia.com/gpu"}},
		"memory written where cards belong":         {pod(gpus("80Gi")), []string{"requests more than 1000000 of nvidia.com/gpu"}},
		"beyond reason of a resource of nobody":     {pod(asks("amd.com/gpu", "1e30"), named("MI300X")), []string{"requests amd.com/gpu, which no node offers as a card"}},
		"beyond reason of a card that nobody names": {pod(asks(ppu, "1e30")), []string{"requests more than 1000000 of vendor.example/ppu"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got := AskOf(tc.pod, cluster())
			if got.Refusal == nil {
				t.Fatalf("not refused, may use %v", got.Names)
			}
			if got.Refusal.Reason != ReasonGetTaskRequestFailed || len(got.Names) != 0 {
				t.Errorf("reason %s, may use %v", got.Refusal.Reason, got.Names)
			}
			for _, want := range tc.wants {
				if !strings.Contains(got.Refusal.Message, want) {
					t.Errorf("refusal is\n  %s\nwant\n  …%s…", got.Refusal.Message, want)
				}
			}
			if !tellable(got.Refusal.Message) {
				t.Errorf("no event can hold %q", got.Refusal.Message)
			}
		})
	}
}

// A refusal fits into an event, however much the pod asks for.
func TestAskOfRefusesBriefly(t *testing.T) {
	var many []podOption
	for i := range 40 {
		many = append(many, asks(corev1.ResourceName("example.com/"+strings.Repeat("r", 50)+string(rune('a'+i%26))+string(rune('a'+i/26))), "1"))
	}
	alternatives := make([]string, card.MaxAlternatives)
	for i := range alternatives {
		alternatives[i] = strings.Repeat("m", 62) + string(rune('a'+i)) + "/mps-999999g*1/9999"
	}
	got := AskOf(pod(append(many, note("volcano.sh/card.name", strings.Join(alternatives, "|")))...), cluster())
	if got.Refusal == nil || !tellable(got.Refusal.Message) || !strings.HasSuffix(got.Refusal.Message, "…, which no node offers as a card") {
		t.Errorf("refusal %v", got.Refusal)
	}
}

// Quantities that look odd are read so that nothing is counted too low.
func TestAskOfReadsOddQuantities(t *testing.T) {
	tests := map[string]struct {
		pod      *corev1.Pod
		want     card.Count
		wantCPU  int64
		wantByte int64
	}{
		"part of a card is a card":             {pod: pod(gpus("500m")), want: 1},
		"a card and a half are two":            {pod: pod(gpus("1.5")), want: 2},
		"the parts of two containers add up":   {pod: pod(gpus("500m"), another("nvidia.com/gpu", "500m")), want: 1},
		"no card":                              {pod: pod(gpus("0"))},
		"fewer than none":                      {pod: pod(gpus("-8"))},
		"a negative container beside another":  {pod: pod(gpus("-1"), another("nvidia.com/gpu", "3")), want: 2},
		"a thousand written with a letter":     {pod: pod(gpus("1k")), want: 1000},
		"the most that can be":                 {pod: pod(gpus("1000000")), want: card.MaxCount},
		"beyond 64 bits":                       {pod: pod(gpus("1e30")), want: card.MaxCount + 1},
		"the name alone":                       {pod: pod(note("volcano.sh/card.name", "H200"))},
		"a bad name alone":                     {pod: pod(note("volcano.sh/card.name", "H 200"), asks("cpu", "1")), wantCPU: 1000},
		"CPU of the largest number of 64 bits": {pod: pod(asks("cpu", "9223372036854775807")), wantCPU: 1 << 53},
		"CPU beyond 64 bits":                   {pod: pod(asks("cpu", "1e30")), wantCPU: 1 << 53},
		"a thousandth of a thousandth of CPU":  {pod: pod(asks("cpu", "1u")), wantCPU: 1},
		"negative CPU":                         {pod: pod(asks("cpu", "-1"))},
		"memory beyond 64 bits":                {pod: pod(asks("memory", "1e30")), wantByte: 1 << 53},
		"memory whose sum is beyond 64 bits":   {pod: pod(asks("memory", "9223372036854775807"), another("memory", "9223372036854775807")), wantByte: 1 << 53},
		"memory in thousandths of a byte":      {pod: pod(asks("memory", "1500m")), wantByte: 2},
		"twelve TiB, as large nodes have":      {pod: pod(asks("memory", "12Ti")), wantByte: 12 << 40},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got := AskOf(tc.pod, cluster())
			if got.Count != tc.want || got.MilliCPU != tc.wantCPU || got.Memory != tc.wantByte {
				t.Errorf("%d cards, %dm, %d bytes; want %d, %dm, %d", got.Count, got.MilliCPU, got.Memory, tc.want, tc.wantCPU, tc.wantByte)
			}
			if (got.Resource != "") != (got.Count > 0) || got.Count > math.MaxInt32 {
				t.Errorf("%d of %q", got.Count, got.Resource)
			}
		})
	}
}
