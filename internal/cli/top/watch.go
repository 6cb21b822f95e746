package top

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
	"cardquota.dev/operator/internal/cli/program"
	"cardquota.dev/operator/internal/cli/reader"
)

// refreshInterval is the least time between two tables of --watch.
const refreshInterval = time.Second

// resyncInterval is how often everything is rendered again without a change, which shows nothing new.
const resyncInterval = time.Hour

// clearScreen moves the cursor to the upper left corner and clears the terminal.
const clearScreen = "\x1b[H\x1b[2J"

// watchTop shows the usage again after each change, until the context ends. On a terminal a table
// replaces the one before it. In formats for programs each change prints the whole document again.
func watchTop(ctx context.Context, p *program.Program, c client.WithWatch, source reader.QuotaSource, chosen selection) error {
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
	found := findings{note: source.Note}
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-failed:
			if reader.IsForbidden(err) { // no later watch would do better
				return err
			}
			_, _ = fmt.Fprint(p.Streams.ErrOut, output.Indent("the watch ended and begins again: "+reader.Explain(err), "", ""))
			continue
		case <-listed:
			listed = nil // a closed channel would be chosen again and again
			updates = changed
		case <-updates:
		case <-idle.due: // the last table was made without a new list of nodes and pods
		}

		readIdleAgain(ctx, p, idle)
		found.idle = idle.last
		stored := storedQuotas(quotas.GetStore())
		readForecastAgain(ctx, p, c, stored, &found)
		text, err := renderTop(p, stored, found, chosen)
		if err != nil {
			return err
		}

		if err := replaceScreen(p, text, last); err != nil {
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

// sleepUntilRefresh waits for refreshInterval, so that the next table has all changes until then. It returns false
// if the context has ended.
func sleepUntilRefresh(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(refreshInterval):
		return true
	}
}

// readIdleAgain reads the idle cards for the next table. After an error the last numbers stay.
func readIdleAgain(ctx context.Context, p *program.Program, idle *idleReader) {
	if _, err := idle.read(ctx); err != nil {
		_, _ = fmt.Fprint(p.Streams.ErrOut, output.Indent("idle cards could not be read: "+reader.Explain(err), "", ""))
	}
}

// readForecastAgain reads the forecast of the policy for the next table. After an error the last one stays.
func readForecastAgain(ctx context.Context, p *program.Program, c client.Client, quotas []*v1alpha1.CardQuota, found *findings) {
	forecast, err := readPolicyForecast(ctx, c, quotas)
	if err != nil {
		_, _ = fmt.Fprint(p.Streams.ErrOut, output.Indent("the ServiceTypePolicy could not be read: "+reader.Explain(err), "", ""))
		return
	}
	found.forecast = forecast
}

// storedQuotas returns the CardQuotas of a store.
func storedQuotas(store cache.Store) []*v1alpha1.CardQuota {
	var quotas []*v1alpha1.CardQuota
	for _, object := range store.List() {
		quotas = append(quotas, reader.AsCardQuota(object))
	}
	return quotas
}

// renderTop returns what showTop prints, so that it can be compared with the last text.
func renderTop(p *program.Program, quotas []*v1alpha1.CardQuota, found findings, chosen selection) (string, error) {
	// The text shows whether there is something new: most changes of a status do not change it. Its width and colors
	// are those of the terminal on which it appears later.
	var text bytes.Buffer
	copied := *p
	copied.Streams.Out = &text
	copied.IsTerminal = func(io.Writer) bool { return p.IsTerminal(p.Streams.Out) }
	copied.TerminalColumns = func(io.Writer) int { return p.TerminalColumns(p.Streams.Out) }

	err := showTop(&copied, quotas, found, chosen)
	return text.String(), err
}

// replaceScreen shows a text instead of the last one, or below it where there is no terminal or a program reads it.
// The same text it does not show again. last is "" for the first one. Below it, a YAML document begins with "---" and a
// table with an empty line. JSON documents and names need nothing between them.
func replaceScreen(p *program.Program, text, last string) error {
	switch {
	case text == last:
		return nil
	case p.Format.IsForPeople() && p.IsTerminal(p.Streams.Out):
		text = clearScreen + text
	case last == "" || p.Format == output.JSON || p.Format == output.Name:
	case p.Format == output.YAML:
		text = "---\n" + text
	default:
		text = "\n" + text
	}

	_, err := io.WriteString(p.Streams.Out, text)
	return err
}

// newQuotaWatch returns the quotas of a source, which it keeps up to date while it runs. changed gets a value
// after changes, failed the error of a watch that ended. A value that the receiver has not read yet stands
// for all later ones, so the informer never waits.
func newQuotaWatch(c client.WithWatch, source reader.QuotaSource, changed chan<- struct{}, failed chan<- error) (cache.SharedInformer, error) {
	lister := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			list := source.NewList()
			return list, c.List(ctx, list, append(source.Options, &client.ListOptions{Raw: &options})...)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return c.Watch(ctx, source.NewList(), append(source.Options, &client.ListOptions{Raw: &options})...)
		},
	}

	informer := cache.NewSharedInformer(lister, source.Example, resyncInterval)
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
