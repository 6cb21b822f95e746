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

// newBundle is one version of the package p, with the version that it replaces and its channels.
func newBundle(number, replaces string, channels ...string) *manifests.Bundle {
	csv := &v1alpha1.ClusterServiceVersion{}
	csv.Name = "p.v" + number
	csv.Annotations = map[string]string{"description": "about " + number, skipRange: "<" + number}
	csv.Spec.Version = version.OperatorVersion{Version: semver.MustParse(number)}
	csv.Spec.Replaces = replaces
	csv.Spec.Icon = []v1alpha1.Icon{{Data: "icon of " + number, MediaType: "image/svg+xml"}}
	return &manifests.Bundle{Package: "p", Channels: channels, DefaultChannel: channels[0], CSV: csv}
}

// TestEachChannelHasTheVersionsThatNameIt: an OLM catalog has documents of a package and of its channels. A
// channel lists the versions that name it, oldest first, with what each replaces and skips. Description, icon
// and default channel of the package are those of the newest version, by number and not by text: 0.10.0 is
// newer than 0.9.0. Both versions are in candidate-v0, and only 0.10.0 in stable-v0, its default channel.
func TestEachChannelHasTheVersionsThatNameIt(t *testing.T) {
	got, err := packageDocuments([]*manifests.Bundle{
		newBundle("0.10.0", "p.v0.9.0", "stable-v0", "candidate-v0"),
		newBundle("0.9.0", "", "candidate-v0"),
	})
	if err != nil {
		t.Fatal(err)
	}

	old := channelEntry{Name: "p.v0.9.0", SkipRange: "<0.9.0"}
	newest := channelEntry{Name: "p.v0.10.0", Replaces: "p.v0.9.0", SkipRange: "<0.10.0"}
	want := []any{
		packageDocument{
			Schema:         "olm.package",
			Name:           "p",
			DefaultChannel: "stable-v0",
			Description:    "about 0.10.0",
			Icon:           &icon{Base64Data: "icon of 0.10.0", MediaType: "image/svg+xml"},
		},
		channelDocument{Schema: "olm.channel", Package: "p", Name: "candidate-v0", Entries: []channelEntry{old, newest}},
		channelDocument{Schema: "olm.channel", Package: "p", Name: "stable-v0", Entries: []channelEntry{newest}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("documents (-want +got):\n%s", diff)
	}
}

// TestACatalogNeedsDifferentVersionsOfOnePackage: without a bundle, with bundles of packages p and q, or with
// the same version twice, there is no catalog.
func TestACatalogNeedsDifferentVersionsOfOnePackage(t *testing.T) {
	ofQ := newBundle("1.0.0", "", "stable-v1")
	ofQ.Package = "q"

	for name, tc := range map[string]struct {
		bundles []*manifests.Bundle
		want    string
	}{
		"no bundle":                   {nil, "no bundle"},
		"bundles of packages p and q": {[]*manifests.Bundle{ofQ, newBundle("2.0.0", "", "stable-v2")}, "is of package q"},
		"version 1.0.0 twice": {
			[]*manifests.Bundle{newBundle("1.0.0", "", "stable-v1"), newBundle("1.0.0", "", "stable-v1")}, "two bundles are p.v1.0.0",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := packageDocuments(tc.bundles); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got error %v, want one that says %q", err, tc.want)
			}
		})
	}
}
