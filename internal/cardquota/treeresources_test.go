package cardquota

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	"pgregory.net/rapid"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/seed"
	"cardquota.dev/operator/internal/workload"
)

// liveQueueWithCPU is a live Queue with a limit, deserved and guarantee of CPU.
func liveQueueWithCPU(name string, limit, deserved, guarantee int64) *v1beta1.Queue {
	queue := &v1beta1.Queue{}
	queue.Name = name
	cpu := func(n int64) corev1.ResourceList {
		return corev1.ResourceList{"cpu": *resource.NewQuantity(n, resource.DecimalSI)}
	}
	queue.Spec.Capability = cpu(limit)
	queue.Spec.Deserved = cpu(deserved)
	queue.Spec.Guarantee.Resource = cpu(guarantee)
	return queue
}

// TestAQueueGetsAsMuchAsItsNeighborsAllow: Volcano's webhook refuses a child queue with more CPU or memory than its
// parent, and a parent with less than its children. So the operator writes as much as the Queues around allow now,
// and says what the rest waits for. Queue chat is a child of web. Three numbers are limit, deserved and guarantee of
// CPU: chat wants 8, 4 and 2, or 4, 4 and 1.
func TestAQueueGetsAsMuchAsItsNeighborsAllow(t *testing.T) {
	// placement is a Placement of CPU below web.
	placement := func(limit, deserved, guarantee int64) Placement {
		of := func(n int64) quota.Amounts { return quota.Amounts{quota.CPU: 1000 * n} }
		return Placement{Parent: "web", Limit: of(limit), Deserved: of(deserved), Guarantee: of(guarantee)}
	}

	for t, tc := range check.Cases(t, map[string]struct {
		wanted     Placement
		family     Family
		wantStaged Placement
		wantWait   *Wait
	}{
		"no parent: nothing bounds the Queue": {
			wanted:     placement(8, 4, 2),
			wantStaged: placement(8, 4, 2),
		},
		"the parent has 8, 8 and 2: all fits": {
			wanted:     placement(8, 4, 2),
			family:     Family{Parent: liveQueueWithCPU("web", 8, 8, 2)},
			wantStaged: placement(8, 4, 2),
		},
		"the parent has 6, 3 and 1: the rest waits until it is raised": {
			wanted:     placement(8, 4, 2),
			family:     Family{Parent: liveQueueWithCPU("web", 6, 3, 1)},
			wantStaged: placement(6, 3, 1),
			wantWait: &Wait{
				Reason: "WaitingForParent",
				Message: "queue chat has limit 6 CPU of 8 CPU, deserved 3 CPU of 4 CPU, guarantee 1 CPU of 2 CPU " +
					"until its parent queue web, or the other children of it, leave room: Volcano refuses children that have more " +
					"than their parent",
			},
		},
		"the parent has 8, 8 and 2; siblings deserve 5 + 1 and have guarantees of 1 + 0: 2 and 1 are left": {
			wanted: placement(8, 4, 2),
			family: Family{
				Parent:   liveQueueWithCPU("web", 8, 8, 2),
				Siblings: []*v1beta1.Queue{liveQueueWithCPU("b", 8, 5, 1), liveQueueWithCPU("c", 8, 1, 0)},
			},
			wantStaged: placement(8, 2, 1),
			wantWait: &Wait{
				Reason: "WaitingForParent",
				Message: "queue chat has deserved 2 CPU of 4 CPU, guarantee 1 CPU of 2 CPU until its parent queue " +
					"web, or the other children of it, leave room: Volcano refuses children that have more than their parent",
			},
		},
		"the children have 6, 3, 2 and 2, 2, 1: chat keeps their largest limit, and the sums of the others": {
			wanted:     placement(4, 4, 1),
			family:     Family{Children: []*v1beta1.Queue{liveQueueWithCPU("b", 6, 3, 2), liveQueueWithCPU("a", 2, 2, 1)}},
			wantStaged: placement(6, 5, 3),
			wantWait: &Wait{
				Reason: "WaitingForChildren",
				Message: "queue chat has limit 6 CPU of 4 CPU, deserved 5 CPU of 4 CPU, guarantee 3 CPU of 1 CPU " +
					"until its child queues a, b are lowered: Volcano refuses children that have more than their parent",
			},
		},
	}) {
		staged, wait := tc.wanted.Stage(builder.CardQuota("chat").Obj(), tc.family)
		check.Equal(t, "staged", tc.wantStaged, staged)
		check.Equal(t, "wait", tc.wantWait, wait)
	}
}

// TestAGuaranteeThatFitsNeitherParentNorChildrenIsNotWritten: Volcano compares the guarantee of a child with the
// limit of its parent, if the parent has no guarantee at all. So in the chain a > b > c, Queue c may get a guarantee
// of 2 before a and b have one. Then a guarantee of b is refused: with less than 2 by c, with more than 0 by a. The
// operator writes none until a has 2.
func TestAGuaranteeThatFitsNeitherParentNorChildrenIsNotWritten(t *testing.T) {
	without := liveQueueWithCPU("b", 8, 4, 0)
	without.Spec.Guarantee.Resource = nil
	live := map[string]*v1beta1.Queue{"a": liveQueueWithCPU("a", 8, 4, 0), "b": without, "c": liveQueueWithCPU("c", 8, 4, 2)}
	live["b"].Spec.Parent = "a"
	live["c"].Spec.Parent = "b"
	check.NoError(t, volcanoAllows(live, "c")) // Volcano accepts the guarantee of c, so the scene is possible

	cpu := func(n int64) quota.Amounts { return quota.Amounts{quota.CPU: 1000 * n} }
	want := Placement{Parent: "a", Limit: cpu(8), Deserved: cpu(4), Guarantee: cpu(2)}
	staged, wait := want.Stage(newTreeQuota("b", "a", 8, 4, 2), Family{Parent: live["a"], Children: []*v1beta1.Queue{live["c"]}})
	check.Equal(t, "staged", Placement{Parent: "a", Limit: cpu(8), Deserved: cpu(4), Guarantee: quota.Amounts{}}, staged)
	check.Must(t, wait != nil, "the Queue waits for nothing")
	check.Equal(t, "reason", v1alpha1.ReasonWaitingForParent, wait.Reason)
	check.Contains(t, "message", wait.Message, "queue b has no guarantee of 2 CPU until its parent queue a")

	live["a"] = liveQueueWithCPU("a", 8, 4, 2)
	staged, wait = want.Stage(newTreeQuota("b", "a", 8, 4, 2), Family{Parent: live["a"], Children: []*v1beta1.Queue{live["c"]}})
	check.That(t, wait == nil, "the Queue still waits: %+v", wait)
	check.Equal(t, "staged once the parent has a guarantee of 2", want, staged)
}

// cpuAndMemory are the resources that Volcano's webhook compares here.
var cpuAndMemory = []corev1.ResourceName{"cpu", "memory"}

func amountOf(list corev1.ResourceList, name corev1.ResourceName) int64 {
	q := list[name]
	if name == corev1.ResourceMemory {
		return q.Value()
	}
	return q.MilliValue()
}

// queueAt is the Queue that carries a placement, as the scheduler reads it: open, and without cards.
func queueAt(name string, place Placement) *v1beta1.Queue {
	queue := builder.Queue(name).Quota("{}").Parent(place.Parent).Obj()
	queue.Spec.Capability = resourceList(place.Limit)
	queue.Spec.Deserved = resourceList(place.Deserved)
	queue.Spec.Guarantee.Resource = resourceList(place.Guarantee)
	maps.Copy(queue.Annotations, unlimitedAnnotation(&v1alpha1.CardQuota{}, place))
	return queue
}

// volcanoAllows is what Volcano's webhook checks when one Queue of a tree changes, written from
// its rules.
func volcanoAllows(queues map[string]*v1beta1.Queue, changed string) error {
	for name, parent := range queues {
		if name != changed && queues[changed].Spec.Parent != name {
			continue
		}
		for _, resource := range cpuAndMemory {
			if err := coversChildren(queues, parent, name, resource); err != nil {
				return err
			}
		}
	}

	q := queues[changed].Spec
	for _, resource := range cpuAndMemory {
		limit := amountOf(q.Capability, resource)
		deserved := amountOf(q.Deserved, resource)
		guarantee := amountOf(q.Guarantee.Resource, resource)
		if (len(q.Capability) > 0 && max(deserved, guarantee) > limit) || (len(q.Guarantee.Resource) > 0 && guarantee > deserved) {
			return fmt.Errorf("%s of %s: the guarantee, deserved and limit are not in order", resource, changed)
		}
	}

	return nil
}

// coversChildren refuses a child with more than its parent's limit. It refuses children that together have more than
// the parent's deserved or guarantee. Where the parent has none of these, its limit counts.
func coversChildren(queues map[string]*v1beta1.Queue, parent *v1beta1.Queue, name string, resource corev1.ResourceName) error {
	sums := map[string]int64{}
	for child, q := range queues {
		if q.Spec.Parent != name {
			continue
		}
		if amountOf(q.Spec.Capability, resource) > amountOf(parent.Spec.Capability, resource) {
			return fmt.Errorf("%s: limit of child %s is above that of %s", resource, child, name)
		}
		sums["deserved"] += amountOf(q.Spec.Deserved, resource)
		sums["guarantee"] += amountOf(q.Spec.Guarantee.Resource, resource)
	}

	own := map[string]corev1.ResourceList{"deserved": parent.Spec.Deserved, "guarantee": parent.Spec.Guarantee.Resource}
	for what, sum := range sums {
		list := own[what]
		if len(list) == 0 {
			list = parent.Spec.Capability
		}
		if len(list) > 0 && sum > amountOf(list, resource) {
			return fmt.Errorf("%s: %s of the children is above that of %s", resource, what, name)
		}
	}

	return nil
}

// drawResources draws CPU and memory of a CardQuota as the API allows them. A limit that is not set is that of the
// parent. Volcano compares what is deserved with the limits of the Queue if it has any, so then only CPU or memory with
// a limit may have amounts. granted says of which the CardQuotas write such amounts.
func drawResources(t *rapid.T, granted [2]bool) *v1alpha1.Resources {
	if rapid.IntRange(0, 5).Draw(t, "without resources") == 0 {
		return nil
	}

	out := &v1alpha1.Resources{Deserved: &v1alpha1.ResourceAmounts{}, Guarantee: &v1alpha1.ResourceAmounts{}}
	isUnset := drawUnset(t, granted)
	for of, fields := range [][3]**resource.Quantity{
		{&out.CPU, &out.Deserved.CPU, &out.Guarantee.CPU},
		{&out.Memory, &out.Deserved.Memory, &out.Guarantee.Memory},
	} {
		most := int64(12)
		for i, field := range fields {
			isLimit := i == limitIndex
			lacksDeserved := i == guaranteeIndex && *fields[deservedIndex] == nil
			if isUnset[of] && (isLimit || !isUnset[1-of] || lacksDeserved) {
				continue
			}

			if !isLimit && (!granted[of] || rapid.IntRange(0, 3).Draw(t, "unset") == 0) {
				continue
			}
			most = rapid.Int64Range(0, most).Draw(t, "amount")
			*field = resource.NewQuantity(most, resource.DecimalSI)
		}
	}

	return out
}

// drawUnset draws whether the limits of CPU and of memory are not set. With amounts of both, both are set.
func drawUnset(t *rapid.T, granted [2]bool) [2]bool {
	if granted[0] && granted[1] {
		return [2]bool{}
	}
	return [2]bool{rapid.IntRange(0, 2).Draw(t, "CPU unset") == 0, rapid.IntRange(0, 2).Draw(t, "memory unset") == 0}
}

// drawGranted draws of which of CPU and memory the CardQuotas of a tree write what they deserve, or a guarantee. With
// both, each CardQuota limits both: a parent that limits memory alone could not let its children deserve CPU.
func drawGranted(t *rapid.T) [2]bool {
	return rapid.SampledFrom([][2]bool{{false, false}, {true, false}, {false, true}, {true, true}}).Draw(t, "granted")
}

// resourceScene is a tree of CardQuotas, and the Queues as they are written so far.
type resourceScene struct {
	all    map[string]*v1alpha1.CardQuota
	queues map[string]*v1beta1.Queue
}

// familyOf returns the Queues around the one of a name and parent.
func (s resourceScene) familyOf(name, parent string) Family {
	var family Family
	for other, queue := range s.queues {
		switch {
		case other == parent:
			family.Parent = queue
		case other != name && parent != "" && queue.Spec.Parent == parent:
			family.Siblings = append(family.Siblings, queue)
		case queue.Spec.Parent == name:
			family.Children = append(family.Children, queue)
		}
	}

	return family
}

// reconcileQueue writes one Queue, and expects that Volcano accepts it. It returns whether nothing is left to do: the Queue
// waits for nothing, and was as it should be.
func (s resourceScene) reconcileQueue(t *rapid.T, tree *Tree, name string) (isDone bool) {
	parent := s.all[name].Spec.Parent
	family := s.familyOf(name, parent)
	if parent != "" && family.Parent == nil {
		return false
	}

	before := s.queues[name]
	place, wait := tree.Placement(s.all[name], parent).Stage(s.all[name], family)
	s.queues[name] = queueAt(name, place)
	err := volcanoAllows(s.queues, name)
	check.Must(t, err == nil, "Volcano refuses %s: %v", name, err)

	return wait == nil && equality.Semantic.DeepEqual(before, s.queues[name])
}

// reconcileAll reconciles all Queues in any order until nothing is left to do, as the operator does after each change of
// a Queue's neighbors. It returns how many Queues are not done after many rounds.
func (s resourceScene) reconcileAll(t *rapid.T, tree *Tree, names []string) int {
	left := 1
	for round := 0; round < 4*len(names) && left > 0; round++ {
		left = 0
		for _, name := range rapid.Permutation(names).Draw(t, "order") {
			if !s.reconcileQueue(t, tree, name) {
				left++
			}
		}
	}
	return left
}

// limitsRead returns the CPU and memory of each queue that the scheduler reads from the Queues as they are written so far,
// at most those of its ancestors.
func (s resourceScene) limitsRead() map[string][2]int64 {
	tree := workload.TreeOf(slices.Collect(maps.Values(s.queues)), v1alpha1.UnmanagedEnforce)
	limits := map[string][2]int64{}
	for name := range s.queues {
		limits[name] = [2]int64{tree.Limit(name, quota.CPU), tree.Limit(name, quota.Memory)}
	}
	return limits
}

// TestEveryOrderOfWritesIsAcceptedAndEnds: a tree of up to six CardQuotas gets random numbers of CPU and memory,
// three times. Some limits are not set: they are those of the parent. In between the operator reconciles the Queues in a
// random order, some of them more often. After each write, reconcile expects that the rules of Volcano's webhook accept it
// (volcanoAllows). In the end no Queue waits, and the scheduler reads from the Queues what is in force. Of CPU and memory
// that no CardQuota of a subtree writes, its Queues carry no limit.
func TestEveryOrderOfWritesIsAcceptedAndEnds(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		scene, names := drawResourceScene(t)
		for range 3 { // from nothing, then from tree to tree
			granted := drawGranted(t)
			for _, name := range names {
				scene.all[name].Spec.Resources = drawResources(t, granted)
			}

			tree := treeOf(scene.all)
			for range rapid.IntRange(0, 12).Draw(t, "steps") {
				scene.reconcileQueue(t, tree, rapid.SampledFrom(names).Draw(t, "reconciled"))
			}

			waits := scene.reconcileAll(t, tree, names)
			check.Must(t, waits == 0, "%d Queues still wait", waits)
			scene.checkCarried(t, tree, names)
		}
	})
}

// TestSiblingsThatDeserveAnyAmountDoNotWait: b and d below a deserve no memory and any CPU, and a child of each limits CPU.
// Volcano lets only one of the siblings write that it deserves any CPU. The other one must not wait for that.
func TestSiblingsThatDeserveAnyAmountDoNotWait(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		scene := resourceScene{map[string]*v1alpha1.CardQuota{}, map[string]*v1beta1.Queue{}}
		names := []string{"a", "b", "c", "d", "e"}
		for name, parent := range map[string]string{"a": "", "b": "a", "c": "b", "d": "a", "e": "d"} {
			scene.all[name] = newTreeQuota(name, parent, 8, 4, unset)
			none := resource.NewQuantity(0, resource.DecimalSI)
			scene.all[name].Spec.Resources = &v1alpha1.Resources{Deserved: &v1alpha1.ResourceAmounts{Memory: none}}
			if name == "c" || name == "e" {
				scene.all[name].Spec.Resources = &v1alpha1.Resources{CPU: none}
			}
		}

		tree := treeOf(scene.all)
		waits := scene.reconcileAll(t, tree, names)
		check.Must(t, waits == 0, "%d Queues still wait", waits)
		scene.checkCarried(t, tree, names)
	})
}

// checkCarried checks that the Queues carry what is in force, and nothing that is neither written nor needed.
func (s resourceScene) checkCarried(t *rapid.T, tree *Tree, names []string) {
	read := s.limitsRead()
	for _, name := range names {
		for i, key := range quota.Compute {
			check.Equal(t, key.Label()+" of "+name, tree.queues.Limit(name, key), read[name][i])
			_, isCarried := s.queues[name].Spec.Capability[cpuAndMemory[i]]
			check.Equal(t, name+" carries "+key.Label(), tree.Resolved(name).WritesCompute[key], isCarried)
		}

		// Of siblings that deserve any amount, only one can write it. The others deserve their limits, which are the same.
		want := tree.Placement(s.all[name], "")
		for i, key := range quota.Compute {
			if _, isWritten := s.queues[name].Spec.Deserved[cpuAndMemory[i]]; want.Deserved[key] == quota.Unlimited && !isWritten {
				delete(want.Deserved, key)
			}
		}
		check.Equal(t, "deserved and guarantee of "+name, fmt.Sprint(resourceList(want.Deserved), resourceList(want.Guarantee)),
			fmt.Sprint(s.queues[name].Spec.Deserved, s.queues[name].Spec.Guarantee.Resource))
	}
}

// drawResourceScene draws a tree of two to six CardQuotas without CPU and memory, and returns their names.
func drawResourceScene(t *rapid.T) (resourceScene, []string) {
	names := []string{"a", "b", "c", "d", "e", "f"}[:rapid.IntRange(2, 6).Draw(t, "queues")]
	scene := resourceScene{map[string]*v1alpha1.CardQuota{}, map[string]*v1beta1.Queue{}}
	for i, name := range names {
		scene.all[name] = newTreeQuota(name, append([]string{""}, names[:i]...)[rapid.IntRange(0, i).Draw(t, "parent")], 8, 4, unset)
	}
	return scene, names
}

// TestNoWriteAllowsMoreThanBeforeAndAfter: the CPU and memory of one CardQuota of a tree change: from a number to unset,
// from unset to a number, or otherwise. Until all Queues are as they should be, no Queue may use more, by what the
// scheduler reads, than before the change or after it.
func TestNoWriteAllowsMoreThanBeforeAndAfter(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		scene, names := drawResourceScene(t)
		granted := drawGranted(t)
		for _, name := range names {
			scene.all[name].Spec.Resources = drawResources(t, granted)
		}
		check.Must(t, scene.reconcileAll(t, treeOf(scene.all), names) == 0, "Queues still wait")

		for range 3 {
			before := scene.limitsRead()
			changed := rapid.SampledFrom(names).Draw(t, "changed")
			scene.all[changed].Spec.Resources = drawResources(t, granted)
			tree := treeOf(scene.all)

			for range 4 * len(names) {
				scene.reconcileQueue(t, tree, rapid.SampledFrom(names).Draw(t, "reconciled"))
				for name, read := range scene.limitsRead() {
					for i, key := range quota.Compute {
						most := max(before[name][i], tree.queues.Limit(name, key))
						check.Must(t, read[i] <= most, "%s: %d %s while %s changes, at most %d before and after", name, read[i], key.Label(), changed, most)
					}
				}
			}

			check.Must(t, scene.reconcileAll(t, tree, names) == 0, "Queues still wait")
		}
	})
}

// TestAQueueCarriesAnInheritedLimitOnlyWhereVolcanoNeedsIt: CardQuota chat writes no limit of CPU, so that of its parent
// web counts: 10, or none. Its Queue carries no number. Volcano needs one where a child has one, or where chat or one
// below it writes an amount (isNeeded). While the Queue is below another parent, only the number keeps it from using
// more there.
func TestAQueueCarriesAnInheritedLimitOnlyWhereVolcanoNeedsIt(t *testing.T) {
	// inherits is the place of chat with a limit in millicores.
	inherits := func(limit int64, isNeeded bool) Placement {
		return Placement{Parent: "web", InheritsFrom: "web", Limit: quota.Amounts{quota.CPU: limit}, Inherits: map[quota.Resource]bool{quota.CPU: isNeeded}}
	}
	carries := func(limit int64) quota.Amounts { return quota.Amounts{quota.CPU: limit} }
	web := queueAt("web", Placement{})
	webWithTen := liveQueueWithCPU("web", 10, 0, 0)

	for t, tc := range check.Cases(t, map[string]struct {
		wanted      Placement
		family      Family
		wantCarried quota.Amounts
		wantWait    string
	}{
		"below web with 10": {
			wanted: inherits(10000, false),
			family: Family{Parent: webWithTen},
		},
		"below web without a limit": {
			wanted: inherits(quota.Unlimited, false),
			family: Family{Parent: web},
		},
		"at the top level, without a parent": {
			wanted: Placement{Parent: "root", Limit: carries(quota.Unlimited), Inherits: map[quota.Resource]bool{quota.CPU: false}},
		},
		"still at the top level, where nothing else limits it to 10": {
			wanted:      inherits(10000, false),
			wantCarried: carries(10000),
		},
		"still below lab, which has 20": {
			wanted:      inherits(10000, false),
			family:      Family{Parent: liveQueueWithCPU("lab", 20, 0, 0)},
			wantCarried: carries(10000),
		},
		"a child has 6": {
			wanted:      inherits(10000, false),
			family:      Family{Parent: webWithTen, Children: []*v1beta1.Queue{liveQueueWithCPU("child", 6, 0, 0)}},
			wantCarried: carries(10000),
		},
		"a child is to have 6": {
			wanted:      inherits(10000, true),
			family:      Family{Parent: webWithTen},
			wantCarried: carries(10000),
		},
		"a child is to have 6, and web has no number yet": {
			wanted:   inherits(quota.Unlimited, true),
			family:   Family{Parent: web},
			wantWait: "queue chat has only the limit of its parent for CPU until its parent queue web, or the other children of it, leave room",
		},
	}) {
		staged, wait := tc.wanted.Stage(builder.CardQuota("chat").Obj(), tc.family)
		check.Equal(t, "CPU that the Queue carries", tc.wantCarried[quota.CPU], staged.Limit[quota.CPU])
		check.Equal(t, "CPU is listed as unlimited", tc.wantCarried == nil, slices.Contains(staged.Unlimited, quota.CPU))
		check.Equal(t, "waits", tc.wantWait != "", wait != nil)
		if wait != nil {
			check.Contains(t, "message", wait.Message, tc.wantWait)
		}
	}
}
