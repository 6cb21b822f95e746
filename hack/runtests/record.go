package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"time"
)

// fileHashes maps files, relative to the project, to the hash of their content. Other facts
// that affect a result have names in parentheses.
type fileHashes map[string]string

// record is one pass of a group, with everything that affected it.
type record struct {
	Passed time.Time
	Commit string
	Inputs fileHashes
	// Opened are files that the tests opened although inputs.go does not derive them.
	Opened []string `json:",omitempty"`
}

// changedSince returns the names of what differs now.
func (r record) changedSince(now fileHashes) []string {
	var changed []string
	for name, hash := range now {
		if r.Inputs[name] != hash {
			changed = append(changed, name)
		}
	}

	for name := range r.Inputs {
		if _, ok := now[name]; !ok {
			changed = append(changed, name)
		}
	}

	return changed
}

// recordStore stores the records in the user's cache folder. Without such a folder it stores
// nothing.
type recordStore struct{ dir string }

// maxRecords is the number of records per group: enough for a few branches.
const maxRecords = 8

func openRecords() recordStore {
	cache, err := os.UserCacheDir()
	if err != nil {
		return recordStore{}
	}
	return recordStore{filepath.Join(cache, "cardquota", "passed")}
}

// load returns the records of a group, the newest first. Unreadable records are ignored.
func (b recordStore) load(group string) []record {
	if b.dir == "" {
		return nil
	}
	text, err := os.ReadFile(filepath.Join(b.dir, group+".json"))
	if err != nil {
		return nil
	}

	var records []record
	if err := json.Unmarshal(text, &records); err != nil {
		return nil
	}

	return records
}

// add stores that a group passed.
func (b recordStore) add(group string, passed record) error {
	if b.dir == "" {
		return nil
	}

	records := slices.Insert(b.load(group), 0, passed)
	text, err := json.Marshal(records[:min(len(records), maxRecords)])
	if err != nil {
		return err
	}
	if err := os.MkdirAll(b.dir, 0o755); err != nil {
		return err
	}

	// A reader sees the old file or the new one, even when this process is killed.
	temporary, err := os.CreateTemp(b.dir, group+".*.tmp")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(temporary.Name()) }()

	if _, err := temporary.Write(text); err != nil {
		return err
	}
	if err := temporary.Close(); err != nil {
		return err
	}

	return os.Rename(temporary.Name(), filepath.Join(b.dir, group+".json"))
}

// hasher caches the hashes of files that several stages share.
type hasher struct {
	root  string
	known fileHashes
}

// hashFiles returns the hashes of files, and of the environment of this run.
func (h *hasher) hashFiles(files []string) (fileHashes, error) {
	hashes := fileHashes{
		"(Go)":   runtime.Version() + " " + runtime.GOOS + "/" + runtime.GOARCH,
		"(root)": strconv.FormatBool(os.Geteuid() == 0),
	}

	for _, file := range files {
		if h.known[file] == "" {
			hash, err := hashFile(filepath.Join(h.root, file))
			if err != nil {
				return nil, err
			}
			h.known[file] = hash
		}
		hashes[file] = h.known[file]
	}
	return hashes, nil
}

func hashFile(file string) (string, error) {
	info, err := os.Lstat(file)
	if err != nil {
		return "", err
	}
	if info.Mode()&os.ModeSymlink != 0 {
		target, err := os.Readlink(file)
		return "link to " + target, err
	}

	f, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()

	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return "", fmt.Errorf("%s: %w", file, err)
	}

	return fmt.Sprintf("%o ", info.Mode().Perm()&0o111) + hex.EncodeToString(sum.Sum(nil)[:16]), nil
}
