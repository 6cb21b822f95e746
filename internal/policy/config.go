package policy

import (
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/schedulerconf"
)

// Edit is what is to become of one text of a ConfigMap.
type Edit struct {
	// Text and Undo are what shall stand: the configuration and the record by which
	// it is undone.
	Text, Undo string
	// Needed tells that one of them is not what stands there.
	Needed bool
	// First tells that the text carries no change of the operator yet.
	First bool
	// Changes says in words what is changed in the text.
	Changes []string
}

// PlanEdit plans the change of the text under a key so that it carries what is
// wanted. original is the copy of the text from before the first change, nil when
// there is none. An error means that the text cannot be changed safely, or that
// no scheduler would load the result.
func PlanEdit(live *corev1.ConfigMap, key string, original *corev1.ConfigMap, want schedulerconf.Wanted) (Edit, error) {
	text := live.Data[key]
	mark := live.Annotations[v1alpha1.AnnotationSchedulerConfigUndo]
	undo := mark
	merged, newUndo, err := schedulerconf.Merge(text, undo, want)
	if errors.Is(err, schedulerconf.ErrHierarchy) {
		return Edit{}, err
	}
	if undo == "" || err != nil {
		// A record that somebody took or spoilt must not stop the policy.
		undo = recovered(text, key, original, want)
		merged, newUndo, err = schedulerconf.Merge(text, undo, want)
	}
	if err != nil {
		return Edit{}, err
	}
	edit := Edit{Text: merged, Undo: newUndo, First: undo == "", Needed: merged != text || newUndo != mark}
	if merged != text {
		if edit.Changes, err = schedulerconf.Changes(text, undo, want); err != nil {
			return Edit{}, err
		}
	}
	return edit, nil
}

// recovered finds the record of the operator's changes again while the text is
// the one that the operator makes of the original.
func recovered(text, key string, original *corev1.ConfigMap, want schedulerconf.Wanted) string {
	if original == nil {
		return ""
	}
	if merged, undo, err := schedulerconf.Merge(original.Data[key], "", want); err == nil && merged == text {
		return undo
	}
	return ""
}

// Undo is what becomes of a text when the operator's changes are undone.
type Undo struct {
	Text string
	// Exact tells that it is the text from before the first change, byte by byte.
	Exact bool
}

// PlanUndo plans the removal of the operator's changes. It is false when there
// are none. want is what the policy demands, nil when that is not known; with it
// a record that somebody took or spoilt is found again.
func PlanUndo(live *corev1.ConfigMap, key string, original *corev1.ConfigMap, want *schedulerconf.Wanted) (Undo, bool, error) {
	text, there := live.Data[key]
	if !there {
		return Undo{}, false, nil
	}
	mark := live.Annotations[v1alpha1.AnnotationSchedulerConfigUndo]
	restored, err := schedulerconf.Remove(text, mark)
	if want != nil && (mark == "" || err != nil) {
		if undo := recovered(text, key, original, *want); undo != "" {
			mark = undo
			restored, err = schedulerconf.Remove(text, undo)
		}
	}
	switch {
	case err != nil:
		return Undo{}, false, err
	case mark == "":
		return Undo{}, false, nil
	}
	return Undo{Text: restored, Exact: original != nil && original.Data[key] == restored}, true, nil
}

// OriginalName is the name of the ConfigMap that keeps the original text.
func OriginalName(name string) string { return name + "-original" }

// Original returns the ConfigMap that keeps a text as it was before the first
// change.
func Original(ref v1alpha1.ConfigMapReference, text string) *corev1.ConfigMap {
	immutable := true
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: ref.Namespace, Name: OriginalName(ref.Name),
			Labels: map[string]string{"app.kubernetes.io/managed-by": "cardquota"},
			Annotations: map[string]string{
				v1alpha1.AnnotationCreatedBy: v1alpha1.PolicyName,
				v1alpha1.AnnotationDescription: fmt.Sprintf("What ConfigMap %s said under %s before ServiceTypePolicy %s first changed it. "+
					"Nothing reads it but the operator and you.", ref.Name, ref.Key, v1alpha1.PolicyName),
			},
		},
		Immutable: &immutable,
		Data:      map[string]string{ref.Key: text},
	}
}

// TextOf returns the text that a reference names. It is false when there is none.
func TextOf(live *corev1.ConfigMap, ref v1alpha1.ConfigMapReference) (string, bool) {
	if live == nil {
		return "", false
	}
	text, ok := live.Data[ref.Key]
	return text, ok && strings.TrimSpace(text) != ""
}
