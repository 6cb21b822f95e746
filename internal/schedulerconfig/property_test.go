package schedulerconfig

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/seed"
)

// texts draws good texts of many shapes: switches, arguments, comments, tiers, quoting.
func texts() *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		var b strings.Builder
		actions := rapid.SliceOfN(rapid.SampledFrom([]string{"enqueue", "allocate", "backfill"}), 1, 6).Draw(t, "actions")
		fmt.Fprintf(&b, "actions: %q\n", strings.Join(actions, ", "))
		names := rapid.Permutation([]string{CapacityCard, "gang", "priority", "predicates", "nodeorder"}).Draw(t, "plugins")
		b.WriteString("tiers:\n- plugins:\n")

		for i, name := range names {
			if i > 0 && rapid.Bool().Draw(t, "new tier") {
				b.WriteString("# tier\n- plugins:\n")
			}
			entry(t, &b, name)
		}

		if rapid.Bool().Draw(t, "configurations") {
			b.WriteString("configurations:\n- name: allocate\n  arguments: {x: 1}\n")
		}

		return b.String()
	})
}

func entry(t *rapid.T, b *strings.Builder, name string) {
	fmt.Fprintf(b, "  - name: %s%s\n", name, comment(t))
	for _, s := range rapid.SliceOfNDistinct(rapid.SampledFrom(Switches()), 0, 3, rapid.ID).Draw(t, "switches") {
		if name == CapacityCard && s == "enableHierarchy" {
			continue // an argument there
		}
		fmt.Fprintf(b, "    %s: true%s\n", s, comment(t))
	}

	switch rapid.IntRange(0, 3).Draw(t, "arguments") {
	case 1:
		b.WriteString("    arguments:" + comment(t) + "\n")
	case 2:
		b.WriteString("    arguments: {}" + comment(t) + "\n")
	case 3:
		b.WriteString("    arguments:\n")
		keys := rapid.SliceOfNDistinct(rapid.StringMatching(`[a-z][a-zA-Z.-]{0,12}x`), 1, 4, rapid.ID).Draw(t, "keys")
		for _, key := range keys {
			value := rapid.OneOf(
				rapid.StringMatching(`[ -~]{0,40}`),
				rapid.String(),
			).Draw(t, "value")
			fmt.Fprintf(b, "      %s: '%s'%s\n", key, oneLine(value), comment(t))
		}
	}
}

// oneLine makes a text fit for YAML's single quotes.
func oneLine(s string) string {
	s = strings.Map(func(r rune) rune {
		if isUnfitForLine(r) {
			return -1
		}
		return r
	}, s)
	return strings.ReplaceAll(s, "'", "''")
}

// isUnfitForLine reports whether YAML escapes a character, or ends the line at it.
func isUnfitForLine(r rune) bool {
	isControl := r < ' ' || (r >= 0x7f && r < 0xa0)
	isNoncharacter := r >= 0xfffe && r <= 0xffff
	return isControl || isNoncharacter || r == 0x2028 || r == 0x2029 || r == 0xfeff || r == 0xfffd
}

func comment(t *rapid.T) string {
	return rapid.SampledFrom([]string{"", "", " # note", "\n    # below"}).Draw(t, "comment")
}

// TestStampingKeepsTheMeaning: WithHash writes the whole text again. The texts are random and valid, with comments,
// quotes, switches and arguments in any order. The new text has the hash, and all other values are the same.
// WithHash changes nothing in the new text.
func TestStampingKeepsTheMeaning(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		text := texts().Draw(t, "text")
		err := Validate(text, Known{Actions: VolcanoActions(), Plugins: append(VolcanoPlugins(), CapacityCard)})
		check.Must(t, err == nil, "the generator wrote a bad text: %v\n%s", err, text)

		stamped, hash, err := WithHash(text)
		check.Must(t, err == nil, "%v in\n%s", err, text)
		check.Equal(t, "hash", Hash(text), hash)
		assertStamp(t, text, stamped, hash)
	})
}

// FuzzValidate: no text makes Validate panic. A text that it accepts gets a hash and means the same, or WithHash
// refuses it.
func FuzzValidate(f *testing.F) {
	for _, text := range corpus(f) {
		f.Add(text)
	}

	f.Add("a: &a [*a]")
	f.Add("? {a: b}\n: c\n")
	f.Add(withPlugins("  - name: capacity-card", "    arguments: ~ # c"))
	f.Fuzz(func(t *testing.T, text string) {
		if Validate(text, Known{Actions: VolcanoActions(), Plugins: append(VolcanoPlugins(), CapacityCard)}) != nil {
			return
		}
		stamped, hash, err := WithHash(text)
		if err != nil {
			return // refused, not altered
		}
		assertStamp(t, text, stamped, hash)
	})
}
