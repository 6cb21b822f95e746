package cardquota

import (
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/conditions"
	"cardquota.dev/operator/internal/localquota"
	"cardquota.dev/operator/internal/queueusage"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/seed"
	"cardquota.dev/operator/internal/waiting"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

type cards = map[card.Name]card.Count

func ptr[T any](v T) *T { return &v }

// newTeamQuota is CardQuota team of generation 3 with 2 H800, 8 H200 and 64 CPU.
func newTeamQuota() *v1alpha1.CardQuota {
	return builder.CardQuota("team").Card("NVIDIA-H800", 2).Card("NVIDIA-H200", 8).Resources("64", "").
		With(func(q *v1alpha1.CardQuota) { q.Generation = 3 }).Obj()
}

// newStatusInput is for CardQuota team, with 2 H800, 8 H200 and 64 CPU, whose queue is open and has what is used and
// pending. The nodes have 16 H200.
func newStatusInput(used, pending cards) StatusInput {
	return StatusInput{
		Tree: Flat, Quota: newTeamQuota(), Queue: builder.Queue("team").Obj(), Now: noon,
		Sync:     QueueSyncedCondition(newTeamQuota(), metav1.Condition{}, QueueWrite{}, noon),
		Usage:    &queueusage.Usage{Used: used, Pending: pending},
		Physical: cards{"NVIDIA-H200": 16},
	}
}

var train = v1alpha1.WorkloadReference{APIGroup: "batch.volcano.sh", Kind: "Job", Namespace: "lab", Name: "train"}

// TestStatusHasTheNumbersOfEachCard: the status shows quota, used, pending and free of each card, in the order of the
// spec, then cards without quota by name. The summary begins with cards over quota. The team has 2 H800, 8 H200 and
// 64 CPU. Its pods use 3 H800, so 1 is over quota, 6 H200, so 2 are free, and an Ascend-910B without quota. 4 H200
// and 2 L40S are pending. The nodes have 16 H200 (Physical). CPU, memory and what is blocked are those of the usage.
func TestStatusHasTheNumbersOfEachCard(t *testing.T) {
	input := newStatusInput(cards{"NVIDIA-H200": 6, "NVIDIA-H800": 3, "Ascend-910B": 1}, cards{"NVIDIA-H200": 4, "NVIDIA-L40S": 2})
	input.Usage.MilliCPU = 1500
	input.Usage.Memory = 3 << 30
	input.Usage.Blocked = []v1alpha1.BlockedStatus{{Workload: train, Card: "NVIDIA-H200", Count: 4, Reason: "Unschedulable", Message: "full"}}
	input.Usage.BlockedTotal = 1

	want := v1alpha1.CardQuotaStatus{
		ObservedGeneration: 3,
		Queue:              &v1alpha1.QueueStatus{Name: "team", State: "Open"},
		Summary:            "3/2 NVIDIA-H800, 1/0 Ascend-910B, 6/8 NVIDIA-H200, 0/0 NVIDIA-L40S",
		PendingSummary:     "4 NVIDIA-H200, 2 NVIDIA-L40S",
		Cards: []v1alpha1.CardStatus{
			{Name: "NVIDIA-H800", Quota: 2, Used: 3, OverQuotaBy: 1},
			{Name: "NVIDIA-H200", Quota: 8, Used: 6, Pending: 4, Free: 2, Physical: 16},
			{Name: "Ascend-910B", Used: 1, OverQuotaBy: 1},
			{Name: "NVIDIA-L40S", Pending: 2},
		},
		CPU:          &v1alpha1.ResourceStatus{Used: resource.MustParse("1500m"), Quota: ptr(resource.MustParse("64"))},
		Memory:       &v1alpha1.ResourceStatus{Used: resource.MustParse("3Gi")},
		BlockedTotal: 1,
		Blocked: []v1alpha1.BlockedStatus{{
			Workload: train,
			Card:     "NVIDIA-H200",
			Count:    4,
			Reason:   "Unschedulable",
			Message:  "full",
		}},
	}

	got := NewStatus(input)
	got.Conditions = nil
	check.Equal(t, "status", want, got)
}

// TestSummaryListsAsManyCardsAsFit: the summary is one line of kubectl get: used/quota of each card, those over quota
// first. It has at most 100 characters, and counts the cards that do not fit. Only if the first card alone is longer,
// so is the summary: a name is never cut. Each card here has a quota of 2.
func TestSummaryListsAsManyCardsAsFit(t *testing.T) {
	// quotasOfTwo are cards with a quota of 2, none used.
	quotasOfTwo := func(names ...string) (cards []v1alpha1.CardStatus) {
		for _, name := range names {
			cards = append(cards, v1alpha1.CardStatus{Name: name, Quota: 2})
		}
		return cards
	}

	over := quotasOfTwo("A-10", "B-20", "C-30")
	over[2].Used = 3
	over[2].OverQuotaBy = 1

	long := strings.Repeat("x", 63)
	for t, tc := range check.Cases(t, map[string]struct {
		cards []v1alpha1.CardStatus
		want  string
	}{
		"no card": {want: "none"},
		"two cards: in the order of the spec": {
			cards: quotasOfTwo("B-20", "A-10"),
			want:  "0/2 B-20, 0/2 A-10",
		},
		"the last of three cards is over quota: it comes first": {
			cards: over,
			want:  "3/2 C-30, 0/2 A-10, 0/2 B-20",
		},
		"five cards, the first of 63 characters: only three fit beside the words \", and 2 more\"": {
			cards: quotasOfTwo(long, "A-10", "B-20", "C-30", "D-40"),
			want:  "0/2 " + long + ", 0/2 A-10, 0/2 B-20, and 2 more",
		},
		"one card with a long name: not cut": {
			cards: quotasOfTwo(long + "/mig-" + long + "-mixed"),
			want:  "0/2 " + long + "/mig-" + long + "-mixed",
		},
		"two cards, the first with a long name: not cut": {
			cards: quotasOfTwo(long+"/mig-"+long+"-mixed", "A-10"),
			want:  "0/2 " + long + "/mig-" + long + "-mixed, and 1 more",
		},
		"three cards, the first of 63 characters: all fit": {
			cards: quotasOfTwo(long, "A-10", "B-20"),
			want:  "0/2 " + long + ", 0/2 A-10, 0/2 B-20",
		},
	}) {
		check.Equal(t, "summary", tc.want, usageSummary(tc.cards))
	}
}

func withSync(condition metav1.Condition) func(*StatusInput) {
	return func(input *StatusInput) { input.Sync = condition }
}

func inState(state v1beta1.QueueState) func(*StatusInput) {
	return func(input *StatusInput) { input.Queue.Status.State = state }
}

// TestConditionsSayWhatKeepsAQueueFromWork: condition QueueSynced says whether the Queue carries the quota,
// WithinQuota whether more is used than the quota, and Ready whether pods can start. Each row changes the input of a
// team that uses 1 of its 8 H200, and has the conditions that it is about. Its spec is at generation 3, and it is
// noon.
func TestConditionsSayWhatKeepsAQueueFromWork(t *testing.T) {
	type condition struct{ Status, Reason, Message string }
	for t, tc := range check.Cases(t, map[string]struct {
		change func(*StatusInput)
		want   map[string]condition
	}{
		"the queue is open and within quota": {want: map[string]condition{
			"QueueSynced": {"True", "Synced", "queue team carries this quota"},
			"WithinQuota": {"True", "WithinQuota", "no card is used beyond its quota"},
			"Ready":       {"True", "Ready", "queue team carries this quota and starts pods"},
		}},
		"5 H800 are used of a quota of 2: over quota, and still Ready": {
			change: func(input *StatusInput) { input.Usage.Used = cards{"NVIDIA-H800": 5} },
			want: map[string]condition{
				"WithinQuota": {"False", "OverQuota", "3 NVIDIA-H800 too many (5 used, quota 2): running pods continue, and no " +
					"new pod starts until usage falls below the quota"},
				"Ready": {"True", "Ready", "queue team carries this quota and starts pods"},
			},
		},
		"Volcano has not opened the queue": {
			change: inState(""),
			want: map[string]condition{"Ready": {"False", "QueueNotOpen", "queue team is not open yet: Volcano's controller " +
				"manager opens it"}},
		},
		"the queue was created just now": {
			change: func(input *StatusInput) { input.Queue = nil },
			want: map[string]condition{"Ready": {"False", "QueueNotOpen", "queue team is not open yet: Volcano's controller " +
				"manager opens it"}},
		},
		"the queue is closed": {
			change: inState(v1beta1.QueueStateClosed),
			want: map[string]condition{"Ready": {"False", "QueueNotOpen", "queue team is Closed and starts no pods: it was " +
				"closed by hand or with its parent"}},
		},
		"an older CardQuota owns the queue": {
			change: withSync(QueueConflictCondition("team", "first")),
			want: map[string]condition{
				"QueueSynced": {"False", "QueueConflict", "queue team belongs to the older CardQuota first: this one takes over " +
					"when that one is deleted, or choose another queueName"},
				"WithinQuota": {"Unknown", "NotCounted", "this CardQuota does not own its queue, so its usage is not counted"},
				"Ready": {"False", "QueueConflict", "queue team belongs to the older CardQuota first: this one takes over " +
					"when that one is deleted, or choose another queueName"},
			},
		},
		"the queue is root, which belongs to Volcano": {
			change: withSync(QueueReservedCondition("root")),
			want: map[string]condition{"Ready": {"False", "QueueReserved", "queue root belongs to Volcano and cannot carry a " +
				"quota: choose another queueName"}},
		},
		"the queue is closing, and Volcano refuses changes": {
			change: func(input *StatusInput) {
				input.Queue.Status.State = v1beta1.QueueStateClosing
				input.Sync = QueueRefusedCondition("team", input.Queue, fmt.Errorf("denied"))
			},
			want: map[string]condition{"QueueSynced": {"False", "QueueRefused",
				"queue team could not be written (Volcano refuses changes of a queue that is Closing; the operator writes them " +
					"when the Queue has left that state): denied"}},
		},
		"the CardQuota is deleted, and its queue drains": {
			change: func(input *StatusInput) {
				input.Sync = DrainingCondition("team", queueusage.Members{Pods: 2, PodGroups: 1})
			},
			want: map[string]condition{"Ready": {"False", "Draining",
				"being deleted: queue team has no quota any more and is deleted when these are gone: 2 unfinished pods and 1 " +
					"unfinished PodGroup"}},
		},
		"pods have not been counted yet": {
			change: func(input *StatusInput) { input.Usage = nil },
			want:   map[string]condition{"WithinQuota": {"Unknown", "NotCounted", "pods have not been counted yet"}},
		},
		"pods were counted before the operator restarted: the condition stays": {
			change: func(input *StatusInput) {
				input.Usage = nil
				input.Quota.Status.Conditions = []metav1.Condition{{
					Type:               "WithinQuota",
					Status:             "False",
					Reason:             "OverQuota",
					Message:            "as before",
					LastTransitionTime: metav1.NewTime(noon),
				}}
			},
			want: map[string]condition{"WithinQuota": {"False", "OverQuota", "as before"}},
		},
	}) {
		input := newStatusInput(cards{"NVIDIA-H200": 1}, nil)
		if tc.change != nil {
			tc.change(&input)
		}

		status := NewStatus(input)
		for kind, want := range tc.want {
			c := meta.FindStatusCondition(status.Conditions, kind)
			check.Must(t, c != nil, "condition %s is missing", kind)
			check.Equal(t, kind, want, condition{string(c.Status), c.Reason, c.Message})
			check.Equal(t, kind+": observed generation", int64(3), c.ObservedGeneration)
			check.Equal(t, kind+": last transition", noon, c.LastTransitionTime.Time)
		}
	}
}

// TestNumbersOfAnotherQueueAreCleared: a CardQuota that loses its queue to an older one shows no numbers, because the
// usage of the queue is not its own.
func TestNumbersOfAnotherQueueAreCleared(t *testing.T) {
	input := newStatusInput(cards{"NVIDIA-H200": 1}, nil)
	input.Quota.Status = NewStatus(input)
	input.Sync = QueueConflictCondition("team", "first")
	got := NewStatus(input)
	got.Conditions = nil
	check.Equal(t, "status without conditions", v1alpha1.CardQuotaStatus{ObservedGeneration: 3, Queue: got.Queue}, got)
}

// TestNumbersStayUntilTheNextCount: after a restart of the operator pods are not counted yet. Until then the status
// keeps the numbers of the last count, here 5 used H200.
func TestNumbersStayUntilTheNextCount(t *testing.T) {
	input := newStatusInput(cards{"NVIDIA-H200": 5}, nil)
	input.Quota.Status = NewStatus(input)
	input.Usage = nil
	check.Equal(t, "summary", "0/2 NVIDIA-H800, 5/8 NVIDIA-H200", NewStatus(input).Summary)
}

// TestAConditionThatStaysKeepsItsTime: an hour later nothing has changed, so the status is the same, including
// lastTransitionTime. Otherwise each count would write all CardQuotas.
func TestAConditionThatStaysKeepsItsTime(t *testing.T) {
	input := newStatusInput(nil, nil)
	input.Quota.Status = NewStatus(input)
	input.Now = noon.Add(time.Hour)
	check.Equal(t, "status an hour later", input.Quota.Status, NewStatus(input))
}

// TestADeletedCardQuotaHasNoQuota: a CardQuota that is being deleted grants nothing any more, so its 5 used H200 are
// over a quota of 0. It has no CPU and memory either: a quota that is not set would mean that these are not limited.
func TestADeletedCardQuotaHasNoQuota(t *testing.T) {
	input := newStatusInput(cards{"NVIDIA-H200": 5}, nil)
	input.Quota.DeletionTimestamp = &metav1.Time{Time: noon}
	status := NewStatus(input)
	check.Equal(t, "summary", "5/0 NVIDIA-H200, 0/0 NVIDIA-H800", status.Summary)
	check.Equal(t, "quota of CPU and memory", [2]string{"0", "0"}, [2]string{status.CPU.Quota.String(), status.Memory.Quota.String()})
}

// TestQueueSyncedNamesOtherManagers: when the operator replaces a field that another manager changed, condition
// QueueSynced says who wrote what. The message stays until the spec, which is at generation 3, changes. A weight that
// another manager keeps is in the condition, too.
func TestQueueSyncedNamesOtherManagers(t *testing.T) {
	quotaByKubectl := []FieldConflict{{Manager: "kubectl-edit", Field: ".metadata.annotations.volcano.sh/card.quota"}}
	replaced := metav1.Condition{
		Type:               "QueueSynced",
		Status:             "True",
		Reason:             "ForeignChangeReplaced",
		Message:            "before",
		ObservedGeneration: 3,
	}

	for t, tc := range check.Cases(t, map[string]struct {
		weight                  *int32
		before                  metav1.Condition
		written                 QueueWrite
		wantReason, wantMessage string
	}{
		"no other manager wrote the Queue": {
			wantReason:  "Synced",
			wantMessage: "queue team carries this quota",
		},
		"kubectl-edit wrote the quota, which was replaced now": {
			written:    QueueWrite{Replaced: quotaByKubectl},
			wantReason: "ForeignChangeReplaced",
			wantMessage: "kubectl-edit wrote volcano.sh/card.quota on queue team; replaced at 2026-01-02T12:00:00Z by what this " +
				"CardQuota says",
		},
		"a change was replaced before: the message stays": {
			before:      replaced,
			wantReason:  "ForeignChangeReplaced",
			wantMessage: "before",
		},
		"a change was replaced for generation 2 of the spec, now it is 3: the message is removed": {
			before:      metav1.Condition{Status: "True", Reason: "ForeignChangeReplaced", ObservedGeneration: 2},
			wantReason:  "Synced",
			wantMessage: "queue team carries this quota",
		},
		"helm keeps the weight": {
			weight:      ptr(int32(5)),
			written:     QueueWrite{WeightManager: "helm"},
			wantReason:  "WeightConflict",
			wantMessage: "spec.weight is managed by helm and was left alone instead of becoming 5",
		},
		"helm keeps the weight, and kubectl-edit wrote the quota": {
			weight:      ptr(int32(5)),
			written:     QueueWrite{WeightManager: "helm", Replaced: quotaByKubectl},
			wantReason:  "WeightConflict",
			wantMessage: "kubectl-edit wrote",
		},
	}) {
		quota := newTeamQuota()
		quota.Spec.Weight = tc.weight
		got := QueueSyncedCondition(quota, tc.before, tc.written, noon)
		check.Equal(t, "status", metav1.ConditionTrue, got.Status)
		check.Equal(t, "reason", tc.wantReason, got.Reason)
		check.Contains(t, "message", got.Message, tc.wantMessage)
	}
}

// TestEventsReportChangesOfConditions: users get an event when a condition of the CardQuota changes for the
// worse, and when it becomes Ready. A condition that keeps its reason has no second event. Usage that falls
// below the quota again has no event either, because the CardQuota was Ready all the time. The team has a
// quota of 2 H800.
func TestEventsReportChangesOfConditions(t *testing.T) {
	status := func(change func(*StatusInput)) v1alpha1.CardQuotaStatus {
		input := newStatusInput(nil, nil)
		input.Physical = cards{"NVIDIA-H200": 16, "NVIDIA-H800": 8}
		if change != nil {
			change(&input)
		}
		return NewStatus(input)
	}
	using := func(n card.Count) func(*StatusInput) {
		return func(input *StatusInput) { input.Usage.Used = cards{"NVIDIA-H800": n} }
	}

	for t, tc := range check.Cases(t, map[string]struct {
		before, after v1alpha1.CardQuotaStatus
		want          []string
	}{
		"a new CardQuota becomes ready": {
			after: status(nil),
			want:  []string{"Normal Ready"},
		},
		"nothing changes": {
			before: status(nil),
			after:  status(nil),
		},
		"3 of 2 H800 are used": {
			before: status(nil),
			after:  status(using(3)),
			want:   []string{"Warning OverQuota"},
		},
		"4 of 2 H800 are used, after 3": {
			before: status(using(3)),
			after:  status(using(4)),
		},
		"usage falls below the quota": {
			before: status(using(3)),
			after:  status(nil),
		},
		"another CardQuota owns the queue": {
			before: status(nil),
			after:  status(withSync(QueueConflictCondition("team", "first"))),
			want:   []string{"Warning QueueConflict"},
		},
		"Volcano refuses the Queue": {
			before: status(nil),
			after:  status(withSync(QueueRefusedCondition("team", nil, fmt.Errorf("no")))),
			want:   []string{"Warning QueueRefused"},
		},
		"no node has H800": {
			before: status(nil),
			after:  status(func(input *StatusInput) { input.Physical = cards{"NVIDIA-H200": 16} }),
			want:   []string{"Warning UnknownCard"},
		},
		"Volcano does not refuse the Queue any more": {
			before: status(withSync(QueueRefusedCondition("team", nil, fmt.Errorf("no")))),
			after:  status(nil),
			want:   []string{"Normal Ready"},
		},
	}) {
		var got []string
		for _, e := range Events(tc.before, tc.after) {
			check.That(t, e.Message != "", "event %s says nothing", e.Reason)
			got = append(got, e.Type+" "+e.Reason)
		}
		check.Equal(t, "events", tc.want, got)
	}
}

// TestUnknownNamesOfPodsDoNotDisplaceCards: the status lists a bounded number of cards, and any user who may create
// pods can name cards that do not exist. So after the cards with quota come those that are used or that nodes have,
// by name, and then what pods only name.
func TestUnknownNamesOfPodsDoNotDisplaceCards(t *testing.T) {
	input := newStatusInput(cards{"used": 1}, nil)
	input.Physical = cards{"on-a-node": 4}
	input.Usage.Pending = cards{"on-a-node": 1}
	for i := range 10 * MaxStatusCards {
		input.Usage.Pending[card.Name(fmt.Sprint("0-made-up-", i))] = 1
	}

	got := NewStatus(input).Cards
	granted := len(input.Quota.Spec.Cards)
	check.Equal(t, "number of cards", MaxStatusCards, len(got))
	check.Equal(t, "first card without quota", "on-a-node", got[granted].Name)
	check.Equal(t, "second card without quota", "used", got[granted+1].Name)
}

// TestStatusStaysWithinItsBounds: the API server refuses a status beyond the bounds of its schema. Whatever cards are
// used and whatever texts workloads have, lists and texts are cut to their bounds. Free and over quota are not
// negative, and not both above 0. Quota minus used is free minus over quota. The texts of the usage itself stay.
func TestStatusStaysWithinItsBounds(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		input := newStatusInput(cards{}, cards{})
		for range rapid.IntRange(0, 200).Draw(t, "cards") {
			name := card.Name(rapid.StringMatching(`[A-Z]{1,60}`).Draw(t, "name"))
			input.Usage.Used[name] = card.Count(rapid.Int64Range(0, 1<<40).Draw(t, "used"))
			input.Usage.Pending[name] = card.Count(rapid.Int64Range(0, 1<<40).Draw(t, "pending"))
		}

		text := rapid.String().Draw(t, "text")
		long := strings.Repeat(text, rapid.IntRange(0, 400).Draw(t, "times"))
		input.Usage.Blocked = []v1alpha1.BlockedStatus{{
			Workload: v1alpha1.WorkloadReference{APIGroup: long, Kind: long, Name: long},
			Card:     long,
			Message:  long,
			Holders:  []v1alpha1.CardHolder{{Workload: v1alpha1.WorkloadReference{Name: long}, Queue: long, ServiceType: long}},
		}}

		status := NewStatus(input)
		blocked := status.Blocked[0]

		check.Must(t, input.Usage.Blocked[0].Holders[0].Queue == long, "the texts of the usage were cut")
		for _, field := range []struct {
			text string
			most int
		}{{status.Summary, 1024}, {status.PendingSummary, 1024},
			{blocked.Workload.Name, 253}, {blocked.Workload.Kind, 253}, {blocked.Workload.APIGroup, 253},
			{blocked.Card, waiting.MaxCardLength}, {blocked.Message, conditions.MaxMessageLength},
			{blocked.Holders[0].Workload.Name, 253}, {blocked.Holders[0].Queue, 253}, {blocked.Holders[0].ServiceType, 253}} {
			check.Must(t, len(field.text) <= field.most && utf8.ValidString(field.text),
				"%d bytes, at most %d: %q", len(field.text), field.most, field.text)
		}

		check.Must(t, len(status.Cards) <= MaxStatusCards, "%d cards", len(status.Cards))
		for _, c := range status.Cards {
			check.Must(t, c.Free >= 0 && c.OverQuotaBy >= 0, "negative numbers: %+v", c)
			check.Must(t, c.Free == 0 || c.OverQuotaBy == 0, "free and over quota at once: %+v", c)
			check.Must(t, c.Quota-c.Used == c.Free-c.OverQuotaBy, "numbers do not add up: %+v", c)
		}
	})
}

// TestMoreNamespacesThanViewsSetACondition: tenants see their quota in a view in each namespace that the CardQuota
// selects, in at most 50 of them. While more are selected, condition LocalViewsComplete is False. Otherwise the
// condition is missing. The three counts follow each other, so the condition of 51 must go again with 0.
func TestMoreNamespacesThanViewsSetACondition(t *testing.T) {
	input := newStatusInput(cards{}, cards{})
	for _, selected := range []int{50, 51, 0} { // each status is computed from the one before
		input.LocalViews = localquota.ViewsCondition(selected)
		input.Quota.Status = NewStatus(input)

		condition := describeCondition(input.Quota.Status, v1alpha1.ConditionLocalViewsComplete)
		if selected <= 50 {
			check.Equal(t, fmt.Sprint("condition for ", selected), "", condition)
			continue
		}
		check.Contains(t, "condition for 51", condition, "False/"+v1alpha1.ReasonTooManyNamespaces, "selects 51 namespaces")
	}
}

// TestTheStatusHasACopyOfTheForecast: the answer of the API server overwrites the status that was written, and other
// goroutines read the forecast of the last count. In mode Enforce the status has none.
func TestTheStatusHasACopyOfTheForecast(t *testing.T) {
	quota := builder.CardQuota("team").Obj()
	foretold := &v1alpha1.CardQuotaForecast{Waiting: &v1alpha1.ForecastWorkloads{Total: 1}}
	input := StatusInput{Quota: quota, Mode: v1alpha1.ModeObserve, Sync: ObservedQueueCondition(quota, quota), Forecast: foretold, Tree: Flat}

	status := NewStatus(input)
	check.Equal(t, "forecast in mode Observe", foretold, status.Forecast)
	status.Forecast.Waiting.Total = 7
	check.Equal(t, "what the count found", int32(1), foretold.Waiting.Total)

	input.Mode = v1alpha1.ModeEnforce
	check.Equal(t, "forecast in mode Enforce", (*v1alpha1.CardQuotaForecast)(nil), NewStatus(input).Forecast)
}
