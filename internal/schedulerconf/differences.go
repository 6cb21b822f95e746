package schedulerconf

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"cardquota.dev/operator/internal/clip"
)

// shownValue is how many bytes of a value a message repeats.
const shownValue = 120

// Changes lists in words what Merge would change, in the order of the text; none when the text
// carries what is wanted.
func Changes(text, undo string, want Wanted) ([]string, error) {
	merged, _, err := Merge(text, undo, want)
	if err != nil || merged == text {
		return nil, err
	}
	before, err := edit(text)
	if err != nil {
		return nil, err
	}
	after, err := edit(merged)
	if err != nil {
		return nil, err
	}
	words := actionChanges(actionsOf(before.root), actionsOf(after.root))
	for _, entry := range after.plugins() {
		list, i := before.find(nameOf(entry))
		if list == nil {
			words = append(words, fmt.Sprintf("plugin %s is missing", nameOf(entry)))
			continue
		}
		words = append(words, keyChanges("plugin "+nameOf(entry), list.Content[i], entry)...)
	}
	for _, entry := range before.plugins() {
		if list, _ := after.find(nameOf(entry)); list == nil {
			words = append(words, fmt.Sprintf("plugin %s must not be there", nameOf(entry)))
		}
	}
	if len(words) == 0 {
		words = []string{"the plugins must stand in another order"}
	}
	return words, nil
}

func actionChanges(before, after []string) []string {
	var words []string
	for _, action := range after {
		if !slices.Contains(before, action) {
			words = append(words, fmt.Sprintf("action %s is missing", action))
		}
	}
	for _, action := range before {
		if !slices.Contains(after, action) {
			words = append(words, fmt.Sprintf("action %s must not be there", action))
		}
	}
	if !slices.Equal(common(before, after), common(after, before)) {
		words = append(words, "actions must be "+strings.Join(after, ", "))
	}
	return words
}

// keyChanges compares two mappings, and below arguments each of them.
func keyChanges(where string, before, after *yaml.Node) []string {
	var words []string
	for _, member := range members(after) {
		key, value, old := member[0].Value, member[1], field(before, member[0].Value)
		switch {
		case old != nil && sameContent(old, value):
		case key == "arguments" && value.Kind == yaml.MappingNode:
			if unset(old) {
				old = &yaml.Node{Kind: yaml.MappingNode}
			}
			words = append(words, keyChanges(where+": argument", old, value)...)
		default:
			words = append(words, fmt.Sprintf("%s %s must be %s", punctuated(where), key, clip.Text(valueOf(value), shownValue)))
		}
	}
	for _, member := range members(before) {
		if field(after, member[0].Value) == nil {
			words = append(words, fmt.Sprintf("%s %s must not be set", punctuated(where), member[0].Value))
		}
	}
	return words
}

// punctuated ends the name of a plugin with a colon: what follows is one of its switches.
func punctuated(where string) string {
	if strings.Contains(where, ":") {
		return where
	}
	return where + ":"
}
