// Package olm installs the operator with the Operator Lifecycle Manager. OLM's own operators run
// as processes on a local cluster, and opm serves a catalog of bundles generated from this tree.
// The manifests and commands are those of docs/install.md and docs/upgrade.md.
package olm
