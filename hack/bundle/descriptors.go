package main

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"sort"
	"strings"
	"unicode"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// How a console shows a field (https://github.com/openshift/console, operator-lifecycle-manager
// descriptors reference).
const (
	urnText       = "urn:alm:descriptor:text"
	urnInput      = "urn:alm:descriptor:com.tectonic.ui:text"
	urnNumber     = "urn:alm:descriptor:com.tectonic.ui:number"
	urnSwitch     = "urn:alm:descriptor:com.tectonic.ui:booleanSwitch"
	urnSelect     = "urn:alm:descriptor:com.tectonic.ui:select:"
	urnConditions = "urn:alm:descriptor:io.kubernetes.conditions"
)

// field is one field of a schema.
type field struct {
	// path is the path of the field below spec or status: cards[0].quota.
	path   string
	schema apiextensionsv1.JSONSchemaProps
}

// listFields returns every field below a schema, parents first, by name. It omits the fields of
// conditions, which consoles show as a table.
func listFields(schema apiextensionsv1.JSONSchemaProps, path string) []field {
	var list []field
	names := make([]string, 0, len(schema.Properties))
	for name := range schema.Properties {
		names = append(names, name)
	}

	sort.Strings(names)
	for _, name := range names {
		f := field{path: strings.TrimPrefix(path+"."+name, "."), schema: schema.Properties[name]}
		list = append(list, f)
		switch {
		case isConditions(f):
		case f.schema.Items != nil && f.schema.Items.Schema != nil:
			list = append(list, listFields(*f.schema.Items.Schema, f.path+"[0]")...)
		default:
			list = append(list, listFields(f.schema, f.path)...)
		}
	}

	return list
}

// isConditions reports whether a field is a list of metav1.Condition.
func isConditions(f field) bool {
	return f.path == "conditions" && slices.Equal(f.schema.XListMapKeys, []string{"type"})
}

// specDescriptors returns the descriptors of the fields of a spec that a user can set.
func specDescriptors(schema apiextensionsv1.JSONSchemaProps) ([]v1alpha1.SpecDescriptor, error) {
	var list []v1alpha1.SpecDescriptor
	for _, f := range listFields(schema, "") {
		input, err := formElements(f.schema)
		if err != nil {
			return nil, fmt.Errorf("spec.%s: %w", f.path, err)
		}
		list = append(list, v1alpha1.SpecDescriptor{
			Path: f.path, DisplayName: displayName(f.path), Description: firstSentence(f.schema.Description), XDescriptors: input,
		})
	}
	return list, nil
}

// formElements returns the form elements with which a console sets a value of this schema.
func formElements(schema apiextensionsv1.JSONSchemaProps) ([]string, error) {
	var list []string
	for _, value := range schema.Enum {
		var text string
		if err := json.Unmarshal(value.Raw, &text); err != nil {
			return nil, fmt.Errorf("enum %s: %w", value.Raw, err)
		}
		list = append(list, urnSelect+text)
	}

	switch {
	case list != nil:
		return list, nil
	case schema.XIntOrString || schema.Type == "string":
		return []string{urnInput}, nil
	case schema.Type == "integer":
		return []string{urnNumber}, nil
	case schema.Type == "boolean":
		return []string{urnSwitch}, nil
	default:
		return nil, nil
	}
}

// statusDescriptors returns the descriptors of the fields of a status.
func statusDescriptors(schema apiextensionsv1.JSONSchemaProps) []v1alpha1.StatusDescriptor {
	var list []v1alpha1.StatusDescriptor
	for _, f := range listFields(schema, "") {
		var shown []string
		switch {
		case isConditions(f):
			shown = []string{urnConditions}
		case f.schema.XIntOrString || f.schema.Type == "string" || f.schema.Type == "integer":
			shown = []string{urnText}
		}

		list = append(list, v1alpha1.StatusDescriptor{
			Path: f.path, DisplayName: displayName(f.path), Description: firstSentence(f.schema.Description), XDescriptors: shown,
		})
	}

	return list
}

// firstParagraph returns the first paragraph of a description, in one line.
func firstParagraph(description string) string {
	paragraph, _, _ := strings.Cut(description, "\n\n")
	return strings.Join(strings.Fields(paragraph), " ")
}

// abbreviations end in a full stop that does not end a sentence.
var abbreviations = []string{"e.g.", "i.e.", "etc.", "vs.", "incl."}

// firstSentence returns the first sentence of a description, in one line.
func firstSentence(description string) string {
	words := strings.Fields(firstParagraph(description))
	for i, word := range words {
		if strings.HasSuffix(word, ".") && !slices.Contains(abbreviations, strings.TrimLeft(word, "(")) {
			return strings.Join(words[:i+1], " ")
		}
	}
	return strings.Join(words, " ")
}

// wordPattern matches the words of a name. CPU is a word even when no lower-case letter
// follows.
var wordPattern = regexp.MustCompile(`CPU|[A-Z]?[a-z0-9]+|[A-Z]+`)

// specialWords have a spelling of their own.
var specialWords = map[string]string{"cpu": "CPU", "vcjob": "Volcano Job"}

// displayName returns a path in words: cards[0].overQuotaBy is Cards Over Quota By.
func displayName(path string) string {
	words := wordPattern.FindAllString(strings.ReplaceAll(path, "[0]", ""), -1)
	for i, word := range words {
		if as, ok := specialWords[word]; ok {
			words[i] = as
			continue
		}
		runes := []rune(word)
		runes[0] = unicode.ToUpper(runes[0])
		words[i] = string(runes)
	}
	return strings.Join(words, " ")
}
