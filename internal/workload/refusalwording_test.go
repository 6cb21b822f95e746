package workload

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
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
// reads them again to say why a workload waits. The limits are random. What is read is the refusal itself, with
// memory rounded up to whole Mi, and has the reason that the limit means (blockedReasonOf). It does not matter whether
// unmanagedQueues denies the queue. Reasons of nodes, which begin with a small letter, are read alike.
func TestEveryInsufficientQuotaIsReadAgain(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		insufficient := quota.InsufficientQuota{
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
		if insufficient.Kind != quota.Terminating { // terminating pods use cards alone
			insufficient.Of = rapid.SampledFrom([]quota.Resource{"", quota.CPU, quota.Memory}).Draw(t, "of")
		}

		rules := QueueRules{Denied: rapid.Bool().Draw(t, "denied")}
		refusal := rules.RefusalFor(&insufficient)
		message := refusal.Message()
		if rapid.Bool().Draw(t, "is a reason of nodes") {
			message = refusal.NodeMessage()
		}

		got, isRefusal := ReadRefusal(message)
		check.Must(t, isRefusal, "%q is not read", message)
		check.Equal(t, message, inMebibytes(*refusal), got)
		check.Equal(t, "reason of "+message, blockedReasonOf(insufficient), got.Blocked())
	})
}

// inMebibytes is a refusal with memory as its message says it, in whole Mi.
func inMebibytes(r Refusal) Refusal {
	if r.Resource == quota.Memory {
		for _, amount := range []*int64{&r.Requested, &r.Total, &r.Limit} {
			*amount = (*amount + mebibyte - 1) / mebibyte * mebibyte
		}
	}
	return r
}

// refusalGenerator draws a refusal of a sentence: each field of the sentence with a value that it can have.
type refusalGenerator struct {
	*rapid.T
	refusal Refusal
}

// The names that refusals have: of queues, cards with all letters that a card name can have, and other objects.
var (
	queueNames  = rapid.StringMatching(`[a-z0-9]([-a-z0-9.]{0,20}[a-z0-9])?`)
	cardNames   = rapid.StringMatching(`[A-Za-z0-9]([-A-Za-z0-9_.]{0,20}[A-Za-z0-9])?(/mig-[a-z0-9][-a-z0-9_.]{0,9}-mixed(-SHARED)?|/mps-[0-9]{1,6}g\*1/[1-9][0-9]{0,3})?`)
	objectNames = rapid.StringMatching(`[A-Za-z0-9]([-A-Za-z0-9_./]{0,30}[A-Za-z0-9])?`)
)

func (g *refusalGenerator) drawName(names *rapid.Generator[string], of string) string {
	return names.Draw(g.T, of)
}

// drawAmount draws an amount up to the largest that is read, in the unit of the resource.
func (g *refusalGenerator) drawAmount(of string) int64 {
	if g.refusal.Resource == quota.Memory {
		return rapid.Int64Range(0, maxQuantity/mebibyte).Draw(g.T, of) * mebibyte
	}
	return rapid.Int64Range(0, maxQuantity).Draw(g.T, of)
}

func (g *refusalGenerator) drawCards() {
	g.refusal.Cards = strings.Join(rapid.SliceOfN(cardNames, 1, 4).Draw(g.T, "cards"), "|")
}

// drawRequester draws another queue below the one that refuses, or none.
func (g *refusalGenerator) drawRequester() {
	g.refusal.Requester = rapid.OneOf(rapid.Just(""), rapid.Map(queueNames, func(name string) string { return name + "-below" })).Draw(g.T, "requester")
}

func (g *refusalGenerator) drawMore() {
	r := &g.refusal
	r.OtherCards = rapid.IntRange(0, 16).Draw(g.T, "other cards")
	r.IsDenied = rapid.Bool().Draw(g.T, "denied")
	r.IsKept = rapid.Bool().Draw(g.T, "kept")
	if rapid.Bool().Draw(g.T, "card.request") {
		r.AllCards = rapid.Int64Range(2, 1_000_000).Draw(g.T, "all cards")
		r.MinimumCards = rapid.Int64Range(1, r.AllCards-1).Draw(g.T, "minimum")
	}
}

// drawField draws a field of a sentence.
func (g *refusalGenerator) drawField(name string) {
	r := &g.refusal

	switch name {
	case "queue", "waiting":
		r.Queue = g.drawName(queueNames, "queue")
	case "cards":
		g.drawCards()
	case "resource":
		r.Resource = rapid.SampledFrom([]quota.Resource{"", quota.CPU, quota.Memory}).Draw(g.T, "resource")
		if r.Resource == "" {
			g.drawCards()
		}
	case "ancestorOf", "binds", "in", "itsAncestor":
		g.drawRequester()
	case "owner":
		g.drawRequester()
		if r.Requester != "" && rapid.Bool().Draw(g.T, "is the inventory") {
			r.Queue = ""
		}
	default:
		g.drawOther(name)
	}
}

// drawOther draws a field that says more than who is refused and which cards.
func (g *refusalGenerator) drawOther(name string) {
	r := &g.refusal

	switch name {
	case "object":
		r.Object = g.drawName(objectNames, "object")
	case "other":
		r.Other = g.drawName(objectNames, "other")
	case "detail":
		r.Detail = g.drawName(objectNames, "detail")
	case "mixed":
		r.Detail = g.drawName(objectNames, "detail") + ": " + card.MixedResources + ", name cards of one resource"
	case "policy":
		r.Policy = rapid.SampledFrom([]v1alpha1.UnmanagedQueues{v1alpha1.UnmanagedDeny, v1alpha1.UnmanagedEnforce}).Draw(g.T, "policy")
	case "seconds":
		r.GracePeriod = time.Duration(rapid.IntRange(0, 1_000_000).Draw(g.T, "seconds")) * time.Second
	case "more":
		g.drawMore()
	case "requested", "total", "limit": // once the resource is known
	default:
		g.Fatalf("no value is drawn for {%s}", name)
	}
}

// fieldsOf are the names of the fields of a sentence.
func fieldsOf(text string) []string {
	var names []string
	for _, found := range regexp.MustCompile(`\{(\w+)\}`).FindAllStringSubmatch(text, -1) {
		names = append(names, found[1])
	}
	return names
}

// drawRefusal draws a refusal of a sentence.
func drawRefusal(t *rapid.T, of sentence) Refusal {
	g := refusalGenerator{t, Refusal{Code: of.code}}
	switch of.code {
	case CodeCPUQuota:
		g.refusal.Resource = quota.CPU
	case CodeMemoryQuota:
		g.refusal.Resource = quota.Memory
	}

	names := fieldsOf(of.text)
	for _, name := range names {
		g.drawField(name)
	}

	for name, amount := range map[string]*int64{"requested": &g.refusal.Requested, "total": &g.refusal.Total, "limit": &g.refusal.Limit} {
		if slices.Contains(names, name) {
			*amount = g.drawAmount(name)
		}
	}

	return g.refusal
}

// TestEverySentenceIsReadAgain: what is written of a refusal is read again, in words and as data. This is so for
// every code that means a reason to wait (blocked): with card names of all letters, large numbers, CPU and memory, and
// ancestors in a tree. In the text of a sentence, fields stand in {}, and decidedMark (¦) stands behind what is enough
// to recognise it. A message that is truncated there has its code.
func TestEverySentenceIsReadAgain(t *testing.T) {
	for _, of := range sentences {
		if of.blocked == "" {
			continue
		}

		t.Run(string(of.code), func(t *testing.T) {
			seed.Check(t, func(t *rapid.T) {
				refusal := drawRefusal(t, of)
				message := refusal.Message()
				check.That(t, !strings.ContainsAny(message, "{}¦"), "%q has a field without a value", message)
				for text, read := range map[string]func(string) (Refusal, bool){
					message: ReadRefusal, refusal.NodeMessage(): ReadRefusal, refusal.Data(): ReadRefusalData,
				} {
					got, isRefusal := read(text)
					check.Must(t, isRefusal, "%q is not read", text)
					check.Equal(t, text, refusal, got)
				}

				start, _, isLonger := strings.Cut(of.text, decidedMark)
				if isLonger {
					w := wording{sentence: of, parts: splitSentence(start)}
					var decided strings.Builder
					w.write(&refusal, &decided)
					got, isRefusal := ReadRefusal(decided.String() + "…")
					check.That(t, isRefusal && got.Code == of.code, "%q is read as %s", decided.String(), got.Code)
				}
			})
		})
	}
}

// refusalsByMeaning are all other refusals of pods and PodGroups that this package makes, by what they mean to a
// workload.
func refusalsByMeaning() map[*Refusal]v1alpha1.BlockedReason {
	out := map[*Refusal]v1alpha1.BlockedReason{
		(&QueueRules{Denied: true}).RefusalFor(&quota.InsufficientQuota{Queue: RootQueue, Limit: 0}): "NoQuota",
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

// madeElsewhere are the codes of refusals that other packages make, and those of limits.
var madeElsewhere = map[Code]v1alpha1.BlockedReason{
	CodeCardQuota: "NoQuota", CodeCPUQuota: "CPUQuotaExhausted", CodeMemoryQuota: "MemoryQuotaExhausted",
	CodeNoCPU: "CPUQuotaExhausted", CodeNoMemory: "MemoryQuotaExhausted", CodeTerminating: "CardsTerminating",
	CodeNotReclaimable: "NotReclaimable", CodeRecentlyReclaimed: "RecentlyReclaimed", CodeKeptForReclaimers: "GuaranteedToOthers",
	CodeGuaranteed: "GuaranteedToOthers", CodeBeyondInventory: "NoFreeCard", CodeBeyondDeserved: "Other",

	CodeInvalidArguments: "SchedulerNotReady", CodeNotSynced: "SchedulerNotReady", CodeVCJobUnknown: "SchedulerNotReady",
	CodeQueueNotFound:    "QueueNotFound",
	CodeClaimsUnreadable: "UnmanagedClaim", CodeClaimForCards: "UnmanagedClaim", CodeClaimForAny: "UnmanagedClaim",
	CodeClaimNotFound: "Other", CodePodGroupNotFound: "PodGroupNotFound",
}

// TestEveryRefusalIsReadAgain: each message of a refusal that this package makes (refusalsByMeaning) is read as that
// refusal, with its reason. Of the others (madeElsewhere) only the reason is checked. Each sentence is in one of the
// two lists and has a reason for events, unless it has no meaning to a workload (blocked).
func TestEveryRefusalIsReadAgain(t *testing.T) {
	covered := map[Code]bool{}
	for refusal, want := range refusalsByMeaning() {
		check.Must(t, refusal != nil, "a refusal of %s is missing", want)
		covered[refusal.Code] = true
		got, isRefusal := ReadRefusal(refusal.Message())
		check.That(t, isRefusal && got.Blocked() == want, "%q is read as %q, want %s", refusal.Message(), got.Blocked(), want)
		check.Equal(t, refusal.Message(), *refusal, got)
	}

	for code, want := range madeElsewhere {
		covered[code] = true
		check.Equal(t, "reason of "+string(code), want, (&Refusal{Code: code}).Blocked())
	}

	for _, of := range sentences {
		check.That(t, covered[of.code] || of.blocked == "", "no refusal of %s is made", of.code)
		check.That(t, of.blocked == "" || of.reason != "", "%s has no reason for events", of.code)
	}
}

// TestRefusalDataStaysTheSame: other programs read the data of a refusal, so its keys are a contract. They are read
// from a later version that has more of them. They are not read without a code that makes work wait, nor with a
// resource or an amount that no refusal has.
func TestRefusalDataStaysTheSame(t *testing.T) {
	refusal := Refusal{
		Code: CodeCardQuota, Queue: "lab", Requester: "lab-chat", Cards: "NVIDIA-H200|NVIDIA-H100", OtherCards: 1,
		Requested: 4, Total: 9, Limit: 8, GracePeriod: time.Second, IsDenied: true, IsKept: true, AllCards: 16, MinimumCards: 4,
		Object: "lab/p", Other: "n", Detail: "why", Policy: v1alpha1.UnmanagedIgnore, Resource: quota.CPU,
	}
	const data = `{"code":"CardQuota","queue":"lab","requester":"lab-chat","cards":"NVIDIA-H200|NVIDIA-H100","otherCards":1,` +
		`"resource":"cpu","requested":4,"total":9,"limit":8,"gracePeriodNanoseconds":1000000000,"isDenied":true,"isKept":true,` +
		`"allCards":16,"minimumCards":4,"object":"lab/p","other":"n","detail":"why","policy":"Ignore"}`
	check.Equal(t, "data", data, refusal.Data())

	got, isRefusal := ReadRefusalData(`{"later":true,` + data[1:])
	check.That(t, isRefusal, "data of a later version is not read")
	check.Equal(t, "refusal of a later version", refusal, got)

	for _, text := range []string{
		"", "{}", "null", `"CardQuota"`, data[:len(data)-1],
		`{"code":"Later"}`, `{"code":"MayNotReclaim"}`,
		`{"code":"CardQuota","limit":"8"}`, `{"code":"CardQuota","resource":"pods"}`,
		`{"code":"CardQuota","requested":-1}`, `{"code":"CardQuota","total":9223372036854775807}`,
	} {
		_, isRefusal := ReadRefusalData(text)
		check.That(t, !isRefusal, "%q is read as a refusal", text)
	}
}

// TestOtherTextsAreNoRefusals: tenants and other schedulers write any text into conditions. A text that only begins
// like a refusal is none, and no text makes reading panic.
func TestOtherTextsAreNoRefusals(t *testing.T) {
	for _, text := range []string{
		"", "Queue", "Queue <q", "Queue <q>", "Queue <q> is full", "Queue <q> has insufficient <",
		"Queue <q> has insufficient <A> quota", "Queue <q>, an ancestor of <", "Pueue <q> does not exist", "Namespace <",
		"Insufficient nvidia.com/gpu", "all nodes are unavailable",
		"Pod lab/a can possibly be assigned to n, once minAvailable is satisfied",
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
