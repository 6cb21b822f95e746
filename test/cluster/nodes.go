package cluster

import (
	"context"
	"fmt"
	"maps"
	"os"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"cardquota.dev/operator/internal/testing/builder"
)

// NodeProfile describes nodes of one kind.
type NodeProfile struct {
	// Name is the prefix of the nodes' names: <name>-0, <name>-1 …
	Name string `json:"name"`
	// Count is how many there are; 0 means one.
	Count int `json:"count,omitempty"`
	// Labels are added to the host name, architecture and operating system labels.
	Labels map[string]string `json:"labels,omitempty"`
	// Allocatable is what the node offers; capacity is the same. 110 pods unless set.
	Allocatable corev1.ResourceList `json:"allocatable"`
}

// LoadFleet reads a YAML list of node profiles. Unknown fields are errors.
func LoadFleet(path string) (fleet []NodeProfile, err error) {
	text, err := os.ReadFile(path)
	if err == nil {
		err = yaml.UnmarshalStrict(text, &fleet)
	}
	if err != nil {
		return nil, fmt.Errorf("fleet %s: %w", path, err)
	}
	return fleet, nil
}

// nodeObjects returns the nodes of a profile. They are Ready at once, so that no test waits for
// kwok's first report; kwok keeps them Ready.
func (p NodeProfile) nodeObjects() []*corev1.Node {
	var nodes []*corev1.Node
	now := metav1.Now()
	for i := range max(p.Count, 1) {
		name := fmt.Sprintf("%s-%d", p.Name, i)
		nodes = append(nodes, builder.Node(name).
			Label(corev1.LabelHostname, name).Label(corev1.LabelArchStable, "amd64").Label(corev1.LabelOSStable, "linux").
			With(func(node *corev1.Node) {
				maps.Copy(node.Labels, p.Labels)
				allocatable := corev1.ResourceList{corev1.ResourcePods: node.Status.Allocatable[corev1.ResourcePods]}
				maps.Copy(allocatable, p.Allocatable)
				node.Status.Allocatable = allocatable
				node.Status.Capacity = allocatable
				node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: name}}
				node.Status.NodeInfo = corev1.NodeSystemInfo{Architecture: "amd64", OperatingSystem: "linux", KubeletVersion: "v1.34.1"}

				for _, pressure := range []corev1.NodeConditionType{corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure} {
					node.Status.Conditions = append(node.Status.Conditions, corev1.NodeCondition{Type: pressure, Status: corev1.ConditionFalse})
				}

				for i := range node.Status.Conditions {
					node.Status.Conditions[i].LastHeartbeatTime = now
					node.Status.Conditions[i].LastTransitionTime = now
				}
			}).Obj())
	}

	return nodes
}

// CreateNodes adds the profiles' nodes to the cluster. They are Ready when it returns. A node
// with such a name must not exist yet.
func (c *Cluster) CreateNodes(ctx context.Context, profiles []NodeProfile) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(16)
	count := 0
	for _, profile := range profiles {
		for _, node := range profile.nodeObjects() {
			count++
			group.Go(func() error {
				if _, err := c.client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{}); err != nil {
					return fmt.Errorf("create node %s: %w", node.Name, err)
				}
				return nil
			})
		}
	}

	if err := group.Wait(); err != nil {
		return err
	}

	if count > 0 {
		c.options.Log.Info("nodes ready", "count", count)
	}

	return nil
}
