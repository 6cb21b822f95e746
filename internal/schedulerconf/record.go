package schedulerconf

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// An object's annotations hold 262144 bytes together, and kubectl keeps a copy of the text in
// one of them. A text and the record about it stay well below.
const (
	longestText   = 64 << 10
	longestRecord = 128 << 10
)

// record is what Remove needs to undo the changes of Merge.
type record struct {
	// Hash is that of the merged text. While the text still has it, Original is the answer.
	Hash string `json:"hash"`
	// Original is the text without the changes.
	Original string `json:"original"`
	// Changes were made in this order, and are undone in the opposite one when somebody has
	// edited the text since.
	Changes []change `json:"changes"`
}

// kind is what a change was about.
type kind string

const (
	changedActions kind = "actions"  // the list of actions
	addedPlugin    kind = "added"    // the entry of a plugin was made
	removedPlugin  kind = "removed"  // the entry of a plugin was taken out
	removedTier    kind = "tier"     // a tier was taken out with all its plugins
	setSwitch      kind = "switch"   // a switch of a plugin was set
	madeArguments  kind = "made"     // a plugin got arguments at all
	setArgument    kind = "argument" // an argument of a plugin was set
)

// change is one thing that Merge has changed, and what was there before.
type change struct {
	Kind   kind   `json:"kind"`
	Plugin string `json:"plugin,omitempty"`
	Key    string `json:"key,omitempty"`
	// Before is YAML, a key with its value or an entry, except for actions, where it is the
	// value. Empty: there was none.
	Before string `json:"before,omitempty"`
	// After is JSON, except for actions, where it is the value.
	After string `json:"after,omitempty"`
	// Previous and Next are the plugins beside what was taken out, Tier is where it was.
	Previous string `json:"previous,omitempty"`
	Next     string `json:"next,omitempty"`
	Tier     int    `json:"tier,omitempty"`
}

// errUnreadable tells what helps when somebody has edited the record.
var errUnreadable = errors.New("the record of earlier changes cannot be read: remove it, then the text as it stands counts as the original")

// readRecord reads a record; there is none in an empty text.
func readRecord(undo string) (*record, error) {
	if undo == "" {
		return nil, nil
	}
	decoder := json.NewDecoder(strings.NewReader(undo))
	decoder.DisallowUnknownFields()
	r := &record{}
	if err := decoder.Decode(r); err != nil {
		return nil, fmt.Errorf("%w (%w)", errUnreadable, err)
	}
	if decoder.More() {
		return nil, fmt.Errorf("%w (more follows behind it)", errUnreadable)
	}
	return r, nil
}

func (r *record) write() (string, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(r); err != nil {
		return "", fmt.Errorf("write the record of the changes: %w", err)
	}
	text := strings.TrimSuffix(out.String(), "\n")
	if len(text) > longestRecord {
		return "", fmt.Errorf("the record of the changes would have %d bytes, at most %d fit into an annotation: shorten the text", len(text), longestRecord)
	}
	return text, nil
}

// asJSON is a value as the record and messages show it. Values that YAML writes in two ways,
// such as 1 and 1.0, are alike in it.
func asJSON(value any) (string, error) {
	text, err := json.Marshal(value)
	return string(text), err
}
