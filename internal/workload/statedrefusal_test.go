package workload

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"pgregory.net/rapid"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/seed"
)

// blockedReasonOf is what each limit of a queue means to a workload.
func blockedReasonOf(s quota.InsufficientQuota) v1alpha1.BlockedReason {
	switch {
	case s.Kind == quota.HardLimit && s.Of == quota.CPU:
		return "CPUQuotaExhausted"
	case s.Kind == quota.HardLimit && s.Of == quota.Memory:
		return "MemoryQuotaExhausted"
	case s.Kind == quota.HardLimit && s.Ancestor:
		return "AncestorQuotaExhausted"
	case s.Kind == quota.HardLimit && s.Limit == 0:
		return "NoQuota"
	}

	return cmp.Or(map[quota.LimitKind]v1alpha1.BlockedReason{
		quota.HardLimit:         "QuotaExhausted",
		quota.Terminating:       "CardsTerminating",
		quota.NotReclaimable:    "NotReclaimable",
		quota.RecentlyReclaimed: "RecentlyReclaimed",
		quota.KeptForOthers:     "GuaranteedToOthers",
		quota.Guaranteed:        "GuaranteedToOthers",
		quota.Inventory:         "NoFreeCard",
	}[s.Kind], "Other")
}

// TestEveryInsufficientQuotaIsReadAgain: the scheduler states refusals as messages in conditions, and the operator
// reads them again to say why a workload waits. Refusals are random. The reason of each is read. Where the limit has
// them, its cards, numbers and queue are read as well. Reasons of nodes, which begin with a small letter, are read alike.
func TestEveryInsufficientQuotaIsReadAgain(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		s := quota.InsufficientQuota{
			Kind:        quota.LimitKind(rapid.IntRange(int(quota.HardLimit), int(quota.Inventory)).Draw(t, "kind")),
			Queue:       rapid.SampledFrom([]string{"q", "team-a.lab"}).Draw(t, "queue"),
			Ancestor:    rapid.Bool().Draw(t, "ancestor"),
			Requester:   "leaf",
			Names:       []card.Name{"NVIDIA-H200", "NVIDIA-H800/mps-80g*1/2"}[:rapid.IntRange(1, 2).Draw(t, "names")],
			OtherCards:  rapid.IntRange(0, 2).Draw(t, "others"),
			Requested:   rapid.Int64Range(1, 9).Draw(t, "requested"),
			Total:       rapid.Int64Range(1, 99).Draw(t, "total"),
			Limit:       rapid.Int64Range(0, 9).Draw(t, "limit"),
			GracePeriod: time.Minute,
		}
		if s.Kind != quota.Terminating {
			s.Of = rapid.SampledFrom([]quota.Resource{"", quota.CPU, quota.Memory}).Draw(t, "of")
		}

		rules := QueueRules{Denied: rapid.Bool().Draw(t, "denied")}
		message := rules.RefusalFor(&s).Message
		if rapid.Bool().Draw(t, "is a reason of nodes") {
			message = strings.ToLower(message[:1]) + message[1:]
		}

		got, isRefusal := ReadRefusal(message)
		check.Must(t, isRefusal, "%q is not read", message)
		check.Equal(t, message, blockedReasonOf(s), got.Reason)
		switch {
		case s.Kind == quota.Deserved:
		case s.Of.IsCard():
			check.Equal(t, "cards", s.Names, got.Cards)
		default:
			check.Must(t, got.Cards == nil, "%q is read as of cards %v", message, got.Cards)
		}

		if s.Kind == quota.HardLimit && s.Of.IsCard() {
			check.Equal(t, "numbers", [3]int64{s.Requested, s.Total, s.Limit}, [3]int64{got.Requested, got.Total, got.Limit})
		}
		if s.Kind <= quota.Terminating {
			check.Must(t, got.Queue == s.Queue, "%q is read as of queue %q", message, got.Queue)
		}
	})
}

// refusals are all other refusals of pods and PodGroups, by what they mean to a workload.
func refusals() map[*Refusal]v1alpha1.BlockedReason {
	out := map[*Refusal]v1alpha1.BlockedReason{
		{Message: "Arguments of capacity-card are invalid: x"}:                              "SchedulerNotReady",
		RefusalForUnknownVCJob("lab", "train"):                                              "SchedulerNotReady",
		{Message: "the scheduler has just started and has not seen every node and pod yet"}: "SchedulerNotReady",
		// Package deviceclaim tests all of its messages.
		{
			Reason: ReasonUnmanagedClaim,
			Message: "Pod has ResourceClaim <c> for devices of driver <gpu.nvidia.com>, which are cards that no quota limits " +
				"(unmanagedQueues: Enforce)",
		}: "UnmanagedClaim",
		{Reason: ReasonUnmanagedClaim, Message: "Pod waits for ResourceClaim <c>, which does not exist yet"}: "Other",
		{Reason: ReasonQueueNotFound, Message: "Queue <q> does not exist"}:                                   "QueueNotFound",
		(&QueueRules{Denied: true}).RefusalFor(&quota.InsufficientQuota{Queue: RootQueue, Limit: 0}):         "NoQuota",
	}

	for kind := quota.ParentNotFound; kind <= quota.IsHeld; kind++ {
		for _, at := range []string{"q", "above"} {
			out[RefusalForFault("q", quota.Fault{Kind: kind, Queue: at, Parent: "p"})] = "QueueStopped"
			out[RefusalForFault("q", quota.Fault{
				Kind:        kind,
				Queue:       at,
				Parent:      "p",
				HoldMessage: "CardQuota q: its parent does not exist",
			})] = "QueueStopped"
		}
	}

	for _, state := range []v1beta1.QueueState{"", v1beta1.QueueStateClosed, v1beta1.QueueStateClosing, "odd"} {
		out[QueueRulesFor(builder.Queue("q").State(state).Obj(), "", nil).Refusal] = "QueueStopped"
	}

	out[QueueRulesFor(builder.Queue("q").Quota("[]").Obj(), "", nil).Refusal] = "QueueStopped"
	rules := QueueRulesFor(builder.Queue("q").Annotation(v1alpha1.AnnotationCardDeserved, "[]").Obj(), "", nil)
	out[rules.TreeRefusal] = "QueueStopped"
	out[QueueRulesFor(builder.Queue("q").Deleted(time.Unix(0, 0)).Obj(), "", nil).Refusal] = "QueueStopped"

	_, invalid := NamespaceSelectorFor(builder.Queue("q").Annotation(v1alpha1.AnnotationNamespaceSelector, "[]").Obj())
	out[invalid] = "NamespaceNotAllowed"
	for _, namespace := range []*corev1.Namespace{nil, builder.Namespace("lab")} {
		refusal := CheckNamespace("q", labels.SelectorFromSet(labels.Set{"team": "chat"}), "lab", namespace)
		out[refusal] = "NamespaceNotAllowed"
		out[RefusalOfAncestor("leaf", refusal)] = "NamespaceNotAllowed"
	}

	inventory := card.NewInventory(map[string]card.Node{
		"a": {Cards: []card.NodeCard{
			{Name: "NVIDIA-H200", Resource: builder.GPU, Count: 8},
			{Name: "NVIDIA-H200/mig-1g.18gb-mixed", Resource: "nvidia.com/mig-1g.18gb", Count: 8},
		}},
		"b": {Unnamed: []corev1.ResourceName{"vendor.example/npu"}},
	})

	resolver := Resolver{Inventory: inventory}
	newPod := func() *builder.PodBuilder { return builder.Pod("lab", "p") }
	for reason, denied := range map[v1alpha1.BlockedReason][]*builder.PodBuilder{
		"InvalidRequest": {newPod().Card("-").GPUs(1), newPod().GPUs(int(card.MaxCount) + 1)},
		"WrongCombination": {
			newPod().Card("NVIDIA-H200|NVIDIA-H200/mig-1g.18gb-mixed").GPUs(1), newPod().GPUs(1).
				Requests("nvidia.com/mig-1g.18gb", "1"),
			newPod().Card("NVIDIA-H200").Requests("nvidia.com/mig-1g.18gb", "1"),
		},
		"UnknownCard": {newPod().Requests("vendor.example/npu", "1"), newPod().Card("Ascend-910B").
			Requests("huawei.com/Ascend910", "1")},
	} {
		for _, b := range denied {
			out[resolver.Request(b.Obj()).Denied] = reason
		}
	}

	for text, reason := range map[string]v1alpha1.BlockedReason{
		"nonsense": "InvalidRequest",
		`{"NVIDIA-H200|NVIDIA-H200/mig-1g.18gb-mixed":1}`: "WrongCombination",
	} {
		_, refusal := resolver.PodGroupRequest(text, true, nil)
		out[refusal] = reason
	}

	return out
}

// TestEveryRefusalIsReadAgain: each message of a refusal that is not about a limit is read with its reason. No reason
// in the sources is left out: the test finds them by their constants.
func TestEveryRefusalIsReadAgain(t *testing.T) {
	covered := map[string]bool{}
	for refusal, want := range refusals() {
		check.Must(t, refusal != nil, "a refusal of %s is missing", want)
		covered[refusal.Reason] = true
		got, isRefusal := ReadRefusal(refusal.Message)
		check.That(t, isRefusal && got.Reason == want, "%q is read as %q, want %s", refusal.Message, got.Reason, want)
	}

	// Written for a limit, see TestEveryInsufficientQuotaIsReadAgain.
	for _, reason := range []string{
		ReasonInsufficientScalarQuota, ReasonInsufficientCPUQuota, ReasonInsufficientMemoryQuota, ReasonEmptyQueueCapability,
		ReasonCardsEnding, ReasonGuaranteed, ReasonCannotBorrow,
	} {
		covered[reason] = true
	}

	covered[ReasonNotReady] = true // by its messages
	for name, reason := range reasonConstants(t) {
		check.That(t, covered[reason], "no refusal of %s (%s) is written and read", name, reason)
	}
}

// reasonConstants returns the reasons of refusals in the sources.
func reasonConstants(t *testing.T) map[string]string {
	found := map[string]string{}
	for _, file := range []string{"refusal.go", "treequeue.go"} {
		parsed := check.Value(parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution))(t)
		ast.Inspect(parsed, func(node ast.Node) bool {
			if spec, ok := node.(*ast.ValueSpec); ok && len(spec.Values) == 1 && strings.HasPrefix(spec.Names[0].Name, "Reason") {
				found[spec.Names[0].Name] = strings.Trim(spec.Values[0].(*ast.BasicLit).Value, `"`)
			}
			return true
		})
	}

	check.Must(t, len(found) > 15, "only %d reasons were found", len(found))

	return found
}

// TestOtherTextsAreNoRefusals: tenants and other schedulers write any text into conditions. A text that only begins
// like a refusal is none, and no text makes reading panic.
func TestOtherTextsAreNoRefusals(t *testing.T) {
	for _, text := range []string{
		"", "Queue", "Queue <q", "Queue <q>", "Queue <q> is full", "Queue <q> has insufficient <", "Queue <q> has insufficient <A> quota", "Queue <q>, an ancestor of <",
		"Insufficient nvidia.com/gpu", "all nodes are unavailable", "Pod lab/a can possibly be assigned to n, once minAvailable " +
			"is satisfied", "Namespace <",
	} {
		got, isRefusal := ReadRefusal(text)
		check.That(t, !isRefusal, "%q is read as %+v", text, got)
	}

	seed.Check(t, func(t *rapid.T) {
		text := rapid.String().Draw(t, "text")
		ReadRefusal(text)
		ReadRefusal(fmt.Sprintf("Queue <%s> has insufficient <%s", text, text))
	})
}
