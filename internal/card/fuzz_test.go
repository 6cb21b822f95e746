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

// FuzzParseName: ParseName returns the text that it accepts unchanged. The name fits a pod's request, a quota and
// an event. Its model is a label value, and its form follows from what stands behind the model. Only a MIG slice has
// a profile. A refused text gives "", and an error that fits an event.
func FuzzParseName(f *testing.F) {
	for _, seed := range []string{
		"NVIDIA-H200", "NVIDIA-H200/mig-1g.18gb-mixed", "NVIDIA-H800/mps-80g*1/2", "A/mig-x-mixed-mixed", "A/mps-0g*1/9999",
		"NVIDIA H200", "A/", "",
	} {
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

		wantForm := formOfSuffix(strings.TrimPrefix(text, name.Model()))
		check.Equal(t, text+": form", wantForm, name.Form())
		check.Equal(t, text+": has a MIG profile", wantForm == MIG, name.migProfile() != "")

		request := check.Value(ParseRequest(text))(t)
		check.Must(t, request.String() == text && request.Allows(name), "%s is the request %v", name, request)
		check.Equal(t, "quota of one card", Quota{name: 1}, check.Value(ParseQuota(Quota{name: 1}.String()))(t))
	})
}

// formOfSuffix returns the form of a name by what stands behind its model.
func formOfSuffix(suffix string) Form {
	switch {
	case suffix == "":
		return Whole
	case strings.HasPrefix(suffix, "/mig-"):
		return MIG
	default:
		return MPS
	}
}

// FuzzParseTotals: ParseTotals parses the annotation card.request, a JSON object {"A|B": number of cards} of
// alternatives. What it accepts is sorted by request, each only once, with a card name and a count from 0 to
// MaxCount. It is read back the same after it was written. A refused text gives nothing, and an error that fits an
// event.
func FuzzParseTotals(f *testing.F) {
	for _, seed := range []string{
		`{}`, `{"A|B":2,"A":1}`, `{"B | A":2,"A|B":1}`, `{"A|B":1,"A | B":2}`, `{"A/mps-80g*1/2|B/mps-40g*1/4":3}`,
		`{"A":1.5}`, `{"A":`, `[]`,
	} {
		f.Add(seed)
	}

	f.Fuzz(func(t *testing.T, text string) {
		totals, err := ParseTotals(text)
		if err != nil {
			check.Must(t, totals == nil && check.FitsEvent(err.Error()), "%q gave %v and the error %q", text, totals, err)
			return
		}

		written := map[string]Count{}
		last := ""
		for _, total := range totals {
			request := total.Request.String()
			check.Must(t, total.Count >= 0 && total.Count <= MaxCount && !total.Request.AllowsAny(), "%q gave %s: %d", text, request,
				total.Count)
			check.Must(t, request > last, "%q: %s stands behind %s", text, request, last)
			written[request] = total.Count
			last = request
		}

		check.Equal(t, text, totals, check.Value(ParseTotals(string(check.Value(json.Marshal(written))(t))))(t), cmp.AllowUnexported(Request{}))
	})
}

// hugeExponent is one of four digits or more. Kubernetes needs seconds to add
// such quantities, which has nothing to do with cards.
var hugeExponent = regexp.MustCompile(`[eE][+-]?[0-9]{4,}`)

// parseNode reads "key=value" as a label and "name:quantity" as a resource,
// one a line, and reports whether the API server would accept the node.
func parseNode(text string) (node *corev1.Node, valid bool) {
	node = &corev1.Node{}
	valid = true
	node.Labels = map[string]string{}
	node.Status.Allocatable = corev1.ResourceList{}

	for _, line := range strings.Split(text, "\n") {
		if key, value, ok := strings.Cut(line, "="); ok {
			node.Labels[key] = value
			valid = valid && len(validation.IsQualifiedName(key)) == 0 && len(validation.IsValidLabelValue(value)) == 0
		} else if name, count, ok := strings.Cut(line, ":"); ok && !hugeExponent.MatchString(count) {
			quantity, err := resource.ParseQuantity(count)
			if err != nil {
				continue
			}

			node.Status.Allocatable[corev1.ResourceName(name)] = quantity
			valid = valid && len(validation.IsQualifiedName(name)) == 0 && quantity.Sign() >= 0
		}
	}

	return node, valid
}

// writeNode returns a node in the form that parseNode reads.
func writeNode(node *corev1.Node) string {
	var lines []string
	for key, value := range node.Labels {
		lines = append(lines, key+"="+value)
	}
	for name, quantity := range node.Status.Allocatable {
		lines = append(lines, string(name)+":"+quantity.String())
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// FuzzRecognise: users and device plugins may write any labels and resources on a node. Recognise neither panics nor
// changes the node. It counts each resource of the node at most once, with the number of the node. It withholds a
// resource only with a reason, and a node without a clear model offers no card. The inventory of the node has what is
// counted and what is withheld. A network device and the label of a team make no difference. Names and messages are
// checked only for nodes that the API server accepts, and the length of messages only for nodes with short texts.
func FuzzRecognise(f *testing.F) {
	const h800 = "nvidia.com/gpu.product=NVIDIA-H800\nnvidia.com/gpu.memory=81559\n"
	const npu = "huawei.com/npu.product=Ascend-910B\nhuawei.com/npu.memory=65536\n"
	for _, seed := range []string{
		h800 + "nvidia.com/gpu:8",
		h800 + "nvidia.com/gpu.replicas=2\nnvidia.com/gpu.shared:16\nnvidia.com/mig-1g.10gb:7",
		h800 + npu + "nvidia.com/gpu:8\nhuawei.com/Ascend910:8",
		npu + "huawei.com/Ascend910:8\nhuawei.com/Ascend310:0",
		h800 + "nvidia.com/hostdev:8",
		npu + "nvidia.com/mig-1g.10gb:1e30",
		"amd.com/gpu.family=AI\namd.com/gpu:-1",
		"=\n:1",
		"/.product=x\n/.memory=1\n/:1",
		"nvidia.com/gpu.memory=9223372036854775807\nnvidia.com/gpu.product=A\nnvidia.com/gpu.replicas=1\nnvidia.com/gpu.shared:500m",
	} {
		f.Add(seed)
	}

	for _, file := range slices.Sorted(maps.Keys(fleet)) {
		f.Add(writeNode(readFleetNode(f, file)))
	}

	f.Fuzz(func(t *testing.T, text string) {
		node, valid := parseNode(text)
		before := node.DeepCopy()
		got := Recognise(node, nil)
		check.Equal(t, "the node after it was recognised", before, node)
		check.Equal(t, "a second result", got, Recognise(before, nil))

		expectResourcesOfNode(t, node, got)
		expectOneModelInOrder(t, got)
		if valid {
			expectNamesForQuotas(t, got)
			expectReasons(t, got, len(text) < 500) // short enough for an event of at most 1024 bytes
		}

		node.Labels["team"] = "a"
		node.Status.Allocatable["rdma/hca"] = resource.MustParse("8")
		if !strings.Contains(text, "rdma/") { // labels of the text could make rdma/hca a card
			check.Equal(t, "with a network device and a label of a team", got, Recognise(node, nil))
		}
	})
}

// expectResourcesOfNode: each resource that Recognise returns is one of the node and there once, with the node's
// count. Withheld ones come with an anomaly. Exactly these resources are cards in an inventory of the node.
func expectResourcesOfNode(t *testing.T, node *corev1.Node, got Node) {
	seen := map[corev1.ResourceName]bool{}
	for _, offered := range got.Cards {
		quantity, isThere := node.Status.Allocatable[offered.Resource]
		check.Must(t, isThere && !seen[offered.Resource], "offers %s, which is not there or there twice", offered.Resource)
		check.Equal(t, "count of "+string(offered.Resource), NewCount(quantity), offered.Count)
		check.Must(t, offered.Count >= 0, "offers %d %s", offered.Count, offered.Resource)
		seen[offered.Resource] = true
	}

	for _, resource := range got.Unnamed {
		_, isThere := node.Status.Allocatable[resource]
		check.Must(t, isThere && !seen[resource], "withholds %s, which is not there or offered", resource)
		seen[resource] = true
	}

	check.Must(t, len(got.Unnamed) == 0 || len(got.Anomalies) != 0, "withholds %v without a reason", got.Unnamed)
	check.Equal(t, "cards of the inventory", slices.Sorted(maps.Keys(seen)), NewInventory(map[string]Node{"n": got}).Resources())
}

// expectOneModelInOrder: the cards of a node are named after its one model, and sorted by resource.
func expectOneModelInOrder(t *testing.T, got Node) {
	last := corev1.ResourceName("")
	for _, offered := range got.Cards {
		check.Must(t, got.Model != "" && strings.HasPrefix(string(offered.Name), got.Model), "offers %s with the model %q", offered.Name,
			got.Model)
		check.Must(t, last < offered.Resource, "%s stands behind %s", offered.Resource, last)
		last = offered.Resource
	}
}

// expectNamesForQuotas: each card of a node that the API server accepts has a valid name, so that a quota can be
// written for it.
func expectNamesForQuotas(t *testing.T, got Node) {
	for _, offered := range got.Cards {
		check.Value(ParseName(string(offered.Name)))(t)
	}
}

// expectReasons: each anomaly has a reason, and a message that fits an event if the texts of the node are short.
func expectReasons(t *testing.T, got Node, isShort bool) {
	for _, anomaly := range got.Anomalies {
		check.Must(t, anomaly.Reason != "", "an anomaly has no reason: %q", anomaly.Message)
		check.Must(t, !isShort || check.FitsEvent(anomaly.Message), "no event can have %q", anomaly.Message)
	}
}
