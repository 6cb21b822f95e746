package form

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// WalkGo calls visit with the name relative to root and the syntax tree of every Go file below root
// that is not generated.
func WalkGo(root string, visit func(name string, file File)) error {
	positions := token.NewFileSet()

	return Walk(root, ".go", func(path, name string) error {
		source, err := os.ReadFile(path)
		if err != nil {
			return err
		}

		file, err := parser.ParseFile(positions, path, source, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}

		if !ast.IsGenerated(file) {
			visit(name, File{File: file, Positions: positions, Source: source})
		}

		return nil
	})
}

// Walk calls visit with the path and the name relative to root of every file with the
// given ending. It skips hidden folders, test data and what is built.
func Walk(root, ending string, visit func(path, name string) error) error {
	return filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}

		if entry.IsDir() {
			if name != "." && isSkipped(entry.Name()) {
				return filepath.SkipDir
			}

			return nil
		}

		if !strings.HasSuffix(name, ending) {
			return nil
		}

		return visit(path, name)
	})
}

func isSkipped(folder string) bool {
	switch folder {
	case "testdata", "bin", "dist", "node_modules":
		return true
	}

	return strings.HasPrefix(folder, ".")
}
