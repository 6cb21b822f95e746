package certificates

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"cardquota.dev/operator/internal/testing/check"
)

const ca = corev1.ServiceAccountRootCAKey

// at renews by the clock of a moment.
func at(t *testing.T, now time.Time, data map[string][]byte) (map[string][]byte, bool) {
	self := &Rotator{namespace: "cards", now: func() time.Time { return now }}
	out, renewed, err := self.renewCertificate(data)
	check.NoError(t, err)
	return out, renewed
}

// trusts reports whether an API server with the authority trusts the certificate at
// a time.
func trusts(t *testing.T, data map[string][]byte, now time.Time) error {
	pair := check.Value(tls.X509KeyPair(data[corev1.TLSCertKey], data[corev1.TLSPrivateKeyKey]))(t)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(data[ca])
	_, err := pair.Leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: "cardquota-webhook.cards.svc", CurrentTime: now})
	return err
}

func TestRenewal(t *testing.T) {
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	day := 24 * time.Hour
	first, made := at(t, now, nil)
	if err := trusts(t, first, now); !made || err != nil {
		t.Fatalf("made %v: %v", made, err)
	}

	without := func(key string) map[string][]byte {
		out := map[string][]byte{}
		for k, v := range first {
			if k != key {
				out[k] = v
			}
		}
		return out
	}

	elsewhere, _, err := (&Rotator{namespace: "other", now: func() time.Time { return now }}).renewCertificate(nil)
	check.NoError(t, err)
	for t, tc := range check.Cases(t, map[string]struct {
		after         time.Duration
		data          map[string][]byte
		server, keeps bool
	}{
		"fresh":                               {0, first, false, true},
		"a quarter of a year is left":         {274 * day, first, false, true},
		"less than that is left":              {276 * day, first, true, true},
		"it has run out":                      {400 * day, first, true, true},
		"the authority runs out":              {3600 * day, first, true, false},
		"the clock went back":                 {-2 * time.Hour, first, true, false},
		"the clock went back a little":        {-30 * time.Minute, first, false, true},
		"the server's key is lost":            {0, without(corev1.TLSPrivateKeyKey), true, true},
		"the authority's key is lost":         {0, without(caKeyName), true, false},
		"it is of another namespace":          {0, elsewhere, true, true},
		"another client wrote something else": {0, map[string][]byte{ca: []byte("x"), corev1.TLSCertKey: []byte("y")}, true, false},
	}) {
		got, renewed := at(t, now.Add(tc.after), tc.data)
		check.Equal(t, "renewed", tc.server, renewed)
		check.Equal(t, "authority kept", tc.keeps, bytes.Equal(got[ca], tc.data[ca]))
		err := trusts(t, got, now.Add(tc.after))
		check.That(t, err == nil, "not trusted: %v", err)
	}
}

func TestNothingIsServedBeforeThereIsACertificate(t *testing.T) {
	self := New("cards")
	if _, err := self.GetCertificate(nil); err == nil {
		t.Error("served something")
	}
	check.That(t, self.Ready(nil) != nil, "ready without a certificate")

	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	data, _ := at(t, now, nil)
	certificate := check.Value(newServingCert(data))(t)

	self.serving.Store(certificate)
	self.now = func() time.Time { return now }
	check.That(t, self.Ready(nil) != nil, "ready before the API server trusts it")

	self.trusted.Store(true)
	check.NoError(t, self.Ready(nil))
	if served, err := self.GetCertificate(nil); err != nil || !bytes.Equal(served.Certificate[0], certificate.Leaf.Raw) {
		t.Errorf("serves another certificate: %v", err)
	}
}

// TestNotReadyOutsideOfItsTime: the API server would refuse the certificate.
func TestNotReadyOutsideOfItsTime(t *testing.T) {
	made := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	data, _ := at(t, made, nil)
	certificate := check.Value(newServingCert(data))(t)

	for t, tc := range check.Cases(t, map[string]struct {
		now   time.Time
		ready bool
	}{
		"when it is made":          {made, true},
		"made by a clock that ran": {made.Add(-3 * time.Hour), false},
		"after its end":            {made.Add(certLifetime + time.Hour), false},
	}) {
		self := &Rotator{namespace: "cards", now: func() time.Time { return tc.now }}
		self.serving.Store(certificate)
		self.trusted.Store(true)
		err := self.Ready(nil)
		check.That(t, (err == nil) == tc.ready, "ready: %v, want %v", err, tc.ready)
	}
}
