package certificates

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

const ca = corev1.ServiceAccountRootCAKey

// at renews by the clock of a moment.
func at(t *testing.T, now time.Time, data map[string][]byte) (map[string][]byte, bool) {
	t.Helper()
	self := &Self{namespace: "cards", now: func() time.Time { return now }}
	out, renewed, err := self.renew(data)
	if err != nil {
		t.Fatal(err)
	}
	return out, renewed
}

// trusts tells whether an API server with the authority trusts the certificate at
// a time.
func trusts(t *testing.T, data map[string][]byte, now time.Time) error {
	t.Helper()
	pair, err := tls.X509KeyPair(data[corev1.TLSCertKey], data[corev1.TLSPrivateKeyKey])
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(data[ca])
	_, err = pair.Leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: "cardquota-webhook.cards.svc", CurrentTime: now})
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
	elsewhere, _, err := (&Self{namespace: "other", now: func() time.Time { return now }}).renew(nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		after         time.Duration
		data          map[string][]byte
		server, keeps bool
	}{
		"fresh":                         {0, first, false, true},
		"a quarter of a year is left":   {274 * day, first, false, true},
		"less than that is left":        {276 * day, first, true, true},
		"it has run out":                {400 * day, first, true, true},
		"the authority runs out":        {3600 * day, first, true, false},
		"the clock went back":           {-2 * time.Hour, first, true, false},
		"the clock went back a little":  {-30 * time.Minute, first, false, true},
		"the server's key is lost":      {0, without(corev1.TLSPrivateKeyKey), true, true},
		"the authority's key is lost":   {0, without(authorityKey), true, false},
		"it is of another namespace":    {0, elsewhere, true, true},
		"somebody wrote something else": {0, map[string][]byte{ca: []byte("x"), corev1.TLSCertKey: []byte("y")}, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			got, renewed := at(t, now.Add(tc.after), tc.data)
			if renewed != tc.server {
				t.Errorf("renewed %v, want %v", renewed, tc.server)
			}
			if kept := bytes.Equal(got[ca], tc.data[ca]); kept != tc.keeps {
				t.Errorf("authority kept: %v, want %v", kept, tc.keeps)
			}
			if err := trusts(t, got, now.Add(tc.after)); err != nil {
				t.Errorf("not trusted: %v", err)
			}
		})
	}
}

func TestNothingIsServedBeforeThereIsACertificate(t *testing.T) {
	self := New("cards")
	if _, err := self.GetCertificate(nil); err == nil {
		t.Error("served something")
	}
	if err := self.Ready(nil); err == nil {
		t.Error("ready without a certificate")
	}
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	data, _ := at(t, now, nil)
	certificate, err := toServe(data)
	if err != nil {
		t.Fatal(err)
	}
	self.serving.Store(certificate)
	self.now = func() time.Time { return now }
	if err := self.Ready(nil); err == nil {
		t.Error("ready before the API server trusts it")
	}
	self.trusted.Store(true)
	if err := self.Ready(nil); err != nil {
		t.Error(err)
	}
	if served, err := self.GetCertificate(nil); err != nil || !bytes.Equal(served.Certificate[0], certificate.Leaf.Raw) {
		t.Errorf("serves another certificate: %v", err)
	}
}

// TestNotReadyOutsideOfItsTime: the API server would refuse the certificate.
func TestNotReadyOutsideOfItsTime(t *testing.T) {
	made := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	data, _ := at(t, made, nil)
	certificate, err := toServe(data)
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		now   time.Time
		ready bool
	}{
		"when it is made":          {made, true},
		"made by a clock that ran": {made.Add(-3 * time.Hour), false},
		"after its end":            {made.Add(serverLife + time.Hour), false},
	} {
		t.Run(name, func(t *testing.T) {
			self := &Self{namespace: "cards", now: func() time.Time { return tc.now }}
			self.serving.Store(certificate)
			self.trusted.Store(true)
			if err := self.Ready(nil); (err == nil) != tc.ready {
				t.Errorf("ready: %v, want %v", err, tc.ready)
			}
		})
	}
}
