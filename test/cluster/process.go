package cluster

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"cardquota.dev/operator/internal/testing/childprocess"
)

// ProcessSpec describes one managed child process.
type ProcessSpec struct {
	// Name is the component's name; its output goes to LogFile(Name). Consecutive processes
	// with one name share the file.
	Name string
	// Path is the executable: absolute, or relative to the working directory.
	Path string
	// Args are the arguments without the program's name.
	Args []string
	// Env is added to the environment of this process ("KEY=value"). Proxy variables are
	// removed first: all processes talk only to this machine.
	Env []string
	// StopTimeout is how long Stop waits after SIGTERM before it kills the process. 0 means 35
	// s, more than controller-runtime's 30 s.
	StopTimeout time.Duration
	// Ready is called until it returns nil. Without it, StartProcess returns as soon as the
	// process has started.
	Ready func(ctx context.Context) error

	// component marks a component of the cluster, whose unexpected end is an error.
	component bool
	// cloneFlags are the namespaces that the process does not share.
	cloneFlags uintptr
}

// Process is a child of this process. It leads its own process group, so that Ctrl-C at the
// terminal reaches only the parent. The kernel kills it when the parent dies.
type Process struct {
	spec    ProcessSpec
	cmd     *exec.Cmd
	logFile string
	done    chan struct{}

	mu       sync.Mutex
	stopping bool  // the end was asked for
	exit     error // valid once done is closed
}

// startChild starts cmd from a thread that lives as long as this process.
func startChild(cmd *exec.Cmd) error {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid = true
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	return childprocess.Start(cmd)
}

// startProcess runs spec with its output appended to logFile.
func startProcess(spec ProcessSpec, logFile, home string) (*Process, error) {
	out, err := os.OpenFile(logFile, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, fmt.Errorf("log file of %s: %w", spec.Name, err)
	}
	defer func() { _ = out.Close() }() // the child has its own descriptor

	cmd := exec.Command(spec.Path, spec.Args...)
	cmd.Env = append(childEnvironment(home), spec.Env...)
	cmd.Stdout = out
	cmd.Stderr = out
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: spec.cloneFlags}
	if err := startChild(cmd); err != nil {
		return nil, fmt.Errorf("start %s: %w", spec.Name, err)
	}

	p := &Process{spec: spec, cmd: cmd, logFile: logFile, done: make(chan struct{})}
	go p.reap()
	return p, nil
}

func (p *Process) reap() {
	err := p.cmd.Wait()
	// Kill what the process itself has started.
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
	p.mu.Lock()
	p.exit = err
	p.mu.Unlock()
	close(p.done)
}

// rareGCEnv runs Go's garbage collector less often, for more memory. It saves a fifth of the
// CPU time of a control plane under test. Programs of this project run without it, as shipped.
const rareGCEnv = "GOGC=400"

// manyObjectsGCEnv is for clusters with tens of thousands of objects. With rareGCEnv the apiserver would
// take 20 GB then.
const manyObjectsGCEnv = "GOGC=200"

// childEnvironment returns this process's environment without proxies and Go runtime settings.
// HOME is inside the cluster's directory, so that no program uses the user's own configuration.
func childEnvironment(home string) []string {
	var env []string
	for _, kv := range os.Environ() {
		key, _, _ := strings.Cut(kv, "=")
		switch strings.ToUpper(key) {
		case "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "HOME", "KUBECONFIG", "GOGC", "GOMEMLIMIT":
		default:
			env = append(env, kv)
		}
	}
	return append(env, "HOME="+home)
}

// Name returns the component's name.
func (p *Process) Name() string { return p.spec.Name }

// Pid returns the process id; it stays the same after the process has ended.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// LogFile returns the file that has the stdout and stderr of the process.
func (p *Process) LogFile() string { return p.logFile }

// Done is closed when the process has ended and was waited for.
func (p *Process) Done() <-chan struct{} { return p.done }

// Running reports whether the process has not ended yet.
func (p *Process) Running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// Wait blocks until the process has ended. It returns nil for exit code 0, otherwise an
// *exec.ExitError.
func (p *Process) Wait() error {
	<-p.done
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.exit
}

// Stop sends SIGTERM to the process group and waits. After StopTimeout it kills the group,
// which is an error. Stopping an ended process does nothing.
func (p *Process) Stop() error {
	p.sendSignal(syscall.SIGTERM)
	timeout := p.spec.StopTimeout
	if timeout == 0 {
		timeout = 35 * time.Second
	}

	timer := time.NewTimer(timeout)
	defer timer.Stop()

	select {
	case <-p.done:
		return nil
	case <-timer.C:
	}

	p.Kill()
	return fmt.Errorf("%s did not stop within %s after SIGTERM and was killed; the last lines of %s:\n%s",
		p.spec.Name, timeout, p.logFile, lastLines(p.logFile))
}

// Kill sends SIGKILL to the process group, like a crash, and waits until the process is gone.
func (p *Process) Kill() {
	p.sendSignal(syscall.SIGKILL)
	<-p.done
}

func (p *Process) sendSignal(sig syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stopping = true
	if p.Running() {
		_ = syscall.Kill(-p.cmd.Process.Pid, sig)
	}
}

// crashError returns how the process ended if it was not stopped, else nil.
func (p *Process) crashError() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopping || p.Running() {
		return nil
	}
	how := "exit status 0"
	if p.exit != nil {
		how = p.exit.Error()
	}
	return fmt.Errorf("%s ended by itself (%s); the last lines of %s:\n%s", p.spec.Name, how, p.logFile, lastLines(p.logFile))
}

// lastLines returns the last lines of a file, or the error of reading it.
func lastLines(file string) string {
	text, err := os.ReadFile(file)
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimRight(string(text), "\n"), "\n")
	return strings.Join(all[max(0, len(all)-20):], "\n")
}

const (
	pollInterval = 50 * time.Millisecond
	readyTimeout = 3 * time.Minute // also beside a build of everything
)

// waitUntilReady polls the probe until it succeeds, the process ends or the time is up.
func waitUntilReady(ctx context.Context, what string, p *Process, ready func(ctx context.Context) error) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, pollInterval, readyTimeout, true, func(ctx context.Context) (bool, error) {
		last = ready(ctx)
		if last != nil && p != nil && !p.Running() {
			return false, cmp.Or(p.crashError(), errors.New("it was stopped"))
		}
		return last == nil, nil
	})
	if err != nil && p != nil && p.Running() {
		err = fmt.Errorf("%w; its log ends with:\n%s", err, lastLines(p.LogFile()))
	}
	if err != nil {
		return fmt.Errorf("%s: not ready: %w (%w)", what, last, err)
	}

	return nil
}

// awaitReady waits until a process is ready.
func (c *Cluster) awaitReady(ctx context.Context, p *Process) error {
	if p.spec.Ready == nil {
		return nil
	}
	if err := waitUntilReady(ctx, p.Name(), p, p.spec.Ready); err != nil {
		return err
	}
	c.options.Log.Info("ready", "component", p.Name())
	return nil
}

// HTTPProbe returns a probe that succeeds when a URL answers 200.
func HTTPProbe(url string) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		_, err := HTTPGet(ctx, url)
		return err
	}
}

// localClient uses no proxy, a new connection for each request, and no certificate check: it
// talks only to this machine.
var localClient = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}}

// HTTPGet returns the body of a page on this machine that answers 200.
func HTTPGet(ctx context.Context, url string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	return ReadPage(localClient, request)
}

// ReadPage returns the body of a page if the answer is 200.
func ReadPage(client *http.Client, request *http.Request) ([]byte, error) {
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %.300s", response.Status, body)
	}
	return body, err
}
