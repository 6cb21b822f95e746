package boundedserver

import (
	"crypto/tls"
	"net"
	"net/http"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	certutil "k8s.io/client-go/util/cert"
	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"
)

// A reader with another token for each scrape costs the API server a review each time. These are the most
// that a server asks for.
const (
	reviewsPerSecond = 20
	reviewsAtOnce    = 40
)

// Authenticate returns a handler that requires a token that the API server knows (TokenReview) and that may get
// the path (SubjectAccessReview on the nonResourceURL). Any pod that reaches the port can cause reviews, so there
// is a limit of them. config and client are those of the API server.
func Authenticate(config *rest.Config, client *http.Client, log logr.Logger, handler http.Handler) (http.Handler, error) {
	config = rest.CopyConfig(config)
	config.QPS = reviewsPerSecond
	config.Burst = reviewsAtOnce
	filter, err := filters.WithAuthenticationAndAuthorization(config, client)
	if err != nil {
		return nil, err
	}
	return filter(log, handler)
}

// NewSelfSigned returns a configuration with a new certificate for a host, and for IP addresses. It protects tokens on
// their way, but does not prove the identity of the server.
func NewSelfSigned(host string, addresses ...net.IP) (*tls.Config, error) {
	certificate, key, err := certutil.GenerateSelfSignedCertKey(host, addresses, nil)
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(certificate, key)
	return &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}, err
}
