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
	"testing/synctest"
	"time"

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

// TestTheManifestNamesTheArchivesOfAllPlatforms: krew installs kubectl plugins from a manifest. It has a
// version, a description of at most 50 characters, a long one with the commands, and a caveat for Windows.
// For each platform it has the URL, checksum and program of an archive, and checksums.txt lists the same
// checksum. Six platforms are built; each archive must have the program of its platform.
func TestTheManifestNamesTheArchivesOfAllPlatforms(t *testing.T) {
	dist := newBuild(t)
	check.NoError(t, run(options{root: "../..", dist: dist, version: "v1.2.3", url: "https://host.example/releases/"}, io.Discard))
	var manifest plugin
	check.NoError(t, yaml.UnmarshalStrict(readFile(t, dist, "cardquota.yaml"), &manifest))

	check.Equal(t, "name", "cardquota", manifest.Metadata["name"])
	check.Equal(t, "version", "v1.2.3", manifest.Spec.Version)
	check.That(t, len(manifest.Spec.ShortDescription) <= 50, "the short description has more than 50 characters: %s", manifest.Spec.ShortDescription)
	for _, command := range []string{"top", "why", "whatif", "inventory", "report", "doctor", "import"} {
		check.Contains(t, "description", manifest.Spec.Description, "* "+command+": ")
	}

	check.Contains(t, "caveats", manifest.Spec.Caveats, "whatif does not work on Windows")

	check.Must(t, len(manifest.Spec.Platforms) == len(platforms), "%d platforms, want %d", len(manifest.Spec.Platforms), len(platforms))
	for i, p := range manifest.Spec.Platforms {
		labels := p.Selector.MatchLabels
		check.Equal(t, "platform", platforms[i], labels["os"]+"_"+labels["arch"])
		name, ok := strings.CutPrefix(p.URI, "https://host.example/releases/v1.2.3/")
		check.Must(t, ok, "URI %s", p.URI)

		content := readFile(t, dist, name)
		sum := sha256.Sum256(content)
		check.Equal(t, "checksum of "+name, hex.EncodeToString(sum[:]), p.SHA256)
		check.Contains(t, "checksums.txt", string(readFile(t, dist, "checksums.txt")), p.SHA256+"  "+name+"\n")
		check.Equal(t, "program in "+name, "program of "+platforms[i], readFromArchive(t, content, p.Bin))
	}
}

// readFromArchive returns a file of a zip or tar archive. It must be executable.
func readFromArchive(t *testing.T, content []byte, name string) string {
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

// TestEqualProgramsGiveEqualArchives: a release can be built again from its sources, so archives have no times
// of their build. Two builds of equal programs, an hour apart, give the same checksums. Without -url, as in a
// build that is not published, there is no manifest.
func TestEqualProgramsGiveEqualArchives(t *testing.T) {
	checksums := func() string {
		dist := newBuild(t)
		check.NoError(t, run(options{root: "../..", dist: dist, version: "v1"}, io.Discard))
		_, err := os.Stat(filepath.Join(dist, "cardquota.yaml"))
		check.That(t, os.IsNotExist(err), "a manifest was written without -url")
		return string(readFile(t, dist, "checksums.txt"))
	}

	synctest.Test(t, func(t *testing.T) { // an hour passes at once
		first := checksums()
		time.Sleep(time.Hour)
		check.Equal(t, "checksums", first, checksums())
	})
}

// TestMistakesInOptionsAreNamed: each row is what the error must say, and options with one mistake: no version, a URL
// without TLS, and a folder without programs.
func TestMistakesInOptionsAreNamed(t *testing.T) {
	for want, o := range map[string]options{
		"write -version": {dist: t.TempDir()},
		"https:// only":  {dist: t.TempDir(), version: "v1", url: "http://host.example"},
		"no such file":   {dist: t.TempDir(), version: "v1"},
	} {
		check.Says(t, run(o, io.Discard), want)
	}
}

// TestAManifestNeedsAVersionThatKrewTakes: krew takes semantic versions with a v in front, see
// https://krew.sigs.k8s.io/docs/developer-guide/plugin-manifest.
func TestAManifestNeedsAVersionThatKrewTakes(t *testing.T) {
	const refused = "krew takes versions such as v1.2.3"

	for version, wantError := range map[string]string{
		"v1.2.3":      "",
		"v0.2.0-rc.1": "",
		"v1.2.3+a":    "",
		"v1":          refused,
		"v1.2":        refused,
		"1.2.3":       refused,
		"v01.2.3":     refused,
		"4f2c9ab":     refused,
		"v1.2.3.4":    refused,
	} {
		t.Run(version, func(t *testing.T) {
			o := options{root: "../..", dist: newBuild(t), version: version, url: "https://host.example"}
			check.Says(t, run(o, io.Discard), wantError)
		})
	}
}

// TestTheMakefileBuildsAllPlatforms: the archives are made from the programs that the Makefile builds. It must
// build kubectl-cardquota for Linux, macOS and Windows, on amd64 and arm64 each.
func TestTheMakefileBuildsAllPlatforms(t *testing.T) {
	makefile := string(readFile(t, "..", "..", "Makefile"))
	check.Contains(t, "Makefile", makefile, "foreach os,linux darwin windows,$(os)_amd64 $(os)_arm64", "./cmd/kubectl-cardquota")
}
