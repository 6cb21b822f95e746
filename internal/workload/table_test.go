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

// The cluster of the table: two nodes with whole H200, one of them with slices as well, an H200 node with slices
// alone, one 4090 node, one Ascend node and a node that has cards but does not name them.
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

// requestFor is what a pod asks for in the cluster of the table.
func requestFor(pod *corev1.Pod) Request { return (&Resolver{Inventory: cluster()}).Request(pod) }

// usage is what a pod holds that is counted.
func usage(r *Resolver, pod *corev1.Pod, group *v1beta1.PodGroup, last *quota.Charge) (quota.Charge, bool) {
	if !IsAssigned(pod) {
		return quota.Charge{}, false
	}
	return r.Usage(pod, group, last), true
}

const gpu = builder.GPU

// noon is when pods were deleted that are.
var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// pod runs on node h200.
func pod() *builder.PodBuilder { return podIn("lab") }

func podIn(namespace string) *builder.PodBuilder {
	return builder.Pod(namespace, "pod").Running("h200")
}

func group(queue string) *v1beta1.PodGroup {
	return builder.PodGroup("lab", "group").Queue(queue).Obj()
}

func held(name card.Name, count card.Count) []card.Amount {
	return []card.Amount{{Name: name, Count: count}}
}

// TestWhatAPodIsCharged is the part of the table that turns a placed pod into
// the queue that pays and the cards it holds.
func TestWhatAPodIsCharged(t *testing.T) {
	last := func(queue string, name card.Name, count card.Count) *quota.Charge {
		return &quota.Charge{Queue: queue, Cards: held(name, count)}
	}

	for t, tc := range check.Cases(t, map[string]struct {
		pod       *builder.PodBuilder
		group     *v1beta1.PodGroup
		last      *quota.Charge
		wantQueue string
		wantCards []card.Amount
		wantNone  bool
	}{
		// who counts
		"running": {
			pod:       pod().GPUs(2),
			group:     group("q"),
			wantQueue: "q",
			wantCards: held("H200", 2),
		},
		"bound, container not started yet": {
			pod:       pod().GPUs(2).Phase(corev1.PodPending),
			group:     group("q"),
			wantQueue: "q",
			wantCards: held("H200", 2),
		},
		"not placed": {
			pod:      pod().GPUs(2).Node(""),
			group:    group("q"),
			wantNone: true,
		},
		"succeeded": {
			pod:      pod().GPUs(2).Phase(corev1.PodSucceeded),
			group:    group("q"),
			wantNone: true,
		},
		"failed": {
			pod:      pod().GPUs(2).Phase(corev1.PodFailed),
			group:    group("q"),
			wantNone: true,
		},
		"state unknown, as in Volcano": {
			pod:      pod().GPUs(2).Phase(corev1.PodUnknown),
			group:    group("q"),
			wantNone: true,
		},
		"terminating": {
			pod:      pod().GPUs(2).Deleted(noon),
			group:    group("q"),
			wantNone: true,
		},
		"asks for no cards": {
			pod:       pod().Requests("cpu", "4"),
			group:     group("q"),
			wantQueue: "q",
		},
		"asks for zero cards": {
			pod:       pod().GPUs(0),
			group:     group("q"),
			wantQueue: "q",
		},
		"other scalar resources are ignored": {
			pod:       pod().Requests("rdma/hca", "4"),
			group:     group("q"),
			wantQueue: "q",
		},
		"card.name alone asks for nothing": {
			pod:       pod().Card("H200"),
			group:     group("q"),
			wantQueue: "q",
		},

		// which queue
		"the queue of the binding beats the PodGroup": {
			pod:       pod().GPUs(1).ChargedQueue("first").Queue("other"),
			group:     group("q"),
			wantQueue: "first",
			wantCards: held("H200", 1),
		},
		"the PodGroup's queue beats the pod's annotation": {
			pod:       pod().GPUs(1).Queue("other"),
			group:     group("q"),
			wantQueue: "q",
			wantCards: held("H200", 1),
		},
		"a PodGroup without a queue is in default": {
			pod:       pod().GPUs(1),
			group:     group(""),
			wantQueue: "default",
			wantCards: held("H200", 1),
		},
		"PodGroup gone: the queue charged last": {
			pod:       pod().GPUs(1).Queue("other"),
			last:      last("q", "H200", 1),
			wantQueue: "q",
			wantCards: held("H200", 1),
		},
		"PodGroup gone: the pod's annotation": {
			pod:       pod().GPUs(1).Queue("q"),
			wantQueue: "q",
			wantCards: held("H200", 1),
		},
		"PodGroup gone: the vcjob's annotation": {
			pod:       pod().GPUs(1).Annotation("volcano.sh/queue-name", "q"),
			wantQueue: "q",
			wantCards: held("H200", 1),
		},
		"no PodGroup and no annotation": {
			pod:       pod().GPUs(1),
			wantQueue: "",
			wantCards: held("H200", 1),
		},

		// which card
		"the card of the node, not the one asked for": {
			pod:       pod().GPUs(1).Card("4090"),
			group:     group("q"),
			wantQueue: "q",
			wantCards: held("H200", 1),
		},
		"without card.name the card it landed on": {
			pod:       pod().GPUs(1).Node("4090"),
			group:     group("q"),
			wantQueue: "q",
			wantCards: held("4090", 1),
		},
		"alternatives: the one it landed on": {
			pod:       pod().GPUs(1).Node("4090").Card("H200|4090"),
			group:     group("q"),
			wantQueue: "q",
			wantCards: held("4090", 1),
		},
		"another vendor's resource": {
			pod:       pod().Requests("huawei.com/Ascend910", "8").Node("ascend"),
			group:     group("q"),
			wantQueue: "q",
			wantCards: held("910B", 8),
		},
		"a slice beside whole cards": {
			pod:       pod().Requests("nvidia.com/mig-1g.18gb", "3").Node("mig"),
			group:     group("q"),
			wantQueue: "q",
			wantCards: held("H200/mig-1g.18gb-mixed", 3),
		},
		"label lost: the card charged last": {
			pod:       pod().GPUs(1).Node("unnamed"),
			group:     group("q"),
			last:      last("q", "4090", 1),
			wantQueue: "q",
			wantCards: held("4090", 1),
		},
		"node gone: the card charged last": {
			pod:       pod().GPUs(1).Node("gone"),
			group:     group("q"),
			last:      last("q", "4090", 1),
			wantQueue: "q",
			wantCards: held("4090", 1),
		},
		"relabelled: the card the node has now": {
			pod:       pod().GPUs(1).Node("4090"),
			group:     group("q"),
			last:      last("q", "H200", 1),
			wantQueue: "q",
			wantCards: held("4090", 1),
		},
		"label lost, nothing charged: the card it names": {
			pod:       pod().GPUs(1).Node("unnamed").Card("H200"),
			group:     group("q"),
			wantQueue: "q",
			wantCards: held("H200", 1),
		},
		"label lost, two alternatives: both are withheld": {
			pod:       pod().GPUs(1).Node("unnamed").Card("H200|4090"),
			group:     group("q"),
			wantQueue: "q",
			wantCards: append(held("H200", 1), held("4090", 1)...),
		},
		"label lost, nothing named: every card it may be": {
			pod:       pod().GPUs(1).Node("unnamed"),
			group:     group("q"),
			wantQueue: "q",
			wantCards: append(held("4090", 1), held("H200", 1)...),
		},
		"the H200 node offers only slices now, nothing named: a card of its model": {
			pod:       pod().GPUs(1).Node("sliced"),
			group:     group("q"),
			wantQueue: "q",
			wantCards: held("H200", 1),
		},
		"two card resources, placed past us: both are charged": {
			pod:       pod().GPUs(1).Requests("nvidia.com/mig-1g.18gb", "2").Node("mig"),
			group:     group("q"),
			wantQueue: "q",
			wantCards: append(held("H200", 1), held("H200/mig-1g.18gb-mixed", 2)...),
		},

		"a resource that is a card nowhere, named: the card it names": {
			pod:       pod().Requests("amd.com/gpu", "1").Node("unnamed").Card("MI300X").ChargedQueue("q"),
			group:     group("q"),
			wantQueue: "q",
			wantCards: held("MI300X", 1),
		},
		"a resource that is a card nowhere, named, placed past us: no card": {
			pod:       pod().Requests("amd.com/gpu", "1").Node("unnamed").Card("H200"),
			group:     group("q"),
			wantQueue: "q",
		},

		// how many
		"init containers count by their maximum": {
			pod:       pod().GPUs(2).InitContainer(gpu, "4").InitContainer(gpu, "1"),
			group:     group("q"),
			wantQueue: "q",
			wantCards: held("H200", 4),
		},
		"sidecars count beside the containers": {
			pod:       pod().GPUs(2).Sidecar(gpu, "1"),
			group:     group("q"),
			wantQueue: "q",
			wantCards: held("H200", 3),
		},
		"a sidecar before a larger init container": {
			pod:       pod().GPUs(2).Sidecar(gpu, "1").InitContainer(gpu, "4"),
			group:     group("q"),
			wantQueue: "q",
			wantCards: held("H200", 5),
		},
	}) {
		pod := tc.pod.Obj()
		got, ok := usage(&Resolver{Inventory: cluster()}, pod, tc.group, tc.last)
		agreeOnCharge(t, pod, tc.group, tc.last, rule.Origin{Ours: true}, got, ok)
		check.Must(t, ok != tc.wantNone, "counted %v, want %v", ok, !tc.wantNone)
		check.Equal(t, "queue", tc.wantQueue, got.Queue)
		check.Equal(t, "cards", tc.wantCards, got.Cards, cmpopts.EquateEmpty())
	}
}

// TestRequestForReadsWaitingPods is the part of the table that reads a waiting pod. What is
// refused is in TestRequestForRefusesPodsThatCannotBePlaced.
func TestRequestForReadsWaitingPods(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		pod  *builder.PodBuilder
		want []card.Name
	}{
		"one card":                             {pod().GPUs(1).Card("H200"), []card.Name{"H200"}},
		"alternatives in their order":          {pod().GPUs(1).Card("H200|4090"), []card.Name{"H200", "4090"}},
		"no name: every card of the resource":  {pod().GPUs(1), []card.Name{"4090", "H200"}},
		"a card no node has may be waited for": {pod().GPUs(1).Card("B300"), []card.Name{"B300"}},
		"no cards":                             {pod().CPU("1"), nil},
	}) {
		pod := tc.pod.Obj()
		got := requestFor(pod)
		checkAgainstObserver(t, pod, got)

		check.Equal(t, "names", tc.want, got.Names, cmpopts.EquateEmpty())
		check.Equal(t, "refusal", nil, got.Denied)
	}
}

// TestServiceTypePrecedence: a workload never claims more than its queue grants.
func TestServiceTypePrecedence(t *testing.T) {
	with := func(value string) map[string]string {
		if value == "" {
			return nil
		}
		return map[string]string{"volcano.sh/service.type": value}
	}

	for t, tc := range check.Cases(t, map[string]struct{ queue, pod, group, owner, want string }{
		"the queue decides": {
			queue: "training",
			pod:   "inference",
			group: "inference",
			owner: "inference",
			want:  "training",
		},
		"then the pod": {
			pod:   "inference",
			group: "training",
			owner: "training",
			want:  "inference",
		},
		"then the PodGroup": {
			group: "training",
			owner: "inference",
			want:  "training",
		},
		"then the owner kind": {
			owner: "inference",
			want:  "inference",
		},
		"nothing is unknown": {},
	}) {
		got := ServiceTypeFor(with(tc.queue), with(tc.pod), with(tc.group), tc.owner)
		check.Equal(t, "service type", tc.want, got)
	}
}

func TestRefusalsAreWrittenInWholeNumbers(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		short quota.InsufficientQuota
		want  Refusal
	}{
		"cards": {
			short: quota.InsufficientQuota{
				Kind:      quota.Cards,
				Queue:     "q",
				Names:     []card.Name{"NVIDIA-H200"},
				Requested: 5,
				Total:     5,
				Limit:     3,
			},
			want: Refusal{
				Reason:  "InsufficientScalarQuota",
				Message: "Queue <q> has insufficient <NVIDIA-H200> quota: requested <5>, total would be <5>, but capability is <3>",
			},
		},
		"cards that are ending": {
			short: quota.InsufficientQuota{
				Kind:        quota.Terminating,
				Queue:       "q",
				Names:       []card.Name{"NVIDIA-H200"},
				Requested:   1,
				Total:       12,
				Limit:       8,
				GracePeriod: time.Hour,
			},
			want: Refusal{
				Reason: "CardsEnding",
				Message: "Queue <q> gets no more <NVIDIA-H200> while pods that are being deleted hold more than its quota: " +
					"terminating <12>, but quota is <8>; " +
					"they end within 3600 s, sooner with a shorter terminationGracePeriodSeconds",
			},
		},
		"CPU": {
			short: quota.InsufficientQuota{Kind: quota.CPU, Queue: "q", Requested: 500, Total: 4500, Limit: 4000},
			want: Refusal{
				Reason:  "InsufficientCPUQuota",
				Message: "Queue <q> has insufficient CPU quota: requested <500m>, total would be <4500m>, but capability is <4000m>",
			},
		},
		"memory": {
			short: quota.InsufficientQuota{Kind: quota.Memory, Queue: "q", Requested: 1 << 30, Total: 5<<30 + 1, Limit: 4 << 30},
			want: Refusal{
				Reason:  "InsufficientMemoryQuota",
				Message: "Queue <q> has insufficient memory quota: requested <1024Mi>, total would be <5121Mi>, but capability is <4096Mi>",
			},
		},
		"capability not set": {
			short: quota.InsufficientQuota{Kind: quota.CPU, Queue: "q", Requested: 500, Total: 500},
			want: Refusal{
				Reason:  "EmptyQueueCapability",
				Message: "Queue <q> has no cpu capability and may use none: set spec.capability.cpu (spec.resources.cpu of its CardQuota)",
			},
		},
	}) {
		check.Equal(t, "refusal", tc.want, textOf(RefusalFor(&tc.short)))
		moved := tc.short
		moved.Total++
		check.Equal(t, "topic when only the total moves", RefusalFor(&tc.short).Topic, RefusalFor(&moved).Topic)

		moved.Limit++
		check.That(t, RefusalFor(&tc.short).Topic != RefusalFor(&moved).Topic, "the topic is the same when the limit moves")
	}
}

// textOf is what a refusal says to users.
func textOf(r *Refusal) Refusal { return Refusal{Reason: r.Reason, Message: r.Message} }

// TestRefusalsOfADeniedQueue say why and what helps.
func TestRefusalsOfADeniedQueue(t *testing.T) {
	short := &quota.InsufficientQuota{Kind: quota.Memory, Queue: "q", Requested: 1, Total: 1}
	const empty = "Queue <q> has no memory capability and may use none: set spec.capability.memory (spec.resources.memory of its CardQuota)"

	check.Equal(t, "of a queue that is not denied", Refusal{
		Reason:  ReasonEmptyQueueCapability,
		Message: empty,
	}, textOf(QueueRules{}.RefusalFor(short)))
	check.Equal(t, "of a queue that is", Refusal{
		Reason: ReasonEmptyQueueCapability,
		Message: empty +
			"; it has no card quota, and such queues are denied (unmanagedQueues: Deny): submit to a queue that has a " +
			"CardQuota, or create one for this queue",
	},
		textOf(QueueRules{Denied: true}.RefusalFor(short)))
	short.Queue = "root"
	check.Equal(t, "of root", Refusal{
		Reason:  ReasonEmptyQueueCapability,
		Message: "Queue <root> may use nothing (unmanagedQueues: Deny): submit to a queue that has a CardQuota",
	},
		textOf(QueueRules{Denied: true}.RefusalFor(short)))
}

// TestQueueOfAPodWithoutANode: the queue of a binding is written with the
// binding; before that it is whatever the pod's maker wrote.
func TestQueueOfAPodWithoutANode(t *testing.T) {
	waiting := pod().GPUs(1).Node("").ChargedQueue("forged")
	check.Equal(t, "queue", "q", (&Resolver{}).Queue(waiting.Obj(), group("q"), ""))
}
