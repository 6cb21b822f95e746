//go:build !windows

package simulator

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/simulation"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/seed"
)

// drawnQueue is a queue of a drawn cluster.
type drawnQueue struct {
	name, serviceType string
	quota             int
}

// drawnGang is a drawn new gang.
type drawnGang struct {
	queue       drawnQueue
	pods, cards int
}

// drawCluster draws nodes of 4 or 8 cards, queues, and gangs that use cards on one node.
func drawCluster(t *rapid.T) (c *simulation.Cluster, queues []drawnQueue) {
	c = &simulation.Cluster{
		Schedulers: []string{"volcano"}, Namespaces: []*corev1.Namespace{builder.Namespace("lab")},
		Queues: []*v1beta1.Queue{builder.Queue("root").Obj(), builder.Queue("default").Obj()},
	}

	for i := range rapid.IntRange(1, 3).Draw(t, "queues") {
		serviceType := rapid.SampledFrom([]string{"training", "inference"}).Draw(t, "type")
		q := drawnQueue{fmt.Sprintf("q%d", i), serviceType, rapid.IntRange(0, 24).Draw(t, "quota")}
		priority := map[string]int32{"training": 20000, "inference": 80000}[q.serviceType]
		quota := fmt.Sprintf(`{%q:%d}`, h200, q.quota)
		queue := builder.Queue(q.name).Quota(quota).ServiceType(q.serviceType).Capability("1k", "1Ti").Priority(priority).Obj()
		queue.Spec.Reclaimable = ptr.To(q.serviceType == "training")
		c.Queues = append(c.Queues, queue)
		queues = append(queues, q)
	}

	used := map[string]int{}
	for i := range rapid.IntRange(1, 3).Draw(t, "nodes") {
		name := fmt.Sprintf("n%d", i)
		cards := rapid.SampledFrom([]int{4, 8}).Draw(t, "cards")
		c.Nodes = append(c.Nodes, newNode(name, cards))
		for cards > 0 && rapid.Bool().Draw(t, "another gang") {
			q := rapid.SampledFrom(queues).Draw(t, "queue")
			pods := rapid.IntRange(1, min(3, cards)).Draw(t, "pods")
			if used[q.name]+pods > q.quota {
				break
			}

			used[q.name] += pods
			cards -= pods
			addRunningGang(c, q.name, fmt.Sprintf("old-%d-%d", i, cards), name, int32(pods), 1)
		}
	}

	return c, queues
}

// TestRunKeepsTheRulesOnRandomClusters simulates random clusters with one to three new gangs until nothing changes any
// more (IsSettled). Then it counts the cards in use (countState):
//
// (1) No queue uses more than its quota, and no node more than its cards (checkBounds).
// (2) A new gang runs whole or not at all.
// (3) Only pods of training queues are evicted.
// (4) A new job of one pod that waits lacks cards on each node or in its quota (checkNothingFits). Its reason is NoQuota
// exactly if the quota of its queue is 0. Jobs beside another waiting gang of their queue, which reserves quota, are not
// checked.
func TestRunKeepsTheRulesOnRandomClusters(t *testing.T) {
	configuration := readShippedConfiguration(t)

	seed.Check(t, func(t *rapid.T) {
		c, queues := drawCluster(t)
		var objects []*unstructured.Unstructured
		gangs := map[string]drawnGang{}
		for i := range rapid.IntRange(1, 3).Draw(t, "new gangs") {
			name := fmt.Sprintf("new%d", i)
			q := rapid.SampledFrom(queues).Draw(t, "queue of the gang")
			pods := rapid.IntRange(1, 3).Draw(t, "pods of the gang")
			n := drawnGang{q, pods, rapid.IntRange(1, 5).Draw(t, "cards of a pod")}
			objects = append(objects, newGang(name, q.name, int32(pods), n.cards))
			gangs[name] = n
		}

		simulated, r, err := run(t.Context(), c, workloadsOf(c, objects...), configuration, time.Now())
		check.NoError(t, err)
		check.That(t, r.IsSettled, "not settled after %d sessions", r.Sessions)

		s := countState(simulated)
		s.checkBounds(t, c, queues)
		for name, n := range gangs {
			check.That(t, s.running[name] == 0 || s.running[name] == n.pods, "%s runs %d of %d pods", name, s.running[name], n.pods)
		}

		for _, v := range r.Victims {
			for _, q := range queues {
				check.That(t, q.name != v.Queue || q.serviceType == "training", "a victim of queue %s of %s", q.name, q.serviceType)
			}
		}

		s.checkNothingFits(t, c, r, gangs, waitingGangs(simulated, r, gangs))
	})
}

// state is a naive count of the cards in use.
type state struct {
	ofQueue, ofNode, running map[string]int
}

func countState(simulated *simulatedCluster) state {
	s := state{map[string]int{}, map[string]int{}, map[string]int{}}
	for _, pod := range simulated.pods {
		if pod.Spec.NodeName == "" {
			continue
		}
		cards := pod.Spec.Containers[0].Resources.Limits[builder.GPU]
		s.ofNode[pod.Spec.NodeName] += int(cards.Value())
		s.ofQueue[simulated.groups[groupOf(pod)].Spec.Queue] += int(cards.Value())
		s.running[pod.OwnerReferences[0].Name]++
	}
	return s
}

func cardsOf(node *corev1.Node) int {
	return int(node.Status.Allocatable.Name(builder.GPU, "").Value())
}

func (s state) checkBounds(t *rapid.T, c *simulation.Cluster, queues []drawnQueue) {
	for _, q := range queues {
		check.That(t, s.ofQueue[q.name] <= q.quota, "queue %s uses %d of %d cards", q.name, s.ofQueue[q.name], q.quota)
	}
	for _, node := range c.Nodes {
		check.That(t, s.ofNode[node.Name] <= cardsOf(node), "node %s has %d of %d cards in use", node.Name, s.ofNode[node.Name], cardsOf(node))
	}
}

// waitingGangs returns the gangs that wait, by queue: new ones, and reclaimed ones that wait again.
func waitingGangs(simulated *simulatedCluster, r simulation.Result, gangs map[string]drawnGang) map[string]map[string]bool {
	waiting := map[string]map[string]bool{}
	add := func(queue, gang string) {
		if waiting[queue] == nil {
			waiting[queue] = map[string]bool{}
		}
		waiting[queue][gang] = true
	}

	for _, p := range r.Pods {
		if name := p.Name[:len("new0")]; p.Node == "" {
			add(gangs[name].queue.name, name)
		}
	}

	for _, pod := range simulated.pods {
		if pod.Spec.NodeName == "" {
			add(simulated.groups[groupOf(pod)].Spec.Queue, pod.OwnerReferences[0].Name)
		}
	}

	return waiting
}

// checkNothingFits checks the pods that are no gang: none waits for which a node and its queue have enough left.
// Another gang of the same queue that waits reserves quota for some minutes.
func (s state) checkNothingFits(t *rapid.T, c *simulation.Cluster, r simulation.Result, gangs map[string]drawnGang, waiting map[string]map[string]bool) {
	for _, p := range r.Pods {
		n := gangs[p.Name[:len("new0")]]
		if p.Node != "" || n.pods > 1 || len(waiting[n.queue.name]) > 1 {
			continue
		}

		q := n.queue
		cards := n.cards
		for _, node := range c.Nodes {
			fits := s.ofNode[node.Name]+cards <= cardsOf(node) && s.ofQueue[q.name]+cards <= q.quota
			check.That(t, !fits, "%s waits for %d cards (%s: %s), and node %s and queue %s have enough left", p.Name, cards, p.Reason, p.Message, node.Name, q.name)
		}
		check.That(t, (p.Reason == v1alpha1.BlockedNoQuota) == (q.quota == 0), "%s: reason %s with quota %d", p.Name, p.Reason, q.quota)
	}
}
