package program

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
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"cardquota.dev/operator/internal/testing/check"
)

// newSilentServer is a web server that does not answer.
func newSilentServer(t *testing.T) string {
	ended := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-r.Context().Done():
		case <-ended:
		}
	}))
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(ended) })

	return server.URL
}

// TestAURLThatDoesNotAnswerEnds: a web server does not answer. After a timeout, here of 10 ms, the read ends with an
// error that names the URL. When the user presses Ctrl-C, which cancels the context, it ends at once.
func TestAURLThatDoesNotAnswerEnds(t *testing.T) {
	silent := ManifestFiles{Names: []string{newSilentServer(t) + "/silent.yaml"}}
	p := &Program{RequestTimeout: 10 * time.Millisecond}
	_, err := silent.ReadObjects(t.Context(), p)
	check.Refused(t, err, "/silent.yaml does not answer in time")

	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	p.RequestTimeout = time.Hour
	_, err = silent.ReadObjects(canceled, p)
	check.That(t, errors.Is(err, context.Canceled), "error %v", err)
}

// TestManifestsKeepTheirOrder: Volcano starts the older of two jobs first, so for whatif the first of the files is
// the oldest workload. The files are one on disk, one of a URL, and standard input ("-").
func TestManifestsKeepTheirOrder(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "apiVersion: v1\nkind: Pod\nmetadata: {name: from-url}\n")
	}))
	defer server.Close()

	files := ManifestFiles{Names: []string{filepath.Join("testdata", "pod.yaml"), server.URL, "-"}}
	p := New(genericiooptions.IOStreams{In: strings.NewReader("apiVersion: v1\nkind: Pod\nmetadata: {name: from-stdin}\n")})
	found := check.Value(files.readManifests(t.Context(), p))(t)

	var got []string
	for _, m := range found {
		got = append(got, m.Name+" of "+strings.TrimPrefix(m.Source, server.URL))
		check.That(t, m.Object.GetObjectKind().GroupVersionKind() != schema.GroupVersionKind{}, "%s has no kind", m.Name)
	}

	check.Equal(t, "objects", []string{"from-file of " + filepath.Join("testdata", "pod.yaml"), "from-url of ", "from-stdin of standard input"}, got)
}
