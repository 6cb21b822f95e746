package handbook

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

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
	archive, err := e.cluster.ImageOf(e.ctx, container.Image, filepath.Join(e.cluster.BinDir(), "scheduler"))
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
	text, err := os.ReadFile(filepath.Join(e.cluster.BinDir(), "volcano", "install.yaml"))
	e.Expect(err).NotTo(HaveOccurred())
	documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
	for {
		document, err := documents.Read()
		e.Expect(errors.Is(err, io.EOF)).To(BeFalse(), "the installer has no Deployment %s", stockName.Name)
		e.Expect(err).NotTo(HaveOccurred())
		var kind metav1.PartialObjectMetadata
		e.Expect(yaml.Unmarshal(document, &kind)).To(Succeed())
		if kind.Kind == "Deployment" && kind.Name == stockName.Name {
			deployment := &appsv1.Deployment{}
			e.Expect(yaml.UnmarshalStrict(document, deployment)).To(Succeed())
			return deployment
		}
	}
}
