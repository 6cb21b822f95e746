package answers

import (
	"fmt"
	"strings"
	"testing"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	api "cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/test/cluster"
)

// state is a namespace in which a pod waits for one reason. Its cards are on nodes of its own, so that
// all states share a cluster.
type state struct {
	// name is that of the namespace, and begins the names of its queues and nodes.
	name   string
	reason api.BlockedReason
	nodes  []cluster.NodeProfile
	quotas []*api.CardQuota
	// holders get their place before anything waits.
	holders []*corev1.Pod
	// waiting are created then. The pod waits is asked about, or the one that asked returns, "" for none
	// yet.
	waiting []client.Object
	asked   func(*play, *testing.T) string
	// change, if any, follows: it ends in the state.
	change func(*play)
	// isBrief marks a state that ends by itself.
	isBrief bool
	// hasNoView marks a state in which the tenant has no LocalCardQuota: the queue is of others.
	hasNoView bool
	// hasNoEvents marks a state that no event of a pod names, so that only why and the status of the
	// queue do.
	hasNoEvents bool
}

// waits is the name of the pod that each state asks about, or of the workload that has the pod.
const waits = "waits"

// cardOf returns the card of a state.
func cardOf(name string) string { return "NVIDIA-" + strings.ToUpper(name) }

// nodesOf returns nodes of one card.
func nodesOf(name string, count int, cards string) cluster.NodeProfile {
	return cluster.NodeProfile{
		Name: name, Count: count,
		Labels:      map[string]string{"nvidia.com/gpu.product": cardOf(name), "nvidia.com/gpu.memory": "81920"},
		Allocatable: corev1.ResourceList{"cpu": resource.MustParse("64"), "memory": resource.MustParse("256Gi"), "nvidia.com/gpu": resource.MustParse(cards)},
	}
}

// treeCard returns a card with its quota, what it deserves, and its guarantee.
func treeCard(name string, quota, deserved, guarantee int64) api.Card {
	card := api.Card{Name: cardOf(name), Quota: &quota, Deserved: &deserved}
	if guarantee > 0 {
		card.Guarantee = &guarantee
	}
	return card
}

// quotaOf returns a CardQuota that the namespace of its state may use.
func quotaOf(state, name, parent string, cards ...api.Card) *api.CardQuota {
	return builder.CardQuota(name).Tenant(state).With(func(q *api.CardQuota) {
		q.Spec.Cards = cards
		q.Spec.Parent = parent
		q.Spec.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: state}}
	}).Obj()
}

// parentOf returns a CardQuota above others.
func parentOf(state, name string, cards ...api.Card) *api.CardQuota {
	return builder.CardQuota(name).Tenant(state).ServiceType("").With(func(q *api.CardQuota) { q.Spec.Cards = cards }).Obj()
}

// podOf returns a pod of a state's namespace in the queue of its name, with some of its cards.
func podOf(state, name string, cards int) *builder.PodBuilder {
	return builder.Pod(state, name).Queue(state).Card(cardOf(state)).GPUs(cards).CPU("1").Memory("1Gi").GracePeriod(1)
}

// plain returns a state of one queue: a node with four cards, a quota, and cards that a pod uses.
func plain(name string, reason api.BlockedReason, quota int64, used int, waiting ...client.Object) state {
	s := state{name: name, reason: reason, nodes: []cluster.NodeProfile{nodesOf(name, 1, "4")}, waiting: waiting,
		quotas: []*api.CardQuota{quotaOf(name, name, "", treeCard(name, quota, quota, 0))}}
	if used > 0 {
		s.holders = append(s.holders, podOf(name, "holds", used).Obj())
	}
	return s
}

// with returns a changed state.
func (s state) with(change func(*state)) state { change(&s); return s }

// states are all states of one cluster with a tree of quotas.
func states() []state { return append(reasonStates(), workloadStates()...) }

// reasonStates are one for each reason, or more.
func reasonStates() []state {
	return []state{
		reclaimed(),
		reserved(),
		plain("quota", api.BlockedQuotaExhausted, 2, 2, podOf("quota", waits, 1).Obj()),
		plain("noquota", api.BlockedNoQuota, 2, 0, podOf("noquota", waits, 1).Obj()).with(func(s *state) {
			s.quotas[0].Spec.Cards = []api.Card{treeCard("quota", 2, 2, 0)}
		}),
		plain("ancestor", api.BlockedAncestorQuotaExhausted, 2, 0, podOf("ancestor", waits, 1).Queue("ancestor-b").Obj()).with(func(s *state) {
			s.quotas = []*api.CardQuota{parentOf("ancestor", "ancestor", treeCard("ancestor", 2, 2, 0)),
				quotaOf("ancestor", "ancestor-a", "ancestor", treeCard("ancestor", 2, 2, 0)), quotaOf("ancestor", "ancestor-b", "ancestor", treeCard("ancestor", 2, 0, 0))}

			s.holders = []*corev1.Pod{podOf("ancestor", "holds", 2).Queue("ancestor-a").Obj()}
		}),
		plain("guarantee", api.BlockedGuaranteedToOthers, 4, 2, podOf("guarantee", waits, 1).Obj()).with(func(s *state) {
			s.quotas = []*api.CardQuota{parentOf("guarantee", "guarantee-top", treeCard("guarantee", 4, 4, 2)),
				quotaOf("guarantee", "guarantee-safe", "guarantee-top", treeCard("guarantee", 4, 2, 2)), quotaOf("guarantee", "guarantee", "guarantee-top", treeCard("guarantee", 4, 2, 0))}
		}),
		plain("borrow", api.BlockedNotReclaimable, 4, 0, podOf("borrow", waits, 1).Annotation(v1beta1.PodPreemptable, "false").Obj()).with(func(s *state) {
			s.quotas[0].Spec.Cards = []api.Card{treeCard("borrow", 4, 2, 0)}
			s.holders = []*corev1.Pod{podOf("borrow", "holds", 2).Annotation(v1beta1.PodPreemptable, "false").Obj()}
		}),
		plain("cpu", api.BlockedCPUQuotaExhausted, 1, 0, withoutCards("cpu", waits, "2", "1Gi")).with(limitCompute("cpu")),
		plain("memory", api.BlockedMemoryQuotaExhausted, 1, 0, withoutCards("memory", waits, "1", "2Gi")).with(limitCompute("memory")),
		terminating(),
		plain("full", api.BlockedNoFreeCard, 4, 0, podOf("full", waits, 1).Obj()).with(func(s *state) {
			s.quotas = append(s.quotas, quotaOf("full-others", "full-others", "", treeCard("full", 4, 4, 0)))
			s.holders = []*corev1.Pod{podOf("full-others", "holds", 4).Card(cardOf("full")).Obj()}
		}),
		partialGang(),
		replicas(),
		plain("fragmented", api.BlockedFragmented, 8, 0, podOf("fragmented", waits, 4).Obj()).with(func(s *state) {
			s.nodes[0].Count = 2
			for _, node := range []string{"fragmented-0", "fragmented-1"} {
				s.holders = append(s.holders, podOf("fragmented", "holds-"+node, 2).With(func(p *corev1.Pod) {
					p.Spec.NodeSelector = map[string]string{corev1.LabelHostname: node}
				}).Obj())
			}
		}),
		plain("unsuitable", api.BlockedNodesUnsuitable, 4, 0, podOf("unsuitable", waits, 1).With(func(p *corev1.Pod) {
			p.Spec.NodeSelector = map[string]string{"test.cardquota.dev/no-node": "has-this-label"}
		}).Obj()),
		plain("unknown", api.BlockedUnknownCard, 4, 0, podOf("unknown", waits, 1).Obj()).with(func(s *state) { s.nodes = nil }),
		plain("combination", api.BlockedWrongCombination, 4, 0, podOf("combination", waits, 1).Card(cardOf("combination")+"|Ascend-COMBINATION").Obj()).with(func(s *state) {
			s.nodes = append(s.nodes, cluster.NodeProfile{Name: "combination-npu", Labels: map[string]string{"huawei.com/npu.product": "Ascend-COMBINATION", "huawei.com/npu.memory": "65536"},
				Allocatable: corev1.ResourceList{"cpu": resource.MustParse("64"), "memory": resource.MustParse("256Gi"), "huawei.com/Ascend910": resource.MustParse("4")}})
		}),
		plain("invalid", api.BlockedInvalidRequest, 4, 0, podOf("invalid", waits, 1).Card("NVIDIA INVALID||").Obj()),
		plain("stopped", api.BlockedQueueStopped, 4, 0, podOf("stopped", waits, 1).Obj()).with(func(s *state) { s.quotas[0].Spec.StopPolicy = api.StopPolicyHold }),
		plain("nowhere", api.BlockedQueueNotFound, 4, 0, podOf("nowhere", waits, 1).Obj()).with(func(s *state) {
			s.quotas = nil
			s.hasNoView = true
		}),
		plain("stranger", api.BlockedNamespaceNotAllowed, 4, 0, podOf("stranger", waits, 1).Obj()).with(func(s *state) {
			s.quotas = []*api.CardQuota{quotaOf("stranger-host", "stranger", "", treeCard("stranger", 4, 4, 0))}
			s.hasNoView = true
		}),
		plain("gang", api.BlockedGangIncomplete, 4, 0, builder.PodGroup("gang", "gang").Queue("gang").MinMember(2).Obj(), podOf("gang", waits, 1).PodGroup("gang").Obj()),
		crowd(),
		plain("other", api.BlockedOther, 4, 0, podOf("other", waits, 1).With(func(p *corev1.Pod) {
			p.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "gone"}}}}
		}).Obj()),
	}
}

// withOthers returns a state of so many nodes, on the first of which another queue uses the cards.
func (s state) withOthers(nodes int) state {
	others := s.name + "-others"
	s.nodes[0].Count = nodes
	s.quotas = append(s.quotas, quotaOf(others, others, "", treeCard(s.name, 4, 4, 0)))
	s.holders = []*corev1.Pod{podOf(others, "holds", 4).Card(cardOf(s.name)).With(func(p *corev1.Pod) {
		p.Spec.NodeSelector = map[string]string{corev1.LabelHostname: s.name + "-0"}
	}).Obj()}
	return s
}

// partialGang is a Volcano Job of four pods, of which the cards that are free suffice for two.
func partialGang() state {
	s := plain("partial", api.BlockedNoFreeCard, 16, 0,
		builder.Gang("partial", waits, 4, builder.Pod("partial", "").Card(cardOf("partial")).GPUs(4).CPU("1").Memory("1Gi").GracePeriod(1)).Queue("partial").Obj()).withOthers(3)
	s.asked = func(*play, *testing.T) string { return waits + "-worker-2" }
	return s
}

// replicas is a Deployment of two pods, of which the cards that are free suffice for one.
func replicas() state {
	s := plain("replicas", api.BlockedNoFreeCard, 8, 0, builder.Deployment("replicas", waits, 2, podOf("replicas", "", 4))).withOthers(2)
	s.asked = func(p *play, t *testing.T) string {
		pods := &corev1.PodList{}
		newGomega(t).Expect(p.List(t.Context(), pods, client.InNamespace("replicas"))).To(gomega.Succeed())
		for i := range pods.Items {
			if pods.Items[i].Spec.NodeName == "" && len(pods.Items) == 2 {
				return pods.Items[i].Name
			}
		}
		return ""
	}

	return s
}

// crowd is a queue in which eleven pods wait longer than the pod waits, so that no status lists it.
func crowd() state {
	s := plain("crowd", api.BlockedQuotaExhausted, 1, 1)
	for i := range 11 {
		s.waiting = append(s.waiting, podOf(s.name, fmt.Sprintf("ahead-%02d", i), 1).Obj())
	}
	s.change = func(p *play) {
		p.awaitPodGroups(s.name, len(s.holders)+len(s.waiting))
		p.awaitNextSecond() // the API server keeps no smaller times
		p.create(podOf("crowd", waits, 1).Obj())
	}
	return s
}

// withoutCards returns a pod that requests only CPU and memory.
func withoutCards(name, pod, cpu, memory string) client.Object {
	return builder.Pod(name, pod).Queue(name).CPU(cpu).Memory(memory).Obj()
}

// limitCompute gives a queue two CPUs and two GiB, of which one pod uses one.
func limitCompute(name string) func(*state) {
	return func(s *state) {
		s.quotas[0].Spec.Resources = &api.Resources{CPU: ptr.To(resource.MustParse("2")), Memory: ptr.To(resource.MustParse("2Gi"))}
		s.holders = []*corev1.Pod{builder.Pod(name, "holds").Queue(name).CPU("1").Memory("1Gi").Obj()}
	}
}

// reclaimed is a queue that would borrow again what its sibling has just taken back.
func reclaimed() state {
	s := plain("reclaimed", api.BlockedRecentlyReclaimed, 4, 0)
	s.isBrief = true
	s.quotas = []*api.CardQuota{quotaOf("reclaimed", "reclaimed", "", treeCard("reclaimed", 4, 2, 0)), quotaOf("reclaimed", "reclaimed-owner", "", treeCard("reclaimed", 4, 2, 0))}
	s.holders = []*corev1.Pod{podOf("reclaimed", "holds", 2).Obj(), podOf("reclaimed", "borrows", 2).Priority(0).Obj()}
	s.waiting = []client.Object{podOf("reclaimed", "owner", 2).Queue("reclaimed-owner").Obj()}
	s.change = func(p *play) {
		p.awaitRunning("reclaimed", "owner")
		p.remove(builder.Pod("reclaimed", "owner").Obj())
		p.create(podOf("reclaimed", waits, 2).Obj())
	}
	return s
}

// terminating is a queue of one card whose pods were deleted twice and have not ended.
func terminating() state {
	slow := func(name string) *corev1.Pod {
		return podOf("terminating", name, 1).GracePeriod(1800).Annotation("test.cardquota.dev/delete-after", "30m").Obj()
	}

	s := plain("terminating", api.BlockedCardsTerminating, 1, 0)
	s.holders = []*corev1.Pod{slow("first")}
	s.change = func(p *play) {
		p.remove(slow("first"))
		p.create(slow("second"))
		p.awaitRunning("terminating", "second")
		p.remove(slow("second"))
		p.create(podOf("terminating", waits, 1).Obj())
	}
	return s
}
