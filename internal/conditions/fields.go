package conditions

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"cardquota.dev/operator/api/v1alpha1"
)

// SetFieldsKnown tells of fields that somebody wrote into a spec and that this version
// does not know: the API server drops them, and only the managed fields still name
// them. The condition is there only while there are any.
func SetFieldsKnown(list *[]metav1.Condition, object metav1.Object, spec any, now time.Time) {
	found := UnknownFields(object, spec)
	if len(found) == 0 {
		meta.RemoveStatusCondition(list, v1alpha1.ConditionFieldsKnown)
		return
	}
	Set(list, v1alpha1.ConditionFieldsKnown, New(metav1.ConditionFalse, v1alpha1.ReasonUnknownFields,
		"spec fields that this version does not know, and that have no effect: %s: write what stands in their place (CHANGELOG.md), then forget who wrote them: kubectl patch --type=json -p '%s'",
		strings.Join(found, ", "), `[{"op":"replace","path":"/metadata/managedFields","value":[{}]}]`), object.GetGeneration(), now)
}

// UnknownFields lists the fields below spec that somebody manages and the type of the
// spec does not have, sorted.
func UnknownFields(object metav1.Object, spec any) []string {
	var found []string
	for _, entry := range object.GetManagedFields() {
		var all struct {
			Spec map[string]any `json:"f:spec"`
		}
		if entry.FieldsV1 == nil || json.Unmarshal(entry.FieldsV1.Raw, &all) != nil {
			continue // the API server wrote it; an entry nobody can read names nothing
		}
		found = append(found, unknown(reflect.TypeOf(spec), all.Spec, "spec")...)
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// opaque types say themselves what their fields are.
var opaque = reflect.TypeFor[json.Unmarshaler]()

func unknown(of reflect.Type, fields map[string]any, path string) []string {
	for of.Kind() == reflect.Pointer || of.Kind() == reflect.Slice {
		of = of.Elem()
	}
	if of.Kind() != reflect.Struct || reflect.PointerTo(of).Implements(opaque) {
		return nil
	}
	var found []string
	for key, below := range fields {
		inside, _ := below.(map[string]any)
		name, isField := strings.CutPrefix(key, "f:")
		if !isField { // an entry of a list, or the list itself
			found = append(found, unknown(of, inside, path)...)
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
		found = append(found, unknown(field.Type, inside, path+"."+name)...)
	}
	return found
}
