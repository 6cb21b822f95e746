package decision

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/internal/account"
	"cardquota.dev/operator/internal/card"
)

// The cluster of the table: two H200 nodes, one 4090 node, one Ascend node and
// a node that has cards but does not name them.
func cluster() *card.Inventory {
	whole := func(model string, resource corev1.ResourceName) card.Node {
		return card.Node{Model: model, Holdings: []card.Holding{{Name: card.Name(model), Resource: resource, Count: 8}}}
	}
	return card.NewInventory(map[string]card.Node{
		"h200":   whole("H200", "nvidia.com/gpu"),
		"4090":   whole("4090", "nvidia.com/gpu"),
		"ascend": whole("910B", "huawei.com/Ascend910"),
		"mig": {Model: "H200", Holdings: []card.Holding{
			{Name: "H200", Resource: "nvidia.com/gpu", Count: 7}, {Name: "H200/mig-1g.18gb-mixed", Resource: "nvidia.com/mig-1g.18gb", Count: 7},
		}},
		"unnamed": {Unnamed: []corev1.ResourceName{"vendor.example/ppu"}},
	})
}

type podOption func(*corev1.Pod)

func pod(options ...podOption) *corev1.Pod {
	p := &corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodRunning}, Spec: corev1.PodSpec{NodeName: "h200", Containers: []corev1.Container{{}}}}
	p.Annotations = map[string]string{}
	for _, o := range options {
		o(p)
	}
	return p
}

func asks(resourceName corev1.ResourceName, count string) podOption {
	return func(p *corev1.Pod) {
		c := &p.Spec.Containers[0]
		if c.Resources.Requests == nil {
			c.Resources.Requests = corev1.ResourceList{}
		}
		c.Resources.Requests[resourceName] = resource.MustParse(count)
	}
}

func gpus(count string) podOption { return asks("nvidia.com/gpu", count) }

func on(node string) podOption { return func(p *corev1.Pod) { p.Spec.NodeName = node } }

func phase(phase corev1.PodPhase) podOption { return func(p *corev1.Pod) { p.Status.Phase = phase } }

func note(key, value string) podOption { return func(p *corev1.Pod) { p.Annotations[key] = value } }

func deleted(p *corev1.Pod) { now := metav1.Now(); p.DeletionTimestamp = &now }

func initContainer(count string) podOption {
	return func(p *corev1.Pod) {
		p.Spec.InitContainers = append(p.Spec.InitContainers, corev1.Container{
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"nvidia.com/gpu": resource.MustParse(count)}}})
	}
}

func sidecar(count string) podOption {
	return func(p *corev1.Pod) {
		initContainer(count)(p)
		always := corev1.ContainerRestartPolicyAlways
		p.Spec.InitContainers[len(p.Spec.InitContainers)-1].RestartPolicy = &always
	}
}

func group(queue string) *v1beta1.PodGroup {
	return &v1beta1.PodGroup{Spec: v1beta1.PodGroupSpec{Queue: queue}}
}

func held(name card.Name, count card.Count) []card.Amount {
	return []card.Amount{{Name: name, Count: count}}
}

// TestWhatAPodIsCharged is the part of the table that turns a placed pod into
// the queue that pays and the cards it holds.
func TestWhatAPodIsCharged(t *testing.T) {
	last := func(queue string, name card.Name, count card.Count) *account.Charge {
		return &account.Charge{Queue: queue, Cards: held(name, count)}
	}
	tests := map[string]struct {
		pod       *corev1.Pod
		group     *v1beta1.PodGroup
		last      *account.Charge
		wantQueue string
		wantCards []card.Amount
		wantNone  bool
	}{
		// who counts
		"running":                            {pod: pod(gpus("2")), group: group("q"), wantQueue: "q", wantCards: held("H200", 2)},
		"bound, container not started yet":   {pod: pod(gpus("2"), phase(corev1.PodPending)), group: group("q"), wantQueue: "q", wantCards: held("H200", 2)},
		"not placed":                         {pod: pod(gpus("2"), on("")), group: group("q"), wantNone: true},
		"succeeded":                          {pod: pod(gpus("2"), phase(corev1.PodSucceeded)), group: group("q"), wantNone: true},
		"failed":                             {pod: pod(gpus("2"), phase(corev1.PodFailed)), group: group("q"), wantNone: true},
		"state unknown, as in Volcano":       {pod: pod(gpus("2"), phase(corev1.PodUnknown)), group: group("q"), wantNone: true},
		"terminating":                        {pod: pod(gpus("2"), deleted), group: group("q"), wantNone: true},
		"asks for no cards":                  {pod: pod(asks("cpu", "4")), group: group("q"), wantQueue: "q"},
		"asks for zero cards":                {pod: pod(gpus("0")), group: group("q"), wantQueue: "q"},
		"other scalar resources are ignored": {pod: pod(asks("rdma/hca", "4")), group: group("q"), wantQueue: "q"},
		"card.name alone asks for nothing":   {pod: pod(note("volcano.sh/card.name", "H200")), group: group("q"), wantQueue: "q"},

		// which queue
		"the queue of the binding beats the PodGroup":     {pod: pod(gpus("1"), note("cardquota.dev/charged-queue", "first"), note("scheduling.volcano.sh/queue-name", "other")), group: group("q"), wantQueue: "first", wantCards: held("H200", 1)},
		"the PodGroup's queue beats the pod's annotation": {pod: pod(gpus("1"), note("scheduling.volcano.sh/queue-name", "other")), group: group("q"), wantQueue: "q", wantCards: held("H200", 1)},
		"a PodGroup without a queue is in default":        {pod: pod(gpus("1")), group: group(""), wantQueue: "default", wantCards: held("H200", 1)},
		"PodGroup gone: the queue charged last":           {pod: pod(gpus("1"), note("scheduling.volcano.sh/queue-name", "other")), last: last("q", "H200", 1), wantQueue: "q", wantCards: held("H200", 1)},
		"PodGroup gone: the pod's annotation":             {pod: pod(gpus("1"), note("scheduling.volcano.sh/queue-name", "q")), wantQueue: "q", wantCards: held("H200", 1)},
		"PodGroup gone: the vcjob's annotation":           {pod: pod(gpus("1"), note("volcano.sh/queue-name", "q")), wantQueue: "q", wantCards: held("H200", 1)},
		"no PodGroup and no annotation":                   {pod: pod(gpus("1")), wantQueue: "", wantCards: held("H200", 1)},

		// which card
		"the card of the node, not the one asked for":          {pod: pod(gpus("1"), note("volcano.sh/card.name", "4090")), group: group("q"), wantQueue: "q", wantCards: held("H200", 1)},
		"without card.name the card it landed on":              {pod: pod(gpus("1"), on("4090")), group: group("q"), wantQueue: "q", wantCards: held("4090", 1)},
		"alternatives: the one it landed on":                   {pod: pod(gpus("1"), on("4090"), note("volcano.sh/card.name", "H200|4090")), group: group("q"), wantQueue: "q", wantCards: held("4090", 1)},
		"another vendor's resource":                            {pod: pod(asks("huawei.com/Ascend910", "8"), on("ascend")), group: group("q"), wantQueue: "q", wantCards: held("910B", 8)},
		"a slice beside whole cards":                           {pod: pod(asks("nvidia.com/mig-1g.18gb", "3"), on("mig")), group: group("q"), wantQueue: "q", wantCards: held("H200/mig-1g.18gb-mixed", 3)},
		"label lost: the card charged last":                    {pod: pod(gpus("1"), on("unnamed")), group: group("q"), last: last("q", "4090", 1), wantQueue: "q", wantCards: held("4090", 1)},
		"node gone: the card charged last":                     {pod: pod(gpus("1"), on("gone")), group: group("q"), last: last("q", "4090", 1), wantQueue: "q", wantCards: held("4090", 1)},
		"relabelled: the card the node has now":                {pod: pod(gpus("1"), on("4090")), group: group("q"), last: last("q", "H200", 1), wantQueue: "q", wantCards: held("4090", 1)},
		"label lost, nothing charged: the card it names":       {pod: pod(gpus("1"), on("unnamed"), note("volcano.sh/card.name", "H200")), group: group("q"), wantQueue: "q", wantCards: held("H200", 1)},
		"label lost, two alternatives: both are withheld":      {pod: pod(gpus("1"), on("unnamed"), note("volcano.sh/card.name", "H200|4090")), group: group("q"), wantQueue: "q", wantCards: append(held("H200", 1), held("4090", 1)...)},
		"label lost, nothing named: every card it may be":      {pod: pod(gpus("1"), on("unnamed")), group: group("q"), wantQueue: "q", wantCards: append(held("4090", 1), held("H200", 1)...)},
		"two card resources, placed past us: both are charged": {pod: pod(gpus("1"), asks("nvidia.com/mig-1g.18gb", "2"), on("mig")), group: group("q"), wantQueue: "q", wantCards: append(held("H200", 1), held("H200/mig-1g.18gb-mixed", 2)...)},

		"a resource that is a card nowhere, named: the card it names":       {pod: pod(asks("amd.com/gpu", "1"), on("unnamed"), note("volcano.sh/card.name", "MI300X"), note("cardquota.dev/charged-queue", "q")), group: group("q"), wantQueue: "q", wantCards: held("MI300X", 1)},
		"a resource that is a card nowhere, named, placed past us: no card": {pod: pod(asks("amd.com/gpu", "1"), on("unnamed"), note("volcano.sh/card.name", "H200")), group: group("q"), wantQueue: "q"},

		// how many
		"init containers count by their maximum":   {pod: pod(gpus("2"), initContainer("4"), initContainer("1")), group: group("q"), wantQueue: "q", wantCards: held("H200", 4)},
		"sidecars count beside the containers":     {pod: pod(gpus("2"), sidecar("1")), group: group("q"), wantQueue: "q", wantCards: held("H200", 3)},
		"a sidecar before a larger init container": {pod: pod(gpus("2"), sidecar("1"), initContainer("4")), group: group("q"), wantQueue: "q", wantCards: held("H200", 5)},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, ok := ChargeOf(tc.pod, tc.group, cluster(), tc.last)
			if ok == tc.wantNone {
				t.Fatalf("counted %v, want %v", ok, !tc.wantNone)
			}
			if got.Queue != tc.wantQueue {
				t.Errorf("queue %q, want %q", got.Queue, tc.wantQueue)
			}
			if diff := cmp.Diff(tc.wantCards, got.Cards, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("cards (-want +got):\n%s", diff)
			}
		})
	}
}

// TestWhatAPodMayAskFor is the part of the table that reads a waiting pod.
func TestWhatAPodMayAskFor(t *testing.T) {
	named := func(text string) podOption { return note("volcano.sh/card.name", text) }
	tests := map[string]struct {
		pod         *corev1.Pod
		wantNames   []card.Name
		wantRefusal string
	}{
		"one card":                                {pod(gpus("1"), named("H200")), []card.Name{"H200"}, ""},
		"alternatives in their order":             {pod(gpus("1"), named("H200|4090")), []card.Name{"H200", "4090"}, ""},
		"no name: every card of the resource":     {pod(gpus("1")), []card.Name{"4090", "H200"}, ""},
		"a card no node has may be waited for":    {pod(gpus("1"), named("B300")), []card.Name{"B300"}, ""},
		"no cards":                                {pod(asks("cpu", "1")), nil, ""},
		"a name that is none":                     {pod(gpus("1"), named("H 200")), nil, "must be a label value"},
		"an empty name":                           {pod(gpus("1"), named("")), nil, "card name is empty"},
		"a card of another resource":              {pod(gpus("1"), named("910B")), nil, "is requested as huawei.com/Ascend910, but requests nvidia.com/gpu"},
		"alternatives of two vendors":             {pod(gpus("1"), named("H200|910B")), nil, "names card <910B>"},
		"two card resources":                      {pod(gpus("1"), asks("nvidia.com/mig-1g.18gb", "1"), named("H200")), nil, "one pod uses one card"},
		"a resource that is a card nowhere":       {pod(asks("amd.com/gpu", "1"), named("MI300X")), nil, "no node offers as a card"},
		"a slice is asked for, the card is named": {pod(asks("nvidia.com/mig-1g.18gb", "1"), named("H200")), nil, "is requested as nvidia.com/gpu"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got := AskOf(tc.pod, cluster())
			if diff := cmp.Diff(tc.wantNames, got.Names, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("names (-want +got):\n%s", diff)
			}
			switch {
			case tc.wantRefusal == "" && got.Refusal != nil:
				t.Errorf("refused: %v", got.Refusal)
			case tc.wantRefusal != "" && (got.Refusal == nil || !strings.Contains(got.Refusal.Message, tc.wantRefusal)):
				t.Errorf("refusal %v, want %q", got.Refusal, tc.wantRefusal)
			}
		})
	}
}

// TestWhatAQueueAllows is the part of the table that reads a Queue.
func TestWhatAQueueAllows(t *testing.T) {
	queue := func(quota string, capability corev1.ResourceList, state v1beta1.QueueState) *v1beta1.Queue {
		q := &v1beta1.Queue{ObjectMeta: metav1.ObjectMeta{Name: "q"}, Spec: v1beta1.QueueSpec{Capability: capability}, Status: v1beta1.QueueStatus{State: state}}
		if quota != "" {
			q.Annotations = map[string]string{"volcano.sh/card.quota": quota}
		}
		return q
	}
	some := corev1.ResourceList{"cpu": resource.MustParse("4"), "memory": resource.MustParse("4Gi")}
	root := queue(`{"H200":1}`, nil, "")
	root.Name = "root"
	going := queue(`{"H200":1}`, some, "Open")
	deletedAt := metav1.Now()
	going.DeletionTimestamp = &deletedAt
	tests := map[string]struct {
		queue       *v1beta1.Queue
		unmanaged   Unmanaged
		want        account.Limits
		wantRefusal string
	}{
		"quota and capability":                   {queue(`{"H200":8}`, some, "Open"), Enforce, account.Limits{Cards: card.Quota{"H200": 8}, MilliCPU: 4000, Memory: 4 << 30}, ""},
		"capability not set is 0 beside a quota": {queue(`{"H200":8}`, nil, "Open"), Enforce, account.Limits{Cards: card.Quota{"H200": 8}}, ""},
		"an empty quota is a quota":              {queue(`{}`, some, "Open"), Ignore, account.Limits{MilliCPU: 4000, Memory: 4 << 30}, ""},
		"unmanaged: no cards, CPU unlimited":     {queue("", nil, "Open"), Enforce, account.Limits{MilliCPU: account.Unlimited, Memory: account.Unlimited}, ""},
		"unmanaged with capability":              {queue("", some, "Open"), Enforce, account.Limits{MilliCPU: 4000, Memory: 4 << 30}, ""},
		"unmanaged and ignored: any card":        {queue("", nil, "Open"), Ignore, account.Limits{AnyCard: true, MilliCPU: account.Unlimited, Memory: account.Unlimited}, ""},
		"root is no way around the quotas":       {root, Enforce, account.Limits{MilliCPU: account.Unlimited, Memory: account.Unlimited}, ""},
		"root while queues are being moved":      {root, Ignore, account.Limits{AnyCard: true, MilliCPU: account.Unlimited, Memory: account.Unlimited}, ""},
		"a quota that cannot be read":            {queue(`{"H200":1.5}`, some, "Open"), Ignore, account.Limits{}, "invalid volcano.sh/card.quota"},
		"closed":                                 {queue(`{}`, nil, "Closed"), Enforce, account.Limits{}, "is Closed, not Open"},
		"closing":                                {queue(`{}`, nil, "Closing"), Enforce, account.Limits{}, "is Closing, not Open"},
		"no state yet":                           {queue(`{}`, nil, ""), Enforce, account.Limits{}, "has no state yet"},
		"being deleted":                          {going, Enforce, account.Limits{Cards: card.Quota{"H200": 1}, MilliCPU: 4000, Memory: 4 << 30}, "is being deleted"},
		"a capability beyond 64 bits": {queue(`{}`, corev1.ResourceList{"cpu": resource.MustParse("1e30"), "memory": resource.MustParse("1e30")}, "Open"), Enforce,
			account.Limits{MilliCPU: account.Unlimited, Memory: account.Unlimited}, ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got := RulesOf(tc.queue, tc.unmanaged)
			if diff := cmp.Diff(tc.want, got.Limits, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("limits (-want +got):\n%s", diff)
			}
			switch {
			case tc.wantRefusal == "" && got.Refusal != nil:
				t.Errorf("refused: %v", got.Refusal)
			case tc.wantRefusal != "" && (got.Refusal == nil || !strings.Contains(got.Refusal.Message, tc.wantRefusal)):
				t.Errorf("refusal %v, want %q", got.Refusal, tc.wantRefusal)
			}
		})
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
	tests := map[string]struct{ queue, pod, group, owner, want string }{
		"the queue decides":   {"training", "inference", "inference", "inference", "training"},
		"then the pod":        {"", "inference", "training", "training", "inference"},
		"then the PodGroup":   {"", "", "training", "inference", "training"},
		"then the owner kind": {"", "", "", "inference", "inference"},
		"nothing is unknown":  {"", "", "", "", ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got := ServiceTypeOf(with(tc.queue), with(tc.pod), with(tc.group), tc.owner)
			if got != tc.want {
				t.Errorf("service type %q, want %q", got, tc.want)
			}
		})
	}
}

func TestRefusalsAreWrittenInWholeNumbers(t *testing.T) {
	tests := map[string]struct {
		short account.Shortage
		want  Refusal
	}{
		"cards": {account.Shortage{Kind: account.Cards, Queue: "q", Names: []card.Name{"NVIDIA-H200"}, Requested: 5, Total: 5, Limit: 3},
			Refusal{"InsufficientScalarQuota", "Queue <q> has insufficient <NVIDIA-H200> quota: requested <5>, total would be <5>, but capability is <3>"}},
		"cards that are ending": {account.Shortage{Kind: account.Ending, Queue: "q", Names: []card.Name{"NVIDIA-H200"}, Requested: 1, Total: 12, Limit: 8, Within: time.Hour},
			Refusal{"CardsEnding", "Queue <q> gets no more <NVIDIA-H200> while pods that are being deleted hold more than its quota: ending <12>, but capability is <8>; " +
				"they end within 3600 s, sooner with a shorter terminationGracePeriodSeconds"}},
		"CPU": {account.Shortage{Kind: account.CPU, Queue: "q", Requested: 500, Total: 4500, Limit: 4000},
			Refusal{"InsufficientCPUQuota", "Queue <q> has insufficient CPU quota: requested <500m>, total would be <4500m>, but capability is <4000m>"}},
		"memory": {account.Shortage{Kind: account.Memory, Queue: "q", Requested: 1 << 30, Total: 5<<30 + 1, Limit: 4 << 30},
			Refusal{"InsufficientMemoryQuota", "Queue <q> has insufficient memory quota: requested <1024Mi>, total would be <5121Mi>, but capability is <4096Mi>"}},
		"capability not set": {account.Shortage{Kind: account.CPU, Queue: "q", Requested: 500, Total: 500},
			Refusal{"EmptyQueueCapability", "Queue <q> has no cpu capability and may use none: set spec.capability.cpu (spec.resources.cpu of its CardQuota)"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, *Short(&tc.short)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestQueueOfAPodWithoutANode: the queue of a binding is written with the
// binding; before that it is whatever the pod's maker wrote.
func TestQueueOfAPodWithoutANode(t *testing.T) {
	waiting := pod(gpus("1"), on(""), note("cardquota.dev/charged-queue", "forged"))
	if got := QueueOf(waiting, group("q"), ""); got != "q" {
		t.Errorf("queue %q, want that of its PodGroup", got)
	}
}
