package cluster

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

const cgroupMount = "/sys/fs/cgroup"

// removeLeftovers removes what the end of a node's processes does not take away by itself: its
// cgroups, and for the moment that the kernel needs, its link.
func (s nodeSlot) removeLeftovers() error {
	deadline := time.Now().Add(10 * time.Second)
	for {
		err := errors.Join(s.removeLink(), s.removeCgroups())
		if err == nil || time.Now().After(deadline) {
			return err
		}
		time.Sleep(pollInterval) // dying processes leave their cgroups when they are reaped
	}
}

// release gives the slot back after the node has ended.
func (s nodeSlot) release() error {
	return errors.Join(s.removeLeftovers(), s.lock.Close())
}

func (s nodeSlot) removeLink() error {
	links, err := net.Interfaces()
	if err != nil {
		return fmt.Errorf("links: %w", err)
	}
	if !slices.ContainsFunc(links, func(link net.Interface) bool { return link.Name == s.linkName() }) {
		return nil
	}
	return runCommand(exec.Command("ip", "link", "delete", s.linkName()))
}

func (s nodeSlot) removeCgroups() error {
	hierarchies, err := cgroupHierarchies()
	if err != nil {
		return err
	}
	for _, hierarchy := range hierarchies {
		var groups []string
		walk := func(path string, entry fs.DirEntry, err error) error {
			if err == nil && entry.IsDir() {
				groups = append(groups, path)
			}
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			return err
		}
		if err := filepath.WalkDir(filepath.Join(hierarchy, s.linkName()), walk); err != nil {
			return fmt.Errorf("cgroups: %w", err)
		}
		for _, group := range slices.Backward(groups) { // children before parents
			if err := syscall.Rmdir(group); err != nil && !errors.Is(err, syscall.ENOENT) {
				return fmt.Errorf("cgroup %s: %w", group, err)
			}
		}
	}
	return nil
}

// makeCgroups makes the cgroup under which the kubelet makes those of the pods.
func (s nodeSlot) makeCgroups() error {
	hierarchies, err := cgroupHierarchies()
	if err != nil {
		return err
	}
	for _, hierarchy := range hierarchies {
		if err := os.MkdirAll(filepath.Join(hierarchy, s.linkName()), 0o755); err != nil {
			return fmt.Errorf("cgroup: %w", err)
		}
	}
	return nil
}

// cgroupHierarchies are the mount points of cgroups: one with version 2, one per controller
// with version 1.
func cgroupHierarchies() ([]string, error) {
	mounts, err := os.Open("/proc/self/mounts")
	if err != nil {
		return nil, fmt.Errorf("cgroups: %w", err)
	}
	defer func() { _ = mounts.Close() }()
	var found []string
	for lines := bufio.NewScanner(mounts); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) < 3 || !strings.HasPrefix(fields[1], cgroupMount) {
			continue
		}
		if fields[2] == "cgroup" || fields[2] == "cgroup2" {
			found = append(found, fields[1])
		}
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("%w: no cgroups are mounted below %s", ErrNoRealNode, cgroupMount)
	}
	return found, nil
}
