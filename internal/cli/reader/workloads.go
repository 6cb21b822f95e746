package reader

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/policy"
	"cardquota.dev/operator/internal/workload"
)

// Workloads are the nodes of a cluster and what runs on them.
type Workloads struct {
	Nodes     []*corev1.Node
	Pods      []*corev1.Pod
	PodGroups []*v1beta1.PodGroup
	// IsComplete reports whether all of these and the mappings of cards are known, KnowsMappings whether the
	// mappings are.
	IsComplete, KnowsMappings bool
	// IsTree reports whether the queues form a tree.
	IsTree bool
	// HasNodes and HasPods report whether the user may list nodes and pods.
	HasNodes, HasPods bool
	// LacksVolcano reports that the cluster has no PodGroups, because Volcano is not installed.
	LacksVolcano bool
	// mappings name the cards that labels of nodes do not name.
	mappings card.Mappings
}

// ReadWorkloads reads all nodes, pods and PodGroups, and the policy that maps cards. Finished pods are left
// out. A cluster without Volcano has no PodGroups.
func ReadWorkloads(ctx context.Context, r *Reader) Workloads {
	w, _ := readWorkloads(ctx, r, "")
	return w
}

// readWorkloads does what ReadWorkloads does. A user who may not list all pods gets those of a namespace, unless that is
// "", and isPart reports it.
func readWorkloads(ctx context.Context, r *Reader, namespace string) (w Workloads, isPart bool) {
	w.HasNodes = ListInto(ctx, r, &corev1.NodeList{}, &w.Nodes)
	for _, node := range w.Nodes {
		node.Status.Images = nil // as large as the rest, and only read by the simulated scheduler
	}

	w.HasPods, isPart = ListVisible(ctx, r, &corev1.PodList{}, &w.Pods, namespace)
	w.Pods = slices.DeleteFunc(w.Pods, workload.IsFinished)
	if r.err != nil { // IgnoreMissingKind would drop it below
		return w, isPart
	}

	mayListGroups, _ := ListVisible(ctx, r, &v1beta1.PodGroupList{}, &w.PodGroups, namespace)
	w.LacksVolcano = r.IgnoreMissingKind()
	w.KnowsMappings = w.ReadPolicy(ctx, r)
	hasGroups := mayListGroups || w.LacksVolcano
	w.IsComplete = w.HasNodes && w.HasPods && hasGroups && w.KnowsMappings
	return w, isPart
}

// ReadPolicy reads the mappings in force and whether queues form a tree. It reports whether the mappings
// are known. Before Cardquota is installed, there are none.
func (w *Workloads) ReadPolicy(ctx context.Context, r *Reader) (knowsMappings bool) {
	p := &v1alpha1.ServiceTypePolicy{}
	_, knowsMappings = r.LookUpPolicy(ctx, p, w.Nodes)
	w.mappings = policy.ExpectedMappings(p)
	w.IsTree = policy.IsTree(p)
	return knowsMappings
}

// Tracker returns the cards of all nodes.
func (w Workloads) Tracker() *card.Tracker {
	tracker := &card.Tracker{}
	tracker.SetMappings(w.mappings)
	for _, node := range w.Nodes {
		tracker.Update(node)
	}
	return tracker
}
