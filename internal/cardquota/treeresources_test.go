package cardquota

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"pgregory.net/rapid"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/seed"
)

// computeQueue is a live Queue with limit, deserved and guarantee of CPU.
func computeQueue(name string, limit, deserved, guarantee int64) *v1beta1.Queue {
	queue := &v1beta1.Queue{}
	queue.Name = name
	cpu := func(n int64) corev1.ResourceList {
		return corev1.ResourceList{"cpu": *resource.NewQuantity(n, resource.DecimalSI)}
	}
	queue.Spec.Capability, queue.Spec.Deserved, queue.Spec.Guarantee.Resource = cpu(limit), cpu(deserved), cpu(guarantee)
	return queue
}

func TestStage(t *testing.T) {
	wants := func(limit, deserved, guarantee int64) Placement {
		of := func(n int64) quota.Shares { return quota.Shares{quota.CPUName: 1000 * n} }
		return Placement{Parent: "web", Limit: of(limit), Deserved: of(deserved), Guarantee: of(guarantee)}
	}
	for t, tc := range check.Cases(t, map[string]struct {
		want   Placement
		family Family
		staged Placement
		wait   string
	}{
		"at the top level nothing bounds it": {want: wants(8, 4, 2), staged: wants(8, 4, 2)},
		"it fits its parent":                 {want: wants(8, 4, 2), family: Family{Parent: computeQueue("web", 8, 8, 2)}, staged: wants(8, 4, 2)},
		"its parent is raised first": {want: wants(8, 4, 2), family: Family{Parent: computeQueue("web", 6, 3, 1)}, staged: wants(6, 3, 1),
			wait: "WaitingForParent: queue chat has limit 6 CPU of 8 CPU, deserved 3 CPU of 4 CPU, guarantee 1 CPU of 2 CPU until its parent queue web, or the other children of it, leave room: Volcano refuses children that have more than their parent"},
		"another child is lowered first": {want: wants(8, 4, 2), family: Family{Parent: computeQueue("web", 8, 8, 2), Siblings: []*v1beta1.Queue{computeQueue("b", 8, 5, 1), computeQueue("c", 8, 1, 0)}},
			staged: wants(8, 2, 1), wait: "WaitingForParent: queue chat has deserved 2 CPU of 4 CPU, guarantee 1 CPU of 2 CPU until its parent queue web, or the other children of it, leave room: Volcano refuses children that have more than their parent"},
		"its children are lowered first": {want: wants(4, 4, 1), family: Family{Children: []*v1beta1.Queue{computeQueue("b", 6, 3, 2), computeQueue("a", 2, 2, 1)}},
			staged: wants(6, 5, 3), wait: "WaitingForChildren: queue chat has limit 6 CPU of 4 CPU, deserved 5 CPU of 4 CPU, guarantee 3 CPU of 1 CPU until its child queues a, b are lowered: Volcano refuses children that have more than their parent"},
	}) {
		staged, wait := tc.want.Stage(node("chat", "web", 8, 4, 2), tc.family)
		check.Equal(t, "staged", tc.staged, staged)
		got := ""
		if wait != nil {
			got = wait.Reason + ": " + wait.Message
			check.That(t, !wait.KeepsQueue, "the rest of the Queue is not written")
		}
		check.Equal(t, "wait", tc.wait, got)
	}
}

// volcanoAllows is what Volcano's webhook checks when one Queue of a tree changes, written from
// its rules: no child has more than its parent's limit, and no children together more than its
// deserved or guarantee, or its limit where it has none of them.
func volcanoAllows(queues map[string]*v1beta1.Queue, changed string) error {
	get := func(list corev1.ResourceList, name corev1.ResourceName) int64 { q := list[name]; return q.MilliValue() }
	for name, parent := range queues {
		if name != changed && queues[changed].Spec.Parent != name {
			continue
		}
		for _, resource := range []corev1.ResourceName{"cpu", "memory"} {
			var deserved, guarantee int64
			children := 0
			for child, q := range queues {
				if q.Spec.Parent != name {
					continue
				}
				children++
				if get(q.Spec.Capability, resource) > get(parent.Spec.Capability, resource) {
					return fmt.Errorf("%s: limit of child %s is above that of %s", resource, child, name)
				}
				deserved, guarantee = deserved+get(q.Spec.Deserved, resource), guarantee+get(q.Spec.Guarantee.Resource, resource)
			}
			for what, sum := range map[string]int64{"deserved": deserved, "guarantee": guarantee} {
				list := parent.Spec.Deserved
				if what == "guarantee" {
					list = parent.Spec.Guarantee.Resource
				}
				if len(list) == 0 {
					if list = parent.Spec.Capability; len(list) == 0 {
						continue
					}
				}
				if children > 0 && sum > get(list, resource) {
					return fmt.Errorf("%s: %s of the children is above that of %s", resource, what, name)
				}
			}
		}
	}
	q := queues[changed].Spec
	for _, resource := range []corev1.ResourceName{"cpu", "memory"} {
		if len(q.Capability) > 0 && max(get(q.Deserved, resource), get(q.Guarantee.Resource, resource)) > get(q.Capability, resource) ||
			len(q.Guarantee.Resource) > 0 && get(q.Guarantee.Resource, resource) > get(q.Deserved, resource) {
			return fmt.Errorf("%s of %s: the guarantee, deserved and limit are not in order", resource, changed)
		}
	}
	return nil
}

// drawResources draws CPU and memory of a CardQuota as the API allows them.
func drawResources(t *rapid.T) *v1alpha1.Resources {
	if rapid.IntRange(0, 5).Draw(t, "without resources") == 0 {
		return nil
	}
	out := &v1alpha1.Resources{Deserved: &v1alpha1.ResourceAmounts{}, Guarantee: &v1alpha1.ResourceAmounts{}}
	for _, fields := range [][3]**resource.Quantity{{&out.CPU, &out.Deserved.CPU, &out.Guarantee.CPU}, {&out.Memory, &out.Deserved.Memory, &out.Guarantee.Memory}} {
		most := int64(12)
		for i, field := range fields {
			if i > 0 && rapid.IntRange(0, 3).Draw(t, "unset") == 0 {
				continue
			}
			most = rapid.Int64Range(0, most).Draw(t, "amount")
			*field = resource.NewQuantity(most, resource.DecimalSI)
		}
	}
	return out
}

// TestEveryOrderOfWritesIsAcceptedAndEnds: a tree changes from any numbers to any others, while
// Queues are reconciled in any order. Volcano accepts each write, and in the end every Queue
// has what is in force.
func TestEveryOrderOfWritesIsAcceptedAndEnds(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		names := []string{"a", "b", "c", "d", "e", "f"}[:rapid.IntRange(2, 6).Draw(t, "queues")]
		all := map[string]*v1alpha1.CardQuota{}
		for i, name := range names {
			parent := append([]string{""}, names[:i]...)[rapid.IntRange(0, i).Draw(t, "parent")]
			all[name] = node(name, parent, 8, 4, -1)
		}
		queues := map[string]*v1beta1.Queue{}
		reconcile := func(tree *Tree, name string) *Wait {
			q := all[name]
			parent := q.Spec.Parent
			var family Family
			for other, queue := range queues {
				switch {
				case other == parent:
					family.Parent = queue
				case other != name && parent != "" && queue.Spec.Parent == parent:
					family.Siblings = append(family.Siblings, queue)
				case queue.Spec.Parent == name:
					family.Children = append(family.Children, queue)
				}
			}
			if parent != "" && family.Parent == nil {
				return &Wait{Reason: "no parent yet"}
			}
			place, wait := tree.Placement(q, parent).Stage(q, family)
			next := &v1beta1.Queue{}
			next.Name, next.Spec.Parent = name, parent
			next.Spec.Capability, next.Spec.Deserved, next.Spec.Guarantee.Resource = resourceList(place.Limit), resourceList(place.Deserved), resourceList(place.Guarantee)
			queues[name] = next
			if err := volcanoAllows(queues, name); err != nil {
				t.Fatalf("Volcano refuses %s: %v", name, err)
			}
			return wait
		}
		for range 3 { // from nothing, then from tree to tree
			for _, name := range names {
				all[name].Spec.Resources = drawResources(t)
			}
			tree := treeOf(all)
			for range rapid.IntRange(0, 12).Draw(t, "steps") {
				reconcile(tree, rapid.SampledFrom(names).Draw(t, "reconciled"))
			}
			waits := 1
			for range 4 * len(names) {
				waits = 0
				for _, name := range rapid.Permutation(names).Draw(t, "order") {
					if reconcile(tree, name) != nil {
						waits++
					}
				}
				if waits == 0 {
					break
				}
			}
			check.Must(t, waits == 0, "%d Queues still wait", waits)
			for _, name := range names {
				want := tree.Placement(all[name], all[name].Spec.Parent)
				check.Equal(t, "CPU and memory of "+name, fmt.Sprint(resourceList(want.Limit), resourceList(want.Deserved), resourceList(want.Guarantee)),
					fmt.Sprint(queues[name].Spec.Capability, queues[name].Spec.Deserved, queues[name].Spec.Guarantee.Resource))
			}
		}
	})
}
