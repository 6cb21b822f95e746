package cli

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"cardquota.dev/operator/internal/testing/check"
)

// TestManifestsOfAURL: a web server that does not answer is not the API server.
func TestManifestsOfAURL(t *testing.T) {
	ended := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/serve.yaml":
			http.ServeFile(w, r, filepath.Join("testdata", "serve.yaml"))
		case "/silent.yaml":
			select {
			case <-r.Context().Done():
			case <-ended:
			}
		case "/half.yaml":
			w.Header().Set("Content-Length", "100")

			_, _ = io.WriteString(w, "kind: Pod")
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(ended) })

	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()

	execute(t, sharedFleet(), interceptor.Funcs{}, "whatif", "-n", "lab", "-f", server.URL+"/serve.yaml").exits(exitOK)
	for address, want := range map[string]string{
		server.URL + "/none.yaml":  "/none.yaml: the server answers 404 Not Found",
		server.URL + "/half.yaml":  "/half.yaml: unexpected EOF",
		closed.URL + "/serve.yaml": "/serve.yaml: connection refused",
		"https://[none/serve.yaml": "https://[none/serve.yaml: ",
	} {
		r := execute(t, sharedFleet(), interceptor.Funcs{}, "whatif", "-n", "lab", "-f", address)
		text := strings.Join(strings.Fields(r.errOut), " ")
		check.That(t, r.code == exitError && !strings.Contains(text, "API server") && !strings.Contains(text, "--context"), "%s: exit code %d: %s", address, r.code, text)
		check.Contains(t, address, text, "error: read --filename: ", want)
	}

	silent := manifestFiles{names: []string{server.URL + "/silent.yaml"}, timeout: 10 * time.Millisecond}
	_, err := silent.readObjects(nil)
	check.Refused(t, err, "/silent.yaml does not answer in time")

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	silent.context = func() context.Context { return ctx }
	silent.timeout = 0
	_, err = silent.readObjects(nil)
	check.That(t, errors.Is(err, context.Canceled), "error %v", err)
}

// TestManifestsKeepTheirOrder: the first of the files is the oldest workload.
func TestManifestsKeepTheirOrder(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "apiVersion: v1\nkind: Pod\nmetadata: {name: from-url}\n")
	}))
	defer server.Close()

	files := manifestFiles{names: []string{filepath.Join("testdata", "serve.yaml"), server.URL, "-"}}
	found := check.Value(files.readManifests(strings.NewReader("apiVersion: v1\nkind: Pod\nmetadata: {name: from-stdin}\n")))(t)

	var got []string
	for _, m := range found {
		got = append(got, m.GetName()+" of "+strings.TrimPrefix(m.file, server.URL))
		check.That(t, m.GroupVersionKind() != schema.GroupVersionKind{}, "%s has no kind", m.GetName())
	}

	check.Equal(t, "objects", []string{"serve of " + filepath.Join("testdata", "serve.yaml"), "from-url of ", "from-stdin of standard input"}, got)
}
