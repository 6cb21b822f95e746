package configgate

import (
	"fmt"
	"os"
	"path/filepath"
)

// privateFile is a file that is only ever replaced as a whole.
type privateFile struct {
	// path is in a directory that holds nothing else, because Volcano reloads on every event
	// of that directory.
	path string
	// stage is a directory on the same file system, where a new text is written first.
	stage string
}

func newPrivateFile(dir string) (privateFile, error) {
	live, stage := filepath.Join(dir, "live"), filepath.Join(dir, "stage")
	for _, folder := range []string{live, stage} {
		if err := os.MkdirAll(folder, 0o700); err != nil {
			return privateFile{}, fmt.Errorf("make the private directory: %w", err)
		}
	}
	return privateFile{path: filepath.Join(live, "volcano-scheduler.conf"), stage: stage}, nil
}

// write replaces the file's text. The rename is atomic for readers and shows up as one Create
// event in the directory, which is what Volcano reloads on.
func (f privateFile) write(text string) (err error) {
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
	if closeErr := next.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return fmt.Errorf("write the next private file: %w", err)
	}
	if err = os.Rename(next.Name(), f.path); err != nil {
		return fmt.Errorf("replace the private file: %w", err)
	}
	return nil
}
