package cardreclaim

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/internal/testing/check"
)

const zone = corev1.LabelTopologyZone

// newSceneWithTwelveFullNodes returns a scene of 12 nodes with two cards, n00 to n11, each used by a training gang of two
// pods. zones has the zone of each node in turn, repeated as needed.
func newSceneWithTwelveFullNodes(zones, text string, changes ...podChange) *scene {
	s := newInferenceAndTrainingScene("")
	for i := range 12 {
		s.add(fmt.Sprintf(`
			node n%02[1]d model=A cards=2
			job tn%02[1]d queue=training min=2 running=n%02[1]d*2 age=1h`, i))
		s.Nodes[i].Labels[zone] = string(strings.Repeat(zones, 12)[i])
	}
	return s.add(text, changes...)
}

// spreadOver keeps the pods evenly over a topology, with at most one more in one part than in another.
func spreadOver(topologyKey string) podChange {
	return func(p *corev1.Pod) {
		p.Labels["app"] = "i"
		p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{MaxSkew: 1, TopologyKey: topologyKey,
			WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "i"}}}}
	}
}

// TestPodsThatSpreadReclaimOnSeveralNodes: only Volcano's predicates know what a pod requires of other pods, and
// only after an eviction is tried. If they refuse a node, the search goes on with others. 12 nodes have two
// cards each, used by gangs of two pods, so each node on which a card is needed costs two pods. zones "a" puts
// all nodes into zone a, "ab" the nodes into zone a and b in turn. With a spread, a node or zone has at most one
// pod of job i more than another.
func TestPodsThatSpreadReclaimOnSeveralNodes(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		pods, minimum           int
		zones                   string
		spread                  podChange
		wantEvicted, wantPlaced int
		wantNodes               int
	}{
		"12 pods of minimum one, spread over nodes": {
			pods: 12, minimum: 1, zones: "a", spread: spreadOver(corev1.LabelHostname),
			wantEvicted: 24, wantPlaced: 12, wantNodes: 12},
		"a gang of 12 pods, spread over nodes": {
			pods: 12, minimum: 12, zones: "a", spread: spreadOver(corev1.LabelHostname),
			wantEvicted: 24, wantPlaced: 12, wantNodes: 12},
		"a gang of 4 pods, spread over two zones": {
			pods: 4, minimum: 4, zones: "ab", spread: spreadOver(zone),
			wantEvicted: 4, wantPlaced: 4, wantNodes: 2},
	}) {
		s := newSceneWithTwelveFullNodes(tc.zones, fmt.Sprintf("job i queue=inference min=%d pending=%d", tc.minimum, tc.pods), tc.spread).runSession(t)
		nodes := map[string]bool{}
		for _, task := range s.In(api.Pipelined) {
			nodes[task.NodeName] = true
		}

		check.Equal(t, "evicted pods", tc.wantEvicted, len(s.In(api.Releasing)))
		check.Equal(t, "pods of i that get a card", tc.wantPlaced, s.countPlaced("i"))
		check.Equal(t, "nodes of these pods", tc.wantNodes, len(nodes))
	}
}

// TestAPodReclaimsInTheOnlyZoneThatItMayUse: 11 of the 12 nodes are in zone a, which has a pod that i avoids. So
// the gang of node n11, the only one in zone b, is evicted. "tn11*2" are the pods tn11-0 and tn11-1.
func TestAPodReclaimsInTheOnlyZoneThatItMayUse(t *testing.T) {
	s := newSceneWithTwelveFullNodes("aaaaaaaaaaab", `
		job avoided queue=inference min=1 running=n00 cards=0
		job i queue=inference min=1 pending=1`, onJob("avoided", withLabel("x")), onJob("i", avoidingWithin(zone, "x")))

	s.runSession(t).expectEvictedAndPlaced(t, "tn11*2", "i-0@n11")
}
