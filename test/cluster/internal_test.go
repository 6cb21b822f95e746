package cluster

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"

	"cardquota.dev/operator/internal/testing/check"
)

// TestFreePortsAreFreeAndDifferent: clusters that start at the same time on one machine need different ports. So
// FreePort reserves each port that it returns, and it returns none twice.
func TestFreePortsAreFreeAndDifferent(t *testing.T) {
	seen := map[int]bool{}
	for range 50 {
		port := check.Value(FreePort())(t)
		check.Must(t, !seen[port], "port %d was handed out twice", port)

		seen[port] = true
		_ = check.Value(net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port)))(t).Close()
	}
}

// TestFolderInUseIsRefusedAndAKeptOneReused: a cluster keeps its files in a state folder. A folder that another
// cluster uses is refused. After that cluster has ended, the folder can be used again, with an empty etcd.
func TestFolderInUseIsRefusedAndAKeptOneReused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kept")
	first := check.Value(openStateDir(path))(t)

	_, err := openStateDir(path)
	check.Says(t, err, "in use by another cluster")

	check.NoError(t, os.WriteFile(filepath.Join(first.etcdDir(), "old"), nil, 0o600))
	check.NoError(t, first.close())
	second := check.Value(openStateDir(path))(t)
	wantFile(t, filepath.Join(second.etcdDir(), "old"), false)
	check.NoError(t, second.close())
}

// wantFile checks whether a file or folder exists.
func wantFile(t *testing.T, path string, want bool) {
	_, err := os.Stat(path)
	check.Equal(t, path+" is there", want, !os.IsNotExist(err))
}

// TestDecodeSkipsCommentsAndNamesBadDocuments: Decode reads objects from a YAML text of several documents. It
// skips those that only have comments. An error has the number of the bad document, here of one without a kind.
func TestDecodeSkipsCommentsAndNamesBadDocuments(t *testing.T) {
	objects, err := Decode([]byte("# only a comment\n---\napiVersion: v1\nkind: Namespace\nmetadata: {name: a}\n---\n"))
	check.That(t, err == nil && len(objects) == 1 && objects[0].GetName() == "a", "got %v, %v, want the one Namespace", objects, err)

	_, err = Decode([]byte("apiVersion: v1\nkind: Namespace\n---\nmetadata: {}\n"))
	check.Says(t, err, "document 2")
}
