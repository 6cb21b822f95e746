package usage

import (
	"cmp"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/internal/account"
)

// TestWhoPaysAgreesWithAPlainReading: a pod that somebody let in, or that was
// charged before, stays where it was; what is its own word alone needs a queue that
// takes its namespace.
func TestWhoPaysAgreesWithAPlainReading(t *testing.T) {
	queues := rapid.SampledFrom([]string{"", "open", "lab's"})
	admits := func(queue, namespace string) bool { return queue != "lab's" || namespace == "lab" }
	rapid.Check(t, func(t *rapid.T) {
		b := makePod("a").queue(queues.Draw(t, "written")).bound(queues.Draw(t, "record")).asks("", 1).on("h200")
		b.Namespace = rapid.SampledFrom([]string{"lab", "stranger"}).Draw(t, "namespace")
		b.Spec.SchedulerName = rapid.SampledFrom([]string{"volcano", "default-scheduler"}).Draw(t, "scheduler")
		world := World{Inventory: fleet(), Schedulers: []string{"volcano"}, Admits: admits, Last: map[types.UID]account.Charge{}}
		of := queues.Draw(t, "PodGroup")
		if of != "" {
			group := makeGroup("g", of).phase(v1beta1.PodGroupCompleted).obj()
			group.Namespace = b.Namespace
			world.PodGroups = append(world.PodGroups, group)
			b.group("g")
		}
		last := queues.Draw(t, "charged last")
		if last != "" {
			world.Last[b.UID] = account.Charge{Queue: last}
		}
		world.Pods = []*corev1.Pod{b.obj()}
		ours, record := b.Spec.SchedulerName == "volcano", b.Annotations["cardquota.dev/charged-queue"]
		want, settled := cmp.Or(last, record, of, b.Annotations["scheduling.volcano.sh/queue-name"]), last != "" || ours && cmp.Or(record, of) != ""
		if !settled && !admits(want, b.Namespace) {
			want = ""
		}
		queues, charges := Recount(world)
		if got := charges[b.UID].Queue; got != want {
			t.Fatalf("charged to %q, want %q", got, want)
		}
		for name, queue := range queues {
			if pays := name == want; pays != (queue.Used["NVIDIA-H200"] == 1) || pays != (queue.Members == 1) {
				t.Fatalf("queue %q uses %v and has %d members, %q pays", name, queue.Used, queue.Members, want)
			}
		}
	})
}
