package policy

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/conditions"
	"cardquota.dev/operator/internal/schedulerconfig"
)

// The ConfigMap that the operator renders in the scheduler's namespace, and the value of its
// annotation when there never was a base.
const (
	ConfigMapName       = "cardquota-scheduler-configmap"
	ConfigMapKey        = "volcano-scheduler.conf"
	renderedFromDefault = "Volcano's built-in default"
)

// describeKey names one key of one ConfigMap in messages.
func describeKey(ref v1alpha1.ConfigMapKeyReference) string {
	return fmt.Sprintf("ConfigMap %s/%s, key %s", ref.Namespace, ref.Name, ref.Key)
}

// BaseFor returns the base configuration of an effective spec. volcano is the namespace of
// Volcano's programs, which is the default.
func BaseFor(spec v1alpha1.ServiceTypePolicySpec, volcano string) v1alpha1.ConfigMapKeyReference {
	ref := spec.Scheduler.BaseConfigMap
	ref.Namespace = cmp.Or(ref.Namespace, volcano)
	return ref
}

// Configuration is the rendered text of the scheduler's ConfigMap, and From what it was
// rendered from. Text is "" when the ConfigMap stays unchanged, and the condition says why.
// BuiltIn reports whether there is no base.
type Configuration struct {
	metav1.Condition
	Text, From string
	BuiltIn    bool
}

// RenderConfiguration renders the scheduler's configuration for a valid effective spec, which it merges into
// the base. ref names the base. base and live, the ConfigMap of the scheduler, are nil when they do not
// exist. written is the hash of the last text that the operator wrote. If there never was a base, it uses
// Volcano's built-in default. The result has no text if none can be rendered.
func RenderConfiguration(spec v1alpha1.ServiceTypePolicySpec, ref v1alpha1.ConfigMapKeyReference, base, live *corev1.ConfigMap, written string) Configuration {
	out := Configuration{From: describeKey(ref)}
	text := ""
	if base != nil {
		text = base.Data[ref.Key]
	}

	out.BuiltIn = strings.TrimSpace(text) == ""
	if out.BuiltIn {
		out.From = renderedFromDefault
		text = schedulerconfig.BuiltIn
	}

	rendered, replaced, err := schedulerconfig.Render(text, headerComment(out.From), OverlayFor(spec))
	stays := "what was rendered last stays"
	if live == nil {
		stays = "there is no rendered configuration"
	}

	switch {
	// A base that was there once, and is missing now, may come back. Volcano's default instead would change
	// scheduling silently.
	case out.BuiltIn && (err != nil || !neverHadBase(live, written, rendered)):
		out.Condition = conditions.New(metav1.ConditionFalse, v1alpha1.ReasonBaseMissing, "%s; %s", describeMissingBase(ref, base), stays)
		return out
	case errors.Is(err, schedulerconfig.ErrHierarchy):
		out.Condition = conditions.New(metav1.ConditionFalse, v1alpha1.ReasonHierarchyNotSupported, "%s: %v; %s", out.From, err, stays)
		return out
	case err != nil:
		out.Condition = conditions.New(metav1.ConditionFalse, v1alpha1.ReasonBaseInvalid, "%s: %s; %s: correct it there",
			out.From, onOneLine(err), stays)
		return out
	}

	out.Text = rendered
	message := "the scheduler's configuration is " + out.From + " merged with this policy"
	if out.BuiltIn {
		message += "; the base has never existed: " + describeMissingBase(ref, base)
	} else if len(replaced) > 0 {
		message += "; changed from it: " + strings.Join(replaced, ", ")
		if slices.Contains(replaced, schedulerconfig.ReplacedHierarchy) {
			message += "; " + describeHierarchy(spec)
		}
	}

	out.Condition = conditions.New(metav1.ConditionTrue, v1alpha1.ReasonSynced, "%s", message)
	return out
}

// describeHierarchy says what becomes of the hierarchy of plugin capacity in a base.
func describeHierarchy(spec v1alpha1.ServiceTypePolicySpec) string {
	message := "capacity-card keeps the CPU and memory rules of its hierarchy of queues"
	if spec.ComputeQuota == v1alpha1.ComputeQuotaIgnoreForCardPods {
		message += ", for pods with cards only with computeQuota: Enforce"
	}
	if spec.ReclaimResources == v1alpha1.ReclaimResourcesCards {
		message += "; only cards are taken back: for CPU and memory too, set reclaimResources: All"
	}
	return message
}

// neverHadBase reports whether the operator has rendered nothing yet, or only from the built-in default. If the
// ConfigMap is gone, written, the hash of the last text, says so: rendered is the text from that default.
func neverHadBase(live *corev1.ConfigMap, written, rendered string) bool {
	if live != nil && live.Annotations[v1alpha1.AnnotationRenderedFrom] != "" {
		return live.Annotations[v1alpha1.AnnotationRenderedFrom] == renderedFromDefault
	}
	return written == "" || written == schedulerconfig.Hash(rendered)
}

// headerComment returns the comment at the top of a rendered text.
func headerComment(from string) string {
	where := from
	if from == renderedFromDefault {
		where = "the ConfigMap that it names as base"
	}
	return fmt.Sprintf("Rendered by cardquota-manager from %s,\nmerged with ServiceTypePolicy %s. The operator reverts manual changes:\nmake them in the policy or in %s.",
		from, v1alpha1.PolicyName, where)
}

// describeMissingBase says that there is no base, and what would help.
func describeMissingBase(ref v1alpha1.ConfigMapKeyReference, base *corev1.ConfigMap) string {
	if base == nil {
		return fmt.Sprintf("there is no ConfigMap %s/%s: install Volcano, create it with Volcano's configuration as key %s, or name another one in spec.scheduler.baseConfigMap",
			ref.Namespace, ref.Name, ref.Key)
	}
	has := "it has no keys"
	if len(base.Data) > 0 {
		keys := slices.Sorted(maps.Keys(base.Data))
		has = "it has " + strings.Join(keys[:min(len(keys), 5)], ", ")
	}
	return fmt.Sprintf("ConfigMap %s/%s has no text under key %s (%s): add it or name another key in spec.scheduler.baseConfigMap", ref.Namespace, ref.Name, ref.Key, has)
}

// DriftedBy reports whether another writer changed the text of the scheduler's ConfigMap, and
// returns its field manager. Without an entry in managedFields the name is "an unknown client".
func DriftedBy(live *corev1.ConfigMap) (by string, isDrifted bool) {
	if OwnedByOperator(live, "data", ConfigMapKey) {
		return "", false
	}
	for _, entry := range live.ManagedFields {
		if entry.Manager != v1alpha1.FieldManager && ownsField(entry, "data", ConfigMapKey) {
			by = entry.Manager
		}
	}
	return cmp.Or(by, "an unknown client"), true
}

// onOneLine puts an error on one line.
func onOneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }

// reclaimActions are the scheduler's actions that reclaim cards.
var reclaimActions = map[v1alpha1.ReclaimMode]string{
	v1alpha1.ReclaimGangs: schedulerconfig.CardReclaim,
	v1alpha1.ReclaimPods:  "reclaim",
	v1alpha1.ReclaimOff:   "",
}

// OverlayFor returns what a valid effective spec sets in the scheduler's configuration. Its arguments replace
// all arguments that the base has for the plugin.
func OverlayFor(spec v1alpha1.ServiceTypePolicySpec) schedulerconfig.Overlay {
	types := make(map[string]any, len(spec.ServiceTypes))
	for _, t := range spec.ServiceTypes {
		row := map[string]any{}
		if t.ReclaimPolicy == v1alpha1.ReclaimWhenNeeded {
			row[schedulerconfig.ServiceTypeReclaimable] = true
		}

		if len(t.ReclaimFrom) > 0 {
			row[schedulerconfig.ServiceTypeReclaimFrom] = t.ReclaimFrom
		}

		if t.MinimumRuntimeSeconds != 0 {
			row[schedulerconfig.ServiceTypeMinimumRuntime] = (time.Duration(t.MinimumRuntimeSeconds) * time.Second).String()
		}
		types[t.Name] = row
	}

	owners := make(map[string]any, len(spec.Owners))
	for _, o := range spec.Owners {
		owners[o.Kind] = o.ServiceType
	}

	classes := make(map[string]any, len(spec.PriorityClasses))
	for _, class := range spec.PriorityClasses {
		classes[class.Name] = class.Value
	}

	arguments := map[string]any{
		schedulerconfig.ArgumentUnlimitedCPUMemory: spec.ComputeQuota == v1alpha1.ComputeQuotaIgnoreForCardPods,
		schedulerconfig.ArgumentServiceTypes:       types,
		schedulerconfig.ArgumentOwners:             owners,
		schedulerconfig.ArgumentUnmanagedQueues:    string(spec.UnmanagedQueues),
		schedulerconfig.ArgumentOverCommitFactor:   percentToFactor(spec.OverCommitPercent),
		schedulerconfig.ArgumentNodeOrderWeight:    percentToFactor(spec.NodeOrderWeightPercent),
		schedulerconfig.ArgumentVictimOrder:        string(spec.VictimOrder),
		schedulerconfig.ArgumentPriorityClasses:    classes,
	}

	// A scheduler of an earlier version refuses a configuration with arguments that it does not
	// know. So these are set only if they differ from the default.
	if spec.ReclaimResources != v1alpha1.ReclaimResourcesCards {
		arguments[schedulerconfig.ArgumentReclaimResources] = string(spec.ReclaimResources)
	}

	if spec.MaxReservationMinutes != 0 {
		arguments[schedulerconfig.ArgumentMaxReservation] = (time.Duration(spec.MaxReservationMinutes) * time.Minute).String()
	}

	if len(spec.Cards) > 0 {
		arguments[schedulerconfig.ArgumentCards] = mappingsOf(spec.Cards).Argument()
	}

	if spec.QueueHierarchy != v1alpha1.QueueHierarchyFlat {
		arguments[schedulerconfig.ArgumentQueueHierarchy] = string(spec.QueueHierarchy)
	}

	return schedulerconfig.Overlay{
		Reclaim:   reclaimActions[spec.Reclaim],
		Preempt:   spec.Preempt == v1alpha1.PreemptInQueue,
		Tree:      spec.QueueHierarchy == v1alpha1.QueueHierarchyTree,
		Arguments: arguments,
	}
}

// percentToFactor converts a percentage to the factor that the plugin expects: a whole number as int, so that
// it is rendered without a fraction.
func percentToFactor(percent int32) any {
	if percent%100 == 0 {
		return int(percent / 100)
	}
	return float64(percent) / 100
}
