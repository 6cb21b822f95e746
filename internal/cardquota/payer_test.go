package cardquota

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

// TestChargedQueueAgreesWithASimpleModel: a pod that a webhook admitted, or that was
// charged before, stays charged to its queue. An annotation of the pod alone needs a queue that
// takes its namespace.
func TestChargedQueueAgreesWithASimpleModel(t *testing.T) {
	queues := rapid.SampledFrom([]string{"", "open", "lab's"})
	admits := func(queue, namespace string) bool { return queue != "lab's" || namespace == "lab" }
	seed.Check(t, func(t *rapid.T) {
		namespace := rapid.SampledFrom([]string{"lab", "stranger"}).Draw(t, "namespace")
		scheduler := rapid.SampledFrom([]string{"volcano", "default-scheduler"}).Draw(t, "scheduler")
		written := queues.Draw(t, "written")
		record := queues.Draw(t, "record")
		b := builder.Pod(namespace, "a").Annotation("scheduling.volcano.sh/queue-name", written).Annotation("cardquota.dev/charged-queue", record).
			Scheduler(scheduler).GPUs(1).Running("h200")

		scene := CountInput{Inventory: fleet(), Schedulers: []string{"volcano"}, AllowsNamespace: admits, LastCharges: map[types.UID]quota.Charge{}}
		of := queues.Draw(t, "PodGroup")
		if of != "" {
			scene.PodGroups = []*v1beta1.PodGroup{builder.PodGroup(namespace, "g").Queue(of).Phase(v1beta1.PodGroupCompleted).Obj()}
			b.PodGroup("g")
		}

		last := queues.Draw(t, "charged last")
		if last != "" {
			scene.LastCharges[b.Obj().UID] = quota.Charge{Queue: last}
		}

		scene.Pods = []*corev1.Pod{b.Obj()}
		want := cmp.Or(last, record, of, written)

		settled := last != "" || (scheduler == "volcano" && cmp.Or(record, of) != "")
		if !settled && !admits(want, namespace) {
			want = ""
		}

		queues, charges := CountUsageAndCharges(scene)
		check.Equal(t, "charged to", want, charges[b.Obj().UID].Queue)

		_, counted := queues[want]
		check.Must(t, counted || want == "", "queue %q pays and is not counted", want)
		for name, queue := range queues {
			pays := name == want
			check.Must(t, pays == (queue.Used["NVIDIA-H200"] == 1) && pays == (queue.Members == Members{Pods: 1}),
				"queue %q uses %v and has %s, %q pays", name, queue.Used, queue.Members, want)
		}
	})
}
