package main

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	apiserverwebhook "k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/client-go/rest"

	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/test/cluster"
)

// service is what the API server calls.
const (
	service   = "cardquota-webhook"
	namespace = "volcano-system"
)

// TestOnlyClientsOfTheAuthorityAreAnswered, with --webhook-client-ca-file; without
// it every client is. The API server is one of them with the kubeconfig of
// docs/admission.md.
func TestOnlyClientsOfTheAuthorityAreAnswered(t *testing.T) {
	dir := t.TempDir()
	ours := newAuthority(t, dir, "ours")
	others := newAuthority(t, dir, "others")
	ours.sign(t, "tls", x509.ExtKeyUsageServerAuth) // tls.crt and tls.key
	ours.sign(t, "client", x509.ExtKeyUsageClientAuth)
	others.sign(t, "stranger", x509.ExtKeyUsageClientAuth)

	with := func(name string) *rest.Config {
		return &rest.Config{TLSClientConfig: rest.TLSClientConfig{CertFile: filepath.Join(dir, name+".crt"), KeyFile: filepath.Join(dir, name+".key")}}
	}

	for t, authority := range check.Cases(t, map[string]string{"closed": filepath.Join(dir, "ours.crt"), "open": ""}) {
		port := check.Value(cluster.FreePort())(t)

		address := serve(t, flags{certificates: certificatesFiles, webhookPort: port, webhookCertDir: dir, webhookClientCA: authority})
		for who, tc := range map[string]struct {
			config   *rest.Config
			answered bool
		}{
			"nobody":         {&rest.Config{}, authority == ""},
			"a stranger":     {with("stranger"), authority == ""},
			"a server":       {with("tls"), authority == ""},
			"a client":       {with("client"), true},
			"the API server": {documented(t, dir), true},
		} {
			tc.config.CAFile = filepath.Join(dir, "ours.crt")
			err := ask(t, tc.config, address)
			check.That(t, tc.answered == (err == nil), "%s: %v, want answered: %v", who, err, tc.answered)
		}
	}
}

// TestAuthoritiesOfClientsFollowTheirFile: an authority is replaced without a restart. The kubelet replaces the
// link of a ConfigMap's file, as the test does.
func TestAuthoritiesOfClientsFollowTheirFile(t *testing.T) {
	dir := t.TempDir()
	ours := newAuthority(t, dir, "ours")
	next := newAuthority(t, dir, "next")
	ours.sign(t, "tls", x509.ExtKeyUsageServerAuth)
	ours.sign(t, "client", x509.ExtKeyUsageClientAuth)
	next.sign(t, "newclient", x509.ExtKeyUsageClientAuth)

	file := filepath.Join(dir, "ca.crt")
	check.NoError(t, os.Symlink(filepath.Join(dir, "ours.crt"), file))
	port := check.Value(cluster.FreePort())(t)

	address := serve(t, flags{certificates: certificatesFiles, webhookPort: port, webhookCertDir: dir, webhookClientCA: file})
	isAnswered := func(name string) bool {
		return ask(t, &rest.Config{TLSClientConfig: rest.TLSClientConfig{
			CertFile: filepath.Join(dir, name+".crt"), KeyFile: filepath.Join(dir, name+".key"), CAFile: filepath.Join(dir, "ours.crt"),
		}}, address) == nil
	}
	check.That(t, isAnswered("client") && !isAnswered("newclient"), "the first authority is not the one that counts")

	replacement := filepath.Join(dir, "replacement")
	check.NoError(t, os.Symlink(filepath.Join(dir, "next.crt"), replacement))
	check.NoError(t, os.Rename(replacement, file))
	check.NoError(t, os.Remove(filepath.Join(dir, "ours.crt")))
	check.NoError(t, os.WriteFile(filepath.Join(dir, "ours.crt"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ours.certificate.Raw}), 0o600))

	for range 300 {
		if isAnswered("newclient") {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}

	check.That(t, isAnswered("newclient"), "a client of the new authority is refused")
	check.That(t, !isAnswered("client"), "a client of the old authority is answered")
}

func TestWithoutAnAuthorityThereIsNoServer(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty")
	check.NoError(t, os.WriteFile(empty, []byte("no certificate"), 0o600))
	for file, want := range map[string]string{empty: "holds no certificate", empty + ".missing": "no such file"} {
		_, err := newWebhookServer(flags{certificates: certificatesFiles, webhookClientCA: file})
		check.That(t, err != nil && strings.Contains(err.Error(), want), "error %v, want %q", err, want)
	}
}

// serve runs the webhook server with one webhook and waits until it is ready.
func serve(t *testing.T, f flags) (address string) {
	h, err := newWebhookServer(f)
	check.NoError(t, err)

	h.server.Register("/yes", http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- h.server.Start(ctx) }()

	t.Cleanup(func() {
		stop()
		check.NoError(t, <-ended)
	})

	started := h.startedCheck()
	for range 200 {
		err = started(nil)
		if err == nil {
			return fmt.Sprintf("127.0.0.1:%d", f.webhookPort)
		}
		time.Sleep(50 * time.Millisecond)
	}

	check.NoError(t, err)
	return ""
}

// ask calls the webhook as the API server does, by the name of its Service.
func ask(t *testing.T, config *rest.Config, address string) error {
	host := service + "." + namespace + ".svc"
	config.ServerName = host
	config.NextProtos = []string{"http/1.1"}
	config.Dial = func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "tcp", address)
	}

	client := check.Value(rest.HTTPClientFor(config))(t)
	defer client.CloseIdleConnections()

	response, err := client.Post("https://"+host+"/yes", "application/json", strings.NewReader("{}"))
	if err != nil {
		return err
	}

	return response.Body.Close()
}

// documented is what an API server calls the webhooks with, given the kubeconfig
// of docs/admission.md and the files that it names.
func documented(t *testing.T, dir string) *rest.Config {
	page := check.Value(os.ReadFile(filepath.Join("..", "..", "docs", "admission.md")))(t)

	const head = "    apiVersion: v1\n    kind: Config\n"
	_, body, found := strings.Cut(string(page), head)
	body, _, closed := strings.Cut(body, "    ```")
	check.Must(t, found && closed, "docs/admission.md shows no kubeconfig")

	text := strings.ReplaceAll("\n"+head+body, "\n    ", "\n")
	file := filepath.Join(t.TempDir(), "kubeconfig")
	check.NoError(t, os.WriteFile(file, []byte(strings.ReplaceAll(text, "/etc/kubernetes/cardquota/", dir+"/")), 0o600))
	resolver := check.Value(apiserverwebhook.NewDefaultAuthenticationInfoResolver(file))(t)

	return check.Value(resolver.ClientConfigForService(service, namespace, 443))(t)
}
