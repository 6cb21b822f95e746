package main

import (
	"fmt"
	"strings"

	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/discovery"
	basecompatibility "k8s.io/component-base/compatibility"
)

// alignFeatureGates sets the defaults of Kubernetes' feature gates to those of the cluster's
// version, so that nothing is used or watched that this API server does not have.
func alignFeatureGates(server discovery.ServerVersionInterface) error {
	version, err := server.ServerVersion()
	if err != nil {
		return fmt.Errorf("ask the API server for its version: %w", err)
	}
	registry := basecompatibility.NewComponentGlobalsRegistry()
	effective := basecompatibility.NewEffectiveVersionFromString(majorMinor(version.Major, version.Minor), "", "")
	if err := registry.Register(basecompatibility.DefaultKubeComponent, effective, utilfeature.DefaultMutableFeatureGate); err != nil {
		return fmt.Errorf("register the feature gates: %w", err)
	}
	if err := registry.Set(); err != nil {
		return fmt.Errorf("set the feature gates: %w", err)
	}
	return nil
}

// majorMinor joins a version's parts. Some providers write a minor version like 34+, which
// the version parser answers with a panic.
func majorMinor(major, minor string) string {
	notDigit := func(r rune) bool { return r < '0' || r > '9' }
	return strings.TrimRightFunc(major, notDigit) + "." + strings.TrimRightFunc(minor, notDigit)
}
