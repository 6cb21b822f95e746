package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// project is the checkout: its files, and the packages of its main module. Files and folders are
// relative to the root.
type project struct {
	root, module string
	tree         string // the hash of the working tree in git, with files that are not tracked
	files        []string
	packages     map[string]*goPackage // by folder
}

// goPackage is what `go list` says about one package. Dependencies are folders of the main module.
type goPackage struct {
	deps       []string // of the package itself
	testDeps   []string // of its tests; nil without tests
	concurrent bool     // starts goroutines or uses locks, in the package or in its tests
	cluster    bool     // its tests can start a control plane
}

// loadProject loads the checkout around the working directory.
func loadProject(ctx context.Context) (*project, error) {
	root, err := runOutput(ctx, "", "git", "rev-parse", "--show-toplevel")
	if err != nil {
		return nil, fmt.Errorf("this must run inside a git checkout: %w", err)
	}

	tree, err := writeTree(ctx, root)
	if err != nil {
		return nil, err
	}

	files, err := runOutput(ctx, root, "git", "ls-tree", "-r", "--name-only", "-z", tree)
	if err != nil {
		return nil, err
	}

	p := &project{root: root, tree: tree, files: splitNames(files), packages: map[string]*goPackage{}}
	return p, p.loadPackages(ctx)
}

// writeTree writes the working tree to git, and returns its hash. Files that are not tracked
// count as well, because they will be part of the next commit. It leaves the index as it is.
func writeTree(ctx context.Context, root string) (string, error) {
	index, err := os.CreateTemp("", "runtests-index-")
	if err != nil {
		return "", err
	}
	_ = index.Close()
	defer func() { _ = os.Remove(index.Name()) }()

	return runOutput(ctx, root, "bash", "-euc",
		`cp "$(git rev-parse --git-path index)" "$0"; export GIT_INDEX_FILE=$0; git add --all; git write-tree`, index.Name())
}

// changedFiles returns the files in which the working tree differs from a commit or a tree.
func (p *project) changedFiles(ctx context.Context, base string) ([]string, error) {
	text, err := runOutput(ctx, p.root, "git", "diff", "--name-only", "--no-renames", "-z", base, p.tree)
	return splitNames(text), err
}

// splitNames splits file names that git ends with a zero byte.
func splitNames(text string) []string {
	names := strings.Split(text, "\x00")
	return names[:len(names)-1]
}

// goListPackage is the part of `go list -json` that is used here.
type goListPackage struct {
	ImportPath, Dir, ForTest                 string
	Deps, GoFiles, TestGoFiles, XTestGoFiles []string
}

func (p *project) loadPackages(ctx context.Context) error {
	module, err := runOutput(ctx, p.root, "go", "list", "-m")
	if err != nil {
		return err
	}

	p.module = module
	text, err := runOutput(ctx, p.root, "go", "list", "-test", "-json=ImportPath,Dir,ForTest,Deps,GoFiles,TestGoFiles,XTestGoFiles", "./...")
	if err != nil {
		return err
	}

	// go lists a package before its test program.
	decoder := json.NewDecoder(strings.NewReader(text))
	for {
		var l goListPackage
		if err := decoder.Decode(&l); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("go list: %w", err)
		}

		dir := p.packageDir(l.ImportPath)
		if tested, isTest := strings.CutSuffix(dir, ".test"); isTest {
			pkg := p.packages[tested]
			pkg.testDeps = p.packageDirs(l.Deps)
			pkg.cluster = slices.Contains(pkg.testDeps, "test/cluster")
		} else if l.ForTest == "" {
			p.packages[dir] = &goPackage{deps: append(p.packageDirs(l.Deps), dir), concurrent: isConcurrent(l)}
		}
	}
}

// packageDir returns the folder of a package of the main module, or "". `go list` names the
// test variant of a package "path [test]".
func (p *project) packageDir(importPath string) string {
	importPath, _, _ = strings.Cut(importPath, " ")
	dir, isOurs := strings.CutPrefix(importPath, p.module+"/")
	if !isOurs {
		return ""
	}
	return dir
}

func (p *project) packageDirs(importPaths []string) []string {
	var dirs []string
	for _, importPath := range importPaths {
		if dir := p.packageDir(importPath); dir != "" {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

// packageOf returns the package whose folder has a file, also below testdata, or "".
func (p *project) packageOf(file string) string {
	for dir := path.Dir(file); dir != "."; dir = path.Dir(dir) {
		if p.packages[dir] != nil {
			return dir
		}
	}
	return ""
}

// concurrentCode matches a goroutine, a channel or a lock in Go code.
var concurrentCode = regexp.MustCompile(`(?m)^\s*go [\w.]+[({.]|^\s*"sync(/atomic)?"$|^[^/"]*\bchan\b|^\s*select \{`)

func isConcurrent(l goListPackage) bool {
	return slices.ContainsFunc(slices.Concat(l.GoFiles, l.TestGoFiles, l.XTestGoFiles), func(name string) bool {
		text, err := os.ReadFile(filepath.Join(l.Dir, name))
		return (err == nil) && concurrentCode.Match(text)
	})
}

// runOutput runs a command in a folder and returns its stdout.
func runOutput(ctx context.Context, dir, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	var out, problems bytes.Buffer
	cmd.Stdout = &out
	cmd.Stderr = &problems
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, strings.TrimSpace(problems.String()))
	}
	return strings.TrimSpace(out.String()), nil
}
