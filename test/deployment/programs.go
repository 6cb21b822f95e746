package deployment

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"cardquota.dev/operator/test/cluster"
)

// clocksVariable set to shippedClocks makes tests run the programs as shipped.
const (
	clocksVariable = "CLOCKS"
	shippedClocks  = "shipped"
)

// ClockFactor returns by how much the timeouts of the programs are shortened in tests; see
// package internal/build. It is 1 with CLOCKS=shipped.
func ClockFactor() int {
	if os.Getenv(clocksVariable) == shippedClocks {
		return 1
	}
	return 4 // the Makefile links it
}

// ProgramPath returns the path of a program's binary. Tests build it from the current sources.
func ProgramPath(ctx context.Context, name string) (string, error) {
	root, err := cluster.ModuleRoot()
	if err != nil {
		return "", err
	}

	if !testing.Testing() {
		path := filepath.Join(root, "bin", name)
		if _, err := os.Stat(path); err != nil {
			return "", fmt.Errorf("%s is not built, run make build: %w", name, err)
		}
		return path, nil
	}

	target := "test-programs"
	dir := filepath.Join(root, "bin", "test")
	switch clocks := os.Getenv(clocksVariable); clocks {
	case "":
	case shippedClocks:
		target = "programs"
		dir = filepath.Join(root, "bin")
	default:
		return "", fmt.Errorf("%s is %q, want %q or nothing", clocksVariable, clocks, shippedClocks)
	}

	if err := buildOnce(ctx, root, target); err != nil {
		return "", err
	}

	return filepath.Join(dir, name), nil
}

var builtTargets = make(chan map[string]error, 1)

func init() { builtTargets <- map[string]error{} }

// buildOnce runs a make target once per process, and in one process at a time.
func buildOnce(ctx context.Context, root, target string) error {
	done := <-builtTargets
	defer func() { builtTargets <- done }()
	if err, ok := done[target]; ok {
		return err
	}
	err := runMake(ctx, root, target)
	if ctx.Err() == nil {
		done[target] = err
	}
	return err
}

func runMake(ctx context.Context, root, target string) error {
	if err := os.MkdirAll(filepath.Join(root, "bin"), 0o755); err != nil {
		return err
	}
	lock, err := os.OpenFile(filepath.Join(root, "bin", ".programs.lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = lock.Close() }() // nothing was written

	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return fmt.Errorf("lock of the build: %w", err)
	}
	command := exec.CommandContext(ctx, "make", "--silent", "-C", root, target)

	// The make that runs this test must not influence this one.
	command.Env = slices.DeleteFunc(os.Environ(), func(kv string) bool { return strings.HasPrefix(kv, "MAKE") || strings.HasPrefix(kv, "MFLAGS=") })
	if out, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("make %s: %w\n%s", target, err, out)
	}

	return nil
}
