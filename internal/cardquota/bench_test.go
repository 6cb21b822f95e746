package cardquota

import (
	"fmt"
	"testing"

	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/internal/testing/builder"
)

// BenchmarkCountUsage counts 10,000 pods of 200 queues, a tenth of them waiting,
// in gangs of 8. The operator counts at most once a second; 20 ms are 2% of a
// core. Measured on a shared 2-core machine: 10 ms of CPU, 23 to 30 ms of wall
// clock while it was busy otherwise.
func BenchmarkCountUsage(b *testing.B) {
	nodes := []string{"h200", "h800", "4090", "4090d"}
	world := CountInput{Inventory: fleet()}
	for i := range 10_000 {
		pod := builder.Pod("lab", fmt.Sprint("p", i)).PodGroup(fmt.Sprint("g", i/8)).GPUs(1).CPU("8").Memory("64Gi")
		if i%10 == 0 {
			pod.Unschedulable("full")
		} else {
			pod.Running(nodes[i%4])
		}
		world.Pods = append(world.Pods, pod.Obj())
		if i%8 == 0 {
			world.PodGroups = append(world.PodGroups, builder.PodGroup("lab", fmt.Sprint("g", i/8)).Queue(fmt.Sprint("q", i%200)).Phase(v1beta1.PodGroupRunning).Obj())
		}
	}
	_, world.LastCharges = CountUsageAndCharges(world)
	b.ReportAllocs()
	for b.Loop() {
		if len(CountUsage(world)) == 0 {
			b.Fatal("nothing was counted")
		}
	}
}
