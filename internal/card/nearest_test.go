package card

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/seed"
)

func TestNearestIgnoresVendorsAndCase(t *testing.T) {
	fleet := []Name{
		"Ascend-910B", "NVIDIA-A10", "NVIDIA-A100-SXM4-40GB", "NVIDIA-GeForce-RTX-4090", "NVIDIA-GeForce-RTX-4090-D", "NVIDIA-H20", "NVIDIA-H200",
		"NVIDIA-H200/mig-1g.18gb-mixed", "NVIDIA-H800", "Tesla-T4", "PPU-ZW810E",
	}

	for wanted, want := range map[Name]Name{
		"H200": "NVIDIA-H200", "h200": "NVIDIA-H200", "nvidia-h200": "NVIDIA-H200", "NVIDIA-H20O": "NVIDIA-H200", "NVIDA-H200": "NVIDIA-H200", "NvidiaH200": "NVIDIA-H200",
		"GeForce-RTX-4090": "NVIDIA-GeForce-RTX-4090", "RTX-4090": "NVIDIA-GeForce-RTX-4090", "RTX4090": "NVIDIA-GeForce-RTX-4090", "rtx-4090-d": "NVIDIA-GeForce-RTX-4090-D", "RTX4090D": "NVIDIA-GeForce-RTX-4090-D",
		"A100": "NVIDIA-A100-SXM4-40GB", "A100-40GB": "NVIDIA-A100-SXM4-40GB", "A100-SXM4-80GB": "NVIDIA-A100-SXM4-40GB", "T4": "Tesla-T4", "NVIDIA-T4": "Tesla-T4",
		"NVIDIA-H200-MIG-1g.18gb": "NVIDIA-H200/mig-1g.18gb-mixed", "NVIDIA-H200-141GB": "NVIDIA-H200", "910B": "Ascend-910B", "ascend_910b": "Ascend-910B",
		"NVIDIA-B300": "", "B300": "", "NVIDIA": "", "GeForce": "", "Gaudi3": "", "mixed": "",
	} {
		got, found := Nearest(wanted, fleet)
		check.Equal(t, string(wanted), want, got)
		check.Equal(t, string(wanted)+" is found", want != "", found)
	}

	got, _ := Nearest("NVIDIA-C27-SXM4-40GB", []Name{"A-SXM4-40GB", "C27-SXM4-40GB"})
	check.Equal(t, "a model that lost its vendor", "C27-SXM4-40GB", got)
}

// plainDistance is the edit distance by its definition.
func plainDistance(a, b string) int {
	switch {
	case a == "":
		return len(b)
	case b == "":
		return len(a)
	case a[0] == b[0]:
		return plainDistance(a[1:], b[1:])
	}
	return 1 + min(plainDistance(a[1:], b), plainDistance(a, b[1:]), plainDistance(a[1:], b[1:]))
}

func TestEditDistance(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`[ab]{0,6}`)
		a := text.Draw(t, "a")
		b := text.Draw(t, "b")
		limit := rapid.IntRange(1, 8).Draw(t, "limit")
		check.Equal(t, a+" and "+b, min(plainDistance(a, b), limit), editDistance(a, b, limit))
	})
}

func TestMentionsCard(t *testing.T) {
	const text = "no label nvidia.com/gpu.memory beside nvidia.com/gpu.product=NVIDIA-GB10; models NVIDIA-H200, A10/mig-1g.5gb-mixed"
	for name, want := range map[Name]bool{
		"NVIDIA-GB10": true, "NVIDIA-H200": true, "A10/mig-1g.5gb-mixed": true, "NVIDIA-GB1": false, "GB10": false, "NVIDIA-H20": false, "A10": false, "nvidia-gb10": false,
	} {
		check.Equal(t, string(name), want, MentionsCard(text, name))
	}
}

func TestNearestNameIsWithinAThird(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		name := rapid.StringMatching(`[abc]{1,7}`)
		known := rapid.SliceOfDistinct(name, rapid.ID).Draw(t, "known")
		wanted := name.Draw(t, "wanted")
		names := make([]Name, len(known))

		best := len(wanted)/3 + 1
		for i, other := range known {
			names[i] = Name(other)
			best = min(best, plainDistance(wanted, other))
		}

		got, found := Nearest(Name(wanted), names)
		check.Equal(t, "found", best <= len(wanted)/3, found)
		check.Must(t, !found || plainDistance(wanted, string(got)) == best, "%s is not the nearest of %v to %s", got, known, wanted)
	})
}

// TestAVendorIsNoDifference: a name with the vendor in front means the same as without it.
func TestAVendorIsNoDifference(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		model := rapid.StringMatching(`[A-Z]{1,3}[0-9]{2,4}(-[A-Z]{3}[0-9])?`).Draw(t, "model")
		vendor := rapid.SampledFrom([]string{"NVIDIA-", "NVIDIA-GeForce-", "Tesla-", "AMD-", ""}).Draw(t, "vendor")
		known := []Name{"Other-1", Name(vendor + model)}
		for _, asked := range []string{model, strings.ToLower(model), "NVIDIA-" + model} {
			got, found := Nearest(Name(asked), known)
			check.Must(t, found && got == known[1], "%s is %s, want %s", asked, got, known[1])
		}
	})
}
