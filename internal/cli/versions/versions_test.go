package versions

import (
	"testing"

	"cardquota.dev/operator/internal/testing/check"
)

func TestWhichReleasesFit(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		client, other string
		fits          bool
	}{
		"the same":              {"v0.2.0", "v0.2.0", true},
		"another patch":         {"v0.2.3", "v0.2.0", true},
		"a build of a commit":   {"v0.2.0-13-gabcdef-dirty", "v0.2.0", true},
		"an older minor":        {"v0.3.0", "v0.2.0", false},
		"a newer minor":         {"v0.2.0", "v0.3.0", false},
		"a newer major":         {"v1.2.0", "v2.2.0", false},
		"no release":            {"v0.0.0-dev", "v0.2.0", true},
		"an unknown version":    {"v0.2.0", "", true},
		"a name without number": {"v0.2.0", "latest", true},
	}) {
		problem := Compare(tc.client, "cardquota-manager", tc.other)

		check.That(t, (problem == "") == tc.fits, "problem %q", problem)
	}
}

func TestVersionOfAnImage(t *testing.T) {
	for image, want := range map[string]string{
		"cardquota-manager:v0.2.0":                        "v0.2.0",
		"registry:5000/a/cardquota-manager:0.2.0":         "0.2.0",
		"registry:5000/cardquota-manager":                 "",
		"cardquota-manager:v0.2.0-rc.1@sha256:abc":        "v0.2.0-rc.1",
		"cardquota-manager@sha256:0123":                   "",
		"cardquota-manager:latest":                        "",
		"cardquota-manager:v0.2.0\x1b[31m":                "",
		"":                                                "",
		"registry:5000/v1.2.3:latest/cardquota-manager:x": "",
	} {
		check.Equal(t, "version of "+image, want, OfImage(image))
	}
}
