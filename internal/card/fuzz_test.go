package card

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"

	"cardquota.dev/operator/internal/testing/check"
)

// FuzzParseName: a name that is accepted is written back as it was, is good
// everywhere a name may stand, and its form is the one it looks like.
func FuzzParseName(f *testing.F) {
	for _, seed := range []string{"NVIDIA-H200", "NVIDIA-H200/mig-1g.18gb-mixed", "NVIDIA-H800/mps-80g*1/2", "A/mig-x-mixed-mixed", "A/mps-0g*1/9999", "NVIDIA H200", "A/", ""} {
		f.Add(seed)
	}

	f.Fuzz(func(t *testing.T, text string) {
		name, err := ParseName(text)
		if err != nil {
			check.Must(t, name == "" && check.FitsEvent(err.Error()), "%q gave %q and the error %q", text, name, err)
			return
		}

		check.Must(t, string(name) == text && len(text) <= MaxNameLength && check.FitsEvent(text), "%q → %q", text, name)
		wrong := validation.IsValidLabelValue(name.Model())
		check.Must(t, len(wrong) == 0 && name.Model() != "", "the model of %s is no label value: %v", name, wrong)
		form := name.Form()

		want := formOf(strings.TrimPrefix(text, name.Model()))
		check.Must(t, form == want && (form == MIG) == (name.migProfile() != ""), "%s is a %s of profile %q, want a %s", name, form, name.migProfile(), want)

		checkUse(t, name)
	})
}

// checkUse checks that a name is good everywhere a name may stand.
func checkUse(t *testing.T, name Name) {
	request, err := ParseRequest(string(name))
	check.Must(t, err == nil && request.String() == string(name) && request.Allows(name), "%s is no request: %v, %v", name, request, err)
	quota, err := ParseQuota(Quota{name: 1}.String())
	diff := cmp.Diff(Quota{name: 1}, quota)
	check.Must(t, err == nil && diff == "", "%s is no key of a quota: %v %s", name, err, diff)
}

// formOf tells the form of a name by what stands behind the model.
func formOf(suffix string) Form {
	switch {
	case suffix == "":
		return Whole
	case strings.HasPrefix(suffix, "/mig-"):
		return MIG
	default:
		return MPS
	}
}

// FuzzParseTotals: totals that are accepted survive writing and reading, in the
// same order, and every request in them is one that a pod may carry.
func FuzzParseTotals(f *testing.F) {
	for _, seed := range []string{`{}`, `{"A|B":2,"A":1}`, `{"B | A":2,"A|B":1}`, `{"A|B":1,"A | B":2}`, `{"A/mps-80g*1/2|B/mps-40g*1/4":3}`, `{"A":1.5}`, `{"A":`, `[]`} {
		f.Add(seed)
	}

	f.Fuzz(func(t *testing.T, text string) {
		totals, err := ParseTotals(text)
		if err != nil {
			check.Must(t, totals == nil && check.FitsEvent(err.Error()), "%q gave %v and the error %q", text, totals, err)
			return
		}

		written := map[string]Count{}
		for i, total := range totals {
			check.Must(t, total.Count >= 0 && total.Count <= MaxCount && !total.Request.AllowsAny(), "%q gave %s: %d", text, total.Request, total.Count)
			if i > 0 && totals[i-1].Request.String() >= total.Request.String() {
				t.Fatalf("%q: %s stands behind %s", text, total.Request, totals[i-1].Request)
			}
			written[total.Request.String()] = total.Count
		}

		again := check.Value(json.Marshal(written))(t)
		reread, err := ParseTotals(string(again))
		diff := cmp.Diff(totals, reread, cmp.AllowUnexported(Request{}))
		check.Must(t, err == nil && diff == "", "%q → %s: %v %s", text, again, err, diff)
	})
}

// absurdExponent is one of four digits or more. Kubernetes needs seconds to add
// such quantities, which has nothing to do with cards.
var absurdExponent = regexp.MustCompile(`[eE][+-]?[0-9]{4,}`)

// fuzzedNode reads "key=value" as a label and "name:quantity" as a resource,
// one a line, and reports whether the API server would accept the node.
func fuzzedNode(text string) (n *corev1.Node, valid bool) {
	n = &corev1.Node{}
	valid = true
	n.Labels = map[string]string{}
	n.Status.Allocatable = corev1.ResourceList{}
	for _, line := range strings.Split(text, "\n") {
		if key, value, ok := strings.Cut(line, "="); ok {
			n.Labels[key] = value
			valid = valid && len(validation.IsQualifiedName(key)) == 0 && len(validation.IsValidLabelValue(value)) == 0
		} else if name, count, ok := strings.Cut(line, ":"); ok && !absurdExponent.MatchString(count) {
			quantity, err := resource.ParseQuantity(count)
			if err != nil {
				continue
			}
			n.Status.Allocatable[corev1.ResourceName(name)] = quantity
			valid = valid && len(validation.IsQualifiedName(name)) == 0 && quantity.Sign() >= 0
		}
	}

	return n, valid
}

// written is a node in the form that fuzzedNode reads.
func written(n *corev1.Node) string {
	var lines []string
	for key, value := range n.Labels {
		lines = append(lines, key+"="+value)
	}
	for name, quantity := range n.Status.Allocatable {
		lines = append(lines, string(name)+":"+quantity.String())
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// FuzzRecognise: whatever stands on a node, recognising it neither panics nor
// changes it, gives the same result twice, counts no resource that is not there,
// none below zero and none that is withheld; a node without a clear model holds
// nothing; and what has nothing to do with cards makes no difference.
func FuzzRecognise(f *testing.F) {
	const h800 = "nvidia.com/gpu.product=NVIDIA-H800\nnvidia.com/gpu.memory=81559\n"
	const npu = "huawei.com/npu.product=Ascend-910B\nhuawei.com/npu.memory=65536\n"
	for _, seed := range []string{
		h800 + "nvidia.com/gpu:8", h800 + "nvidia.com/gpu.replicas=2\nnvidia.com/gpu.shared:16\nnvidia.com/mig-1g.10gb:7",
		h800 + npu + "nvidia.com/gpu:8\nhuawei.com/Ascend910:8", npu + "huawei.com/Ascend910:8\nhuawei.com/Ascend310:0",
		h800 + "nvidia.com/hostdev:8", npu + "nvidia.com/mig-1g.10gb:1e30", "amd.com/gpu.family=AI\namd.com/gpu:-1",
		"=\n:1", "/.product=x\n/.memory=1\n/:1", "nvidia.com/gpu.memory=9223372036854775807\nnvidia.com/gpu.product=A\nnvidia.com/gpu.replicas=1\nnvidia.com/gpu.shared:500m",
	} {
		f.Add(seed)
	}

	for _, name := range slices.Sorted(maps.Keys(fleet)) {
		f.Add(written(fleetNode(f, name)))
	}

	f.Fuzz(func(t *testing.T, text string) {
		n, valid := fuzzedNode(text)
		before := n.DeepCopy()
		got := Recognise(n, nil)
		check.Equal(t, "the node was changed", before, n)
		check.Equal(t, "two results", got, Recognise(before, nil))

		checkRecognised(t, n, got)
		checkModel(t, got)
		if valid {
			checkNames(t, got, len(text) < 500)
		}

		n.Labels["team"] = "a"
		n.Status.Allocatable["rdma/hca"] = resource.MustParse("8")
		if _, spoilt := before.Labels["rdma/hca.product"]; !spoilt && !strings.Contains(text, "rdma/") {
			check.Equal(t, "a network device and a label of the team changed the cards", got, Recognise(n, nil))
		}
	})
}

// checkRecognised checks what holds for any node.
func checkRecognised(t *testing.T, n *corev1.Node, got Node) {
	seen := map[corev1.ResourceName]bool{}
	for _, h := range got.Cards {
		quantity, there := n.Status.Allocatable[h.Resource]
		check.Must(t, there && !seen[h.Resource] && h.Count >= 0 && h.Count == NewCount(quantity), "holds %d %s as %s of %s", h.Count, h.Resource, h.Name, quantity.String())
		seen[h.Resource] = true
	}

	for _, resource := range got.Unnamed {
		_, there := n.Status.Allocatable[resource]
		check.Must(t, there && !seen[resource], "withholds %s, which is not there or held", resource)
		seen[resource] = true
	}

	check.Must(t, len(got.Unnamed) == 0 || len(got.Anomalies) != 0, "withholds %v and does not say why", got.Unnamed)
	inv := NewInventory(map[string]Node{"n": got})
	all := slices.Sorted(maps.Keys(seen))
	check.Must(t, slices.Equal(all, inv.Resources()), "cards are %v, want %v", inv.Resources(), all)
}

// checkModel checks that a node holds only what its one model names, in order.
func checkModel(t *testing.T, got Node) {
	for i, h := range got.Cards {
		check.Must(t, got.Model != "" && strings.HasPrefix(string(h.Name), got.Model), "holds %s with the model %q", h.Name, got.Model)
		check.Must(t, i == 0 || got.Cards[i-1].Resource < h.Resource, "%s does not stand behind the entry before it", h.Resource)
	}
}

// checkNames checks what holds for a node that the API server takes; what a
// short one says fits into an event.
func checkNames(t *testing.T, got Node, short bool) {
	for _, h := range got.Cards {
		_, err := ParseName(string(h.Name))
		check.Must(t, err == nil, "no quota can be written for %s: %v", h.Resource, err)
	}
	for _, said := range got.Anomalies {
		check.Must(t, !short || check.FitsEvent(said.Message), "no event can hold %q", said.Message)
		check.Must(t, said.Reason != "", "an anomaly has no reason: %q", said.Message)
	}
}
