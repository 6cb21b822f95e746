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
	"cardquota.dev/operator/internal/blocked"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/conditions"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/seed"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

type cards = map[card.Name]card.Count

func ptr[T any](v T) *T { return &v }

// team is a CardQuota of 8 H200 and 2 H800.
func team() *v1alpha1.CardQuota {
	return builder.CardQuota("team").Card("NVIDIA-H800", 2).Card("NVIDIA-H200", 8).Resources("64", "").
		With(func(q *v1alpha1.CardQuota) { q.Generation = 3 }).Obj()
}

// facts are those of a team that has its open queue and uses what is given.
func facts(used, pending cards) StatusInput {
	return StatusInput{
		Quota: team(), Queue: builder.Queue("team").Obj(), Now: noon,
		Sync:     QueueSyncedCondition(team(), metav1.Condition{}, QueueWrite{}, noon),
		Usage:    &Usage{Used: used, Pending: pending},
		Physical: cards{"NVIDIA-H200": 16},
	}
}

var train = v1alpha1.WorkloadReference{APIGroup: "batch.volcano.sh", Kind: "Job", Namespace: "lab", Name: "train"}

func TestNumbers(t *testing.T) {
	f := facts(cards{"NVIDIA-H200": 6, "NVIDIA-H800": 3, "Ascend-910B": 1}, cards{"NVIDIA-H200": 4, "NVIDIA-L40S": 2})
	f.Usage.MilliCPU = 1500
	f.Usage.Memory = 3 << 30
	f.Usage.Blocked = []v1alpha1.BlockedStatus{{Workload: train, Card: "NVIDIA-H200", Count: 4, Reason: "Unschedulable", Message: "full"}}
	f.Usage.BlockedTotal = 1
	got := NewStatus(f)

	want := v1alpha1.CardQuotaStatus{
		ObservedGeneration: 3,
		Queue:              &v1alpha1.QueueStatus{Name: "team", State: "Open"},
		// What is over quota first.
		Summary:        "3/2 NVIDIA-H800, 1/0 Ascend-910B, 6/8 NVIDIA-H200, 0/0 NVIDIA-L40S",
		PendingSummary: "4 NVIDIA-H200, 2 NVIDIA-L40S",
		// The order of the spec, then what has no quota by name.
		Cards: []v1alpha1.CardStatus{
			{Name: "NVIDIA-H800", Quota: 2, Used: 3, OverQuotaBy: 1},
			{Name: "NVIDIA-H200", Quota: 8, Used: 6, Pending: 4, Free: 2, Physical: 16},
			{Name: "Ascend-910B", Used: 1, OverQuotaBy: 1},
			{Name: "NVIDIA-L40S", Pending: 2},
		},
		CPU:          &v1alpha1.ResourceStatus{Used: resource.MustParse("1500m"), Quota: ptr(resource.MustParse("64"))},
		Memory:       &v1alpha1.ResourceStatus{Used: resource.MustParse("3Gi")},
		BlockedTotal: 1, Blocked: []v1alpha1.BlockedStatus{{Workload: train, Card: "NVIDIA-H200", Count: 4, Reason: "Unschedulable", Message: "full"}},
	}

	got.Conditions = nil
	check.Equal(t, "status", want, got)
}

func TestSummary(t *testing.T) {
	of := func(names ...string) (cards []v1alpha1.CardStatus) {
		for _, name := range names {
			cards = append(cards, v1alpha1.CardStatus{Name: name, Quota: 2})
		}
		return cards
	}

	over := of("A-10", "B-20", "C-30")
	over[2].Used = 3
	over[2].OverQuotaBy = 1

	long := strings.Repeat("x", 63)
	for t, tc := range check.Cases(t, map[string]struct {
		cards []v1alpha1.CardStatus
		want  string
	}{
		"no card":                           {want: "none"},
		"cards stand in their order":        {cards: of("B-20", "A-10"), want: "0/2 B-20, 0/2 A-10"},
		"a card over quota is seen first":   {cards: over, want: "3/2 C-30, 0/2 A-10, 0/2 B-20"},
		"what does not fit is counted":      {cards: of(long, "A-10", "B-20", "C-30", "D-40"), want: "0/2 " + long + ", 0/2 A-10, 0/2 B-20, and 2 more"},
		"one name is never cut":             {cards: of(long + "/mig-" + long + "-mixed"), want: "0/2 " + long + "/mig-" + long + "-mixed"},
		"a line that just fits is complete": {cards: of(long, "A-10", "B-20"), want: "0/2 " + long + ", 0/2 A-10, 0/2 B-20"},
	}) {
		check.Equal(t, "summary", tc.want, usageSummary(tc.cards))
	}
}

func withSync(condition metav1.Condition) func(*StatusInput) {
	return func(f *StatusInput) { f.Sync = condition }
}

func inState(state v1beta1.QueueState) func(*StatusInput) {
	return func(f *StatusInput) { f.Queue.Status.State = state }
}

func TestConditions(t *testing.T) {
	type verdict struct{ Status, Reason, Message string }
	for t, tc := range check.Cases(t, map[string]struct {
		facts func(*StatusInput)
		want  map[string]verdict
	}{
		"everything is fine": {want: map[string]verdict{
			"QueueSynced": {"True", "Synced", "queue team carries this quota"},
			"WithinQuota": {"True", "WithinQuota", "no card is used beyond its quota"},
			"Ready":       {"True", "Ready", "queue team carries this quota and starts pods"},
		}},
		"use beyond the quota is a condition and leaves the quota ready": {facts: func(f *StatusInput) { f.Usage.Used = cards{"NVIDIA-H800": 5} },
			want: map[string]verdict{
				"WithinQuota": {"False", "OverQuota", "3 NVIDIA-H800 too many (5 used, quota 2): running pods continue, and no new pod starts until usage falls below the quota"},
				"Ready":       {"True", "Ready", "queue team carries this quota and starts pods"},
			}},
		"a queue that Volcano has not opened takes no work": {facts: inState(""),
			want: map[string]verdict{"Ready": {"False", "QueueNotOpen", "queue team is not open yet: Volcano's controller manager opens it"}}},
		"a queue that was just made is not open": {facts: func(f *StatusInput) { f.Queue = nil },
			want: map[string]verdict{"Ready": {"False", "QueueNotOpen", "queue team is not open yet: Volcano's controller manager opens it"}}},
		"a closed queue takes no work": {facts: inState(v1beta1.QueueStateClosed),
			want: map[string]verdict{"Ready": {"False", "QueueNotOpen", "queue team is Closed and starts no pods: it was closed by hand or with its parent"}}},
		"a queue of another CardQuota": {facts: withSync(QueueConflictCondition("team", "first")), want: map[string]verdict{
			"QueueSynced": {"False", "QueueConflict", "queue team belongs to the older CardQuota first: this one takes over when that one is deleted, or choose another queueName"},
			"WithinQuota": {"Unknown", "NotCounted", "this CardQuota does not own its queue, so its usage is not counted"},
			"Ready":       {"False", "QueueConflict", "queue team belongs to the older CardQuota first: this one takes over when that one is deleted, or choose another queueName"},
		}},
		"a queue of Volcano's own": {facts: withSync(QueueReservedCondition("root")),
			want: map[string]verdict{"Ready": {"False", "QueueReserved", "queue root belongs to Volcano and cannot carry a quota: choose another queueName"}}},
		"a queue that refuses changes while it closes": {
			facts: func(f *StatusInput) {
				f.Queue.Status.State = v1beta1.QueueStateClosing
				f.Sync = QueueRefusedCondition("team", f.Queue, fmt.Errorf("denied"))
			},
			want: map[string]verdict{"QueueSynced": {"False", "QueueRefused",
				"queue team could not be written (Volcano refuses changes of a queue that is Closing; the operator writes them when the Queue has left that state): denied"}},
		},
		"a queue that is drained": {facts: func(f *StatusInput) { f.Sync = DrainingCondition("team", Members{Pods: 2, PodGroups: 1}) },
			want: map[string]verdict{"Ready": {"False", "Draining",
				"being deleted: queue team has no quota any more and is deleted when these are gone: 2 unfinished pods and 1 unfinished PodGroup"}}},
		"pods were not counted yet": {facts: func(f *StatusInput) { f.Usage = nil },
			want: map[string]verdict{"WithinQuota": {"Unknown", "NotCounted", "pods have not been counted yet"}}},
		"pods were counted before the restart": {
			facts: func(f *StatusInput) {
				f.Usage = nil
				f.Quota.Status.Conditions = []metav1.Condition{{Type: "WithinQuota", Status: "False", Reason: "OverQuota", Message: "as before",
					LastTransitionTime: metav1.NewTime(noon)}}
			},
			want: map[string]verdict{"WithinQuota": {"False", "OverQuota", "as before"}},
		},
	}) {
		f := facts(cards{"NVIDIA-H200": 1}, nil)
		if tc.facts != nil {
			tc.facts(&f)
		}

		status := NewStatus(f)
		for kind, want := range tc.want {
			c := meta.FindStatusCondition(status.Conditions, kind)
			check.Must(t, c != nil, "condition %s is missing", kind)
			check.Equal(t, kind, want, verdict{string(c.Status), c.Reason, c.Message})
			check.That(t, c.ObservedGeneration == 3 && c.LastTransitionTime.Time.Equal(noon),
				"%s is about generation %d since %s", kind, c.ObservedGeneration, c.LastTransitionTime)
		}
	}
}

func TestNumbersOfAnotherQueueAreCleared(t *testing.T) {
	f := facts(cards{"NVIDIA-H200": 1}, nil)
	f.Quota.Status = NewStatus(f)
	f.Sync = QueueConflictCondition("team", "first")
	got := NewStatus(f)
	check.That(t, got.Cards == nil && got.CPU == nil && got.Memory == nil && got.Blocked == nil,
		"numbers of another CardQuota's queue stand: %+v", got)
	check.That(t, got.Summary == "" && got.PendingSummary == "", "summaries of another CardQuota's queue stand: %+v", got)
}

func TestNumbersStayUntilTheNextCount(t *testing.T) {
	f := facts(cards{"NVIDIA-H200": 5}, nil)
	f.Quota.Status = NewStatus(f)
	f.Usage = nil
	check.Equal(t, "summary", "0/2 NVIDIA-H800, 5/8 NVIDIA-H200", NewStatus(f).Summary)
}

func TestAConditionThatStaysKeepsItsTime(t *testing.T) {
	f := facts(nil, nil)
	f.Quota.Status = NewStatus(f)
	f.Now = noon.Add(time.Hour)
	check.Equal(t, "nothing happened, yet the status changed", f.Quota.Status, NewStatus(f))
}

func TestADeletedCardQuotaHasNoQuota(t *testing.T) {
	f := facts(cards{"NVIDIA-H200": 5}, nil)
	f.Quota.DeletionTimestamp = &metav1.Time{Time: noon}
	check.Equal(t, "summary", "5/0 NVIDIA-H200, 0/0 NVIDIA-H800", NewStatus(f).Summary)
}

func TestSynced(t *testing.T) {
	foreign := []FieldConflict{{Manager: "kubectl-edit", Field: ".metadata.annotations.volcano.sh/card.quota"}}
	replaced := metav1.Condition{Type: "QueueSynced", Status: "True", Reason: "ForeignChangeReplaced", Message: "before", ObservedGeneration: 3}

	for t, tc := range check.Cases(t, map[string]struct {
		weight                 *int32
		before                 metav1.Condition
		written                QueueWrite
		wantReason, wantInText string
	}{
		"nothing special": {wantReason: "Synced", wantInText: "queue team carries this quota"},
		"a foreign change is named with its editor and time": {written: QueueWrite{Replaced: foreign}, wantReason: "ForeignChangeReplaced",
			wantInText: "kubectl-edit wrote volcano.sh/card.quota on queue team; replaced at 2026-01-02T12:00:00Z by what this CardQuota says"},
		"a foreign change stays visible": {before: replaced, wantReason: "ForeignChangeReplaced", wantInText: "before"},
		"a foreign change is history after the spec changed": {
			before: metav1.Condition{Status: "True", Reason: "ForeignChangeReplaced", ObservedGeneration: 2}, wantReason: "Synced"},
		"a weight of another manager is in the condition": {weight: ptr(int32(5)), written: QueueWrite{WeightManager: "helm"}, wantReason: "WeightConflict",
			wantInText: "spec.weight is managed by helm and was left alone instead of becoming 5"},
		"a weight of another manager and a drift are both in the condition": {weight: ptr(int32(5)),
			written: QueueWrite{WeightManager: "helm", Replaced: foreign}, wantReason: "WeightConflict", wantInText: "kubectl-edit wrote"},
	}) {
		quota := team()
		quota.Spec.Weight = tc.weight
		got := QueueSyncedCondition(quota, tc.before, tc.written, noon)
		check.That(t, got.Status == metav1.ConditionTrue && got.Reason == tc.wantReason && strings.Contains(got.Message, tc.wantInText),
			"Synced = %+v, want True %s with %q", got, tc.wantReason, tc.wantInText)
	}
}

func TestEvents(t *testing.T) {
	status := func(change func(*StatusInput)) v1alpha1.CardQuotaStatus {
		f := facts(nil, nil)
		f.Physical = cards{"NVIDIA-H200": 16, "NVIDIA-H800": 8}
		if change != nil {
			change(&f)
		}
		return NewStatus(f)
	}
	over := func(n card.Count) func(*StatusInput) {
		return func(f *StatusInput) { f.Usage.Used = cards{"NVIDIA-H800": n} }
	}

	for t, tc := range check.Cases(t, map[string]struct {
		before, after v1alpha1.CardQuotaStatus
		want          []string
	}{
		"a new CardQuota becomes ready":       {after: status(nil), want: []string{"Normal Ready"}},
		"what stays is silent":                {before: status(nil), after: status(nil)},
		"over quota has one event":            {before: status(nil), after: status(over(3)), want: []string{"Warning OverQuota"}},
		"more over quota has no second event": {before: status(over(3)), after: status(over(4))},
		"back within quota is silent":         {before: status(over(3)), after: status(nil)},
		"losing the queue has an event": {before: status(nil), after: status(withSync(QueueConflictCondition("team", "first"))),
			want: []string{"Warning QueueConflict"}},
		"a refusal has an event": {before: status(nil), after: status(withSync(QueueRefusedCondition("team", nil, fmt.Errorf("no")))),
			want: []string{"Warning QueueRefused"}},
		"an unknown card has an event": {before: status(nil), after: status(func(f *StatusInput) { f.Physical = cards{"NVIDIA-H200": 16} }),
			want: []string{"Warning UnknownCard"}},
		"recovering has an event": {before: status(withSync(QueueRefusedCondition("team", nil, fmt.Errorf("no")))), after: status(nil),
			want: []string{"Normal Ready"}},
	}) {
		var got []string
		for _, e := range Events(tc.before, tc.after) {
			check.That(t, e.Message != "", "event %s says nothing", e.Reason)
			got = append(got, e.Type+" "+e.Reason)
		}
		check.Equal(t, "events", tc.want, got)
	}
}

// A user who may create pods can name any number of cards that do not exist.
func TestUnknownNamesOfPodsDoNotDisplaceCards(t *testing.T) {
	f := facts(cards{"held": 1}, nil)
	f.Physical = cards{"there": 4}
	f.Usage.Pending = cards{"there": 1}
	for i := range 10 * MaxStatusCards {
		f.Usage.Pending[card.Name(fmt.Sprint("0-made-up-", i))] = 1
	}
	got := NewStatus(f).Cards
	granted := len(f.Quota.Spec.Cards)
	check.That(t, len(got) == MaxStatusCards && got[granted].Name == "held" && got[granted+1].Name == "there", "%d cards, beginning with %+v, want what is held and what is there before what is only named", len(got), got[:granted+2])
}

func TestStatusStaysWithinItsBounds(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		f := facts(cards{}, cards{})
		for range rapid.IntRange(0, 200).Draw(t, "cards") {
			name := card.Name(rapid.StringMatching(`[A-Z]{1,60}`).Draw(t, "name"))
			f.Usage.Used[name] = card.Count(rapid.Int64Range(0, 1<<40).Draw(t, "used"))
			f.Usage.Pending[name] = card.Count(rapid.Int64Range(0, 1<<40).Draw(t, "pending"))
		}

		text := rapid.String().Draw(t, "text")
		long := strings.Repeat(text, rapid.IntRange(0, 400).Draw(t, "times"))
		f.Usage.Blocked = []v1alpha1.BlockedStatus{{Workload: v1alpha1.WorkloadReference{APIGroup: long, Kind: long, Name: long}, Card: long, Message: long,
			Holders: []v1alpha1.CardHolder{{Workload: v1alpha1.WorkloadReference{Name: long}, Queue: long, ServiceType: long}}}}

		s := NewStatus(f)
		b := s.Blocked[0]

		check.Must(t, f.Usage.Blocked[0].Holders[0].Queue == long, "the usage was changed")
		for _, field := range []struct {
			text string
			most int
		}{{s.Summary, 1024}, {s.PendingSummary, 1024}, {b.Workload.Name, 253}, {b.Workload.Kind, 253}, {b.Workload.APIGroup, 253},
			{b.Card, blocked.MaxCardLength}, {b.Message, conditions.MaxMessageLength},
			{b.Holders[0].Workload.Name, 253}, {b.Holders[0].Queue, 253}, {b.Holders[0].ServiceType, 253}} {
			check.Must(t, len(field.text) <= field.most && utf8.ValidString(field.text),
				"%d bytes, at most %d: %q", len(field.text), field.most, field.text)
		}

		check.Must(t, len(s.Cards) <= MaxStatusCards, "%d cards", len(s.Cards))
		for _, c := range s.Cards {
			check.Must(t, c.Free >= 0 && c.OverQuotaBy >= 0, "negative numbers: %+v", c)
			check.Must(t, (c.Free <= 0 || c.OverQuotaBy <= 0) && c.Quota-c.Used == c.Free-c.OverQuotaBy, "numbers do not add up: %+v", c)
		}
	})
}

// TestTooManyNamespaces: the condition is there only while a namespace lacks its view.
func TestTooManyNamespaces(t *testing.T) {
	f := facts(cards{}, cards{})
	for _, tc := range []struct {
		selected int
		want     string
	}{{50, ""}, {51, v1alpha1.ReasonTooManyNamespaces}, {0, ""}} {
		f.SelectedNamespaces = tc.selected
		f.Quota.Status = NewStatus(f)
		c := conditions.Get(f.Quota.Status.Conditions, v1alpha1.ConditionLocalViewsComplete)
		check.Equal(t, fmt.Sprint(tc.selected, " namespaces"), tc.want, c.Reason)
		check.That(t, c.Reason == "" || (c.Status == metav1.ConditionFalse && strings.Contains(c.Message, "selects 51 namespaces")), "%+v", c)
	}
}
