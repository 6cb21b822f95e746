package cluster

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

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
