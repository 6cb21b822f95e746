package cli

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"cardquota.dev/operator/internal/cli/output"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
)

// topOfPages shows CardQuotas of a server that has many. It returns the output and the sizes of the
// pages. If the state of the first page expires, the server has no second page.
func topOfPages(t *testing.T, all int, expires bool) (string, []int) {
	const list = "/apis/cardquota.dev/v1alpha1/cardquotas"

	var sizes []int
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fixed := map[string]string{"/api": coreVersions, "/apis": ourGroup, "/apis/cardquota.dev/v1alpha1": ourKinds}
		if r.URL.Path != list {
			answer(w, http.StatusOK, fixed[r.URL.Path])
			return
		}

		begin, _ := strconv.Atoi(r.URL.Query().Get("continue"))
		limit, _ := strconv.Atoi(r.URL.Query().Get("limit"))
		if limit == 0 {
			limit = all
		}

		if expires && begin > 0 {
			answer(w, http.StatusGone, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","code":410,"message":"The provided continue parameter is too old"}`)
			return
		}

		var items []string
		for i := begin; i < min(begin+limit, all); i++ {
			items = append(items, fmt.Sprintf(`{"metadata":{"name":"q%d"},"spec":{"tenant":"t%d","cards":[{"name":"NVIDIA-H200","quota":8}]}}`, i, i))
		}

		sizes = append(sizes, len(items))
		next := ""
		if begin+limit < all {
			next = strconv.Itoa(begin + limit)
		}
		answer(w, http.StatusOK, fmt.Sprintf(`{"kind":"CardQuotaList","apiVersion":"cardquota.dev/v1alpha1","metadata":{"continue":%q},"items":[%s]}`, next, strings.Join(items, ",")))
	}))
	t.Cleanup(server.Close)

	empty := filepath.Join(t.TempDir(), "kubeconfig")
	check.NoError(t, os.WriteFile(empty, nil, 0o600))
	r := runProgram(t.Context(), t, func(*program) {}, "top", "--kubeconfig", empty, "--server", server.URL, "-o", "wide").exits(exitOK).silently()

	return r.out, sizes
}

// TestLongListsComeInPages: ten thousand CardQuotas are read in pages, and all are shown.
func TestLongListsComeInPages(t *testing.T) {
	out, sizes := topOfPages(t, 10_000, false)
	check.That(t, len(sizes) == 20 && slices.Max(sizes) == 500, "pages of %v objects", sizes)
	check.Contains(t, "output", out, "q0 ", "q4999 ", "q9999 ")
}

// TestAListThatExpiresIsReadAgain: each CardQuota is shown once, also those of the first page.
func TestAListThatExpiresIsReadAgain(t *testing.T) {
	const all = 1200
	out, sizes := topOfPages(t, all, true)
	check.Equal(t, "pages", []int{500, all}, sizes)
	for i := range all {
		name := fmt.Sprintf("q%d ", i)
		check.That(t, strings.Count(out, " "+name) == 1, "%s is shown %d times", name, strings.Count(out, " "+name))
	}
}

// TestWhyOfThousandsOfPods: a job with thousands of pods is one entry, among thousands of others.
func TestWhyOfThousandsOfPods(t *testing.T) {
	objects := busyCluster()
	for i := range 2000 {
		for _, owner := range []string{"huge", fmt.Sprint("other-", i)} {
			objects = append(objects, builder.Pod("lab", fmt.Sprintf("%s-%d", owner, i)).Queue("llm").Card("NVIDIA-H200").GPUs(2).Owner("batch.volcano.sh/v1alpha1", "Job", owner).
				Unschedulable("Queue <llm> has insufficient <NVIDIA-H200> quota: requested <2>, total would be <5>, but capability is <4>").Obj())
		}
	}
	r := execute(t, objects, interceptor.Funcs{}, "why", "-n", "lab", "vcjob/huge")
	check.That(t, r.code == exitWaits && r.errOut == "" && strings.Count(r.out, "\n") < 40, "exit code %d: %s%s", r.code, r.errOut, r.out)
	check.Contains(t, "explanation", r.out, "Job lab/huge waits for 4000 NVIDIA-H200", "(QuotaExhausted)")
	checkColumns(t, r.out)
}

// TestTextsOfAnyScriptFit: what tenants write into annotations returns in messages.
func TestTextsOfAnyScriptFit(t *testing.T) {
	for name, text := range map[string]string{
		"without spaces": strings.Repeat("英伟达显卡配额，", 3), "from right to left": strings.Repeat("حصة البطاقات ", 20), "combined": strings.Repeat("क्षि ", 60), "control": "\x1b[31mred\u202e",
	} {
		pod := builder.Pod("lab", "waits").Queue("llm").Card(text).GPUs(2).Unschedulable("Pod annotation volcano.sh/card.name: model \"" + text + "\" must be a label value").Obj()
		r := execute(t, append(busyCluster(), client.Object(pod)), interceptor.Funcs{}, "why", "-n", "lab", "waits").exits(exitWaits).silently()
		check.Contains(t, name, r.out, "(InvalidRequest)")

		check.That(t, !strings.ContainsAny(r.out, "\x1b\u202e"), "%s: it can control a terminal: %q", name, r.out)
		for line := range strings.Lines(r.out) { // a word that cannot be broken, such as a quoted name, has a line of its own
			check.That(t, output.Width(strings.TrimSpace(line)) <= output.Columns || len(strings.Fields(line)) == 1, "%s: a long line: %s", name, line)
		}
	}
}
