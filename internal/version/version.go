// Package version holds the version of this build.
package version

// Version is the release this binary was built from, set by the linker.
var Version = "v0.0.0-dev"
