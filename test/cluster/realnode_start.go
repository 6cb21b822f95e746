package cluster

import (
	"context"
	"embed"
	"fmt"
	"os/exec"
	"path/filepath"

	"golang.org/x/sync/errgroup"
)

//go:embed realnode
var nodeFiles embed.FS

const (
	containerdSocket = "/run/containerd/containerd.sock"
	pauseImage       = "localhost/pause:local"
)

// startRealNode starts the node and returns when it is Ready and offers its cards.
func (c *Cluster) startRealNode(ctx context.Context) error {
	n := c.realNode
	err := c.startNamespaces(ctx, n)
	if err == nil {
		err = c.startContainerd(ctx, n)
	}
	if err == nil {
		group, ctx := errgroup.WithContext(ctx)
		group.Go(func() error { return c.startKubelet(ctx, n) })
		group.Go(func() error { return c.startKubeProxy(ctx, n) })
		err = group.Wait()
	}
	if err != nil {
		return fmt.Errorf("real node: %w", err)
	}
	return nil
}

func (c *Cluster) startContainerd(ctx context.Context, n *realNode) error {
	values := map[string]any{"Dir": n.dir, "Socket": containerdSocket, "Pause": pauseImage, "CNI": cniFolder(), "Pods": n.slot.podCIDR()}
	config, err := n.renderTemplate("containerd.toml", values)
	if err != nil {
		return err
	}
	if _, err := n.renderTemplate("cni/10-cardquota.conflist", values); err != nil {
		return err
	}
	containerd, err := exec.LookPath("containerd")
	if err != nil {
		return err
	}
	if err := c.startInNode(ctx, n, ProcessSpec{
		Name: "containerd", Path: containerd, Args: []string{"--config=" + config},
		Ready: func(ctx context.Context) error { return c.runCtr(ctx, "version") },
	}); err != nil {
		return err
	}
	pause, err := c.BuildImage(ctx, pauseImage, "./test/cluster/cmd/pause")
	if err != nil {
		return err
	}
	return c.ImportImage(ctx, pause)
}

// ImportImage gives the real node the images of an archive (OCI or docker-archive), under
// the names that the archive gives them.
func (c *Cluster) ImportImage(ctx context.Context, archive string) error {
	archive, err := filepath.Abs(archive)
	if err != nil {
		return fmt.Errorf("import image: %w", err)
	}
	if c.realNode == nil {
		return fmt.Errorf("import image %s: the cluster has no real node", archive)
	}
	if err := c.runCtr(ctx, "images", "import", archive); err != nil {
		return fmt.Errorf("import image: %w", err)
	}
	return nil
}

func (c *Cluster) runCtr(ctx context.Context, args ...string) error {
	command := c.realNode.nsenterCommand("ctr", append([]string{"--address=" + containerdSocket, "--namespace=k8s.io"}, args...)...)
	return runCommand(exec.CommandContext(ctx, command[0], command[1:]...))
}
