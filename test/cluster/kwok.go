package cluster

import (
	"bytes"
	"context"
	"embed"
	"fmt"
	"io/fs"
	"os"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

//go:embed stages/*.yaml
var builtInStages embed.FS

//go:embed kwok-rbac.yaml
var kwokRBAC []byte

// kwokConfiguration makes kwok fast enough for thousands of pods.
const kwokConfiguration = `apiVersion: config.kwok.x-k8s.io/v1alpha1
kind: KwokConfiguration
options:
  podPlayStageParallelism: 32
  nodePlayStageParallelism: 8
  nodeLeaseParallelism: 8
  nodeLeaseDurationSeconds: 40
`

// kwokNodes says which nodes are kwok's.
func (c *Cluster) kwokNodes() string {
	if c.node == nil {
		return "  manageAllNodes: true\n"
	}
	return "  manageNodesWithLabelSelector: \"!" + RealNodeLabel + "\"\n"
}

// startKwok gives kwok its rights and starts it with the stages of the options.
func (c *Cluster) startKwok(ctx context.Context) error {
	if err := c.Apply(ctx, kwokRBAC); err != nil {
		return fmt.Errorf("rights of kwok: %w", err)
	}
	return c.SetStages(ctx, c.options.StageFiles...)
}

// SetStages decides how the fleet's kubelets behave: kwok starts again with the Stages of
// these files instead of the built-in ones (folder stages of this package). Without files
// the built-in ones come back. Files that name no Stage for Nodes, or none for Pods, leave
// that kind to kwok's own stages.
func (c *Cluster) SetStages(ctx context.Context, files ...string) error {
	c.stages.Lock()
	defer c.stages.Unlock()
	config := bytes.NewBufferString(kwokConfiguration + c.kwokNodes())
	read, names := os.ReadFile, files
	if len(files) == 0 {
		read = builtInStages.ReadFile
		var err error
		if names, err = fs.Glob(builtInStages, "stages/*.yaml"); err != nil {
			return fmt.Errorf("stages: %w", err)
		}
	}
	for _, name := range names {
		text, err := read(name)
		if err != nil {
			return fmt.Errorf("stages: %w", err)
		}
		config.WriteString("---\n")
		config.Write(text)
		config.WriteString("\n")
	}
	path, err := c.writeFile("kwok.yaml", config.Bytes())
	if err != nil {
		return err
	}
	kubeconfig, err := c.writeKubeconfig("kwok.kubeconfig", clientCertificate(c.pki.kwok))
	if err != nil {
		return err
	}
	if err := c.stopKwok(ctx); err != nil {
		return err
	}
	c.kwok, err = c.startReady(ctx, 1, func(ports []int) (ProcessSpec, probe, error) {
		address := fmt.Sprintf("127.0.0.1:%d", ports[0])
		return ProcessSpec{
			Name: "kwok",
			Path: c.options.kwok(),
			Args: []string{
				"--kubeconfig=" + kubeconfig, "--config=" + path,
				"--enable-crds=", "--server-address=" + address, "--node-ip=10.0.0.1",
			},
		}, answers("http://" + address + "/healthz"), nil
	})
	return err
}

// stopKwok stops a running kwok and takes back its hold of the nodes: it is the holder of
// their leases, and another one would not touch a node before its lease has run out.
func (c *Cluster) stopKwok(ctx context.Context) error {
	if c.kwok == nil {
		return nil
	}
	if err := c.kwok.Stop(); err != nil {
		return err
	}
	c.forget(c.kwok)
	c.kwok = nil
	leases := c.client.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	if err := leases.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		return fmt.Errorf("node leases: %w", err)
	}
	return nil
}
