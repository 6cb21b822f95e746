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
	for name, isTerminal := range map[string]bool{"terminal": true, "file": false} {
		t.Run(name, func(t *testing.T) {
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
					quota.Status.Cards[0].Used, quota.Status.Cards[0].Free = used, 8-used
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
		})
	}
}

func TestWatchPrintsTables(t *testing.T) {
	r := execute(t, flatQuotas(), interceptor.Funcs{}, "top", "--watch", "-o", "json")
	check.That(t, r.code == exitError, "exit code %d", r.code)
	check.Contains(t, "error", r.errOut, "--watch prints tables only")
}
