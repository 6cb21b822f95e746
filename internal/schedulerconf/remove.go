package schedulerconf

import "go.yaml.in/yaml/v3"

// Remove undoes what the record says was changed, leaving what others changed since: a text
// that nobody has touched becomes the original, byte for byte; in another, each field that
// still has the value of the merge gets back what it had. Whatever stands in an entry of
// capacity-card that the merge has made goes with it. An empty record undoes nothing.
func Remove(text, undo string) (restored string, err error) {
	r, err := readRecord(undo)
	if err != nil {
		return "", err
	}
	return r.original(text)
}

// original returns the text without the changes of the record; a nil record has none.
func (r *record) original(text string) (string, error) {
	if r == nil || text == r.Original {
		return text, nil
	}
	if Hash(text) == r.Hash {
		return r.Original, nil
	}
	e, err := edit(text)
	if err != nil {
		return "", err
	}
	e.undo(e.standing(r.Changes), false)
	restored, err := e.text()
	if err != nil {
		return "", err
	}
	if before, err := parse(text); err == nil && sameContent(before.Content[0], e.root) {
		return text, nil
	}
	return restored, nil
}

func (r *record) changes() []change {
	if r == nil {
		return nil
	}
	return r.Changes
}

// covers tells whether the record says the same as a later one of the same text.
func (r *record) covers(later *record) bool {
	if r.Hash != later.Hash || r.Original != later.Original || len(r.Changes) != len(later.Changes) {
		return false
	}
	for i, c := range r.Changes {
		if l := later.Changes[i]; c.Kind != l.Kind || c.Plugin != l.Plugin || c.Key != l.Key || c.After != l.After {
			return false
		}
	}
	return true
}

// sameContent compares two trees as sameMeaning does, and without the order of keys, which
// means nothing in YAML.
func sameContent(a, b *yaml.Node) bool {
	if a.Kind != b.Kind || a.ShortTag() != b.ShortTag() || a.Value != b.Value || len(a.Content) != len(b.Content) {
		return false
	}
	if a.Kind == yaml.MappingNode {
		for i := 0; i+1 < len(a.Content); i += 2 {
			value := field(b, a.Content[i].Value)
			if a.Content[i].Kind != yaml.ScalarNode || value == nil || !sameContent(a.Content[i+1], value) {
				return false
			}
		}
		return true
	}
	for i := range a.Content {
		if !sameContent(a.Content[i], b.Content[i]) {
			return false
		}
	}
	return true
}
