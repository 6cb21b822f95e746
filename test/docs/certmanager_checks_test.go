package docs

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/test/cluster"
)

// dryRunCardQuota validates a CardQuota through the API server without storing it. It must not
// grant more than the cluster has: 8.
func (e *engineer) dryRunCardQuota(ctx context.Context, cards int64) error {
	quota := builder.CardQuota("asked-only").Card(card, cards).Obj()
	quota.Spec.OverAllocation = v1alpha1.OverAllocationDeny
	return e.Create(ctx, quota, client.DryRunAll)
}

// dryRunContinuously validates a CardQuota every 200 ms, once over the API server's connection and
// once over a new one, until stop is called. stop fails the test if any request was denied. A
// busy machine may be slow, which is no denial: an untrusted certificate fails at once.
func (e *engineer) dryRunContinuously() (stop func()) {
	ctx := e.ctx
	ended := make(chan struct{})
	stopping := make(chan struct{})

	asked := 0
	refused := []string{}
	note := func(err error) {
		slow := errors.Is(err, context.DeadlineExceeded) || (err != nil && strings.Contains(err.Error(), context.DeadlineExceeded.Error()))
		if err != nil && !slow {
			refused = append(refused, fmt.Sprintf("%s: %v", time.Now().Format(time.StampMilli), err))
		}
	}

	go func() {
		defer close(ended)
		tick := time.NewTicker(200 * time.Millisecond)
		defer tick.Stop()

		for {
			asked++
			note(e.dryRunCardQuota(ctx, 8))
			_, err := e.servingCertificate(ctx)
			note(err)

			select {
			case <-ctx.Done():
				return
			case <-stopping:
				return
			case <-tick.C:
			}
		}
	}()

	return func() {
		close(stopping)
		<-ended
		e.Logf("asked %d times", asked)
		e.Expect(refused).To(BeEmpty())
	}
}

// caBundle returns the CA that the API server trusts, the same for every webhook.
func (e *engineer) caBundle() ([]byte, error) {
	validating := &admissionv1.ValidatingWebhookConfiguration{}
	mutating := &admissionv1.MutatingWebhookConfiguration{}
	name := client.ObjectKey{Name: "cardquota"}
	if err := errors.Join(e.Get(e.ctx, name, validating), e.Get(e.ctx, name, mutating)); err != nil {
		return nil, err
	}

	bundles := sets.New[string]()
	for _, webhook := range validating.Webhooks {
		bundles.Insert(string(webhook.ClientConfig.CABundle))
	}
	for _, webhook := range mutating.Webhooks {
		bundles.Insert(string(webhook.ClientConfig.CABundle))
	}

	if bundles.Len() != 1 {
		return nil, fmt.Errorf("the webhooks trust %d CAs", bundles.Len())
	}
	return validating.Webhooks[0].ClientConfig.CABundle, nil
}

// servingCertificate returns the certificate of a new connection to the webhooks, verified as
// the API server does.
func (e *engineer) servingCertificate(ctx context.Context) (*x509.Certificate, error) {
	service := &corev1.Service{}
	configuration := &admissionv1.ValidatingWebhookConfiguration{}
	if err := errors.Join(
		e.Get(ctx, client.ObjectKey{Name: "cardquota"}, configuration),
		e.Get(ctx, client.ObjectKey{Namespace: cluster.VolcanoNamespace, Name: "cardquota-webhook"}, service),
	); err != nil {
		return nil, err
	}

	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(configuration.Webhooks[0].ClientConfig.CABundle)
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()

	dialer := tls.Dialer{Config: &tls.Config{RootCAs: roots, ServerName: service.Name + "." + service.Namespace + ".svc"}}
	connection, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(service.Spec.ClusterIP, "443"))
	if err != nil {
		return nil, fmt.Errorf("connect to the webhooks: %w", err)
	}
	defer func() { _ = connection.Close() }()

	return connection.(*tls.Conn).ConnectionState().PeerCertificates[0], nil
}

// waitUntilCertificateChanged waits until another certificate is served.
func (e *engineer) waitUntilCertificateChanged(than *x509.Certificate) (now *x509.Certificate) {
	e.Eventually(func() (bool, error) {
		var err error
		now, err = e.servingCertificate(e.ctx)
		return err == nil && !now.Equal(than), err
	}).Should(BeTrue())
	return now
}

// certificateRevision returns how often a Certificate was issued, 0 while it is being issued.
func (e *engineer) certificateRevision(name string) (int64, error) {
	certificate := &unstructured.Unstructured{}
	certificate.SetAPIVersion("cert-manager.io/v1")
	certificate.SetKind("Certificate")
	if err := e.Get(e.ctx, client.ObjectKey{Namespace: cluster.VolcanoNamespace, Name: name}, certificate); err != nil {
		return 0, err
	}

	conditions, _, err := unstructured.NestedSlice(certificate.Object, "status", "conditions")
	if err != nil {
		return 0, err
	}

	for _, condition := range conditions {
		if c := condition.(map[string]any); c["type"] == "Issuing" && c["status"] == "True" {
			return 0, nil
		}
	}

	revision, _, err := unstructured.NestedInt64(certificate.Object, "status", "revision")
	return revision, err
}

// waitUntilIssued waits until cert-manager has finished a Certificate. It may be Ready before.
// cert-manager writes the Secret first and the revision after it, seconds later when that write
// conflicts with the one of Ready. Until then it answers a deleted Secret with the certificate
// that it already has.
func (e *engineer) waitUntilIssued(certificate string) (revision int64) {
	return e.waitUntilReissued(certificate, 0)
}

// waitUntilReissued waits until a Certificate is issued again. Twice is fine as well:
// cert-manager's caches may lag behind each other.
func (e *engineer) waitUntilReissued(certificate string, than int64) (revision int64) {
	e.Eventually(func() (int64, error) {
		var err error
		revision, err = e.certificateRevision(certificate)
		return revision, err
	}).WithTimeout(2*time.Minute).Should(BeNumerically(">", than), "revision of Certificate %s", certificate)
	return revision
}
