package policy

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/conditions"
	"cardquota.dev/operator/internal/schedulerconfig"
	"cardquota.dev/operator/internal/testing/check"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

const plain = `# by hand
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: gang
- plugins:
  - name: predicates
`

// ref names the base of these tests.
var ref = v1alpha1.ConfigMapKeyReference{Namespace: "volcano-system", Name: "scheduler", Key: "conf"}

// written is a base with a text.
func written(text string) *corev1.ConfigMap {
	return &corev1.ConfigMap{Data: map[string]string{"conf": text}}
}

// configured is what becomes of a base; from is what the scheduler's ConfigMap was rendered
// from, "-" without one.
func configured(base *corev1.ConfigMap, from, hash string) Configuration {
	live := &corev1.ConfigMap{}
	live.Annotations = map[string]string{v1alpha1.AnnotationRenderedFrom: from}
	if from == "-" {
		live = nil
	}
	return RenderConfiguration(Effective(v1alpha1.ServiceTypePolicySpec{}), ref, base, live, hash)
}

func TestWantedOf(t *testing.T) {
	spec := v1alpha1.ServiceTypePolicySpec{
		ServiceTypes: []v1alpha1.ServiceType{
			{Name: "inference", Priority: 2, ReclaimFrom: []string{"training"}},
			{Name: "training", Priority: 1, ReclaimPolicy: "WhenNeeded", MinimumRuntimeSeconds: 600},
			{Name: "notebook"},
		},
		Owners:  []v1alpha1.OwnerKind{{Kind: "Job", ServiceType: "training"}},
		Reclaim: "Pods", ComputeQuota: "Enforce", UnmanagedQueues: "Ignore", OverCommitPercent: 120, NodeOrderWeightPercent: 300, MaxReservationMinutes: 90,
		Preempt: "InQueue", VictimOrder: "Loss", PriorityClasses: []v1alpha1.PriorityClass{{Name: "gold", Value: 9}, {Name: "lead", Value: -1}},
	}

	want := schedulerconfig.Overlay{Reclaim: "reclaim", Preempt: true, Arguments: map[string]any{
		"cardUnlimitedCpuMemory": false,
		"serviceTypes": map[string]any{
			"inference": map[string]any{"reclaimFrom": []string{"training"}},
			"training":  map[string]any{"reclaimable": true, "minimumRuntime": "10m0s"},
			"notebook":  map[string]any{},
		},
		"podOwnerReferenceToServiceType": map[string]any{"Job": "training"},
		"unmanagedQueues":                "Ignore", "overCommitFactor": 1.2, "nodeOrderWeight": 3, "maxReservation": "1h30m0s",
		"victimOrder": "Loss", "priorityClasses": map[string]any{"gold": int32(9), "lead": int32(-1)},
	}}
	check.Equal(t, "wanted", want, OverlayFor(Effective(spec)))

	spec.QueueHierarchy = "Tree"
	spec.ReclaimResources = "All"
	want.Tree = true
	want.Arguments["queueHierarchy"] = "Tree"
	want.Arguments["reclaimResources"] = "All"
	check.Equal(t, "wanted of a tree", want, OverlayFor(Effective(spec)))

	spec.Cards = []v1alpha1.CardMapping{
		{Resource: "hygon.com/dcu", Model: "K100_AI", NodeSelector: map[string]string{"pool": "dcu"}},
		{Resource: "amd.com/gpu", ModelLabel: "amd.com/gpu.product-name"},
	}

	want.Arguments["cards"] = []any{
		map[string]any{"resource": "amd.com/gpu", "modelLabel": "amd.com/gpu.product-name"},
		map[string]any{"resource": "hygon.com/dcu", "model": "K100_AI", "nodeSelector": map[string]any{"pool": "dcu"}},
	}

	check.Equal(t, "wanted with cards", want, OverlayFor(Effective(spec)))
	for mode, action := range map[v1alpha1.ReclaimMode]string{"Gangs": "cardreclaim", "Pods": "reclaim", "Off": ""} {
		check.Equal(t, fmt.Sprintf("%s is action", mode), action, OverlayFor(Effective(v1alpha1.ServiceTypePolicySpec{Reclaim: mode})).Reclaim)
	}
}

func TestConfigure(t *testing.T) {
	const (
		from     = "ConfigMap volcano-system/scheduler, key conf"
		rendered = "True/Synced: the scheduler's configuration is ConfigMap volcano-system/scheduler, key conf merged with this policy"
	)

	defaults := schedulerconfig.Hash(configured(nil, "-", "").Text)
	outside := strings.Replace(plain, "- name: gang", "- name: gang\n  - name: proportion", 1)
	for t, tc := range check.Cases(t, map[string]struct {
		base       *corev1.ConfigMap
		from, hash string
		says       string // ends with the message where it stands for a text
		text       bool
	}{
		"a base":                                   {base: written(plain), from: "-", says: rendered, text: true},
		"a base after none":                        {base: written(plain), from: renderedFromDefault, hash: "x", says: rendered, text: true},
		"what it replaces":                         {base: written(outside), from: "-", says: rendered + "; changed from it: plugin proportion", text: true},
		"never a base":                             {from: "-", says: "True/Synced: the scheduler's configuration is Volcano's built-in default merged with this policy; the base has never existed: there is no ConfigMap volcano-system/scheduler: install Volcano, create it with Volcano's configuration as key conf, or name another one in spec.scheduler.baseConfigMap", text: true},
		"never a base, and rendered before":        {from: renderedFromDefault, hash: "x", says: "True/Synced: the scheduler's configuration is Volcano's built-in default", text: true},
		"never a base, and ours was deleted":       {from: "-", hash: defaults, says: "True/Synced: the scheduler's configuration is Volcano's built-in default", text: true},
		"the base is gone":                         {from: from, hash: "x", says: "False/BaseMissing: there is no ConfigMap volcano-system/scheduler: install Volcano"},
		"the base is gone, and ours":               {from: "-", hash: "x", says: "False/BaseMissing: there is no ConfigMap volcano-system/scheduler: install Volcano, create it with Volcano's configuration as key conf, or name another one in spec.scheduler.baseConfigMap; there is no rendered configuration"},
		"the annotation with the base was removed": {from: "", hash: "x", says: "False/BaseMissing: there is no ConfigMap"},
		"the key is gone":                          {base: &corev1.ConfigMap{Data: map[string]string{"b": "", "a": ""}}, from: from, hash: "x", says: "False/BaseMissing: ConfigMap volcano-system/scheduler has no text under key conf (it has a, b): add it or name another key in spec.scheduler.baseConfigMap; what was rendered last stays"},
		"the text is blank":                        {base: written(" \n"), from: from, hash: "x", says: "False/BaseMissing: ConfigMap volcano-system/scheduler has no text under key conf (it has conf)"},
		"an empty ConfigMap":                       {base: &corev1.ConfigMap{}, from: from, hash: "x", says: "False/BaseMissing: ConfigMap volcano-system/scheduler has no text under key conf (it has no keys)"},
		"no YAML":                                  {base: written("{{"), from: "-", says: "False/BaseInvalid: ConfigMap volcano-system/scheduler, key conf: the text is not YAML"},
		"two faults":                               {base: written(strings.NewReplacer("gang", "gank", "predicates", "pred").Replace(plain)), from: from, hash: "x", says: `False/BaseInvalid: ConfigMap volcano-system/scheduler, key conf: line 5: unknown plugin "gank": known are `},
		"a hierarchy":                              {base: written(strings.Replace(plain, "- name: gang", "- name: capacity\n    enableHierarchy: true", 1)), from: from, hash: "x", says: "False/HierarchyNotSupported: ConfigMap volcano-system/scheduler, key conf: plugin capacity has enableHierarchy: true"},
		"the same switched off":                    {base: written(strings.Replace(plain, "- name: gang", "- name: gang\n  - name: capacity\n    enableHierarchy: false", 1)), from: from, hash: "x", says: rendered + "; changed from it: plugin capacity", text: true},
		"what an earlier version wrote":            {base: written(configured(written(plain), "-", "").Text), from: "-", says: rendered + "; changed from it: action cardreclaim, plugin capacity-card", text: true},
	}) {
		got := configured(tc.base, tc.from, tc.hash)
		said := string(got.Status) + "/" + got.Reason + ": " + got.Message
		check.That(t, strings.HasPrefix(said, tc.says), "says\n%s, want\n%s…", said, tc.says)
		check.That(t, (got.Text != "") == tc.text, "the text is\n%s", got.Text)
		check.That(t, len(got.Message) <= conditions.MaxMessageLength && !strings.Contains(got.Message, "\n"), "the message has %d bytes: %q", len(got.Message), got.Message)
		if tc.text {
			check.NoError(t, schedulerconfig.Validate(got.Text, schedulerconfig.Shipped()))
			check.That(t, strings.HasPrefix(got.Text, "# Rendered by cardquota-manager from "+got.From+",\n"), "the text begins\n%s", got.Text)
		}
	}
}

// TestAHierarchyIsTakenOver: with queueHierarchy Tree a base with the hierarchy of plugin capacity is
// rendered, and the condition says which of its rules hold.
func TestAHierarchyIsTakenOver(t *testing.T) {
	const keeps = "; changed from it: plugin capacity with enableHierarchy; capacity-card keeps the CPU and memory rules of its hierarchy of queues"
	const (
		cards     = ", for pods with cards only with computeQuota: Enforce"
		onlyCards = "; only cards are taken back: for CPU and memory too, set reclaimResources: All"
	)

	hierarchical := strings.Replace(plain, "- name: gang", "- name: gang\n  - name: capacity\n    enableHierarchy: true", 1)
	for t, tc := range check.Cases(t, map[string]struct {
		base string
		spec v1alpha1.ServiceTypePolicySpec
		ends string
	}{
		"by default":         {hierarchical, v1alpha1.ServiceTypePolicySpec{}, keeps + cards + onlyCards},
		"of all resources":   {hierarchical, v1alpha1.ServiceTypePolicySpec{ReclaimResources: "All"}, keeps + cards},
		"of all pods":        {hierarchical, v1alpha1.ServiceTypePolicySpec{ComputeQuota: "Enforce", ReclaimResources: "All"}, keeps},
		"of pods, not taken": {hierarchical, v1alpha1.ServiceTypePolicySpec{ComputeQuota: "Enforce"}, keeps + onlyCards},
		"a base without one": {plain, v1alpha1.ServiceTypePolicySpec{}, "merged with this policy"},
		"one switched off":   {strings.Replace(hierarchical, "true", "false", 1), v1alpha1.ServiceTypePolicySpec{}, "; changed from it: plugin capacity"},
	}) {
		tc.spec.QueueHierarchy = "Tree"
		got := RenderConfiguration(Effective(tc.spec), ref, written(tc.base), nil, "")
		check.That(t, got.Status == metav1.ConditionTrue && strings.HasSuffix(got.Message, tc.ends), "says %s %s, want …%s", got.Status, got.Message, tc.ends)
		check.NoError(t, schedulerconfig.Validate(got.Text, schedulerconfig.Shipped()))
		check.Contains(t, "text", got.Text, "queueHierarchy: Tree")

		tc.spec.QueueHierarchy = "Flat"
		flat := RenderConfiguration(Effective(tc.spec), ref, written(tc.base), nil, "")
		check.That(t, (flat.Reason == v1alpha1.ReasonHierarchyNotSupported) == (tc.base == hierarchical), "flat is %s %s", flat.Reason, flat.Message)
	}
}

func TestBase(t *testing.T) {
	spec := Effective(v1alpha1.ServiceTypePolicySpec{})
	check.Equal(t, "base", v1alpha1.ConfigMapKeyReference{Namespace: "volcano", Name: "volcano-scheduler-configmap", Key: "volcano-scheduler.conf"}, BaseFor(spec, "volcano"))
	spec.Scheduler.BaseConfigMap = ref
	check.Equal(t, "base", ref, BaseFor(spec, "volcano"))
}

func TestDisplaced(t *testing.T) {
	const field = `{"f:data":{".":{},"f:volcano-scheduler.conf":{}}}`
	wrote := func(manager, fields string) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{Manager: manager, FieldsType: "FieldsV1", FieldsV1: &metav1.FieldsV1{Raw: []byte(fields)}}
	}

	for t, tc := range check.Cases(t, map[string]struct {
		entries []metav1.ManagedFieldsEntry
		want    string // "" if the operator wrote it
	}{
		"no managed fields":            {want: "an unknown client"},
		"who wrote it":                 {entries: []metav1.ManagedFieldsEntry{wrote("helm", field)}, want: "helm"},
		"who wrote something else":     {entries: []metav1.ManagedFieldsEntry{wrote("helm", `{"f:data":{"f:other":{}}}`)}, want: "an unknown client"},
		"the operator is not meant":    {entries: []metav1.ManagedFieldsEntry{wrote("cardquota", field)}},
		"an entry that cannot be read": {entries: []metav1.ManagedFieldsEntry{wrote("helm", "nonsense")}, want: "an unknown client"},
		"an entry without fields":      {entries: []metav1.ManagedFieldsEntry{{Manager: "helm"}}, want: "an unknown client"},
		"two with the same value":      {entries: []metav1.ManagedFieldsEntry{wrote("cardquota", field), wrote("helm", field)}},
	}) {
		by, displaced := DriftedBy(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{ManagedFields: tc.entries}})
		check.That(t, by == tc.want && displaced == (tc.want != ""), "displaced %v, by %q", displaced, by)
	}
}
