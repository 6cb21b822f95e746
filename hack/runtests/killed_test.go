package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"cardquota.dev/operator/internal/testing/childprocess"
)

// A test runs parts of a run in separate processes: part is the name of the part.
const part = "RUNTESTS_PART"

func TestMain(m *testing.M) {
	switch os.Getenv(part) {
	case "":
		os.Exit(m.Run())
	case "run": // a run whose stage is a go test
		r := &runner{project: &project{root: "."}, self: os.Args[0]}
		_ = os.Setenv(part, "go test")
		r.runCommand(context.Background(), &outcome{stage: stage{name: "s", lane: clusters}}, nil, os.Args[0])
	case "go test": // a go test that runs a test binary by way of execTest
		writePID("go test")
		_ = os.Setenv(part, "exec")
		_ = childprocess.Start(exec.Command(os.Args[0]))

		time.Sleep(time.Hour)
	case "exec":
		_ = os.Setenv(part, "test binary")
		_ = execTest(os.TempDir(), []string{os.Args[0]})
	case "test binary":
		writePID("test binary")
		time.Sleep(time.Hour)
	}
}

// writePID writes the process id of a part.
func writePID(name string) {
	dir := os.Getenv("RUNTESTS_NOTES")
	temporary := filepath.Join(dir, name+".tmp")
	_ = os.WriteFile(temporary, []byte(strconv.Itoa(os.Getpid())), 0o644)
	_ = os.Rename(temporary, filepath.Join(dir, name))
}

// However a run ends, go test and the test binary end with it, and the kernel ends the control
// planes that the binary has started.
func TestAKilledRunLeavesNoProcess(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM} {
		t.Run(fmt.Sprint(sig), func(t *testing.T) {
			notes := t.TempDir()
			run := exec.CommandContext(t.Context(), os.Args[0])
			run.Env = append(os.Environ(), part+"=run", "RUNTESTS_NOTES="+notes, "TMPDIR="+t.TempDir())
			if err := childprocess.Start(run); err != nil {
				t.Fatal(err)
			}

			var children []int
			for _, name := range []string{"go test", "test binary"} {
				children = append(children, waitForPID(t, filepath.Join(notes, name)))
			}

			if err := run.Process.Signal(sig); err != nil {
				t.Fatal(err)
			}

			_ = run.Wait()
			for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
				var alive []int
				for _, pid := range children {
					if isAlive(pid) {
						alive = append(alive, pid)
					}
				}

				if len(alive) == 0 {
					return
				}
				if time.Now().After(deadline) {
					t.Fatalf("of the processes %v still run %v", children, alive)
				}
			}
		})
	}
}

// waitForPID returns the process id in a file as soon as it is there.
func waitForPID(t *testing.T, file string) int {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if text, err := os.ReadFile(file); err == nil {
			pid, err := strconv.Atoi(string(text))
			if err != nil {
				t.Fatal(err)
			}
			return pid
		}
	}

	t.Fatalf("%s did not start", filepath.Base(file))
	return 0
}

// isAlive reports whether a process runs. A zombie does not.
func isAlive(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	return !strings.HasPrefix(rest, "Z")
}
