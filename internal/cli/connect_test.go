package cli

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cardquota.dev/operator/internal/testing/check"
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

// TestRealAnswers reads from servers over HTTP, with the client of the program.
func TestRealAnswers(t *testing.T) {
	const (
		group = "/apis/cardquota.dev/v1alpha1"
		list  = "/apis/cardquota.dev/v1alpha1/cardquotas"
	)

	local := "/apis/cardquota.dev/v1alpha1/namespaces/default/localcardquotas"
	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()
	empty := filepath.Join(t.TempDir(), "kubeconfig")
	check.NoError(t, os.WriteFile(empty, nil, 0o600))

	broken := filepath.Join(t.TempDir(), "kubeconfig")
	check.NoError(t, os.WriteFile(broken, []byte("clusters: {"), 0o600))
	for t, tc := range check.Cases(t, map[string]struct {
		answers map[string]string
		args    []string
		code    int
		want    string
	}{
		"another version of the CRD": {map[string]string{"/api": coreVersions, "/apis": ourGroup, group: ourKinds, list: quotasOfOtherVersion}, nil, exitOK, "llm not ready: NotObserved"},
		"no rights":                  {map[string]string{"/api": coreVersions, "/apis": ourGroup, group: ourKinds, list: refusal, local: refusal}, nil, exitError, `user "tina" may not list cardquotas.cardquota.dev`},
		"half of the CRDs":           {map[string]string{"/api": coreVersions, "/apis": ourGroup, group: halfOfKinds}, nil, exitError, "no kind CardQuota of cardquota.dev"},
		"no CRDs":                    {map[string]string{"/api": coreVersions, "/apis": otherGroup}, nil, exitError, "no kind CardQuota of cardquota.dev"},
		"credentials that ended":     {map[string]string{"/api": "401", "/apis": "401"}, nil, exitError, "does not accept your credentials"},
		"no server":                  {nil, []string{"--server", closed.URL}, exitError, "does not answer: connection refused"},
		"an unknown context":         {nil, []string{"--context", "gone"}, exitError, "context was not found for specified context: gone"},
		"a broken kubeconfig":        {nil, []string{"--kubeconfig", broken}, exitError, "error loading config file"},
	}) {
		args := []string{"top", "--kubeconfig", empty}
		if tc.answers != nil {
			args = append(args, "--server", serve(t, tc.answers))
		}

		r := runProgram(t.Context(), t, func(*program) {}, append(args, tc.args...)...).exits(tc.code).lacks("goroutine")
		check.Contains(t, "output", strings.Join(strings.Fields(r.out+r.errOut), " "), tc.want)
		checkColumns(t, r.errOut)
	}
}

func TestAMissingFileIsNoSilentServer(t *testing.T) {
	_, err := os.Stat("testdata/no-such-kubeconfig")
	text := explainError(err)
	check.That(t, strings.Contains(text, "no-such-kubeconfig") && !strings.Contains(text, "API server"), "%s", text)
}
