package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"

	"cardquota.dev/operator/internal/testing/check"
)

// authority signs certificates. All files are in dir.
type authority struct {
	dir         string
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

// newAuthority is written as <name>.crt.
func newAuthority(t *testing.T, dir, name string) *authority {
	a := &authority{dir: dir, key: newKey(t)}
	template := certificate(name)
	template.IsCA = true
	template.BasicConstraintsValid = true
	template.KeyUsage = x509.KeyUsageCertSign
	a.certificate = template
	a.certificate = check.Value(x509.ParseCertificate(a.write(t, name, template, a.key)))(t)

	return a
}

// sign writes <name>.crt and <name>.key.
func (a *authority) sign(t *testing.T, name string, usage x509.ExtKeyUsage) {
	template := certificate(name)
	template.ExtKeyUsage = []x509.ExtKeyUsage{usage}
	template.DNSNames = []string{service + "." + namespace + ".svc"}
	key := newKey(t)
	a.write(t, name, template, key)
	store(t, filepath.Join(a.dir, name+".key"), "EC PRIVATE KEY", check.Value(x509.MarshalECPrivateKey(key))(t))
}

func (a *authority) write(t *testing.T, name string, template *x509.Certificate, key *ecdsa.PrivateKey) []byte {
	signed := check.Value(x509.CreateCertificate(rand.Reader, template, a.certificate, key.Public(), a.key))(t)
	store(t, filepath.Join(a.dir, name+".crt"), "CERTIFICATE", signed)
	return signed
}

func certificate(name string) *x509.Certificate {
	return &x509.Certificate{SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	return check.Value(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
}

func store(t *testing.T, file, kind string, data []byte) {
	check.NoError(t, os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: data}), 0o600))
}
