package cli

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cardquota.dev/operator/internal/cli/program"
	"cardquota.dev/operator/internal/testing/check"
)

const silentServer = "silent"

// badServers are API servers that cannot be read, and what every command says about each.
var badServers = map[string]struct {
	handler http.HandlerFunc
	want    string
}{
	silentServer: {func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, "the API server does not answer in time"},
	"refuses all credentials": {func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusUnauthorized, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Unauthorized","code":401,"message":"Unauthorized"}`)
	}, "the API server does not accept your credentials"},
	"is broken": {func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusInternalServerError, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"InternalError","code":500,"message":"etcdserver: no leader"}`)
	}, "the API server has an error of its own"},
	"is a login page": {func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = fmt.Fprint(w, "<html><body>Please log in</body></html>")
	}, "the server does not answer as an API server does"},
	"ends in the middle": {func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", "1000")
		_, _ = fmt.Fprint(w, `{"kind":"API`)
	}, "unexpected EOF"},
}

func answer(w http.ResponseWriter, code int, body string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = fmt.Fprint(w, body)
}

// commandArguments are arguments with which a command reads the cluster.
func commandArguments(t *testing.T) map[string][]string {
	job := filepath.Join(t.TempDir(), "job.yaml")
	check.NoError(t, os.WriteFile(job, []byte("apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: c, image: i}]}\n"), 0o600))
	return map[string][]string{"why": {"waits"}, "whatif": {"-f", job}}
}

// TestEveryCommandSaysThatTheServerIsBad: each command that asks a server reads from each of badServers: one that is
// silent, refuses all credentials, has an error of its own, shows a login page, or breaks off its answer. The command
// reports one plain sentence about that, in one line for scripts, and ends with exit code 1. Only version also prints
// something: its own version.
func TestEveryCommandSaysThatTheServerIsBad(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "kubeconfig")
	check.NoError(t, os.WriteFile(empty, nil, 0o600))
	arguments := commandArguments(t)
	for name, bad := range badServers {
		server := httptest.NewServer(bad.handler)
		t.Cleanup(server.Close)

		for _, command := range newRootCommand().Commands() {
			if command.Name() == "options" { // does not ask the API server
				continue
			}

			t.Run(name+"/"+command.Name(), func(t *testing.T) {
				args := append([]string{command.Name(), "--kubeconfig", empty, "--server", server.URL}, arguments[command.Name()]...)
				r := plugin.Run(t.Context(), t, func(p *program.Program) {
					if name == silentServer { // the other servers answer, but late on a busy machine
						p.RequestTimeout = 200 * time.Millisecond
					}
				}, args...)
				r.Exits(program.ExitError).Reports("error: ", bad.want).Lacks("goroutine")

				if command.Name() == "version" { // it knows its own version without a server
					r.Prints("kubectl cardquota")
				} else {
					r.PrintsNothing()
				}

				check.That(t, len(r.ErrOut) < 400, "no plain sentence: %s", r.ErrOut)
				check.Equal(t, "lines of the error", 1, strings.Count(r.ErrOut, "\n")) // a script searches by line
			})
		}
	}
}
