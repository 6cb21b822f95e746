package explanation

import (
	"bytes"
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

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/cli/inventoryview"
	"cardquota.dev/operator/internal/cli/output"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
)

var update = flag.Bool("update", false, "write the golden files from the explanations")

var at = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

func count(n int64) *int64 { return &n }

// granted is a CardQuota with the usage of H200, and of the H800 that may take their place.
func granted(name string, quota, used int64) *v1alpha1.CardQuota {
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

// waiting is a Volcano job of which two pods wait for two H200 each.
func waiting(reason v1alpha1.BlockedReason, message string) Input {
	policy := builder.ServiceTypePolicy().Obj()
	policy.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionEnforced, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonEnforced}}

	gpu := []string{"nvidia.com/gpu"}
	return Input{
		Now: at, Workload: ofJob("train"), Pending: 2, Placed: 1, Queue: "llm", Policy: policy, WaitLonger: 1, NamesOthers: true, ChangesQuotas: true, ChangesNodes: true,
		Request: Request{Names: []card.Name{"NVIDIA-H200"}, Count: 2, Priority: 20000, PriorityClass: "pc-low"},
		Path:    []*v1alpha1.CardQuota{granted("llm", 8, 7)},
		Entries: []v1alpha1.BlockedStatus{{Workload: ofJob("train"), Since: metav1.NewTime(at.Add(-12 * time.Minute)), Card: "NVIDIA-H200", Count: 4, Reason: reason, Message: message}},
		Inventory: &v1alpha1.CardInventoryStatus{Cards: []v1alpha1.InventoryCard{
			{Name: "NVIDIA-H200", Resources: gpu, Total: 16, Healthy: 16, Allocated: 15}, {Name: "NVIDIA-H800", Resources: gpu, Total: 8, Healthy: 8, Allocated: 2}}},
		Nodes: []inventoryview.Node{{Name: "h200-0", Card: "NVIDIA-H200", Total: 8, Free: count(1), Ready: true}, {Name: "h200-1", Card: "NVIDIA-H200", Total: 8, Free: count(8)},
			{Name: "h800-0", Card: "NVIDIA-H800", Total: 8, Free: count(6), Ready: true}},
	}
}

func holder(name, queue string, n int64) v1alpha1.CardHolder {
	return v1alpha1.CardHolder{Workload: ofJob(name), Queue: queue, ServiceType: "training", Card: "NVIDIA-H200", Count: n}
}

// cases are what waits, by reason, and further inputs.
var cases = map[string]func() Input{
	"QuotaExhausted": func() Input {
		in := waiting(v1alpha1.BlockedQuotaExhausted, "Queue <llm> has insufficient <NVIDIA-H200> quota: requested <2>, total would be <9>, but capability is <8>")
		in.Entries[0].Holders = []v1alpha1.CardHolder{holder("other", "llm", 5), holder("train", "llm", 2)}
		return in
	},
	"QuotaExhausted-overused": func() Input { // the quota was lowered
		in := waiting(v1alpha1.BlockedQuotaExhausted, "Queue <llm> has insufficient <NVIDIA-H200> quota: requested <4>, total would be <16>, but capability is <6>")
		in.Request.Count = 4
		in.Path = []*v1alpha1.CardQuota{granted("llm", 6, 12)}
		in.Entries[0].Count = 4
		in.Path[0].Status.Cards[0].OverQuotaBy = 6
		return in
	},
	"QuotaExhausted-reserved": func() Input { // another gang is enqueued, and its pods do not run yet
		in := waiting(v1alpha1.BlockedQuotaExhausted, "Queue <llm> has insufficient <NVIDIA-H200> quota: requested <6>, total would be <14>, but capability is <8>")
		in.Request.GangCount = 6
		in.Request.MinimumCount = 6
		in.Path = []*v1alpha1.CardQuota{granted("llm", 8, 0)}
		in.Entries[0].Count = 6
		return in
	},
	"AncestorQuotaExhausted-hidden": func() Input { // a LocalCardQuota shows nothing above it
		in := waiting(v1alpha1.BlockedAncestorQuotaExhausted, "Queue <institute>, an ancestor of <llm>, has insufficient <NVIDIA-H200> quota: requested <2>, total would be <13>, but capability is <12>")
		in.Path = []*v1alpha1.CardQuota{granted("llm", 8, 4)}
		in.ChangesQuotas = false
		in.Nodes = nil
		in.Path[0].Namespace = "lab"
		return in
	},
	"NoQuota": func() Input {
		in := waiting(v1alpha1.BlockedNoQuota, "Queue <llm> has insufficient <NVIDIA-H200> quota: requested <2>, total would be <2>, but capability is <0>")
		in.Path = []*v1alpha1.CardQuota{granted("llm", 0, 0)}
		return in
	},
	"NoQuota-unmanaged": func() Input {
		in := waiting(v1alpha1.BlockedNoQuota, "Queue <llm> has no card quota")
		exists := true
		in.Path = nil
		in.HasQueue = &exists
		in.QueueState = "Open"
		return in
	},
	"QueueStopped-unmanaged": func() Input {
		in := waiting(v1alpha1.BlockedQueueStopped, "Queue <llm> is Closed, not Open")
		exists := true
		in.Path = nil
		in.HasQueue = &exists
		in.QueueState = "Closed"
		return in
	},
	"CPUQuotaExhausted-unmanaged": func() Input {
		in := waiting(v1alpha1.BlockedCPUQuotaExhausted, "Queue <llm> has insufficient CPU quota")
		exists := true
		in.Path = nil
		in.HasQueue = &exists
		in.QueueState = "Open"
		return in
	},
	"AncestorQuotaExhausted": func() Input {
		in := waiting(v1alpha1.BlockedAncestorQuotaExhausted, "Queue <institute>, an ancestor of <llm>, has insufficient <NVIDIA-H200> quota: requested <2>, total would be <13>, but capability is <12>")
		in.Path = []*v1alpha1.CardQuota{granted("llm", 8, 4), granted("institute", 12, 11)}
		in.Entries[0].Holders = []v1alpha1.CardHolder{holder("stars", "astronomy", 7)}
		return in
	},
	"NoFreeCard": func() Input {
		in := waiting(v1alpha1.BlockedNoFreeCard, "0/4 nodes are unavailable: 4 Insufficient nvidia.com/gpu.")
		in.Path = []*v1alpha1.CardQuota{granted("llm", 8, 2)}
		in.Entries[0].Holders = []v1alpha1.CardHolder{holder("other", "ads", 8), holder("stars", "astronomy", 7)}
		return in
	},
	"Fragmented": func() Input {
		in := waiting(v1alpha1.BlockedFragmented, "0/4 nodes are unavailable: 4 Insufficient nvidia.com/gpu.")
		in.Nodes = append(in.Nodes, inventoryview.Node{Name: "h200-2", Card: "NVIDIA-H200", Total: 8, Free: count(1), Ready: true})
		return in
	},
	"UnknownCard": func() Input {
		in := waiting(v1alpha1.BlockedUnknownCard, "Pod names card <NVIDIA-H2000> but requests nvidia.com/gpu, which no node offers as a card")
		in.Request.Names = []card.Name{"NVIDIA-H2000"}
		in.Entries[0].Card = "NVIDIA-H2000"
		return in
	},
	"QueueStopped": func() Input {
		in := waiting(v1alpha1.BlockedQueueStopped, "Queue <llm> is held")
		in.Path[0].Status.Conditions[0] = metav1.Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonHeld, Message: "stopPolicy of CardQuota llm is Hold"}
		return in
	},
	"QueueNotFound": func() Input {
		in := waiting(v1alpha1.BlockedQueueNotFound, "Queue <llm> not found")
		missing := false
		in.Path = nil
		in.HasQueue = &missing
		return in
	},
	"NamespaceNotAllowed": func() Input {
		in := waiting(v1alpha1.BlockedNamespaceNotAllowed, "Namespace <lab> may not use queue <llm>")
		in.Path[0].Spec.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": "llm"}}
		in.Namespace = map[string]string{"team": "vision"}
		return in
	},
	"SchedulerNotReady": func() Input {
		in := waiting(v1alpha1.BlockedSchedulerNotReady, "the scheduler has just started and has not seen every node and pod yet")
		in.Policy.Status.Conditions[0] = metav1.Condition{Type: v1alpha1.ConditionEnforced, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonNoHeartbeat, Message: "no session ended within 20 s"}
		return in
	},
	"NoFreeCard-minimum-runtime": func() Input {
		in := withMinimumRuntime()
		in.Entries[0].Holders = []v1alpha1.CardHolder{holder("late", "lab", 8), holder("early", "lab", 6), holder("old", "lab", 1)}
		return in
	},
	"NodesUnsuitable-obstacles": func() Input {
		in := waiting(v1alpha1.BlockedNodesUnsuitable, "0/4 nodes are unavailable: 1 node(s) had untolerated taint {dedicated: infra}, 2 Insufficient nvidia.com/gpu, 1 node(s) were unschedulable.")
		in.Path = []*v1alpha1.CardQuota{granted("llm", 8, 2)}
		in.Nodes = append(in.Nodes, inventoryview.Node{Name: "h200-2", Card: "NVIDIA-H200", Total: 8, Free: count(4), Ready: true}, inventoryview.Node{Name: "h200-3", Card: "NVIDIA-H200", Total: 8, Free: count(6), Ready: true, Cordoned: true})
		in.Obstacles = FindObstacles(builder.Pod("lab", "train-0").Obj(), []*corev1.Node{
			builder.Node("h200-1").NotReady().Obj(), builder.Node("h200-3").Cordoned().Obj(), tainted("h200-2", corev1.TaintEffectNoSchedule),
		}, nil)
		return in
	},
	"NodesUnsuitable-compute": func() Input {
		in := waiting(v1alpha1.BlockedNodesUnsuitable, "0/4 nodes are unavailable: 1 Insufficient cpu, 2 Insufficient nvidia.com/gpu, 1 node(s) were unschedulable.")
		in.Path = []*v1alpha1.CardQuota{granted("llm", 8, 2)}
		in.Nodes = append(in.Nodes, inventoryview.Node{Name: "h200-2", Card: "NVIDIA-H200", Total: 8, Free: count(4), Ready: true})
		in.Obstacles = FindObstacles(builder.Pod("lab", "train-0").CPU("32").Memory("2Ti").Obj(), []*corev1.Node{builder.Node("h200-1").NotReady().Obj(), builder.Node("h200-2").Obj()},
			[]*corev1.Pod{builder.Pod("lab", "web").CPU("40").Running("h200-2").Obj()})
		return in
	},
	"none-tenant": func() Input { // what a user without rights on nodes sees
		in := waiting(v1alpha1.BlockedQuotaExhausted, "Queue <llm> has insufficient <NVIDIA-H200> quota")
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
	"none-unstated": func() Input { in := waiting("", ""); in.Entries = nil; return in },
	"none-placed":   func() Input { return Input{Workload: ofJob("train"), Placed: 4} },
	"none-gated":    func() Input { return Input{Workload: ofJob("train"), Gated: 2, Queue: "llm"} },
	"none-other-scheduler": func() Input {
		return Input{Workload: ofJob("train"), Pending: 2, Queue: "llm", OtherScheduler: "default-scheduler"}
	},
	"none-two-reasons": func() Input {
		in := waiting(v1alpha1.BlockedNoFreeCard, "too few <NVIDIA-H200> are free, all nodes are unavailable: 2 Insufficient nvidia.com/gpu.")
		in.Entries[0].Holders = []v1alpha1.CardHolder{holder("other", "ads", 4)}
		in.Entries = append(in.Entries, v1alpha1.BlockedStatus{Reason: v1alpha1.BlockedGangIncomplete})
		return in
	},
}

func TestExplanations(t *testing.T) {
	all := map[string]Input{}
	for name, newInput := range cases {
		all[name] = newInput()
	}

	for _, reason := range blockedReasons(t) { // the others need no further input
		if all[string(reason)].Queue == "" {
			all[string(reason)] = waiting(reason, "")
		}
	}

	for name, in := range all {
		t.Run(name, func(t *testing.T) {
			document := Explain(in)
			if reason, _, _ := strings.Cut(name, "-"); reason != "none" {
				check.Equal(t, "reason", v1alpha1.BlockedReason(reason), document.Reason)
				check.That(t, len(document.Advice) > 0 && strings.Contains(document.Summary, "): "+in.describeReason(document.Reason)+"."), "%+v", document)
			}

			var text bytes.Buffer
			check.NoError(t, document.Write(&text, output.Style{}))
			check.That(t, !strings.Contains(text.String(), "secret"), "it names a workload that the user may not see")

			path := filepath.Join("testdata", name+".golden")
			if *update {
				check.NoError(t, os.MkdirAll("testdata", 0o750))
				check.NoError(t, os.WriteFile(path, text.Bytes(), 0o600))
			}

			check.Equal(t, "explanation", string(check.Value(os.ReadFile(path))(t)), text.String())
			for line := range strings.Lines(text.String()) {
				check.That(t, output.Width(strings.TrimRight(line, "\n")) <= output.Columns, "a long line: %s", line)
			}
		})
	}
}

// blockedReasons returns all reasons of the API.
func blockedReasons(t *testing.T) []v1alpha1.BlockedReason {
	file := check.Value(parser.ParseFile(token.NewFileSet(), filepath.Join("..", "..", "..", "api", "v1alpha1", "blocked_types.go"), nil, parser.SkipObjectResolution))(t)

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

// TestUnmanagedQueuesAnswerByTheirState: the gate must agree with the scheduler, which asks the Queue.
func TestUnmanagedQueuesAnswerByTheirState(t *testing.T) {
	exists := true
	for name, tc := range map[string]struct {
		state, stop string
		want        Answer
		detail      string
	}{
		"open":         {"Open", "", Yes, "its Queue decides"},
		"not stopped":  {"Open", "None", Yes, "its Queue decides"},
		"closed":       {"Closed", "", No, "its Queue is Closed"},
		"closing":      {"Closing", "", No, "its Queue is Closing"},
		"held":         {"Open", "Hold", No, "annotation volcano.sh/stop-policy of its Queue is Hold"},
		"no state yet": {"", "", Unknown, "has no state yet"},
	} {
		for _, reason := range []v1alpha1.BlockedReason{v1alpha1.BlockedQueueStopped, v1alpha1.BlockedCPUQuotaExhausted, v1alpha1.BlockedMemoryQuotaExhausted} {
			in := waiting(reason, "")
			in.Path = nil
			in.HasQueue = &exists
			in.QueueState = tc.state
			in.QueueStop = tc.stop
			document := Explain(in)
			gate := document.Gates[1]
			check.That(t, gate.Answer == tc.want && strings.Contains(gate.Detail, tc.detail), "%s: %+v", name, gate)

			advice := strings.Join(document.Advice, " ")
			check.That(t, strings.Contains(advice, "llm") && !strings.Contains(advice, "of the CardQuota") && !strings.Contains(advice, "describe cardq"), "%s: %s", name, advice)
		}
	}
}

// TestTheShortageOfAQuota: cards that jobs have reserved, and those in use beyond the quota, are not
// there for the request.
func TestTheShortageOfAQuota(t *testing.T) {
	insufficient := func(requested, total, limit int64) string {
		return fmt.Sprintf("Queue <llm> has insufficient <NVIDIA-H200> quota: requested <%d>, total would be <%d>, but capability is <%d>", requested, total, limit)
	}
	for name, tc := range map[string]struct {
		quota, used, requested int64
		message                string
		gate, advice           string
	}{
		"in use":                  {8, 7, 2, insufficient(2, 9, 8), "No, 7/8 NVIDIA-H200 used, 1 free", "lacks 1 "},
		"used beyond the quota":   {6, 12, 4, insufficient(4, 16, 6), "No, 12/6 NVIDIA-H200 used, 0 free", "lacks 10 "},
		"beyond it, without text": {6, 12, 4, "", "No, 12/6 NVIDIA-H200 used, 0 free", "lacks 10 "},
		"all reserved":            {8, 0, 6, insufficient(6, 14, 8), "No, 0/8 NVIDIA-H200 used, 8 reserved by enqueued jobs, 0 free", "lacks 6 "},
		"some reserved":           {8, 0, 6, insufficient(6, 10, 8), "No, 0/8 NVIDIA-H200 used, 4 reserved by enqueued jobs, 4 free", "lacks 2 "},
		"some used and reserved":  {8, 4, 6, insufficient(6, 14, 8), "No, 4/8 NVIDIA-H200 used, 4 reserved by enqueued jobs, 0 free", "lacks 6 "},
		"of a node":               {8, 0, 6, "0/2 nodes are unavailable: 2 q" + insufficient(6, 14, 8)[1:] + ".", "No, 0/8 NVIDIA-H200 used, 8 reserved by enqueued jobs, 0 free", "lacks 6 "},
		"a newer status":          {8, 8, 6, insufficient(6, 10, 8), "No, 8/8 NVIDIA-H200 used, 0 free", "lacks 6 "},
		"a quota raised since":    {16, 8, 6, insufficient(6, 14, 8), "Unknown, 8/16 NVIDIA-H200 used, 8 free; raised since the scheduler has tried it", "Ask again in a few seconds. If this stays, raise the quota of queue llm."},
		"of another queue":        {8, 0, 6, strings.Replace(insufficient(6, 14, 8), "llm", "other", 1), "Unknown, 0/8 NVIDIA-H200 used, 8 free; the scheduler has refused it", "Ask again in a few seconds."},
	} {
		for _, isGang := range []bool{false, true} {
			in := waiting(v1alpha1.BlockedQuotaExhausted, tc.message)
			in.Path = []*v1alpha1.CardQuota{granted("llm", tc.quota, tc.used)}
			in.Request.Count = card.Count(tc.requested)

			gang := ""
			if isGang {
				in.Request.Count = 1
				in.Request.GangCount = card.Count(tc.requested)
				gang = fmt.Sprintf("; the whole gang requests %d", tc.requested)
			}

			gate := in.quotaGate(in.Path[0])
			counted, doubt, _ := strings.Cut(tc.gate, "; ")
			if doubt != "" {
				doubt = "; " + doubt
			}

			check.Equal(t, name, counted+gang+doubt, string(gate.Answer)+", "+gate.Detail)
			advice := strings.Join(Explain(in).Advice, "\n")
			check.Contains(t, name, advice, tc.advice)
			check.Equal(t, name+": advice on reservations", isGang && strings.Contains(tc.gate, "reserved"), strings.Contains(advice, "Enqueued jobs have reserved"))
		}
	}
}

// TestAHiddenQueueLacksAtLeastOne: the statement may be about an earlier, larger request.
func TestAHiddenQueueLacksAtLeastOne(t *testing.T) {
	for text, want := range map[string]string{
		"requested <2>, total would be <13>, but capability is <12>": "Queue institute, which is above llm, lacks 1 NVIDIA-H200 ",
		"requested <8>, total would be <13>, but capability is <12>": "Ask the administrator for quota of the queues above llm, ",
	} {
		in := cases["AncestorQuotaExhausted-hidden"]()
		in.Entries[0].Message = "Queue <institute>, an ancestor of <llm>, has insufficient <NVIDIA-H200> quota: " + text
		check.Contains(t, text, strings.Join(Explain(in).Advice, "\n"), want)
	}
}

// TestAGangNeedsFreeCardsForItsMinimum: the quota must have all cards of a job, the nodes those of the
// pods without which it does not start.
func TestAGangNeedsFreeCardsForItsMinimum(t *testing.T) {
	for name, tc := range map[string]struct {
		gang, minimum card.Count
		want          Answer
		detail        string
	}{
		"a pod":           {0, 0, Yes, "3 of 16 healthy NVIDIA-H200"},
		"a gang":          {4, 4, No, "3 of 16 healthy NVIDIA-H200; its gang needs 4 to start"},
		"an elastic gang": {8, 2, Yes, "3 of 16 healthy NVIDIA-H200"},
		"a small gang":    {3, 3, Yes, "3 of 16 healthy NVIDIA-H200; its gang needs 3 to start"},
	} {
		in := waiting(v1alpha1.BlockedQuotaExhausted, "")
		in.Nodes[0].Free = count(3)
		in.Request.GangCount = tc.gang
		in.Request.MinimumCount = tc.minimum
		gate := in.fleetGate()
		check.That(t, gate.Answer == tc.want && gate.Detail == tc.detail, "%s: %+v", name, gate)

		lacks := fmt.Sprintf("More quota alone does not help now: %d requested, 3 NVIDIA-H200 free.", tc.minimum)
		check.Equal(t, name, tc.want == No, strings.Contains(strings.Join(Explain(in).Advice, "\n"), lacks))
	}
}

// TestSinceOfASlowClock: the clock of the user's machine may be behind that of the API server.
func TestSinceOfASlowClock(t *testing.T) {
	in := waiting(v1alpha1.BlockedQuotaExhausted, "")
	in.Now = in.Entries[0].Since.Add(-time.Minute)
	check.Contains(t, "summary", Explain(in).Summary, "in queue llm for 0s (QuotaExhausted)")
}

// TestAGateIsClosedForEachReason: the gates of a workload that waits must not all be open, also where
// quota and cards would do.
func TestAGateIsClosedForEachReason(t *testing.T) {
	for _, reason := range blockedReasons(t) {
		for name, change := range map[string]func(*Input){
			"with cards":    func(*Input) {},
			"without cards": func(in *Input) { in.Request = Request{MilliCPU: 4000} },
		} {
			in := waiting(reason, "")
			in.Path = []*v1alpha1.CardQuota{granted("llm", 8, 2)}
			in.Nodes[0].Free = count(4)
			change(&in)

			isClosed := slices.ContainsFunc(Explain(in).Gates, func(g Gate) bool { return g.Answer == No })
			check.That(t, isClosed == (reason != v1alpha1.BlockedOther), "%s, %s: %+v", reason, name, Explain(in).Gates)
		}
	}
}

func TestCPUAndMemoryOfTheQuota(t *testing.T) {
	in := waiting(v1alpha1.BlockedCPUQuotaExhausted, "")
	in.Request.MilliCPU = 4000
	in.Request.Memory = 2 << 30
	quantity := func(text string) *resource.Quantity { q := resource.MustParse(text); return &q }
	in.Path[0].Status.CPU = &v1alpha1.ResourceStatus{Used: resource.MustParse("13"), Quota: quantity("16")}
	in.Path[0].Status.Memory = &v1alpha1.ResourceStatus{Used: resource.MustParse("14Gi"), Quota: quantity("16Gi")}

	find := func(name string) string {
		for _, gate := range Explain(in).Gates {
			if strings.HasPrefix(gate.Name, name) {
				return gate.Name + ": " + string(gate.Answer) + ", " + gate.Detail
			}
		}
		return ""
	}
	check.Equal(t, "CPU", "CPU of llm: No, 13 of 16 used, 4 requested", find("CPU"))
	check.Equal(t, "memory", "", find("memory"))

	in.Request.Count = 0
	check.Equal(t, "memory", "memory of llm: Yes, 14Gi of 16Gi used, 2Gi requested", find("memory"))
}

// TestFreeCardsOfTheInventory: without the nodes it is unknown which of the allocated cards are on
// cordoned nodes.
func TestFreeCardsOfTheInventory(t *testing.T) {
	for name, tc := range map[string]struct {
		total, healthy, cordoned, allocated int64
		want                                Answer
		detail                              string
	}{
		"all of the cordoned node may be in use": {16, 16, 8, 8, Unknown, "0 to 8 of 16 healthy NVIDIA-H200"},
		"so may those of a broken node":          {16, 8, 0, 8, Unknown, "0 to 8 of 8 healthy NVIDIA-H200"},
		"more are in use than it has":            {16, 16, 8, 15, No, "0 to 1 of 16 healthy NVIDIA-H200"},
		"enough are free in any case":            {16, 16, 8, 2, Yes, "6 to 8 of 16 healthy NVIDIA-H200"},
		"no node is out of use":                  {16, 16, 0, 15, No, "1 of 16 healthy NVIDIA-H200"},
		"more are allocated than exist":          {8, 8, 0, 9, No, "0 of 8 healthy NVIDIA-H200"},
	} {
		in := waiting(v1alpha1.BlockedOther, "")
		in.Nodes = nil
		card := &in.Inventory.Cards[0]
		card.Total = tc.total
		card.Healthy = tc.healthy
		card.Cordoned = tc.cordoned
		card.Allocated = tc.allocated

		gate := in.fleetGate()
		check.That(t, gate.Answer == tc.want && gate.Detail == tc.detail, "%s: %+v", name, gate)
		check.Equal(t, name, tc.want == No, in.LacksFreeCards())
	}
}

// All fields may be missing.
func TestExplainingNothing(t *testing.T) {
	for _, reason := range append(blockedReasons(t), "New") {
		in := Input{Pending: 1, Entries: []v1alpha1.BlockedStatus{{Reason: reason}}, Request: Request{Count: 1}}
		check.That(t, Explain(in).Summary != "", "no summary of %s", reason)
		in.Path = []*v1alpha1.CardQuota{{}}
		Explain(in)
	}
}
