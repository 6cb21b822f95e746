package docs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/missing"
	"cardquota.dev/operator/test/cluster"
	"cardquota.dev/operator/test/deployment"
)

// registry is the registry of the nodes' images, which are imported into containerd.
const registry = "localhost"

// engineer follows a document in a copy of this project, with kubectl, on a cluster with
// Volcano from its installer.
type engineer struct {
	*testing.T
	Gomega
	client.WithWatch
	ctx     context.Context
	cluster *cluster.Cluster
	project string
	// path is the PATH of the commands. What a block exports is kept for the next one.
	path string
}

// newEngineer starts a cluster of the test's own. Changes change its options.
func newEngineer(t *testing.T, changes ...func(*cluster.Options)) *engineer {
	if err := cluster.CanRunRealNode(); err != nil {
		missing.Skip(t, err)
	}

	t.Parallel()
	e := &engineer{T: t, Gomega: NewWithT(check.Trail(t)), ctx: t.Context()}
	e.SetDefaultEventuallyTimeout(2 * time.Minute)
	e.SetDefaultEventuallyPollingInterval(100 * time.Millisecond)

	options := cluster.Options{
		WithoutKwok: true, WithKubeScheduler: true,
		RealNode: &cluster.RealNode{
			Name:   "h200-0",
			Labels: map[string]string{"nvidia.com/gpu.product": "NVIDIA-H200", "nvidia.com/gpu.memory": "143771"},
			Cards:  map[corev1.ResourceName]int{"nvidia.com/gpu": 8},
		},
	}
	for _, change := range changes {
		change(&options)
	}

	e.cluster = check.Value(cluster.Start(t.Context(), options))(t)
	t.Cleanup(func() { e.Expect(e.cluster.Stop()).To(Succeed()) })

	scheme := check.Value(deployment.NewScheme())(t)
	quiet := rest.CopyConfig(e.cluster.Config())
	quiet.WarningHandler = rest.NoWarnings{}
	e.WithWatch = check.Value(client.NewWithWatch(quiet, client.Options{Scheme: scheme}))(t)
	e.project = e.copyProject()
	e.path = e.cluster.BinDir() + ":" + os.Getenv("PATH")
	t.Cleanup(e.logState)

	return e
}

// logState logs the state of the cluster when a test has failed.
func (e *engineer) logState() {
	if !e.Failed() {
		return
	}
	e.ctx = context.WithoutCancel(e.ctx)
	out, err := e.runShell(`set +e
kubectl get pods -A -o wide
kubectl get stp,cardq,queue -o wide
kubectl get events -A --sort-by=.lastTimestamp | tail -40
for app in cardquota-manager cardquota-scheduler; do kubectl -n volcano-system logs -l app.kubernetes.io/name=$app --tail=30 --prefix; done`)
	e.Logf("%s\n%v", out, err)
}

// copyProject returns a copy of the project that may be changed, like a clone, with the built
// tools.
func (e *engineer) copyProject() string {
	root := check.Value(cluster.ModuleRoot())(e)
	to := filepath.Join(e.TempDir(), "cardquota")
	e.Expect(os.MkdirAll(filepath.Join(to, "bin"), 0o755)).To(Succeed())
	copied := exec.CommandContext(e.ctx, "bash", "-euo", "pipefail", "-c",
		`tar -C "$0" --exclude=./bin --exclude=./dist -cf - . | tar -C "$1" -xf -; for tool in "$0"/bin/*; do ln -s "$tool" "$1/bin/"; done`, root, to)
	out, err := copied.CombinedOutput()
	e.Expect(err).NotTo(HaveOccurred(), string(out))
	return to
}

func (e *engineer) sectionCommands(document, heading string) []string {
	return check.Value(Commands(string(check.Value(os.ReadFile(filepath.Join(e.project, document)))(e)), heading))(e)
}

// typeCommands runs one block of commands as written. It fills in only <registry>, and
// <stock-image>, which Volcano's installer has. After a wait for Enforced it checks that the
// enforcing pod runs. It returns what the commands print.
func (e *engineer) typeCommands(block string) string {
	began := time.Now()
	out, err := e.runShell(strings.NewReplacer("<registry>", registry,
		"<stock-image>", e.stockDeployment().Spec.Template.Spec.Containers[0].Image).Replace(block))
	e.Logf("$ %s%s(%.1f s)", strings.ReplaceAll(block, "\n", "\n$ "), out, time.Since(began).Seconds())
	e.Expect(err).NotTo(HaveOccurred())
	if strings.Contains(block, "Enforced") {
		e.checkEnforcingPodRuns()
	}
	return out
}

func (e *engineer) runShell(commands string) (string, error) {
	ctx, cancel := context.WithTimeout(e.ctx, 5*time.Minute)
	defer cancel()

	path := filepath.Join(filepath.Dir(e.project), "path")
	cmd := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", fmt.Sprintf("trap 'echo -n \"$PATH\" > %s' EXIT\n%s", path, commands))
	cmd.Dir = e.project
	cmd.Env = append(os.Environ(), "KUBECONFIG="+e.cluster.Kubeconfig(), "PATH="+e.path)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return string(out), errors.Join(err, errors.New(string(out)))
	}

	exported, err := os.ReadFile(path)
	e.path = string(exported)
	return string(out), err
}

// pushImages imports the images of dist/images into the nodes.
func (e *engineer) pushImages() {
	for _, name := range []string{"cardquota-manager", "cardquota-scheduler"} {
		e.Expect(e.cluster.ImportImage(e.ctx, filepath.Join(e.project, "dist", "images", name+".tar"))).To(Succeed())
	}
}
