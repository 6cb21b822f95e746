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

// synced and missing are what may have become of the configuration.
var (
	synced  = configured(written(plain), "-", "").Condition
	missing = configured(nil, "a base", "x").Condition
)

// enforced is the verdict of a scheduler that works by the configuration.
func enforced() Enforcement {
	return Enforcement{Condition: metav1.Condition{Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonEnforced, Message: "proven"}}
}

// facts are those of a policy that is in force.
func facts(change func(*StatusInput)) StatusInput {
	spec := Effective(v1alpha1.ServiceTypePolicySpec{})
	f := StatusInput{
		Policy:    &v1alpha1.ServiceTypePolicy{ObjectMeta: metav1.ObjectMeta{Name: "default", Generation: 3}},
		Effective: &spec, Sync: synced, Hash: "abc", Enforced: enforced(), Quotas: map[string]int32{"training": 2, "other": 7}, Now: noon,
	}
	if change != nil {
		change(&f)
	}
	return f
}

// says is a condition as "Status/Reason: message".
func says(status v1alpha1.ServiceTypePolicyStatus, kind string) string {
	c := meta.FindStatusCondition(status.Conditions, kind)
	if c == nil {
		return ""
	}
	return string(c.Status) + "/" + c.Reason + ": " + c.Message
}

func TestStatusSaysWhatIsInForce(t *testing.T) {
	f := facts(func(f *StatusInput) { f.Enforced.Scheduler = &v1alpha1.SchedulerStatus{Version: "v1"} })
	f.Effective.ServiceTypes[1].MinimumRuntimeSeconds = 60
	f.Effective.Cards = []v1alpha1.CardMapping{{Resource: "amd.com/gpu", Model: "MI210"}}
	got := StatusFor(f)
	check.Equal(t, "mappings in force", card.Mappings{{Resource: "amd.com/gpu", Model: "MI210"}}, CardMappings(&v1alpha1.ServiceTypePolicy{Status: got}))
	check.Equal(t, "mappings without a policy", nil, CardMappings(nil))

	written := &v1alpha1.ServiceTypePolicy{Spec: v1alpha1.ServiceTypePolicySpec{Cards: f.Effective.Cards}}
	for name, tc := range map[string]struct {
		policy *v1alpha1.ServiceTypePolicy
		want   card.Mappings
	}{
		"in force":                       {&v1alpha1.ServiceTypePolicy{Status: got}, CardMappings(&v1alpha1.ServiceTypePolicy{Status: got})},
		"written, and not in force yet":  {written, mappingsOf(f.Effective.Cards)},
		"written after they took effect": {&v1alpha1.ServiceTypePolicy{Spec: written.Spec, Status: v1alpha1.ServiceTypePolicyStatus{ServiceTypes: got.ServiceTypes}}, card.Mappings{}},
		"written, and invalid":           {&v1alpha1.ServiceTypePolicy{Spec: v1alpha1.ServiceTypePolicySpec{Cards: []v1alpha1.CardMapping{{Resource: "cpu", Model: "X"}}}}, nil},
		"no policy":                      {nil, nil},
	} {
		check.Equal(t, "mappings that are expected, "+name, tc.want, ExpectedMappings(tc.policy))
	}

	f.Policy.Status = got
	f.Effective = nil
	check.Equal(t, "mappings while the spec is invalid", got.Cards, StatusFor(f).Cards)
	check.Equal(t, "matrix", []v1alpha1.ServiceTypeStatus{
		{Name: "inference", Priority: 80000, ReclaimPolicy: "Never", ReclaimFrom: []string{"training"}},
		{Name: "training", Priority: 20000, ReclaimPolicy: "WhenNeeded", CardQuotas: 2, MinimumRuntimeSeconds: 60},
	}, got.ServiceTypes)

	check.That(t, got.Reclaim == "Gangs" && got.ReclaimResources == "Cards" && got.QueueHierarchy == "Flat", "status is %+v", got)
	check.That(t, got.ConfigHash == "abc" && got.ObservedGeneration == 3 && got.Scheduler.Version == "v1", "status is %+v", got)
	for kind, want := range map[string]string{
		"ConfigSynced": "True/Synced: the scheduler's configuration is ConfigMap volcano-system/scheduler, key conf merged with this policy",
		"Enforced":     "True/Enforced: proven",
		"Ready":        "True/Ready: the policy is in the scheduler's configuration and in force",
	} {
		check.Equal(t, fmt.Sprintf("%s says", kind), want, says(got, kind))
	}
}

func TestARefusedSpecLeavesWhatIsInForce(t *testing.T) {
	before := StatusFor(facts(nil))
	got := StatusFor(facts(func(f *StatusInput) {
		f.Policy.Status = before
		f.Policy.Generation = 4
		f.Policy.Status.QueueHierarchy = "Tree"
		f.Policy.Status.ReclaimResources = "All"
		f.Effective = nil
		f.Hash = ""
		f.Sync = InvalidCondition(field.ErrorList{field.Forbidden(field.NewPath("spec"), "a takes from b")})
		f.Quotas = map[string]int32{"inference": 9}
	}))

	want := before.ServiceTypes
	want[0].CardQuotas = 9
	want[1].CardQuotas = 0
	check.Equal(t, "matrix", want, got.ServiceTypes)
	check.That(t, got.Reclaim == "Gangs" && got.ReclaimResources == "All" && got.QueueHierarchy == "Tree", "status is %+v", got)
	check.That(t, got.ConfigHash == "abc" && got.ObservedGeneration == 4, "status is %+v", got)

	want1 := "False/InvalidPolicy: this spec is not applied, and the previous configuration stays in force: spec: Forbidden: a takes from b"
	for _, kind := range []string{"ConfigSynced", "Ready"} {
		check.Equal(t, fmt.Sprintf("%s says", kind), want1, says(got, kind))
	}
}

func TestReadyTellsWhatIsMissing(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		change func(*StatusInput)
		want   string
	}{
		"no base": {func(f *StatusInput) { f.Sync = missing }, "False/BaseMissing: "},
		"no scheduler enforces it": {func(f *StatusInput) {
			f.Enforced.Condition = metav1.Condition{Status: metav1.ConditionFalse, Reason: "NoHeartbeat", Message: "silent"}
		}, "False/NoHeartbeat: silent"},
		"not observed yet": {func(f *StatusInput) { f.Enforced = UnknownEnforcement() }, "Unknown/NotConfigured: "},
		"first what is to be first": {func(f *StatusInput) {
			f.Sync = missing
			f.Enforced = UnknownEnforcement()
		}, "False/BaseMissing: "},
	}) {
		said := says(StatusFor(facts(tc.change)), "Ready")

		check.That(t, strings.HasPrefix(said, tc.want), "Ready says %q, want %q…", said, tc.want)
	}
}

func TestVerdictsAreCut(t *testing.T) {
	for _, said := range []metav1.Condition{RefusedCondition(errors.New(strings.Repeat("x", 5000)), true), InvalidCondition(field.ErrorList{field.Forbidden(field.NewPath("spec"), strings.Repeat("x", 5000))})} {
		check.That(t, len(said.Message) <= conditions.MaxMessageLength, "the message has %d bytes", len(said.Message))
	}
	check.Contains(t, "a write that was refused", RefusedCondition(errors.New("forbidden\nhere"), true).Message, "forbidden; here: as shipped, cardquota-manager may read")
}

// TestTheGuardOfAnotherObject: the conditions of a deleted policy do not pass to a new one of its name.
func TestTheGuardOfAnotherObject(t *testing.T) {
	denied := metav1.Condition{Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonBypassDenied, Message: "stands"}
	for uid, want := range map[types.UID]string{"this": "True/Denied: stands", "the one before": ""} {
		got := StatusFor(facts(func(f *StatusInput) {
			f.Policy.UID = "this"
			f.Guard = &Guard{Condition: denied, UID: uid, Generation: 2}
		}))
		check.Equal(t, fmt.Sprintf("found of %s", uid), want, says(got, "BypassGuarded"))
		if c := meta.FindStatusCondition(got.Conditions, "BypassGuarded"); c != nil {
			check.Equal(t, "generation", 2, c.ObservedGeneration)
		}
	}
}

func TestEventsTellTransitions(t *testing.T) {
	good := StatusFor(facts(nil))
	missing := StatusFor(facts(func(f *StatusInput) {
		f.Sync = missing
		f.Hash = ""
	}))

	silent := StatusFor(facts(func(f *StatusInput) {
		f.Enforced.Condition = metav1.Condition{Status: metav1.ConditionFalse, Reason: "NoHeartbeat", Message: "silent"}
	}))
	second := StatusFor(facts(func(f *StatusInput) {
		f.Enforced.Condition = metav1.Condition{Status: metav1.ConditionFalse, Reason: "SecondScheduler", Message: "two"}
	}))

	for t, tc := range check.Cases(t, map[string]struct {
		before, after v1alpha1.ServiceTypePolicyStatus
		want          []string
	}{
		"the first success":          {v1alpha1.ServiceTypePolicyStatus{}, good, []string{"Normal ConfigSynced", "Normal Enforced", "Normal Ready"}},
		"nothing new":                {good, good, nil},
		"the base goes":              {good, missing, []string{"Warning BaseMissing"}},
		"it is still gone":           {missing, missing, nil},
		"it is back":                 {missing, good, []string{"Normal ConfigSynced", "Normal Ready"}},
		"the scheduler falls silent": {good, silent, []string{"Warning NotEnforced"}},
		"for another reason":         {silent, second, []string{"Warning NotEnforced"}},
		"it works again":             {second, good, []string{"Normal Enforced", "Normal Ready"}},
	}) {
		var got []string
		for _, e := range Events(tc.before, tc.after) {
			got = append(got, e.Type+" "+e.Reason)
		}
		check.Equal(t, "events", tc.want, got)
	}
}

// TestInForce: what a policy says by its spec is read from the one that there is.
func TestInForce(t *testing.T) {
	of := func(unmanaged v1alpha1.UnmanagedQueues, hierarchy v1alpha1.QueueHierarchy) *v1alpha1.ServiceTypePolicy {
		p := &v1alpha1.ServiceTypePolicy{Spec: v1alpha1.ServiceTypePolicySpec{UnmanagedQueues: unmanaged}}
		if hierarchy != "" {
			p.Status = v1alpha1.ServiceTypePolicyStatus{QueueHierarchy: hierarchy, ServiceTypes: []v1alpha1.ServiceTypeStatus{{Name: "training"}}}
		}
		return p
	}

	tree := of(v1alpha1.UnmanagedDeny, v1alpha1.QueueHierarchyTree)
	flat := of("", v1alpha1.QueueHierarchyFlat)
	created := of(v1alpha1.UnmanagedIgnore, "")
	for t, tc := range check.Cases(t, map[string]struct {
		read, last *v1alpha1.ServiceTypePolicy
		isTree     bool
		unmanaged  v1alpha1.UnmanagedQueues
	}{
		"never a policy":                   {},
		"the first, not in force yet":      {created, nil, false, v1alpha1.UnmanagedIgnore},
		"in force":                         {tree, nil, true, v1alpha1.UnmanagedDeny},
		"in force, and another one before": {tree, flat, true, v1alpha1.UnmanagedDeny},
		"another one in force":             {flat, tree, false, ""},
		"deleted":                          {nil, tree, true, v1alpha1.UnmanagedDeny},
		"created again, not in force yet":  {created, tree, true, v1alpha1.UnmanagedIgnore},
	}) {
		got := InForce(tc.read, tc.last)
		check.Equal(t, "tree", tc.isTree, IsTree(got))
		check.Equal(t, "none", tc.read == nil && tc.last == nil, got == nil)
		if got != nil {
			check.Equal(t, "unmanaged queues", tc.unmanaged, got.Spec.UnmanagedQueues)
		}
		check.That(t, !HasTakenEffect(created), "the policy that was read is changed")
	}
}
