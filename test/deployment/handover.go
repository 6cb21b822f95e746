package deployment

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/test/cluster"
)

// StartStockScheduler starts Volcano's own scheduler as its installer does. It knows
// nothing of card quotas.
func (d *Deployment) StartStockScheduler(ctx context.Context) (*cluster.Process, error) {
	return d.cluster.StartStockScheduler(ctx, cluster.StockConfiguration,
		"--schedule-period="+d.options.SchedulePeriod.String(), "--enable-metrics=false", "-v=2")
}

// StockPod is the pod that the installer's Deployment has for Volcano's own
// scheduler, as far as others see it: the scheduler itself is a process here.
// Deleted, it takes its time to end.
func StockPod(name, node string) *corev1.Pod {
	return builder.Pod(Namespace, name).Scheduler("").Node(node).GracePeriod(10).
		Label("app", "volcano-scheduler").Annotation("test.cardquota.dev/delete-after", "5s").Obj()
}
