// Package configloader protects Volcano, which exits on a broken configuration, from broken
// texts in the scheduler's ConfigMap or file. It watches that source, validates every text, and
// keeps the last valid one complete in a private file for Volcano. It reports the texts that it
// refuses in the log, as events on the ConfigMap, and in metrics.
package configloader

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/tools/record"

	"cardquota.dev/operator/internal/build"
	"cardquota.dev/operator/internal/schedulerconfig"
)

// resyncInterval is the longest time between two reads of the source. It matters only after a
// lost notification or a failed write of the private file.
var resyncInterval = build.Wait(10 * time.Second)

// Config is what a Loader needs.
type Config struct {
	// Source is the configuration to watch.
	Source Source
	// Dir is an existing directory that only this process uses.
	Dir string
	// Known has the names that the scheduler binary knows.
	Known schedulerconfig.Known
	// Accept checks that Volcano itself accepts a text with its hash. Nil accepts all.
	Accept func(text string) error
	// Recorder sends events about the source's object. Nil sends none.
	Recorder record.EventRecorder
	// Log receives every change of Status.
	Log logr.Logger
}

// Loader passes on only valid configurations. Its methods are safe for concurrent use.
type Loader struct {
	config    Config
	file      privateFile
	gauges    gauges
	ready     chan struct{}
	readyOnce sync.Once

	mu     sync.Mutex
	status Status
	// lastContent is what status describes; the same content is not validated again.
	lastContent content
	// retry is set while no text was validated yet, and when the private file could not be written.
	retry bool
}

// New creates the directories of a Loader. It reads nothing before Run.
func New(config Config) (*Loader, error) {
	file, err := newPrivateFile(config.Dir)
	if err != nil {
		return nil, err
	}

	return &Loader{
		config: config,
		file:   file,
		gauges: newGauges(),
		ready:  make(chan struct{}),
		retry:  true, // so that an empty text is validated too: it equals that of lastContent
		status: Status{Reason: ReasonNotConfigured, Message: fmt.Sprintf("%s has not been read yet", config.Source)},
	}, nil
}

// File returns the path of the private file. From the moment that Ready is closed, it always
// has a valid text.
func (l *Loader) File() string { return l.file.path }

// Ready is closed when the first valid text is in the private file.
func (l *Loader) Ready() <-chan struct{} { return l.ready }

// Status returns what is in force and what is wrong with the source.
func (l *Loader) Status() Status {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.status
}

// Run reads the source after each change, and at least every resyncInterval, until ctx ends. Then it returns nil. An
// error means that the source cannot be watched, for example because the file's directory does not exist.
func (l *Loader) Run(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()

	changed := make(chan struct{}, 1)
	ended := make(chan error, 1)
	go func() {
		ended <- l.config.Source.watchChanges(ctx, func() {
			select {
			case changed <- struct{}{}:
			default: // a reload is due already
			}
		})
	}()

	resync := time.NewTicker(resyncInterval)
	defer resync.Stop()

	for {
		select {
		case err := <-ended:
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("watch %s: %w", l.config.Source, err)
		case <-ctx.Done():
			<-ended // the watch ends with ctx
			return nil
		case <-changed:
			l.reload()
		case <-resync.C:
			l.reload()
		}
	}
}

// reload reads the source and, after a change or a failed write, puts a valid text into force. It reports what
// changed, and closes ready with the first valid text.
func (l *Loader) reload() {
	now, err := l.config.Source.readContent()
	if errors.Is(err, errNotRead) { // watchChanges reports when it is
		return
	}
	if err != nil {
		now = content{missing: fmt.Sprintf("%s cannot be read: %v", l.config.Source, err)}
	}

	l.mu.Lock()
	defer l.mu.Unlock()

	if now.text == l.lastContent.text && now.missing == l.lastContent.missing && !l.retry {
		return
	}

	if now.object == nil {
		now.object = l.lastContent.object // a deleted ConfigMap can still carry events
	}

	l.lastContent = now
	l.retry = false
	before := l.status

	l.status = l.applyContent(now)
	l.reportChange(before)
	if l.status.Reason == ReasonLoaded {
		l.readyOnce.Do(func() { close(l.ready) })
	}
}

// applyContent validates a text and writes a valid one to the private file. It returns the status after that.
// If the write fails, the next reload tries again.
func (l *Loader) applyContent(now content) Status {
	if now.missing != "" {
		return l.keepLast(ReasonMissing, now.missing)
	}
	if err := schedulerconfig.Validate(now.text, l.config.Known); err != nil {
		return l.keepLast(ReasonRejected, err.Error())
	}

	withHash, hash, err := schedulerconfig.WithHash(now.text)
	if err != nil {
		return l.keepLast(ReasonRejected, err.Error())
	}

	if l.config.Accept != nil {
		if err := l.config.Accept(withHash); err != nil {
			return l.keepLast(ReasonRejected, err.Error())
		}
	}

	if err := l.file.replaceText(withHash); err != nil {
		l.retry = true
		return l.keepLast(ReasonNotWritten, err.Error())
	}

	return Status{Reason: ReasonLoaded, Hash: hash, Message: fmt.Sprintf("%s is in force", l.config.Source), Warning: strings.Join(schedulerconfig.Warnings(now.text), "\n")}
}

// keepLast returns the status for a refused text: the last valid one stays in force. Without one the reason is
// that none has been loaded.
func (l *Loader) keepLast(reason, message string) Status {
	if l.status.Hash == "" {
		reason = ReasonNotConfigured
	}
	return Status{Reason: reason, Hash: l.status.Hash, Message: message}
}

// privateFile is a file that is only replaced as a whole.
type privateFile struct {
	// path is in a directory of its own, because Volcano reloads on every event in that
	// directory.
	path string
	// stage is a directory on the same file system for the next text.
	stage string
}

// newPrivateFile creates the directories of a private file, but not the file.
func newPrivateFile(dir string) (privateFile, error) {
	live := filepath.Join(dir, "live")
	stage := filepath.Join(dir, "stage")
	for _, folder := range []string{live, stage} {
		if err := os.MkdirAll(folder, 0o700); err != nil {
			return privateFile{}, fmt.Errorf("make the private directory: %w", err)
		}
	}
	return privateFile{path: filepath.Join(live, "volcano-scheduler.conf"), stage: stage}, nil
}

// replaceText replaces the text. The rename is atomic for readers and causes one Create event
// in the directory, on which Volcano reloads.
func (f privateFile) replaceText(text string) (err error) {
	next, err := os.CreateTemp(f.stage, "volcano-scheduler.conf.*")
	if err != nil {
		return fmt.Errorf("make the next private file: %w", err)
	}
	defer func() {
		if err != nil {
			_ = os.Remove(next.Name())
		}
	}()

	_, err = next.WriteString(text)
	// Some of the text may be written only when the file is closed, so that error counts too.
	if closeErr := next.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return fmt.Errorf("write the next private file: %w", err)
	}

	err = os.Rename(next.Name(), f.path)
	if err != nil {
		return fmt.Errorf("replace the private file: %w", err)
	}

	return nil
}
