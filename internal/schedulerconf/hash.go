package schedulerconf

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"go.yaml.in/yaml/v3"
)

// Hash returns the hash by which a text is known in the heartbeat: the hexadecimal SHA-256 of
// its bytes, exactly as they stand in the ConfigMap or file.
func Hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// WithHash returns the text with its own Hash as argument HashArgument of capacity-card, and
// that hash. Everything else keeps its meaning and order. A text that already carries a hash
// is returned unchanged, so stamping twice is stamping once. The text must have passed
// Validate: without exactly that one capacity-card entry, or if the result would mean
// something else, an error is returned.
func WithHash(text string) (stamped, hash string, err error) {
	document, err := parse(text)
	if err != nil {
		return "", "", err
	}
	entry := findCard(document.Content[0])
	if entry == nil {
		return "", "", fmt.Errorf("no plugin %s to carry the hash", CapacityCard)
	}
	arguments := field(entry, "arguments")
	if arguments == nil || arguments.Kind != yaml.MappingNode {
		arguments = &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
		setField(entry, "arguments", arguments)
	}
	if present := field(arguments, HashArgument); present != nil {
		if raw, err := hex.DecodeString(present.Value); err != nil || len(raw) != sha256.Size {
			return "", "", at(present, "argument %s is not a SHA-256 in hexadecimal digits", HashArgument)
		}
		return text, present.Value, nil
	}
	hash = Hash(text)
	// Quoted: sixty-four digits with one e among them would read as a number.
	value := word(hash)
	value.Style = yaml.DoubleQuotedStyle
	setField(arguments, HashArgument, value)
	stamped, err = encode(document)
	if err != nil {
		return "", "", err
	}
	return stamped, hash, nil
}
