package cluster

import (
	"context"
	"embed"
	"fmt"
	"io/fs"
)

//go:embed stages/*.yaml
var builtInStages embed.FS

//go:embed kwok-rbac.yaml
var kwokRBAC []byte

// kwokConfiguration makes kwok fast enough for thousands of pods. Each node's lease is renewed
// four times in its duration; the controller manager waits five minutes for it.
const kwokConfiguration = `apiVersion: config.kwok.x-k8s.io/v1alpha1
kind: KwokConfiguration
options:
  podPlayStageParallelism: 32
  nodePlayStageParallelism: 8
  nodeLeaseParallelism: 8
  nodeLeaseDurationSeconds: 160
`

// kwokNodeSelection says which nodes are kwok's.
func (c *Cluster) kwokNodeSelection() string {
	if c.realNode == nil {
		return "  manageAllNodes: true\n"
	}
	return "  manageNodesWithLabelSelector: \"!" + RealNodeLabel + "\"\n"
}

// startKwok gives kwok its rights and starts it. Its stages (folder stages of this package)
// decide how the fleet's kubelets behave.
func (c *Cluster) startKwok(ctx context.Context) error {
	if err := c.Apply(ctx, kwokRBAC); err != nil {
		return fmt.Errorf("rights of kwok: %w", err)
	}
	stages, err := fs.Glob(builtInStages, "stages/*.yaml")
	if err != nil {
		return fmt.Errorf("stages: %w", err)
	}
	config := kwokConfiguration + c.kwokNodeSelection()
	for _, name := range stages {
		text, err := builtInStages.ReadFile(name)
		if err != nil {
			return fmt.Errorf("stages: %w", err)
		}
		config += "---\n" + string(text) + "\n"
	}
	path, err := c.writeFile("kwok.yaml", []byte(config))
	if err != nil {
		return err
	}
	kubeconfig, err := c.componentKubeconfig(c.serverURL, "kwok", "kwok")
	if err != nil {
		return err
	}
	address, err := FreeAddress()
	if err != nil {
		return err
	}
	_, err = c.StartProcess(ctx, ProcessSpec{
		Name: "kwok", Path: c.binaryPath("kwok"), component: true,
		Args: []string{
			"--kubeconfig=" + kubeconfig, "--config=" + path,
			"--enable-crds=", "--server-address=" + address, "--node-ip=10.0.0.1",
		},
		Env:   []string{rareGCEnv},
		Ready: HTTPProbe("http://" + address + "/healthz"),
	})
	return err
}
