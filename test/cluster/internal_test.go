package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/go-logr/logr"

	"cardquota.dev/operator/internal/testing/check"
)

// TestTakenPortsAreReplaced: a component that finds its port taken starts again on another.
func TestTakenPortsAreReplaced(t *testing.T) {
	for name, tc := range map[string]struct {
		taken, attempts int
		want            error
	}{
		"twice":      {taken: 2, attempts: 3},
		"every time": {taken: portAttempts, attempts: portAttempts, want: errPortTaken},
	} {
		t.Run(name, func(t *testing.T) {
			dir, err := openStateDir(t.TempDir())
			check.NoError(t, err)
			c := &Cluster{options: Options{Log: logr.Discard()}, dir: dir, crash: make(chan struct{})}
			t.Cleanup(func() { check.NoError(t, c.Stop()) })
			ports := map[int]bool{}
			attempts := 0
			p, err := c.startReady(t.Context(), func(free int) (ProcessSpec, error) {
				attempts++
				ports[free] = true
				script := "exec sleep 1000"
				if attempts <= tc.taken {
					script = fmt.Sprintf("echo listen tcp 127.0.0.1:%d: bind: address already in use; exit 1", free)
				}
				ready := func(context.Context) error {
					if attempts <= tc.taken {
						return errors.New("not ready")
					}
					return nil
				}
				return ProcessSpec{Name: "fussy", Path: "/bin/sh", Args: []string{"-c", script}, Ready: ready}, nil
			})
			if !errors.Is(err, tc.want) || attempts != tc.attempts || len(ports) != attempts {
				t.Errorf("got %v after %d attempts on ports %v, want %v after %d on as many", err, attempts, ports, tc.want, tc.attempts)
			}
			if left := c.processes(); err == nil && (!p.Running() || len(left) != 1) {
				t.Errorf("running %t, %d processes are left, want only the last", p.Running(), len(left))
			}
		})
	}
}

func TestFreePortsAreFreeAndDifferent(t *testing.T) {
	seen := map[int]bool{}
	for range 50 {
		port, err := FreePort()
		check.NoError(t, err)
		if seen[port] {
			t.Fatalf("port %d was handed out twice", port)
		}
		seen[port] = true
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		check.NoError(t, err)
		_ = l.Close()
	}
}

func TestFolderInUseIsRefusedAndAKeptOneReused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kept")
	first, err := openStateDir(path)
	check.NoError(t, err)
	_, err = openStateDir(path)
	check.Says(t, err, "in use by another cluster")
	check.NoError(t, os.WriteFile(filepath.Join(first.etcd(), "old"), nil, 0o600))
	check.NoError(t, first.close())
	second, err := openStateDir(path)
	check.NoError(t, err)
	wantFile(t, filepath.Join(second.etcd(), "old"), false)
	check.NoError(t, second.close())
}

// wantFile checks whether a file or folder is there.
func wantFile(t *testing.T, path string, want bool) {
	t.Helper()
	_, err := os.Stat(path)
	check.Equal(t, path+" is there", want, !os.IsNotExist(err))
}

func TestDecodeSkipsCommentsAndNamesBadDocuments(t *testing.T) {
	objects, err := Decode([]byte("# only a comment\n---\napiVersion: v1\nkind: Namespace\nmetadata: {name: a}\n---\n"))
	if err != nil || len(objects) != 1 || objects[0].GetName() != "a" {
		t.Errorf("got %v, %v, want the one Namespace", objects, err)
	}
	_, err = Decode([]byte("apiVersion: v1\nkind: Namespace\n---\nmetadata: {}\n"))
	check.Says(t, err, "document 2")
}
