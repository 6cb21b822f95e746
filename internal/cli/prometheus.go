package cli

import (
	"bytes"
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/prometheus/client_golang/api"
	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// prometheusVariable is the environment variable that names Prometheus.
const prometheusVariable = "CARDQUOTA_PROMETHEUS"

const (
	// queryTimeout bounds one query, unless the user writes --request-timeout. Prometheus ends a query
	// after two minutes by default.
	queryTimeout = 3 * time.Minute
	// maxAnswer bounds the size of one answer.
	maxAnswer = 256 << 20
)

// prometheusFlags name a Prometheus, and how to reach it.
type prometheusFlags struct {
	address, service  string
	tokenFile, caFile string
	skipVerification  bool
}

func (f *prometheusFlags) addFlags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.address, "prometheus", "", "The URL of Prometheus. The environment variable "+prometheusVariable+" is its default.")
	cmd.Flags().StringVar(&f.service, "service", "", "The Service of Prometheus, as NAMESPACE/NAME:PORT. The API server passes the queries on, with your own rights: you need the right to get services/proxy. "+
		"Write NAMESPACE/https:NAME:PORT if it serves TLS.")
	cmd.Flags().StringVar(&f.tokenFile, "prometheus-token-file", "", "A file with a bearer token for --prometheus. The token of your kubeconfig is never sent there.")
	cmd.Flags().StringVar(&f.caFile, "prometheus-ca-file", "", "A file with the certificate authority of --prometheus. By default that of the system.")
	cmd.Flags().BoolVar(&f.skipVerification, "prometheus-insecure-tls", false, "Do not check the certificate of --prometheus.")
}

// isSet reports whether the user names a Prometheus.
func (f *prometheusFlags) isSet() bool {
	isFlag := f.address != "" || f.service != "" || f.tokenFile != "" || f.caFile != "" || f.skipVerification
	return isFlag || os.Getenv(prometheusVariable) != ""
}

// prometheusConnection is a client of Prometheus, and how messages name it.
type prometheusConnection struct {
	client api.Client
	name   string
	// usesService reports whether the API server passes the queries on.
	usesService bool
}

// connectPrometheus returns a client of Prometheus. It sends no request yet.
func (p *program) connectPrometheus(f prometheusFlags) (*prometheusConnection, error) {
	if f.service != "" {
		return p.connectService(f)
	}
	given := f.address
	if given == "" {
		given = os.Getenv(prometheusVariable)
	}
	if given == "" {
		return nil, errors.New("say where Prometheus is: --prometheus URL, the environment variable " + prometheusVariable + ", or --service NAMESPACE/NAME:PORT, such as monitoring/prometheus-k8s:9090")
	}
	address, err := url.Parse(given)
	if err != nil || address.Host == "" || address.Scheme != "http" && address.Scheme != "https" {
		return nil, errors.New("--prometheus is no URL: write for example https://prometheus.example.com or http://localhost:9090")
	}
	transport, err := f.newTransport(address)
	if err != nil {
		return nil, err
	}
	timeout, err := p.writtenTimeout()
	if err != nil {
		return nil, err
	}
	client, err := newPrometheusClient(address, &http.Client{Transport: transport, Timeout: timeout})
	if err != nil {
		return nil, err
	}
	return &prometheusConnection{client: client, name: "Prometheus at " + address.Redacted()}, nil
}

// writtenTimeout returns --request-timeout, 0 if it is not written.
func (p *program) writtenTimeout() (time.Duration, error) {
	timeout, err := clientcmd.ParseTimeout(*p.flags.Timeout)
	if err != nil {
		return 0, fmt.Errorf("--request-timeout: %w", err)
	}
	return timeout, nil
}

// newTransport returns a transport that sends the token, if there is one.
func (f prometheusFlags) newTransport(address *url.URL) (http.RoundTripper, error) {
	base, ok := http.DefaultTransport.(*http.Transport)
	if !ok {
		return nil, errors.New("the default transport of net/http was replaced")
	}
	transport := base.Clone()
	transport.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: f.skipVerification} // the user asks for it
	if f.caFile != "" {
		authority, err := os.ReadFile(f.caFile)
		if err != nil {
			return nil, fmt.Errorf("read --prometheus-ca-file: %w", err)
		}
		transport.TLSClientConfig.RootCAs = x509.NewCertPool()
		if !transport.TLSClientConfig.RootCAs.AppendCertsFromPEM(authority) {
			return nil, fmt.Errorf("read --prometheus-ca-file: %s has no certificate", f.caFile)
		}
	}
	if f.tokenFile == "" {
		return transport, nil
	}
	token, err := os.ReadFile(f.tokenFile)
	if err != nil {
		return nil, fmt.Errorf("read --prometheus-token-file: %w", err)
	}
	if address.Scheme != "https" && !isLoopback(address.Hostname()) {
		return nil, errors.New("--prometheus-token-file: the token would be sent without encryption: use an https URL")
	}
	return &tokenTransport{strings.TrimSpace(string(token)), transport}, nil
}

func isLoopback(host string) bool {
	address := net.ParseIP(host)
	return host == "localhost" || address != nil && address.IsLoopback()
}

// tokenTransport adds a bearer token to each request.
type tokenTransport struct {
	token string
	next  http.RoundTripper
}

func (t *tokenTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	request = request.Clone(request.Context())
	request.Header.Set("Authorization", "Bearer "+t.token)
	return t.next.RoundTrip(request)
}

var servicePattern = regexp.MustCompile(`^([a-z0-9-]+)/((?:https?:)?[a-z0-9-]+:[a-z0-9-]+)(/[-._~a-zA-Z0-9/]*)?$`)

// connectService returns a client that reaches Prometheus through the API server.
func (p *program) connectService(f prometheusFlags) (*prometheusConnection, error) {
	found := servicePattern.FindStringSubmatch(f.service)
	switch {
	case found == nil:
		return nil, fmt.Errorf("--service %.80q: write NAMESPACE/NAME:PORT, such as monitoring/prometheus-k8s:9090", f.service)
	case f.address != "":
		return nil, errors.New("write --prometheus or --service, but not both")
	case f.tokenFile != "" || f.caFile != "" || f.skipVerification:
		return nil, errors.New("the flags --prometheus-... are for --prometheus: with --service the API server authenticates you")
	}
	config, err := p.flags.ToRESTConfig()
	if err != nil {
		return nil, err
	}
	address, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, err
	}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	address = address.JoinPath("api", "v1", "namespaces", found[1], "services", found[2], "proxy", found[3])
	connected, err := newPrometheusClient(address, client)
	if err != nil {
		return nil, err
	}
	return &prometheusConnection{client: connected, name: "Service " + found[1] + "/" + found[2], usesService: true}, nil
}

// newPrometheusClient returns a client that only reads: it sends GET requests, and follows no
// redirect, which could lead a token elsewhere.
func newPrometheusClient(address *url.URL, client *http.Client) (api.Client, error) {
	next := client.Transport
	if next == nil {
		next = http.DefaultTransport
	}
	reader := &http.Client{
		Transport: &getTransport{next}, Timeout: cmp.Or(client.Timeout, queryTimeout),
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return api.NewClient(api.Config{Address: address.String(), Client: reader})
}

// getTransport turns the forms that the client posts into GET requests, because a user with the
// right to get services/proxy may lack the one to create it. It bounds the answers.
type getTransport struct{ next http.RoundTripper }

func (t *getTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	request = request.Clone(request.Context())
	if request.Method == http.MethodPost && request.Body != nil {
		form, err := io.ReadAll(request.Body)
		_ = request.Body.Close()
		if err != nil {
			return nil, err
		}
		request.Method, request.Body, request.GetBody, request.ContentLength = http.MethodGet, nil, nil, 0
		request.URL.RawQuery = string(bytes.TrimSpace(form))
		request.Header.Del("Content-Type")
	}
	response, err := t.next.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	response.Body = &boundedBody{response.Body, maxAnswer}
	return response, nil
}

var errAnswerTooLarge = fmt.Errorf("an answer has more than %d MiB", maxAnswer>>20)

// boundedBody refuses to read more than some bytes.
type boundedBody struct {
	io.ReadCloser
	left int64
}

func (b *boundedBody) Read(into []byte) (int, error) {
	n, err := b.ReadCloser.Read(into)
	if b.left -= int64(n); b.left < 0 {
		return 0, errAnswerTooLarge
	}
	return n, err
}
