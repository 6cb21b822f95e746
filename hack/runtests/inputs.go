package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// stageInputs returns the files that affect the result of a stage, sorted:
//
//   - the sources of its test packages and of all packages of this module that they import,
//     with embedded files;
//   - the files, folders, programs and make targets that are named in the tests, in packages under
//     test/, in scripts that these name, and in the stage's make targets. A name counts when such a
//     file exists;
//   - the inputs below testdata of the test packages, which go test and rapid use without a name;
//   - of every stage: the Makefile, and all go.mod and go.sum, which fix the versions of
//     libraries and tools.
//
// Too many files cause needless runs. Too few would hide a failure. So the record of a stage also
// has the files that a test opened without being listed here (record.go).
func (p *project) stageInputs(s stage) []string {
	f := &inputFinder{project: p, found: map[string]bool{}, targets: map[string]bool{}}
	for _, file := range p.files {
		if base := path.Base(file); file == "Makefile" || base == "go.mod" || base == "go.sum" {
			f.found[file] = true
		}
	}

	for _, dir := range s.packages {
		pkg := p.packages[dir]
		f.addFiles(pkg.testSources)
		for _, file := range pkg.testSources {
			f.scanGo(file)
		}

		f.addPackages(pkg.testDeps)
		f.addFolder(path.Join(dir, "testdata", "fuzz"), "")
		f.addFolder(path.Join(dir, "testdata", "rapid"), "")
	}

	for _, target := range slices.Concat(s.targets, s.needs) {
		f.addTarget(target)
	}

	files := make([]string, 0, len(f.found))
	for file := range f.found {
		files = append(files, file)
	}

	slices.Sort(files)
	return files
}

// inputFinder collects files by the names in other files.
type inputFinder struct {
	*project
	found   map[string]bool
	targets map[string]bool
}

func (f *inputFinder) addFiles(files []string) {
	for _, file := range files {
		f.addFile(file, "")
	}
}

// addFile adds a file that another one names, and the files that it names.
func (f *inputFinder) addFile(file, namedBy string) {
	if f.found[file] || !f.known[file] || (path.Ext(file) == ".md" && path.Ext(namedBy) == ".md") {
		return // a document that another one links to is not followed
	}

	f.found[file] = true
	switch base := path.Base(file); {
	case path.Ext(file) == ".sh" || base == "Dockerfile" || base == "kustomization.yaml":
		f.scanText(file, withoutComments(f.readFile(file)))
	case path.Ext(file) == ".md":
		f.scanText(file, f.readFile(file))
	case path.Ext(file) == ".go" && strings.HasPrefix(file, "test/") && !strings.HasSuffix(file, "_test.go"):
		f.scanGo(file)
	}
}

func (f *inputFinder) addPackages(dirs []string) {
	for _, dir := range dirs {
		if pkg := f.packages[dir]; pkg != nil {
			f.addFiles(pkg.sources)
		}
	}
}

// addFolder adds the files of a folder. For a program it adds its packages.
func (f *inputFinder) addFolder(dir, namedBy string) {
	if pkg := f.packages[dir]; pkg != nil && pkg.main {
		f.addFiles(pkg.sources)
		f.addPackages(pkg.deps)
		return
	}
	for _, file := range f.filesBelow(dir) {
		f.addFile(file, namedBy)
	}
}

// addTarget adds the files that a make target and its prerequisites name.
func (f *inputFinder) addTarget(name string) {
	target, ok := f.makefile[name]
	if !ok || f.targets[name] {
		return
	}
	f.targets[name] = true
	for _, needed := range target.needs {
		f.addTarget(needed)
	}
	f.scanText("Makefile", target.recipe)
}

func (f *inputFinder) readFile(file string) string {
	text, err := os.ReadFile(filepath.Join(f.root, file))
	if err != nil {
		return ""
	}
	return string(text)
}

// scanGo adds the files that the string literals of a Go file name.
func (f *inputFinder) scanGo(file string) {
	parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join(f.root, file), nil, parser.SkipObjectResolution)
	if err != nil {
		return // the compiler will say so
	}

	ast.Inspect(parsed, func(n ast.Node) bool {
		switch node := n.(type) {
		case *ast.ImportSpec:
			return false
		case *ast.CallExpr:
			parts := stringLiterals(node.Args)
			if name, ok := node.Fun.(*ast.SelectorExpr); ok && name.Sel.Name == "Join" && len(parts) > 0 {
				f.addNamed(file, path.Join(parts...), true)
			}
			if slices.Contains(parts, "make") {
				f.scanText(file, strings.Join(parts, " "))
			}
		case *ast.BasicLit:
			if text, err := strconv.Unquote(node.Value); err == nil && node.Kind == token.STRING {
				f.scanText(file, text)
			}
		}

		return true
	})
}

// stringLiterals returns the string literals among the arguments of a call.
func stringLiterals(args []ast.Expr) []string {
	var parts []string
	for _, arg := range args {
		if literal, ok := arg.(*ast.BasicLit); ok && literal.Kind == token.STRING {
			if text, err := strconv.Unquote(literal.Value); err == nil {
				parts = append(parts, text)
			}
		}
	}
	return parts
}

var (
	wordPattern        = regexp.MustCompile(`[A-Za-z0-9_.*/-]+`)
	makeCommandPattern = regexp.MustCompile(`\bmake((?: +[a-z][a-z0-9-]*)+)`)
	// Variables for the project's folder in scripts and recipes.
	rootVariablePattern = regexp.MustCompile(`"?\$(\(CURDIR\)|\{?root\}?|\{?PWD\}?)"?/`)
)

// scanText adds the files that the words of a text name.
func (f *inputFinder) scanText(file, text string) {
	text = rootVariablePattern.ReplaceAllString(text, "")
	for _, word := range wordPattern.FindAllString(text, -1) {
		f.addNamed(file, word, false)
	}
	for _, match := range makeCommandPattern.FindAllStringSubmatch(text, -1) {
		for target := range strings.FieldsSeq(match[1]) {
			f.addTarget(target)
		}
	}
}

// addNamed adds what a name in a file refers to: a file, a folder or a pattern of files,
// relative to the project or to that file. A single word is a folder only where it is joined to
// a path, or in a script when the folder holds no Go packages: "test" is also a word.
func (f *inputFinder) addNamed(file, name string, joined bool) {
	if strings.Trim(name, "./*") == "" {
		return // a folder above, or everything
	}

	name = strings.TrimSuffix(strings.TrimPrefix(strings.TrimRight(name, "."), "./"), "/")
	name = strings.TrimSuffix(name, "/...")
	for _, candidate := range []string{path.Clean(name), path.Join(path.Dir(file), name)} {
		switch {
		case strings.HasPrefix(candidate, "..") || candidate == "." || path.IsAbs(candidate):
		case f.known[candidate]:
			f.addFile(candidate, file)
		case strings.Contains(candidate, "*"):
			f.addMatches(candidate, file)
		case joined || strings.Contains(name, "/") || candidate != name || f.holdsNoPackages(candidate):
			f.addFolder(candidate, file)
		}
	}
}

// addMatches adds the files that match a pattern in a file.
func (f *inputFinder) addMatches(pattern, file string) {
	for _, other := range f.files {
		if matched, _ := path.Match(pattern, other); matched {
			f.addFile(other, file)
		}
	}
}

func (f *inputFinder) holdsNoPackages(dir string) bool {
	for other := range f.packages {
		if other == dir || strings.HasPrefix(other, dir+"/") {
			return false
		}
	}
	return true
}

// withoutComments removes comment lines from a script.
func withoutComments(text string) string {
	var kept []string
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(strings.TrimSpace(line), "#") {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "")
}

// makeTarget is one rule of the Makefile.
type makeTarget struct {
	needs  []string
	recipe string
}

var (
	makeRulePattern     = regexp.MustCompile(`^([a-z][a-z0-9-]*):([^=#]*)(#.*)?$`)
	makeVariablePattern = regexp.MustCompile(`\$\(([A-Z_]+)\)`)
)

// parseMakefile parses the rules with plain names, and the texts between define and endef that
// they use. `make -n` would omit what is up to date.
func parseMakefile(text string) map[string]makeTarget {
	targets := map[string]makeTarget{}
	texts := map[string]string{}
	rule := ""
	defined := ""
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		match := makeRulePattern.FindStringSubmatch(line)
		switch name, defines := strings.CutPrefix(line, "define "); {
		case defines:
			defined = name
		case line == "endef":
			defined = ""
		case defined != "":
			texts[defined] += line + "\n"
		case strings.HasPrefix(line, "\t") && rule != "":
			target := targets[rule]
			target.recipe += strings.TrimPrefix(line, "\t") + "\n"
			targets[rule] = target
		case match != nil:
			rule = match[1]
			targets[rule] = makeTarget{needs: strings.Fields(match[2])}
		default:
			rule = ""
		}
	}

	for name, target := range targets {
		target.recipe = makeVariablePattern.ReplaceAllStringFunc(target.recipe, func(variable string) string {
			if text, ok := texts[variable[2:len(variable)-1]]; ok {
				return text
			}
			return variable
		})
		targets[name] = target
	}

	return targets
}

// isConcurrent reports whether a Go file starts goroutines, or uses channels or locks.
func isConcurrent(file string) bool {
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
	if err != nil {
		return false
	}

	found := slices.ContainsFunc(parsed.Imports, func(i *ast.ImportSpec) bool {
		return i.Path.Value == `"sync"` || i.Path.Value == `"sync/atomic"`
	})

	ast.Inspect(parsed, func(n ast.Node) bool {
		switch n.(type) {
		case *ast.GoStmt, *ast.ChanType, *ast.SelectStmt:
			found = true
		}
		return !found
	})

	return found
}
