package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/operator-framework/api/pkg/manifests"
)

// skipRange is the annotation for the versions from which a bundle may be installed directly.
const skipRange = "olm.skipRange"

// The documents of a catalog that do not come from bundles
// (https://olm.operatorframework.io/docs/reference/file-based-catalogs).
type (
	packageDocument struct {
		Schema         string `json:"schema"`
		Name           string `json:"name"`
		DefaultChannel string `json:"defaultChannel"`
		Description    string `json:"description,omitempty"`
		Icon           *icon  `json:"icon,omitempty"`
	}
	icon struct {
		Base64Data string `json:"base64data"`
		MediaType  string `json:"mediatype"`
	}
	channelDocument struct {
		Schema  string         `json:"schema"`
		Package string         `json:"package"`
		Name    string         `json:"name"`
		Entries []channelEntry `json:"entries"`
	}
	channelEntry struct {
		Name      string   `json:"name"`
		Replaces  string   `json:"replaces,omitempty"`
		Skips     []string `json:"skips,omitempty"`
		SkipRange string   `json:"skipRange,omitempty"`
	}
)

// packageDocuments describes the package of the bundles and its channels. The newest version
// describes the package. Every bundle is in each channel that it names, the newest last.
// Bundles of two packages and two bundles of one version are errors.
func packageDocuments(bundles []*manifests.Bundle) ([]any, error) {
	if len(bundles) == 0 {
		return nil, errors.New("no bundle")
	}

	bundles = slices.SortedFunc(slices.Values(bundles), func(a, b *manifests.Bundle) int {
		return a.CSV.Spec.Version.Compare(b.CSV.Spec.Version.Version)
	})

	newest := bundles[len(bundles)-1]
	channels := map[string][]channelEntry{}
	for i, bundle := range bundles {
		if bundle.Package != newest.Package {
			return nil, fmt.Errorf("bundle %s is of package %s, not %s", bundle.CSV.Name, bundle.Package, newest.Package)
		}
		if i > 0 && bundle.CSV.Name == bundles[i-1].CSV.Name {
			return nil, fmt.Errorf("two bundles are %s", bundle.CSV.Name)
		}

		for _, channel := range bundle.Channels {
			channels[channel] = append(channels[channel], channelEntry{
				Name: bundle.CSV.Name, Replaces: bundle.CSV.Spec.Replaces,
				Skips: bundle.CSV.Spec.Skips, SkipRange: bundle.CSV.Annotations[skipRange],
			})
		}
	}

	about := packageDocument{
		Schema: "olm.package", Name: newest.Package, DefaultChannel: newest.DefaultChannel,
		Description: newest.CSV.Annotations["description"],
	}
	if icons := newest.CSV.Spec.Icon; len(icons) > 0 {
		about.Icon = &icon{Base64Data: icons[0].Data, MediaType: icons[0].MediaType}
	}

	documents := []any{about}
	for _, name := range slices.Sorted(maps.Keys(channels)) {
		documents = append(documents, channelDocument{
			Schema: "olm.channel", Package: newest.Package, Name: name, Entries: channels[name],
		})
	}

	return documents, nil
}
