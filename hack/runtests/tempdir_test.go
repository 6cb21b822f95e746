package main

import (
	"os"
	"path/filepath"
	"testing"
)

func TestTheNextRunRemovesTheTemporaryFilesOfAKilledOne(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	open := func() *tempDir {
		t.Helper()
		d, err := openTempDir()
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(d.path, "file"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		return d
	}

	killed := open()
	used := open()
	if killed.path == used.path {
		t.Fatalf("two runs share %s", used.path)
	}

	_ = killed.lock.Close() // as the kernel does
	next, err := openTempDir()
	if err != nil || next.path != killed.path {
		t.Fatalf("the next run has %+v, %v, want the folder of the killed one", next, err)
	}

	for dir, want := range map[*tempDir]int{used: 1, next: 0} {
		if files, err := os.ReadDir(dir.path); err != nil || len(files) != want {
			t.Errorf("%s holds %v, %v, want %d files", dir.path, files, err, want)
		}
		if err := dir.close(); err != nil {
			t.Error(err)
		}
	}

	if left, _ := filepath.Glob(filepath.Join(os.TempDir(), "*")); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}
