package contract

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cardquota.dev/operator/internal/testing/check"
)

// TestEveryFolderIsInContributing: a new contributor finds in CONTRIBUTING.md what each Go package of the product
// does, and each folder of test and hack. The first cell of a table's row has its path.
func TestEveryFolderIsInContributing(t *testing.T) {
	root := filepath.Join("..", "..")
	page := check.Value(os.ReadFile(filepath.Join(root, "CONTRIBUTING.md")))(t)

	var described strings.Builder // the first cell of each row
	for line := range strings.Lines(string(page)) {
		if cells := strings.Split(line, "|"); len(cells) > 2 && cells[0] == "" {
			described.WriteString(cells[1])
		}
	}

	folders := 0
	for _, top := range []string{"api", "cmd", "internal", "test", "hack"} {
		for folder := range goFolders(t, root, top) {
			folders++
			check.That(t, strings.Contains(described.String(), "`"+describedBy(folder)+"`"), "CONTRIBUTING.md has no row for %s", describedBy(folder))
		}
	}

	check.That(t, folders >= 60, "only %d folders were found", folders)
}

// describedBy returns the folder whose row describes a package. Packages of tests and tools may share
// the row of their top folder.
func describedBy(folder string) string {
	parts := strings.Split(folder, "/")
	if parts[0] == "test" || parts[0] == "hack" || strings.HasPrefix(folder, "internal/testing/") {
		return strings.Join(parts[:2], "/")
	}
	return folder
}

// goFolders returns the folders below top that have Go files, relative to root.
func goFolders(t *testing.T, root, top string) map[string]bool {
	folders := map[string]bool{}
	check.NoError(t, filepath.WalkDir(filepath.Join(root, top), func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && entry.Name() == "testdata" {
			return filepath.SkipDir
		}

		if filepath.Ext(path) == ".go" {
			folders[filepath.ToSlash(check.Value(filepath.Rel(root, filepath.Dir(path)))(t))] = true
		}

		return nil
	}))

	return folders
}
