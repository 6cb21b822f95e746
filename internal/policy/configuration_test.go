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

const plainBase = `# by hand
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: gang
- plugins:
  - name: predicates
`

// baseRef names the base of these tests.
var baseRef = v1alpha1.ConfigMapKeyReference{Namespace: "volcano-system", Name: "scheduler", Key: "conf"}

// newBase returns a base with a text.
func newBase(text string) *corev1.ConfigMap {
	return &corev1.ConfigMap{Data: map[string]string{"conf": text}}
}

// render renders a base with the default policy. from is what the scheduler's ConfigMap was rendered from last, "-"
// if there is none. hash is that of the configuration that was rendered last, "" for none.
func render(base *corev1.ConfigMap, from, hash string) Configuration {
	live := &corev1.ConfigMap{}
	live.Annotations = map[string]string{v1alpha1.AnnotationRenderedFrom: from}
	if from == "-" {
		live = nil
	}
	return RenderConfiguration(Effective(v1alpha1.ServiceTypePolicySpec{}), baseRef, base, live, hash)
}

// TestPolicyBecomesArgumentsOfThePlugin: the operator writes the policy into the scheduler's configuration:
// which action reclaims, whether preempt is an action, and the arguments of plugin capacity-card. With
// computeQuota: Enforce, cardUnlimitedCpuMemory is false. Percentages become factors, seconds and minutes
// durations. Entries of cards are sorted by resource. The priority of a service type is no argument: Queues have it.
func TestPolicyBecomesArgumentsOfThePlugin(t *testing.T) {
	spec := v1alpha1.ServiceTypePolicySpec{
		ServiceTypes: []v1alpha1.ServiceType{
			{Name: "inference", Priority: 2, ReclaimFrom: []string{"training"}},
			{Name: "training", Priority: 1, ReclaimPolicy: "WhenNeeded", MinimumRuntimeSeconds: 600},
			{Name: "notebook"},
		},
		Owners:                 []v1alpha1.OwnerKind{{Kind: "Job", ServiceType: "training"}},
		Reclaim:                "Pods",
		ComputeQuota:           "Enforce",
		UnmanagedQueues:        "Ignore",
		OverCommitPercent:      120,
		NodeOrderWeightPercent: 300,
		MaxReservationMinutes:  90,
		Preempt:                "InQueue",
		VictimOrder:            "Loss",
		PriorityClasses:        []v1alpha1.PriorityClass{{Name: "gold", Value: 9}, {Name: "lead", Value: -1}},
	}

	want := schedulerconfig.Overlay{Reclaim: "reclaim", Preempt: true, Arguments: map[string]any{
		"cardUnlimitedCpuMemory": false,
		"serviceTypes": map[string]any{
			"inference": map[string]any{"reclaimFrom": []string{"training"}},
			"training":  map[string]any{"reclaimable": true, "minimumRuntime": "10m0s"},
			"notebook":  map[string]any{},
		},
		"podOwnerReferenceToServiceType": map[string]any{"Job": "training"},
		"unmanagedQueues":                "Ignore",
		"overCommitFactor":               1.2,
		"nodeOrderWeight":                3,
		"maxReservation":                 "1h30m0s",
		"victimOrder":                    "Loss",
		"priorityClasses":                map[string]any{"gold": int32(9), "lead": int32(-1)},
	}}
	check.Equal(t, "overlay of a flat policy", want, OverlayFor(Effective(spec)))

	spec.QueueHierarchy = "Tree"
	spec.ReclaimResources = "All"
	want.Tree = true
	want.Arguments["queueHierarchy"] = "Tree"
	want.Arguments["reclaimResources"] = "All"
	check.Equal(t, "overlay of a tree", want, OverlayFor(Effective(spec)))

	spec.Cards = []v1alpha1.CardMapping{
		{Resource: "hygon.com/dcu", Model: "K100_AI", NodeSelector: map[string]string{"pool": "dcu"}},
		{Resource: "amd.com/gpu", ModelLabel: "amd.com/gpu.product-name"},
	}

	want.Arguments["cards"] = []any{
		map[string]any{"resource": "amd.com/gpu", "modelLabel": "amd.com/gpu.product-name"},
		map[string]any{"resource": "hygon.com/dcu", "model": "K100_AI", "nodeSelector": map[string]any{"pool": "dcu"}},
	}

	check.Equal(t, "overlay with cards", want, OverlayFor(Effective(spec)))
}

// TestReclaimNamesTheActionOfTheScheduler: with reclaim: Gangs our action takes cards back, with Pods
// Volcano's, and with Off none.
func TestReclaimNamesTheActionOfTheScheduler(t *testing.T) {
	for mode, action := range map[v1alpha1.ReclaimMode]string{"Gangs": "cardreclaim", "Pods": "reclaim", "Off": ""} {
		check.Equal(t, fmt.Sprintf("action of reclaim: %s", mode), action,
			OverlayFor(Effective(v1alpha1.ServiceTypePolicySpec{Reclaim: mode})).Reclaim)
	}
}

// TestConfigurationIsRenderedFromItsBase: the operator renders the scheduler's configuration from a base, a ConfigMap
// with Volcano's configuration, and the policy. Condition ConfigSynced says from what, and what of the base was
// replaced. If the base is missing or invalid, nothing is rendered, and what was rendered last stays. Only if there
// never was a base, Volcano's built-in default takes its place. Then the annotation of the scheduler's ConfigMap says
// that it was rendered from the default. Without the annotation the hash of the last text decides, which the status of
// the policy keeps: there is none, or it is that of the default. "x" is another hash.
func TestConfigurationIsRenderedFromItsBase(t *testing.T) {
	const (
		from     = "ConfigMap volcano-system/scheduler, key conf"
		rendered = "True/Synced: the scheduler's configuration is ConfigMap volcano-system/scheduler, key conf merged with this policy"
	)

	defaults := schedulerconfig.Hash(render(nil, "-", "").Text)
	withProportion := strings.Replace(plainBase, "- name: gang", "- name: gang\n  - name: proportion", 1)
	for t, tc := range check.Cases(t, map[string]struct {
		base          *corev1.ConfigMap
		from          string // the annotation of the scheduler's ConfigMap, "-" without that ConfigMap
		hash          string // of the text that was rendered last, "" for none
		wantCondition string // how it begins
		isRendered    bool
	}{
		"a valid base": {base: newBase(plainBase), from: "-", wantCondition: rendered, isRendered: true},
		"a valid base, rendered from the default before": {
			base:          newBase(plainBase),
			from:          renderedFromDefault,
			hash:          "x",
			wantCondition: rendered,
			isRendered:    true,
		},
		"a base with a plugin that is replaced": {
			base:          newBase(withProportion),
			from:          "-",
			wantCondition: rendered + "; changed from it: plugin proportion",
			isRendered:    true,
		},
		"there never was a base: the default": {
			from:          "-",
			wantCondition: "True/Synced: the scheduler's configuration is Volcano's built-in default merged with this policy; the base has never existed: there is no ConfigMap volcano-system/scheduler: install Volcano, create it with Volcano's configuration as key conf, or name another one in spec.scheduler.baseConfigMap",
			isRendered:    true,
		},
		"there never was a base, rendered from the default before: again": {
			from:          renderedFromDefault,
			hash:          "x",
			wantCondition: "True/Synced: the scheduler's configuration is Volcano's built-in default",
			isRendered:    true,
		},
		"there never was a base, the rendered ConfigMap was deleted: again": {
			from:          "-",
			hash:          defaults,
			wantCondition: "True/Synced: the scheduler's configuration is Volcano's built-in default",
			isRendered:    true,
		},
		"the base was deleted": {
			from:          from,
			hash:          "x",
			wantCondition: "False/BaseMissing: there is no ConfigMap volcano-system/scheduler: install Volcano",
		},
		"the base and the rendered ConfigMap were deleted": {
			from:          "-",
			hash:          "x",
			wantCondition: "False/BaseMissing: there is no ConfigMap volcano-system/scheduler: install Volcano, create it with Volcano's configuration as key conf, or name another one in spec.scheduler.baseConfigMap; there is no rendered configuration",
		},
		"the base was deleted, and the annotation that names it removed": {
			from:          "",
			hash:          "x",
			wantCondition: "False/BaseMissing: there is no ConfigMap",
		},
		"the base has other keys": {
			base:          &corev1.ConfigMap{Data: map[string]string{"b": "", "a": ""}},
			from:          from,
			hash:          "x",
			wantCondition: "False/BaseMissing: ConfigMap volcano-system/scheduler has no text under key conf (it has a, b): add it or name another key in spec.scheduler.baseConfigMap; what was rendered last stays",
		},
		"the base has only spaces": {
			base:          newBase(" \n"),
			from:          from,
			hash:          "x",
			wantCondition: "False/BaseMissing: ConfigMap volcano-system/scheduler has no text under key conf (it has conf)",
		},
		"the base has no keys": {
			base:          &corev1.ConfigMap{},
			from:          from,
			hash:          "x",
			wantCondition: "False/BaseMissing: ConfigMap volcano-system/scheduler has no text under key conf (it has no keys)",
		},
		"the base is not YAML": {
			base:          newBase("{{"),
			from:          "-",
			wantCondition: "False/BaseInvalid: ConfigMap volcano-system/scheduler, key conf: the text is not YAML",
		},
		"the base names two unknown plugins": {
			base:          newBase(strings.NewReplacer("gang", "gank", "predicates", "pred").Replace(plainBase)),
			from:          from,
			hash:          "x",
			wantCondition: `False/BaseInvalid: ConfigMap volcano-system/scheduler, key conf: line 5: unknown plugin "gank": known are `,
		},
		"the base has Volcano's hierarchy of queues, and the policy says Flat": {
			base:          newBase(strings.Replace(plainBase, "- name: gang", "- name: capacity\n    enableHierarchy: true", 1)),
			from:          from,
			hash:          "x",
			wantCondition: "False/HierarchyNotSupported: ConfigMap volcano-system/scheduler, key conf: plugin capacity has enableHierarchy: true",
		},
		"the base has Volcano's hierarchy switched off": {
			base:          newBase(strings.Replace(plainBase, "- name: gang", "- name: gang\n  - name: capacity\n    enableHierarchy: false", 1)),
			from:          from,
			hash:          "x",
			wantCondition: rendered + "; changed from it: plugin capacity",
			isRendered:    true,
		},
		"the base is a configuration that the operator rendered": {
			base:          newBase(render(newBase(plainBase), "-", "").Text),
			from:          "-",
			wantCondition: rendered + "; changed from it: action cardreclaim, plugin capacity-card",
			isRendered:    true,
		},
	}) {
		got := render(tc.base, tc.from, tc.hash)
		condition := string(got.Status) + "/" + got.Reason + ": " + got.Message
		check.That(t, strings.HasPrefix(condition, tc.wantCondition), "condition\n%s, want\n%s…", condition, tc.wantCondition)
		check.Equal(t, "rendered", tc.isRendered, got.Text != "")
		check.That(t, len(got.Message) <= conditions.MaxMessageLength, "the message has %d bytes: %q", len(got.Message), got.Message)
		check.Text(t, "message", got.Message).Lacks("\n")
		if tc.isRendered {
			check.NoError(t, schedulerconfig.Validate(got.Text, schedulerconfig.Shipped()))
			check.That(t, strings.HasPrefix(got.Text, "# Rendered by cardquota-manager from "+got.From+",\n"), "the text begins\n%s", got.Text)
		}
	}
}

// TestVolcanosHierarchyIsTakenOver: a base may switch on the hierarchy of Volcano's plugin capacity, with
// limits of CPU and memory for parents. With queueHierarchy Tree capacity-card takes the place of capacity, and
// the condition says which rules of capacity apply. With Flat the limits would be lost, so such a base is not
// rendered.
func TestVolcanosHierarchyIsTakenOver(t *testing.T) {
	const replaced = "; changed from it: plugin capacity with enableHierarchy; capacity-card keeps the CPU and memory rules of its hierarchy of queues"
	const (
		notForCardPods     = ", for pods with cards only with computeQuota: Enforce"
		onlyCardsReclaimed = "; only cards are taken back: for CPU and memory too, set reclaimResources: All"
	)

	hierarchical := strings.Replace(plainBase, "- name: gang", "- name: gang\n  - name: capacity\n    enableHierarchy: true", 1)
	for t, tc := range check.Cases(t, map[string]struct {
		base string
		spec v1alpha1.ServiceTypePolicySpec
		want string // the end of the message
	}{
		"computeQuota and reclaimResources are unset": {
			base: hierarchical,
			spec: v1alpha1.ServiceTypePolicySpec{},
			want: replaced + notForCardPods + onlyCardsReclaimed,
		},
		"all resources are reclaimed": {
			base: hierarchical,
			spec: v1alpha1.ServiceTypePolicySpec{ReclaimResources: "All"},
			want: replaced + notForCardPods,
		},
		"CPU and memory of all pods count, all resources are reclaimed": {
			base: hierarchical,
			spec: v1alpha1.ServiceTypePolicySpec{ComputeQuota: "Enforce", ReclaimResources: "All"},
			want: replaced,
		},
		"CPU and memory of all pods count": {
			base: hierarchical,
			spec: v1alpha1.ServiceTypePolicySpec{ComputeQuota: "Enforce"},
			want: replaced + onlyCardsReclaimed,
		},
		"a base without a hierarchy": {
			base: plainBase,
			spec: v1alpha1.ServiceTypePolicySpec{},
			want: "merged with this policy",
		},
		"a base with the hierarchy switched off": {
			base: strings.Replace(hierarchical, "true", "false", 1),
			spec: v1alpha1.ServiceTypePolicySpec{},
			want: "; changed from it: plugin capacity",
		},
	}) {
		tc.spec.QueueHierarchy = "Tree"
		got := RenderConfiguration(Effective(tc.spec), baseRef, newBase(tc.base), nil, "")
		check.Equal(t, "status", metav1.ConditionTrue, got.Status)
		check.That(t, strings.HasSuffix(got.Message, tc.want), "message %s, want …%s", got.Message, tc.want)
		check.NoError(t, schedulerconfig.Validate(got.Text, schedulerconfig.Shipped()))
		check.Contains(t, "text", got.Text, "queueHierarchy: Tree")

		tc.spec.QueueHierarchy = "Flat"
		flat := RenderConfiguration(Effective(tc.spec), baseRef, newBase(tc.base), nil, "")
		check.Equal(t, "refused with Flat", tc.base == hierarchical, flat.Reason == v1alpha1.ReasonHierarchyNotSupported)
	}
}

// TestBaseIsVolcanosConfigMapUnlessThePolicyNamesOne: by default the base is the ConfigMap of Volcano's installation,
// in the namespace of Volcano.
func TestBaseIsVolcanosConfigMapUnlessThePolicyNamesOne(t *testing.T) {
	spec := Effective(v1alpha1.ServiceTypePolicySpec{})
	check.Equal(t, "base by default", v1alpha1.ConfigMapKeyReference{
		Namespace: "volcano", Name: "volcano-scheduler-configmap", Key: "volcano-scheduler.conf",
	}, BaseFor(spec, "volcano"))
	spec.Scheduler.BaseConfigMap = baseRef
	check.Equal(t, "base of the policy", baseRef, BaseFor(spec, "volcano"))
}

// TestDriftIsAnotherWriterOfTheConfiguration: managed fields say which client has written the text of the
// scheduler's ConfigMap. If that is not the operator ("cardquota"), the operator reports who, and writes its
// own text again. If two clients have written the same text, it is still the operator's. If no entry names the
// text, an unknown client has written it.
func TestDriftIsAnotherWriterOfTheConfiguration(t *testing.T) {
	const field = `{"f:data":{".":{},"f:volcano-scheduler.conf":{}}}`
	writtenBy := func(manager, fields string) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{Manager: manager, FieldsType: "FieldsV1", FieldsV1: &metav1.FieldsV1{Raw: []byte(fields)}}
	}

	for t, tc := range check.Cases(t, map[string]struct {
		entries []metav1.ManagedFieldsEntry
		want    string // "" if the operator wrote it
	}{
		"no managed fields":   {want: "an unknown client"},
		"helm wrote the text": {entries: []metav1.ManagedFieldsEntry{writtenBy("helm", field)}, want: "helm"},
		"helm wrote another key": {
			entries: []metav1.ManagedFieldsEntry{writtenBy("helm", `{"f:data":{"f:other":{}}}`)},
			want:    "an unknown client",
		},
		"the operator wrote the text": {entries: []metav1.ManagedFieldsEntry{writtenBy("cardquota", field)}},
		"an entry that cannot be read": {
			entries: []metav1.ManagedFieldsEntry{writtenBy("helm", "nonsense")},
			want:    "an unknown client",
		},
		"an entry without fields": {entries: []metav1.ManagedFieldsEntry{{Manager: "helm"}}, want: "an unknown client"},
		"the operator and helm wrote the same text": {
			entries: []metav1.ManagedFieldsEntry{writtenBy("cardquota", field), writtenBy("helm", field)},
		},
	}) {
		by, hasDrifted := DriftedBy(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{ManagedFields: tc.entries}})
		check.Equal(t, "writer", tc.want, by)
		check.Equal(t, "drift", tc.want != "", hasDrifted)
	}
}
