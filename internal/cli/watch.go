package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/cli/output"
)

// refreshInterval is the least time between two tables of --watch.
const refreshInterval = time.Second

// resyncInterval is how often everything is rendered again without a change, which shows nothing new.
const resyncInterval = time.Hour

// clearScreen moves the cursor to the upper left corner and clears the terminal.
const clearScreen = "\x1b[H\x1b[2J"

// watchTop shows the usage again after each change, until the context ends. On a terminal a table
// replaces the one before it. In formats for programs each change prints the whole document again.
func (p *program) watchTop(ctx context.Context, c client.WithWatch, source quotaSource, names []string) error {
	changed := make(chan struct{}, 1)
	failed := make(chan error, 1)
	quotas, err := newQuotaWatch(c, source, changed, failed)
	if err != nil {
		return err
	}

	go quotas.RunWithContext(ctx)
	listed := make(chan struct{})
	go closeWhenListed(ctx, quotas, listed)

	var updates <-chan struct{} // nil until all CardQuotas are listed
	last := ""
	idle := &idleReader{client: c}
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-failed:
			if isForbidden(err) { // no later watch would do better
				return err
			}
			_, _ = fmt.Fprint(p.streams.ErrOut, output.Indent("the watch ended and begins again: "+explainError(err), "", ""))
			continue
		case <-listed:
			listed = nil
			updates = changed
		case <-updates:
		case <-idle.due:
		}

		p.readIdleAgain(ctx, idle)
		text, err := p.renderTop(quotas.GetStore(), idle.last, names, source.note)
		if err != nil {
			return err
		}

		if err := p.showChange(text, last); err != nil {
			return err
		}
		last = text

		if !sleepUntilRefresh(ctx) {
			return nil
		}
	}
}

// closeWhenListed closes a channel when all quotas are listed, unless the context ends before.
func closeWhenListed(ctx context.Context, quotas cache.SharedInformer, listed chan<- struct{}) {
	if cache.WaitForCacheSync(ctx.Done(), quotas.HasSynced) {
		close(listed)
	}
}

// sleepUntilRefresh collects the changes of a second. It returns false if the context has ended.
func sleepUntilRefresh(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(refreshInterval):
		return true
	}
}

// showChange shows a text unless it is the last one.
func (p *program) showChange(text, last string) error {
	if text == last {
		return nil
	}
	return p.replaceScreen(text, last == "")
}

// readIdleAgain reads the idle cards for the next table. After an error the last numbers stay.
func (p *program) readIdleAgain(ctx context.Context, idle *idleReader) {
	if _, err := idle.read(ctx); err != nil {
		_, _ = fmt.Fprint(p.streams.ErrOut, output.Indent("idle cards could not be read: "+explainError(err), "", ""))
	}
}

// renderTop returns the table of what a store holds.
func (p *program) renderTop(store cache.Store, idle map[string]int64, names []string, note string) (string, error) {
	var quotas []*v1alpha1.CardQuota
	for _, object := range store.List() {
		if quota := asCardQuota(object); quota != nil {
			quotas = append(quotas, quota)
		}
	}

	var text bytes.Buffer
	copied := *p
	copied.streams.Out = &text
	copied.isTerminal = func(io.Writer) bool { return p.isTerminal(p.streams.Out) }
	copied.terminalColumns = func(io.Writer) int { return p.terminalColumns(p.streams.Out) }

	err := copied.showTop(quotas, idle, names, note)
	return text.String(), err
}

// replaceScreen shows a text instead of the one before it, or below it where there is no terminal.
func (p *program) replaceScreen(text string, first bool) error {
	switch {
	case p.format.IsForPeople() && p.isTerminal(p.streams.Out):
		text = clearScreen + text
	case first || p.format == output.JSON || p.format == output.Name:
	case p.format == output.YAML:
		text = "---\n" + text
	default:
		text = "\n" + text
	}
	_, err := io.WriteString(p.streams.Out, text)
	return err
}

// newQuotaWatch returns the quotas of a source, which it keeps up to date while it runs.
// changed gets a value after changes, failed the error of a watch that ended.
func newQuotaWatch(c client.WithWatch, source quotaSource, changed chan<- struct{}, failed chan<- error) (cache.SharedInformer, error) {
	lister := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			list := source.newList()
			return list, c.List(ctx, list, append(source.options, &client.ListOptions{Raw: &options})...)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return c.Watch(ctx, source.newList(), append(source.options, &client.ListOptions{Raw: &options})...)
		},
	}

	informer := cache.NewSharedInformer(lister, source.example, resyncInterval)
	if err := informer.SetWatchErrorHandler(func(_ *cache.Reflector, err error) {
		select {
		case failed <- err:
		default: // one is shown already
		}
	}); err != nil {
		return nil, err
	}

	notify := func() {
		select {
		case changed <- struct{}{}:
		default: // the next table has this change as well
		}
	}

	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { notify() }, UpdateFunc: func(any, any) { notify() }, DeleteFunc: func(any) { notify() },
	})

	return informer, err
}
