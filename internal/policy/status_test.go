package policy

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/testing/check"
)

var ref = v1alpha1.ConfigMapReference{Namespace: "volcano-system", Name: "scheduler", Key: "conf"}

// enforced is the verdict of a scheduler that works by the configuration.
func enforced() Enforcement {
	return Enforcement{Verdict: Verdict{metav1.ConditionTrue, v1alpha1.ReasonEnforced, "proven"}}
}

// facts are those of a policy that is in force.
func facts(change func(*Facts)) Facts {
	spec := Effective(v1alpha1.ServiceTypePolicySpec{})
	f := Facts{
		Policy:  &v1alpha1.ServiceTypePolicy{ObjectMeta: metav1.ObjectMeta{Name: "default", Generation: 3}},
		InForce: &spec, Sync: Synced(ref, nil, 3), Hash: "abc", Enforced: enforced(), Quotas: map[string]int32{"training": 2, "other": 7}, Now: noon,
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
	f := facts(func(f *Facts) { f.Enforced.Scheduler = &v1alpha1.SchedulerStatus{Version: "v1"} })
	f.InForce.ServiceTypes[1].MinimumRuntimeSeconds = 60
	got := Of(f)
	check.Equal(t, "matrix", []v1alpha1.ServiceTypeStatus{
		{Name: "inference", Priority: 80000, ReclaimPolicy: "Never", ReclaimFrom: []string{"training"}},
		{Name: "training", Priority: 20000, ReclaimPolicy: "WhenNeeded", CardQuotas: 2, MinimumRuntimeSeconds: 60},
	}, got.ServiceTypes)
	check.That(t, got.Reclaim == "Gangs" && got.ConfigHash == "abc" && got.ObservedGeneration == 3 && got.Scheduler.Version == "v1",
		"status is %+v", got)
	for kind, want := range map[string]string{
		"ConfigSynced": "True/Synced: ConfigMap volcano-system/scheduler, key conf says what this policy says",
		"Enforced":     "True/Enforced: proven",
		"Ready":        "True/Ready: the policy is in the scheduler's configuration and in force",
	} {
		check.Equal(t, fmt.Sprintf("%s says", kind), want, says(got, kind))
	}
}

func TestARefusedSpecLeavesWhatIsInForce(t *testing.T) {
	before := Of(facts(nil))
	got := Of(facts(func(f *Facts) {
		f.Policy.Status, f.Policy.Generation = before, 4
		f.InForce, f.Hash, f.Sync = nil, "", Invalid(field.ErrorList{field.Forbidden(field.NewPath("spec"), "a takes from b")})
		f.Quotas = map[string]int32{"inference": 9}
	}))
	want := before.ServiceTypes
	want[0].CardQuotas, want[1].CardQuotas = 9, 0
	check.Equal(t, "matrix", want, got.ServiceTypes)
	check.That(t, got.ConfigHash == "abc" && got.Reclaim == "Gangs" && got.ObservedGeneration == 4, "status is %+v", got)
	want1 := "False/InvalidPolicy: nothing of this spec was written and what was in force before stays: spec: Forbidden: a takes from b"
	for _, kind := range []string{"ConfigSynced", "Ready"} {
		check.Equal(t, fmt.Sprintf("%s says", kind), want1, says(got, kind))
	}
}

func TestReadyTellsWhatIsMissing(t *testing.T) {
	missing := Missing(ref, nil)
	for t, tc := range check.Cases(t, map[string]struct {
		change func(*Facts)
		want   string
	}{
		"no ConfigMap":              {func(f *Facts) { f.Sync = missing }, "False/ConfigMapMissing: "},
		"nobody enforces it":        {func(f *Facts) { f.Enforced.Verdict = Verdict{metav1.ConditionFalse, "NoHeartbeat", "silent"} }, "False/NoHeartbeat: silent"},
		"nobody looked":             {func(f *Facts) { f.Enforced = Unproven() }, "Unknown/NotConfigured: "},
		"first what is to be first": {func(f *Facts) { f.Sync, f.Enforced = missing, Unproven() }, "False/ConfigMapMissing: "},
	}) {
		said := says(Of(facts(tc.change)), "Ready")
		check.That(t, strings.HasPrefix(said, tc.want), "Ready says %q, want %q…", said, tc.want)
	}
}

func TestVerdictsSayWhatToDo(t *testing.T) {
	by := Writer{Manager: "helm", At: noon}
	changes := []string{"action cardreclaim is missing", "plugin capacity-card is missing"}
	before := func(reason string) *metav1.Condition {
		return &metav1.Condition{Status: metav1.ConditionTrue, Reason: reason, Message: "as told", ObservedGeneration: 3}
	}
	long := strings.Repeat("x", 5000)
	for t, tc := range check.Cases(t, map[string]struct {
		verdict Verdict
		wants   []string
	}{
		"a ConfigMap that is missing": {Missing(ref, nil), []string{"False/ConfigMapMissing", "there is no ConfigMap volcano-system/scheduler", "create it", "key conf"}},
		"a key that is missing": {Missing(ref, &corev1.ConfigMap{Data: map[string]string{"b": "", "a": ""}}),
			[]string{"False/ConfigMapMissing", "has no text under key conf (it has a, b)"}},
		"an empty ConfigMap":           {Missing(ref, &corev1.ConfigMap{}), []string{"(it has no keys)"}},
		"a text that is no YAML":       {Unreadable(ref, errors.New("line 3: no\nline 4: nor")), []string{"False/ConfigUnreadable", "was left as it is: line 3: no; line 4: nor; correct it by hand"}},
		"a write that was refused":     {Refused(ref, errors.New("forbidden")), []string{"False/ConfigRefused", "could not be changed: forbidden"}},
		"a change that was put right":  {Corrected(ref, by, changes, noon.Add(time.Second)), []string{"True/ConfigCorrected: helm at 2026-01-02T12:00:00Z wrote ConfigMap volcano-system/scheduler, key conf: action cardreclaim is missing; plugin capacity-card is missing; put right at 2026-01-02T12:00:01Z"}},
		"a writer who goes on":         {Contested(ref, by, changes, 4), []string{"False/ConfigContested: helm keeps writing", "put right 4 times", "stop the other writer or delete this policy", "action cardreclaim is missing"}},
		"what was put right stays":     {Synced(ref, before("ConfigCorrected"), 3), []string{"True/ConfigCorrected: as told"}},
		"until the spec changes":       {Synced(ref, before("ConfigCorrected"), 4), []string{"True/Synced"}},
		"another reason does not stay": {Synced(ref, before("ConfigContested"), 3), []string{"True/Synced"}},
		"a very long text is cut":      {Unreadable(ref, errors.New(long)), []string{"False/ConfigUnreadable"}},
	}) {
		said := string(tc.verdict.Status) + "/" + tc.verdict.Reason + ": " + tc.verdict.Message
		check.Contains(t, "says", said, tc.wants...)
		check.That(t, len(tc.verdict.Message) <= v1alpha1.MaxMessageLength, "the message has %d bytes", len(tc.verdict.Message))
	}
}

// TestTheGuardOfAnotherObject: a policy that was deleted and made again is judged anew.
func TestTheGuardOfAnotherObject(t *testing.T) {
	denied := Verdict{metav1.ConditionTrue, v1alpha1.ReasonBypassDenied, "stands"}
	for uid, want := range map[types.UID]string{"this": "True/Denied: stands", "the one before": ""} {
		got := Of(facts(func(f *Facts) {
			f.Policy.UID, f.Guard = "this", &Guard{Verdict: denied, UID: uid, Generation: 2}
		}))
		check.Equal(t, fmt.Sprintf("found of %s", uid), want, says(got, "BypassGuarded"))
		if c := meta.FindStatusCondition(got.Conditions, "BypassGuarded"); c != nil {
			check.Equal(t, "generation", 2, c.ObservedGeneration)
		}
	}
}

func TestEventsTellTransitions(t *testing.T) {
	good, corrected := Of(facts(nil)), Of(facts(func(f *Facts) { f.Sync = Corrected(ref, Writer{}, nil, noon) }))
	missing := Of(facts(func(f *Facts) { f.Sync, f.Hash = Missing(ref, nil), "" }))
	silent := Of(facts(func(f *Facts) { f.Enforced.Verdict = Verdict{metav1.ConditionFalse, "NoHeartbeat", "silent"} }))
	second := Of(facts(func(f *Facts) { f.Enforced.Verdict = Verdict{metav1.ConditionFalse, "SecondScheduler", "two"} }))
	for t, tc := range check.Cases(t, map[string]struct {
		before, after v1alpha1.ServiceTypePolicyStatus
		want          []string
	}{
		"the first success":          {v1alpha1.ServiceTypePolicyStatus{}, good, []string{"Normal ConfigSynced", "Normal Enforced", "Normal Ready"}},
		"nothing new":                {good, good, nil},
		"put right":                  {good, corrected, nil}, // told when it happens
		"the ConfigMap goes":         {good, missing, []string{"Warning ConfigMapMissing"}},
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
