package cluster

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"cardquota.dev/operator/internal/testing/check"
)

// holderMode is the environment variable that makes this test binary a process with a cluster: it takes a port, a
// permit and a state folder, and keeps them until it is killed.
const holderMode = "CARDQUOTA_TEST_HOLDER"

func init() {
	if os.Getenv(holderMode) == "" {
		return
	}

	port, err := FreePort()
	var own *permit
	if err == nil {
		own, err = acquirePermit(context.Background(), func(string) {})
	}

	var dir stateDir
	if err == nil {
		dir, err = openStateDir("")
	}

	fmt.Println(port, dir.path, err)
	time.Sleep(time.Hour)
	fmt.Println(own, dir) // their locks are open until here
}

// startHolder starts a process that has a permit, a port and a state folder, and returns the last two.
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

// isolateLocks gives the test locks and temporary folders of its own, and a limit of clusters.
func isolateLocks(t *testing.T, limit string) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	t.Setenv("TMPDIR", t.TempDir())
	t.Setenv(clustersVariable, limit)
	before := ownPermits.Swap(0)
	t.Cleanup(func() { ownPermits.Store(before) })
}

// acquireWithin50ms takes a permit, or returns an error if none is free for 50 ms.
func acquireWithin50ms(t *testing.T) (*permit, error) {
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	return acquirePermit(ctx, func(string) {})
}

// TestKilledProcessLeavesNothingBehind: a process with a running cluster has a permit, a port and a temporary
// state folder by file locks. The kernel releases these when the process dies. While process "holder" lives,
// others get none of the three. With a limit of 2 and permit 0 kept for second clusters, its permit is the only one
// for a first cluster. Once it is killed, others get all three, and its folder is removed. A folder whose owner
// lives stays.
func TestKilledProcessLeavesNothingBehind(t *testing.T) {
	isolateLocks(t, "2")
	holder, port, dir := startHolder(t)
	file := check.Value(os.OpenFile(filepath.Join(check.Value(locksDir())(t), "ports.lock"), os.O_RDWR, 0o600))(t)
	defer func() { _ = file.Close() }()

	living := check.Value(openStateDir(""))(t) // of this process

	_, err := acquireWithin50ms(t)
	check.Says(t, err, fmt.Sprintf("process %d (", holder.Process.Pid))
	pid, running := Owner(dir)
	check.That(t, running && pid == holder.Process.Pid, "the folder belongs to process %d (running %t), want %d", pid, running, holder.Process.Pid)
	check.Equal(t, "the holder's port can be reserved", false, tryReservePort(file, port))
	check.Equal(t, "another port can be reserved", true, tryReservePort(file, port+1))

	killProcess(holder)
	_, running = Owner(dir)
	check.Equal(t, "a process uses the folder of the killed holder", false, running)
	check.Equal(t, "the port of the killed holder can be reserved", true, tryReservePort(file, port))
	check.NoError(t, check.Value(acquireWithin50ms(t))(t).release())

	next := check.Value(openStateDir(""))(t) // removes folders that were left behind
	wantFile(t, dir, false)
	wantFile(t, living.pkiDir(), true)

	check.NoError(t, next.close())
	check.NoError(t, living.close())
	left, _ := filepath.Glob(filepath.Join(os.TempDir(), "*"))
	check.That(t, len(left) == 0, "left behind: %v", left)
}

// TestFirstClustersLeaveAPlaceForSecondOnes: a machine runs at most 3 clusters here. Permit 0 is only for
// processes that run a cluster already. Otherwise processes that each have one cluster and wait for a second one
// could wait for each other without end.
func TestFirstClustersLeaveAPlaceForSecondOnes(t *testing.T) {
	isolateLocks(t, "3")
	startHolder(t)                                 // another process with its first cluster
	first := check.Value(acquireWithin50ms(t))(t)  // the second of the two permits for first clusters
	second := check.Value(acquireWithin50ms(t))(t) // permit 0, because this process runs a cluster already

	_, err := acquireWithin50ms(t)
	check.Says(t, err, "at most 3 run on this machine")
	check.Says(t, err, clustersVariable)

	check.NoError(t, first.release())
	check.NoError(t, second.release())

	// The other process and this one have a first cluster each. Of three permits only permit 0 is left, which a
	// third process without a cluster does not get.
	first = check.Value(acquireWithin50ms(t))(t)
	ownPermits.Store(0) // this process now counts as the third
	_, err = acquireWithin50ms(t)
	check.Says(t, err, "waiting until another cluster stops")
	check.NoError(t, first.release())
}

// TestWaitingIsReportedAndEndsWithTheOtherCluster: a cluster that cannot start says for which process it waits. It
// starts as soon as that process has ended, here because the message itself kills it. With a limit of 2, process
// "holder" has the only permit for a first cluster.
func TestWaitingIsReportedAndEndsWithTheOtherCluster(t *testing.T) {
	isolateLocks(t, "2")
	holder, _, _ := startHolder(t)
	messages := make(chan string, 100)
	began := time.Now()

	p := check.Value(acquirePermit(t.Context(), func(message string) {
		messages <- message
		killProcess(holder)
	}))(t)
	check.NoError(t, p.release())

	check.Must(t, len(messages) > 0, "no message while the cluster waited")
	check.Contains(t, "message", <-messages, "waiting until another cluster stops", fmt.Sprintf("process %d (", holder.Process.Pid))
	check.That(t, time.Since(began) < 30*time.Second, "the cluster waited for %s", time.Since(began))
}

// TestClusterLimit: a machine runs three clusters per two cores, at most one per 3 GiB of memory, and at least
// the two that some tests need. CARDQUOTA_CLUSTERS overrides the limit. wantLimit is 0 if the variable is
// refused.
func TestClusterLimit(t *testing.T) {
	const gib = 1 << 30

	for t, tc := range check.Cases(t, map[string]struct {
		configured string
		cores      int
		memory     uint64
		wantLimit  int
	}{
		"2 cores, memory for 8 clusters: 3":            {cores: 2, memory: 24 * gib, wantLimit: 2 * 3 / 2},
		"16 cores, memory for 42 clusters: 24":         {cores: 16, memory: 128 * gib, wantLimit: 16 * 3 / 2},
		"16 cores, but memory for only 5 clusters":     {cores: 16, memory: 16 * gib, wantLimit: 16 / 3},
		"1 core: the 2 that some tests need":           {cores: 1, memory: 24 * gib, wantLimit: 2},
		"the size of the memory is unknown: only 2":    {cores: 8, wantLimit: 2},
		"CARDQUOTA_CLUSTERS is 7, beyond the cores: 7": {configured: "7", cores: 2, memory: gib, wantLimit: 7},
		"CARDQUOTA_CLUSTERS is below 2: refused":       {configured: "1", cores: 8, memory: 64 * gib},
		"CARDQUOTA_CLUSTERS is not a number: refused":  {configured: "many", cores: 8, memory: 64 * gib},
	}) {
		got, err := clusterLimit(tc.configured, tc.cores, tc.memory)
		check.Equal(t, "limit", tc.wantLimit, got)
		check.Equal(t, "is refused", tc.wantLimit == 0, err != nil)
	}
}

// TestRemainsOfEveryMomentAreRemoved: a test run may be killed at any moment while it creates or removes its
// temporary folder. The next run removes what is left, whatever the folder has by then. A new folder gets its
// lock a moment after its creation. So a folder with the name of an unlocked one is only removed when it is
// older than a minute.
func TestRemainsOfEveryMomentAreRemoved(t *testing.T) {
	writeLock := func(dir string) error { return os.WriteFile(filepath.Join(dir, lockName), nil, 0o600) }
	createPart := func(dir string) error { return os.Mkdir(filepath.Join(dir, "etcd"), 0o700) }
	leaveEmpty := func(string) error { return nil }

	for name, tc := range map[string]struct {
		fill func(dir string) error
		age  time.Duration
		// staysUnlocked says whether the folder stays if it has the name of an unlocked one.
		staysUnlocked bool
	}{
		"an hour old, with a lock that no process has": {writeLock, time.Hour, false},
		"an hour old, with a part but without a lock":  {createPart, time.Hour, false},
		"an hour old and empty":                        {leaveEmpty, time.Hour, false},
		"just created and empty":                       {leaveEmpty, 0, true},
	} {
		for _, prefix := range []string{temporaryPrefix, unlockedPrefix} {
			t.Run(name+"/"+prefix, func(t *testing.T) {
				t.Setenv("TMPDIR", t.TempDir())
				dir := filepath.Join(os.TempDir(), prefix+"1")
				made := time.Now().Add(-tc.age)
				for _, err := range []error{os.Mkdir(dir, 0o700), tc.fill(dir), os.Chtimes(dir, made, made)} {
					check.NoError(t, err)
				}

				removeAbandoned()
				wantFile(t, dir, tc.staysUnlocked && prefix == unlockedPrefix)
			})
		}
	}
}
