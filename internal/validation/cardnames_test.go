package validation

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/policy"
	"cardquota.dev/operator/internal/schedulerconfig"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/seed"
)

// newPolicyWithCards returns a policy with these entries of spec.cards, of which those in force are in its status.
func newPolicyWithCards(inForce, written []v1alpha1.CardMapping) *v1alpha1.ServiceTypePolicy {
	object := &v1alpha1.ServiceTypePolicy{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
	object.Spec.Cards = written
	object.Status.Cards = inForce
	if inForce != nil {
		object.Status.ServiceTypes = []v1alpha1.ServiceTypeStatus{{Name: "training"}}
	}
	return object
}

// trackedNodes are nodes as the entries in force name their cards.
func trackedNodes(inForce []v1alpha1.CardMapping, nodes ...*builder.NodeBuilder) []card.TrackedNode {
	var tracker card.Tracker
	for _, node := range nodes {
		tracker.Update(node.Obj())
	}
	tracker.SetMappings(policy.CardMappings(newPolicyWithCards(inForce, nil)))
	return tracker.TrackedNodes()
}

// TestEntriesOfCardsWarnOfNodesThatLoseOrChangeNames: entries of spec.cards in the policy say which label names the
// cards of a resource, and replace the usual labels for all resources of its vendor. An entry for one cloud without a
// nodeSelector counts for all nodes. The others then lose the names of their cards, and no new pod gets these cards. So
// the webhook warns with the nodes that lose or change names. It compares written entries with those in force, and does
// not warn again when something else in the policy changes. The fleet has one node of the cloud, four own nodes with
// NVIDIA-H200, and one with NVIDIA-L4.
func TestEntriesOfCardsWarnOfNodesThatLoseOrChangeNames(t *testing.T) {
	const cloudLabel = "cloud.google.com/gke-accelerator"
	byCloud := v1alpha1.CardMapping{Resource: "nvidia.com/gpu", ModelLabel: cloudLabel}
	selective := byCloud
	selective.NodeSelector = map[string]string{cloudLabel: "nvidia-tesla-t4"}
	byModel := v1alpha1.CardMapping{Resource: "nvidia.com/gpu", Model: "T4"}
	ownModel := v1alpha1.CardMapping{Resource: "nvidia.com/gpu", Model: "Own", NodeSelector: map[string]string{"own": "true"}}
	oneAscend := v1alpha1.CardMapping{Resource: "huawei.com/Ascend310P", Model: "Ascend-310P", NodeSelector: map[string]string{"on": "310"}}

	cloud := func(name string) *builder.NodeBuilder {
		return builder.Node(name).Label(cloudLabel, "nvidia-tesla-t4").GPUs("", 4)
	}

	own := func(name string) *builder.NodeBuilder {
		return builder.Node(name).Label("own", "true").GPUs("NVIDIA-H200", 8)
	}
	fleet := []*builder.NodeBuilder{cloud("cloud-1"), own("own-1"), own("own-2"), own("own-3"), own("own-4"), builder.Node("l4").GPUs("NVIDIA-L4", 2)}
	ascend := builder.Node("ascend").NPUs("Ascend-910B", 8).Label("on", "310").Resource("huawei.com/Ascend310P", "4")

	for t, tc := range check.Cases(t, map[string]struct {
		nodes            []*builder.NodeBuilder
		inForce, written []v1alpha1.CardMapping
		before           *v1alpha1.ServiceTypePolicy
		want             []string // parts of the only warning, none for no warning
	}{
		"the label of a cloud, for all nodes": {
			nodes:   fleet,
			written: []v1alpha1.CardMapping{byCloud},
			want: []string{
				"spec.cards[nvidia.com/gpu]: an entry without nodeSelector is for all nodes: 5 nodes lose the name of this card",
				"(l4, own-1, own-2 and 2 more; it was NVIDIA-H200, NVIDIA-L4)", "no new pod gets a card there", "write into nodeSelector the labels of the nodes that the entry is for"},
		},
		"the label of a cloud, for the nodes of the cloud": {nodes: fleet, written: []v1alpha1.CardMapping{selective}},
		"an entry in force gets a nodeSelector: the other nodes get their names back": {
			nodes:   fleet,
			inForce: []v1alpha1.CardMapping{byCloud},
			written: []v1alpha1.CardMapping{selective},
		},
		"an entry in force loses its nodeSelector": {
			nodes:   fleet,
			inForce: []v1alpha1.CardMapping{selective},
			written: []v1alpha1.CardMapping{byCloud},
			want:    []string{": 5 nodes lose the name"},
		},
		"the label of a cloud, and the only node is an own one": {
			nodes:   []*builder.NodeBuilder{own("own-1")},
			written: []v1alpha1.CardMapping{byCloud},
			want:    []string{": 1 node loses the name of this card (own-1; it was NVIDIA-H200)"},
		},
		"one model for all nodes": {
			nodes:   fleet,
			written: []v1alpha1.CardMapping{byModel},
			want:    []string{": 5 nodes change the name of this card (l4, own-1, own-2 and 2 more; NVIDIA-H200 becomes T4, NVIDIA-L4 becomes T4), and quotas for the old name do not count there"},
		},
		"an entry for all nodes, and one for own nodes was in force: both match these and name nothing": {
			nodes:   fleet,
			inForce: []v1alpha1.CardMapping{ownModel},
			written: []v1alpha1.CardMapping{byModel, ownModel},
			want:    []string{": 4 nodes lose the name of this card (own-1, own-2, own-3 and 1 more; it was Own)", "; 1 node changes the name of this card (l4; NVIDIA-L4 becomes T4)"},
		},
		"an entry for the four own nodes, whose cards have a name": {
			nodes:   fleet,
			written: []v1alpha1.CardMapping{ownModel},
			want:    []string{": the entries change the name of this card: 4 nodes change the name of this card", "NVIDIA-H200 becomes Own", "correct modelLabel, model or nodeSelector"},
		},
		"an entry for another resource of the same vendor, and its nodeSelector matches no node": {
			nodes:   []*builder.NodeBuilder{builder.Node("ascend").NPUs("Ascend-910B", 8).Label("on", "910")},
			written: []v1alpha1.CardMapping{oneAscend},
		},
		"no card has a name yet: node ascend offers two resources, and its label could mean either": {
			nodes:   []*builder.NodeBuilder{cloud("cloud-1"), ascend},
			written: []v1alpha1.CardMapping{byCloud, oneAscend},
		},
		"an entry that names the cards as before": {
			nodes:   []*builder.NodeBuilder{own("own-1")},
			written: []v1alpha1.CardMapping{{Resource: "nvidia.com/gpu", ModelLabel: "nvidia.com/gpu.product"}},
		},
		"another field changes, and the entries were written before": {
			nodes:   fleet,
			written: []v1alpha1.CardMapping{byCloud},
			before:  newPolicyWithCards(nil, []v1alpha1.CardMapping{byCloud}),
		},
		"no nodes that offer the card": {
			nodes:   []*builder.NodeBuilder{builder.Node("plain")},
			written: []v1alpha1.CardMapping{byCloud},
		},
		"an entry in force is removed, of which another rule warns": {
			nodes:   fleet,
			inForce: []v1alpha1.CardMapping{byModel},
			want:    []string{"spec.cards: no entry names nvidia.com/gpu, which is in force as a card"},
		},
		"an entry for all nodes replaces the label of another resource of its vendor": {
			nodes:   []*builder.NodeBuilder{builder.Node("ascend").NPUs("Ascend-910B", 8).Resource("huawei.com/rdma", "1")},
			written: []v1alpha1.CardMapping{{Resource: "huawei.com/rdma", Model: "X", NodeSelector: map[string]string{}}},
			want:    []string{"spec.cards[huawei.com/Ascend910]: no entry names this resource, and entries for other resources of its vendor replace the labels: 1 node loses the name of this card (ascend; it was Ascend-910B)", "; write an entry for it as well"},
		},
	}) {
		object := newPolicyWithCards(tc.inForce, tc.written)
		input := PolicyInput{
			Base:    &corev1.ConfigMap{Data: map[string]string{"volcano-scheduler.conf": schedulerconfig.BuiltIn}},
			Volcano: "volcano-system", Nodes: trackedNodes(tc.inForce, tc.nodes...),
		}

		if tc.before != nil {
			tc.before.Spec.UnmanagedQueues = v1alpha1.UnmanagedIgnore
			object.Spec.UnmanagedQueues = v1alpha1.UnmanagedEnforce // the other field that changes
		}

		got := ValidateServiceTypePolicy(object, tc.before, input)
		check.Must(t, len(got.Errors) == 0, "refused: %v", got.Errors)
		if tc.want == nil {
			check.That(t, len(got.Warnings) == 0, "warns %q", got.Warnings)
			continue
		}

		check.Must(t, len(got.Warnings) == 1, "warns %q", got.Warnings)
		check.Contains(t, "warning", got.Warnings[0], tc.want...)
	}
}

// TestWarningsOfCardNamesCountNodes: the warnings say how many nodes lose the name of a card, and how many change it. These
// numbers equal a count of the nodes whose cards have no name, or another one, when they are recognised by the new
// entries. Another rule warns of a resource whose entry is removed, so such cards do not count here. Entries in force, new
// entries and nodes are random.
func TestWarningsOfCardNamesCountNodes(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		entries := rapid.SliceOfNDistinct(rapid.Custom(func(t *rapid.T) v1alpha1.CardMapping {
			entry := v1alpha1.CardMapping{Resource: rapid.SampledFrom([]string{"nvidia.com/gpu", "huawei.com/Ascend910"}).Draw(t, "resource")}
			if rapid.Bool().Draw(t, "by label") {
				entry.ModelLabel = "model"
			} else {
				entry.Model = rapid.SampledFrom([]string{"A", "NVIDIA-H200"}).Draw(t, "model")
			}
			if pool := rapid.SampledFrom([]string{"", "x", "y"}).Draw(t, "pool"); pool != "" {
				entry.NodeSelector = map[string]string{"pool": pool}
			}
			return entry
		}), 0, 4, func(m v1alpha1.CardMapping) string { return m.Resource + m.NodeSelector["pool"] })
		inForce := entries.Draw(t, "in force")
		written := entries.Draw(t, "written")

		nodes := drawLabelledNodes(t)

		var lost, changed int
		before := policy.CardMappings(newPolicyWithCards(inForce, nil))
		after := policy.CardMappings(newPolicyWithCards(written, nil))
		for _, node := range trackedNodes(inForce, nodes...) {
			now := map[corev1.ResourceName]card.Name{}
			for _, offered := range card.Recognise(node.Object, after).Cards {
				now[offered.Resource] = offered.Name
			}

			for _, offered := range node.Cards {
				isRemoved := slices.Contains(before.Resources(), offered.Resource) && !slices.Contains(after.Resources(), offered.Resource)
				switch name := now[offered.Resource]; {
				case isRemoved || name == offered.Name:
				case name == "":
					lost++
				default:
					changed++
				}
			}
		}

		var result Result
		object := newPolicyWithCards(inForce, written)
		warnCardNames(&result, policy.Effective(object.Spec), object, trackedNodes(inForce, nodes...))
		gotLost := countIn(result.Warnings, "lose")
		check.That(t, gotLost == lost, "warnings say that %d nodes lose a name, but %d do: %q", gotLost, lost, result.Warnings)
		gotChanged := countIn(result.Warnings, "change")
		check.That(t, gotChanged == changed, "warnings say that %d nodes change a name, but %d do: %q", gotChanged, changed, result.Warnings)
	})
}

// drawLabelledNodes draws nodes with labels that entries of spec.cards read.
func drawLabelledNodes(t *rapid.T) (nodes []*builder.NodeBuilder) {
	for i := range rapid.IntRange(0, 6).Draw(t, "nodes") {
		node := builder.Node(fmt.Sprint("n", i))
		for _, label := range []string{"pool", "model"} {
			if value := rapid.SampledFrom([]string{"", "x", "y"}).Draw(t, label); value != "" {
				node.Label(label, value)
			}
		}

		switch rapid.IntRange(0, 2).Draw(t, "kind") {
		case 0:
			node.GPUs(rapid.SampledFrom([]string{"", "NVIDIA-H200"}).Draw(t, "product"), 8)
		case 1:
			node.NPUs("Ascend-910B", 8)
		}
		nodes = append(nodes, node)
	}
	return nodes
}

// countIn adds the numbers before "node loses" or "nodes lose".
func countIn(warnings []string, verb string) (sum int) {
	for _, warning := range warnings {
		words := strings.Fields(warning)
		for i, word := range words {
			if i > 1 && strings.HasPrefix(words[i-1], "node") && strings.TrimSuffix(word, "s") == verb {
				var n int
				_, _ = fmt.Sscan(words[i-2], &n)
				sum += n
			}
		}
	}
	return sum
}
