package missing

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"cardquota.dev/operator/internal/testing/check"
)

// direct matches a skip that does not use this package. A skip with a *rapid.T skips a draw,
// not a test.
var direct = regexp.MustCompile(`\bt\.Skip(f|Now)?\(`)

// rapidFiles are the files in which the skipping t is a *rapid.T.
var rapidFiles = map[string]bool{
	"internal/scheduler/capacitycard/statement_test.go": true,
	"internal/schedulerconfig/property_test.go":         true,
}

// TestEveryTestSkipsByPackageMissing: make test counts the tests that a machine cannot run, by the text that
// this package prints. So no test file of the project may call t.Skip itself. Two files may, as their t is
// a *rapid.T, which skips a draw and not a test.
func TestEveryTestSkipsByPackageMissing(t *testing.T) {
	root := filepath.Join("..", "..", "..")
	files := 0
	for _, top := range []string{"api", "cmd", "internal", "test", "hack"} {
		err := filepath.WalkDir(filepath.Join(root, top), func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, "_test.go") {
				return err
			}
			files++

			text, err := os.ReadFile(path)
			name, _ := filepath.Rel(root, path)
			line := direct.Find(text)
			check.That(t, line == nil || rapidFiles[filepath.ToSlash(name)], "%s calls %s…): call missing.Skip", name, line)
			return err
		})
		check.NoError(t, err)
	}

	check.That(t, files >= 100, "only %d test files were read", files)
}
