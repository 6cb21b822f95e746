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
	// mappings name the cards that labels of nodes do not name.
	mappings card.Mappings
}

// ReadWorkloads reads all nodes, pods and PodGroups, and the policy that maps cards. Finished pods are left
// out.
func ReadWorkloads(ctx context.Context, r *Reader) Workloads {
	var w Workloads
	mayListNodes := ListInto(ctx, r, &corev1.NodeList{}, &w.Nodes)
	for _, node := range w.Nodes {
		node.Status.Images = nil // as large as the rest, and only read by the simulated scheduler
	}

	mayListPods := ListInto(ctx, r, &corev1.PodList{}, &w.Pods)
	w.Pods = slices.DeleteFunc(w.Pods, workload.IsFinished)
	mayListGroups := ListInto(ctx, r, &v1beta1.PodGroupList{}, &w.PodGroups)
	w.KnowsMappings = w.ReadPolicy(ctx, r)
	w.IsComplete = mayListNodes && mayListPods && mayListGroups && w.KnowsMappings
	return w
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
