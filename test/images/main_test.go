// Package images tests the images that hack/images.sh builds: what is in them, that they are
// built twice the same, and that they run as they are shipped.
package images

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	. "github.com/onsi/gomega"

	"cardquota.dev/operator/internal/testing/missing"
	"cardquota.dev/operator/test/cluster"
)

const (
	version  = "v9.8.7-test"
	revision = "0123456789abcdef0123456789abcdef01234567"
	epoch    = "1700000000"
	created  = "2023-11-14T22:13:20Z"
)

// programs are the names of the images and what each runs.
var programs = map[string]string{"cardquota-manager": "/manager", "cardquota-scheduler": "/cardquota-scheduler"}

var built struct {
	sync.Once
	dir string
	err error
}

func TestMain(m *testing.M) {
	code := m.Run()
	if built.dir != "" {
		if err := os.RemoveAll(built.dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// images is the folder of the images, built by the first test that asks.
func images(t *testing.T) string {
	t.Helper()
	if os.Geteuid() != 0 {
		missing.Skip(t, "root, to build images")
	}
	if _, err := exec.LookPath("buildah"); err != nil {
		missing.Skip(t, "buildah, hack/install-node-tools.sh installs it")
	}
	built.Do(buildAll)
	if built.err != nil {
		t.Fatal(built.err)
	}
	return built.dir
}

func buildAll() {
	root, err := cluster.ModuleRoot()
	if err != nil {
		built.err = err
		return
	}
	if built.dir, built.err = os.MkdirTemp("", "cardquota-images-*"); built.err == nil {
		built.err = build(root, built.dir)
	}
}

// build runs the script of a tree.
func build(root, out string) error {
	script := exec.Command(filepath.Join(root, "hack", "images.sh"), out)
	script.Env = append(os.Environ(), "VERSION="+version, "REVISION="+revision, "SOURCE_DATE_EPOCH="+epoch, "REGISTRY=registry.test")
	if output, err := script.CombinedOutput(); err != nil {
		return fmt.Errorf("hack/images.sh: %w: %s", err, output)
	}
	return nil
}

// image is one of the images.
func image(t *testing.T, name string) picture {
	t.Helper()
	p, err := open(filepath.Join(images(t), name+".tar"))
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return p
}

// readText reads a file of the project.
func readText(t *testing.T, path ...string) string {
	t.Helper()
	root, err := cluster.ModuleRoot()
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	text, err := os.ReadFile(filepath.Join(root, filepath.Join(path...)))
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return strings.TrimSpace(string(text))
}
