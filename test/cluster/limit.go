package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// clustersVariable sets how many clusters may run on this machine at the same time.
const clustersVariable = "CARDQUOTA_CLUSTERS"

const (
	// minClusters is the smallest limit: a test that runs two clusters at once needs both.
	minClusters = 2
	// memoryPerCluster bounds the default limit: a busy cluster with both programs and its
	// tests.
	memoryPerCluster = 3 << 30
)

// permit is the right to run one cluster. The kernel releases it when its owner dies.
type permit struct{ lock *os.File }

// ownPermits counts the permits of this process.
var ownPermits atomic.Int32

// acquirePermit waits until a cluster may start. The limit covers all processes of this user.
//
// A process that already runs a cluster may take any permit. The first cluster of a process may
// not take permit 0. Otherwise processes that have one cluster and wait for another could
// deadlock.
func acquirePermit(ctx context.Context, say func(message string)) (*permit, error) {
	limit, err := clusterLimit(os.Getenv(clustersVariable), runtime.NumCPU(), machineMemory())
	if err != nil {
		return nil, err
	}

	dir, err := locksDir()
	if err != nil {
		return nil, err
	}

	report := time.NewTimer(3 * time.Second)
	defer report.Stop()

	poll := time.NewTicker(200 * time.Millisecond)
	defer poll.Stop()

	for {
		free, owners, err := takeFreePermit(dir, limit)
		if free != nil || err != nil {
			return free, err
		}

		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("%s: %w", waitingMessage(limit, owners), context.Cause(ctx))
		case <-report.C:
			say(waitingMessage(limit, owners))
			report.Reset(time.Minute)
		case <-poll.C:
		}
	}
}

// takeFreePermit takes a permit, or returns the owners of all that this process may take.
func takeFreePermit(dir string, limit int) (free *permit, owners []string, err error) {
	for i := range limit {
		if i == 0 && ownPermits.Load() == 0 {
			continue
		}

		path := filepath.Join(dir, fmt.Sprintf("cluster-%d.lock", i))
		lock, err := lockFile(path)
		if err == nil {
			ownPermits.Add(1)
			return &permit{lock}, nil, writeOwner(lock)
		}

		text, readErr := os.ReadFile(path)
		if !errors.Is(err, syscall.EWOULDBLOCK) || readErr != nil {
			return nil, nil, fmt.Errorf("limit of running clusters: %w", errors.Join(err, readErr))
		}
		owners = append(owners, strings.TrimSpace(string(text)))
	}

	return nil, owners, nil
}

func waitingMessage(limit int, owners []string) string {
	return fmt.Sprintf("waiting until another cluster stops: at most %d run on this machine at the same time (%s changes that); they belong to %s",
		limit, clustersVariable, strings.Join(owners, ", "))
}

// writeOwner writes the owner of a lock into it, for processes that wait for it.
func writeOwner(lock *os.File) error {
	owner := fmt.Sprintf("process %d (%s)\n", os.Getpid(), filepath.Base(os.Args[0]))
	err := lock.Truncate(0)
	if err == nil {
		_, err = lock.WriteAt([]byte(owner), 0)
	}
	return err
}

// release lets another cluster start.
func (p *permit) release() error {
	if p == nil {
		return nil
	}
	ownPermits.Add(-1)
	return p.lock.Close()
}

// clusterLimit returns the configured limit, or three clusters per two cores as far as memory
// suffices: clusters mostly wait.
func clusterLimit(configured string, cores int, memory uint64) (int, error) {
	if configured == "" {
		return max(minClusters, min(cores*3/2, int(memory/memoryPerCluster))), nil
	}
	limit, err := strconv.Atoi(configured)
	if err != nil || limit < minClusters {
		return 0, fmt.Errorf("%s is %q, want a number of at least %d", clustersVariable, configured, minClusters)
	}
	return limit, nil
}

// machineMemory returns the size of this machine's memory in bytes, 0 when it is unknown.
func machineMemory() uint64 {
	var info syscall.Sysinfo_t
	if syscall.Sysinfo(&info) != nil {
		return 0
	}
	return uint64(info.Totalram) * uint64(info.Unit)
}

// locksDir returns the folder of the locks that this user's processes share.
func locksDir() (string, error) {
	dir, err := os.UserCacheDir()
	if err != nil { // no home
		dir = filepath.Join(os.TempDir(), fmt.Sprintf("cache-of-%d", os.Getuid()))
	}
	dir = filepath.Join(dir, "cardquota", "locks")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("folder of locks: %w", err)
	}
	return dir, nil
}
