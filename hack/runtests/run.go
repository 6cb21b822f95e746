package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
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
	opened    []string
}

// runner runs stages of one checkout.
type runner struct {
	project *project
	self    string // this program
	dist    string // where logs and reports are left

	printing sync.Mutex
}

// runStages runs the chosen stages, reports, and returns whether everything passed.
func runStages(ctx context.Context, p *project, all bool, only []string) (bool, error) {
	r, err := newRunner(p)
	if err != nil {
		return false, err
	}

	began := time.Now()
	plan, err := r.planRun(ctx, all, only)
	if err != nil {
		return false, err
	}

	plan.printDecisions(os.Stdout)
	outcomes := []outcome{r.buildTargets(ctx, plan.chosen)}
	if outcomes[0].err == nil {
		outcomes = append(outcomes, r.runLanes(ctx, plan)...)
	}

	return r.writeReport(outcomes, plan, time.Since(began))
}

func newRunner(p *project) (*runner, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	dist := filepath.Join(p.root, "dist")
	return &runner{project: p, self: self, dist: dist}, os.MkdirAll(dist, 0o755)
}

// buildTargets runs the make targets that the stages need.
func (r *runner) buildTargets(ctx context.Context, chosen []stage) outcome {
	var targets []string
	for _, s := range chosen {
		for _, target := range s.needs {
			if !slices.Contains(targets, target) {
				targets = append(targets, target)
			}
		}
	}

	o := outcome{stage: stage{name: "build"}}
	if len(targets) > 0 {
		r.runCommand(ctx, &o, nil, "make", targets...)
	}

	return o
}

// runLanes runs the lanes in parallel and the stages of each in order. A failed stage stops no
// other one: one run shows all failures.
func (r *runner) runLanes(ctx context.Context, p *plan) []outcome {
	var (
		mu       sync.Mutex
		outcomes []outcome
		running  sync.WaitGroup
	)

	for _, l := range lanes {
		running.Go(func() {
			for _, s := range p.chosen {
				if s.lane != l {
					continue
				}

				o := r.runStage(ctx, s)
				mu.Lock()
				if s.group && o.err == nil && len(o.results.skipped) == 0 { // at once: the run may be ended
					if err := p.recordPass(o); err != nil {
						r.printLine(s.name, "its record was not kept: "+err.Error())
					}
				}

				outcomes = append(outcomes, o)
				mu.Unlock()
			}
		})
	}

	running.Wait()
	return outcomes
}

func (r *runner) runStage(ctx context.Context, s stage) outcome {
	o := outcome{stage: s}
	if err := ctx.Err(); err != nil {
		o.err = err
		return o
	}

	r.printLine(s.name, "begins")
	if len(s.targets) > 0 {
		r.runCommand(ctx, &o, nil, "make", s.targets...)
	} else {
		r.runTests(ctx, &o)
	}

	verdict := "passed"
	if o.err != nil {
		verdict = "FAILED: " + o.err.Error()
	}

	r.printLine(s.name, fmt.Sprintf("%s after %s", verdict, o.wall.Round(time.Second/10)))
	return o
}

// testFlags returns the arguments of go test before the packages, and its environment.
func (r *runner) testFlags(ctx context.Context, s stage) (args, env []string) {
	// The lint stage vets these packages.
	args = []string{"test", "-json", "-vet=off", "-timeout=" + s.timeout.String()}
	args = append(args, s.flags...)

	env = slices.Clone(s.env)
	switch {
	case s.race && hasCompiler(ctx):
		args = append(args, "-race")
		env = append(env, "CGO_ENABLED=1")
	case s.race:
		r.printLine(s.name, "without the race detector, because there is no C compiler: apt-get install gcc")
	case s.lane != background:
		// Two suites, whose tests partly wait, keep the API servers on two processors busy.
		// Package cluster limits how many clusters run on the machine.
		suites := max(2, runtime.NumCPU())
		args = append(args, "-count=1", fmt.Sprintf("-p=%d", suites), fmt.Sprintf("-parallel=%d", 3*suites))
	}

	if s.run != "" {
		args = append(args, "-run="+s.run)
	}
	if s.skip != "" {
		args = append(args, "-skip="+s.skip)
	}

	// Run the garbage collector less often, for more memory. Clusters do not pass this to the
	// programs.
	env = append(env, "GOGC=400")
	return args, env
}

// runTests runs go test for a stage.
func (r *runner) runTests(ctx context.Context, o *outcome) {
	s := o.stage
	args, env := r.testFlags(ctx, s)
	temporary, err := openTempDir()
	if err != nil {
		o.err = err
		return
	}
	defer func() { o.err = errors.Join(o.err, temporary.close()) }()

	logs := filepath.Join(temporary.path, "logs")
	if err := os.Mkdir(logs, 0o755); err != nil {
		o.err = err
		return
	}

	env = append(env, "GOTMPDIR="+temporary.path)
	if !s.group { // real nodes of several runs know of each other by files in the common folder
		env = append(env, "TMPDIR="+temporary.path)
	}

	args = append(args, "-exec="+r.self+" exec "+logs)
	for _, dir := range s.packages {
		args = append(args, "./"+dir)
	}

	log, err := os.Create(filepath.Join(r.dist, s.name+".json"))
	if err != nil {
		o.err = err
		return
	}
	defer func() { _ = log.Close() }()

	events, eventsEnd := io.Pipe()
	followed := make(chan error, 1)
	out := &prefixWriter{runner: r, name: s.name}
	go func() {
		var err error
		o.results, err = readEvents(events, log, out, r.project.module)
		followed <- err
	}()

	r.runCommand(ctx, o, &commandIO{eventsEnd, env}, "go", args...)
	_ = eventsEnd.Close()

	o.err = errors.Join(o.err, <-followed)
	if o.err == nil && o.results.passed == 0 {
		o.err = errors.New("no test ran")
	}

	o.opened, err = r.project.openedFiles(logs)
	if err != nil {
		o.err = errors.Join(o.err, err)
	}
}

// hasCompiler reports whether there is a C compiler, which the race detector needs.
func hasCompiler(ctx context.Context) bool {
	compiler, err := runOutput(ctx, "", "go", "env", "CC")
	if err != nil {
		return false
	}
	_, err = exec.LookPath(strings.TrimSpace(compiler))
	return err == nil
}

// commandIO is where a command's output goes and what is added to its environment.
type commandIO struct {
	stdout io.Writer
	env    []string
}

// runCommand runs a command of a stage and measures it with all its children. The kernel ends
// it when this process is killed.
func (r *runner) runCommand(ctx context.Context, o *outcome, to *commandIO, name string, args ...string) {
	if o.stage.lane == background && o.stage.name != "build" {
		name, args = "nice", append([]string{"-n", "10", name}, args...)
	}

	began := time.Now()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = r.project.root
	cmd.Env = os.Environ()

	out := &prefixWriter{runner: r, name: o.stage.name}
	cmd.Stdout = out
	cmd.Stderr = out
	if to != nil {
		cmd.Stdout = to.stdout
		cmd.Env = append(cmd.Env, to.env...)
	}

	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}

	// Ask the whole group to end, so that clusters stop and temporary folders are removed.
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = time.Minute
	err := childprocess.Start(cmd)
	if err == nil {
		err = cmd.Wait()
	}

	out.flush()
	o.wall += time.Since(began)
	if cmd.ProcessState != nil {
		o.cpu += cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	}

	if err != nil {
		o.err = fmt.Errorf("%s: %w", name, err)
		if to == nil {
			o.results.failures = []failure{{o.stage.name, strings.Join(out.last, "\n")}}
		}
	}
}

// prefixWriter writes whole lines, prefixed with the name of their stage: lanes print at the
// same time.
type prefixWriter struct {
	runner *runner
	name   string
	mu     sync.Mutex
	rest   []byte
	last   []string // the last lines, as many as a verdict repeats
}

func (w *prefixWriter) Write(text []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()

	w.rest = append(w.rest, text...)
	for {
		advance, line, _ := bufio.ScanLines(w.rest, false)
		if advance == 0 {
			return len(text), nil
		}

		w.runner.printLine(w.name, string(line))
		w.last = append(w.last, string(line))
		w.last = w.last[max(0, len(w.last)-maxFailureLines):]
		w.rest = w.rest[advance:]
	}
}

func (w *prefixWriter) flush() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.rest) > 0 {
		w.runner.printLine(w.name, string(w.rest))
		w.rest = nil
	}
}

func (r *runner) printLine(name, line string) {
	r.printing.Lock()
	defer r.printing.Unlock()
	fmt.Printf("%-14s| %s\n", name, line)
}

// commitCount returns the number of commits of the checkout, for the rotation.
func commitCount(ctx context.Context, root string) int {
	text, err := runOutput(ctx, root, "git", "rev-list", "--count", "HEAD")
	if err != nil {
		return 0
	}
	n, _ := strconv.Atoi(strings.TrimSpace(text))
	return n
}
