package schedulerconf

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
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
// that hash. Everything else keeps its meaning, order and comments; indentation and blank
// lines may change. A text that already carries a hash is returned unchanged, so stamping
// twice is stamping once. The text must have passed Validate: without exactly that one
// capacity-card entry, or if the result would mean something else, an error is returned.
func WithHash(text string) (stamped, hash string, err error) {
	document, err := parse(text)
	if err != nil {
		return "", "", err
	}
	entry := findCard(document.Content[0])
	if entry == nil {
		return "", "", fmt.Errorf("no plugin %s to carry the hash", CapacityCard)
	}
	if present := field(argumentsOf(entry), HashArgument); present != nil {
		if raw, err := hex.DecodeString(present.Value); err != nil || len(raw) != sha256.Size {
			return "", "", at(present, "argument %s is not a SHA-256 in hexadecimal digits", HashArgument)
		}
		return text, present.Value, nil
	}
	hash = Hash(text)
	stamp(entry, hash)
	stamped, err = render(document)
	if err != nil {
		return "", "", err
	}
	if err := onlyStamped(text, stamped, hash); err != nil {
		return "", "", err
	}
	return stamped, hash, nil
}

// argumentsOf returns the arguments of a plugin entry, an empty mapping if it has none.
func argumentsOf(entry *yaml.Node) *yaml.Node {
	if arguments := field(entry, "arguments"); arguments != nil && arguments.Kind == yaml.MappingNode {
		return arguments
	}
	return &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
}

// stamp puts the hash into the entry's arguments and makes them first if there are none. The
// value is quoted: sixty-four digits with one e among them would read as a number.
func stamp(entry *yaml.Node, hash string) {
	arguments := argumentsOf(entry)
	arguments.Content = append(arguments.Content,
		&yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: HashArgument},
		&yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Style: yaml.DoubleQuotedStyle, Value: hash})
	for i := 0; i+1 < len(entry.Content); i += 2 {
		if entry.Content[i].Value != "arguments" {
			continue
		}
		if old := entry.Content[i+1]; old != arguments {
			// arguments: null gives its comments to the mapping that takes its place.
			arguments.HeadComment, arguments.FootComment = old.HeadComment, old.FootComment
			if old.LineComment != "" {
				entry.Content[i].HeadComment = joinLines(entry.Content[i].HeadComment, old.LineComment)
			}
		}
		entry.Content[i+1] = arguments
		return
	}
	entry.Content = append(entry.Content,
		&yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: "arguments"}, arguments)
}

func joinLines(a, b string) string {
	if a == "" {
		return b
	}
	return a + "\n" + b
}

func render(document *yaml.Node) (string, error) {
	var out bytes.Buffer
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	if err := encoder.Encode(document); err != nil {
		return "", fmt.Errorf("write the stamped text: %w", err)
	}
	if err := encoder.Close(); err != nil {
		return "", fmt.Errorf("write the stamped text: %w", err)
	}
	return out.String(), nil
}

// onlyStamped makes sure that rendering changed nothing but the hash: the text decides what
// every tenant may use, so it is better refused than altered by a fault of the YAML writer.
func onlyStamped(text, stamped, hash string) error {
	before, err := parse(text)
	if err != nil {
		return err
	}
	stamp(findCard(before.Content[0]), hash)
	after, err := parse(stamped)
	if err != nil {
		return fmt.Errorf("read the stamped text: %w", err)
	}
	if !sameMeaning(before, after) {
		return errors.New("the text cannot be stamped without changing its meaning: write it in plain block style")
	}
	return nil
}

// sameMeaning compares two trees without positions, styles and comments.
func sameMeaning(a, b *yaml.Node) bool {
	if a.Kind != b.Kind || a.ShortTag() != b.ShortTag() || a.Value != b.Value || len(a.Content) != len(b.Content) {
		return false
	}
	for i := range a.Content {
		if !sameMeaning(a.Content[i], b.Content[i]) {
			return false
		}
	}
	return true
}
