package main

import (
	"os"
	"testing"

	"k8s.io/client-go/features"

	"cardquota.dev/operator/internal/testing/check"
)

// TestCachesReadStreams: client-go reads the variable when it first asks for the feature.
func TestCachesReadStreams(t *testing.T) {
	const variable = "KUBE_FEATURE_WatchListClient"
	t.Setenv(variable, "false")
	check.NoError(t, streamLists())
	check.Equal(t, variable+" of the environment", "false", os.Getenv(variable))
	check.NoError(t, os.Unsetenv(variable))
	check.NoError(t, streamLists())
	check.That(t, features.FeatureGates().Enabled(features.WatchListClient), "client-go does not stream lists")
}
