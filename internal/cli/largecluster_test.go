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

	"cardquota.dev/operator/internal/cli/output"
	"cardquota.dev/operator/internal/cli/program"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/kubectl"
)

// topOfServer runs top against a server that has so many CardQuotas. It returns the output and the sizes of the pages in
// which the server has returned them. If the first page expires, the server refuses the second one.
func topOfServer(t *testing.T, all int, expires bool) (out string, pages []int) {
	const list = "/apis/cardquota.dev/v1alpha1/cardquotas"

	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		kinds := map[string]string{"/api": coreVersions, "/apis": ourGroup, "/apis/cardquota.dev/v1alpha1": ourKinds}
		if r.URL.Path != list {
			answer(w, http.StatusOK, kinds[r.URL.Path])
			return
		}

		begin, _ := strconv.Atoi(r.URL.Query().Get("continue"))
		limit, _ := strconv.Atoi(r.URL.Query().Get("limit"))
		if limit == 0 {
			limit = all
		}

		if expires && begin > 0 {
			answer(w, http.StatusGone, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","code":410,
				"message":"The provided continue parameter is too old"}`)
			return
		}

		var items []string
		for i := begin; i < min(begin+limit, all); i++ {
			items = append(items, fmt.Sprintf(`{"metadata":{"name":"q%d"},"spec":{"tenant":"t%d","cards":[{"name":"NVIDIA-H200","quota":8}]}}`, i, i))
		}

		pages = append(pages, len(items))
		next := ""
		if begin+limit < all {
			next = strconv.Itoa(begin + limit)
		}
		const page = `{"kind":"CardQuotaList","apiVersion":"cardquota.dev/v1alpha1","metadata":{"continue":%q},"items":[%s]}`
		answer(w, http.StatusOK, fmt.Sprintf(page, next, strings.Join(items, ",")))
	}))
	t.Cleanup(server.Close)

	empty := filepath.Join(t.TempDir(), "kubeconfig")
	check.NoError(t, os.WriteFile(empty, nil, 0o600))
	r := plugin.Run(t.Context(), t, func(*program.Program) {}, "top", "--kubeconfig", empty, "--server", server.URL, "-o", "wide").Exits(program.ExitOK).ReportsNothing()

	return r.Out, pages
}

// TestLongListsComeInPages: a list of all objects at once would load the API server. 10,000 CardQuotas are read in 20
// pages of 500, and all are shown.
func TestLongListsComeInPages(t *testing.T) {
	const expires = false
	out, pages := topOfServer(t, 10_000, expires)
	check.Equal(t, "pages", slices.Repeat([]int{500}, 20), pages)
	check.Contains(t, "output", out, "q0 ", "q4999 ", "q9999 ")
}

// TestAListThatExpiresIsReadAgain: an API server forgets the state of a first page after some minutes. Here it
// refuses the page after the first 500 of 1200 CardQuotas. Then the program reads the list again, without pages, and
// shows each CardQuota once, also those of the first page.
func TestAListThatExpiresIsReadAgain(t *testing.T) {
	const (
		all     = 1200
		expires = true
	)

	out, pages := topOfServer(t, all, expires)
	check.Equal(t, "pages", []int{500, all}, pages)
	for i := range all {
		check.Equal(t, fmt.Sprintf("how often q%d is shown", i), 1, strings.Count(out, fmt.Sprintf(" q%d ", i)))
	}
}

// TestWhyOfThousandsOfPodsIsShort: job huge has 2000 pods that wait for 2 H200 each in queue llm, whose quota is 4,
// among 2000 pods of other jobs. Why sums its pods up, 4000 cards, in less than 40 lines.
func TestWhyOfThousandsOfPodsIsShort(t *testing.T) {
	objects := kubectl.ClusterWithOneFreeCard()
	for i := range 2000 {
		for _, owner := range []string{"huge", fmt.Sprint("other-", i)} {
			pod := builder.Pod("lab", fmt.Sprintf("%s-%d", owner, i)).Queue("llm").Card("NVIDIA-H200").GPUs(2)
			objects = append(objects, pod.Owner("batch.volcano.sh/v1alpha1", "Job", owner).Unschedulable(kubectl.SaysQuota).Obj())
		}
	}

	r := execute(t, objects, kubectl.MayReadAll, "why -n lab vcjob/huge").Exits(program.ExitWaits).ReportsNothing().FitsTerminal().
		Prints("Job lab/huge waits for 4000 NVIDIA-H200", "(QuotaExhausted)")
	check.That(t, strings.Count(r.Out, "\n") < 40, "a long explanation:\n%s", r.Out)
}

// TestTextsOfAnyScriptFitATerminal: what a tenant writes into an annotation, here a wrong card name, returns in the
// message that an administrator reads. It must not control the terminal, and lines have at most 80 columns. Only a
// word that cannot be broken, such as a quoted name, may be a longer line of its own.
func TestTextsOfAnyScriptFitATerminal(t *testing.T) {
	for t, text := range check.Cases(t, map[string]string{
		"Chinese, without spaces":                      strings.Repeat("英伟达显卡配额，", 3),
		"Arabic, from right to left":                   strings.Repeat("حصة البطاقات ", 20),
		"Devanagari, of combined characters":           strings.Repeat("क्षि ", 60),
		"an escape sequence and a change of direction": "\x1b[31mred\u202e",
	}) {
		pod := builder.Pod("lab", "waits").Queue("llm").Card(text).GPUs(2).
			Unschedulable("Pod annotation volcano.sh/card.name: model \"" + text + "\" must be a label value").Obj()
		r := execute(t, append(kubectl.ClusterWithOneFreeCard(), client.Object(pod)), kubectl.MayReadAll, "why -n lab waits").
			Exits(program.ExitWaits).ReportsNothing().Prints("(InvalidRequest)")

		check.Text(t, "output", r.Out).Lacks("\x1b", "\u202e")
		for line := range strings.Lines(r.Out) {
			isOneWord := len(strings.Fields(line)) == 1
			check.That(t, isOneWord || output.Width(strings.TrimSpace(line)) <= output.Columns, "a long line: %s", line)
		}
	}
}
