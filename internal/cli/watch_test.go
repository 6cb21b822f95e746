package cli

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
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/testing/check"
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

func TestWatchShowsEachChangeOnce(t *testing.T) {
	for t, isTerminal := range check.Cases(t, map[string]bool{"terminal": true, "file": false}) {
		synctest.Test(t, func(t *testing.T) {
			cluster := newCluster(t, flatQuotas(), interceptor.Funcs{})
			var out screen
			p := newProgram(genericiooptions.IOStreams{In: &bytes.Buffer{}, Out: &out, ErrOut: &out})
			p.connect = func() (client.WithWatch, error) { return cluster, nil }
			p.isTerminal = func(io.Writer) bool { return isTerminal }

			ctx, stop := context.WithCancel(t.Context())
			code := make(chan int)
			go func() { code <- p.execute(ctx, []string{"top", "llm-chat", "--watch"}) }()

			// All times are of the test's own clock. The program may begin a wait at each whole second.
			time.Sleep(refreshInterval * 5 / 2)
			check.That(t, strings.Count(out.String(), "llm-chat") == 1, "at first:\n%s", out.String())

			quota := &v1alpha1.CardQuota{}
			check.NoError(t, cluster.Get(ctx, client.ObjectKey{Name: "llm-chat"}, quota))
			change := func(used int64) {
				quota.Status.Cards[0].Used = used
				quota.Status.Cards[0].Free = 8 - used
				check.NoError(t, cluster.Update(ctx, quota))
			}

			change(1)
			synctest.Wait() // a change after a quiet second is shown at once
			check.That(t, strings.Count(out.String(), "llm-chat") == 2, "after a change:\n%s", out.String())

			change(2)
			change(3)
			synctest.Wait()
			check.That(t, strings.Count(out.String(), "llm-chat") == 2, "within a second after a table:\n%s", out.String())

			time.Sleep(3 * refreshInterval)
			check.That(t, strings.Count(out.String(), "llm-chat") == 3, "two changes within a second are one table:\n%s", out.String())
			check.That(t, strings.Contains(out.String(), "\x1b[2J") == isTerminal, "the screen is cleared on a terminal alone: %q", out.String())

			quota.Labels = map[string]string{"a": "b"} // changes no number
			check.NoError(t, cluster.Update(ctx, quota))
			time.Sleep(3 * refreshInterval)
			check.That(t, strings.Count(out.String(), "llm-chat") == 3, "after a change of a label:\n%s", out.String())

			stop()
			check.That(t, <-code == exitOK, "Ctrl-C is no error")
		})
	}
}

// TestWatchPrintsDocuments: each change prints a whole document, without controls of a terminal.
func TestWatchPrintsDocuments(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		args []string
		want func(used string) string
	}{
		"json":     {[]string{"-o", "jsonpath={.items[0].cards[0].used}"}, func(used string) string { return "0\n" + used }},
		"columns":  {[]string{"-o", "custom-columns=USED:.cards[0].used", "--no-headers"}, func(used string) string { return "0\n\n" + used + "\n" }},
		"the name": {[]string{"-o", "name"}, func(string) string { return "cardquota.cardquota.dev/llm-chat\n" }},
	}) {
		synctest.Test(t, func(t *testing.T) {
			out, stop := watchChat(t, tc.args...)
			check.Equal(t, "output", tc.want("3"), out.String())
			stop()
		})
	}

	for format, separator := range map[string]string{"json": "}\n{", "yaml": "\n---\napiVersion: "} {
		t.Run(format, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				out, stop := watchChat(t, "-o", format)
				check.Equal(t, "documents", 2, strings.Count(out.String(), "CardUsageList"))
				check.Contains(t, "output", out.String(), separator)
				check.That(t, !strings.Contains(out.String(), "\x1b"), "it controls a terminal: %q", out.String())
				stop()
			})
		})
	}
}

// watchChat watches a CardQuota on a terminal while three of its cards become used. It runs in a bubble of
// synctest.
func watchChat(t *testing.T, args ...string) (out *screen, stop func()) {
	cluster := newCluster(t, flatQuotas(), interceptor.Funcs{})
	out = &screen{}
	p := newProgram(genericiooptions.IOStreams{In: &bytes.Buffer{}, Out: out, ErrOut: out})
	p.connect = func() (client.WithWatch, error) { return cluster, nil }
	p.isTerminal = func(io.Writer) bool { return true }

	ctx, cancel := context.WithCancel(t.Context())
	code := make(chan int)
	go func() { code <- p.execute(ctx, append([]string{"top", "llm-chat", "--watch"}, args...)) }()
	time.Sleep(refreshInterval * 5 / 2)

	quota := &v1alpha1.CardQuota{}
	check.NoError(t, cluster.Get(ctx, client.ObjectKey{Name: "llm-chat"}, quota))
	quota.Status.Cards[0].Used = 3
	quota.Status.Cards[0].Free = 5
	check.NoError(t, cluster.Update(ctx, quota))
	time.Sleep(3 * refreshInterval)

	return out, func() {
		cancel()
		check.Equal(t, "exit code", exitOK, <-code)
	}
}
