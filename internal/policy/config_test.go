package policy

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/schedulerconf"
	"cardquota.dev/operator/internal/testing/check"
)

const plain = `# by hand
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: gang
- plugins:
  - name: predicates
`

// noted is a ConfigMap with a text and the record of its changes.
func noted(text, undo string) *corev1.ConfigMap {
	cm := written(text)
	if undo != "" {
		cm.Annotations = map[string]string{v1alpha1.AnnotationSchedulerConfigUndo: undo}
	}
	return cm
}

func usual() schedulerconf.Wanted { return WantedOf(Effective(v1alpha1.ServiceTypePolicySpec{})) }

func TestWantedOf(t *testing.T) {
	spec := v1alpha1.ServiceTypePolicySpec{
		ServiceTypes: []v1alpha1.ServiceType{
			{Name: "inference", Priority: 2, ReclaimFrom: []string{"training"}},
			{Name: "training", Priority: 1, ReclaimPolicy: "WhenNeeded", MinimumRuntimeSeconds: 600},
			{Name: "notebook"},
		},
		Owners:  []v1alpha1.OwnerKind{{Kind: "Job", ServiceType: "training"}},
		Reclaim: "Pods", ComputeQuota: "Enforce", UnmanagedQueues: "Ignore", OverCommitPercent: 120, NodeOrderWeight: 3,
		Preempt: "InQueue", VictimOrder: "Loss", PriorityClasses: []v1alpha1.PriorityClass{{Name: "gold", Value: 9}, {Name: "lead", Value: -1}},
	}
	want := schedulerconf.Wanted{Reclaim: "reclaim", Preempt: true, Arguments: map[string]any{
		"cardUnlimitedCpuMemory": false,
		"serviceTypes": map[string]any{
			"inference": map[string]any{"reclaimFrom": []string{"training"}},
			"training":  map[string]any{"reclaimable": true, "minimumRuntime": "10m0s"},
			"notebook":  map[string]any{},
		},
		"podOwnerReferenceToServiceType": map[string]any{"Job": "training"},
		"unmanagedQueues":                "Ignore", "overCommitFactor": 1.2, "nodeOrderWeight": 3,
		"victimOrder": "Loss", "priorityClasses": map[string]any{"gold": int32(9), "lead": int32(-1)},
	}}
	check.Equal(t, "wanted", want, WantedOf(Effective(spec)))
	for mode, action := range map[v1alpha1.ReclaimMode]string{"Gangs": "cardreclaim", "Pods": "reclaim", "Off": ""} {
		check.Equal(t, fmt.Sprintf("%s is action", mode), action, WantedOf(Effective(v1alpha1.ServiceTypePolicySpec{Reclaim: mode})).Reclaim)
	}
}

// firstEdit is what becomes of the plain text.
func firstEdit(t *testing.T) Edit {
	t.Helper()
	first, err := PlanEdit(noted(plain, ""), "conf", nil, usual())
	check.NoError(t, err)
	check.Must(t, first.Needed && first.First && len(first.Changes) != 0 && first.Undo != "", "the first edit is %+v", first)
	return first
}

func TestPlanEditAndUndo(t *testing.T) {
	first := firstEdit(t)
	original := Original(v1alpha1.ConfigMapReference{Key: "conf"}, plain)
	edited := strings.Replace(first.Text, "name: gang", "name: gang # ours", 1)
	drifted := strings.Replace(first.Text, "cardreclaim", "preempt", 1)
	check.Must(t, edited != first.Text && drifted != first.Text, "the text does not say what this test is about")
	for t, tc := range check.Cases(t, map[string]struct {
		live, original         *corev1.ConfigMap
		needed, first, changes bool
		restored               string
		exact, none            bool
	}{
		"in place":                               {live: noted(first.Text, first.Undo), original: original, restored: plain, exact: true},
		"in place, without a copy":               {live: noted(first.Text, first.Undo), restored: plain},
		"changed where it may be":                {live: noted(edited, first.Undo), original: original, needed: true, restored: strings.Replace(plain, "name: gang", "name: gang # ours", 1)},
		"changed where it may not be":            {live: noted(drifted, first.Undo), original: original, needed: true, changes: true, restored: strings.Replace(plain, "enqueue, allocate, backfill", "enqueue, allocate, backfill, preempt", 1)},
		"the record is gone":                     {live: noted(first.Text, ""), original: original, needed: true, restored: plain, exact: true},
		"the record is spoilt":                   {live: noted(first.Text, "{broken"), original: original, needed: true, restored: plain, exact: true},
		"the original is back":                   {live: noted(plain, first.Undo), original: original, needed: true, changes: true, restored: plain, exact: true},
		"everything is as before, also the mark": {live: noted(plain, ""), original: original, needed: true, first: true, changes: true, none: true},
	}) {
		edit, err := PlanEdit(tc.live, "conf", tc.original, usual())
		check.NoError(t, err)
		check.That(t, edit.Needed == tc.needed && edit.First == tc.first && (len(edit.Changes) > 0) == tc.changes,
			"needed %v, first %v, changes %q; want %v, %v, %v", edit.Needed, edit.First, edit.Changes, tc.needed, tc.first, tc.changes)
		want := usual()
		undo, any, err := PlanUndo(tc.live, "conf", tc.original, &want)
		check.NoError(t, err)
		check.That(t, any != tc.none && undo.Exact == tc.exact && undo.Text == tc.restored,
			"undone %v, exactly %v, to\n%s\nwant %v, %v,\n%s", any, undo.Exact, undo.Text, !tc.none, tc.exact, tc.restored)
	}
}

// TestAHierarchyIsNotSwitchedOff: neither where it stands, nor where an earlier version
// has taken the plugin out, whose record must not be lost.
func TestAHierarchyIsNotSwitchedOff(t *testing.T) {
	with := strings.Replace(plain, "- name: predicates", "- name: predicates\n  - name: capacity\n    enableHierarchy: true", 1)
	edit, err := PlanEdit(noted(with, ""), "conf", nil, usual())
	check.Must(t, errors.Is(err, schedulerconf.ErrHierarchy) && !edit.Needed, "becomes %+v, error %v", edit, err)
	verdict := Unreadable(v1alpha1.ConfigMapReference{Namespace: "n", Name: "c", Key: "conf"}, err)
	check.Contains(t, "verdict", string(verdict.Status)+"/"+verdict.Reason+": "+verdict.Message,
		"False/HierarchyNotSupported: ConfigMap n/c, key conf was left as it is: plugin capacity has enableHierarchy: true", "write enableHierarchy: false at plugin capacity, or remove the plugin")

	without := strings.Replace(with, "enableHierarchy: true", "enableHierarchy: false", 1)
	merged, err := PlanEdit(noted(without, ""), "conf", nil, usual())
	check.Must(t, err == nil && !strings.Contains(merged.Text, "capacity\n"), "becomes %+v, error %v", merged, err)
	taken := noted(merged.Text, strings.ReplaceAll(merged.Undo, "enableHierarchy: false", "enableHierarchy: true"))
	check.Must(t, taken.Annotations[v1alpha1.AnnotationSchedulerConfigUndo] != merged.Undo, "the record does not say what was taken out: %s", merged.Undo)
	edit, err = PlanEdit(taken, "conf", Original(v1alpha1.ConfigMapReference{Key: "conf"}, with), usual())
	check.That(t, errors.Is(err, schedulerconf.ErrHierarchy) && !edit.Needed, "taken out before: becomes %+v, error %v", edit, err)
	taken.Data["conf"] = strings.Replace(merged.Text, "- name: predicates", "- name: predicates\n  - name: capacity\n    enableHierarchy: false", 1)
	edit, err = PlanEdit(taken, "conf", nil, usual())
	check.That(t, err == nil && edit.Text == merged.Text, "mended: becomes %+v, error %v", edit, err)
}

func TestASpoiltTextIsNotTouched(t *testing.T) {
	for _, text := range []string{"{{", "actions: 5\n", strings.Replace(plain, "name: gang", "name: gank", 1)} {
		edit, err := PlanEdit(noted(text, ""), "conf", nil, usual())
		check.That(t, err != nil && !edit.Needed, "%q becomes %+v", text, edit)
	}
	if _, _, err := PlanUndo(noted("{{", `{"hash":"x","original":"y","changes":[]}`), "conf", nil, nil); err == nil {
		t.Error("a spoilt text is restored")
	}
	if _, any, err := PlanUndo(&corev1.ConfigMap{}, "conf", nil, nil); any || err != nil {
		t.Errorf("a missing key is restored: %v, %v", any, err)
	}
}

func TestTextOf(t *testing.T) {
	at := v1alpha1.ConfigMapReference{Key: "conf"}
	cases := map[string]struct {
		live *corev1.ConfigMap
		want bool
	}{
		"no ConfigMap": {}, "no data": {live: &corev1.ConfigMap{}},
		"another key":   {live: &corev1.ConfigMap{Data: map[string]string{"other": "x"}}},
		"an empty text": {live: written(" \n")},
		"a text":        {live: written("x"), want: true},
	}
	for name, tc := range cases {
		_, there := TextOf(tc.live, at)
		check.That(t, there == tc.want, "%s: there is a text: %v, want %v", name, there, tc.want)
	}
}
