package cluster

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// stateDir is the folder of one cluster. The owner of a temporary folder has a lock in it, so
// that the next start can distinguish leftovers from folders in use.
type stateDir struct {
	path      string
	temporary bool
	lock      *os.File
}

// Names of temporary folders, and their names until they are locked.
const (
	temporaryPrefix = "cardquota-cluster-"
	unlockedPrefix  = "cardquota-new-cluster-"
)

// lockName is the file that the owner of a folder locks.
const lockName = "lock"

func (d stateDir) pkiDir() string    { return filepath.Join(d.path, "pki") }
func (d stateDir) logsDir() string   { return filepath.Join(d.path, "logs") }
func (d stateDir) readyFile() string { return filepath.Join(d.path, "ready") }
func (d stateDir) etcdDir() string   { return filepath.Join(d.path, "etcd") }

// nodeDir is the state of the real node, imagesDir the images of BuildImage.
func (d stateDir) nodeDir() string   { return filepath.Join(d.path, "node") }
func (d stateDir) imagesDir() string { return filepath.Join(d.path, "images") }

// openStateDir prepares path, or a temporary folder when path is empty. A temporary folder gets
// its final name only after it is locked: other processes look for leftovers by that name.
func openStateDir(path string) (d stateDir, err error) {
	d = stateDir{path: path, temporary: path == ""}
	defer func() {
		if err != nil {
			err = fmt.Errorf("state folder: %w", err)
		}
	}()

	d.path, err = makeUnlockedDir(path)
	if err != nil {
		return stateDir{}, err
	}

	d.lock, err = lockFile(filepath.Join(d.path, lockName))
	if err != nil {
		return stateDir{}, fmt.Errorf("%s is in use by another cluster: %w", d.path, err)
	}

	err = writeOwner(d.lock)
	if err != nil {
		return stateDir{}, errors.Join(err, d.close())
	}

	defer func() {
		if err != nil {
			err = errors.Join(err, d.close())
		}
	}()

	if d.temporary {
		named := filepath.Join(filepath.Dir(d.path), temporaryPrefix+strings.TrimPrefix(filepath.Base(d.path), unlockedPrefix))
		if err := os.Rename(d.path, named); err != nil {
			return d, err
		}
		d.path = named
	}

	if err := removeContent(d.path, d.readyFile(), d.pkiDir(), d.logsDir(), d.etcdDir(), d.nodeDir(), d.imagesDir()); err != nil {
		return d, err
	}

	for _, part := range []string{d.pkiDir(), d.logsDir(), d.etcdDir()} {
		if err := os.Mkdir(part, 0o700); err != nil {
			return d, err
		}
	}

	return d, nil
}

// makeUnlockedDir creates path, or a temporary folder when path is empty, and returns its absolute path.
func makeUnlockedDir(path string) (string, error) {
	if path == "" {
		removeAbandoned()
		return os.MkdirTemp("", unlockedPrefix+"*")
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	return path, os.MkdirAll(path, 0o755)
}

// close releases the folder and removes a temporary one.
func (d stateDir) close() error {
	// Another start must not find it unlocked and half removed.
	defer func() { _ = d.lock.Close() }() // nothing was written to it
	if !d.temporary {
		return nil
	}
	if err := removeStateDir(d.path); err != nil {
		return fmt.Errorf("state folder: %w", err)
	}
	return nil
}

// removeStateDir removes a folder whose lock this process has. It removes the lock last, so
// that an interrupted removal is still recognised.
func removeStateDir(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	var parts []string
	for _, entry := range entries {
		if entry.Name() != lockName {
			parts = append(parts, filepath.Join(dir, entry.Name()))
		}
	}
	return errors.Join(removeContent(dir, parts...), os.Remove(filepath.Join(dir, lockName)), os.Remove(dir))
}

func removeContent(dir string, parts ...string) error {
	for _, part := range parts {
		if err := os.RemoveAll(part); err != nil {
			return fmt.Errorf("%s cannot be emptied; remove it by hand: %w", dir, err)
		}
	}
	return nil
}

// lockFile locks a file; the kernel releases the lock when this process ends.
func lockFile(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// removeAbandoned removes temporary folders whose owner was killed. It ignores folders that it
// cannot remove: they do no harm.
func removeAbandoned() {
	for _, prefix := range []string{temporaryPrefix, unlockedPrefix} {
		found, err := filepath.Glob(filepath.Join(os.TempDir(), prefix+"*"))
		if err != nil {
			return
		}

		for _, dir := range found {
			// A new folder gets its lock a moment after its creation.
			if info, err := os.Stat(dir); err != nil || (prefix == unlockedPrefix && time.Since(info.ModTime()) < time.Minute) {
				continue
			}
			if os.Remove(dir) == nil {
				continue // it was empty: only its removal was cut short
			}

			if f, err := lockFile(filepath.Join(dir, lockName)); err == nil {
				_ = removeStateDir(dir)
				_ = f.Close()
			}
		}
	}
}
