package queueusage

import (
	"cmp"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/seed"
)

// TestChargedQueueFollowsTheOrderOfItsSources: a running pod is charged to the queue of its last charge.
// Otherwise that of the record of its binding (annotation charged-queue) counts, then that of its PodGroup,
// then its annotation queue-name. Queue of-lab takes pods of namespace lab only. It is charged for other pods
// if they were charged before, or if our scheduler, volcano, bound them by record or PodGroup. On other pods
// a tenant could write the annotations. If of-lab comes first for one of these, no queue is charged. No other
// queue uses the card or has the pod as a member.
func TestChargedQueueFollowsTheOrderOfItsSources(t *testing.T) {
	queues := rapid.SampledFrom([]string{"", "open", "of-lab"})
	takesNamespace := func(queue, namespace string) bool { return queue != "of-lab" || namespace == "lab" }

	seed.Check(t, func(t *rapid.T) {
		namespace := rapid.SampledFrom([]string{"lab", "stranger"}).Draw(t, "namespace")
		scheduler := rapid.SampledFrom([]string{"volcano", "default-scheduler"}).Draw(t, "scheduler")
		written := queues.Draw(t, "written")
		record := queues.Draw(t, "record")
		b := builder.Pod(namespace, "a").Annotation("scheduling.volcano.sh/queue-name", written).
			Annotation("cardquota.dev/charged-queue", record).
			Scheduler(scheduler).GPUs(1).Running("h200")

		scene := Input{
			Inventory:       newInventory(),
			Schedulers:      []string{"volcano"},
			AllowsNamespace: takesNamespace,
			LastCharges:     map[types.UID]quota.Charge{},
		}
		ofGroup := queues.Draw(t, "PodGroup")
		if ofGroup != "" {
			// A completed PodGroup is no member of its queue, so that the pod is the only one.
			scene.PodGroups = []*v1beta1.PodGroup{builder.PodGroup(namespace, "g").Queue(ofGroup).Phase(v1beta1.PodGroupCompleted).Obj()}
			b.PodGroup("g")
		}

		last := queues.Draw(t, "charged last")
		if last != "" {
			scene.LastCharges[b.Obj().UID] = quota.Charge{Queue: last}
		}

		scene.Pods = []*corev1.Pod{b.Obj()}
		want := cmp.Or(last, record, ofGroup, written)

		isProven := last != "" || (scheduler == "volcano" && cmp.Or(record, ofGroup) != "")
		if !isProven && !takesNamespace(want, namespace) {
			want = ""
		}

		usages, charges := CountWithCharges(scene)
		check.Equal(t, "charged to", want, charges[b.Obj().UID].Queue)

		_, counted := usages[want]
		check.Must(t, counted || want == "", "queue %q is charged and not counted", want)
		for name, queue := range usages {
			isCharged := name == want
			check.Equal(t, name+": uses the card", isCharged, queue.Used["NVIDIA-H200"] == 1)
			check.Equal(t, name+": has the pod as a member", isCharged, queue.Members == Members{Pods: 1})
		}
	})
}
