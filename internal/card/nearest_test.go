package card

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/seed"
)

// TestNearestIgnoresVendorsAndCase: a user who asks for a card that no node has reads the nearest name. Case,
// separators and words of vendors, such as GeForce, make no difference, and the letters O, I and L count as
// the digits 0 and 1. First comes the same name. Then comes one with all parts of the wanted name, of several
// the one with the fewest parts. Then comes that with the smallest edit distance, up to a third of the length
// that the wanted name has without its vendor. Last comes one of which the wanted name has all parts. But
// parts without a digit, such as mixed, find none.
func TestNearestIgnoresVendorsAndCase(t *testing.T) {
	cardsOfNodes := []Name{
		"Ascend-910B", "NVIDIA-A10", "NVIDIA-A100-SXM4-40GB", "NVIDIA-GeForce-RTX-4090", "NVIDIA-GeForce-RTX-4090-D",
		"NVIDIA-H20", "NVIDIA-H200", "NVIDIA-H200/mig-1g.18gb-mixed", "NVIDIA-H800", "Tesla-T4", "PPU-ZW810E",
	}

	for wanted, want := range map[Name]Name{ // "" where no card is near
		// The name of a card without vendor, case and separators.
		"H200":             "NVIDIA-H200",
		"h200":             "NVIDIA-H200",
		"nvidia-h200":      "NVIDIA-H200",
		"NvidiaH200":       "NVIDIA-H200",
		"NVIDIA-H20O":      "NVIDIA-H200", // the last letter is an O, read as 0
		"GeForce-RTX-4090": "NVIDIA-GeForce-RTX-4090",
		"RTX-4090":         "NVIDIA-GeForce-RTX-4090",
		"RTX4090":          "NVIDIA-GeForce-RTX-4090",
		"rtx-4090-d":       "NVIDIA-GeForce-RTX-4090-D",
		"RTX4090D":         "NVIDIA-GeForce-RTX-4090-D",
		"T4":               "Tesla-T4",
		"NVIDIA-T4":        "Tesla-T4",
		"910B":             "Ascend-910B",
		"ascend_910b":      "Ascend-910B",

		// The card has all parts of the name.
		"A100":                    "NVIDIA-A100-SXM4-40GB",
		"A100-40GB":               "NVIDIA-A100-SXM4-40GB",
		"4090":                    "NVIDIA-GeForce-RTX-4090", // which has fewer parts than the 4090-D
		"NVIDIA-H200-MIG-1g.18gb": "NVIDIA-H200/mig-1g.18gb-mixed",

		// Some characters differ, or too many.
		"NVIDA-H200":     "NVIDIA-H200",           // the vendor is misspelt
		"A100-SXM4-80GB": "NVIDIA-A100-SXM4-40GB", // one character differs
		"NVIDIA-B300":    "",                      // B300 differs from H200 in two of four characters
		"B300":           "",

		// The name has all parts of the card.
		"NVIDIA-H200-141GB": "NVIDIA-H200",

		// No part is that of a model.
		"NVIDIA":  "",
		"GeForce": "",
		"Gaudi3":  "",
		"mixed":   "",
	} {
		got, isFound := Nearest(wanted, cardsOfNodes)
		check.Equal(t, string(wanted), want, got)
		check.Equal(t, string(wanted)+" is found", want != "", isFound)
	}
}

// TestNearestComparesModelsWithoutTheirVendor: NVIDIA-C27-SXM4-40GB is the model C27-SXM4-40GB with its vendor, so
// that is the nearest. A-SXM4-40GB comes first in the list, but is another model.
func TestNearestComparesModelsWithoutTheirVendor(t *testing.T) {
	got, _ := Nearest("NVIDIA-C27-SXM4-40GB", []Name{"A-SXM4-40GB", "C27-SXM4-40GB"})
	check.Equal(t, "nearest", "C27-SXM4-40GB", got)
}

// distanceByDefinition is the edit distance: the least number of bytes to insert, delete or replace.
func distanceByDefinition(a, b string) int {
	switch {
	case a == "":
		return len(b)
	case b == "":
		return len(a)
	case a[0] == b[0]:
		return distanceByDefinition(a[1:], b[1:])
	}
	return 1 + min(distanceByDefinition(a[1:], b), distanceByDefinition(a, b[1:]), distanceByDefinition(a[1:], b[1:]))
}

// TestEditDistanceFollowsItsDefinition: editDistance is quick, and equals the definition on random texts. A distance
// above a random limit is returned as the limit.
func TestEditDistanceFollowsItsDefinition(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`[ab]{0,6}`)
		a := text.Draw(t, "a")
		b := text.Draw(t, "b")
		limit := rapid.IntRange(1, 8).Draw(t, "limit")
		check.Equal(t, a+" and "+b, min(distanceByDefinition(a, b), limit), editDistance(a, b, limit))
	})
}

// TestMentionsCard: a message about a node may contain the very name that a user asks for. Then the name is right,
// and something else is wrong. MentionsCard reports whether the message has the whole name, in its own case.
func TestMentionsCard(t *testing.T) {
	const message = "no label nvidia.com/gpu.memory beside nvidia.com/gpu.product=NVIDIA-GB10; models NVIDIA-H200, A10/mig-1g.5gb-mixed"

	for name, want := range map[Name]bool{
		"NVIDIA-GB10":          true,
		"NVIDIA-H200":          true,
		"A10/mig-1g.5gb-mixed": true,
		"NVIDIA-GB1":           false, // a part of NVIDIA-GB10
		"GB10":                 false, // a part of NVIDIA-GB10
		"NVIDIA-H20":           false, // a part of NVIDIA-H200
		"A10":                  false, // a part of A10/mig-1g.5gb-mixed
		"nvidia-gb10":          false, // in another case
	} {
		check.Equal(t, string(name), want, MentionsCard(message, name))
	}
}

// TestNearestNameIsWithinAThird: among random names of letters, which have no vendor and no digit, the nearest has
// the smallest edit distance. It is found if that is at most a third of the wanted name's length.
func TestNearestNameIsWithinAThird(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		name := rapid.StringMatching(`[abc]{1,7}`)
		known := rapid.SliceOfDistinct(name, rapid.ID).Draw(t, "known")
		wanted := name.Draw(t, "wanted")

		names := make([]Name, len(known))
		best := len(wanted)/3 + 1
		for i, other := range known {
			names[i] = Name(other)
			best = min(best, distanceByDefinition(wanted, other))
		}

		got, found := Nearest(Name(wanted), names)
		check.Equal(t, "found", best <= len(wanted)/3, found)
		check.Must(t, !found || distanceByDefinition(wanted, string(got)) == best, "%s is not the nearest of %v to %s", got, known, wanted)
	})
}

// TestNearestFindsAModelWithAndWithoutAVendor: a random model has the word of a random vendor in front, or none. A
// user finds it by the model alone, in lower case, and with NVIDIA in front, though another card comes first.
func TestNearestFindsAModelWithAndWithoutAVendor(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		model := rapid.StringMatching(`[A-Z]{1,3}[0-9]{2,4}(-[A-Z]{3}[0-9])?`).Draw(t, "model")
		vendor := rapid.SampledFrom([]string{"NVIDIA-", "NVIDIA-GeForce-", "Tesla-", "AMD-", ""}).Draw(t, "vendor")
		known := []Name{"Other-1", Name(vendor + model)}
		for _, asked := range []string{model, strings.ToLower(model), "NVIDIA-" + model} {
			got, _ := Nearest(Name(asked), known)
			check.Equal(t, asked, known[1], got)
		}
	})
}
