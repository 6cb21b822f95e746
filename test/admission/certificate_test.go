package admission

import (
	"crypto/tls"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/test/cluster"
	"cardquota.dev/operator/test/framework"
)

// dryRunInvalidQuota asks for 1000 cards, with overAllocation Deny. An operator that answers denies it, and nothing else.
func (w *env) dryRunInvalidQuota(t *testing.T) func() error {
	return func() error {
		return w.dryRunCreate(t, newQuota("badly-typed", func(q *v1alpha1.CardQuota) {
			q.Spec.OverAllocation = v1alpha1.OverAllocationDeny
			q.Spec.Cards = []v1alpha1.Card{{Name: "NVIDIA-H200", Quota: ptr.To(int64(1000))}}
		}))
	}
}

const byTheRule = "overAllocation is Deny"

// trustedCABundle returns the CA that the API server trusts.
func (w *env) trustedCABundle(t *testing.T) func() ([]byte, error) {
	return framework.Read(t.Context(), w, client.ObjectKey{Name: "cardquota"}, func(configuration *admissionv1.ValidatingWebhookConfiguration) []byte {
		return configuration.Webhooks[0].ClientConfig.CABundle
	})
}

// certificateTests: the operator makes its own certificate, and writes its CA into the webhook configurations, so
// that the API server trusts it. When the Secret is deleted it makes new ones. Each replica serves the same
// certificate, not the leader alone.
func certificateTests(t *testing.T, w *env) {
	t.Run("the Secret is deleted", func(t *testing.T) {
		g := framework.NewGomega(t)
		before := check.Value(w.trustedCABundle(t)())(t)
		g.Expect(before).NotTo(gomega.BeEmpty())
		g.Expect(w.Delete(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "volcano-system", Name: "cardquota-webhook-cert"}})).To(gomega.Succeed())
		g.Eventually(w.trustedCABundle(t)).ShouldNot(gomega.Equal(before))
		g.Eventually(w.dryRunInvalidQuota(t)).Should(beDenied(byTheRule))
	})

	t.Run("a replica that does not lead answers too", func(t *testing.T) {
		g := framework.NewGomega(t)
		second, port := w.newOperator(t, "--webhook-certificates=Self")
		g.Expect(second.StartManager(t.Context())).To(gomega.Succeed())
		defer func() { g.Expect(second.Manager.Stop()).To(gomega.Succeed()) }()
		g.Expect(servingCertSignature(t, port)).To(gomega.Equal(servingCertSignature(t, w.port)), "both serve the same certificate")
		w.exposePort(t, port)
		defer w.exposePort(t, w.port)
		g.Eventually(w.dryRunInvalidQuota(t)).Should(beDenied(byTheRule))
	})
	t.Run("files of another issuer", func(t *testing.T) { filesTest(t, w) })
}

// filesTest: cert-manager writes certificate and key into files, and newer ones later. The operator serves them
// without a restart, and leaves the CA to cert-manager.
func filesTest(t *testing.T, w *env) {
	g := framework.NewGomega(t)
	w.stopOperator(t)
	dir := t.TempDir()
	issue := func(name string) {
		certificate, key, err := w.cluster.ServingCertificate(name, webhookService+".volcano-system.svc")
		g.Expect(err).NotTo(gomega.HaveOccurred())
		for to, from := range map[string]string{"tls.key": key, "tls.crt": certificate} {
			g.Expect(os.WriteFile(filepath.Join(dir, to), check.Value(os.ReadFile(from))(t), 0o600)).To(gomega.Succeed())
		}
	}

	issue("webhook-first")
	w.writeCABundle(t, w.cluster.CABundle())
	other, port := w.newOperator(t, "--webhook-certificates=Files", "--webhook-cert-dir="+dir)
	g.Expect(other.StartManager(t.Context())).To(gomega.Succeed())
	defer func() { g.Expect(other.Manager.Stop()).To(gomega.Succeed()) }()

	w.exposePort(t, port)
	defer w.exposePort(t, w.port)
	g.Eventually(w.dryRunInvalidQuota(t)).Should(beDenied(byTheRule))

	before := servingCertSignature(t, port)
	issue("webhook-second")
	g.Eventually(func() string { return servingCertSignature(t, port) }).ShouldNot(gomega.Equal(before), "new files are served without a restart")
	g.Expect(w.trustedCABundle(t)()).To(gomega.Equal(w.cluster.CABundle()), "the operator leaves the CA to the issuer of the files")
}

// writeCABundle writes a CA into both configurations, as cert-manager's injector does.
func (w *env) writeCABundle(t *testing.T, bundle []byte) {
	g := framework.NewGomega(t)

	validating := framework.Fetch[admissionv1.ValidatingWebhookConfiguration](t, w, client.ObjectKey{Name: "cardquota"})
	for i := range validating.Webhooks {
		validating.Webhooks[i].ClientConfig.CABundle = bundle
	}
	g.Expect(w.Update(t.Context(), validating)).To(gomega.Succeed())

	mutating := framework.Fetch[admissionv1.MutatingWebhookConfiguration](t, w, client.ObjectKey{Name: "cardquota"})
	for i := range mutating.Webhooks {
		mutating.Webhooks[i].ClientConfig.CABundle = bundle
	}
	g.Expect(w.Update(t.Context(), mutating)).To(gomega.Succeed())
}

// servingCertSignature returns the signature of the certificate that is served on a port.
func servingCertSignature(t *testing.T, port int) string {
	address := check.Value(cluster.ServiceAddress())(t)
	connection := check.Value(tls.Dial("tcp", fmt.Sprintf("%s:%d", address, port), &tls.Config{InsecureSkipVerify: true}))(t)
	defer func() { _ = connection.Close() }()
	return fmt.Sprintf("%x", connection.ConnectionState().PeerCertificates[0].Signature)
}
