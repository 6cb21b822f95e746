package cluster

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cardquota.dev/operator/internal/testing/check"
)

// holderMode makes the test binary hold a port, a permit and a state folder until it is killed.
const holderMode = "CARDQUOTA_TEST_HOLDER"

func init() {
	if os.Getenv(holderMode) == "" {
		return
	}

	port, err := FreePort()
	var held *permit
	if err == nil {
		held, err = acquirePermit(context.Background(), func(string) {})
	}

	var dir stateDir
	if err == nil {
		dir, err = openStateDir("")
	}

	fmt.Println(port, dir.path, err)
	time.Sleep(time.Hour)
	fmt.Println(held, dir) // their locks are open until here
}

// startHolder starts such a process and returns what it reserved.
func startHolder(t *testing.T) (holder *exec.Cmd, port int, dir string) {
	holder = exec.Command(os.Args[0])
	holder.Env = append(os.Environ(), holderMode+"=1")
	out := check.Value(holder.StdoutPipe())(t)
	check.NoError(t, startChild(holder))

	var problem string
	_, err := fmt.Fscan(out, &port, &dir, &problem)
	check.Must(t, err == nil && problem == "<nil>", "holder: %v %s", err, problem)

	t.Cleanup(func() { killProcess(holder) })

	return holder, port, dir
}

func killProcess(holder *exec.Cmd) {
	if holder.ProcessState == nil {
		_ = holder.Process.Kill()
		_ = holder.Wait() // it was killed
	}
}

// ownMachine gives the test its own locks and temporary folders.
func ownMachine(t *testing.T, limit string) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	t.Setenv("TMPDIR", t.TempDir())
	t.Setenv(clustersVariable, limit)
	before := permitsHeld.Swap(0)
	t.Cleanup(func() { permitsHeld.Store(before) })
}

func acquire(t *testing.T) (*permit, error) {
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	return acquirePermit(ctx, func(string) {})
}

func TestKilledProcessLeavesNothingBehind(t *testing.T) {
	ownMachine(t, "2")
	holder, port, dir := startHolder(t)
	locks := check.Value(locksDir())(t)

	file := check.Value(os.OpenFile(filepath.Join(locks, "ports.lock"), os.O_RDWR, 0o600))(t)
	defer func() { _ = file.Close() }()

	used := check.Value(openStateDir(""))(t)

	_, err := acquire(t)
	check.Says(t, err, fmt.Sprintf("process %d (", holder.Process.Pid))
	if pid, running := Owner(dir); !running || pid != holder.Process.Pid {
		t.Errorf("the folder belongs to process %d (running %t), want %d", pid, running, holder.Process.Pid)
	}
	check.Equal(t, "its port is given away", false, tryReservePort(file, port))
	check.Equal(t, "another port is given away", true, tryReservePort(file, port+1))

	killProcess(holder)
	if pid, running := Owner(dir); running {
		t.Errorf("the folder belongs to process %d, which was killed", pid)
	}
	check.Equal(t, "its port is given away", true, tryReservePort(file, port))

	check.NoError(t, check.Value(acquire(t))(t).release())
	next := check.Value(openStateDir(""))(t)

	wantFile(t, dir, false)
	wantFile(t, used.pkiDir(), true)
	check.NoError(t, next.close())
	check.NoError(t, used.close())
	left, _ := filepath.Glob(filepath.Join(os.TempDir(), "*"))
	check.That(t, len(left) == 0, "left behind: %v", left)
}

func TestFirstClustersLeaveAPlaceForSecondOnes(t *testing.T) {
	ownMachine(t, "3")
	startHolder(t) // another process with its first cluster
	first := check.Value(acquire(t))(t)

	second := check.Value(acquire(t))(t)

	_, err := acquire(t)
	check.Says(t, err, "at most 3 run on this machine")
	check.Says(t, err, clustersVariable)
	check.NoError(t, first.release())
	check.NoError(t, second.release())

	// The first permits of another process and of this one; permit 0 is only for second
	// clusters.
	first = check.Value(acquire(t))(t)

	permitsHeld.Store(0)
	_, err = acquire(t) // a third process
	check.Says(t, err, "waiting until another cluster stops")
	check.NoError(t, first.release())
}

func TestWaitingIsReportedAndEndsWithTheOtherCluster(t *testing.T) {
	ownMachine(t, "2")
	holder, _, _ := startHolder(t)
	said := make(chan string, 100)
	began := time.Now()

	p := check.Value(acquirePermit(t.Context(), func(message string) {
		said <- message
		killProcess(holder)
	}))(t)
	check.NoError(t, p.release())

	check.Must(t, len(said) > 0, "nothing was said")
	if message := <-said; !strings.Contains(message, "waiting until another cluster stops") || time.Since(began) > 30*time.Second {
		t.Errorf("%q after %s", message, time.Since(began))
	}
}

func TestClusterLimit(t *testing.T) {
	const gib = 1 << 30

	for t, test := range check.Cases(t, map[string]struct {
		configured string
		cores      int
		memory     uint64
		want       int
	}{
		"two cores":                {cores: 2, memory: 24 * gib, want: 3},
		"many cores":               {cores: 16, memory: 128 * gib, want: 24},
		"little memory":            {cores: 16, memory: 16 * gib, want: 5},
		"one core":                 {cores: 1, memory: 24 * gib, want: 2},
		"unknown memory":           {cores: 8, want: 2},
		"configured":               {configured: "7", cores: 2, memory: gib, want: 7},
		"too few for a test":       {configured: "1", cores: 8, memory: 64 * gib},
		"something else as number": {configured: "many", cores: 8, memory: 64 * gib},
	}) {
		got, err := clusterLimit(test.configured, test.cores, test.memory)
		check.That(t, got == test.want && (err != nil) == (test.want == 0), "got %d, %v, want %d", got, err, test.want)
	}
}

// A run may be killed at any moment while it creates or removes its folder. A new folder may
// still get its lock.
func TestRemainsOfEveryMomentAreRemoved(t *testing.T) {
	for name, tc := range map[string]struct {
		leave func(dir string) error
		age   time.Duration
		kept  bool // when it has the name of a new one
	}{
		"named and locked once":     {func(dir string) error { return os.WriteFile(filepath.Join(dir, lockName), nil, 0o600) }, time.Hour, false},
		"lock lost":                 {func(dir string) error { return os.Mkdir(filepath.Join(dir, "etcd"), 0o700) }, time.Hour, false},
		"all but the folder itself": {func(string) error { return nil }, time.Hour, false},
		"just made":                 {func(string) error { return nil }, 0, true},
	} {
		for _, prefix := range []string{temporaryPrefix, unlockedPrefix} {
			t.Run(name+"/"+prefix, func(t *testing.T) {
				t.Setenv("TMPDIR", t.TempDir())
				dir := filepath.Join(os.TempDir(), prefix+"1")
				made := time.Now().Add(-tc.age)
				for _, err := range []error{os.Mkdir(dir, 0o700), tc.leave(dir), os.Chtimes(dir, made, made)} {
					check.NoError(t, err)
				}

				removeAbandoned()
				wantFile(t, dir, tc.kept && prefix == unlockedPrefix)
			})
		}
	}
}
