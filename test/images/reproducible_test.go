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

// TestTheSameSourcesGiveTheSameImages builds the images again in a folder with only the build
// context of the Dockerfile.
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
	t.Setenv("GOCACHE", strings.TrimSpace(string(cache))) // by default it lies where the next line points elsewhere
	t.Setenv("XDG_CACHE_HOME", t.TempDir())               // what is kept of the first is not the second
	g.Expect(buildImages(tree, second)).To(Succeed())

	for name := range programs {
		again := openArchive(t, filepath.Join(second, name+".tar"))
		g.Expect(again.digest).To(Equal(openImage(t, name).digest), name)

		bills := make([]string, 0, 2)
		for _, folder := range []string{first, second} {
			bills = append(bills, string(check.Value(os.ReadFile(filepath.Join(folder, name+".cdx.json")))(t)))
		}
		g.Expect(bills[0]).To(Equal(bills[1]), "the bill of materials of %s", name)
	}
}

var copied = regexp.MustCompile(`(?m)^COPY ([^-].*) \S+$`)

func TestTheBuildContextHoldsWhatTheDockerfileCopies(t *testing.T) {
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
