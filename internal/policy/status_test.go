package policy

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/conditions"
	"cardquota.dev/operator/internal/testing/check"
)

// synced and missingBase are conditions of a rendered configuration, and of one without a base.
var (
	synced      = render(newBase(plainBase), "-", "").Condition
	missingBase = render(nil, "a base", "x").Condition
)

// newEnforced returns what the operator knows of a scheduler that proves its configuration.
func newEnforced() Enforcement {
	return Enforcement{Condition: metav1.Condition{Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonEnforced, Message: "proven"}}
}

// newStatusInput returns the input for a default policy of generation 3 that is rendered, with hash abc, and
// enforced. CardQuotas have service type training (2) and other (7).
func newStatusInput(changes ...func(*StatusInput)) StatusInput {
	spec := Effective(v1alpha1.ServiceTypePolicySpec{})
	input := StatusInput{
		Policy:    &v1alpha1.ServiceTypePolicy{ObjectMeta: metav1.ObjectMeta{Name: "default", Generation: 3}},
		Effective: &spec,
		Sync:      synced,
		Hash:      "abc",
		Enforced:  newEnforced(),
		Quotas:    map[string]int32{"training": 2, "other": 7},
		Now:       noon,
	}

	for _, change := range changes {
		change(&input)
	}
	return input
}

// formatCondition returns a condition as "Status/Reason: message", "" if there is none.
func formatCondition(status v1alpha1.ServiceTypePolicyStatus, kind string) string {
	c := meta.FindStatusCondition(status.Conditions, kind)
	if c == nil {
		return ""
	}
	return string(c.Status) + "/" + c.Reason + ": " + c.Message
}

// TestStatusSaysWhatIsInForce: once the scheduler's configuration has the spec, the status lists its service types
// with the number of their CardQuotas. It also has the modes, the cards, and the hash of the configuration.
// newStatusInput has generation 3, hash abc and 2 CardQuotas of type training. While a later spec is invalid, the
// cards in force stay.
func TestStatusSaysWhatIsInForce(t *testing.T) {
	input := newStatusInput(func(input *StatusInput) { input.Enforced.Scheduler = &v1alpha1.SchedulerStatus{Version: "v1"} })
	input.Effective.ServiceTypes[1].MinimumRuntimeSeconds = 60
	input.Effective.Cards = []v1alpha1.CardMapping{{Resource: "amd.com/gpu", Model: "MI210"}}
	got := StatusFor(input)

	check.Equal(t, "service types", []v1alpha1.ServiceTypeStatus{
		{Name: "inference", Priority: 80000, ReclaimPolicy: "Never", ReclaimFrom: []string{"training"}},
		{Name: "training", Priority: 20000, ReclaimPolicy: "WhenNeeded", CardQuotas: 2, MinimumRuntimeSeconds: 60},
	}, got.ServiceTypes)
	check.Equal(t, "modes: reclaim, reclaimResources and queueHierarchy", "Gangs Cards Flat",
		fmt.Sprint(got.Reclaim, " ", got.ReclaimResources, " ", got.QueueHierarchy))
	check.Equal(t, "hash", "abc", got.ConfigHash)
	check.Equal(t, "generation", 3, got.ObservedGeneration)
	check.Equal(t, "version of the scheduler", "v1", got.Scheduler.Version)
	for kind, want := range map[string]string{
		"ConfigSynced": "True/Synced: the scheduler's configuration is ConfigMap volcano-system/scheduler, key conf merged with this policy",
		"Enforced":     "True/Enforced: proven",
		"Ready":        "True/Ready: the policy is in the scheduler's configuration and in force",
	} {
		check.Equal(t, "condition "+kind, want, formatCondition(got, kind))
	}

	input.Policy.Status = got
	input.Effective = nil
	check.Equal(t, "cards while the spec is invalid", got.Cards, StatusFor(input).Cards)
}

// TestCardsOfAPolicy: entries of spec.cards name the cards of nodes. The entries in the status are in force
// (CardMappings). kubectl cardquota may read a policy that the operator has not put in force yet, so that its status
// has no service types. Then it expects the entries of the spec (ExpectedMappings), and none from an invalid spec.
func TestCardsOfAPolicy(t *testing.T) {
	input := newStatusInput()
	input.Effective.Cards = []v1alpha1.CardMapping{{Resource: "amd.com/gpu", Model: "MI210"}}
	got := StatusFor(input)
	amd := card.Mappings{{Resource: "amd.com/gpu", Model: "MI210"}}
	check.Equal(t, "cards in force", amd, CardMappings(&v1alpha1.ServiceTypePolicy{Status: got}))
	check.Equal(t, "cards without a policy", nil, CardMappings(nil))

	written := &v1alpha1.ServiceTypePolicy{Spec: v1alpha1.ServiceTypePolicySpec{Cards: input.Effective.Cards}}
	for name, tc := range map[string]struct {
		policy *v1alpha1.ServiceTypePolicy
		want   card.Mappings
	}{
		"in force": {
			policy: &v1alpha1.ServiceTypePolicy{Status: got},
			want:   amd,
		},
		"written, and not in force yet": {written, amd},
		"written into a policy that is in force without them": {
			policy: &v1alpha1.ServiceTypePolicy{Spec: written.Spec, Status: v1alpha1.ServiceTypePolicyStatus{ServiceTypes: got.ServiceTypes}},
			want:   card.Mappings{}, // no mapping, as nil in the next two rows
		},
		"written, and invalid": {
			policy: &v1alpha1.ServiceTypePolicy{Spec: v1alpha1.ServiceTypePolicySpec{Cards: []v1alpha1.CardMapping{{Resource: "cpu", Model: "X"}}}},
		},
		"no policy": {nil, nil},
	} {
		check.Equal(t, "expected cards, "+name, tc.want, ExpectedMappings(tc.policy))
	}
}

// TestInvalidSpecLeavesWhatIsInForce: a policy that is in force gets an invalid spec, generation 4. Its status keeps
// the service types, modes and hash (abc) of what is still in force. Only the numbers of CardQuotas follow. The
// conditions say that this spec is not applied, and why.
func TestInvalidSpecLeavesWhatIsInForce(t *testing.T) {
	before := StatusFor(newStatusInput())
	got := StatusFor(newStatusInput(func(input *StatusInput) {
		input.Policy.Status = before
		input.Policy.Generation = 4
		input.Policy.Status.QueueHierarchy = "Tree"
		input.Policy.Status.ReclaimResources = "All"
		input.Effective = nil
		input.Hash = ""
		input.Sync = InvalidCondition(field.ErrorList{field.Forbidden(field.NewPath("spec"), "a takes from b")})
		input.Quotas = map[string]int32{"inference": 9}
	}))

	want := before.ServiceTypes
	want[0].CardQuotas = 9
	want[1].CardQuotas = 0
	check.Equal(t, "service types", want, got.ServiceTypes)
	check.Equal(t, "modes: reclaim, reclaimResources and queueHierarchy", "Gangs All Tree",
		fmt.Sprint(got.Reclaim, " ", got.ReclaimResources, " ", got.QueueHierarchy))
	check.Equal(t, "hash", "abc", got.ConfigHash)
	check.Equal(t, "generation", 4, got.ObservedGeneration)

	wantCondition := "False/InvalidPolicy: this spec is not applied, and the previous configuration stays in force: spec: Forbidden: a takes from b"
	for _, kind := range []string{"ConfigSynced", "Ready"} {
		check.Equal(t, "condition "+kind, wantCondition, formatCondition(got, kind))
	}
}

// TestReadySaysTheFirstThingThatIsMissing: condition Ready is True if the configuration is rendered and the
// scheduler proves it. Otherwise it has the reason of the condition that is not True, ConfigSynced or Enforced.
// ConfigSynced comes first: without a configuration, Enforced means nothing. Before the scheduler is observed,
// Enforced is Unknown with reason NotConfigured.
func TestReadySaysTheFirstThingThatIsMissing(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		change func(*StatusInput)
		want   string
	}{
		"the base is missing": {func(input *StatusInput) { input.Sync = missingBase }, "False/BaseMissing: "},
		"there is no heartbeat": {func(input *StatusInput) {
			input.Enforced.Condition = metav1.Condition{Status: metav1.ConditionFalse, Reason: "NoHeartbeat", Message: "silent"}
		}, "False/NoHeartbeat: silent"},
		"the scheduler was not observed yet": {func(input *StatusInput) { input.Enforced = UnknownEnforcement() }, "Unknown/NotConfigured: "},
		"the base is missing, and the scheduler was not observed yet": {func(input *StatusInput) {
			input.Sync = missingBase
			input.Enforced = UnknownEnforcement()
		}, "False/BaseMissing: "},
	}) {
		ready := formatCondition(StatusFor(newStatusInput(tc.change)), "Ready")

		check.That(t, strings.HasPrefix(ready, tc.want), "Ready is %q, want %q…", ready, tc.want)
	}
}

// TestMessagesOfConditionsAreBounded: errors of the API server and of a spec can be long and have several lines. In a
// condition they are cut to the largest length of a message. Their lines are joined to one line.
func TestMessagesOfConditionsAreBounded(t *testing.T) {
	long := strings.Repeat("x", 5000)
	for _, condition := range []metav1.Condition{
		RefusedCondition(errors.New(long), true), // true: a retry would fail again
		InvalidCondition(field.ErrorList{field.Forbidden(field.NewPath("spec"), long)}),
	} {
		check.That(t, len(condition.Message) <= conditions.MaxMessageLength, "the message has %d bytes", len(condition.Message))
	}
	check.Contains(t, "message of a refused write", RefusedCondition(errors.New("forbidden\nhere"), true).Message,
		"forbidden; here: as shipped, cardquota-manager may read")
}

// TestGuardOfADeletedPolicyIsNotReported: BypassGuarded says whether admission policies keep pods from bypassing the
// scheduler. What the operator found for a deleted policy is not a condition of a new one of the same name. Their
// UIDs distinguish the two policies. The condition has the generation for which it was found, here 2.
func TestGuardOfADeletedPolicyIsNotReported(t *testing.T) {
	denied := metav1.Condition{Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonBypassDenied, Message: "stands"}
	for uid, want := range map[types.UID]string{"this": "True/Denied: stands", "the one before": ""} {
		got := StatusFor(newStatusInput(func(input *StatusInput) {
			input.Policy.UID = "this"
			input.Guard = &Guard{Condition: denied, UID: uid, Generation: 2}
		}))
		check.Equal(t, fmt.Sprintf("condition, found for the policy with UID %s", uid), want, formatCondition(got, "BypassGuarded"))
		if c := meta.FindStatusCondition(got.Conditions, "BypassGuarded"); c != nil {
			check.Equal(t, "generation", 2, c.ObservedGeneration)
		}
	}
}

// TestEventsSayWhatChanged: an event is written when a condition becomes True, or gets another reason for
// False. The event of True has the name of the condition. That of a False ConfigSynced has its reason, that of
// a False Enforced is NotEnforced. Condition Ready that becomes False has no event of its own, since it has the
// reason of another condition. A status like the last one causes no event.
func TestEventsSayWhatChanged(t *testing.T) {
	good := StatusFor(newStatusInput())
	missing := StatusFor(newStatusInput(func(input *StatusInput) {
		input.Sync = missingBase
		input.Hash = ""
	}))

	silent := StatusFor(newStatusInput(func(input *StatusInput) {
		input.Enforced.Condition = metav1.Condition{Status: metav1.ConditionFalse, Reason: "NoHeartbeat", Message: "silent"}
	}))
	second := StatusFor(newStatusInput(func(input *StatusInput) {
		input.Enforced.Condition = metav1.Condition{Status: metav1.ConditionFalse, Reason: "SecondScheduler", Message: "two"}
	}))

	for t, tc := range check.Cases(t, map[string]struct {
		before, after v1alpha1.ServiceTypePolicyStatus
		want          []string
	}{
		"the first status, all is in order": {
			before: v1alpha1.ServiceTypePolicyStatus{},
			after:  good,
			want:   []string{"Normal ConfigSynced", "Normal Enforced", "Normal Ready"},
		},
		"all is in order as before":                  {before: good, after: good},
		"the base is deleted":                        {good, missing, []string{"Warning BaseMissing"}},
		"the base is still missing":                  {before: missing, after: missing},
		"the base is back":                           {missing, good, []string{"Normal ConfigSynced", "Normal Ready"}},
		"the heartbeat stops":                        {good, silent, []string{"Warning NotEnforced"}},
		"a second scheduler instead of no heartbeat": {silent, second, []string{"Warning NotEnforced"}},
		"one scheduler with a heartbeat again":       {second, good, []string{"Normal Enforced", "Normal Ready"}},
	}) {
		var got []string
		for _, e := range Events(tc.before, tc.after) {
			got = append(got, e.Type+" "+e.Reason)
		}
		check.Equal(t, "events", tc.want, got)
	}
}

// TestInForceIsTheReadPolicyOrTheLastOne: the policy may be deleted, or created again and not be in force yet.
// Then the tree of the last one stays in force, as the operator keeps it. What only the spec says, such as
// unmanagedQueues, is that of the policy that exists, or else of the last one.
func TestInForceIsTheReadPolicyOrTheLastOne(t *testing.T) {
	newPolicy := func(unmanaged v1alpha1.UnmanagedQueues, hierarchy v1alpha1.QueueHierarchy) *v1alpha1.ServiceTypePolicy {
		policy := &v1alpha1.ServiceTypePolicy{Spec: v1alpha1.ServiceTypePolicySpec{UnmanagedQueues: unmanaged}}
		if hierarchy != "" {
			policy.Status = v1alpha1.ServiceTypePolicyStatus{
				QueueHierarchy: hierarchy, ServiceTypes: []v1alpha1.ServiceTypeStatus{{Name: "training"}},
			}
		}
		return policy
	}

	tree := newPolicy(v1alpha1.UnmanagedDeny, v1alpha1.QueueHierarchyTree)
	flat := newPolicy("", v1alpha1.QueueHierarchyFlat)
	created := newPolicy(v1alpha1.UnmanagedIgnore, "")
	for t, tc := range check.Cases(t, map[string]struct {
		read, last *v1alpha1.ServiceTypePolicy
		isTree     bool
		unmanaged  v1alpha1.UnmanagedQueues
	}{
		"there never was a policy":                     {},
		"the first policy, not in force yet":           {read: created, unmanaged: v1alpha1.UnmanagedIgnore},
		"a policy in force":                            {read: tree, isTree: true, unmanaged: v1alpha1.UnmanagedDeny},
		"a tree in force, flat before":                 {read: tree, last: flat, isTree: true, unmanaged: v1alpha1.UnmanagedDeny},
		"flat in force, a tree before":                 {read: flat, last: tree},
		"the policy with a tree is deleted":            {last: tree, isTree: true, unmanaged: v1alpha1.UnmanagedDeny},
		"created again after a tree, not in force yet": {read: created, last: tree, isTree: true, unmanaged: v1alpha1.UnmanagedIgnore},
	}) {
		got := InForce(tc.read, tc.last)
		check.Equal(t, "tree", tc.isTree, IsTree(got))
		check.Equal(t, "no policy in force", tc.read == nil && tc.last == nil, got == nil)
		if got != nil {
			check.Equal(t, "unmanaged queues", tc.unmanaged, got.Spec.UnmanagedQueues)
		}
		check.That(t, !HasTakenEffect(created), "the policy that was read is changed")
	}
}
