package cluster

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// authority is the cluster's own certificate authority.
type authority struct {
	dir  string // every file lies here
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

// keyPair names the files of a certificate and its key.
type keyPair struct{ cert, key string }

const validity = 10 * 365 * 24 * time.Hour // a cluster that is kept up outlives any test

// newAuthority makes a new authority: ca.crt, ca.key in dir.
func newAuthority(dir string) (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("ca key: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		Subject:               pkix.Name{CommonName: "cardquota-cluster-ca"},
		NotBefore:             time.Now().Add(-time.Hour),
		NotAfter:              time.Now().Add(validity),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		IsCA:                  true,
		BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("ca certificate: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("ca certificate: %w", err)
	}
	ca := &authority{dir: dir, cert: cert, key: key, pem: pemBlock("CERTIFICATE", der)}
	if _, err := ca.write("ca", der, key); err != nil {
		return nil, err
	}
	return ca, nil
}

// client issues a certificate that authenticates as user in groups.
func (a *authority) client(name, user string, groups ...string) (keyPair, error) {
	return a.issue(name, &x509.Certificate{
		Subject:     pkix.Name{CommonName: user, Organization: groups},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
}

// server issues a serving certificate for hosts: DNS names and IP addresses.
func (a *authority) server(name string, hosts ...string) (keyPair, error) {
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
	return a.issue(name, template)
}

func (a *authority) issue(name string, template *x509.Certificate) (keyPair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return keyPair{}, fmt.Errorf("key of %s: %w", name, err)
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 100))
	if err != nil {
		return keyPair{}, fmt.Errorf("serial number of %s: %w", name, err)
	}
	template.SerialNumber = serial
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(validity)
	template.KeyUsage = x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		return keyPair{}, fmt.Errorf("certificate of %s: %w", name, err)
	}
	return a.write(name, der, key)
}

// signingKey makes the key pair that signs and checks ServiceAccount tokens.
func (a *authority) signingKey(name string) (keyPair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return keyPair{}, fmt.Errorf("key of %s: %w", name, err)
	}
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return keyPair{}, fmt.Errorf("public key of %s: %w", name, err)
	}
	return a.writePEM(name, ".pub", pemBlock("PUBLIC KEY", public), key)
}

func (a *authority) write(name string, der []byte, key *ecdsa.PrivateKey) (keyPair, error) {
	return a.writePEM(name, ".crt", pemBlock("CERTIFICATE", der), key)
}

func (a *authority) writePEM(name, extension string, public []byte, key *ecdsa.PrivateKey) (keyPair, error) {
	private, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return keyPair{}, fmt.Errorf("key of %s: %w", name, err)
	}
	files := keyPair{cert: filepath.Join(a.dir, name+extension), key: filepath.Join(a.dir, name+".key")}
	if err := os.WriteFile(files.cert, public, 0o644); err != nil {
		return keyPair{}, fmt.Errorf("certificate of %s: %w", name, err)
	}
	if err := os.WriteFile(files.key, pemBlock("EC PRIVATE KEY", private), 0o600); err != nil {
		return keyPair{}, fmt.Errorf("key of %s: %w", name, err)
	}
	return files, nil
}

func pemBlock(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}
