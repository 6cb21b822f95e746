package workload

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/test/observer/rule"
)

// cluster has nodes h200, 4090 and ascend with 8 cards H200, 4090 and 910B. Node mig has 7 H200 and 7 slices of H200,
// and node sliced 7 slices of H200 alone. No label names the card of node unnamed, vendor.example/ppu.
func cluster() *card.Inventory {
	whole := func(model string, resource corev1.ResourceName) card.Node {
		return card.Node{Model: model, Cards: []card.NodeCard{{Name: card.Name(model), Resource: resource, Count: 8}}}
	}

	return card.NewInventory(map[string]card.Node{
		"h200":   whole("H200", "nvidia.com/gpu"),
		"4090":   whole("4090", "nvidia.com/gpu"),
		"ascend": whole("910B", "huawei.com/Ascend910"),
		"mig": {
			Model: "H200",
			Cards: []card.NodeCard{
				{Name: "H200", Resource: "nvidia.com/gpu", Count: 7},
				{Name: "H200/mig-1g.18gb-mixed", Resource: "nvidia.com/mig-1g.18gb", Count: 7},
			},
		},
		"sliced": {
			Model: "H200",
			Cards: []card.NodeCard{{Name: "H200/mig-1g.18gb-mixed", Resource: "nvidia.com/mig-1g.18gb", Count: 7}},
		},
		"unnamed": {Unnamed: []corev1.ResourceName{"vendor.example/ppu"}},
	})
}

// requestFor is what a pod requests in that cluster.
func requestFor(pod *corev1.Pod) Request { return (&Resolver{Inventory: cluster()}).Request(pod) }

// usage is the charge of a pod, false for a pod that does not count.
func usage(resolver *Resolver, pod *corev1.Pod, group *v1beta1.PodGroup, last *quota.Charge) (quota.Charge, bool) {
	if !IsAssigned(pod) {
		return quota.Charge{}, false
	}
	return resolver.Usage(pod, group, last), true
}

const gpu = builder.GPU

// noon is when pods were deleted that are.
var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// runningPod runs on node h200.
func runningPod() *builder.PodBuilder { return runningPodIn("lab") }

func runningPodIn(namespace string) *builder.PodBuilder {
	return builder.Pod(namespace, "pod").Running("h200")
}

// waitingPod has no node.
func waitingPod() *builder.PodBuilder { return builder.Pod("lab", "pod") }

func newPodGroup(queue string) *v1beta1.PodGroup {
	return builder.PodGroup("lab", "group").Queue(queue).Obj()
}

// amounts is one amount of a card.
func amounts(name card.Name, count card.Count) []card.Amount {
	return []card.Amount{{Name: name, Count: count}}
}

// TestWhatAPodIsCharged: a placed pod is charged for the cards of its node, to its queue. Nodes h200, 4090 and
// ascend have one model each. Node mig has H200 and slices, sliced has slices of H200 alone. No label names the
// card of node unnamed. A pod runs on node h200 unless the row names another node. Where the node names no card,
// that of the last charge counts, else all that the pod may use, so that no quota is exceeded. The queue is that of
// the record which our scheduler writes at the binding (ChargedQueue). Otherwise it is that of the PodGroup, of the
// last charge, or of an annotation, in this order. The observer, a second implementation of the rules from the
// documents alone, agrees.
func TestWhatAPodIsCharged(t *testing.T) {
	last := func(queue string, name card.Name, count card.Count) *quota.Charge {
		return &quota.Charge{Queue: queue, Cards: amounts(name, count)}
	}

	for t, tc := range check.Cases(t, map[string]struct {
		pod       *builder.PodBuilder
		group     *v1beta1.PodGroup
		last      *quota.Charge
		wantQueue string
		wantCards []card.Amount
		wantNone  bool
	}{
		"a running pod": {
			pod:       runningPod().GPUs(2),
			group:     newPodGroup("q"),
			wantQueue: "q",
			wantCards: amounts("H200", 2),
		},
		"a bound pod whose container has not started": {
			pod:       runningPod().GPUs(2).Phase(corev1.PodPending),
			group:     newPodGroup("q"),
			wantQueue: "q",
			wantCards: amounts("H200", 2),
		},
		"a pod without a node: not counted": {
			pod:      runningPod().GPUs(2).Node(""),
			group:    newPodGroup("q"),
			wantNone: true,
		},
		"a succeeded pod: not counted": {
			pod:      runningPod().GPUs(2).Phase(corev1.PodSucceeded),
			group:    newPodGroup("q"),
			wantNone: true,
		},
		"a failed pod: not counted": {
			pod:      runningPod().GPUs(2).Phase(corev1.PodFailed),
			group:    newPodGroup("q"),
			wantNone: true,
		},
		"a pod in phase Unknown: not counted, as in Volcano": {
			pod:      runningPod().GPUs(2).Phase(corev1.PodUnknown),
			group:    newPodGroup("q"),
			wantNone: true,
		},
		"a terminating pod: not counted": {
			pod:      runningPod().GPUs(2).Deleted(noon),
			group:    newPodGroup("q"),
			wantNone: true,
		},
		"a pod that requests no cards": {
			pod:       runningPod().Requests("cpu", "4"),
			group:     newPodGroup("q"),
			wantQueue: "q",
		},
		"a pod that requests 0 cards": {
			pod:       runningPod().GPUs(0),
			group:     newPodGroup("q"),
			wantQueue: "q",
		},
		"a pod that requests network devices: no cards": {
			pod:       runningPod().Requests("rdma/hca", "4"),
			group:     newPodGroup("q"),
			wantQueue: "q",
		},
		"a pod with card.name that requests no cards": {
			pod:       runningPod().Card("H200"),
			group:     newPodGroup("q"),
			wantQueue: "q",
		},

		"the record of the binding, the PodGroup and the annotation name three queues: that of the record": {
			pod:       runningPod().GPUs(1).ChargedQueue("first").Queue("other"),
			group:     newPodGroup("q"),
			wantQueue: "first",
			wantCards: amounts("H200", 1),
		},
		"the PodGroup and the annotation name two queues: that of the PodGroup": {
			pod:       runningPod().GPUs(1).Queue("other"),
			group:     newPodGroup("q"),
			wantQueue: "q",
			wantCards: amounts("H200", 1),
		},
		"a PodGroup without a queue: default": {
			pod:       runningPod().GPUs(1),
			group:     newPodGroup(""),
			wantQueue: "default",
			wantCards: amounts("H200", 1),
		},
		"no PodGroup, charged before: the queue of the last charge": {
			pod:       runningPod().GPUs(1).Queue("other"),
			last:      last("q", "H200", 1),
			wantQueue: "q",
			wantCards: amounts("H200", 1),
		},
		"no PodGroup: the annotation of pods": {
			pod:       runningPod().GPUs(1).Queue("q"),
			wantQueue: "q",
			wantCards: amounts("H200", 1),
		},
		"no PodGroup: the annotation of Volcano jobs": {
			pod:       runningPod().GPUs(1).Annotation("volcano.sh/queue-name", "q"),
			wantQueue: "q",
			wantCards: amounts("H200", 1),
		},
		"no PodGroup and no annotation: no queue": {
			pod:       runningPod().GPUs(1),
			wantQueue: "",
			wantCards: amounts("H200", 1),
		},

		"names 4090, runs on h200: H200": {
			pod:       runningPod().GPUs(1).Card("4090"),
			group:     newPodGroup("q"),
			wantQueue: "q",
			wantCards: amounts("H200", 1),
		},
		"names no card, runs on 4090: 4090": {
			pod:       runningPod().GPUs(1).Node("4090"),
			group:     newPodGroup("q"),
			wantQueue: "q",
			wantCards: amounts("4090", 1),
		},
		"names H200 or 4090, runs on 4090: 4090": {
			pod:       runningPod().GPUs(1).Node("4090").Card("H200|4090"),
			group:     newPodGroup("q"),
			wantQueue: "q",
			wantCards: amounts("4090", 1),
		},
		"a card of another vendor, runs on ascend: 910B": {
			pod:       runningPod().Requests("huawei.com/Ascend910", "8").Node("ascend"),
			group:     newPodGroup("q"),
			wantQueue: "q",
			wantCards: amounts("910B", 8),
		},
		"a slice of a node with whole cards": {
			pod:       runningPod().Requests("nvidia.com/mig-1g.18gb", "3").Node("mig"),
			group:     newPodGroup("q"),
			wantQueue: "q",
			wantCards: amounts("H200/mig-1g.18gb-mixed", 3),
		},
		"the node names no card now, charged before: the card of the last charge": {
			pod:       runningPod().GPUs(1).Node("unnamed"),
			group:     newPodGroup("q"),
			last:      last("q", "4090", 1),
			wantQueue: "q",
			wantCards: amounts("4090", 1),
		},
		"the node is gone, charged before: the card of the last charge": {
			pod:       runningPod().GPUs(1).Node("gone"),
			group:     newPodGroup("q"),
			last:      last("q", "4090", 1),
			wantQueue: "q",
			wantCards: amounts("4090", 1),
		},
		"the node names another card than the last charge: that of the node": {
			pod:       runningPod().GPUs(1).Node("4090"),
			group:     newPodGroup("q"),
			last:      last("q", "H200", 1),
			wantQueue: "q",
			wantCards: amounts("4090", 1),
		},
		"the node names no card, never charged, the pod names H200: H200": {
			pod:       runningPod().GPUs(1).Node("unnamed").Card("H200"),
			group:     newPodGroup("q"),
			wantQueue: "q",
			wantCards: amounts("H200", 1),
		},
		"the node names no card, never charged, the pod names two: both": {
			pod:       runningPod().GPUs(1).Node("unnamed").Card("H200|4090"),
			group:     newPodGroup("q"),
			wantQueue: "q",
			wantCards: append(amounts("H200", 1), amounts("4090", 1)...),
		},
		"the node names no card, never charged, the pod names none: each card of the resource": {
			pod:       runningPod().GPUs(1).Node("unnamed"),
			group:     newPodGroup("q"),
			wantQueue: "q",
			wantCards: append(amounts("4090", 1), amounts("H200", 1)...),
		},
		"the node offers only slices of H200 now, never charged, the pod names none: a card of its model": {
			pod:       runningPod().GPUs(1).Node("sliced"),
			group:     newPodGroup("q"),
			wantQueue: "q",
			wantCards: amounts("H200", 1),
		},
		"two card resources, which only another scheduler places: both": {
			pod:       runningPod().GPUs(1).Requests("nvidia.com/mig-1g.18gb", "2").Node("mig"),
			group:     newPodGroup("q"),
			wantQueue: "q",
			wantCards: append(amounts("H200", 1), amounts("H200/mig-1g.18gb-mixed", 2)...),
		},

		"a resource that is a card on no node, with the record of the binding: the card that the pod names": {
			pod:       runningPod().Requests("amd.com/gpu", "1").Node("unnamed").Card("MI300X").ChargedQueue("q"),
			group:     newPodGroup("q"),
			wantQueue: "q",
			wantCards: amounts("MI300X", 1),
		},
		"a resource that is a card on no node, without the record: no card": {
			pod:       runningPod().Requests("amd.com/gpu", "1").Node("unnamed").Card("H200"),
			group:     newPodGroup("q"),
			wantQueue: "q",
		},

		"init containers of 4 and 1 before a container of 2: the maximum, 4": {
			pod:       runningPod().GPUs(2).InitContainer(gpu, "4").InitContainer(gpu, "1"),
			group:     newPodGroup("q"),
			wantQueue: "q",
			wantCards: amounts("H200", 4),
		},
		"a sidecar of 1 beside a container of 2: the sum, 3": {
			pod:       runningPod().GPUs(2).Sidecar(gpu, "1"),
			group:     newPodGroup("q"),
			wantQueue: "q",
			wantCards: amounts("H200", 3),
		},
		"a sidecar of 1 before an init container of 4: 1 + 4": {
			pod:       runningPod().GPUs(2).Sidecar(gpu, "1").InitContainer(gpu, "4"),
			group:     newPodGroup("q"),
			wantQueue: "q",
			wantCards: amounts("H200", 5),
		},
	}) {
		pod := tc.pod.Obj()
		got, ok := usage(&Resolver{Inventory: cluster()}, pod, tc.group, tc.last)
		expectChargeOfObserver(t, pod, tc.group, tc.last, rule.Origin{Ours: true}, got, ok)
		check.Equal(t, "counts", !tc.wantNone, ok)
		check.Equal(t, "queue", tc.wantQueue, got.Queue)
		check.Equal(t, "cards", tc.wantCards, got.Cards, cmpopts.EquateEmpty())
	}
}

// TestRequestForReadsWaitingPods: a pod that waits requests the cards that it names, in its order, or each card of
// the resource. The GPUs of the cluster are H200 and 4090. What is refused is in
// TestRequestForRefusesPodsThatCannotBePlaced.
func TestRequestForReadsWaitingPods(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		pod  *builder.PodBuilder
		want []card.Name
	}{
		"names one card":                             {waitingPod().GPUs(1).Card("H200"), []card.Name{"H200"}},
		"names two cards: in its order":              {waitingPod().GPUs(1).Card("H200|4090"), []card.Name{"H200", "4090"}},
		"names none: each card of nvidia.com/gpu":    {waitingPod().GPUs(1), []card.Name{"4090", "H200"}},
		"names a card that no node has: it may come": {waitingPod().GPUs(1).Card("B300"), []card.Name{"B300"}},
		"requests no cards":                          {waitingPod().CPU("1"), nil},
	}) {
		pod := tc.pod.Obj()
		got := requestFor(pod)
		expectRequestOfObserver(t, pod, got)

		check.Equal(t, "names", tc.want, got.Names, cmpopts.EquateEmpty())
		check.Equal(t, "refusal", nil, got.Denied)
	}
}

// TestServiceTypePrecedence: the service type of a queue decides about its workloads. Where it has none, that of the
// pod counts, then of the PodGroup, then of the kind of its owner. So a workload never gets more than its queue
// grants.
func TestServiceTypePrecedence(t *testing.T) {
	with := func(value string) map[string]string {
		if value == "" {
			return nil
		}
		return map[string]string{"volcano.sh/service.type": value}
	}

	for t, tc := range check.Cases(t, map[string]struct{ queue, pod, group, owner, want string }{
		"queue, pod, PodGroup and owner: the queue's": {
			queue: "training",
			pod:   "inference",
			group: "inference",
			owner: "inference",
			want:  "training",
		},
		"pod, PodGroup and owner: the pod's": {
			pod:   "inference",
			group: "training",
			owner: "training",
			want:  "inference",
		},
		"PodGroup and owner: the PodGroup's": {
			group: "training",
			owner: "inference",
			want:  "training",
		},
		"only the owner": {
			owner: "inference",
			want:  "inference",
		},
		"none": {},
	}) {
		check.Equal(t, "service type", tc.want, ServiceTypeFor(with(tc.queue), with(tc.pod), with(tc.group), tc.owner))
	}
}

// TestRefusalsAreWrittenInWholeNumbers: a refusal names the queue, what is insufficient, and the numbers in whole
// cards, millicores or MiB, rounded up. Its topic stays the same while only the total of what is used changes, so
// that users get no new event. The topic differs once the limit changes.
func TestRefusalsAreWrittenInWholeNumbers(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		insufficient quota.InsufficientQuota
		want         refusalText
	}{
		"cards": {
			insufficient: quota.InsufficientQuota{
				Queue:     "q",
				Names:     []card.Name{"NVIDIA-H200"},
				Requested: 5,
				Total:     5,
				Limit:     3,
			},
			want: refusalText{
				Reason:  "InsufficientScalarQuota",
				Message: "Queue <q> has insufficient <NVIDIA-H200> quota: requested <5>, total would be <5>, but capability is <3>",
			},
		},
		"cards that terminating pods use beyond the quota": {
			insufficient: quota.InsufficientQuota{
				Kind:        quota.Terminating,
				Queue:       "q",
				Names:       []card.Name{"NVIDIA-H200"},
				Requested:   1,
				Total:       12,
				Limit:       8,
				GracePeriod: time.Hour,
			},
			want: refusalText{
				Reason: "CardsEnding",
				Message: "Queue <q> gets no more <NVIDIA-H200> while pods that are being deleted hold more than its quota: " +
					"terminating <12>, but quota is <8>; " +
					"they end within 3600 s, sooner with a shorter terminationGracePeriodSeconds",
			},
		},
		"CPU": {
			insufficient: quota.InsufficientQuota{Of: quota.CPU, Queue: "q", Requested: 500, Total: 4500, Limit: 4000},
			want: refusalText{
				Reason:  "InsufficientCPUQuota",
				Message: "Queue <q> has insufficient CPU quota: requested <500m>, total would be <4500m>, but capability is <4000m>",
			},
		},
		"memory": {
			insufficient: quota.InsufficientQuota{Of: quota.Memory, Queue: "q", Requested: 1 << 30, Total: 5<<30 + 1, Limit: 4 << 30},
			want: refusalText{
				Reason:  "InsufficientMemoryQuota",
				Message: "Queue <q> has insufficient memory quota: requested <1024Mi>, total would be <5121Mi>, but capability is <4096Mi>",
			},
		},
		"CPU without a capability": {
			insufficient: quota.InsufficientQuota{Of: quota.CPU, Queue: "q", Requested: 500, Total: 500},
			want: refusalText{
				Reason:  "EmptyQueueCapability",
				Message: "Queue <q> has no cpu capability and may use none: set spec.capability.cpu (spec.resources.cpu of its CardQuota)",
			},
		},
	}) {
		check.Equal(t, "refusal", tc.want, textOf(RefusalFor(&tc.insufficient)))
		changed := tc.insufficient
		changed.Total++
		check.Equal(t, "topic when only the total changes", RefusalFor(&tc.insufficient).Topic(), RefusalFor(&changed).Topic())

		changed.Limit++
		check.That(t, RefusalFor(&tc.insufficient).Topic() != RefusalFor(&changed).Topic(), "the topic is the same when the limit changes")
	}
}

// refusalText is what a refusal says to users.
type refusalText struct{ Reason, Message string }

func textOf(r *Refusal) refusalText { return refusalText{r.Reason(), r.Message()} }

// TestRefusalsOfADeniedQueue: a queue without a quota is denied under unmanagedQueues: Deny. Its refusal says so, and
// where to submit instead. Queue root can have no CardQuota, so its refusal only says where to submit.
func TestRefusalsOfADeniedQueue(t *testing.T) {
	insufficient := &quota.InsufficientQuota{Of: quota.Memory, Queue: "q", Requested: 1, Total: 1}
	const empty = "Queue <q> has no memory capability and may use none: set spec.capability.memory (spec.resources.memory of its CardQuota)"

	check.Equal(t, "refusal of a queue that is not denied", refusalText{
		Reason:  ReasonEmptyQueueCapability,
		Message: empty,
	}, textOf(QueueRules{}.RefusalFor(insufficient)))
	check.Equal(t, "refusal of a denied queue", refusalText{
		Reason: ReasonEmptyQueueCapability,
		Message: empty +
			"; it has no card quota, and such queues are denied (unmanagedQueues: Deny): submit to a queue that has a " +
			"CardQuota, or create one for this queue",
	},
		textOf(QueueRules{Denied: true}.RefusalFor(insufficient)))
	insufficient.Queue = "root"
	check.Equal(t, "refusal of root, which is denied", refusalText{
		Reason:  ReasonEmptyQueueCapability,
		Message: "Queue <root> may use nothing (unmanagedQueues: Deny): submit to a queue that has a CardQuota",
	},
		textOf(QueueRules{Denied: true}.RefusalFor(insufficient)))
}

// TestQueueOfAPodWithoutANode: the scheduler writes the annotation with the charged queue when it binds a pod.
// Without a node the pod is not bound, so a user wrote its annotation, here with queue "forged". The queue of its
// PodGroup counts.
func TestQueueOfAPodWithoutANode(t *testing.T) {
	waiting := runningPod().GPUs(1).Node("").ChargedQueue("forged")
	check.Equal(t, "queue", "q", (&Resolver{}).Queue(waiting.Obj(), newPodGroup("q"), ""))
}
