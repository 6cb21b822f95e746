package olm

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	utilversion "k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/yaml"

	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/test/cluster"
)

// version is one release.
type version struct {
	number, replaces string
	// bundle is the folder of an existing bundle; a bundle built from this tree has none.
	bundle string
	// images are full references by the names in config/; none means as in bundle/.
	images map[string]string
}

// csvName returns the name of the release's ClusterServiceVersion.
func (v version) csvName() string { return "cardquota.v" + v.number }

// loadVersions returns the previous version, whose bundle is in testdata, the version of
// bundle/, and the next one. Nothing was released before: the bundle in testdata is that of
// commit 895ae28 with a number of its own, and without the webhooks, which no program would
// answer.
func loadVersions(t check.T) (previous, this, next version) {
	previous.bundle = filepath.Join(suite.root, "test", "olm", "testdata", "previous", "bundle")
	number := numberOf(t, filepath.Join(suite.root, "bundle"))
	previous.number = numberOf(t, previous.bundle).String()
	this = version{number: number.String(), replaces: previous.number}
	next = version{number: number.WithMinor(number.Minor() + 1).String(), replaces: this.number}
	return previous, this, next
}

// numberOf returns the version of a bundle.
func numberOf(t check.T, bundle string) *utilversion.Version {
	var csv struct{ Spec struct{ Version string } }
	check.NoError(t, yaml.Unmarshal(check.Value(os.ReadFile(filepath.Join(bundle, "manifests", "cardquota.clusterserviceversion.yaml")))(t), &csv))
	return check.Value(utilversion.ParseSemantic(csv.Spec.Version))(t)
}

// publishCatalog builds a catalog of versions like make bundle and make catalog, serves it, and
// returns its address. name is the name of the process.
func (a *administrator) publishCatalog(name string, versions ...version) (address string) {
	work := filepath.Join(a.cluster.Dir(), name)
	args := []string{"run", "./catalog", "-opm", suite.tools.opm, "-out", filepath.Join(work, "catalog")}
	for _, v := range versions {
		if v.bundle != "" {
			args = append(args, v.bundle)
			continue
		}

		dir := filepath.Join(work, v.number)
		bundle := []string{"run", ".", "-root", suite.root, "-out", dir, "-version", v.number, "-replaces", v.replaces}
		for image, reference := range v.images {
			bundle = append(bundle, "-image", image+"="+reference)
		}

		a.runBundleCommand(bundle)
		args = append(args, dir)
	}

	a.runBundleCommand(args)
	return a.serveCatalog(name, filepath.Join(work, "catalog"))
}

// runBundleCommand runs a command of the module hack/bundle.
func (a *administrator) runBundleCommand(args []string) {
	command := exec.CommandContext(a.ctx, "go", args...)
	command.Dir = filepath.Join(suite.root, "hack", "bundle")
	out, err := command.CombinedOutput()
	check.Must(a, err == nil, "go %s: %v: %s", strings.Join(args, " "), err, out)
}

// serveCatalog serves a catalog to OLM, like the pod of its image.
func (a *administrator) serveCatalog(name, catalog string) (address string) {
	port := check.Value(cluster.FreePort())(a)
	address = fmt.Sprintf("127.0.0.1:%d", port)
	work := filepath.Join(a.cluster.Dir(), name)

	process := check.Value(a.cluster.StartProcess(a.ctx, cluster.ProcessSpec{
		Name: name, Path: suite.tools.opm,
		Args: []string{
			"serve", catalog, fmt.Sprintf("--port=%d", port), "--cache-dir=" + filepath.Join(work, "cache"),
			"--cache-enforce-integrity=false", "--termination-log=" + filepath.Join(work, "termination.log"),
			"--pprof-addr=",
		},
	}))(a)

	err := wait.PollUntilContextTimeout(a.ctx, 100*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		if !process.Running() {
			return false, errors.New("it ended")
		}
		connection, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
		if err != nil {
			return false, nil //nolint:nilerr // not yet
		}
		return true, connection.Close()
	})

	said, _ := os.ReadFile(process.LogFile())
	check.Must(a, err == nil, "opm serve: %v: %s", err, said)

	return address
}
