package cluster

import (
	"context"
	"fmt"
)

// startKubeScheduler starts Kubernetes' own scheduler.
func (c *Cluster) startKubeScheduler(ctx context.Context) error {
	client, err := c.ca.client("kube-scheduler", "system:kube-scheduler")
	if err != nil {
		return err
	}
	kubeconfig, err := c.writeKubeconfig("kube-scheduler.kubeconfig", clientCertificate(client))
	if err != nil {
		return err
	}
	_, err = c.startReady(ctx, 1, func(ports []int) (ProcessSpec, probe, error) {
		return ProcessSpec{
			Name: "kube-scheduler",
			Path: c.binary("kube-scheduler"),
			Args: []string{
				"--kubeconfig=" + kubeconfig, "--authentication-kubeconfig=" + kubeconfig, "--authorization-kubeconfig=" + kubeconfig,
				"--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", ports[0]),
				"--leader-elect=false", "--kube-api-qps=500", "--kube-api-burst=1000", "-v=1",
			},
		}, answers(fmt.Sprintf("https://127.0.0.1:%d/healthz", ports[0])), nil
	})
	return err
}
