package main

import (
	"os"
	"path/filepath"
	"testing"
)

func TestRecordsAreKeptAndBounded(t *testing.T) {
	b := recordStore{filepath.Join(t.TempDir(), "passed")}
	for i := range maxRecords + 2 {
		if err := b.add("olm", record{Commit: string(rune('a' + i))}); err != nil {
			t.Fatal(err)
		}
	}

	got := b.load("olm")
	if len(got) != maxRecords || got[0].Commit != string(rune('a'+maxRecords+1)) {
		t.Errorf("kept %d records, the newest of commit %q", len(got), got[0].Commit)
	}
	if left, _ := filepath.Glob(filepath.Join(b.dir, "*.tmp")); len(left) > 0 {
		t.Errorf("temporary files are left: %v", left)
	}
}

func TestABrokenRecordIsNone(t *testing.T) {
	b := recordStore{t.TempDir()}
	if err := os.WriteFile(filepath.Join(b.dir, "olm.json"), []byte(`[{"Commit":`), 0o644); err != nil {
		t.Fatal(err)
	}
	if got := b.load("olm"); len(got) != 0 {
		t.Errorf("read %v", got)
	}
}

func TestWithoutACacheFolderNothingIsKept(t *testing.T) {
	if err := (recordStore{}).add("olm", record{}); err != nil {
		t.Error(err)
	}
	if got := (recordStore{}).load("olm"); got != nil {
		t.Errorf("read %v", got)
	}
}

// A file that a test opened, although its sources do not name it, is an input of the group
// after its first run.
func TestARecordHoldsWhatTestsOpened(t *testing.T) {
	root := t.TempDir()
	write := func(text string) {
		if err := os.WriteFile(filepath.Join(root, "opened.txt"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}

	write("one")
	h := &hasher{root, fileHashes{}}
	derived, err := h.hashFiles(nil)
	if err != nil {
		t.Fatal(err)
	}

	p := &plan{inputs: map[string]fileHashes{"olm": derived}, records: recordStore{t.TempDir()}, hasher: h}
	if err := p.recordPass(outcome{stage: stage{name: "olm"}, opened: []string{"opened.txt", "opened.txt"}}); err != nil {
		t.Fatal(err)
	}

	kept := p.records.load("olm")[0]
	now := func() fileHashes {
		hashes, err := (&hasher{root, fileHashes{}}).hashFiles(kept.Opened)
		if err != nil {
			t.Fatal(err)
		}
		return hashes
	}
	if changed := kept.changedSince(now()); len(kept.Opened) != 1 || len(changed) != 0 {
		t.Errorf("opened %v, changed %v", kept.Opened, changed)
	}

	write("two")
	if changed := kept.changedSince(now()); len(changed) != 1 {
		t.Errorf("changed %v, want opened.txt", changed)
	}
}
