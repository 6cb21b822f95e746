package schedulerconf

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func TestWithHashGolden(t *testing.T) {
	for name, text := range corpus(t) {
		t.Run(name, func(t *testing.T) {
			stamped, hash, err := WithHash(text)
			if err != nil {
				t.Fatal(err)
			}
			golden := filepath.Join("testdata", "valid", name+".golden")
			assertGolden(t, golden, stamped)
			if hash != Hash(text) {
				t.Errorf("hash is %s, want that of the original text %s", hash, Hash(text))
			}
			assertStamp(t, text, stamped, hash)
			for _, comment := range comments(text) {
				if !strings.Contains(stamped, comment) {
					t.Errorf("comment %q is lost", comment)
				}
			}
		})
	}
}

// assertStamp checks with the plain decoder, not with the code under test, that the stamp is
// in place, is the only difference, and stays as it is when stamped again.
func assertStamp(t fataler, text, stamped, hash string) {
	before, after := decode(t, text), decode(t, stamped)
	arguments := cardArguments(after)
	if arguments[HashArgument] != hash {
		t.Fatalf("%s is %v, want %s in\n%s", HashArgument, arguments[HashArgument], hash, stamped)
	}
	delete(arguments, HashArgument)
	dropEmptyArguments(before)
	dropEmptyArguments(after)
	if diff := cmp.Diff(before, after); diff != "" {
		t.Fatalf("more than the stamp changed (-before +after):\n%s", diff)
	}
	again, hashAgain, err := WithHash(stamped)
	if err != nil || again != stamped || hashAgain != hash {
		t.Fatalf("stamped again: hash %s, error %v, text\n%s", hashAgain, err, again)
	}
}

type fataler interface {
	Fatalf(format string, args ...any)
}

func decode(t fataler, text string) map[string]any {
	var value map[string]any
	if err := yaml.Unmarshal([]byte(text), &value); err != nil {
		t.Fatalf("not YAML: %v\n%s", err, text)
	}
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

func comments(text string) []string {
	var found []string
	for _, line := range strings.Split(text, "\n") {
		if _, comment, ok := strings.Cut(line, "# "); ok {
			found = append(found, "# "+strings.TrimSpace(comment))
		}
	}
	return found
}

func TestWithHashRefuses(t *testing.T) {
	cases := map[string]struct{ text, want string }{
		"a text that is not YAML":     {"\"", "not YAML"},
		"a text without the plugin":   {plugins("  - name: gang"), "no plugin capacity-card to carry the hash"},
		"a hash that is none":         {withArguments("configHash: abc"), "line 6: argument configHash is not a SHA-256"},
		"a hash that is a mapping":    {withArguments("configHash: {a: b}"), "line 6: argument configHash is not a SHA-256"},
		"a hash that is one byte off": {withArguments("configHash: " + strings.Repeat("a", 62)), "is not a SHA-256"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, _, err := WithHash(tc.text)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got error %v, want …%s…", err, tc.want)
			}
		})
	}
}

func TestHashChangesWithEveryByte(t *testing.T) {
	text := plugins("  - name: capacity-card")
	if Hash(text) == Hash(text+"\n") {
		t.Error("a line end more has the same hash")
	}
	if want := "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"; Hash("") != want {
		t.Errorf("hash of nothing is %s, want %s", Hash(""), want)
	}
}

// assertGolden compares a text with the one kept in a file; -update keeps it
// there instead.
func assertGolden(t *testing.T, golden, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", golden, diff)
	}
}
