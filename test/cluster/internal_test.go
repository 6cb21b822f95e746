package cluster

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/go-logr/logr"
)

func bare(t *testing.T) *Cluster {
	t.Helper()
	dir, err := openStateDir(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	c := &Cluster{options: Options{Log: logr.Discard()}, dir: dir}
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	})
	return c
}

func TestTakenPortsAreReplaced(t *testing.T) {
	c := bare(t)
	var ports []int
	p, err := c.startReady(t.Context(), 1, func(free []int) (ProcessSpec, probe, error) {
		ports = append(ports, free[0])
		script := "exec sleep 1000"
		if len(ports) < 3 {
			script = "echo listen tcp 127.0.0.1:" + strconv.Itoa(free[0]) + ": bind: address already in use; exit 1"
		}
		ready := func(context.Context) error {
			if len(ports) < 3 {
				return errors.New("not ready")
			}
			return nil
		}
		return ProcessSpec{Name: "fussy", Path: "/bin/sh", Args: []string{"-c", script}}, ready, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if !p.Running() || len(ports) != 3 || ports[0] == ports[1] || ports[1] == ports[2] {
		t.Errorf("running %t on the last of ports %v, want the third of three different ones", p.Running(), ports)
	}
	if len(c.processes()) != 1 {
		t.Errorf("%d processes are left, want only the last", len(c.processes()))
	}
}

func TestPortsThatStayTakenEndTheStart(t *testing.T) {
	c := bare(t)
	attempts := 0
	_, err := c.startReady(t.Context(), 0, func([]int) (ProcessSpec, probe, error) {
		attempts++
		never := func(context.Context) error { return errors.New("not ready") }
		return ProcessSpec{Name: "hopeless", Path: "/bin/sh", Args: []string{"-c", "echo address already in use"}}, never, nil
	})
	if !errors.Is(err, errPortTaken) || attempts != portAttempts {
		t.Errorf("got %v after %d attempts, want errPortTaken after %d", err, attempts, portAttempts)
	}
}

func TestFreePortsAreFreeAndDifferent(t *testing.T) {
	seen := map[int]bool{}
	for range 50 {
		port, err := FreePort()
		if err != nil {
			t.Fatal(err)
		}
		if seen[port] {
			t.Fatalf("port %d was handed out twice", port)
		}
		seen[port] = true
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			t.Fatal(err)
		}
		_ = l.Close()
	}
}

func TestTemporaryFoldersOfKilledOwnersAreRemoved(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	used, err := openStateDir("")
	if err != nil {
		t.Fatal(err)
	}
	abandoned, err := openStateDir("")
	if err != nil {
		t.Fatal(err)
	}
	_ = abandoned.lock.Close() // what the kernel does when the owner is killed

	next, err := openStateDir("")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(abandoned.path); !os.IsNotExist(err) {
		t.Errorf("the abandoned folder is still there (%v)", err)
	}
	if _, err := os.Stat(filepath.Join(used.path, "pki")); err != nil {
		t.Errorf("the folder in use was touched: %v", err)
	}
	for _, d := range []stateDir{used, next} {
		if err := d.close(); err != nil {
			t.Error(err)
		}
	}
}

func TestFolderInUseIsRefusedAndAKeptOneReused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kept")
	first, err := openStateDir(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := openStateDir(path); err == nil || !strings.Contains(err.Error(), "in use by another cluster") {
		t.Errorf("got %v, want a refusal", err)
	}
	if err := os.WriteFile(filepath.Join(first.etcd(), "old"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := first.close(); err != nil {
		t.Fatal(err)
	}
	second, err := openStateDir(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = second.close() }()
	if _, err := os.Stat(filepath.Join(second.etcd(), "old")); !os.IsNotExist(err) {
		t.Error("remains of the earlier cluster are still there")
	}
}

func TestDecodeSkipsCommentsAndNamesBadDocuments(t *testing.T) {
	objects, err := decode([]byte("# only a comment\n---\napiVersion: v1\nkind: Namespace\nmetadata: {name: a}\n---\n"), nil)
	if err != nil || len(objects) != 1 || objects[0].GetName() != "a" {
		t.Errorf("got %v, %v, want the one Namespace", objects, err)
	}
	if _, err := decode([]byte("apiVersion: v1\nkind: Namespace\n---\nmetadata: {}\n"), nil); err == nil || !strings.Contains(err.Error(), "document 2") {
		t.Errorf("got %v, want an error that names document 2", err)
	}
}
