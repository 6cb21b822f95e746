package cli

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cardquota.dev/operator/internal/cli/program"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/kubectl"
)

const (
	coreVersions = `{"kind":"APIVersions","versions":["v1"]}`
	ourGroup     = `{"kind":"APIGroupList","apiVersion":"v1","groups":[{"name":"cardquota.dev","versions":[{"groupVersion":"cardquota.dev/v1alpha1","version":"v1alpha1"}],"preferredVersion":{"groupVersion":"cardquota.dev/v1alpha1","version":"v1alpha1"}}]}`
	otherGroup   = `{"kind":"APIGroupList","apiVersion":"v1","groups":[{"name":"apps","versions":[{"groupVersion":"apps/v1","version":"v1"}],"preferredVersion":{"groupVersion":"apps/v1","version":"v1"}}]}`
	ourKinds     = `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"cardquota.dev/v1alpha1","resources":[{"name":"cardquotas","singularName":"cardquota","kind":"CardQuota","verbs":["get","list","watch"]}]}`
	halfOfKinds  = `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"cardquota.dev/v1alpha1","resources":[{"name":"servicetypepolicies","singularName":"","kind":"ServiceTypePolicy","verbs":["get"]}]}`
	// quotasOfOtherVersion have fields that this version does not know.
	quotasOfOtherVersion = `{"kind":"CardQuotaList","apiVersion":"cardquota.dev/v1alpha1","metadata":{},"items":[
		{"metadata":{"name":"llm"},"spec":{"tenant":"llm","cohort":"a","cards":[{"name":"NVIDIA-H200","quota":8,"burst":2}]},"status":{"pools":[1]}}]}`
	refusal = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,"message":"cardquotas.cardquota.dev is forbidden: User \"tina\" cannot list resource \"cardquotas\" in API group \"cardquota.dev\" at the cluster scope"}`
)

// serve starts an API server that answers some paths. "401" is the refusal of all credentials.
func serve(t *testing.T, answers map[string]string) string {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, ok := answers[r.URL.Path]
		w.Header().Set("Content-Type", "application/json")
		switch {
		case !ok:
			w.WriteHeader(http.StatusNotFound)
			body = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404,"message":"the server could not find the requested resource"}`
		case strings.Contains(body, `"code":403`):
			w.WriteHeader(http.StatusForbidden)
		case body == "401":
			w.WriteHeader(http.StatusUnauthorized)
			body = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Unauthorized","code":401,"message":"Unauthorized"}`
		}

		_, _ = fmt.Fprint(w, body)
	}))
	t.Cleanup(server.Close)

	return server.URL
}

// TestErrorsOfTheConnectionAreExplained: the real client of the program runs top over HTTP against a server that
// serves some paths. Whatever is wrong with the server, a user reads one sentence that says what. A CRD of another
// version is no error: fields that this version does not know are ignored, and what is missing counts as not observed.
func TestErrorsOfTheConnectionAreExplained(t *testing.T) {
	const (
		group       = "/apis/cardquota.dev/v1alpha1"
		quotas      = group + "/cardquotas"
		localQuotas = group + "/namespaces/default/localcardquotas"
	)

	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()
	empty := filepath.Join(t.TempDir(), "kubeconfig")
	check.NoError(t, os.WriteFile(empty, nil, 0o600))
	broken := filepath.Join(t.TempDir(), "kubeconfig")
	check.NoError(t, os.WriteFile(broken, []byte("clusters: {"), 0o600))

	for t, tc := range check.Cases(t, map[string]struct {
		served   map[string]string // answers of the server by path, nil for no server
		args     []string
		wantCode int
		want     string
	}{
		"CardQuota llm is of another version, so its status is not known": {
			served:   map[string]string{"/api": coreVersions, "/apis": ourGroup, group: ourKinds, quotas: quotasOfOtherVersion},
			wantCode: program.ExitOK, want: "llm not ready: NotObserved",
		},
		"neither CardQuotas nor LocalCardQuotas may be listed": {
			served:   map[string]string{"/api": coreVersions, "/apis": ourGroup, group: ourKinds, quotas: refusal, localQuotas: refusal},
			wantCode: program.ExitError, want: `user "tina" may not list cardquotas.cardquota.dev`,
		},
		"only the kind ServiceTypePolicy is installed": {
			served:   map[string]string{"/api": coreVersions, "/apis": ourGroup, group: halfOfKinds},
			args:     []string{"llm"}, // all CardQuotas together are none, and no error
			wantCode: program.ExitError, want: "no kind CardQuota of cardquota.dev",
		},
		"no kind of Cardquota is installed": {
			served:   map[string]string{"/api": coreVersions, "/apis": otherGroup},
			args:     []string{"llm"}, // all CardQuotas together are none, and no error
			wantCode: program.ExitError, want: "no kind CardQuota of cardquota.dev",
		},
		"the credentials have expired": {
			served:   map[string]string{"/api": "401", "/apis": "401"},
			wantCode: program.ExitError, want: "does not accept your credentials",
		},
		"the server is not running":   {args: []string{"--server", closed.URL}, wantCode: program.ExitError, want: "does not answer: connection refused"},
		"the context does not exist":  {args: []string{"--context", "gone"}, wantCode: program.ExitError, want: "context was not found for specified context: gone"},
		"the kubeconfig is not valid": {args: []string{"--kubeconfig", broken}, wantCode: program.ExitError, want: "error loading config file"},
	}) {
		args := []string{"top", "--kubeconfig", empty}
		if tc.served != nil {
			args = append(args, "--server", serve(t, tc.served))
		}

		r := plugin.Run(t.Context(), t, func(*program.Program) {}, append(args, tc.args...)...).Exits(tc.wantCode).Says(tc.want).Lacks("goroutine")
		kubectl.CheckColumns(t, r.ErrOut)
	}
}
