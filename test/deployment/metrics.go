package deployment

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"cardquota.dev/operator/test/cluster"
)

// metricsEndpoint is where a program serves its metrics.
type metricsEndpoint struct {
	process int
	url     string
	// token is sent over TLS, "" for plain HTTP.
	token string
}

// metricsReader is the ServiceAccount that reads metrics over TLS.
const metricsReader = "test-metrics-reader"

// metricsReaderManifest gives it the shipped right.
const metricsReaderManifest = `
{apiVersion: v1, kind: ServiceAccount, metadata: {name: ` + metricsReader + `, namespace: ` + Namespace + `}}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: ` + metricsReader + `},
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cardquota-metrics-reader},
subjects: [{kind: ServiceAccount, name: ` + metricsReader + `, namespace: ` + Namespace + `}]}
`

// createMetricsReader creates the ServiceAccount that reads metrics, and a token of it.
func (d *Deployment) createMetricsReader(ctx context.Context) error {
	if err := d.cluster.Apply(ctx, []byte(metricsReaderManifest)); err != nil {
		return err
	}
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To(int64((12 * time.Hour).Seconds()))}}
	token, err := d.cluster.Client().CoreV1().ServiceAccounts(Namespace).CreateToken(ctx, metricsReader, request, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("token of a reader of metrics: %w", err)
	}
	d.metricsToken = token.Status.Token
	return nil
}

// newMetricsEndpoint returns a free address for metrics, and the flags of a program that serves them
// there.
func (d *Deployment) newMetricsEndpoint(flag string) (at *metricsEndpoint, flags []string, err error) {
	address, err := cluster.FreeAddress()
	if err != nil {
		return nil, nil, err
	}
	flags = []string{"--" + flag + "=" + address}
	if !d.options.SecureMetrics {
		return &metricsEndpoint{url: "http://" + address + "/metrics"}, flags, nil
	}
	return &metricsEndpoint{url: "https://" + address + "/metrics", token: d.metricsToken}, append(flags, "--secure-metrics=true"), nil
}

// tlsClient trusts the self-signed certificates of the programs.
var tlsClient = &http.Client{
	Timeout:   20 * time.Second,
	Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}, //nolint:gosec // see above
}

// read returns the page.
func (at *metricsEndpoint) read(ctx context.Context) ([]byte, error) {
	if at == nil {
		return nil, errors.New("the program was not started, or serves no metrics")
	}
	if !strings.HasPrefix(at.url, "https:") {
		return cluster.HTTPGet(ctx, at.url)
	}

	request, err := http.NewRequestWithContext(ctx, http.MethodGet, at.url, nil)
	if err != nil {
		return nil, err
	}

	request.Header.Set("Authorization", "Bearer "+at.token)
	return cluster.ReadPage(tlsClient, request)
}

// ProgramMetrics is what one program served: the process, when it was asked and had answered, and
// the page. Without an answer it has only the process that was asked.
type ProgramMetrics struct {
	PID             int
	Asked, Answered time.Time
	Page            []byte
}

// ManagerMetrics returns the metrics of the operator that was started last. Without
// Options.SecureMetrics it serves none.
func (d *Deployment) ManagerMetrics(ctx context.Context) (ProgramMetrics, error) {
	return d.managerMetrics.Load().metrics(ctx)
}

// SchedulerMetrics returns the metrics of the scheduler that was started last.
func (d *Deployment) SchedulerMetrics(ctx context.Context) (ProgramMetrics, error) {
	return d.metricsSource.Load().metrics(ctx)
}

func (at *metricsEndpoint) metrics(ctx context.Context) (ProgramMetrics, error) {
	if at == nil {
		return ProgramMetrics{Asked: time.Now()}, errors.New("the program was not started, or serves no metrics")
	}
	asked := time.Now()
	page, err := at.read(ctx)
	if err != nil {
		return ProgramMetrics{PID: at.process, Asked: asked}, err
	}
	return ProgramMetrics{PID: at.process, Asked: asked, Answered: time.Now(), Page: page}, nil
}
