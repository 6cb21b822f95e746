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

	"cardquota.dev/operator/internal/testing/check"
)

// newManifestServer is a web server: /serve.yaml is a manifest, /half.yaml ends too early, /silent.yaml does not answer.
func newManifestServer(t *testing.T) string {
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

	return server.URL
}

// TestManifestsAreReadFromURLs: -f takes a URL, as that of kubectl does. An error names the URL, and neither the API server nor
// a flag for it, which are not to blame.
func TestManifestsAreReadFromURLs(t *testing.T) {
	url := newManifestServer(t)
	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()

	execute(t, twoNodesWithTraining(), mayReadAll, "whatif -n lab -f "+url+"/serve.yaml").exits(exitOK)
	for address, want := range map[string]string{
		url + "/none.yaml":         "/none.yaml: the server answers 404 Not Found",
		url + "/half.yaml":         "/half.yaml: unexpected EOF",
		closed.URL + "/serve.yaml": "/serve.yaml: connection refused",
		"https://[none/serve.yaml": "https://[none/serve.yaml: ",
	} {
		r := execute(t, twoNodesWithTraining(), mayReadAll, "whatif -n lab -f "+address).exits(exitError).reports("error: read --filename: ", want)
		check.Text(t, "error of "+address, r.errOut).Lacks("API server", "--context")
	}
}

// TestAURLThatDoesNotAnswerEnds: a web server does not answer. After a timeout, here of 10 ms, the read ends with an error that
// names the URL. When the user presses Ctrl-C, which cancels the context, it ends at once.
func TestAURLThatDoesNotAnswerEnds(t *testing.T) {
	silent := manifestFiles{names: []string{newManifestServer(t) + "/silent.yaml"}, timeout: 10 * time.Millisecond}
	_, err := silent.readObjects(nil)
	check.Refused(t, err, "/silent.yaml does not answer in time")

	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	silent.context = func() context.Context { return canceled }
	silent.timeout = 0 // no timeout of its own
	_, err = silent.readObjects(nil)
	check.That(t, errors.Is(err, context.Canceled), "error %v", err)
}

// TestManifestsKeepTheirOrder: Volcano starts the older of two jobs first, so for whatif the first of the files is the oldest
// workload. The files are one of a folder, one of a URL, and standard input ("-").
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

	want := []string{"serve of " + filepath.Join("testdata", "serve.yaml"), "from-url of ", "from-stdin of standard input"}
	check.Equal(t, "objects", want, got)
}
