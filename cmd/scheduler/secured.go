package main

import (
	"crypto/tls"
	"fmt"
	"net/http"

	"k8s.io/client-go/rest"
	certutil "k8s.io/client-go/util/cert"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"
)

// secured lets only those read who may: every request carries a token, which the API server
// knows (TokenReview) and whose owner may get the path (SubjectAccessReview on the
// nonResourceURL). It is served with the certificate of --tls-cert-file, and without one with
// a certificate of its own, made at the start: what it protects then is the token on its way
// from prying, not the reader from a false server.
func secured(config *rest.Config, handler http.Handler, certificate *tls.Config) (http.Handler, *tls.Config, error) {
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, nil, fmt.Errorf("API server: %w", err)
	}
	filter, err := filters.WithAuthenticationAndAuthorization(config, client)
	if err != nil {
		return nil, nil, fmt.Errorf("authentication of readers: %w", err)
	}
	if handler, err = filter(klog.Background().WithName("metrics"), handler); err != nil {
		return nil, nil, fmt.Errorf("authentication of readers: %w", err)
	}
	if certificate != nil {
		return handler, certificate, nil
	}
	cert, key, err := certutil.GenerateSelfSignedCertKey("cardquota-scheduler", nil, nil)
	if err != nil {
		return nil, nil, fmt.Errorf("make a serving certificate: %w", err)
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, nil, fmt.Errorf("make a serving certificate: %w", err)
	}
	return handler, &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}, nil
}
