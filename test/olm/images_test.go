package olm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"cardquota.dev/operator/internal/testing/check"
)

// programs are the images in a bundle.
var programs = []string{"cardquota-manager", "cardquota-scheduler"}

// buildImages starts to build the images of versions like make images, and returns a function
// that waits for them.
func buildImages(ctx context.Context, versions ...version) (wait func() error) {
	built := make(chan error, 1)
	go func() {
		var problems []error
		for _, v := range versions {
			command := exec.CommandContext(ctx, filepath.Join(suite.root, "hack", "images.sh"), imagesFolder(v))
			command.Env = append(os.Environ(), "VERSION=v"+v.number)
			if out, err := command.CombinedOutput(); err != nil {
				problems = append(problems, fmt.Errorf("images of %s: %w: %s", v.number, err, out))
			}
		}
		built <- errors.Join(problems...)
	}()

	return func() error {
		err := <-built
		built <- err
		return err
	}
}

func imagesFolder(v version) string { return filepath.Join(suite.cluster.Dir(), "images-"+v.number) }

// withImages imports the images of a version into the real node and makes the bundle refer to
// them.
func (a *administrator) withImages(v version) version {
	a.Expect(suite.images()).To(Succeed())
	v.images = map[string]string{}
	for _, program := range programs {
		a.Expect(a.cluster.ImportImage(a.ctx, filepath.Join(imagesFolder(v), program+".tar"))).To(Succeed())
		v.images[program] = fmt.Sprintf("localhost/%s:v%s", program, v.number)
	}
	return v
}

// runStockScheduler installs the Deployment of Volcano's own scheduler from its installer. kwok
// simulates its pod: the programs see it, but it schedules nothing.
func (a *administrator) runStockScheduler() {
	deployment := check.Value(a.cluster.StockScheduler())(a)
	deployments := a.cluster.Client().AppsV1().Deployments(namespace)
	_, err := deployments.Create(a.ctx, deployment, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) { // an earlier test has scaled it to 0
		_, err = deployments.Update(a.ctx, deployment, metav1.UpdateOptions{})
	}
	a.Expect(err).NotTo(HaveOccurred())
	a.mustKubectl("-n", namespace, "rollout", "status", "deployment/volcano-scheduler", "--timeout=1m")
}
