package releases

import (
	"os"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"cardquota.dev/operator/internal/testing/check"
)

// TestReleasesOfOneMinorVersionFit: kubectl cardquota warns if the operator or the scheduler is of another major or
// minor version, because its answer may be wrong then. It does not warn where one of the versions is unknown.
func TestReleasesOfOneMinorVersionFit(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		client, other string
		wantFits      bool
	}{
		"the same release":            {"v0.2.0", "v0.2.0", true},
		"another patch":               {"v0.2.3", "v0.2.0", true},
		"a build after the release":   {"v0.2.0-13-gabcdef-dirty", "v0.2.0", true},
		"an older minor":              {"v0.3.0", "v0.2.0", false},
		"a newer minor":               {"v0.2.0", "v0.3.0", false},
		"a newer major":               {"v1.2.0", "v2.2.0", false},
		"kubectl of no release":       {"v0.0.0-dev", "v0.2.0", true},
		"the other states no version": {"v0.2.0", "", true},
		"the other has only a tag":    {"v0.2.0", "latest", true},
	}) {
		check.Equal(t, "fits", tc.wantFits, Compare(tc.client, "cardquota-manager", tc.other) == "")
	}
}

// TestTheVersionOfAnImageIsItsTag: the version of a program is read from the image of its Deployment, from a tag that
// is a version. A digest, the port of a registry, and any other tag are none.
func TestTheVersionOfAnImageIsItsTag(t *testing.T) {
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
		check.Equal(t, "version of "+image, want, imageVersion(image))
	}
}

// TestTheVersionOfTheOperatorIsThatOfItsContainer: the shipped Deployment of the operator runs v0.2.0, between two
// containers of a service mesh with versions of their own.
func TestTheVersionOfTheOperatorIsThatOfItsContainer(t *testing.T) {
	shipped := check.Value(os.ReadFile("../../../config/manager/deployment.yaml"))(t)
	deployment := &appsv1.Deployment{}
	check.NoError(t, yaml.Unmarshal([]byte(strings.ReplaceAll(string(shipped), ":latest", ":v0.2.0")), deployment))
	pod := &deployment.Spec.Template.Spec
	mesh := corev1.Container{Name: "mesh", Image: "mesh:v1.27.0"}
	pod.Containers = []corev1.Container{mesh, pod.Containers[0], mesh}
	check.Equal(t, "version", "v0.2.0", OfOperator([]*appsv1.Deployment{deployment}))
}
