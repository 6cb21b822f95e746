package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/childprocess"
)

// A test runs parts of a run in separate processes: part is the name of the part.
const part = "RUNTESTS_PART"

func TestMain(m *testing.M) {
	switch os.Getenv(part) {
	case "":
		os.Exit(m.Run())
	case "run": // a run whose stage is a go test
		_ = os.Setenv(part, "go test")
		(&outcome{stage: stage{name: "s", lane: clusters}}).runCommand(context.Background(), ".", nil, nil, os.Args[0])

	case "go test": // a go test that runs a test binary by way of execTest
		fmt.Println("started", os.Getpid())
		_ = os.Setenv(part, "exec")
		binary := exec.Command(os.Args[0])
		binary.Stdout = os.Stdout
		_ = childprocess.Start(binary)
		time.Sleep(time.Hour)
	case "exec":
		_ = os.Setenv(part, "test binary")
		_ = execTest(os.TempDir(), []string{os.Args[0]})
	case "test binary":
		fmt.Println("started", os.Getpid())
		time.Sleep(time.Hour)
	}
}

// TestAKilledRunLeavesNoProcess: however runtests ends, the go test that it has started, and the test binary
// that this go test runs, end with it. A run with a go test and a test binary, which print their process IDs and would
// wait for an hour, is killed or terminated.
func TestAKilledRunLeavesNoProcess(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM} {
		t.Run(fmt.Sprint(sig), func(t *testing.T) {
			run := exec.CommandContext(t.Context(), os.Args[0])
			run.Env = append(os.Environ(), part+"=run", "TMPDIR="+t.TempDir())
			out := check.Value(run.StdoutPipe())(t)
			check.NoError(t, childprocess.Start(run))

			var pids [2]int
			for i := range pids {
				check.Value(fmt.Fscanf(out, "s             | started %d\n", &pids[i]))(t)
			}

			check.NoError(t, run.Process.Signal(sig))
			_ = run.Wait()
			for deadline := time.Now().Add(time.Minute); isAlive(pids[0]) || isAlive(pids[1]); time.Sleep(10 * time.Millisecond) {
				check.Must(t, time.Now().Before(deadline), "a process of %v still runs", pids)
			}
		})
	}
}

// isAlive reports whether a process runs. A zombie does not.
func isAlive(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return (err == nil) && !strings.Contains(string(text), ") Z")
}

// TestTheNextRunRemovesTheTemporaryFilesOfAKilledOne: each clone has one folder of temporary files for each
// command, so a second run at the same time is refused. A run that was killed leaves files and no lock. The
// next one gets an empty folder.
func TestTheNextRunRemovesTheTemporaryFilesOfAKilledOne(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	clone := t.TempDir()
	dir, unlock, err := openTempDir(clone, "unit")
	check.NoError(t, err)
	_, _, err = openTempDir(clone, "unit")
	check.Says(t, err, "another run")

	unlock()
	check.NoError(t, os.MkdirAll(filepath.Join(dir, "left"), 0o700)) // as a run that was killed leaves it

	next, unlock, err := openTempDir(clone, "unit")
	check.NoError(t, err)
	defer unlock()
	check.Equal(t, "files in the folder of the next run", 0, len(check.Value(os.ReadDir(next))(t)))
}

// TestAGroupNamesFilesThatItReadsAndDoesNotList: Go writes a log of the files that a test opens or looks at ("stat").
// Those of the project that are no inputs of the group are named, each once, so that the lists can be completed. The test
// in package dir opens its input config/a.yaml, and /etc/passwd, which is no file of the project. Then it changes its folder to docs,
// looks at a.md and b.md there, and opens a.md and other/other.go. These three are no inputs.
func TestAGroupNamesFilesThatItReadsAndDoesNotList(t *testing.T) {
	p := newProject(t, inputFiles)
	p.files = []string{"config/a.yaml", "docs/a.md", "docs/b.md", "other/other.go"}

	logs := t.TempDir()
	logOfDir := strings.ReplaceAll(filepath.Join(p.root, "dir"), "/", "%2F")
	opened := strings.Join([]string{
		"# test log", "getenv HOME", "open ../config/a.yaml", "open /etc/passwd",
		"chdir ../docs", "stat a.md", "stat b.md", "open " + p.root + "/other/other.go", "open a.md", "",
	}, "\n")
	check.NoError(t, os.WriteFile(filepath.Join(logs, logOfDir), []byte(opened), 0o600))

	got := check.Value(p.unlistedFiles(stage{packages: []string{"dir"}}, logs))(t)
	check.Equal(t, "files that are no inputs", []string{"docs/a.md", "docs/b.md", "other/other.go"}, got)
}
