// Package testenv makes the API server of tests that need nothing else of a cluster.
package testenv

import (
	"time"

	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// patience is how long each of its processes may take to start and to stop on a machine that
// has other things to do; envtest would give up after 20 s.
const patience = 2 * time.Minute

// New is an API server and its etcd from a folder of binaries, with the CRDs of the folders
// given. It is not started yet.
func New(binaries string, crds ...string) *envtest.Environment {
	environment := &envtest.Environment{
		BinaryAssetsDirectory:    binaries,
		CRDDirectoryPaths:        crds,
		ErrorIfCRDPathMissing:    true,
		ControlPlaneStartTimeout: patience,
		ControlPlaneStopTimeout:  patience,
		CRDInstallOptions:        envtest.CRDInstallOptions{MaxTime: time.Minute},
	}
	// Who still watches does not hold up its end.
	environment.ControlPlane.GetAPIServer().Configure().Set("shutdown-send-retry-after", "true")
	return environment
}
