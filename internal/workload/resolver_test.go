package workload

import (
	"testing"

	"github.com/google/go-cmp/cmp/cmpopts"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/test/observer/rule"
)

// TestUsageOfPodsThatBypassedAdmission: pods can reach a node without our webhooks, which check the namespace of a
// queue. Queue q selects namespace lab, queue open all of them, and "evil" is another namespace. A pod of evil is
// charged to q only if it was charged to q before, or if our scheduler bound it. Our scheduler checked the queue of
// its PodGroup, or wrote the record charged-queue. Otherwise any tenant could fill the quota of another one. A
// resource that is a card on no node counts only with that record of our scheduler, or as the card of the last
// charge. The pod runs on node h200, which has H200. It requests 1 GPU, or 1000 evil.example/x and names H200
// (podWithUnknownCard). A row says "our scheduler" if that bound the pod (ours); last is the charge before. The
// observer, a second implementation of the rules from the documents alone, agrees with each row.
func TestUsageOfPodsThatBypassedAdmission(t *testing.T) {
	podWithUnknownCard := func(namespace string) *builder.PodBuilder {
		return runningPodIn(namespace).Requests("evil.example/x", "1000").Card("H200")
	}
	last := func(queue string, cards ...card.Amount) *quota.Charge {
		return &quota.Charge{Queue: queue, Cards: cards}
	}

	for t, tc := range check.Cases(t, map[string]struct {
		pod       *builder.PodBuilder
		group     *v1beta1.PodGroup
		last      *quota.Charge
		ours      bool
		wantQueue string
		wantCards []card.Amount
	}{
		"queue annotation, namespace selected": {
			pod:       runningPodIn("lab").GPUs(1).Queue("q"),
			wantQueue: "q",
			wantCards: amounts("H200", 1),
		},
		"queue annotation, namespace not selected": {
			pod:       runningPodIn("evil").GPUs(1).Queue("q"),
			wantCards: amounts("H200", 1),
		},
		"queue annotation, a queue for all namespaces": {
			pod:       runningPodIn("evil").GPUs(1).Queue("open"),
			wantQueue: "open",
			wantCards: amounts("H200", 1),
		},
		"a vcjob's queue annotation, namespace not selected": {
			pod:       runningPodIn("evil").GPUs(1).Annotation("volcano.sh/queue-name", "q"),
			wantCards: amounts("H200", 1),
		},
		"no annotation": {
			pod:       runningPodIn("evil").GPUs(1),
			wantCards: amounts("H200", 1),
		},
		"our scheduler, queue annotation, namespace not selected": {
			pod:       runningPodIn("evil").GPUs(1).Queue("q"),
			ours:      true,
			wantCards: amounts("H200", 1),
		},
		"our scheduler, charged-queue annotation, namespace no longer selected": {
			pod:       runningPodIn("evil").GPUs(1).ChargedQueue("q"),
			ours:      true,
			wantQueue: "q",
			wantCards: amounts("H200", 1),
		},
		"our scheduler, in a PodGroup, namespace no longer selected": {
			pod:       runningPodIn("evil").GPUs(1),
			group:     newPodGroup("q"),
			ours:      true,
			wantQueue: "q",
			wantCards: amounts("H200", 1),
		},
		"another scheduler, charged-queue annotation, namespace not selected": {
			pod:       runningPodIn("evil").GPUs(1).ChargedQueue("q"),
			wantCards: amounts("H200", 1),
		},
		"another scheduler, charged-queue annotation, namespace selected": {
			pod:       runningPodIn("lab").GPUs(1).ChargedQueue("q"),
			wantQueue: "q",
			wantCards: amounts("H200", 1),
		},
		"another scheduler, in a PodGroup, namespace not selected": {
			pod:       runningPodIn("evil").GPUs(1),
			group:     newPodGroup("q"),
			wantCards: amounts("H200", 1),
		},
		"another scheduler, charged before, namespace no longer selected": {
			pod:       runningPodIn("evil").GPUs(1),
			last:      last("q"),
			wantQueue: "q",
			wantCards: amounts("H200", 1),
		},
		"another scheduler, queue annotation, charged to no queue before": {
			pod:       runningPodIn("evil").GPUs(1).Queue("q"),
			last:      last("", amounts("H200", 1)...),
			wantCards: amounts("H200", 1),
		},
		"CPU and memory alone, charged-queue annotation": {pod: runningPodIn("evil").Requests("cpu", "30").ChargedQueue("q")},
		"CPU and memory alone, our scheduler, namespace no longer selected": {
			pod:       runningPodIn("evil").Requests("cpu", "30").ChargedQueue("q"),
			ours:      true,
			wantQueue: "q",
		},

		"our scheduler, charged-queue annotation: the card it names": {
			pod:       podWithUnknownCard("lab").ChargedQueue("q"),
			ours:      true,
			wantQueue: "q",
			wantCards: amounts("H200", 1000),
		},
		"our scheduler, queue annotation: no card": {
			pod:       podWithUnknownCard("lab").Queue("q"),
			ours:      true,
			wantQueue: "q",
		},
		"another scheduler, charged-queue annotation: no card": {
			pod:       podWithUnknownCard("lab").ChargedQueue("q"),
			wantQueue: "q",
		},
		"another scheduler, charged-queue annotation, namespace not selected: nothing": {pod: podWithUnknownCard("evil").ChargedQueue("q")},
		"another scheduler, charged for 2 MI300X before: 1000 of this card": {
			pod:       podWithUnknownCard("lab"),
			last:      last("q", amounts("MI300X", 2)...),
			wantQueue: "q",
			wantCards: amounts("MI300X", 1000),
		},
		"another scheduler, charged before for H200, which is nvidia.com/gpu: no card": {
			pod:       podWithUnknownCard("lab"),
			last:      last("q", amounts("H200", 2)...),
			wantQueue: "q",
		},
		"another scheduler, charged no card before: no card": {pod: podWithUnknownCard("lab").ChargedQueue("q"), last: last("q"), wantQueue: "q"},
	}) {
		resolver := Resolver{
			Inventory:       cluster(),
			Schedulers:      []string{"another"},
			AllowsNamespace: func(queue, namespace string) bool { return queue != "q" || namespace == "lab" },
		}
		pod := tc.pod.Obj()
		if tc.ours {
			resolver.Schedulers = append(resolver.Schedulers, pod.Spec.SchedulerName)
		}

		got, ok := usage(&resolver, pod, tc.group, tc.last)
		expectChargeOfObserver(t, pod, tc.group, tc.last, rule.Origin{Ours: tc.ours, AllowsNamespace: resolver.AllowsNamespace}, got, ok)
		check.That(t, ok && got.Queue == tc.wantQueue, "counted %v in queue %q, want %q", ok, got.Queue, tc.wantQueue)
		check.Equal(t, "cards", tc.wantCards, got.Cards, cmpopts.EquateEmpty())
	}

	check.Equal(t, "queue where no queue selects namespaces", "q",
		(&Resolver{Schedulers: []string{"another"}}).Queue(runningPodIn("evil").Queue("q").Obj(), nil, ""))
}

// TestANetworkDeviceBesideCardsIsNoCard: a pod may request a card and a network device of the same vendor, as
// distributed training does. The device is no card, whether labels name the cards of the node or an entry of the
// policy does.
func TestANetworkDeviceBesideCardsIsNoCard(t *testing.T) {
	for _, mappings := range []card.Mappings{nil, {{Resource: "huawei.com/Ascend910", Model: "Ascend-910B"}}} {
		var tracker card.Tracker
		tracker.SetMappings(mappings)
		tracker.Update(builder.Node("a").NPUs("Ascend-910B", 8).Resource("huawei.com/rdma_nic", "8").Obj())
		resolver := Resolver{Inventory: tracker.Inventory()}
		both := resolver.Request(builder.Pod("lab", "both").Requests("huawei.com/Ascend910", "4").Container("huawei.com/rdma_nic", "1").Obj())

		check.That(t, both.Denied == nil, "the pod is denied: %v", both.Denied)
		check.Equal(t, "cards", []card.Name{"Ascend-910B"}, both.Names)
		device := resolver.Request(builder.Pod("lab", "device").Requests("huawei.com/rdma_nic", "1").Obj())
		check.That(t, device.Denied == nil && device.Count == 0, "a device is denied, or counts as %d cards: %v", device.Count,
			device.Denied)
	}
}
