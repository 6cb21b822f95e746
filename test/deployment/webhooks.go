package deployment

import (
	"context"
	"fmt"
	"path/filepath"

	"cardquota.dev/operator/test/cluster"
)

// RegisterWebhooks registers the shipped webhooks and directs their Service to a port of this machine.
func RegisterWebhooks(ctx context.Context, c *cluster.Cluster, port int) error {
	root, err := cluster.ModuleRoot()
	if err != nil {
		return err
	}
	for _, file := range []string{"service.yaml", "manifests.yaml"} {
		if err := c.ApplyFile(ctx, filepath.Join(root, "config", "webhook", file)); err != nil {
			return err
		}
	}
	return c.ExposeService(ctx, Namespace, "cardquota-webhook", port)
}

// StartAsShipped installs and starts both programs as a user has them: with the webhooks of the operator,
// and with its leader election, by whose Lease kubectl cardquota finds it.
func StartAsShipped(ctx context.Context, c *cluster.Cluster, o Options) (*Deployment, error) {
	port, err := cluster.FreePort()
	if err != nil {
		return nil, err
	}

	o.ManagerArgs = append([]string{"--leader-elect=true", fmt.Sprintf("--webhook-port=%d", port), "--webhook-certificates=Self"}, o.ManagerArgs...)
	d, err := Install(ctx, c, o)
	if err != nil {
		return nil, err
	}
	if err := RegisterWebhooks(ctx, c, port); err != nil {
		return nil, err
	}
	if err := d.StartManager(ctx); err != nil {
		return nil, err
	}

	return d, d.StartScheduler(ctx)
}
