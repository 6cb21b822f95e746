package differential

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"pgregory.net/rapid"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/testing/seed"
	"cardquota.dev/operator/internal/workload"
	"cardquota.dev/operator/test/observer/rule"
)

// drawCompute draws amounts of CPU and memory, some of them beyond any cluster.
func drawCompute(t *rapid.T, what string) corev1.ResourceList {
	var list corev1.ResourceList
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		if drawInt(t, 0, 2, fmt.Sprint("whether ", what, name)) == 0 {
			continue
		}
		if list == nil {
			list = corev1.ResourceList{}
		}
		list[name] = resource.MustParse(oneOf(t, fmt.Sprint(what, name), "0", "1", "2", "3", "5", "8", "1500m", "7Pi", "9E"))
	}
	return list
}

// TestBothResolveCPUAndMemoryOfATreeAlike compares the amounts in force, with and without card.quota.
func TestBothResolveCPUAndMemoryOfATreeAlike(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		written := map[string]quota.TreeQueue{}
		objects := map[string]*v1beta1.Queue{}
		for name, q := range drawTree(t, true) {
			objects[name] = q.ours
		}

		for _, name := range slices.Sorted(maps.Keys(objects)) {
			queue := objects[name]
			if drawInt(t, 0, 3, "unmanaged") == 0 {
				delete(queue.Annotations, v1alpha1.AnnotationCardQuota)
			}

			queue.Spec.Capability = drawCompute(t, "capability")
			queue.Spec.Deserved = drawCompute(t, "deserved")
			queue.Spec.Guarantee.Resource = drawCompute(t, "guarantee")
			rules := workload.QueueRulesFor(queue, v1alpha1.UnmanagedEnforce, nil)
			written[name] = rules.Tree
		}
		theirs := quota.ResolveTree(written)

		ours := rule.NewTree(objects, rule.UnmanagedEnforce)
		for _, name := range slices.Sorted(maps.Keys(objects)) {
			limits := theirs[name].Limits
			q := ours.Queue(name)
			if len(q.Path) == 0 {
				continue
			}

			check := func(mine string, their card.Name, most int64) {
				deserved, isWritten := limits.Deserved[their]
				if !isWritten {
					deserved = most
				}
				equal(t, "quota "+name+mine, most, q.QuotaOf(mine))
				equal(t, "deserved "+name+mine, deserved, q.DeservedOf(mine))
				equal(t, "guarantee "+name+mine, limits.Guarantee[their], q.GuaranteeOf(mine))
			}
			check(rule.CPU, quota.CPUName, limits.MilliCPU)
			check(rule.Memory, quota.MemoryName, limits.Memory)
		}
	})
}
