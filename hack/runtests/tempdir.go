package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// tempDir is the folder for the temporary files of a stage.
type tempDir struct {
	path string
	lock *os.File
}

// openTempDir creates a folder that is locked while this process lives. It uses the first one
// that no living run has, and empties it.
func openTempDir() (*tempDir, error) {
	for i := range 100 {
		path := filepath.Join(os.TempDir(), fmt.Sprintf("runtests-%d-%d", os.Getuid(), i))
		lock, err := lockDir(path)
		if errors.Is(err, syscall.EWOULDBLOCK) {
			continue
		}
		if err != nil {
			return nil, err
		}

		d := &tempDir{path, lock}
		return d, d.removeContent()
	}
	return nil, errors.New("a hundred runs have a temporary folder each")
}

// removeContent removes the content of the folder.
func (d *tempDir) removeContent() error {
	entries, err := os.ReadDir(d.path)
	for _, entry := range entries {
		err = errors.Join(err, os.RemoveAll(filepath.Join(d.path, entry.Name())))
	}
	return err
}

func (d *tempDir) close() error {
	return errors.Join(os.RemoveAll(d.path), d.lock.Close())
}

// lockDir creates a folder and locks it. It fails with EWOULDBLOCK when a living process has
// it.
func lockDir(path string) (*os.File, error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, err
	}
	dir, err := os.Open(path)
	if err != nil {
		return nil, err
	}

	err = syscall.Flock(int(dir.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == nil && !isAt(dir, path) {
		err = syscall.EWOULDBLOCK // its owner has just removed it
	}
	if err != nil {
		_ = dir.Close()
		return nil, err
	}

	return dir, nil
}

// isAt reports whether an open folder is still the one at path.
func isAt(dir *os.File, path string) bool {
	is, err := dir.Stat()
	if err != nil {
		return false
	}
	there, err := os.Stat(path)
	return err == nil && os.SameFile(is, there)
}
