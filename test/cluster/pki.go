package cluster

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// authority is the cluster's certificate authority.
type authority struct {
	dir  string // every file lies here
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

// keyPair has the paths of a certificate and its key.
type keyPair struct{ cert, key string }

const certValidity = 10 * 365 * 24 * time.Hour // a cluster that is kept up outlives any test

// newAuthority creates an authority: ca.crt and ca.key in dir.
func newAuthority(dir string) (*authority, error) {
	ca := &authority{dir: dir}
	files, err := ca.issueCert("ca", &x509.Certificate{
		Subject:  pkix.Name{CommonName: "cardquota-cluster-ca"},
		KeyUsage: x509.KeyUsageCertSign, IsCA: true, BasicConstraintsValid: true,
	})
	if err == nil {
		ca.pem, err = os.ReadFile(files.cert)
	}
	return ca, err
}

// issueClientCert issues a certificate that authenticates as user in groups.
func (a *authority) issueClientCert(name, user string, groups ...string) (keyPair, error) {
	return a.issueCert(name, &x509.Certificate{
		Subject:     pkix.Name{CommonName: user, Organization: groups},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
}

// issueServingCert issues a serving certificate for hosts: DNS names and IP addresses.
func (a *authority) issueServingCert(name string, hosts ...string) (keyPair, error) {
	template := &x509.Certificate{
		Subject:     pkix.Name{CommonName: name},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}

	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	return a.issueCert(name, template)
}

// issueCert creates a key and a certificate. The first certificate of an authority is its own.
func (a *authority) issueCert(name string, template *x509.Certificate) (files keyPair, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("certificate %s: %w", name, err)
		}
	}()

	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return keyPair{}, err
	}

	template.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 100))
	if err != nil {
		return keyPair{}, err
	}

	template.NotBefore = time.Now().Add(-time.Hour)
	template.NotAfter = time.Now().Add(certValidity)
	template.KeyUsage |= x509.KeyUsageDigitalSignature
	if a.cert == nil {
		a.cert = template
		a.key = key
	}

	public, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		return keyPair{}, err
	}

	private, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return keyPair{}, err
	}

	files = keyPair{cert: filepath.Join(a.dir, name+".crt"), key: filepath.Join(a.dir, name+".key")}
	return files, errors.Join(writePEM(files.cert, "CERTIFICATE", public), writePEM(files.key, "EC PRIVATE KEY", private))
}

func writePEM(path, kind string, der []byte) error {
	return os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
}
