package cluster_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"cardquota.dev/operator/test/cluster"
)

// TestApiserverReachesAWebhookThroughItsService serves a real webhook from this process,
// registered by its Service's name as on a real cluster.
func TestApiserverReachesAWebhookThroughItsService(t *testing.T) {
	g := NewWithT(t)
	c := whole(t)
	address, err := cluster.ServiceAddress()
	if err != nil {
		t.Skipf("%s is skipped: %v", t.Name(), err)
	}
	certFile, keyFile, err := c.ServingCertificate("test-webhook", "test-webhook.default.svc")
	g.Expect(err).NotTo(HaveOccurred())
	listener, err := net.Listen("tcp", net.JoinHostPort(address, "0"))
	g.Expect(err).NotTo(HaveOccurred())
	server := &http.Server{Handler: http.HandlerFunc(refuseEverything), ReadHeaderTimeout: 5 * time.Second}
	go func() { _ = server.ServeTLS(listener, certFile, keyFile) }()
	t.Cleanup(func() { _ = server.Close() })
	_, port, err := net.SplitHostPort(listener.Addr().String())
	g.Expect(err).NotTo(HaveOccurred())
	number, err := strconv.Atoi(port)
	g.Expect(err).NotTo(HaveOccurred())

	g.Expect(c.ExposeService(t.Context(), "default", "test-webhook", number)).To(Succeed())
	g.Expect(c.ExposeService(t.Context(), "default", "test-webhook", number)).To(Succeed(), "a second time")
	g.Expect(c.Apply(t.Context(), fmt.Appendf(nil, `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: test-webhook}
webhooks:
- name: refuse.test.cardquota.dev
  admissionReviewVersions: [v1]
  sideEffects: None
  failurePolicy: Fail
  clientConfig:
    caBundle: %s
    service: {namespace: default, name: test-webhook, path: /refuse}
  objectSelector: {matchLabels: {test: refuse-me}}
  rules:
  - {apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}
`, base64.StdEncoding.EncodeToString(c.CABundle())))).To(Succeed())

	g.Eventually(func() error {
		_, err := c.Client().CoreV1().ConfigMaps("default").Create(t.Context(), &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{GenerateName: "refused-", Labels: map[string]string{"test": "refuse-me"}},
		}, metav1.CreateOptions{})
		return err
	}, "10s", "100ms").Should(MatchError(ContainSubstring("no, says /refuse")))
}

func refuseEverything(w http.ResponseWriter, r *http.Request) {
	var review admissionv1.AdmissionReview
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil || review.Request == nil {
		http.Error(w, "not an admission review", http.StatusBadRequest)
		return
	}
	review.Response = &admissionv1.AdmissionResponse{
		UID:    review.Request.UID,
		Result: &metav1.Status{Message: "no, says " + r.URL.Path},
	}
	review.Request = nil
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(review)
}
