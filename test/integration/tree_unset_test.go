package integration

import (
	"fmt"
	"testing"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/test/framework"
)

// testUnsetLimits: in a tree of three levels no CardQuota limits CPU and memory, so no Queue carries a limit. When the
// leaf limits CPU to 4, Volcano's webhook wants a number above it: the largest that there is. When the top limits CPU to
// 10, the Queue between has that number. When the leaf has no limit any more, only the top carries one.
func testUnsetLimits(t *testing.T, e *treeEnv) {
	const none = "9223372036854775807m"
	names := []string{"unset-top", "unset-mid", "unset-leaf"}
	parent := ""
	for i, name := range names {
		quota := builder.CardQuota(name).Parent(parent).Card("NVIDIA-H200", 4).Deserves(4).Selects("team", "none")
		if i < len(names)-1 {
			quota = quota.ServiceType("")
		}
		e.CreateWithCleanup(t, quota.Obj())
		parent = name
	}

	limitCPU := func(name, cpu string) {
		e.change(t, name, func(q *v1alpha1.CardQuota) {
			q.Spec.Resources = nil
			if cpu != "" {
				q.Spec.Resources = &v1alpha1.Resources{CPU: parseQuantity(cpu)}
			}
		})
	}

	expect := func(wanted ...string) {
		for i, name := range names {
			e.g.Eventually(framework.Read(t.Context(), e, client.ObjectKey{Name: name}, describeLimits)).Should(gomega.Equal(wanted[i]), name)
			e.g.Eventually(e.Condition(t, builder.CardQuota(name).Obj(), "QueueSynced")).Should(gomega.HavePrefix("True/"), name)
		}
	}

	expect("none, unlimited cpu,memory", "none, unlimited cpu,memory", "none, unlimited cpu,memory")
	limitCPU("unset-leaf", "4")
	expect(none+", unlimited memory", none+", unlimited memory", "4, unlimited memory")
	limitCPU("unset-top", "10")
	expect("10, unlimited memory", "10, unlimited memory", "4, unlimited memory")
	limitCPU("unset-leaf", "")
	expect("10, unlimited memory", "none, unlimited cpu,memory", "none, unlimited cpu,memory")
}

// describeLimits returns the CPU that a Queue carries, and what it lists as unlimited.
func describeLimits(queue *v1beta1.Queue) string {
	cpu := "none"
	if limit, isLimited := queue.Spec.Capability[corev1.ResourceCPU]; isLimited {
		cpu = limit.String()
	}
	return fmt.Sprintf("%s, unlimited %s", cpu, queue.Annotations[v1alpha1.AnnotationUnlimitedResources])
}
