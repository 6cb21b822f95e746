package whatif

import (
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"

	"cardquota.dev/operator/internal/cli/program"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/kubectl"
)

// newManifestServer is a web server: /serve.yaml is a manifest, /half.yaml ends too early.
func newManifestServer(t *testing.T) string {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/serve.yaml":
			http.ServeFile(w, r, filepath.Join("testdata", "serve.yaml"))
		case "/half.yaml":
			w.Header().Set("Content-Length", "100")

			_, _ = io.WriteString(w, "kind: Pod")
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(server.Close)

	return server.URL
}

// TestManifestsAreReadFromURLs: -f takes a URL, as that of kubectl does. An error names the URL, and neither the API
// server nor a flag for it, which are not to blame.
func TestManifestsAreReadFromURLs(t *testing.T) {
	url := newManifestServer(t)
	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()

	execute(t, kubectl.TwoNodesWithTraining(), kubectl.MayReadAll, "whatif -n lab -f "+url+"/serve.yaml").Exits(program.ExitOK)
	for address, want := range map[string]string{
		url + "/none.yaml":         "/none.yaml: the server answers 404 Not Found",
		url + "/half.yaml":         "/half.yaml: unexpected EOF",
		closed.URL + "/serve.yaml": "/serve.yaml: connection refused",
		"https://[none/serve.yaml": "https://[none/serve.yaml: ",
	} {
		r := execute(t, kubectl.TwoNodesWithTraining(), kubectl.MayReadAll, "whatif -n lab -f "+address).Exits(program.ExitError).Reports("error: read --filename: ", want)
		check.Text(t, "error of "+address, r.ErrOut).Lacks("API server", "--context")
	}
}
