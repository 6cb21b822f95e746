package deployment

import (
	"context"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"cardquota.dev/operator/test/cluster"
)

// stockConfiguration is the one of Volcano's installer.
const stockConfiguration = `actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
    enablePreemptable: false
  - name: conformance
- plugins:
  - name: overcommit
  - name: drf
    enablePreemptable: false
  - name: predicates
  - name: proportion
  - name: nodeorder
  - name: binpack
`

// StartStockScheduler starts Volcano's own scheduler as its installer does:
// under its own ServiceAccount and without leader election. It knows nothing of
// card quotas.
func (d *Deployment) StartStockScheduler(ctx context.Context) (*cluster.Process, error) {
	kubeconfig, err := d.cluster.KubeconfigFor(ctx, Namespace, "volcano-scheduler")
	if err != nil {
		return nil, err
	}
	configuration := filepath.Join(d.cluster.Dir(), "stock-scheduler.conf")
	if err := os.WriteFile(configuration, []byte(stockConfiguration), 0o600); err != nil {
		return nil, err
	}
	return d.cluster.StartProcess(ctx, cluster.ProcessSpec{
		Name: "stock-scheduler", Path: filepath.Join(d.cluster.BinDir(), "scheduler"),
		Args: []string{
			"--kubeconfig=" + kubeconfig, "--scheduler-conf=" + configuration,
			"--schedule-period=" + d.options.SchedulePeriod.String(), "--leader-elect=false", "--enable-metrics=false", "-v=2",
		},
		Env: []string{"DEBUG_SOCKET_DIR=" + filepath.Join(d.cluster.Dir(), "sockets")},
	})
}

// StockPod is the pod that the installer's Deployment has for Volcano's own
// scheduler, as far as others see it: the scheduler itself is a process here.
// Deleted, it takes its time to end.
func StockPod(name, node string) *corev1.Pod {
	grace := int64(10)
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: Namespace, Name: name, Labels: map[string]string{"app": "volcano-scheduler"},
			Annotations: map[string]string{"test.cardquota.dev/delete-after": "5s"},
		},
		Spec: corev1.PodSpec{
			NodeName: node, TerminationGracePeriodSeconds: &grace,
			Containers: []corev1.Container{{Name: "volcano-scheduler", Image: "registry.example/vc-scheduler"}},
		},
	}
}
