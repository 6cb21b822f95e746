package doctor

import (
	"encoding/json"
	"reflect"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"cardquota.dev/operator/api/v1alpha1"
)

// apiTypes are the kinds whose definitions are checked.
var apiTypes = map[string]reflect.Type{
	"CardQuota":         reflect.TypeFor[v1alpha1.CardQuota](),
	"ServiceTypePolicy": reflect.TypeFor[v1alpha1.ServiceTypePolicy](),
	"CardInventory":     reflect.TypeFor[v1alpha1.CardInventory](),
	"LocalCardQuota":    reflect.TypeFor[v1alpha1.LocalCardQuota](),
}

// missingFields returns the fields of spec and status that a definition does not have, as paths. A
// field below a missing one is left out.
func missingFields(definition *apiextensionsv1.CustomResourceDefinition) []string {
	known, ok := apiTypes[definition.Spec.Names.Kind]
	if !ok {
		return nil
	}
	for _, version := range definition.Spec.Versions {
		if version.Name == v1alpha1.GroupVersion.Version && version.Schema != nil && version.Schema.OpenAPIV3Schema != nil {
			return missingBelow("", known, version.Schema.OpenAPIV3Schema)
		}
	}
	return []string{"version " + v1alpha1.GroupVersion.Version}
}

// marshaler is implemented by types that are one value in JSON, such as quantities and times.
var marshaler = reflect.TypeFor[json.Marshaler]()

// missingBelow returns the fields of a type that a schema does not have, with path before each. A schema without
// properties, such as that of a map, is not compared.
func missingBelow(path string, known reflect.Type, schema *apiextensionsv1.JSONSchemaProps) []string {
	known, schema = elementOf(known, schema)
	if known.Kind() != reflect.Struct || known.Implements(marshaler) || reflect.PointerTo(known).Implements(marshaler) || len(schema.Properties) == 0 {
		return nil
	}

	var missing []string
	for i := range known.NumField() {
		field := known.Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		// A definition describes neither metadata nor the inlined TypeMeta, which are the same for every kind.
		if name == "" || name == "-" || (path == "" && name == "metadata") {
			continue
		}

		property, ok := schema.Properties[name]
		if !ok {
			missing = append(missing, path+name)
			continue
		}
		missing = append(missing, missingBelow(path+name+".", field.Type, &property)...)
	}

	return missing
}

// elementOf returns the type and the schema of the elements of a list, or of what a pointer points to.
func elementOf(known reflect.Type, schema *apiextensionsv1.JSONSchemaProps) (reflect.Type, *apiextensionsv1.JSONSchemaProps) {
	for known.Kind() == reflect.Pointer || known.Kind() == reflect.Slice {
		if known.Kind() == reflect.Slice && schema.Items != nil && schema.Items.Schema != nil {
			schema = schema.Items.Schema
		}
		known = known.Elem()
	}
	return known, schema
}
