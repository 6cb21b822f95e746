package policy

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/clip"
	"cardquota.dev/operator/internal/schedulerconf"
)

// Verdict is the content of one condition.
type Verdict struct {
	Status          metav1.ConditionStatus
	Reason, Message string
}

// verdict makes one whose message fits into a condition.
func verdict(status metav1.ConditionStatus, reason, format string, values ...any) Verdict {
	return Verdict{Status: status, Reason: reason, Message: clip.Text(fmt.Sprintf(format, values...), v1alpha1.MaxMessageLength)}
}

// Place names one key of one ConfigMap in messages.
func Place(ref v1alpha1.ConfigMapReference) string {
	return fmt.Sprintf("ConfigMap %s/%s, key %s", ref.Namespace, ref.Name, ref.Key)
}

// Synced is the verdict on a configuration that says what the policy says. before
// is condition ConfigSynced as it was, nil when there was none: that a change of
// somebody else was put right stays visible until the spec changes.
func Synced(ref v1alpha1.ConfigMapReference, before *metav1.Condition, generation int64) Verdict {
	if before != nil && before.ObservedGeneration == generation && before.Reason == v1alpha1.ReasonConfigCorrected {
		return Verdict{Status: before.Status, Reason: before.Reason, Message: before.Message}
	}
	return verdict(metav1.ConditionTrue, v1alpha1.ReasonSynced, "%s says what this policy says", Place(ref))
}

// Invalid is the verdict on a spec that contradicts itself.
func Invalid(faults field.ErrorList) Verdict {
	return verdict(metav1.ConditionFalse, v1alpha1.ReasonInvalidPolicy,
		"nothing of this spec was written and what was in force before stays: %s", faults.ToAggregate())
}

// Missing is the verdict when there is no ConfigMap, or no such key in it.
func Missing(ref v1alpha1.ConfigMapReference, live *corev1.ConfigMap) Verdict {
	if live == nil {
		return verdict(metav1.ConditionFalse, v1alpha1.ReasonConfigMapMissing,
			"there is no ConfigMap %s/%s: install Volcano, create it with the scheduler's configuration as key %s, or name another one in spec.scheduler.configMap",
			ref.Namespace, ref.Name, ref.Key)
	}
	has := "it has no keys"
	if len(live.Data) > 0 {
		keys := slices.Sorted(maps.Keys(live.Data))
		has = "it has " + strings.Join(keys[:min(len(keys), 5)], ", ")
	}
	return verdict(metav1.ConditionFalse, v1alpha1.ReasonConfigMapMissing,
		"ConfigMap %s/%s has no text under key %s (%s): add it or name another key in spec.scheduler.configMap", ref.Namespace, ref.Name, ref.Key, has)
}

// Unreadable is the verdict on a text that cannot be changed safely.
func Unreadable(ref v1alpha1.ConfigMapReference, err error) Verdict {
	if errors.Is(err, schedulerconf.ErrHierarchy) {
		return verdict(metav1.ConditionFalse, v1alpha1.ReasonHierarchyNotSupported, "%s was left as it is: %s", Place(ref), lines(err))
	}
	return verdict(metav1.ConditionFalse, v1alpha1.ReasonConfigUnreadable, "%s was left as it is: %s; correct it by hand", Place(ref), lines(err))
}

// Refused is the verdict on a configuration that could not be read or written.
func Refused(ref v1alpha1.ConfigMapReference, err error) Verdict {
	return verdict(metav1.ConditionFalse, v1alpha1.ReasonConfigRefused,
		"%s could not be changed: %s; the shipped Role of cardquota-manager allows it for ConfigMap %s in its own namespace: grant the other name there as well; an immutable ConfigMap must be made anew",
		Place(ref), lines(err), defaultConfigMap)
}

// Corrected is the verdict on a configuration that somebody else had changed and
// that was put right.
func Corrected(ref v1alpha1.ConfigMapReference, by Writer, changes []string, now time.Time) Verdict {
	return verdict(metav1.ConditionTrue, v1alpha1.ReasonConfigCorrected, "%s; put right at %s", Tampered(ref, by, changes), stamp(now))
}

// Changed is the verdict on a configuration that somebody else has changed and
// that is about to be put right.
func Changed(ref v1alpha1.ConfigMapReference, by Writer, changes []string) Verdict {
	return verdict(metav1.ConditionFalse, v1alpha1.ReasonConfigChanged, "%s; it is being put right", Tampered(ref, by, changes))
}

// Contested is the verdict on a configuration that somebody else keeps changing.
// rounds is how often it was put right.
func Contested(ref v1alpha1.ConfigMapReference, by Writer, changes []string, rounds int) Verdict {
	return verdict(metav1.ConditionFalse, v1alpha1.ReasonConfigContested,
		"%s keeps writing %s, which was put right %d times and is put right ever later, after at most a minute: stop the other writer or delete this policy; last changed: %s",
		by.name(), Place(ref), rounds, strings.Join(changes, "; "))
}

// Tampered tells in one clause who changed what.
func Tampered(ref v1alpha1.ConfigMapReference, by Writer, changes []string) string {
	return fmt.Sprintf("%s wrote %s: %s", by, Place(ref), strings.Join(changes, "; "))
}

// lines puts an error on one line.
func lines(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }
