package capacitycard

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"volcano.sh/volcano/pkg/scheduler/actions/allocate"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/framework"
	"volcano.sh/volcano/pkg/scheduler/plugins/capacity"

	"cardquota.dev/operator/internal/schedulerconfig"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/session"
)

// mostAllocateTime is the processor time that placing a pod may cost at most, as a part of
// what it costs with Volcano's capacity.
const mostAllocateTime = 1.2

// BenchmarkAllocate compares how much processor time the action allocate takes for a pod with this plugin and with
// Volcano's plugin capacity. The other plugins are those of the shipped configuration. It fails if this plugin takes more
// than 1.2 times as much, in the median. Both place the same 25 gangs of 8 pods with a card each on empty nodes, in turns.
// Each turn of this plugin is compared with the turn of capacity just before it, because other work of the machine slows
// both.
func BenchmarkAllocate(b *testing.B) {
	framework.RegisterPluginBuilder(capacity.PluginName, capacity.New)

	for _, nodes := range []int{1000, 5000} {
		b.Run(fmt.Sprintf("%d-nodes/200-pods", nodes), func(b *testing.B) {
			fleet := session.New(`queue q quota={"A":40000} cpu=1000000`)
			for i := range nodes {
				fleet.Add(fmt.Sprintf("node n%d model=A", i))
			}

			for i := range 25 {
				fleet.Add(fmt.Sprintf("job j%d queue=q min=8 pending=8", i))
			}

			scene := &scene{t: b, m: NewCache()}
			framework.RegisterPluginBuilder(schedulerconfig.CapacityCard, func(a framework.Arguments) framework.Plugin {
				scene.p = buildPlugin(scene.m, a)
				return scene.p
			})

			var ours, theirs []time.Duration
			var ratios []float64
			for i := range min(max(b.N, 5), 7) {
				theirs = append(theirs, timeAllocate(b, fleet, capacity.PluginName))
				ours = append(ours, timeAllocate(b, fleet, schedulerconfig.CapacityCard))
				ratios = append(ratios, float64(ours[i])/float64(theirs[i]))
			}

			b.ReportMetric(0, "ns/op") // the time of both together says nothing
			for name, times := range map[string][]time.Duration{schedulerconfig.CapacityCard: ours, capacity.PluginName: theirs} {
				reportQuantiles(b, name+"-ms", times, 1e6*200)
			}

			reportQuantiles(b, "time-ratio", ratios, 1)
			ratio := quantile(ratios, .5)
			check.That(b, ratio <= mostAllocateTime, "placing a pod takes %.2f of the time that it takes with capacity, at most %.2f is allowed",
				ratio, mostAllocateTime)
		})
	}
}

// timeAllocate places the pods of a fleet in a cache of its own, and returns the processor
// time that this took.
func timeAllocate(b *testing.B, fleet *session.Cluster, plugin string) time.Duration {
	c := *fleet
	c.Cache = nil
	c.Open([][]string{{"priority", "gang", plugin}, {"predicates", "nodeorder", "binpack"}}, nil)
	defer c.Close()

	runtime.GC()
	began := check.ProcessorTime(b)
	c.Run(allocate.New())
	took := check.ProcessorTime(b) - began
	check.Equal(b, "pods that are placed with "+plugin, 200, len(c.In(api.Binding))) // 25 gangs of 8
	return took
}
