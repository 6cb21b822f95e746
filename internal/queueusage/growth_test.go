package queueusage

import (
	"fmt"
	"runtime"
	"testing"

	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
)

// expectLinearGrowth expects that twice as many queues need about twice the memory. Work that is
// quadratic in queues needs four times as much. Memory is measured because it does not depend on
// how busy the machine is.
func expectLinearGrowth(t *testing.T, queues int, prepare func(queues int) (work func())) {
	measure := func(queues int) uint64 {
		work := prepare(queues)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		work()
		runtime.ReadMemStats(&after)
		return after.TotalAlloc - before.TotalAlloc
	}

	once := measure(queues)
	twice := measure(2 * queues)
	check.That(t, twice < 3*once, "%d queues need %d KiB, %d need %d KiB", queues, once>>10, 2*queues, twice>>10)
}

// newExhaustedTree returns queues below the queue top, whose quota is exhausted. In each queue
// some pods run and some wait for top.
func newExhaustedTree(queues, running, waiting int) Input {
	input := Input{Inventory: newInventory(), Nodes: newNodes(), LocalQueues: map[string]bool{}}
	parents := map[string]string{}
	for i := range queues {
		queue := fmt.Sprint("q", i)
		parents[queue] = "top"
		input.LocalQueues[queue] = true

		message := fmt.Sprintf("Queue <top>, an ancestor of <%s>, has insufficient <NVIDIA-H200> quota: requested <1>, total "+
			"would be <9>, but capability is <8>", queue)
		for j := range running + waiting {
			pod := builder.Pod("lab", fmt.Sprint(queue, "-", j)).Queue(queue).Card("NVIDIA-H200").GPUs(1).
				Owner("batch.volcano.sh/v1alpha1", "Job", fmt.Sprint(queue, "-", j))
			if j < running {
				input.Pods = append(input.Pods, pod.Running("h200").Obj())
			} else {
				input.Pods = append(input.Pods, pod.Unschedulable(message).Obj())
			}
		}
	}

	input.Tree = treeOfParents(parents)
	return input
}

// TestCountingExhaustedParentsGrowsWithTheQueues: in each of 300 queues, and then of 600, 3 pods run and 1 waits for
// the quota of the parent top. Each waiting pod names the 3 holders of most cards, which are the same for all queues.
// The operator finds them once, so twice as many queues need less than three times the memory.
func TestCountingExhaustedParentsGrowsWithTheQueues(t *testing.T) {
	expectLinearGrowth(t, 300, func(queues int) func() {
		input := newExhaustedTree(queues, 3, 1)
		return func() {
			for queue, usage := range Count(input) {
				check.Must(t, len(usage.Blocked[0].Holders) == 3 && len(usage.Local["lab"].Blocked[0].Holders) == 3, "%s names %v",
					queue, usage.Blocked[0].Holders)
			}
		}
	})
}

// BenchmarkCountExhaustedAncestor counts 50,000 pods of 1,000 queues below one whose quota is
// exhausted. Ten in each queue wait for it.
func BenchmarkCountExhaustedAncestor(b *testing.B) {
	input := newExhaustedTree(1_000, 40, 10)
	_, input.LastCharges = CountWithCharges(input)
	b.ReportAllocs()
	for b.Loop() {
		Count(input)
	}
}
