package main

import (
	"os"
	"testing"

	"k8s.io/client-go/features"

	"cardquota.dev/operator/internal/testing/check"
)

// TestCachesReadStreams: caches that stream lists need less memory of the API server. The operator switches the
// feature of client-go on by its environment variable, which client-go reads once, when it first needs the feature. A
// value that an administrator has set stays.
func TestCachesReadStreams(t *testing.T) {
	const variable = "KUBE_FEATURE_WatchListClient"
	t.Setenv(variable, "false")
	check.NoError(t, streamLists())
	check.Equal(t, variable+" of an administrator", "false", os.Getenv(variable))

	check.NoError(t, os.Unsetenv(variable))
	check.NoError(t, streamLists())
	check.That(t, features.FeatureGates().Enabled(features.WatchListClient), "client-go does not stream lists")
}
