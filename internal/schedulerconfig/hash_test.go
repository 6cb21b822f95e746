package schedulerconfig

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"cardquota.dev/operator/internal/testing/check"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// TestWithHashAddsTheHashOfTheText: the scheduler publishes the hash of the configuration that it runs with, as
// argument configHash of capacity-card. WithHash adds it to each text of testdata/valid, as the golden files show,
// and changes nothing else.
func TestWithHashAddsTheHashOfTheText(t *testing.T) {
	for name, text := range corpus(t) {
		t.Run(name, func(t *testing.T) {
			stamped, hash, err := WithHash(text)
			check.NoError(t, err)
			assertGolden(t, filepath.Join("testdata", "valid", name+".golden"), stamped)
			check.Equal(t, "hash", Hash(text), hash)
			assertStamp(t, text, stamped, hash)
		})
	}
}

// assertStamp checks with the plain decoder, not with the code under test, that the hash is in place and the only
// difference. A text with a hash keeps it.
func assertStamp(t check.T, text, stamped, hash string) {
	before := decode(t, text)
	after := decode(t, stamped)
	arguments := cardArguments(after)
	check.Must(t, arguments[HashArgument] == hash, "%s is %v, want %s in\n%s", HashArgument, arguments[HashArgument], hash, stamped)
	delete(arguments, HashArgument)
	dropEmptyArguments(before)
	dropEmptyArguments(after)
	check.Equal(t, "more than the stamp changed", before, after)
	again, hashAgain, err := WithHash(stamped)
	check.Must(t, err == nil && again == stamped && hashAgain == hash, "stamped again: hash %s, error %v, text\n%s", hashAgain, err, again)
}

func decode(t check.T, text string) map[string]any {
	var value map[string]any
	err := yaml.Unmarshal([]byte(text), &value)
	check.Must(t, err == nil, "not YAML: %v\n%s", err, text)
	return value
}

// card returns the entry of capacity-card in a decoded text.
func card(text map[string]any) map[string]any {
	tiers, _ := text["tiers"].([]any)
	for _, tier := range tiers {
		entries, _ := tier.(map[string]any)["plugins"].([]any)
		for _, entry := range entries {
			if plugin := entry.(map[string]any); plugin["name"] == CapacityCard {
				return plugin
			}
		}
	}
	return nil
}

func cardArguments(text map[string]any) map[string]any {
	arguments, _ := card(text)["arguments"].(map[string]any)
	return arguments
}

// dropEmptyArguments removes arguments that are absent in meaning.
func dropEmptyArguments(text map[string]any) {
	if len(cardArguments(text)) == 0 {
		delete(card(text), "arguments")
	}
}

// TestWithHashRefusesWhatItCannotStamp: a text without capacity-card has no place for the hash. A hash that a
// text already has must be a SHA-256 in 64 hexadecimal digits. Helper withArguments writes an argument of
// capacity-card into line 6.
func TestWithHashRefusesWhatItCannotStamp(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct{ text, want string }{
		"a text that is not YAML":      {"\"", "not YAML"},
		"a text without capacity-card": {withPlugins("  - name: gang"), "no plugin capacity-card to carry the hash"},
		"a hash of three digits":       {withArguments("configHash: abc"), "line 6: argument configHash is not a SHA-256"},
		"a hash that is a mapping":     {withArguments("configHash: {a: b}"), "line 6: argument configHash is not a SHA-256"},
		"a hash of 62 digits":          {withArguments("configHash: " + strings.Repeat("a", 62)), "is not a SHA-256"},
	}) {
		_, _, err := WithHash(tc.text)
		check.Says(t, err, tc.want)
	}
}

// TestHashIsTheSHA256OfTheBytes: one more line end makes another hash. The hash of the empty text is the known
// SHA-256 of no bytes.
func TestHashIsTheSHA256OfTheBytes(t *testing.T) {
	text := withPlugins("  - name: capacity-card")
	check.That(t, Hash(text) != Hash(text+"\n"), "a line end more has the same hash")
	check.Equal(t, "hash of no bytes", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855", Hash(""))
}

// assertGolden compares a text with the one kept in a file; -update keeps it
// there instead.
func assertGolden(t *testing.T, golden, got string) {
	if *update {
		check.NoError(t, os.WriteFile(golden, []byte(got), 0o600))
	}
	check.Equal(t, golden, string(check.Value(os.ReadFile(golden))(t)), got)
}
