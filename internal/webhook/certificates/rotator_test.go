package certificates

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"maps"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"cardquota.dev/operator/internal/testing/check"
)

const ca = corev1.ServiceAccountRootCAKey

// renewAt renews a stored certificate at a time, in a namespace. It reports whether anything was renewed.
func renewAt(t *testing.T, now time.Time, namespace string, stored map[string][]byte) (renewed map[string][]byte, isRenewed bool) {
	rotator := &Rotator{namespace: namespace, now: func() time.Time { return now }}
	renewed, isRenewed, err := rotator.renewCertificate(stored)
	check.NoError(t, err)
	return renewed, isRenewed
}

// withoutKey returns stored data without one key.
func withoutKey(stored map[string][]byte, key string) map[string][]byte {
	rest := maps.Clone(stored)
	delete(rest, key)
	return rest
}

// verify returns why an API server with the stored authority does not trust the certificate at a time.
func verify(t *testing.T, data map[string][]byte, now time.Time) error {
	pair := check.Value(tls.X509KeyPair(data[corev1.TLSCertKey], data[corev1.TLSPrivateKeyKey]))(t)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(data[ca])
	_, err := pair.Leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: "cardquota-webhook.cards.svc", CurrentTime: now})
	return err
}

// TestCertificateIsRenewedInTime: the webhooks' certificate is valid for a year and renewed 90 days before its end.
// Its authority lives ten years and is kept, so that the API server trusts old and new certificates meanwhile. Both
// are valid from one hour before they are made, because clocks differ. Whatever is missing, unreadable, too old, not
// valid yet or of another namespace is made again. Without the authority's key, or near the authority's end, both are
// made again. The API server trusts the result in every row.
func TestCertificateIsRenewedInTime(t *testing.T) {
	const day = 24 * time.Hour

	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	first, _ := renewAt(t, now, "cards", nil)
	check.NoError(t, verify(t, first, now))
	ofOtherNamespace, _ := renewAt(t, now, "other", nil)

	for t, tc := range check.Cases(t, map[string]struct {
		after          time.Duration
		stored         map[string][]byte
		wantRenewed    bool
		keepsAuthority bool
	}{
		"a new certificate":           {stored: first, keepsAuthority: true},
		"274 days later, 91 are left": {after: 274 * day, stored: first, keepsAuthority: true},
		"276 days later, 89 are left": {
			after:          276 * day,
			stored:         first,
			wantRenewed:    true,
			keepsAuthority: true,
		},
		"400 days later, the certificate has expired": {
			after:          400 * day,
			stored:         first,
			wantRenewed:    true,
			keepsAuthority: true,
		},
		"3600 days later, the authority is near its end":                  {after: 3600 * day, stored: first, wantRenewed: true},
		"the clock went back two hours, the certificate is not valid yet": {after: -2 * time.Hour, stored: first, wantRenewed: true},
		"the clock went back half an hour":                                {after: -30 * time.Minute, stored: first, keepsAuthority: true},
		"the key of the certificate is lost": {
			stored:         withoutKey(first, corev1.TLSPrivateKeyKey),
			wantRenewed:    true,
			keepsAuthority: true,
		},
		"the authority's key is lost": {stored: withoutKey(first, caKeyName), wantRenewed: true},
		"the certificate is for another namespace": {
			stored:         ofOtherNamespace,
			wantRenewed:    true,
			keepsAuthority: true,
		},
		"another client wrote something else into the Secret": {
			stored:      map[string][]byte{ca: []byte("x"), corev1.TLSCertKey: []byte("y")},
			wantRenewed: true,
		},
	}) {
		got, isRenewed := renewAt(t, now.Add(tc.after), "cards", tc.stored)
		check.Equal(t, "renewed", tc.wantRenewed, isRenewed)
		check.Equal(t, "authority kept", tc.keepsAuthority, bytes.Equal(got[ca], tc.stored[ca]))
		check.NoError(t, verify(t, got, now.Add(tc.after)))
	}
}

// TestNotReadyWithoutATrustedCertificate: while a replica is not ready, the API server does not send it requests. It becomes
// ready once it serves a certificate and the webhook configuration has its CA.
func TestNotReadyWithoutATrustedCertificate(t *testing.T) {
	rotator := New("cards")
	_, err := rotator.GetCertificate(nil)
	check.That(t, err != nil, "a certificate is served before there is one")
	check.That(t, rotator.Ready(nil) != nil, "ready without a certificate")

	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	data, _ := renewAt(t, now, "cards", nil)
	certificate := check.Value(newServingCert(data))(t)
	rotator.serving.Store(certificate)
	rotator.now = func() time.Time { return now }
	check.That(t, rotator.Ready(nil) != nil, "ready before the API server trusts the certificate")

	rotator.trusted.Store(true)
	check.NoError(t, rotator.Ready(nil))
	served := check.Value(rotator.GetCertificate(nil))(t)
	check.That(t, bytes.Equal(served.Certificate[0], certificate.Leaf.Raw), "another certificate is served")
}

// TestNotReadyOutsideOfTheCertificatesTime: the API server refuses a certificate that is not valid yet, or has
// expired, by its clock. So a replica with such a certificate is not ready. A certificate is valid from one hour
// before it is made.
func TestNotReadyOutsideOfTheCertificatesTime(t *testing.T) {
	made := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	data, _ := renewAt(t, made, "cards", nil)
	certificate := check.Value(newServingCert(data))(t)

	for t, tc := range check.Cases(t, map[string]struct {
		now   time.Time
		ready bool
	}{
		"when it is made":               {made, true},
		"three hours before it is made": {made.Add(-3 * time.Hour), false},
		"an hour after its end":         {made.Add(certLifetime + time.Hour), false},
	}) {
		rotator := &Rotator{namespace: "cards", now: func() time.Time { return tc.now }}
		rotator.serving.Store(certificate)
		rotator.trusted.Store(true)
		check.Equal(t, "ready", tc.ready, rotator.Ready(nil) == nil)
	}
}
