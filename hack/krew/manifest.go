package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"sigs.k8s.io/yaml"
)

// plugin is krew's manifest, https://krew.sigs.k8s.io/docs/developer-guide/plugin-manifest.
type plugin struct {
	APIVersion string            `json:"apiVersion"`
	Kind       string            `json:"kind"`
	Metadata   map[string]string `json:"metadata"`
	Spec       pluginSpec        `json:"spec"`
}

type pluginSpec struct {
	Version          string     `json:"version"`
	Homepage         string     `json:"homepage"`
	ShortDescription string     `json:"shortDescription"`
	Description      string     `json:"description"`
	Caveats          string     `json:"caveats"`
	Platforms        []platform `json:"platforms"`
}

type platform struct {
	Selector selector `json:"selector"`
	URI      string   `json:"uri"`
	SHA256   string   `json:"sha256"`
	Bin      string   `json:"bin"`
}

type selector struct {
	MatchLabels map[string]string `json:"matchLabels"`
}

// writeManifest adds version and archives to the texts of config/krew.
func writeManifest(o options, archives []archive) error {
	text, err := os.ReadFile(filepath.Join(o.root, "config/krew/cardquota.yaml"))
	if err != nil {
		return err
	}

	var manifest plugin
	if err := yaml.UnmarshalStrict(text, &manifest); err != nil {
		return fmt.Errorf("config/krew/cardquota.yaml: %w", err)
	}

	manifest.Spec.Version = o.version
	for _, packed := range archives {
		manifest.Spec.Platforms = append(manifest.Spec.Platforms, platform{
			Selector: selector{map[string]string{"os": packed.os, "arch": packed.arch}},
			URI:      strings.TrimSuffix(o.url, "/") + "/" + o.version + "/" + packed.name, SHA256: packed.sha256, Bin: packed.program,
		})
	}

	text, err = yaml.Marshal(manifest)
	if err != nil {
		return err
	}

	return os.WriteFile(filepath.Join(o.dist, "cardquota.yaml"), text, 0o644)
}
