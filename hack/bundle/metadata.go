package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/operator-framework/api/pkg/apis/scorecard/v1alpha3"
	"github.com/operator-framework/api/pkg/operators/v1alpha1"
)

// scorecardImage is the image of scorecard's own tests, as that operator-sdk release names it.
// A cluster needs the registry in front of it (-scorecard-image), which depends on where the
// tests run: see CONTRIBUTING.md.
const scorecardImage = "operator-framework/scorecard-test:v1.41.1"

// channelName returns the release's channel: candidate until it is stable, with the major
// version (https://olm.operatorframework.io/docs/best-practices/channel-naming).
func channelName(csv *v1alpha1.ClusterServiceVersion) string {
	kind := "candidate"
	if csv.Spec.Maturity == "stable" {
		kind = "stable"
	}
	return fmt.Sprintf("%s-v%d", kind, csv.Spec.Version.Major)
}

// bundleAnnotations describe the bundle to a catalog. An image has the same labels.
func bundleAnnotations(csv *v1alpha1.ClusterServiceVersion) map[string]string {
	return map[string]string{
		"operators.operatorframework.io.bundle.mediatype.v1":       "registry+v1",
		"operators.operatorframework.io.bundle.manifests.v1":       "manifests/",
		"operators.operatorframework.io.bundle.metadata.v1":        "metadata/",
		"operators.operatorframework.io.bundle.package.v1":         packageName,
		"operators.operatorframework.io.bundle.channels.v1":        channelName(csv),
		"operators.operatorframework.io.bundle.channel.default.v1": channelName(csv),
		"operators.operatorframework.io.test.mediatype.v1":         "scorecard+v1",
		"operators.operatorframework.io.test.config.v1":            "tests/scorecard/",
	}
}

// bundleDockerfile returns the Dockerfile of the bundle's image; the context is the bundle's
// folder.
func bundleDockerfile(labels map[string]string) []byte {
	var text strings.Builder
	text.WriteString(generatedHeader)
	text.WriteString("# docker build -f bundle/bundle.Dockerfile bundle\nFROM scratch\n\n")
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		fmt.Fprintf(&text, "LABEL %s=%s\n", key, labels[key])
	}
	text.WriteString("\nCOPY manifests /manifests/\nCOPY metadata /metadata/\nCOPY tests/scorecard /tests/scorecard/\n")
	return []byte(text.String())
}

// scorecardConfig returns the configuration of scorecard's basic and OLM suites.
func scorecardConfig(image string) v1alpha3.Configuration {
	test := func(suite, name string) v1alpha3.TestConfiguration {
		return v1alpha3.TestConfiguration{
			Image:      image,
			Entrypoint: []string{"scorecard-test", name},
			Labels:     map[string]string{"suite": suite, "test": name + "-test"},
		}
	}

	config := v1alpha3.Configuration{Stages: []v1alpha3.StageConfiguration{{
		Parallel: true,
		Tests: []v1alpha3.TestConfiguration{
			test("basic", "basic-check-spec"),
			test("olm", "olm-bundle-validation"),
			test("olm", "olm-crds-have-validation"),
			test("olm", "olm-crds-have-resources"),
			test("olm", "olm-spec-descriptors"),
			test("olm", "olm-status-descriptors"),
		},
	}}}

	config.SetGroupVersionKind(v1alpha3.GroupVersion.WithKind(v1alpha3.ConfigurationKind))
	config.Metadata.Name = "config"
	return config
}
