// Package validation contains the rules of the admission webhooks, which refuse objects, warn
// of them or add defaults. It is pure: objects in, errors with the paths of fields out.
//
// The rules call the same functions as the scheduler and the controllers (internal/card,
// internal/workload, internal/policy), so that admitted objects work. Quotas apply without
// these rules: the scheduler checks again.
package validation

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/conditions"
	"cardquota.dev/operator/internal/quota"
)

// Bounds of the entries of a Result, and of their bytes. The API server truncates warnings
// after 4096 bytes in total.
const (
	maxShown      = 20
	maxShownBytes = 2 << 10
)

// Result is the result of a validation. The zero Result allows the object.
type Result struct {
	// Errors say why the object is refused, and what would help.
	Errors field.ErrorList
	// Warnings are shown to the user who writes the object, and refuse nothing.
	Warnings []string
}

// refuse adds the error that a field is forbidden.
func (r *Result) refuse(path *field.Path, format string, values ...any) {
	r.Errors = append(r.Errors, field.Forbidden(path, fmt.Sprintf(format, values...)))
}

// invalid adds the error that the value of a field is invalid. It shows the first 160 characters of the value.
func (r *Result) invalid(path *field.Path, value, format string, values ...any) {
	r.Errors = append(r.Errors, field.Invalid(path, fmt.Sprintf("%.160s", value), fmt.Sprintf(format, values...)))
}

// warn adds a warning about a field.
func (r *Result) warn(path *field.Path, format string, values ...any) {
	r.Warnings = append(r.Warnings, path.String()+": "+fmt.Sprintf(format, values...))
}

// addResult adds the entries of another Result.
func (r *Result) addResult(other Result) {
	r.Errors = append(r.Errors, other.Errors...)
	r.Warnings = append(r.Warnings, other.Warnings...)
}

// OnlyNew keeps the errors that the object before the change did not have, and turns the
// others into warnings. So an object that is older than a rule can still be updated.
func (r Result) OnlyNew(before Result) Result {
	existing := sets.New[string]()
	for _, err := range before.Errors {
		existing.Insert(err.Error())
	}

	out := Result{Warnings: r.Warnings}
	for _, err := range r.Errors {
		if text := err.Error(); existing.Has(text) {
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

// Truncated returns the first distinct entries of each list, within the bounds of this file, and how many more there
// are.
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

// firstDistinct returns the first items with distinct texts, and how many more distinct
// ones there are.
func firstDistinct[T any](items []T, text func(T) string) (chosen []T, more int) {
	seen := sets.New[string]()
	for _, item := range items {
		if len(chosen) < maxShown && !seen.Has(text(item)) {
			chosen = append(chosen, item)
		}
		seen.Insert(text(item))
	}
	return chosen, seen.Len() - len(chosen)
}

// cardKeys are our annotations with cardPrefix.
var cardKeys = []string{
	v1alpha1.AnnotationCardQuota, v1alpha1.AnnotationCardDeserved, v1alpha1.AnnotationCardGuarantee, v1alpha1.AnnotationCardRequest, v1alpha1.AnnotationCardName, v1alpha1.AnnotationCardAllocated,
}

const cardPrefix = "volcano.sh/card."

// maxNamedKeys bounds the misspelt annotations that are named per object.
const maxNamedKeys = 5

// warnUnknownAnnotations warns of annotations that begin like ours and are none of them. They are misspelt and have no
// effect.
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
		result.warn(at.Key(fmt.Sprintf("%.160s", key)), "this annotation is unknown and has no effect: the known ones are %s", strings.Join(cardKeys, ", "))
	}

	if more := len(unknown) - len(named); more > 0 {
		result.warn(at, "%d more annotations that begin with %s are unknown and have no effect", more, cardPrefix)
	}
}

// maxNames bounds the names in a message.
const maxNames = 5

// describeOffer says why no node offers a card, or which card the user may mean. Nodes may have the card and
// withhold it. Otherwise it names the offered card with the most similar name, else all offered cards. Cards
// of the resource that have no name yet may also be the card. resource is "" for any.
func describeOffer(name card.Name, resource corev1.ResourceName, inv *card.Inventory) string {
	if withheld := inv.WithheldCards(name); len(withheld) > 0 {
		who := "1 node withholds"
		if n := len(withheld[0].Nodes); n > 1 {
			who = fmt.Sprintf("%d nodes withhold", n)
		}
		return fmt.Sprintf("%s it, such as %s: %s", who, withheld[0].Nodes[0], withheld[0].Message)
	}

	text := offeredCards(inv)
	if near, found := card.Nearest(name, inv.Names()); found {
		text = card.AskForName(near, inv.Physical()[near])
	}

	unnamed := inv.UnnamedCardsFor(resource)
	if len(unnamed) == 0 {
		return text
	}

	// Only the first unnamed cards are shown: those whose message mentions the name, if there are any. Their
	// cause is then so probable that no other card is suggested.
	mentioned := slices.IndexFunc(unnamed, func(u card.UnnamedCards) bool { return card.MentionsCard(u.Message, name) })
	if mentioned >= 0 {
		unnamed = unnamed[mentioned:]
	}

	of := conditions.CountThings(len(unnamed[0].Nodes), "node")
	notNamed := fmt.Sprintf("it is not named yet (%s: %s), then it waits until the labels are there", of, unnamed[0].Message)
	if mentioned >= 0 || len(inv.Names()) == 0 {
		return notNamed
	}

	return text + "; or " + notNamed
}

// offeredCards returns which cards the nodes offer.
func offeredCards(inv *card.Inventory) string {
	names := inv.Names()
	if len(names) == 0 {
		return "no node offers a card yet"
	}
	return "nodes offer " + conditions.JoinFirst(names, maxNames)
}

// specPath is the path of the spec.
var specPath = field.NewPath("spec")

// cardPath returns the path of a field of a card.
func cardPath(name, of string) *field.Path { return specPath.Child("cards").Key(name).Child(of) }

// namePath returns the path of the entry of a card, CPU or memory.
func namePath(name quota.Resource) *field.Path {
	if name.IsCard() {
		return specPath.Child("cards").Key(name.String())
	}
	return specPath.Child("resources", name.String())
}

// amountPath returns the path of one amount of a card, CPU or memory: of is quota, deserved or guarantee. The quota of
// CPU has no field of this name: it is spec.resources.cpu, beside spec.resources.deserved.cpu.
func amountPath(name quota.Resource, of string) *field.Path {
	switch {
	case name.IsCard():
		return cardPath(name.String(), of)
	case of == "quota":
		return namePath(name)
	default:
		return specPath.Child("resources", of, name.String())
	}
}
