package docs

import (
	"path/filepath"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"cardquota.dev/operator/test/cluster"
)

// stockName is the Deployment of Volcano's own scheduler.
var stockName = client.ObjectKey{Namespace: cluster.VolcanoNamespace, Name: "volcano-scheduler"}

// runsStock makes the Deployment of Volcano's own scheduler as its installer
// does, from an image of the binary that was built of Volcano's sources.
func (e *engineer) runsStock() {
	e.Helper()
	deployment := e.stockDeployment()
	container := &deployment.Spec.Template.Spec.Containers[0]
	archive, err := e.cluster.BuildImageFrom(e.ctx, container.Image, filepath.Join(e.cluster.BinDir(), "scheduler"))
	e.Expect(err).NotTo(HaveOccurred())
	e.Expect(e.cluster.ImportImage(e.ctx, archive)).To(Succeed())
	container.ImagePullPolicy = corev1.PullIfNotPresent // there is no registry here
	e.Expect(e.Create(e.ctx, deployment)).To(Succeed())
	e.Eventually(func() (int32, error) {
		live := &appsv1.Deployment{}
		err := e.Get(e.ctx, stockName, live)
		return live.Status.AvailableReplicas, err
	}).Should(BeEquivalentTo(1))
}

func (e *engineer) stockDeployment() *appsv1.Deployment {
	e.Helper()
	deployment, err := e.cluster.StockScheduler()
	e.Expect(err).NotTo(HaveOccurred())
	return deployment
}
