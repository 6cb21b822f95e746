package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"cardquota.dev/operator/internal/testing/check"
)

var platforms = []string{"darwin_amd64", "darwin_arm64", "linux_amd64", "linux_arm64", "windows_amd64", "windows_arm64"}

// newBuild returns a folder as the Makefile leaves it, with a text for each program.
func newBuild(t *testing.T) string {
	dist := t.TempDir()
	for _, platform := range platforms {
		folder := filepath.Join(dist, "build", platform)
		check.NoError(t, os.MkdirAll(folder, 0o750))
		name := "kubectl-cardquota"
		if strings.HasPrefix(platform, "windows") {
			name += ".exe"
		}
		check.NoError(t, os.WriteFile(filepath.Join(folder, name), []byte("program of "+platform), 0o600))
	}

	return dist
}

func readFile(t *testing.T, path ...string) []byte {
	return check.Value(os.ReadFile(filepath.Join(path...)))(t)
}

func TestTheManifestNamesWhatWasPacked(t *testing.T) {
	dist := newBuild(t)
	check.NoError(t, run(options{root: "../..", dist: dist, version: "v1.2.3", url: "https://host.example/releases/"}, io.Discard))
	var manifest plugin
	check.NoError(t, yaml.UnmarshalStrict(readFile(t, dist, "cardquota.yaml"), &manifest))
	check.That(t, manifest.Metadata["name"] == "cardquota" && manifest.Spec.Version == "v1.2.3" && len(manifest.Spec.ShortDescription) <= 50, "manifest %+v", manifest)
	for _, command := range []string{"top", "why", "whatif", "inventory", "report", "doctor", "import"} {
		check.Contains(t, "description", manifest.Spec.Description, "* "+command+": ")
	}

	check.Contains(t, "caveats", manifest.Spec.Caveats, "whatif does not work on Windows")
	check.Must(t, len(manifest.Spec.Platforms) == len(platforms), "%d platforms", len(manifest.Spec.Platforms))
	for i, p := range manifest.Spec.Platforms {
		labels := p.Selector.MatchLabels
		check.Equal(t, "platform", platforms[i], labels["os"]+"_"+labels["arch"])
		name, ok := strings.CutPrefix(p.URI, "https://host.example/releases/v1.2.3/")
		check.Must(t, ok, "URI %s", p.URI)

		content := readFile(t, dist, name)
		sum := sha256.Sum256(content)
		check.Equal(t, "checksum of "+name, hex.EncodeToString(sum[:]), p.SHA256)
		check.Contains(t, "checksums.txt", string(readFile(t, dist, "checksums.txt")), p.SHA256+"  "+name+"\n")
		check.Equal(t, "program in "+name, "program of "+platforms[i], unpack(t, content, p.Bin))
	}
}

// unpack returns a file of an archive, which must be executable.
func unpack(t *testing.T, content []byte, name string) string {
	if zipped, err := zip.NewReader(bytes.NewReader(content), int64(len(content))); err == nil {
		file := check.Value(zipped.Open(name))(t)
		info := check.Value(file.Stat())(t)
		check.That(t, info.Mode().Perm() == 0o755, "mode %v", info.Mode())

		return string(check.Value(io.ReadAll(file))(t))
	}

	stream := check.Value(gzip.NewReader(bytes.NewReader(content)))(t)
	for reader := tar.NewReader(stream); ; {
		header := check.Value(reader.Next())(t)
		if header.Name == name {
			check.That(t, header.Mode == 0o755, "mode %o", header.Mode)
			return string(check.Value(io.ReadAll(reader))(t))
		}
	}
}

func TestEqualProgramsGiveEqualArchives(t *testing.T) {
	checksums := func() string {
		dist := newBuild(t)
		check.NoError(t, run(options{root: "../..", dist: dist, version: "v1"}, io.Discard))
		_, err := os.Stat(filepath.Join(dist, "cardquota.yaml"))
		check.That(t, os.IsNotExist(err), "without -url there is no manifest")
		return string(readFile(t, dist, "checksums.txt"))
	}
	check.Equal(t, "checksums", checksums(), checksums())
}

func TestMistakesAreNamed(t *testing.T) {
	for want, o := range map[string]options{
		"write -version": {dist: t.TempDir()},
		"https:// only":  {dist: t.TempDir(), version: "v1", url: "http://host.example"},
		"no such file":   {dist: t.TempDir(), version: "v1"},
	} {
		check.Says(t, run(o, io.Discard), want)
	}

	// As krew's own check: https://krew.sigs.k8s.io/docs/developer-guide/plugin-manifest.
	for version, isTaken := range map[string]bool{
		"v1.2.3": true, "v0.2.0-rc.1": true, "v1.2.3+a": true, "v1": false, "v1.2": false, "1.2.3": false, "v01.2.3": false, "4f2c9ab": false, "v1.2.3.4": false,
	} {
		err := run(options{root: "../..", dist: newBuild(t), version: version, url: "https://host.example"}, io.Discard)
		check.That(t, (err == nil) == isTaken && (isTaken || strings.Contains(err.Error(), "krew takes versions such as v1.2.3")), "%s: %v", version, err)
	}
}

// The make target builds ./cmd/kubectl-cardquota for these platforms.
func TestTheMakefileBuildsThePlatforms(t *testing.T) {
	makefile := string(readFile(t, "..", "..", "Makefile"))
	check.Contains(t, "Makefile", makefile, "foreach os,linux darwin windows,$(os)_amd64 $(os)_arm64", "./cmd/kubectl-cardquota")
}
