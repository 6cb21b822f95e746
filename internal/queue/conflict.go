package queue

import (
	"cmp"
	"errors"
	"regexp"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Conflict is a field that the operator wants and somebody else wrote.
type Conflict struct {
	// Manager is the field manager, such as kubectl-edit; "" when whoever it was
	// left no trace, as after removing the field.
	Manager string
	// Field is the path as the API server writes it.
	Field string
}

// managerForm finds the manager in the message of a conflict's cause, such as
// `conflict with "kubectl-edit" using scheduling.volcano.sh/v1beta1`.
var managerForm = regexp.MustCompile(`conflict with "([^"]*)"`)

// Conflicts reads the field conflicts of a refused apply; it is empty for any
// other error, and does not hold conflicts with the operator itself, whose
// name stands on what admission webhooks added to its own requests.
func Conflicts(err error) []Conflict {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil {
		return nil
	}
	var out []Conflict
	for _, cause := range status.Status().Details.Causes {
		if cause.Type != metav1.CauseTypeFieldManagerConflict {
			continue
		}
		conflict := Conflict{Field: cause.Field}
		if found := managerForm.FindStringSubmatch(cause.Message); found != nil {
			conflict.Manager = found[1]
		}
		if conflict.Manager != FieldManager {
			out = append(out, conflict)
		}
	}
	return out
}

// IsConflict tells whether an apply was refused because of field conflicts.
func IsConflict(err error) bool {
	return apierrors.IsConflict(err) && apierrors.HasStatusCause(err, metav1.CauseTypeFieldManagerConflict)
}

// Describe names who wrote what, in one clause: "kubectl-edit wrote
// spec.priority, volcano.sh/card.quota; somebody removed spec.capability.cpu".
func Describe(conflicts []Conflict) string {
	sorted := slices.SortedFunc(slices.Values(conflicts), func(a, b Conflict) int {
		return cmp.Or(cmp.Compare(a.Manager, b.Manager), cmp.Compare(readable(a.Field), readable(b.Field)))
	})
	var clauses []string
	for len(sorted) > 0 {
		manager := sorted[0].Manager
		end := slices.IndexFunc(sorted, func(c Conflict) bool { return c.Manager != manager })
		if end < 0 {
			end = len(sorted)
		}
		fields := make([]string, end)
		for i, c := range sorted[:end] {
			fields[i] = readable(c.Field)
		}
		who := manager + " wrote "
		if manager == "" {
			who = "somebody changed or removed "
		}
		clauses = append(clauses, who+strings.Join(fields, ", "))
		sorted = sorted[end:]
	}
	return strings.Join(clauses, "; ")
}

// readable writes a field as people call it: an annotation by its key,
// anything else by its path.
func readable(field string) string {
	if key, ok := strings.CutPrefix(field, annotationField("")); ok {
		return key
	}
	return strings.TrimPrefix(field, ".")
}
