package explanation

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/cli/nodecards"
	"cardquota.dev/operator/internal/cli/output"
	"cardquota.dev/operator/internal/simulation"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
)

var update = flag.Bool("update", false, "write the golden files from the explanations")

var at = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

func count(n int64) *int64 { return &n }

// newQuota is a CardQuota with a quota of H200, some of them used. Its 4 H800 are free, and may take their place.
func newQuota(name string, quota, used int64) *v1alpha1.CardQuota {
	return builder.CardQuota(name).Condition(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReady, "ok").With(func(q *v1alpha1.CardQuota) {
		q.Status.Summary = "counted"
		q.Status.Queue = &v1alpha1.QueueStatus{Name: name, State: "Open"}
		q.Status.Cards = []v1alpha1.CardStatus{{Name: "NVIDIA-H200", Quota: quota, Used: used, Free: max(0, quota-used)}, {Name: "NVIDIA-H800", Quota: 4, Free: 4}}
	}).Obj()
}

// ofJob names a Volcano job.
func ofJob(name string) v1alpha1.WorkloadReference {
	return v1alpha1.WorkloadReference{APIGroup: "batch.volcano.sh", Kind: "Job", Namespace: "lab", Name: name}
}

// newWaitingJob is Volcano job train, of which one pod runs and two wait for 2 H200 each, for a reason. Its queue llm has
// used 7 of its 8 H200. Of the nodes, h200-0 has 1 H200 free, h200-1 is not Ready, and h800-0 has 6 H800 free. The user
// may read and change everything.
func newWaitingJob(reason v1alpha1.BlockedReason, message string) Input {
	policy := builder.ServiceTypePolicy().Obj()
	policy.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionEnforced, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonEnforced}}

	gpu := []string{"nvidia.com/gpu"}
	return Input{
		Now: at, Workload: ofJob("train"), Pending: 2, Placed: 1, Queue: "llm", Policy: policy, WaitLonger: 1,
		NamesOthers: true, ChangesQuotas: true, ChangesNodes: true,
		Request: Request{Names: []card.Name{"NVIDIA-H200"}, Count: 2, Priority: 20000, PriorityClass: "pc-low"},
		Path:    []*v1alpha1.CardQuota{newQuota("llm", 8, 7)},
		Entries: []v1alpha1.BlockedStatus{{
			Workload: ofJob("train"), Since: metav1.NewTime(at.Add(-12 * time.Minute)), Card: "NVIDIA-H200", Count: 4, Reason: reason, Message: message,
		}},
		Inventory: &v1alpha1.CardInventoryStatus{Cards: []v1alpha1.InventoryCard{
			{Name: "NVIDIA-H200", Resources: gpu, Total: 16, Healthy: 16, Allocated: 15},
			{Name: "NVIDIA-H800", Resources: gpu, Total: 8, Healthy: 8, Allocated: 2},
		}},
		Nodes: []nodecards.Node{
			{Name: "h200-0", Card: "NVIDIA-H200", Total: 8, Free: count(1), Ready: true},
			{Name: "h200-1", Card: "NVIDIA-H200", Total: 8, Free: count(8)},
			{Name: "h800-0", Card: "NVIDIA-H800", Total: 8, Free: count(6), Ready: true},
		},
	}
}

func holder(name, queue string, n int64) v1alpha1.CardHolder {
	return v1alpha1.CardHolder{Workload: ofJob(name), Queue: queue, ServiceType: "training", Card: "NVIDIA-H200", Count: n}
}

// cases are what waits, by reason, and further inputs.
var cases = map[string]func() Input{
	"QuotaExhausted": func() Input {
		in := newWaitingJob(v1alpha1.BlockedQuotaExhausted,
			"Queue <llm> has insufficient <NVIDIA-H200> quota: requested <2>, total would be <9>, but capability is <8>")
		in.Entries[0].Holders = []v1alpha1.CardHolder{holder("other", "llm", 5), holder("train", "llm", 2)}
		return in
	},
	"QuotaExhausted-overused": func() Input { // the quota was lowered to 6
		in := newWaitingJob(v1alpha1.BlockedQuotaExhausted,
			"Queue <llm> has insufficient <NVIDIA-H200> quota: requested <4>, total would be <16>, but capability is <6>")
		in.Request.Count = 4
		in.Path = []*v1alpha1.CardQuota{newQuota("llm", 6, 12)}
		in.Entries[0].Count = 4
		in.Path[0].Status.Cards[0].OverQuotaBy = 6
		return in
	},
	"QuotaExhausted-reserved": func() Input { // another gang is enqueued, and its pods do not run yet
		in := newWaitingJob(v1alpha1.BlockedQuotaExhausted,
			"Queue <llm> has insufficient <NVIDIA-H200> quota: requested <6>, total would be <14>, but capability is <8>")
		in.Request.GangCount = 6
		in.Request.MinimumCount = 6
		in.Path = []*v1alpha1.CardQuota{newQuota("llm", 8, 0)}
		in.Entries[0].Count = 6
		return in
	},
	"AncestorQuotaExhausted-hidden": func() Input { // a LocalCardQuota shows nothing above it
		in := newWaitingJob(v1alpha1.BlockedAncestorQuotaExhausted,
			"Queue <institute>, an ancestor of <llm>, has insufficient <NVIDIA-H200> quota: requested <2>, total would be <13>, but capability is <12>")
		in.Path = []*v1alpha1.CardQuota{newQuota("llm", 8, 4)}
		in.ChangesQuotas = false
		in.Nodes = nil
		in.Path[0].Namespace = "lab"
		return in
	},
	"NoQuota": func() Input {
		in := newWaitingJob(v1alpha1.BlockedNoQuota,
			"Queue <llm> has insufficient <NVIDIA-H200> quota: requested <2>, total would be <2>, but capability is <0>")
		in.Path = []*v1alpha1.CardQuota{newQuota("llm", 0, 0)}
		return in
	},
	"NoQuota-unmanaged": func() Input {
		in := newWaitingJob(v1alpha1.BlockedNoQuota, "Queue <llm> has no card quota")
		in.Path = nil
		in.HasQueue = ptr.To(true)
		in.QueueState = "Open"
		return in
	},
	"QueueStopped-unmanaged": func() Input {
		in := newWaitingJob(v1alpha1.BlockedQueueStopped, "Queue <llm> is Closed, not Open")
		in.Path = nil
		in.HasQueue = ptr.To(true)
		in.QueueState = "Closed"
		return in
	},
	"CPUQuotaExhausted-unmanaged": func() Input {
		in := newWaitingJob(v1alpha1.BlockedCPUQuotaExhausted, "Queue <llm> has insufficient CPU quota")
		in.Path = nil
		in.HasQueue = ptr.To(true)
		in.QueueState = "Open"
		return in
	},
	"AncestorQuotaExhausted": func() Input {
		in := newWaitingJob(v1alpha1.BlockedAncestorQuotaExhausted,
			"Queue <institute>, an ancestor of <llm>, has insufficient <NVIDIA-H200> quota: requested <2>, total would be <13>, but capability is <12>")
		in.Path = []*v1alpha1.CardQuota{newQuota("llm", 8, 4), newQuota("institute", 12, 11)}
		in.Entries[0].Holders = []v1alpha1.CardHolder{holder("stars", "astronomy", 7)}
		return in
	},
	"NoFreeCard": func() Input {
		in := newWaitingJob(v1alpha1.BlockedNoFreeCard, "0/4 nodes are unavailable: 4 Insufficient nvidia.com/gpu.")
		in.Path = []*v1alpha1.CardQuota{newQuota("llm", 8, 2)}
		in.Entries[0].Holders = []v1alpha1.CardHolder{holder("other", "ads", 8), holder("stars", "astronomy", 7)}
		return in
	},
	"Fragmented": func() Input {
		in := newWaitingJob(v1alpha1.BlockedFragmented, "0/4 nodes are unavailable: 4 Insufficient nvidia.com/gpu.")
		in.Nodes = append(in.Nodes, nodecards.Node{Name: "h200-2", Card: "NVIDIA-H200", Total: 8, Free: count(1), Ready: true})
		return in
	},
	"UnknownCard": func() Input {
		in := newWaitingJob(v1alpha1.BlockedUnknownCard, "Pod names card <NVIDIA-H2000> but requests nvidia.com/gpu, which no node offers as a card")
		in.Request.Names = []card.Name{"NVIDIA-H2000"}
		in.Entries[0].Card = "NVIDIA-H2000"
		return in
	},
	"QueueStopped": func() Input {
		in := newWaitingJob(v1alpha1.BlockedQueueStopped, "Queue <llm> is held")
		in.Path[0].Status.Conditions[0] = metav1.Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonHeld, Message: "stopPolicy of CardQuota llm is Hold"}
		return in
	},
	"QueueNotFound": func() Input {
		in := newWaitingJob(v1alpha1.BlockedQueueNotFound, "Queue <llm> not found")
		in.Path = nil
		in.HasQueue = ptr.To(false)
		return in
	},
	"NamespaceNotAllowed": func() Input {
		in := newWaitingJob(v1alpha1.BlockedNamespaceNotAllowed, "Namespace <lab> may not use queue <llm>")
		in.Path[0].Spec.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": "llm"}}
		in.Namespace = map[string]string{"team": "vision"}
		return in
	},
	"SchedulerNotReady": func() Input {
		in := newWaitingJob(v1alpha1.BlockedSchedulerNotReady, "the scheduler has just started and has not seen every node and pod yet")
		in.Policy.Status.Conditions[0] = metav1.Condition{Type: v1alpha1.ConditionEnforced, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonNoHeartbeat, Message: "no session ended within 20 s"}
		return in
	},
	"NoFreeCard-minimum-runtime": func() Input {
		in := newWaitingInference()
		in.Entries[0].Holders = []v1alpha1.CardHolder{holder("late", "lab", 8), holder("early", "lab", 6), holder("old", "lab", 1)}
		return in
	},
	"NodesUnsuitable-obstacles": func() Input {
		in := newWaitingJob(v1alpha1.BlockedNodesUnsuitable, "0/4 nodes are unavailable: 1 node(s) had untolerated taint {dedicated: infra}, 2 Insufficient nvidia.com/gpu, 1 node(s) were unschedulable.")
		in.Path = []*v1alpha1.CardQuota{newQuota("llm", 8, 2)}
		in.Nodes = append(in.Nodes, nodecards.Node{Name: "h200-2", Card: "NVIDIA-H200", Total: 8, Free: count(4), Ready: true}, nodecards.Node{Name: "h200-3", Card: "NVIDIA-H200", Total: 8, Free: count(6), Ready: true, Cordoned: true})
		in.NodeRefusals = map[string]simulation.NodeRefusal{
			"h200-1": {Cause: simulation.UntoleratedTaint, Text: "node.kubernetes.io/not-ready:NoSchedule"},
			"h200-2": {Cause: simulation.UntoleratedTaint, Text: "dedicated=infra:NoSchedule"}, "h200-3": {Cause: simulation.Cordoned},
		}
		return in
	},
	"NodesUnsuitable-compute": func() Input {
		in := newWaitingJob(v1alpha1.BlockedNodesUnsuitable, "0/4 nodes are unavailable: 1 Insufficient cpu, 2 Insufficient nvidia.com/gpu, 1 node(s) were unschedulable.")
		in.Path = []*v1alpha1.CardQuota{newQuota("llm", 8, 2)}
		in.Nodes = append(in.Nodes, nodecards.Node{Name: "h200-2", Card: "NVIDIA-H200", Total: 8, Free: count(4), Ready: true})
		in.NodeRefusals = map[string]simulation.NodeRefusal{
			"h200-1": {Cause: simulation.UntoleratedTaint, Text: "node.kubernetes.io/not-ready:NoSchedule"},
			"h200-2": {Cause: simulation.LacksCompute, Text: "24 cpu of 32 requested, 1Ti memory of 2Ti requested"},
		}
		return in
	},
	"none-foretold": func() Input { // the policy observes, and the job runs
		message := "Queue <llm> has insufficient <NVIDIA-H200> quota: requested <2>, total would be <10>, but capability is <8>"
		return Input{Now: at, Workload: ofJob("train"), Placed: 2, Queue: "llm", Forecasts: []*v1alpha1.CardQuotaForecast{{Waiting: newForecastOf("train", message)}}}
	},
	"none-tenant": func() Input { // what a user without rights on nodes sees
		in := newWaitingJob(v1alpha1.BlockedQuotaExhausted, "Queue <llm> has insufficient <NVIDIA-H200> quota")
		in.ChangesQuotas = false
		in.ChangesNodes = false
		in.Nodes = nil
		in.Policy = nil
		in.NamesOthers = false
		in.Gaps = []string{`user "tina" may not list nodes at the cluster scope`}

		secret := holder("secret", "ads", 4)
		also := holder("secret-too", "search", 1)
		secret.Workload.Namespace = "ads"
		also.Workload.Namespace = "search"
		in.Entries[0].Holders = []v1alpha1.CardHolder{secret, holder("other", "llm", 2), also}
		return in
	},
	"none-unstated": func() Input { in := newWaitingJob("", ""); in.Entries = nil; return in },
	"none-placed":   func() Input { return Input{Workload: ofJob("train"), Placed: 4} },
	"none-gated":    func() Input { return Input{Workload: ofJob("train"), Gated: 2, Queue: "llm"} },
	"none-other-scheduler": func() Input {
		return Input{Workload: ofJob("train"), Pending: 2, Queue: "llm", OtherScheduler: "default-scheduler"}
	},
	"none-two-reasons": func() Input {
		in := newWaitingJob(v1alpha1.BlockedNoFreeCard, "too few <NVIDIA-H200> are free, all nodes are unavailable: 2 Insufficient nvidia.com/gpu.")
		in.Entries[0].Holders = []v1alpha1.CardHolder{holder("other", "ads", 4)}
		in.Entries = append(in.Entries, v1alpha1.BlockedStatus{Reason: v1alpha1.BlockedGangIncomplete})
		return in
	},
}

// TestEachReasonIsExplained: why explains each reason for which a workload can wait in a summary, with gates and with
// advice. A gate is a line about one thing that a pod must pass, and whether it does.
//
// Each entry of cases is one input. Its name is the reason, and after a dash what is special. A name that begins with
// none is of an input for which only the text matters. Reasons without an entry have the plain newWaitingJob. The
// golden file of the name has the text. No user reads the name of a workload that is hidden from them (secret), and
// no line exceeds a terminal.
func TestEachReasonIsExplained(t *testing.T) {
	all := map[string]Input{}
	for name, newInput := range cases {
		all[name] = newInput()
	}

	for _, reason := range blockedReasons(t) { // the others need no further input
		if all[string(reason)].Queue == "" {
			all[string(reason)] = newWaitingJob(reason, "")
		}
	}

	for name, in := range all {
		t.Run(name, func(t *testing.T) {
			document := Explain(in)
			if reason, _, _ := strings.Cut(name, "-"); reason != "none" {
				check.Equal(t, "reason", v1alpha1.BlockedReason(reason), document.Reason)
				check.That(t, len(document.Advice) > 0, "no advice: %+v", document)
				check.Contains(t, "summary", document.Summary, "): "+in.describeReason(document.Reason)+".")
			}

			text := document.Render(output.Style{})
			check.That(t, !strings.Contains(text, "secret"), "it names a workload that the user may not see")

			path := filepath.Join("testdata", name+".golden")
			if *update {
				check.NoError(t, os.MkdirAll("testdata", 0o750))
				check.NoError(t, os.WriteFile(path, []byte(text), 0o600))
			}

			check.Equal(t, "explanation", string(check.Value(os.ReadFile(path))(t)), text)
			for line := range strings.Lines(text) {
				check.That(t, output.Width(strings.TrimRight(line, "\n")) <= output.Columns, "a long line: %s", line)
			}
		})
	}
}

// blockedReasons returns all reasons of the API.
func blockedReasons(t *testing.T) []v1alpha1.BlockedReason {
	file := check.Value(parser.ParseFile(token.NewFileSet(), filepath.Join("..", "..", "..", "..", "api", "v1alpha1", "blocked_types.go"), nil, parser.SkipObjectResolution))(t)

	var reasons []v1alpha1.BlockedReason
	ast.Inspect(file, func(node ast.Node) bool {
		if spec, ok := node.(*ast.ValueSpec); ok && len(spec.Values) == 1 && strings.HasPrefix(spec.Names[0].Name, "Blocked") {
			if literal, ok := spec.Values[0].(*ast.BasicLit); ok {
				reasons = append(reasons, v1alpha1.BlockedReason(check.Value(strconv.Unquote(literal.Value))(t)))
			}
		}
		return true
	})
	check.That(t, len(reasons) > 15, "the reasons are %v", reasons)

	return reasons
}

// TestUnmanagedQueuesAnswerByTheirState: queue llm exists, but no CardQuota has it. Then the state and the stop policy of
// the Volcano Queue decide whether new pods start in it. A gate is a line of the explanation about one thing that a pod
// must pass. The second one is that of the queue, and its answer follows the state and the stop policy. Three reasons
// have an advice about CardQuotas; here it names the queue, and no CardQuota.
func TestUnmanagedQueuesAnswerByTheirState(t *testing.T) {
	reasons := []v1alpha1.BlockedReason{v1alpha1.BlockedQueueStopped, v1alpha1.BlockedCPUQuotaExhausted, v1alpha1.BlockedMemoryQuotaExhausted}

	for t, tc := range check.Cases(t, map[string]struct {
		state, stopPolicy string
		want              Answer
		wantDetail        string
	}{
		"open":                       {"Open", "", Yes, "its Queue decides"},
		"open, and stop policy None": {"Open", "None", Yes, "its Queue decides"},
		"closed":                     {"Closed", "", No, "its Queue is Closed"},
		"closing":                    {"Closing", "", No, "its Queue is Closing"},
		"open, and stop policy Hold": {"Open", "Hold", No, "annotation volcano.sh/stop-policy of its Queue is Hold"},
		"no state yet":               {"", "", Unknown, "has no state yet"},
	}) {
		for _, reason := range reasons {
			in := newWaitingJob(reason, "")
			in.Path = nil
			in.HasQueue = ptr.To(true)
			in.QueueState = tc.state
			in.QueueStop = tc.stopPolicy

			document := Explain(in)
			gate := document.Gates[1]
			check.Equal(t, "answer", tc.want, gate.Answer)
			check.Contains(t, "detail", gate.Detail, tc.wantDetail)
			check.Text(t, "advice", strings.Join(document.Advice, " ")).Has("llm").Lacks("of the CardQuota", "describe cardq")
		}
	}
}

// TestAReservedQuotaIsNotFree: a job requests cards of a queue with a quota and some use, and the scheduler refuses it.
// Once a job is enqueued (Volcano lets it create pods), its cards are reserved before its pods are placed. The message of
// the scheduler has the total with reservations, so quota - (total - requested) is free. What is used above a lowered
// quota is lacking too: 4 requested, 12 used of 6 lacks 12 + 4 - 6 = 10. Where the message is about an earlier quota or
// another queue, the answer is Unknown, and wantDoubt says why.
//
// Each row is tried with one pod that requests the cards, and with a gang of pods that request 1 each and as many
// together. A gate is a line of the explanation about one thing that a pod must pass, here the quota of llm. The
// scheduler enqueues a gang as a whole, so only the advice to a gang names the reservations.
func TestAReservedQuotaIsNotFree(t *testing.T) {
	insufficient := func(requested, total, quota int64) string {
		return fmt.Sprintf("Queue <llm> has insufficient <NVIDIA-H200> quota: requested <%d>, total would be <%d>, but capability is <%d>", requested, total, quota)
	}

	for t, tc := range check.Cases(t, map[string]struct {
		quota, used, requested int64
		message                string
		wantGate               string
		wantDoubt              string
		wantAdvice             string
	}{
		"7 of 8 used, 2 requested": {
			quota: 8, used: 7, requested: 2, message: insufficient(2, 9, 8),
			wantGate: "No, 7/8 NVIDIA-H200 used, 1 free", wantAdvice: "lacks 1 ",
		},
		"12 of 6 used, 4 requested": {
			quota: 6, used: 12, requested: 4, message: insufficient(4, 16, 6),
			wantGate: "No, 12/6 NVIDIA-H200 used, 0 free", wantAdvice: "lacks 10 ",
		},
		"12 of 6 used, 4 requested, the scheduler states nothing": {
			quota: 6, used: 12, requested: 4,
			wantGate: "No, 12/6 NVIDIA-H200 used, 0 free", wantAdvice: "lacks 10 ",
		},
		"6 requested, 14 in all: 14 - 6 = 8 reserved": {
			quota: 8, used: 0, requested: 6, message: insufficient(6, 14, 8),
			wantGate: "No, 0/8 NVIDIA-H200 used, 8 reserved by enqueued jobs, 0 free", wantAdvice: "lacks 6 ",
		},
		"6 requested, 10 in all: 10 - 6 = 4 reserved": {
			quota: 8, used: 0, requested: 6, message: insufficient(6, 10, 8),
			wantGate: "No, 0/8 NVIDIA-H200 used, 4 reserved by enqueued jobs, 4 free", wantAdvice: "lacks 2 ",
		},
		"6 requested, 14 in all, 4 used: 14 - 6 - 4 = 4 reserved": {
			quota: 8, used: 4, requested: 6, message: insufficient(6, 14, 8),
			wantGate: "No, 4/8 NVIDIA-H200 used, 4 reserved by enqueued jobs, 0 free", wantAdvice: "lacks 6 ",
		},
		"14 - 6 = 8 reserved, in a message about two nodes": {
			quota: 8, used: 0, requested: 6, message: "0/2 nodes are unavailable: 2 q" + insufficient(6, 14, 8)[1:] + ".",
			wantGate: "No, 0/8 NVIDIA-H200 used, 8 reserved by enqueued jobs, 0 free", wantAdvice: "lacks 6 ",
		},
		"10 in all, so 10 - 6 = 4 were used or reserved then, and 8 are used by now: none is reserved": {
			quota: 8, used: 8, requested: 6, message: insufficient(6, 10, 8),
			wantGate: "No, 8/8 NVIDIA-H200 used, 0 free", wantAdvice: "lacks 6 ",
		},
		"refused with a quota of 8, which is 16 now": {
			quota: 16, used: 8, requested: 6, message: insufficient(6, 14, 8),
			wantGate: "Unknown, 8/16 NVIDIA-H200 used, 8 free", wantDoubt: "; raised since the scheduler has tried it",
			wantAdvice: "Ask again in a few seconds. If this stays, raise the quota of queue llm.",
		},
		"the message is about another queue": {
			quota: 8, used: 0, requested: 6, message: strings.Replace(insufficient(6, 14, 8), "llm", "other", 1),
			wantGate: "Unknown, 0/8 NVIDIA-H200 used, 8 free", wantDoubt: "; the scheduler has refused it",
			wantAdvice: "Ask again in a few seconds.",
		},
	}) {
		pod := newWaitingJob(v1alpha1.BlockedQuotaExhausted, tc.message)
		pod.Path = []*v1alpha1.CardQuota{newQuota("llm", tc.quota, tc.used)}
		gang := pod
		pod.Request.Count = card.Count(tc.requested)
		gang.Request.Count = 1
		gang.Request.GangCount = card.Count(tc.requested)

		gate := "\nquota of llm: " + tc.wantGate
		ofGang := fmt.Sprintf("%s; the whole gang requests %d%s\n", gate, tc.requested, tc.wantDoubt)
		check.Text(t, "of a pod", textOf(pod)).Has(gate+tc.wantDoubt+"\n", tc.wantAdvice).Lacks("Enqueued jobs have reserved")
		check.Contains(t, "of a gang", textOf(gang), ofGang, tc.wantAdvice)
		isReserved := strings.Contains(tc.wantGate, "reserved")
		check.Equal(t, "advice to a gang names reservations", isReserved, strings.Contains(textOf(gang), "Enqueued jobs have reserved"))
	}
}

// TestTheMessageSaysWhatAHiddenQueueLacks: the job requests 2 H200, and the quota of ancestor institute, which the user
// may not read, is exhausted. The message of the scheduler has the numbers of institute: 13 in all of 12, so 1 is
// lacking. A message about 8 cards is about an earlier, larger request, so the advice names no number.
func TestTheMessageSaysWhatAHiddenQueueLacks(t *testing.T) {
	for text, want := range map[string]string{
		"requested <2>, total would be <13>, but capability is <12>": "Queue institute, which is above llm, lacks 1 NVIDIA-H200 ",
		"requested <8>, total would be <13>, but capability is <12>": "Ask the administrator for quota of the queues above llm, ",
	} {
		in := cases["AncestorQuotaExhausted-hidden"]()
		in.Entries[0].Message = "Queue <institute>, an ancestor of <llm>, has insufficient <NVIDIA-H200> quota: " + text
		check.Contains(t, text, strings.Join(Explain(in).Advice, "\n"), want)
	}
}

// TestAGangNeedsFreeCardsForItsMinimum: the quota must have all cards of a gang, but the nodes only those of the pods
// without which it does not start. A node has 3 of 16 H200 free. A gate is a line of the explanation about one thing
// that a pod must pass, here free cards. If the minimum of the gang needs more than 3, the gate says No. Then the advice
// adds that more quota alone does not help. A pod requests 2, and the gate only names a minimum that is more.
func TestAGangNeedsFreeCardsForItsMinimum(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		gang, minimum card.Count
		want          Gate
	}{
		"a single pod that requests 2": {0, 0, Gate{"free cards", Yes, "3 of 16 healthy NVIDIA-H200"}},
		"a gang that needs all 4":      {4, 4, Gate{"free cards", No, "3 of 16 healthy NVIDIA-H200; its gang needs 4 to start"}},
		"a gang of 8 that starts on 2": {8, 2, Gate{"free cards", Yes, "3 of 16 healthy NVIDIA-H200"}},
		"a gang that needs all 3":      {3, 3, Gate{"free cards", Yes, "3 of 16 healthy NVIDIA-H200; its gang needs 3 to start"}},
	}) {
		in := newWaitingJob(v1alpha1.BlockedQuotaExhausted, "")
		in.Nodes[0].Free = count(3)
		in.Request.GangCount = tc.gang
		in.Request.MinimumCount = tc.minimum
		check.Equal(t, "gate", tc.want, gateCheck{&in}.fleetGate())

		lacks := fmt.Sprintf("More quota alone does not help now: %d requested, 3 NVIDIA-H200 free.", tc.minimum)
		check.Equal(t, "advice that cards lack too", tc.want.Answer == No, strings.Contains(textOf(in), lacks))
	}
}

// TestAWorkloadNeverWaitsForLessThanNothing: the clock of the user's machine is a minute behind that of the API
// server, so the job begins to wait in a minute. The summary says 0s.
func TestAWorkloadNeverWaitsForLessThanNothing(t *testing.T) {
	in := newWaitingJob(v1alpha1.BlockedQuotaExhausted, "")
	in.Now = in.Entries[0].Since.Add(-time.Minute)
	check.Contains(t, "summary", Explain(in).Summary, "in queue llm for 0s (QuotaExhausted)")
}

// TestAGateIsClosedForEachReason: a gate is a line of the explanation about one thing that a pod must pass. A user
// looks for the gate with answer No. So there is one for each reason, for pods that request 2 cards or only CPU. That
// is true even where 6 of 8 cards of the quota are free, and 4 on a node. The exception is reason Other, of which no gate
// knows.
func TestAGateIsClosedForEachReason(t *testing.T) {
	for _, reason := range blockedReasons(t) {
		for name, change := range map[string]func(*Input){
			"with cards":    func(*Input) {},
			"without cards": func(in *Input) { in.Request = Request{MilliCPU: 4000} },
		} {
			in := newWaitingJob(reason, "")
			in.Path = []*v1alpha1.CardQuota{newQuota("llm", 8, 2)}
			in.Nodes[0].Free = count(4)
			change(&in)

			isClosed := slices.ContainsFunc(Explain(in).Gates, func(g Gate) bool { return g.Answer == No })
			check.Equal(t, fmt.Sprintf("%s, %s: a gate is closed of %+v", reason, name, Explain(in).Gates), reason != v1alpha1.BlockedOther, isClosed)
		}
	}
}

// TestCPUAndMemoryHaveAGateWhereTheyMatter: queue llm has used 13 of 16 CPU and 14 of 16 GiB. A pod requests 4 CPU
// and 2 GiB, so CPU is exhausted. A gate is a line of the explanation about one thing that a pod must pass. For a pod
// with cards only the exhausted resource has a gate. For a pod without cards memory has one too, although enough is
// free.
func TestCPUAndMemoryHaveAGateWhereTheyMatter(t *testing.T) {
	in := newWaitingJob(v1alpha1.BlockedCPUQuotaExhausted, "")
	in.Request.MilliCPU = 4000
	in.Request.Memory = 2 << 30
	in.Path[0].Status.CPU = &v1alpha1.ResourceStatus{Used: resource.MustParse("13"), Quota: ptr.To(resource.MustParse("16"))}
	in.Path[0].Status.Memory = &v1alpha1.ResourceStatus{Used: resource.MustParse("14Gi"), Quota: ptr.To(resource.MustParse("16Gi"))}

	check.Text(t, "with cards", textOf(in)).Has("\nCPU of llm: No, 13 of 16 used, 4 requested").Lacks("\nmemory of llm")

	in.Request.Count = 0
	check.Contains(t, "without cards", textOf(in), "\nmemory of llm: Yes, 14Gi of 16Gi used, 2Gi requested")
}

// TestFreeCardsAreARangeWithoutTheNodes: the user may not read nodes, and the CardInventory has only sums. Of the
// allocated cards, some may be on nodes that are cordoned or not healthy, where they take no free card away. So free
// is between usable - allocated and usable, where usable is healthy - cordoned. A pod requests 2. A gate is a line of
// the explanation about one thing that a pod must pass, here free cards. It says Unknown if 2 are within the range.
// MostFree is the end of that range.
func TestFreeCardsAreARangeWithoutTheNodes(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		inventory v1alpha1.InventoryCard
		want      Gate
	}{
		"8 usable, 8 allocated, perhaps all on the 8 cordoned ones": {
			v1alpha1.InventoryCard{Total: 16, Healthy: 16, Cordoned: 8, Allocated: 8}, Gate{"free cards", Unknown, "0 to 8 of 16 healthy NVIDIA-H200"},
		},
		"8 usable, 8 allocated, perhaps all on the 8 unhealthy ones": {
			v1alpha1.InventoryCard{Total: 16, Healthy: 8, Allocated: 8}, Gate{"free cards", Unknown, "0 to 8 of 8 healthy NVIDIA-H200"},
		},
		"8 usable, 15 of 16 allocated: at least 7 of the usable ones, so at most 1 is free": {
			v1alpha1.InventoryCard{Total: 16, Healthy: 16, Cordoned: 8, Allocated: 15}, Gate{"free cards", No, "0 to 1 of 16 healthy NVIDIA-H200"},
		},
		"8 usable, 2 allocated: at least 6 are free": {
			v1alpha1.InventoryCard{Total: 16, Healthy: 16, Cordoned: 8, Allocated: 2}, Gate{"free cards", Yes, "6 to 8 of 16 healthy NVIDIA-H200"},
		},
		"all 16 usable, 15 allocated": {
			v1alpha1.InventoryCard{Total: 16, Healthy: 16, Allocated: 15}, Gate{"free cards", No, "1 of 16 healthy NVIDIA-H200"},
		},
		"all 8 usable, 9 allocated: not less than 0": {
			v1alpha1.InventoryCard{Total: 8, Healthy: 8, Allocated: 9}, Gate{"free cards", No, "0 of 8 healthy NVIDIA-H200"},
		},
	}) {
		in := newWaitingJob(v1alpha1.BlockedOther, "")
		in.Nodes = nil
		tc.inventory.Name = "NVIDIA-H200"
		in.Inventory.Cards[0] = tc.inventory

		check.Equal(t, "gate", tc.want, gateCheck{&in}.fleetGate())
		check.Equal(t, "less than 2 are free for certain", tc.want.Answer == No, in.MostFree("NVIDIA-H200") < 2)
	}

	check.That(t, (&Input{}).MostFree("NVIDIA-H200") > 1_000_000, "without the inventory any number may be free")
}

// TestAnExplanationNeedsNoField: a user may read almost nothing, and a newer operator may state a reason, New, that this
// version does not know. There is a summary nevertheless, and an empty CardQuota makes nothing panic.
func TestAnExplanationNeedsNoField(t *testing.T) {
	for _, reason := range append(blockedReasons(t), "New") {
		in := Input{Pending: 1, Entries: []v1alpha1.BlockedStatus{{Reason: reason}}, Request: Request{Count: 1}}
		check.That(t, Explain(in).Summary != "", "no summary of %s", reason)
		in.Path = []*v1alpha1.CardQuota{{}}
		Explain(in)
	}
}
