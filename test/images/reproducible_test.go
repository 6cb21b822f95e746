package images

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"cardquota.dev/operator/internal/testing/check"
)

// TestTheSameSourcesGiveTheSameImages: users can build the images again and compare digests. The test builds
// them a second time from a copy of the build context, in another folder and with another cache. Digests and
// SBOMs are equal.
func TestTheSameSourcesGiveTheSameImages(t *testing.T) {
	g := NewWithT(check.Trail(t))
	first := imagesDir(t)
	tree := t.TempDir()
	second := t.TempDir()

	for _, path := range append(buildContext(t), "Dockerfile", "hack/images.sh", "hack/stamped-build.sh", "hack/folders.sh", "hack/sbom") {
		g.Expect(os.MkdirAll(filepath.Dir(filepath.Join(tree, path)), 0o755)).To(Succeed())
		output, err := exec.Command("cp", "-r", filepath.Join("../..", path), filepath.Join(tree, path)).CombinedOutput()
		g.Expect(err).NotTo(HaveOccurred(), string(output))
	}

	cache := check.Value(exec.Command("go", "env", "GOCACHE").Output())(t)
	t.Setenv("GOCACHE", strings.TrimSpace(string(cache))) // its default depends on XDG_CACHE_HOME
	t.Setenv("XDG_CACHE_HOME", t.TempDir())               // without the finished programs of the first build
	g.Expect(buildImages(tree, second)).To(Succeed())

	for name := range programs {
		g.Expect(openArchive(t, filepath.Join(second, name+".tar")).digest).To(Equal(openImage(t, name).digest), name)

		var bills []string
		for _, folder := range []string{first, second} {
			bills = append(bills, string(check.Value(os.ReadFile(filepath.Join(folder, name+".cdx.json")))(t)))
		}
		g.Expect(bills[0]).To(Equal(bills[1]), "the bill of materials of %s", name)
	}
}

var copied = regexp.MustCompile(`(?m)^COPY ([^-].*) \S+$`)

// TestTheBuildContextHasWhatTheDockerfileCopies: .dockerignore excludes everything but a list of paths, so
// that other files of a clone never reach an image. The list has exactly the paths that the Dockerfile copies.
func TestTheBuildContextHasWhatTheDockerfileCopies(t *testing.T) {
	g := NewWithT(check.Trail(t))
	var sources []string
	for _, match := range copied.FindAllStringSubmatch(readText(t, "Dockerfile"), -1) {
		sources = append(sources, strings.Fields(match[1])...)
	}
	g.Expect(buildContext(t)).To(ConsistOf(sources))
}

// buildContext returns the paths that .dockerignore allows.
func buildContext(t *testing.T) []string {
	var paths []string
	for line := range strings.Lines(readText(t, ".dockerignore")) {
		if path, ok := strings.CutPrefix(strings.TrimSpace(line), "!"); ok {
			paths = append(paths, path)
		}
	}
	return paths
}
