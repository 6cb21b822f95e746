package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"cardquota.dev/operator/internal/testing/childprocess"
)

// outcome is the result of a stage.
type outcome struct {
	stage     stage
	err       error
	wall, cpu time.Duration
	results   testResults
}

// runStages runs the chosen stages, reports, and returns whether everything passed.
func runStages(ctx context.Context, p *project, all bool, only []string) (bool, error) {
	began := time.Now()
	stages := allStages(p)
	decisions, err := p.chooseStages(ctx, stages, all, only)
	if err != nil {
		return false, err
	}

	build := stage{name: "build", budget: 90}
	var chosen []stage
	var notRun []string
	for _, s := range stages {
		d := decisions[s.name]
		switch {
		case !d.run:
			notRun = append(notRun, fmt.Sprintf("not run: %s: %s", s.name, d.reason))
			continue
		case s.group:
			fmt.Printf("run:     %s: %s\n", s.name, d.reason)
		}

		if all && s.race { // it has time to draw as often as other stages
			s.env = nil
		}
		chosen = append(chosen, s)
		build.targets = append(build.targets, s.needs...)
	}

	fmt.Println(strings.Join(notRun, "\n"))
	var outcomes []outcome
	if len(build.targets) > 0 {
		outcomes = append(outcomes, p.runStage(ctx, build))
	}
	if (len(outcomes) == 0) || (outcomes[0].err == nil) {
		outcomes = append(outcomes, p.runLanes(ctx, chosen)...)
	}
	return p.writeReport(outcomes, notRun, time.Since(began))
}

// runLanes runs the lanes in parallel and the stages of each in order. A failed stage stops no
// other one: one run shows all failures.
func (p *project) runLanes(ctx context.Context, chosen []stage) []outcome {
	var (
		mu       sync.Mutex
		outcomes []outcome
		running  sync.WaitGroup
	)

	for _, l := range []lane{background, clusters} {
		running.Go(func() {
			for _, s := range chosen {
				if s.lane != l {
					continue
				}

				o := p.runStage(ctx, s)
				mu.Lock()
				outcomes = append(outcomes, o)
				mu.Unlock()
			}
		})
	}

	running.Wait()
	return outcomes
}

func (p *project) runStage(ctx context.Context, s stage) outcome {
	o := outcome{stage: s, err: ctx.Err()}
	if o.err != nil {
		return o
	}

	printLine(s.name, "begins")
	if len(s.targets) > 0 {
		o.runCommand(ctx, p.root, nil, nil, "make", s.targets...)
	} else {
		o.err = p.runTests(ctx, &o)
	}

	verdict := "passed"
	if o.err != nil {
		verdict = "FAILED: " + o.err.Error()
	}

	printLine(s.name, fmt.Sprintf("%s after %s", verdict, o.wall.Round(time.Second/10)))
	return o
}

// testFlags returns the arguments of go test before the packages, and its environment.
func testFlags(s stage) (args, env []string) {
	// The lint stage vets these packages. The garbage collector runs less often, for more memory.
	args = []string{"test", "-json", "-vet=off", "-timeout=" + s.timeout.String(), "-run=" + s.run, "-skip=" + s.skip}
	env = append(slices.Clone(s.env), "GOGC=400")
	if s.lane == background {
		args = append(args, "-shuffle=on")
	}

	_, err := exec.LookPath("gcc")
	switch {
	case s.race && (err == nil):
		return append(args, "-race"), append(env, "CGO_ENABLED=1")
	case s.race:
		printLine(s.name, "without the race detector, because there is no C compiler: apt-get install gcc")
	case s.lane != background:
		// Two suites, whose tests partly wait, keep the API servers on two processors busy.
		// Package cluster limits how many clusters run on the machine.
		suites := max(2, runtime.NumCPU())
		args = append(args, "-count=1", fmt.Sprintf("-p=%d", suites), fmt.Sprintf("-parallel=%d", 3*suites))
	}
	return args, env
}

// runTests runs go test for a stage.
func (p *project) runTests(ctx context.Context, o *outcome) error {
	s := o.stage
	temporary, unlock, err := openTempDir(p.root, s.name)
	if err != nil {
		return err
	}
	defer unlock()

	log, logErr := createFile(p.root, s.name+".json")
	logs := filepath.Join(temporary, "logs")
	self, err := os.Executable()
	if err := errors.Join(err, logErr, os.Mkdir(logs, 0o755)); err != nil {
		return err
	}
	defer func() { _ = log.Close() }()

	args, env := testFlags(s)
	env = append(env, "GOTMPDIR="+temporary)
	if !s.group { // real nodes of several runs know of each other by files in the common folder
		env = append(env, "TMPDIR="+temporary)
	}

	args = append(args, "-exec="+self+" exec "+logs)
	for _, dir := range s.packages {
		args = append(args, "./"+dir)
	}

	events, eventsEnd := io.Pipe()
	followed := make(chan error, 1)
	go func() {
		var err error
		o.results, err = readEvents(events, log, &prefixWriter{name: s.name}, p.module)
		followed <- err
	}()

	o.runCommand(ctx, p.root, eventsEnd, env, "go", args...)
	_ = eventsEnd.Close()
	o.err = errors.Join(o.err, <-followed)
	if (o.err == nil) && (o.results.passed == 0) {
		o.err = errors.New("no test ran")
	}

	if s.group && (o.err == nil) && (len(o.results.skipped) == 0) {
		return p.recordGroup(ctx, s, logs)
	}
	return o.err
}

// recordGroup records that a group passed, at once: the run may be ended. It does not where
// the lists of its inputs lack a file.
func (p *project) recordGroup(ctx context.Context, s stage, logs string) error {
	unlisted, err := p.unlistedFiles(s, logs)
	if err != nil {
		return err
	}
	if len(unlisted) > 0 {
		printLine(s.name, "WARNING: it runs again next time, because the stage does not say that it reads "+strings.Join(unlisted, ", "))
		return nil
	}
	return p.recordPass(ctx, s.name)
}

// openTempDir returns an empty folder for the temporary files of a stage, and removes what a
// killed run left there. It is locked until the returned function removes it.
func openTempDir(root, stage string) (string, func(), error) {
	// Its name is short, because sockets have short paths.
	dir := filepath.Join(os.TempDir(), fmt.Sprintf("runtests-%x", crc32.ChecksumIEEE(fmt.Append(nil, os.Getuid(), root, stage))))
	lock, err := createFile(root, stage+".lock")
	if err != nil {
		return "", nil, err
	}

	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return "", nil, errors.Join(fmt.Errorf("another run in this clone runs the stage %s: %w", stage, err), lock.Close())
	}
	unlock := func() {
		_ = os.RemoveAll(dir)
		_ = lock.Close()
	}
	return dir, unlock, errors.Join(os.RemoveAll(dir), os.Mkdir(dir, 0o700))
}

// createFile creates a file of the folder for logs and reports.
func createFile(root, name string) (*os.File, error) {
	dist := filepath.Join(root, "dist")
	if err := os.MkdirAll(dist, 0o755); err != nil {
		return nil, err
	}
	return os.Create(filepath.Join(dist, name))
}

// runCommand runs a command of a stage and measures it with all its children. The kernel ends
// it when this process is killed. Without a writer for its stdout it prints that too.
func (o *outcome) runCommand(ctx context.Context, root string, stdout io.Writer, env []string, name string, args ...string) {
	if o.stage.lane == background && o.stage.name != "build" {
		args = append([]string{"-n", "10", name}, args...)
		name = "nice"
	}

	began := time.Now()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), env...)
	out := &prefixWriter{name: o.stage.name}
	cmd.Stdout = out
	cmd.Stderr = out
	if stdout != nil {
		cmd.Stdout = stdout
	}

	// Ask the whole group to end, so that clusters stop and temporary folders are removed.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = time.Minute
	err := childprocess.Start(cmd)
	if err == nil {
		err = cmd.Wait()
	}

	o.wall = time.Since(began)
	if cmd.ProcessState != nil {
		o.cpu = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	}
	if err != nil {
		o.err = fmt.Errorf("%s: %w", name, err)
		if stdout == nil {
			o.results.failures = []failure{{o.stage.name, out.last}}
		}
	}
}

// prefixWriter prints whole lines, prefixed with the name of their stage: lanes print at the
// same time.
type prefixWriter struct {
	name string
	rest []byte
	last string // the last lines, at least as many as a verdict repeats
}

func (w *prefixWriter) Write(text []byte) (int, error) {
	w.rest = append(w.rest, text...)
	for {
		advance, line, _ := bufio.ScanLines(w.rest, false)
		if advance == 0 {
			return len(text), nil
		}

		printLine(w.name, string(line))
		w.last += string(line) + "\n"
		w.last = w.last[max(0, len(w.last)-maxFailureLines*maxLineBytes):]
		w.rest = w.rest[advance:]
	}
}

var printing sync.Mutex

func printLine(name, line string) {
	printing.Lock()
	defer printing.Unlock()
	fmt.Printf("%-14s| %s\n", name, line)
}
