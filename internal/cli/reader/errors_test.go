package reader

import (
	"os"
	"testing"

	"cardquota.dev/operator/internal/testing/check"
)

// TestAMissingFileIsNoSilentServer: an error of the operating system may be about a file or about a connection. That
// of a file is shown as it is, and does not blame the API server.
func TestAMissingFileIsNoSilentServer(t *testing.T) {
	_, err := os.Stat("testdata/no-such-kubeconfig")
	check.Text(t, "explanation", Explain(err)).Has("no-such-kubeconfig").Lacks("API server")
}
