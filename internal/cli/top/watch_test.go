package top

import (
	"bytes"
	"context"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/cli/program"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/kubectl"
)

// screen collects what several goroutines may write.
type screen struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (s *screen) Write(data []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(data)
}

func (s *screen) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// startWatch starts "kubectl cardquota top llm-chat --watch" against a cluster in which nothing has changed for 2.5
// seconds. It runs in a bubble of synctest, so all times are those of the test's own clock. setUsed changes how many
// of the 8 cards of llm-chat are used. stop presses Ctrl-C, which is no error.
func startWatch(t *testing.T, isTerminal bool, args ...string) (cluster client.WithWatch, out *screen, setUsed func(int64), stop func()) {
	cluster = kubectl.NewCluster(t, kubectl.FlatQuotas(), kubectl.MayReadAll)
	out = &screen{}
	p := program.New(genericiooptions.IOStreams{In: &bytes.Buffer{}, Out: out, ErrOut: out})
	p.Connect = func() (client.WithWatch, error) { return cluster, nil }
	p.IsTerminal = func(io.Writer) bool { return isTerminal }

	ctx, cancel := context.WithCancel(t.Context())
	code := make(chan int)
	go func() { code <- p.Execute(ctx, append([]string{"top", "llm-chat", "--watch"}, args...), NewCommand) }()
	time.Sleep(refreshInterval * 5 / 2) // the program may begin a wait at each whole second

	setUsed = func(used int64) {
		quota := &v1alpha1.CardQuota{}
		check.NoError(t, cluster.Get(ctx, client.ObjectKey{Name: "llm-chat"}, quota))
		quota.Status.Cards[0].Used = used
		quota.Status.Cards[0].Free = 8 - used
		check.NoError(t, cluster.Update(ctx, quota))
	}
	return cluster, out, setUsed, func() {
		cancel()
		check.Equal(t, "exit code after Ctrl-C", program.ExitOK, <-code)
	}
}

// TestWatchShowsEachChangeOnce: a change after a quiet second is shown at once, in a table of its own. Changes within
// a second after a table are shown together in the next one. A change that changes no number makes no table. Only a
// terminal is cleared before each table (\x1b[2J).
func TestWatchShowsEachChangeOnce(t *testing.T) {
	for t, isTerminal := range check.Cases(t, map[string]bool{"on a terminal": true, "in a file": false}) {
		synctest.Test(t, func(t *testing.T) {
			cluster, out, setUsed, stop := startWatch(t, isTerminal)
			countTables := func() int { return strings.Count(out.String(), "llm-chat") }
			check.Equal(t, "tables before any change", 1, countTables())

			setUsed(1)
			synctest.Wait()
			check.Equal(t, "tables right after the first change", 2, countTables())

			setUsed(2)
			setUsed(3)
			synctest.Wait()
			check.Equal(t, "tables right after two more changes", 2, countTables())
			time.Sleep(3 * refreshInterval)
			check.Equal(t, "tables some seconds later", 3, countTables())

			quota := &v1alpha1.CardQuota{}
			check.NoError(t, cluster.Get(t.Context(), client.ObjectKey{Name: "llm-chat"}, quota))
			quota.Labels = map[string]string{"a": "b"}
			check.NoError(t, cluster.Update(t.Context(), quota))
			time.Sleep(3 * refreshInterval)
			check.Equal(t, "tables after a change of a label", 3, countTables())
			check.Equal(t, "clears the screen", isTerminal, strings.Contains(out.String(), "\x1b[2J"))
			stop()
		})
	}
}

// TestWatchPrintsADocumentForEachChange: programs read the formats of kubectl, so each change prints a whole
// document, and nothing controls the terminal. At first 0 cards are used, then 3. The name of a CardQuota does not
// change, so with -o name there is only one document.
func TestWatchPrintsADocumentForEachChange(t *testing.T) {
	const isTerminal = true

	for t, tc := range check.Cases(t, map[string]struct{ format, want string }{
		"jsonpath":       {"jsonpath={.items[0].cards[0].used}", "0\n3"},
		"custom columns": {"custom-columns=USED:.cards[0].used", "0\n\n3\n"},
		"the name":       {"name", "cardquota.cardquota.dev/llm-chat\n"},
		"json":           {"json", "}\n{"},
		"yaml":           {"yaml", "\n---\napiVersion: "},
	}) {
		synctest.Test(t, func(t *testing.T) {
			_, out, setUsed, stop := startWatch(t, isTerminal, "--no-headers", "-o", tc.format)
			setUsed(3)
			time.Sleep(3 * refreshInterval)
			stop()

			check.Text(t, "output", out.String()).Has(tc.want).Lacks("\x1b")
			if tc.format == "json" || tc.format == "yaml" {
				check.Equal(t, "documents", 2, strings.Count(out.String(), "CardUsageList"))
			} else {
				check.Equal(t, "output", tc.want, out.String())
			}
		})
	}
}
