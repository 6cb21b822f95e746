package policy

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/schedulerconf"
)

// Writer is who wrote something last.
type Writer struct {
	// Manager is the field manager, such as helm; "" when whoever it was left no
	// trace.
	Manager string
	// At is when, to the second; zero when that is not known.
	At time.Time
}

// WriterOf finds who, besides the operator, wrote a field last.
func WriterOf(object metav1.Object, field ...any) Writer {
	path := fieldpath.MakePathOrDie(field...)
	var last Writer
	for _, entry := range object.GetManagedFields() {
		if entry.Manager == FieldManager || !owns(entry, path) {
			continue
		}
		var at time.Time
		if entry.Time != nil {
			at = entry.Time.Time
		}
		if last.Manager == "" || at.After(last.At) {
			last = Writer{Manager: entry.Manager, At: at}
		}
	}
	return last
}

func (w Writer) name() string {
	if w.Manager == "" {
		return "somebody"
	}
	return w.Manager
}

// String names the writer and the time.
func (w Writer) String() string {
	if w.At.IsZero() {
		return w.name()
	}
	return w.name() + " at " + stamp(w.At)
}

// Wrote tells whether a field stands as the operator wrote it.
func Wrote(object metav1.Object, field ...any) bool {
	path := fieldpath.MakePathOrDie(field...)
	return slices.ContainsFunc(object.GetManagedFields(), func(e metav1.ManagedFieldsEntry) bool {
		return e.Manager == FieldManager && owns(e, path)
	})
}

// Disturbed tells whether an edit is needed because somebody else wrote, not
// because the policy or the operator changed, and who it was. While only the
// record of changes is missing, it is whoever took that.
func Disturbed(policy *v1alpha1.ServiceTypePolicy, live *corev1.ConfigMap, key string, edit Edit) (Writer, bool) {
	status := policy.Status
	if status.ConfigHash == "" || status.ObservedGeneration != policy.Generation {
		return Writer{}, false
	}
	text, mark := []any{"data", key}, []any{"metadata", "annotations", v1alpha1.AnnotationSchedulerConfigUndo}
	by := WriterOf(live, text...)
	if len(edit.Changes) > 0 {
		return by, !Wrote(live, text...) && schedulerconf.Hash(live.Data[key]) != status.ConfigHash
	}
	if taker := WriterOf(live, mark...); taker.Manager != "" {
		by = taker
	}
	return by, !Wrote(live, text...) || !Wrote(live, mark...)
}
