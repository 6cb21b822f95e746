// Package conditions builds and compares the conditions of a status and derives events from
// them. It also truncates text to the bounds of the API, as valid UTF-8.
package conditions

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"cardquota.dev/operator/api/v1alpha1"
)

// MaxMessageLength bounds a message in a status, in bytes.
const MaxMessageLength = 1024

// New returns a condition without a type. It truncates the message to MaxMessageLength.
func New(status metav1.ConditionStatus, reason, format string, values ...any) metav1.Condition {
	return metav1.Condition{Status: status, Reason: reason, Message: Truncate(fmt.Sprintf(format, values...), MaxMessageLength)}
}

// Set stores a condition in a list under a type, kind. generation is that of the spec which it describes. A condition
// with the same status keeps its transition time.
func Set(list *[]metav1.Condition, kind string, c metav1.Condition, generation int64, now time.Time) {
	c.Type = kind
	c.ObservedGeneration = generation
	c.LastTransitionTime = metav1.NewTime(now)
	meta.SetStatusCondition(list, c)
}

// Get returns the condition of a type, an empty one if the list has none.
func Get(list []metav1.Condition, kind string) metav1.Condition {
	if c := meta.FindStatusCondition(list, kind); c != nil {
		return *c
	}
	return metav1.Condition{}
}

// JoinFirst joins the first names of a message and counts the rest: "a, b and 3 more".
func JoinFirst[S ~string](names []S, most int) string {
	listed := make([]string, min(len(names), most))
	for i := range listed {
		listed[i] = string(names[i])
	}
	text := strings.Join(listed, ", ")
	if more := len(names) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// CountThings returns a number with its noun: "1 error", "2 errors", "2 anomalies".
func CountThings(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	if stem, isY := strings.CutSuffix(noun, "y"); isY {
		return fmt.Sprintf("%d %sies", n, stem)
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// Same reports whether two conditions have the same status, reason and message.
func Same(a, b metav1.Condition) bool {
	return a.Status == b.Status && a.Reason == b.Reason && a.Message == b.Message
}

// Event is one event about an object.
type Event struct {
	// Type is Normal or Warning.
	Type string
	// Reason is one of the event reasons of the API package.
	Reason, Message string
}

// Rule is a change of a condition that makes an event.
type Rule struct {
	// Type, Status and Reason match the new condition; "" matches any. Except is a reason that does not match.
	Type   string
	Status metav1.ConditionStatus
	Reason string
	Except string
	// Kind is Normal or Warning.
	Kind string
	// Event is the reason of the event, "" for the reason of the condition. A rule for any
	// reason puts the reason of the condition before the message.
	Event string
}

// matches reports whether the rule is about the status and reason of a condition.
func (r *Rule) matches(c metav1.Condition) bool {
	isStatus := r.Status == "" || c.Status == r.Status
	isReason := r.Reason == "" || c.Reason == r.Reason
	return isStatus && isReason && (r.Except == "" || c.Reason != r.Except)
}

// CommonRules are the rules for conditions that CardQuota and ServiceTypePolicy share.
var CommonRules = []Rule{
	{Type: v1alpha1.ConditionFieldsKnown, Status: metav1.ConditionFalse, Kind: corev1.EventTypeWarning, Reason: v1alpha1.ReasonUnknownFields},
	{Type: v1alpha1.ConditionEnforced, Status: metav1.ConditionTrue, Kind: corev1.EventTypeNormal, Reason: v1alpha1.ReasonEnforced, Event: v1alpha1.ReasonEnforced},
	{Type: v1alpha1.ConditionEnforced, Status: metav1.ConditionFalse, Except: v1alpha1.ReasonObserving, Kind: corev1.EventTypeWarning, Event: v1alpha1.EventNotEnforced},
}

// Events returns the events for the change from one list of conditions to the next. A
// condition with unchanged status and reason makes no event.
func Events(before, after []metav1.Condition, rules []Rule) []Event {
	var events []Event
	for _, rule := range rules {
		was := Get(before, rule.Type)
		is := Get(after, rule.Type)

		// A message changes with every number in it. An event for each would use up the event
		// budget of the object.
		isUnchanged := was.Status == is.Status && was.Reason == is.Reason
		if is.Reason == "" || isUnchanged || !rule.matches(is) {
			continue
		}

		event := Event{Type: rule.Kind, Reason: rule.Event, Message: is.Message}
		switch {
		case rule.Event == "":
			event.Reason = is.Reason
		case rule.Reason == "": // neither the rule nor the event says which reason the condition has
			event.Message = is.Reason + ": " + is.Message
		}
		events = append(events, event)
	}

	return events
}

// ellipsis ends a truncated text.
const ellipsis = "…"

// Truncate truncates text to a number of bytes, at least len(ellipsis), between two
// characters. It replaces invalid UTF-8 by "?".
func Truncate(text string, maxBytes int) string {
	text = strings.ToValidUTF8(text, "?")
	if len(text) <= maxBytes {
		return text
	}
	cut := maxBytes - len(ellipsis)
	for !utf8.RuneStart(text[cut]) { // a character must not be cut in two
		cut--
	}
	return text[:cut] + ellipsis
}

// SetFieldsKnown sets condition FieldsKnown for spec fields that this version does not
// know. The API server drops them, and only managedFields still names them. Without such
// fields it removes the condition.
func SetFieldsKnown(list *[]metav1.Condition, object metav1.Object, spec any, now time.Time) {
	found := UnknownFields(object, spec)
	if len(found) == 0 {
		meta.RemoveStatusCondition(list, v1alpha1.ConditionFieldsKnown)
		return
	}
	Set(list, v1alpha1.ConditionFieldsKnown, New(metav1.ConditionFalse, v1alpha1.ReasonUnknownFields,
		"this version does not know these spec fields, and they have no effect: %s: write the fields that replaced them (CHANGELOG.md), then clear managedFields: kubectl patch --type=json -p '%s'",
		strings.Join(found, ", "), `[{"op":"replace","path":"/metadata/managedFields","value":[{}]}]`), object.GetGeneration(), now)
}

// UnknownFields returns, sorted, the managed fields below spec that the type of the spec
// does not have.
func UnknownFields(object metav1.Object, spec any) []string {
	var found []string

	// The decoder drops fields that this version does not know. Only managedFields still tell of
	// them.
	for _, entry := range object.GetManagedFields() {
		var all struct {
			Spec map[string]any `json:"f:spec"`
		}
		if entry.FieldsV1 == nil || json.Unmarshal(entry.FieldsV1.Raw, &all) != nil {
			continue // the API server wrote it; an unreadable entry names no field
		}
		found = append(found, unknownFields(reflect.TypeOf(spec), all.Spec, "spec")...)
	}

	slices.Sort(found)
	return slices.Compact(found)
}

// jsonUnmarshaler types decode their own fields.
var jsonUnmarshaler = reflect.TypeFor[json.Unmarshaler]()

// unknownFields returns the paths of the managed fields that a type does not have. fields is a part of managedFields: a
// key "f:name" is a field, any other key an entry of a list. path is where the part stands in the object.
func unknownFields(of reflect.Type, fields map[string]any, path string) []string {
	for of.Kind() == reflect.Pointer || of.Kind() == reflect.Slice {
		of = of.Elem()
	}

	// A type with its own JSON, such as a quantity, has no fields that a user writes.
	if of.Kind() != reflect.Struct || reflect.PointerTo(of).Implements(jsonUnmarshaler) {
		return nil
	}

	var found []string
	for key, below := range fields {
		inside, _ := below.(map[string]any)
		name, isField := strings.CutPrefix(key, "f:")
		if !isField { // an entry of a list, or the list itself
			found = append(found, unknownFields(of, inside, path)...)
			continue
		}

		field, known := of.FieldByNameFunc(func(n string) bool {
			f, _ := of.FieldByName(n)
			tag, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			return tag == name
		})
		if !known {
			found = append(found, path+"."+name)
			continue
		}
		found = append(found, unknownFields(field.Type, inside, path+"."+name)...)
	}

	return found
}
