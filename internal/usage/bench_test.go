package usage

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
)

// BenchmarkRecount counts 10,000 pods of 200 queues, a tenth of them waiting,
// in gangs of 8. The operator counts at most once a second; 20 ms are 2% of a
// core. Measured on a shared 2-core machine: 10 ms of CPU, 23 to 30 ms of wall
// clock while it was busy otherwise.
func BenchmarkRecount(b *testing.B) {
	nodes := []string{"h200", "h800", "4090", "4090d"}
	world := World{Inventory: fleet()}
	for i := range 10_000 {
		pod := makePod(fmt.Sprint("p", i)).group(fmt.Sprint("g", i/8)).asks("", 1).
			requests(corev1.ResourceCPU, resource.MustParse("8")).requests(corev1.ResourceMemory, resource.MustParse("64Gi"))
		if i%10 == 0 {
			pod.unschedulable("full")
		} else {
			pod.on(nodes[i%4])
		}
		world.Pods = append(world.Pods, pod.obj())
		if i%8 == 0 {
			world.PodGroups = append(world.PodGroups, makeGroup(fmt.Sprint("g", i/8), fmt.Sprint("q", i%200)).phase(v1beta1.PodGroupRunning).obj())
		}
	}
	_, world.Last = Recount(world)
	b.ReportAllocs()
	for b.Loop() {
		if len(Count(world)) == 0 {
			b.Fatal("nothing was counted")
		}
	}
}
