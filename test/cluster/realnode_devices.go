package cluster

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// startDevicePlugins starts one plugin per resource and waits until the node offers all
// cards.
func (c *Cluster) startDevicePlugins(ctx context.Context, n *realNode) error {
	if len(n.Cards) == 0 {
		return nil
	}
	program := filepath.Join(n.dir, "deviceplugin")
	if err := compile(ctx, "./test/deviceplugin", program); err != nil {
		return err
	}
	for _, resource := range slices.Sorted(maps.Keys(n.Cards)) {
		count := n.Cards[resource]
		p, err := c.launchInside(ctx, n, ProcessSpec{
			Name: "device-plugin-" + strings.ReplaceAll(string(resource), "/", "-"),
			Path: program,
			Args: []string{"--resource=" + string(resource), fmt.Sprintf("--count=%d", count)},
		})
		if err != nil {
			return err
		}
		if err := c.await(ctx, p, func(ctx context.Context) error {
			node, err := c.client.CoreV1().Nodes().Get(ctx, n.Name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			return offers(node, resource, int64(count))
		}); err != nil {
			return err
		}
	}
	return nil
}

func offers(node *corev1.Node, resource corev1.ResourceName, count int64) error {
	if amount := node.Status.Allocatable[resource]; amount.Value() != count {
		return fmt.Errorf("node %s offers %d of %d %s", node.Name, amount.Value(), count, resource)
	}
	return nil
}
