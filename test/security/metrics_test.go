package security

import (
	"crypto/tls"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"cardquota.dev/operator/internal/testing/check"
)

// TestMetricsAreForReadersOnly: metrics have the names of tenants, their quotas and workloads. Both programs serve
// them over TLS alone, and only to an account with the role cardquota-metrics-reader. No token, an invented one, or
// that of a tenant is refused.
func TestMetricsAreForReadersOnly(t *testing.T) {
	snoop := newToken(t, tenant, "snoop")
	reader := newToken(t, neighbour, "prometheus")
	createForTest(t, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "prometheus-cardquota"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cardquota-metrics-reader"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: neighbour, Name: "prometheus"}},
	})
	waitUntilMetricsReadable(t, neighbour, "prometheus")

	for t, page := range check.Cases(t, map[string]string{
		manager:   "https://" + suite.managerMetrics + "/metrics",
		scheduler: "https://" + suite.schedulerMetrics + "/metrics",
	}) {
		for who, tc := range map[string]struct {
			token string
			want  int
		}{
			"a client without a token": {"", http.StatusUnauthorized},
			// The API server's answer that the token is unknown is returned as an error.
			"an invented token":        {"invented", http.StatusInternalServerError},
			"a tenant's account":       {snoop, http.StatusForbidden},
			"an account with the role": {reader, http.StatusOK},
		} {
			code, body := readMetrics(t, page, tc.token)
			check.Equal(t, who, tc.want, code)
			check.Equal(t, who+" reads metrics", tc.want == http.StatusOK, strings.Contains(body, "# TYPE "))
		}

		code, _ := readMetrics(t, strings.Replace(page, "https:", "http:", 1), reader)
		check.That(t, code != http.StatusOK, "metrics are also served in the clear, where the token can be read on its way")
	}
}

// waitUntilMetricsReadable waits until the API server knows that a ServiceAccount may read
// metrics: the programs cache its answers for a while.
func waitUntilMetricsReadable(t *testing.T, namespace, name string) {
	newGomega(t).Eventually(func() (bool, error) {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User:                  "system:serviceaccount:" + namespace + ":" + name,
			NonResourceAttributes: &authorizationv1.NonResourceAttributes{Verb: "get", Path: "/metrics"},
		}}
		err := suite.admin.Create(t.Context(), review)
		return review.Status.Allowed, err
	}).Should(BeTrue())
}

// newToken returns a token of a new ServiceAccount.
func newToken(t *testing.T, namespace, name string) string {
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	createForTest(t, account)
	request := &authenticationv1.TokenRequest{}
	check.NoError(t, suite.admin.SubResource("token").Create(t.Context(), account, request))
	return request.Status.Token
}

// readMetrics gets a page; a refused connection has status 0.
func readMetrics(t *testing.T, page, token string) (int, string) {
	request := check.Value(http.NewRequestWithContext(t.Context(), http.MethodGet, page, nil))(t)
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	code, body, err := sendRequest(request)
	if err != nil {
		return 0, err.Error()
	}
	return code, string(body)
}

// sendRequest sends a request to a program with a self-signed certificate.
func sendRequest(request *http.Request) (int, []byte, error) {
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} //nolint:gosec // see above
	defer transport.CloseIdleConnections()
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return 0, nil, err
	}
	body, err := io.ReadAll(response.Body)
	return response.StatusCode, body, errors.Join(err, response.Body.Close())
}
