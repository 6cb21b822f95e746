package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// apiServerFlagsForRealNode returns the flags of an apiserver with a real kubelet that pods can
// call.
func (c *Cluster) apiServerFlagsForRealNode() ([]string, error) {
	// The apiserver reads logs and runs commands there.
	client, err := c.ca.issueClientCert("apiserver-kubelet-client", "kube-apiserver-kubelet-client", "system:masters")
	if err != nil {
		return nil, err
	}

	return []string{
		"--bind-address=0.0.0.0", "--advertise-address=" + c.realNode.slot.hostAddress(),
		"--service-cluster-ip-range=" + c.realNode.slot.serviceCIDR(),
		"--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction",
		"--kubelet-client-certificate=" + client.cert, "--kubelet-client-key=" + client.key,
		"--kubelet-certificate-authority=" + c.caFile(),
		"--kubelet-preferred-address-types=InternalIP",
	}, nil
}

// serverURLFromNode returns the URL of the apiserver as seen from the node.
func (c *Cluster) serverURLFromNode() string {
	return strings.Replace(c.serverURL, "127.0.0.1", c.realNode.slot.hostAddress(), 1)
}

func (c *Cluster) startKubelet(ctx context.Context, n *realNode) error {
	serving, err := c.ca.issueServingCert("kubelet-serving", n.Name, n.slot.nodeAddress())
	if err != nil {
		return err
	}

	kubeconfig, err := c.componentKubeconfig(c.serverURLFromNode(), "kubelet", "system:node:"+n.Name, "system:nodes")
	if err != nil {
		return err
	}

	taints, err := json.Marshal(append([]corev1.Taint{}, n.Taints...))
	if err != nil {
		return err
	}

	config, err := n.renderTemplate("kubelet.yaml", map[string]any{
		"CA": c.caFile(), "Cert": serving.cert, "Key": serving.key, "Dir": n.dir,
		"Socket": containerdSocket, "Cgroup": n.slot.linkName(), "Taints": string(taints),
	})
	if err != nil {
		return err
	}

	if err := c.startInNode(ctx, n, ProcessSpec{
		Name: "kubelet", Path: c.binaryPath("kubelet"),
		Args: []string{
			"--config=" + config, "--kubeconfig=" + kubeconfig,
			"--hostname-override=" + n.Name, "--node-ip=" + n.slot.nodeAddress(),
			"--node-labels=" + n.labelsFlag(), "-v=2",
		},
		Ready: func(ctx context.Context) error { return c.checkNodeReady(ctx, n) },
	}); err != nil {
		return err
	}

	return c.startDevicePlugins(ctx, n)
}

// labelsFlag returns the labels of the node as a flag.
func (n *realNode) labelsFlag() string {
	pairs := []string{RealNodeLabel + "=true"}
	for _, key := range slices.Sorted(maps.Keys(n.Labels)) {
		pairs = append(pairs, key+"="+n.Labels[key])
	}
	return strings.Join(pairs, ",")
}

func (c *Cluster) checkNodeReady(ctx context.Context, n *realNode) error {
	node, err := c.client.CoreV1().Nodes().Get(ctx, n.Name, metav1.GetOptions{})
	if err != nil {
		return err
	}

	for _, condition := range node.Status.Conditions {
		if condition.Type != corev1.NodeReady {
			continue
		}
		if condition.Status == corev1.ConditionTrue {
			return nil
		}
		return errors.New(condition.Message)
	}

	return errors.New("not reported Ready")
}

// RealNodeName returns the name of the real node, or "".
func (c *Cluster) RealNodeName() string {
	if c.realNode == nil {
		return ""
	}
	return c.realNode.Name
}

func (c *Cluster) startKubeProxy(ctx context.Context, n *realNode) error {
	kubeconfig, err := c.componentKubeconfig(c.serverURLFromNode(), "kube-proxy", "system:kube-proxy")
	if err != nil {
		return err
	}

	config, err := n.renderTemplate("kube-proxy.yaml", map[string]any{"Kubeconfig": kubeconfig, "Name": n.Name, "Pods": n.slot.podCIDR()})
	if err != nil {
		return err
	}

	return c.startInNode(ctx, n, ProcessSpec{
		Name: "kube-proxy", Path: c.binaryPath("kube-proxy"), Args: []string{"--config=" + config, "-v=2"},
		Ready: HTTPProbe(fmt.Sprintf("http://%s:10256/healthz", n.slot.nodeAddress())),
	})
}

// startDevicePlugins starts one plugin per resource and waits until the node offers all
// cards.
func (c *Cluster) startDevicePlugins(ctx context.Context, n *realNode) error {
	if len(n.Cards) == 0 {
		return nil
	}
	program := filepath.Join(n.dir, "deviceplugin")
	if err := buildProgram(ctx, "./test/deviceplugin", program); err != nil {
		return err
	}

	for _, resource := range slices.Sorted(maps.Keys(n.Cards)) {
		count := n.Cards[resource]
		if err := c.startInNode(ctx, n, ProcessSpec{
			Name: "device-plugin-" + strings.ReplaceAll(string(resource), "/", "-"), Path: program,
			Args: []string{"--resource=" + string(resource), fmt.Sprintf("--count=%d", count)},
			Ready: func(ctx context.Context) error {
				node, err := c.client.CoreV1().Nodes().Get(ctx, n.Name, metav1.GetOptions{})
				if err != nil {
					return err
				}
				if amount := node.Status.Allocatable[resource]; amount.Value() != int64(count) {
					return fmt.Errorf("node %s offers %d of %d %s", node.Name, amount.Value(), count, resource)
				}
				return nil
			},
		}); err != nil {
			return err
		}
	}

	return nil
}
