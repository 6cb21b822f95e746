package main

import (
	"strings"
	"testing"

	"github.com/blang/semver/v4"
	"github.com/google/go-cmp/cmp"
	"github.com/operator-framework/api/pkg/lib/version"
	"github.com/operator-framework/api/pkg/manifests"
	"github.com/operator-framework/api/pkg/operators/v1alpha1"
)

// testBundle is one version of the package p.
func testBundle(number, replaces string, channels ...string) *manifests.Bundle {
	csv := &v1alpha1.ClusterServiceVersion{}
	csv.Name = "p.v" + number
	csv.Annotations = map[string]string{"description": "about " + number, skipRange: "<" + number}
	csv.Spec.Version = version.OperatorVersion{Version: semver.MustParse(number)}
	csv.Spec.Replaces = replaces
	csv.Spec.Icon = []v1alpha1.Icon{{Data: "aWNvbg==", MediaType: "image/svg+xml"}}
	return &manifests.Bundle{Package: "p", Channels: channels, DefaultChannel: channels[0], CSV: csv}
}

func TestChannelsHoldTheVersionsThatNameThem(t *testing.T) {
	got, err := packageDocuments([]*manifests.Bundle{
		testBundle("0.10.0", "p.v0.9.0", "stable-v0", "candidate-v0"),
		testBundle("0.9.0", "", "candidate-v0"),
	})
	if err != nil {
		t.Fatal(err)
	}

	old := channelEntry{Name: "p.v0.9.0", SkipRange: "<0.9.0"}
	newest := channelEntry{Name: "p.v0.10.0", Replaces: "p.v0.9.0", SkipRange: "<0.10.0"}
	want := []any{
		packageDocument{
			Schema: "olm.package", Name: "p", DefaultChannel: "stable-v0", Description: "about 0.10.0",
			Icon: &icon{Base64Data: "aWNvbg==", MediaType: "image/svg+xml"},
		},
		channelDocument{Schema: "olm.channel", Package: "p", Name: "candidate-v0", Entries: []channelEntry{old, newest}},
		channelDocument{Schema: "olm.channel", Package: "p", Name: "stable-v0", Entries: []channelEntry{newest}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("documents (-want +got):\n%s", diff)
	}
}

func TestBundlesThatAreNoVersionsOfOnePackageAreRefused(t *testing.T) {
	foreign := testBundle("1.0.0", "", "stable-v1")
	foreign.Package = "q"

	for name, tc := range map[string]struct {
		bundles []*manifests.Bundle
		want    string
	}{
		"none":            {nil, "no bundle"},
		"two packages":    {[]*manifests.Bundle{foreign, testBundle("2.0.0", "", "stable-v2")}, "is of package q"},
		"a version twice": {[]*manifests.Bundle{testBundle("1.0.0", "", "stable-v1"), testBundle("1.0.0", "", "stable-v1")}, "two bundles are p.v1.0.0"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := packageDocuments(tc.bundles); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got error %v, want one that says %q", err, tc.want)
			}
		})
	}
}
