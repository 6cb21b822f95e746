package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// testEvent is a line of `go test -json` (see `go doc test2json`).
type testEvent struct {
	Action, Package, ImportPath, Test, Output string
	Elapsed                                   float64
}

// testResults are the results of tests.
type testResults struct {
	passed, failed int
	skipped        []string       // package and test
	tests          []testDuration // tests without subtests
	failures       []failure
}

// failure is a failed test, or a package that failed outside its tests, with its output.
type failure struct{ name, text string }

// testDuration is how long a test ran, without waiting for other parallel tests.
type testDuration struct {
	name    string
	elapsed time.Duration
}

// readEvents reads the events of `go test -json` and copies them to log. It prints to out which
// packages passed, and the complete output of failures.
func readEvents(events io.Reader, log, out io.Writer, module string) (testResults, error) {
	var r testResults
	texts := map[string]*strings.Builder{} // of what has not ended
	parents := map[string]bool{}

	lines := bufio.NewReader(events)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			if _, err := log.Write(line); err != nil {
				return r, err
			}

			var e testEvent
			if json.Unmarshal(line, &e) != nil { // go's own words
				_, _ = out.Write(line)
			} else {
				r.addEvent(e, texts, parents, out, module)
			}
		}

		if err == io.EOF {
			return r, nil
		} else if err != nil {
			return r, err
		}
	}
}

func (r *testResults) addEvent(e testEvent, texts map[string]*strings.Builder, parents map[string]bool, out io.Writer, module string) {
	pkg := strings.TrimPrefix(e.Package, module+"/")
	name := strings.TrimSuffix(pkg+" "+e.Test, " ")
	switch e.Action {
	case "output":
		if texts[name] == nil {
			texts[name] = &strings.Builder{}
		}
		texts[name].WriteString(e.Output)
		return
	case "build-output":
		_, _ = io.WriteString(out, e.Output)
		return
	case "pass", "fail", "skip":
	default:
		return
	}

	text := texts[name]
	delete(texts, name)
	if e.Test == "" {
		r.addPackageEvent(e, pkg, text, out)
		return
	}

	for parent := path.Dir(e.Test); parent != "."; parent = path.Dir(parent) {
		parents[pkg+" "+parent] = true
	}
	if !parents[name] {
		r.tests = append(r.tests, testDuration{name, time.Duration(e.Elapsed * float64(time.Second))})
	}

	switch e.Action {
	case "pass":
		r.passed++
	case "skip":
		r.skipped = append(r.skipped, name)
	case "fail":
		r.failed++
		if text != nil {
			fmt.Fprintf(out, "FAIL %s (%.1f s)\n%s", name, e.Elapsed, text)
			r.failures = append(r.failures, failure{name, text.String()})
		}
	}
}

func (r *testResults) addPackageEvent(e testEvent, pkg string, text *strings.Builder, out io.Writer) {
	switch e.Action {
	case "pass":
		cached := ""
		if text != nil && strings.Contains(text.String(), "(cached)") {
			cached = ", cached"
		}
		fmt.Fprintf(out, "ok   %s (%.1f s%s)\n", pkg, e.Elapsed, cached)
	case "fail":
		if text != nil { // what no test printed: a panic, a failed start
			_, _ = io.WriteString(out, text.String())
			if !slices.ContainsFunc(r.failures, func(f failure) bool { return strings.HasPrefix(f.name, pkg+" ") }) {
				r.failures = append(r.failures, failure{pkg, text.String()})
			}
		}

		fmt.Fprintf(out, "FAIL %s (%.1f s)\n", pkg, e.Elapsed)
	}
}

// execTest replaces this process by a test binary: go test calls it with -exec. The binary is
// killed together with go test, so that a killed run leaves no control plane behind. It lists
// the files that it opens.
func execTest(logs string, command []string) error {
	if len(command) == 0 {
		return fmt.Errorf("usage: exec FOLDER BINARY ARGUMENT…")
	}
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(syscall.SIGKILL), 0, 0, 0); err != nil {
		return err
	}

	dir, err := os.Getwd()
	if err != nil {
		return err
	}

	log := filepath.Join(logs, strings.ReplaceAll(strings.TrimPrefix(dir, "/"), "/", "+")+".testlog")
	return syscall.Exec(command[0], append(command, "-test.testlogfile="+log), os.Environ())
}

// openedFiles returns the project's files that test binaries opened or looked at, from the
// lists in a folder.
func (p *project) openedFiles(logs string) ([]string, error) {
	entries, err := filepath.Glob(filepath.Join(logs, "*.testlog"))
	if err != nil {
		return nil, err
	}

	var opened []string
	for _, entry := range entries {
		text, err := os.ReadFile(entry)
		if err != nil {
			return nil, err
		}

		dir := "/" + strings.ReplaceAll(strings.TrimSuffix(filepath.Base(entry), ".testlog"), "+", "/")
		for line := range strings.Lines(string(text)) {
			action, name, _ := strings.Cut(strings.TrimSpace(line), " ")
			if !filepath.IsAbs(name) {
				name = filepath.Join(dir, name)
			}

			switch action {
			case "chdir":
				dir = name
			case "open", "stat":
				if file, err := filepath.Rel(p.root, name); err == nil && p.known[file] {
					opened = append(opened, file)
				}
			}
		}
	}

	return opened, nil
}
