package queueusage

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	batch "volcano.sh/apis/pkg/apis/batch/v1alpha1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
)

// TestBlockedVCJobWithoutPods: Volcano creates no pods for a job that has no quota, so the PodGroup must say what the
// job waits for. Its minResources has no card name, and is empty if the job states limits only. So the operator takes
// card and count from the message of the scheduler: 8 H200.
func TestBlockedVCJobWithoutPods(t *testing.T) {
	const message = "Queue <q> has insufficient <NVIDIA-H200> quota: requested <8>, total would be <8>, but capability is <3>"
	for t, minimum := range check.Cases(t, map[string]*corev1.ResourceList{
		"the job states limits only: minResources is empty":                      {},
		"the job names its card in a template: minResources has only the number": {builder.GPU: resource.MustParse("8")},
	}) {
		group := builder.PodGroup("lab", "train-u").Queue("q").Phase(v1beta1.PodGroupPending).Unschedulable(message).Obj()
		group.Spec.MinResources = minimum
		group.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(&metav1.ObjectMeta{
			Name: "train",
			UID:  "u",
		}, batch.SchemeGroupVersion.WithKind("Job"))}
		usage := Count(Input{
			PodGroups: []*v1beta1.PodGroup{group},
			Inventory: newInventory(),
			Nodes:     newNodes(),
			Quotas:    map[string]card.Quota{"q": {"NVIDIA-H200": 3}},
		})["q"]
		check.Equal(t, "pending", map[card.Name]card.Count{"NVIDIA-H200": 8}, usage.Pending)
		check.Must(t, len(usage.Blocked) == 1, "blocked are %+v", usage.Blocked)

		blocked := usage.Blocked[0]
		check.Equal(t, "cards", "NVIDIA-H200", blocked.Card)
		check.Equal(t, "count", int64(8), blocked.Count)
		check.Equal(t, "reason", v1alpha1.BlockedQuotaExhausted, blocked.Reason)
	}
}
