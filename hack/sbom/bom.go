package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// newBOM returns the bill of materials of a program: the program, its standard library, and its
// modules, as replaced.
func newBOM(info *debug.BuildInfo, name, version string) (*cdx.BOM, error) {
	bom := cdx.NewBOM()
	bom.Metadata = &cdx.Metadata{Component: &cdx.Component{
		BOMRef:     packageURL(info.Main.Path, version),
		Type:       cdx.ComponentTypeApplication,
		Name:       name,
		Version:    version,
		PackageURL: packageURL(info.Main.Path, version),
		Properties: buildProperties(info),
	}}

	if epoch := os.Getenv("SOURCE_DATE_EPOCH"); epoch != "" {
		seconds, err := strconv.ParseInt(epoch, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("SOURCE_DATE_EPOCH: %w", err)
		}
		bom.Metadata.Timestamp = time.Unix(seconds, 0).UTC().Format(time.RFC3339)
	}

	components := []cdx.Component{libraryComponent("std", strings.TrimPrefix(info.GoVersion, "go"), "")}
	for _, module := range info.Deps {
		if module.Replace != nil {
			module = module.Replace
		}
		components = append(components, libraryComponent(module.Path, module.Version, module.Sum))
	}

	bom.Components = &components
	var all []string
	for _, component := range components {
		all = append(all, component.BOMRef)
	}

	// The compiler does not record which module needs which.
	bom.Dependencies = &[]cdx.Dependency{{Ref: bom.Metadata.Component.BOMRef, Dependencies: &all}}
	return bom, nil
}

func libraryComponent(path, version, sum string) cdx.Component {
	component := cdx.Component{
		BOMRef: packageURL(path, version), Type: cdx.ComponentTypeLibrary, Name: path, Version: version, PackageURL: packageURL(path, version),
	}
	if sum != "" { // as go.sum has it: a hash of the module's files, not of an archive
		component.Properties = &[]cdx.Property{{Name: "go:sum", Value: sum}}
	}
	return component
}

// packageURL returns a package URL; a plus sign in a version would mean a space.
func packageURL(path, version string) string {
	return "pkg:golang/" + path + "@" + strings.ReplaceAll(version, "+", "%2B")
}

// buildProperties returns the build settings that affect the program.
func buildProperties(info *debug.BuildInfo) *[]cdx.Property {
	list := []cdx.Property{{Name: "go:version", Value: info.GoVersion}, {Name: "go:package", Value: info.Path}}
	for _, setting := range info.Settings {
		switch setting.Key {
		case "GOOS", "GOARCH", "GOAMD64", "CGO_ENABLED", "-trimpath":
			list = append(list, cdx.Property{Name: "go:build:" + setting.Key, Value: setting.Value})
		}
	}
	return &list
}

func fileHashes(path string) (*[]cdx.Hash, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	sum := sha256.New()
	if _, err := io.Copy(sum, file); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: hex.EncodeToString(sum.Sum(nil))}}, nil
}
