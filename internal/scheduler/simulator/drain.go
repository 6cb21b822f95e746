//go:build !windows

package simulator

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/simulation"
	"cardquota.dev/operator/internal/workload"
)

// drainedJob identifies pods that a drain evicts together.
type drainedJob struct {
	workload v1alpha1.WorkloadReference
	group    types.NamespacedName
}

// applyDrain adds the jobs that lose cards by a drain as victims, in the order of the evictions. The pods themselves are
// gone from the snapshot already.
func (s *simulatedCluster) applyDrain() {
	var order []drainedJob
	evictions := map[drainedJob][]simulation.Eviction{}
	for _, evicted := range s.cluster.Evicted {
		job := drainedJob{workload.ReferenceFor(evicted.Pod), groupOf(evicted.Pod)}
		if evictions[job] == nil {
			order = append(order, job)
		}
		evictions[job] = append(evictions[job], evicted)
	}

	resolver := s.resolver()
	for _, job := range order {
		s.addDrainVictim(&resolver, evictions[job])
	}
}

// addDrainVictim records as one victim those pods of a job that a drain evicts from a node and that use
// cards, if there are any. It notes the victim for the pods that are created in their place (Successor), so
// that these count as restarted.
func (s *simulatedCluster) addDrainVictim(resolver *workload.Resolver, evictions []simulation.Eviction) {
	var pods []*corev1.Pod
	for _, evicted := range evictions {
		pods = append(pods, evicted.Pod)
	}

	checkpoint := s.lastCheckpoint(pods)
	var v *victim
	for _, evicted := range evictions {
		charge := resolver.Usage(evicted.Pod, s.groups[groupOf(evicted.Pod)], nil)
		if evicted.Pod.Spec.NodeName == "" || len(charge.Cards) == 0 {
			continue
		}

		if v == nil {
			v = s.addVictim(evicted.Pod)
			v.IsDrained = true
		}

		v.addPod(evicted.Pod, charge, checkpoint, s.now)
		if evicted.Successor != "" {
			s.restarted[evicted.Successor] = v
		}
	}
}
