// Package olm installs the operator as the Operator Lifecycle Manager does: OLM's own operators
// run as processes against a local cluster, a catalog of bundles generated from this tree is
// served by opm, and the manifests and commands are those of docs/install.md and docs/upgrade.md.
package olm
