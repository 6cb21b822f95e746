// Package images tests the images that hack/images.sh builds: their content, that builds are
// reproducible, and that they run as shipped.
package images

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/missing"
)

const (
	version  = "v9.8.7-test"
	revision = "0123456789abcdef0123456789abcdef01234567"
	epoch    = "1700000000"
	created  = "2023-11-14T22:13:20Z"
)

// programs maps the names of the images to their programs.
var programs = map[string]string{"cardquota-manager": "/manager", "cardquota-scheduler": "/cardquota-scheduler"}

// folder is where the first test that needs the images builds them.
var (
	folder string
	built  = sync.OnceValue(func() error { return buildImages("../..", folder) })
)

func TestMain(m *testing.M) {
	check.Main(m, "images", func(s *check.SetUp) {
		folder = check.Value(os.MkdirTemp("", "cardquota-images-*"))(s)
		s.Cleanup(func() error { return os.RemoveAll(folder) })
	})
}

// imagesDir returns the folder of the images.
func imagesDir(t *testing.T) string {
	if os.Geteuid() != 0 {
		missing.Skip(t, "root, to build images")
	}
	if _, err := exec.LookPath("buildah"); err != nil {
		missing.Skip(t, "buildah, hack/install-node-tools.sh installs it")
	}
	check.NoError(t, built())
	return folder
}

// buildImages runs the build script of a tree.
func buildImages(root, out string) error {
	script := exec.Command(filepath.Join(root, "hack", "images.sh"), out)
	script.Env = append(os.Environ(), "VERSION="+version, "REVISION="+revision, "SOURCE_DATE_EPOCH="+epoch, "REGISTRY=registry.test")
	if output, err := script.CombinedOutput(); err != nil {
		return fmt.Errorf("hack/images.sh: %w: %s", err, output)
	}
	return nil
}

// openImage opens one of the images.
func openImage(t *testing.T, name string) imageContent {
	return openArchive(t, filepath.Join(imagesDir(t), name+".tar"))
}

// readText reads a file of the project.
func readText(t *testing.T, name string) string {
	return string(check.Value(os.ReadFile(filepath.Join("..", "..", name)))(t))
}
