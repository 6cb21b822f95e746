package configgate

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"
)

// settle is how long a directory must be quiet before the file is read, so that a text that
// is being written in pieces is not taken half. It could be good YAML.
const settle = 100 * time.Millisecond

// file is a configuration file, watched by its directory: editors replace the file, and a
// mounted ConfigMap swaps a symbolic link beside it.
type file struct {
	path string
}

// NewFile returns the source that is a file. Its directory must exist; the file may appear later.
func NewFile(path string) Source {
	return file{path: path}
}

func (f file) String() string {
	return "file " + f.path
}

func (f file) watch(ctx context.Context, changed func()) error {
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return err
	}
	defer func() { _ = watcher.Close() }()
	if err := watcher.Add(filepath.Dir(f.path)); err != nil {
		return fmt.Errorf("directory of %s: %w", f.path, err)
	}
	quiet := time.NewTimer(0)
	defer quiet.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-quiet.C:
			changed()
		case _, open := <-watcher.Events:
			if !open {
				return errors.New("the file watcher ended")
			}
			quiet.Reset(settle)
		case _, open := <-watcher.Errors:
			if !open {
				return errors.New("the file watcher ended")
			}
			// Events were lost, so something changed.
			quiet.Reset(settle)
		}
	}
}

func (f file) read() (content, error) {
	text, err := os.ReadFile(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		return content{missing: fmt.Sprintf("file %s does not exist", f.path)}, nil
	}
	if err != nil {
		return content{}, err
	}
	return content{text: string(text)}, nil
}
