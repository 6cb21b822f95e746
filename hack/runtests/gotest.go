package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// testEvent is a line of `go test -json` (see `go doc test2json`).
type testEvent struct {
	Action, Package, Test, Output string
	Elapsed                       float64
}

// testResults are the results of tests.
type testResults struct {
	passed, failed int
	skipped        []string       // package and test
	tests          []testDuration // tests without subtests
	failures       []failure

	out    io.Writer
	module string
	texts  map[string]string // of what has not ended
	parent map[string]bool   // of the tests with subtests
}

// failure is a failed test, or a package that failed outside its tests, with its output.
type failure struct{ name, text string }

// testDuration is how many seconds a test ran, without waiting for other parallel tests.
type testDuration struct {
	name    string
	seconds float64
}

// readEvents reads the events of `go test -json` and copies them to log. It prints to out which
// packages passed, and the complete output of failures.
func readEvents(events io.Reader, log, out io.Writer, module string) (testResults, error) {
	r := testResults{out: out, module: module + "/", texts: map[string]string{}, parent: map[string]bool{}}
	lines := bufio.NewReader(io.TeeReader(events, log))
	for {
		line, err := lines.ReadBytes('\n')
		var e testEvent
		if (len(line) > 0) && (json.Unmarshal(line, &e) != nil) { // go's own words
			_, _ = out.Write(line)
		}

		r.addEvent(e)
		if err == io.EOF {
			return r, nil
		} else if err != nil {
			return r, err
		}
	}
}

func (r *testResults) addEvent(e testEvent) {
	pkg := strings.TrimPrefix(e.Package, r.module)
	name := strings.TrimSuffix(pkg+" "+e.Test, " ")

	switch e.Action {
	case "output":
		r.texts[name] += e.Output
	case "build-output":
		_, _ = io.WriteString(r.out, e.Output)
	case "pass", "fail", "skip":
		if e.Test == "" {
			r.addPackage(e, pkg, r.texts[pkg])
		} else {
			r.addTest(e, name, r.texts[name])
		}
		delete(r.texts, name)
	}
}

func (r *testResults) addTest(e testEvent, name, text string) {
	r.parent[path.Dir(name)] = true
	if !r.parent[name] {
		r.tests = append(r.tests, testDuration{name, e.Elapsed})
	}

	switch e.Action {
	case "pass":
		r.passed++
	case "skip":
		r.skipped = append(r.skipped, name)
	case "fail":
		r.failed++
		if text != "" {
			_, _ = fmt.Fprintf(r.out, "FAIL %s (%.1f s)\n%s", name, e.Elapsed, text)
			r.failures = append(r.failures, failure{name, text})
		}
	}
}

func (r *testResults) addPackage(e testEvent, pkg, text string) {
	if e.Action != "fail" {
		_, _ = fmt.Fprintf(r.out, "ok   %s (%.1f s)\n", pkg, e.Elapsed)
		return
	}

	// This is what no test printed: a panic, a failed start.
	_, _ = fmt.Fprintf(r.out, "%sFAIL %s (%.1f s)\n", text, pkg, e.Elapsed)
	if !slices.ContainsFunc(r.failures, func(f failure) bool { return strings.HasPrefix(f.name, pkg+" ") }) {
		r.failures = append(r.failures, failure{pkg, text})
	}
}

// execTest replaces this process by a test binary: go test calls it with -exec. The binary is
// killed together with go test, so that a killed run leaves no control plane behind. It lists
// the files that it opens in a folder.
func execTest(logs string, command []string) error {
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(syscall.SIGKILL), 0, 0, 0); err != nil {
		return err
	}

	dir, err := os.Getwd()
	if (err != nil) || (len(command) == 0) {
		return errors.Join(errors.New("usage: exec FOLDER BINARY ARGUMENT…"), err)
	}
	return syscall.Exec(command[0], append(command, "-test.testlogfile="+filepath.Join(logs, url.PathEscape(dir))), os.Environ())
}

// unlistedFiles returns the project's files that the tests of a group opened or looked at,
// although they do not decide the group.
func (p *project) unlistedFiles(s stage, logs string) ([]string, error) {
	entries, err := os.ReadDir(logs)
	if err != nil {
		return nil, err
	}

	var unlisted []string
	for _, entry := range entries {
		dir, err := url.PathUnescape(entry.Name())
		if err != nil {
			return nil, err
		}
		text, err := os.ReadFile(filepath.Join(logs, entry.Name()))
		if err != nil {
			return nil, err
		}

		for line := range strings.Lines(string(text)) {
			action, name, _ := strings.Cut(strings.TrimSpace(line), " ")
			if !filepath.IsAbs(name) {
				name = filepath.Join(dir, name)
			}

			file, err := filepath.Rel(p.root, name)
			switch {
			case action == "chdir":
				dir = name
			case (err == nil) && slices.Contains(p.files, file) && !p.isInput(s, file):
				unlisted = append(unlisted, file)
			}
		}
	}

	slices.Sort(unlisted)
	return slices.Compact(unlisted), nil
}
