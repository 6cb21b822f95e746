package cluster

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"text/template"
	"time"
)

// realNodeCloneFlags are the namespaces that the node does not share with this machine.
const realNodeCloneFlags = syscall.CLONE_NEWNS | syscall.CLONE_NEWNET | syscall.CLONE_NEWPID |
	syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC

// startNamespaces starts the node's first process and connects its network with this
// machine's.
func (c *Cluster) startNamespaces(ctx context.Context, n *realNode) error {
	for _, hidden := range []string{"/var/", "/run/"} {
		if strings.HasPrefix(n.dir, hidden) {
			return fmt.Errorf("the state folder %s is below %s, which the node replaces; choose another in Options.Dir or TMPDIR", c.Dir(), hidden)
		}
	}

	for _, part := range []string{"tmp", "kubelet", "containerd", "cni", "pod-logs"} {
		if err := os.MkdirAll(filepath.Join(n.dir, part), 0o755); err != nil {
			return err
		}
	}

	script, err := nodeFiles.ReadFile("realnode/init.sh")
	if err != nil {
		return err
	}
	if _, err := n.writeFile("init.sh", script); err != nil {
		return err
	}

	n.initProcess, err = c.StartProcess(ctx, ProcessSpec{
		Name: "real-node", Path: "/bin/sh", Args: []string{filepath.Join(n.dir, "init.sh"), n.dir},
		cloneFlags: realNodeCloneFlags, component: true,
		Ready: func(context.Context) error {
			_, err := os.Stat(filepath.Join(n.dir, "ready"))
			return err
		},
	})
	if err != nil {
		return err
	}
	if err := n.slot.makeCgroups(); err != nil {
		return err
	}

	return n.connectNetwork(ctx)
}

// connectNetwork connects this machine and the node by a virtual link. This machine reaches the
// node's pods and Services over it, and the node the apiserver.
func (n *realNode) connectNetwork(ctx context.Context) error {
	s := n.slot
	const port = "eth0" // the node's end

	inside := func(args ...string) *exec.Cmd {
		args = n.nsenterCommand("ip", args...)
		return exec.CommandContext(ctx, args[0], args[1:]...)
	}
	outside := func(args ...string) *exec.Cmd { return exec.CommandContext(ctx, "ip", args...) }

	for _, command := range []*exec.Cmd{
		outside("link", "add", s.linkName(), "type", "veth", "peer", "name", port, "netns", strconv.Itoa(n.initProcess.Pid())),
		outside("address", "add", s.hostAddress()+"/30", "dev", s.linkName()),
		outside("link", "set", s.linkName(), "up"),
		inside("link", "set", "lo", "up"),
		inside("address", "add", s.nodeAddress()+"/30", "dev", port),
		inside("link", "set", port, "up"),
		inside("route", "add", "default", "via", s.hostAddress()),
		outside("route", "add", s.podCIDR(), "via", s.nodeAddress()),
		outside("route", "add", s.serviceCIDR(), "via", s.nodeAddress()),
	} {
		if err := runCommand(command); err != nil {
			return fmt.Errorf("network: %w", err)
		}
	}

	return nil
}

// nsenterCommand returns the command line that runs a program inside the node.
func (n *realNode) nsenterCommand(program string, args ...string) []string {
	return append([]string{
		"nsenter", "--target=" + strconv.Itoa(n.initProcess.Pid()), "--mount", "--net", "--pid", "--uts", "--ipc", "--", program,
	}, args...)
}

// startInNode starts a component of the node and waits until it is ready.
func (c *Cluster) startInNode(ctx context.Context, n *realNode, spec ProcessSpec) error {
	command := n.nsenterCommand(spec.Path, spec.Args...)
	nsenter, err := exec.LookPath(command[0])
	if err != nil {
		return err
	}
	spec.Path = nsenter
	spec.Args = command[1:]
	spec.component = true
	_, err = c.StartProcess(ctx, spec)
	return err
}

func (n *realNode) writeFile(name string, content []byte) (string, error) {
	path := filepath.Join(n.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return "", err
	}
	return path, os.WriteFile(path, content, 0o600)
}

// renderTemplate renders a template of the folder realnode into a file of the same name in the
// node's folder.
func (n *realNode) renderTemplate(name string, values map[string]any) (string, error) {
	parsed, err := template.ParseFS(nodeFiles, "realnode/"+name)
	if err != nil {
		return "", err
	}
	var text bytes.Buffer
	if err := parsed.Option("missingkey=error").Execute(&text, values); err != nil {
		return "", err
	}
	return n.writeFile(name, text.Bytes())
}

const cgroupMount = "/sys/fs/cgroup"

// removeLeftovers removes what remains after a node's processes have ended: its cgroups, and
// for a moment its link.
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

// release releases the slot after the node has ended.
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

// makeCgroups creates the parent cgroup of the pods' cgroups.
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

// cgroupHierarchies returns the mount points of cgroups: one with version 2, one per controller
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
