// Package validation holds the rules by which objects are refused, warned about or
// completed when they are written: objects and the world in, errors with the paths of
// fields out.
//
// The rules are those of the scheduler and the reconcilers: both ask the same
// functions (internal/card, internal/workload, internal/policy), so that what is
// admitted is what will work. Nothing here is needed for quotas to hold: the scheduler
// refuses again.
package validation

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/conditions"
)

// What is shown of one list of a Result: so many entries, of so many bytes each. The API
// server cuts warnings off after 4096 bytes in all.
const (
	maxShown      = 20
	maxShownBytes = 2 << 10
)

// Result is what validation says about an object. The zero Result allows it.
type Result struct {
	// Errors are why the object is refused, and what would help.
	Errors field.ErrorList
	// Warnings are shown to whoever writes the object, and stop nothing.
	Warnings []string
}

// refuse says that a field may not be as it is.
func (r *Result) refuse(path *field.Path, format string, values ...any) {
	r.Errors = append(r.Errors, field.Forbidden(path, fmt.Sprintf(format, values...)))
}

// invalid says that the value of a field means nothing.
func (r *Result) invalid(path *field.Path, value, format string, values ...any) {
	r.Errors = append(r.Errors, field.Invalid(path, fmt.Sprintf("%.160s", value), fmt.Sprintf(format, values...)))
}

// warn warns of a field.
func (r *Result) warn(path *field.Path, format string, values ...any) {
	r.Warnings = append(r.Warnings, path.String()+": "+fmt.Sprintf(format, values...))
}

// addResult adds what another Result says.
func (r *Result) addResult(other Result) {
	r.Errors, r.Warnings = append(r.Errors, other.Errors...), append(r.Warnings, other.Warnings...)
}

// OnlyNew keeps as errors only those that the object before the change did not have: a
// change is answered for what it makes worse, so that an object that was stored before a
// rule can still be changed in other things. The rest becomes warnings.
func (r Result) OnlyNew(before Result) Result {
	had := sets.New[string]()
	for _, err := range before.Errors {
		had.Insert(err.Error())
	}
	out := Result{Warnings: r.Warnings}
	for _, err := range r.Errors {
		if text := err.Error(); had.Has(text) {
			out.Warnings = append(out.Warnings, "as before: "+text)
		} else {
			out.Errors = append(out.Errors, err)
		}
	}
	return out
}

// asWarnings turns every error into a warning.
func (r Result) asWarnings() Result {
	var out Result
	for _, err := range r.Errors {
		out.Warnings = append(out.Warnings, err.Error())
	}
	out.Warnings = append(out.Warnings, r.Warnings...)
	return out
}

// Truncated is what is shown: the first entries of each list, none of them twice, and how
// many there are besides.
func (r Result) Truncated() Result {
	var out Result
	errs, more := firstDistinct(r.Errors, (*field.Error).Error)
	for _, err := range errs {
		short := *err
		short.Detail = conditions.Truncate(err.Detail, maxShownBytes)
		out.Errors = append(out.Errors, &short)
	}
	if more > 0 {
		out.Warnings = append(out.Warnings, fmt.Sprintf("%d more errors are not shown", more))
	}
	warnings, more := firstDistinct(r.Warnings, func(text string) string { return text })
	for _, text := range warnings {
		out.Warnings = append(out.Warnings, conditions.Truncate(text, maxShownBytes))
	}
	if more > 0 {
		out.Warnings = append(out.Warnings, fmt.Sprintf("%d more warnings are not shown", more))
	}
	return out
}

// firstDistinct chooses the first items whose texts differ, and counts the others that do.
func firstDistinct[T any](items []T, text func(T) string) (chosen []T, more int) {
	had := sets.New[string]()
	for _, item := range items {
		if len(chosen) < maxShown && !had.Has(text(item)) {
			chosen = append(chosen, item)
		}
		had.Insert(text(item))
	}
	return chosen, had.Len() - len(chosen)
}

// cardKeys are the annotations of ours that begin with cardPrefix.
var cardKeys = []string{
	v1alpha1.AnnotationCardQuota, v1alpha1.AnnotationCardRequest, v1alpha1.AnnotationCardName, v1alpha1.AnnotationCardAllocated,
}

const cardPrefix = "volcano.sh/card."

// maxNamedKeys is how many misspelt annotations of one object are named.
const maxNamedKeys = 5

// warnUnknownAnnotations warns of misspelt annotations: nobody reads them.
func warnUnknownAnnotations(result *Result, at *field.Path, annotations map[string]string) {
	var unknown []string
	for key := range annotations {
		if strings.HasPrefix(key, cardPrefix) && !slices.Contains(cardKeys, key) {
			unknown = append(unknown, key)
		}
	}
	slices.Sort(unknown)
	named := unknown[:min(len(unknown), maxNamedKeys)]
	for _, key := range named {
		result.warn(at.Key(fmt.Sprintf("%.160s", key)), "nobody reads this annotation: there are %s", strings.Join(cardKeys, ", "))
	}
	if more := len(unknown) - len(named); more > 0 {
		result.warn(at, "nobody reads %d more annotations that begin with %s", more, cardPrefix)
	}
}

// joinSome names at most five of a list.
func joinSome[S ~string](names []S) string {
	text := card.Join(names[:min(len(names), 5)], ", ")
	if len(names) > 5 {
		text += " and others"
	}
	return text
}

// offeredCards says which cards there are.
func offeredCards(inv *card.Inventory) string {
	names := inv.Names()
	if len(names) == 0 {
		return "no node offers a card yet"
	}
	return "nodes offer " + joinSome(names)
}
