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

// TestOnlyClientsOfTheAuthorityAreAnswered: with --webhook-client-ca-file the webhook server answers only clients whose
// certificate for clients was signed by the authority in that file. Without the flag it answers every client. The API
// server has such a certificate with the kubeconfig that docs/admission.md shows.
func TestOnlyClientsOfTheAuthorityAreAnswered(t *testing.T) {
	dir := t.TempDir()
	ours := newAuthority(t, dir, "ours")
	others := newAuthority(t, dir, "others")
	ours.sign(t, "tls", x509.ExtKeyUsageServerAuth) // tls.crt and tls.key
	ours.sign(t, "client", x509.ExtKeyUsageClientAuth)
	others.sign(t, "other-client", x509.ExtKeyUsageClientAuth)

	for t, tc := range check.Cases(t, map[string]struct {
		authority       string
		wantAllAnswered bool
	}{
		"with an authority":    {filepath.Join(dir, "ours.crt"), false},
		"without an authority": {"", true},
	}) {
		port := check.Value(cluster.FreePort())(t)
		address := serve(t, flags{certificates: certificatesFiles, webhookPort: port, webhookCertDir: dir, webhookClientCA: tc.authority})

		for client, config := range map[string]*rest.Config{
			"a client without a certificate":          {},
			"a client of another authority":           configWith(dir, "other-client"),
			"a client with a certificate for servers": configWith(dir, "tls"),
		} {
			check.Equal(t, client+" is answered", tc.wantAllAnswered, callWebhook(t, config, dir, address) == nil)
		}
		for client, config := range map[string]*rest.Config{
			"a client of the authority":                configWith(dir, "client"),
			"the API server by its kubeconfig of docs": readDocumentedConfig(t, dir),
		} {
			check.Equal(t, client+" is answered", true, callWebhook(t, config, dir, address) == nil)
		}
	}
}

// configWith returns the configuration of a client with a certificate and key of a folder.
func configWith(dir, name string) *rest.Config {
	return &rest.Config{TLSClientConfig: rest.TLSClientConfig{CertFile: filepath.Join(dir, name+".crt"), KeyFile: filepath.Join(dir, name+".key")}}
}

// TestAuthoritiesOfClientsFollowTheirFile: an administrator replaces the authority in its ConfigMap, without a
// restart of the operator. The kubelet replaces the link of the file, as the test does. Then the server answers
// clients of the new authority, and no longer those of the old one.
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
	isAnswered := func(name string) bool { return callWebhook(t, configWith(dir, name), dir, address) == nil }
	check.Equal(t, "a client of the first authority is answered", true, isAnswered("client"))
	check.Equal(t, "a client of the next authority is answered", false, isAnswered("newclient"))

	replacement := filepath.Join(dir, "replacement")
	check.NoError(t, os.Symlink(filepath.Join(dir, "next.crt"), replacement))
	check.NoError(t, os.Rename(replacement, file))

	// The kubelet also removes the old file. The clients accept the server by a file of this name, so it returns.
	check.NoError(t, os.Remove(filepath.Join(dir, "ours.crt")))
	check.NoError(t, os.WriteFile(filepath.Join(dir, "ours.crt"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ours.certificate.Raw}), 0o600))

	for range 300 { // for at most 6 seconds, until the server has read the new file
		if isAnswered("newclient") {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}

	check.Equal(t, "a client of the next authority is answered", true, isAnswered("newclient"))
	check.Equal(t, "a client of the first authority is answered", false, isAnswered("client"))
}

// TestAnAuthorityThatCannotBeReadIsRefused: the flag names a file without a certificate, or no file. A server that started
// anyway would answer every client, or none.
func TestAnAuthorityThatCannotBeReadIsRefused(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty")
	check.NoError(t, os.WriteFile(empty, []byte("no certificate"), 0o600))
	for file, want := range map[string]string{empty: "holds no certificate", empty + ".missing": "no such file"} {
		_, err := newWebhookServer(flags{certificates: certificatesFiles, webhookClientCA: file})
		check.Refused(t, err, want)
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

// callWebhook calls the webhook as the API server does, by the name of its Service. It accepts a server with a certificate
// of authority "ours" of the folder.
func callWebhook(t *testing.T, config *rest.Config, dir, address string) error {
	host := service + "." + namespace + ".svc"
	config.CAFile = filepath.Join(dir, "ours.crt")
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

// readDocumentedConfig returns how an API server calls the webhooks, given the kubeconfig of docs/admission.md. The
// files that it names are those of the folder.
func readDocumentedConfig(t *testing.T, dir string) *rest.Config {
	page := check.Value(os.ReadFile(filepath.Join("..", "..", "docs", "admission.md")))(t)

	const head = "    apiVersion: v1\n    kind: Config\n"
	_, body, found := strings.Cut(string(page), head)
	body, _, closed := strings.Cut(body, "    ```")
	check.Must(t, found && closed, "docs/admission.md shows no kubeconfig")

	text := strings.ReplaceAll("\n"+head+body, "\n    ", "\n")
	file := filepath.Join(t.TempDir(), "kubeconfig")
	check.NoError(t, os.WriteFile(file, []byte(strings.ReplaceAll(text, "/etc/kubernetes/cardquota/", dir+"/")), 0o600))
	return check.Value(check.Value(apiserverwebhook.NewDefaultAuthenticationInfoResolver(file))(t).ClientConfigForService(service, namespace, 443))(t)
}
