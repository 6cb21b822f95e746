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
	"slices"
	"strings"
)

// project is the checkout: its files, and the packages of its main module.
type project struct {
	root  string // absolute
	files []string
	known map[string]bool
	// packages are the packages of the main module by folder, relative to the root.
	packages map[string]*goPackage
	module   string
	makefile map[string]makeTarget
}

// goPackage is the information of `go list` about one package of the main module. Files are
// relative to the root, dependencies are folders of the main module.
type goPackage struct {
	dir         string
	main        bool
	sources     []string // with embedded files
	testSources []string
	deps        []string // of the package itself
	testDeps    []string // of its tests
	concurrent  bool     // starts goroutines or uses locks, in the package or in its tests
	cluster     bool     // its tests can start a control plane
}

// goListPackage is the part of `go list -json` that is used here.
type goListPackage struct {
	ImportPath, Dir, ForTest, Name                                                   string
	Standard                                                                         bool
	Module                                                                           *struct{ Main bool }
	GoFiles, CgoFiles, EmbedFiles, TestGoFiles, TestEmbedFiles, XTestGoFiles, SFiles []string
	XTestEmbedFiles                                                                  []string
	Deps                                                                             []string
}

// loadProject loads the checkout around the working directory.
func loadProject(ctx context.Context) (*project, error) {
	root, err := runOutput(ctx, "", "git", "rev-parse", "--show-toplevel")
	if err != nil {
		return nil, fmt.Errorf("this must run inside a git checkout: %w", err)
	}
	p := &project{root: strings.TrimSpace(root), known: map[string]bool{}, packages: map[string]*goPackage{}}

	// Untracked files count as well: they will be part of the next commit.
	text, err := runOutput(ctx, p.root, "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	if err != nil {
		return nil, err
	}

	for file := range strings.SplitSeq(strings.TrimRight(text, "\x00"), "\x00") {
		if _, err := os.Lstat(filepath.Join(p.root, file)); err == nil && !p.known[file] {
			p.files = append(p.files, file)
			p.known[file] = true
		}
	}

	slices.Sort(p.files)
	if err := p.loadPackages(ctx); err != nil {
		return nil, err
	}

	content, err := os.ReadFile(filepath.Join(p.root, "Makefile"))
	if err != nil {
		return nil, err
	}

	p.makefile = parseMakefile(string(content))
	return p, nil
}

func (p *project) loadPackages(ctx context.Context) error {
	module, err := runOutput(ctx, p.root, "go", "list", "-m")
	if err != nil {
		return err
	}

	p.module = strings.TrimSpace(module)
	text, err := runOutput(ctx, p.root, "go", "list", "-deps", "-test",
		"-json=ImportPath,Dir,ForTest,Name,Standard,Module,GoFiles,CgoFiles,SFiles,EmbedFiles,TestGoFiles,TestEmbedFiles,XTestGoFiles,XTestEmbedFiles,Deps", "./...")
	if err != nil {
		return err
	}

	var tests []goListPackage
	decoder := json.NewDecoder(strings.NewReader(text))
	for {
		var l goListPackage
		if err := decoder.Decode(&l); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return fmt.Errorf("go list: %w", err)
		}

		switch {
		case l.Standard || l.Module == nil || !l.Module.Main:
		case strings.HasSuffix(l.ImportPath, ".test"):
			tests = append(tests, l)
		case l.ForTest == "":
			p.addPackage(l)
		}
	}

	for _, l := range tests {
		p.addTestDeps(l)
	}

	return nil
}

// addTestDeps adds the dependencies of a test program to its package.
func (p *project) addTestDeps(l goListPackage) {
	if pkg := p.packages[p.packageDir(strings.TrimSuffix(l.ImportPath, ".test"))]; pkg != nil {
		pkg.testDeps = p.packageDirs(l.Deps)
		pkg.cluster = slices.ContainsFunc(l.Deps, func(dep string) bool {
			return strings.HasPrefix(dep, p.module+"/test/cluster")
		})
	}
}

func (p *project) addPackage(l goListPackage) {
	dir, err := filepath.Rel(p.root, l.Dir)
	if err != nil {
		return
	}

	in := func(names ...[]string) []string {
		var files []string
		for _, name := range slices.Concat(names...) {
			files = append(files, path.Join(dir, name))
		}
		return files
	}

	pkg := &goPackage{
		dir: dir, main: l.Name == "main",
		sources:     in(l.GoFiles, l.CgoFiles, l.SFiles, l.EmbedFiles),
		testSources: in(l.TestGoFiles, l.TestEmbedFiles, l.XTestGoFiles, l.XTestEmbedFiles),
		deps:        p.packageDirs(l.Deps),
	}

	pkg.concurrent = slices.ContainsFunc(slices.Concat(pkg.sources, pkg.testSources), func(file string) bool {
		return isConcurrent(filepath.Join(p.root, file))
	})
	p.packages[dir] = pkg
}

// packageDir returns the folder of a package of the main module, or "". `go list` names the
// test variant of a package "path [test]".
func (p *project) packageDir(importPath string) string {
	importPath, _, _ = strings.Cut(importPath, " ")
	if rest, ok := strings.CutPrefix(importPath, p.module+"/"); ok {
		return rest
	}
	return ""
}

func (p *project) packageDirs(importPaths []string) []string {
	var dirs []string
	for _, importPath := range importPaths {
		if dir := p.packageDir(importPath); dir != "" && !strings.HasSuffix(dir, ".test") {
			dirs = append(dirs, dir)
		}
	}
	slices.Sort(dirs)
	return slices.Compact(dirs)
}

// filesBelow returns the files in a folder and its subfolders.
func (p *project) filesBelow(dir string) []string {
	first, _ := slices.BinarySearch(p.files, dir+"/")
	var files []string
	for _, file := range p.files[first:] {
		if !strings.HasPrefix(file, dir+"/") {
			break
		}
		files = append(files, file)
	}
	return files
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
	return out.String(), nil
}
