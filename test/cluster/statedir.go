package cluster

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// stateDir is the folder of one cluster. A temporary one holds a locked file while its
// owner lives, so that the next start can tell remains of killed processes from folders in
// use.
type stateDir struct {
	path      string
	temporary bool
	lock      *os.File
}

// What temporary folders are called, and until they are locked.
const (
	temporaryPrefix = "cardquota-cluster-"
	newPrefix       = "cardquota-new-cluster-"
)

func (d stateDir) pki() string  { return filepath.Join(d.path, "pki") }
func (d stateDir) logs() string { return filepath.Join(d.path, "logs") }
func (d stateDir) etcd() string { return filepath.Join(d.path, "etcd") }

// node is the state of the real node, images what BuildImage makes.
func (d stateDir) node() string   { return filepath.Join(d.path, "node") }
func (d stateDir) images() string { return filepath.Join(d.path, "images") }

// openStateDir prepares path, or a temporary folder when path is empty. A temporary one gets
// the name by which others look for remains when it is locked already.
func openStateDir(path string) (stateDir, error) {
	d := stateDir{path: path, temporary: path == ""}
	var err error
	if d.temporary {
		removeAbandoned()
		d.path, err = os.MkdirTemp("", newPrefix+"*")
	} else if d.path, err = filepath.Abs(path); err == nil {
		err = os.MkdirAll(d.path, 0o755)
	}
	if err != nil {
		return stateDir{}, fmt.Errorf("state folder: %w", err)
	}
	if d.lock, err = lockFile(d.path, os.O_CREATE); err != nil {
		return stateDir{}, fmt.Errorf("state folder %s is in use by another cluster: %w", d.path, err)
	}
	if d.temporary {
		named := filepath.Join(filepath.Dir(d.path), temporaryPrefix+strings.TrimPrefix(filepath.Base(d.path), newPrefix))
		if err := os.Rename(d.path, named); err != nil {
			return stateDir{}, fmt.Errorf("state folder: %w", err)
		}
		d.path = named
	}
	for _, part := range []string{d.node(), d.images()} {
		if err := os.RemoveAll(part); err != nil {
			return stateDir{}, fmt.Errorf("state folder: %w", err)
		}
	}
	for _, part := range []string{d.pki(), d.logs(), d.etcd()} {
		if err := os.RemoveAll(part); err != nil {
			return stateDir{}, fmt.Errorf("state folder: %w", err)
		}
		if err := os.Mkdir(part, 0o700); err != nil {
			return stateDir{}, fmt.Errorf("state folder: %w", err)
		}
	}
	return d, nil
}

// close gives the folder up, and removes a temporary one.
func (d stateDir) close() error {
	// Somebody else who looks for remains must not find it unlocked and half removed.
	defer func() { _ = d.lock.Close() }() // closing a descriptor nobody wrote to
	if !d.temporary {
		return nil
	}
	if err := os.RemoveAll(d.path); err != nil {
		return fmt.Errorf("state folder: %w", err)
	}
	return nil
}

// lockFile takes the folder's lock, which the kernel gives back when this process ends. create
// is os.O_CREATE, or 0 to take one only that is there.
func lockFile(dir string, create int) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, "lock"), create|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// removeAbandoned removes temporary folders whose owner was killed. One that cannot be
// removed is left alone: it harms nobody.
func removeAbandoned() {
	found, err := filepath.Glob(filepath.Join(os.TempDir(), temporaryPrefix+"*"))
	if err != nil {
		return
	}
	for _, dir := range found {
		f, err := lockFile(dir, 0)
		if err != nil {
			continue
		}
		_ = os.RemoveAll(dir)
		_ = f.Close()
	}
}
