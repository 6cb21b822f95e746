package cluster

import (
	"cmp"
	"context"
	"embed"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
)

// ErrNoRealNode is wrapped by Start's error when this machine cannot run a real node; the
// error says what is missing. hack/install-node-tools.sh installs the tools.
var ErrNoRealNode = errors.New("a real node cannot run here")

// RealNodeLabel is "true" on the real node and absent on those of the fleet.
const RealNodeLabel = "test.cardquota.dev/real-node"

// RealNode describes a node with a real kubelet, containerd and kube-proxy beside the fleet. It
// runs containers and probes, and its Services are reachable from this machine. There is no DNS
// and no route to the outside.
//
// Use the node selector RealNodeLabel for pods that must run there. Use an affinity or a taint
// for pods that must not. Images come from Cluster.ImportImage; their pods need an
// imagePullPolicy other than Always.
//
// The node has its own mount, network and process namespaces. The kernel removes them with
// everything inside when the node ends. Up to eight real nodes run on one machine at a time,
// each with its own addresses.
type RealNode struct {
	// Name is the node's name; default "real-0".
	Name string
	// Labels are added to the usual ones, e.g. nvidia.com/gpu.product.
	Labels map[string]string
	// Taints of the node.
	Taints []corev1.Taint
	// Cards are the fake cards of the node: resource name → count. A device plugin offers them
	// to the kubelet. A container sees the ids of its cards in NVIDIA_VISIBLE_DEVICES, whatever
	// the vendor.
	Cards map[corev1.ResourceName]int
}

// realNode is a RealNode of a running cluster.
type realNode struct {
	RealNode
	slot        nodeSlot
	dir         string // its state
	initProcess *Process
}

// newRealNode acquires a slot for the node and starts nothing.
func (c *Cluster) newRealNode() (*realNode, error) {
	s, err := acquireNodeSlot()
	if err != nil {
		return nil, err
	}
	n := &realNode{RealNode: *c.options.RealNode, slot: s, dir: c.dir.nodeDir()}
	n.Name = cmp.Or(n.Name, "real-0")
	return n, nil
}

// cniFolder returns the folder of the CNI plugins, by default Debian's.
func cniFolder() string {
	return cmp.Or(os.Getenv("CNI_BIN_DIR"), "/usr/lib/cni")
}

// CanRunRealNode returns nil when this machine can run a real node. Otherwise its error wraps
// ErrNoRealNode and names everything that is missing.
func CanRunRealNode() error {
	var missing []string
	if os.Geteuid() != 0 {
		missing = append(missing, "root")
	}

	for _, program := range []string{"buildah", "containerd", "ctr", "runc", "iptables-save", "ip", "nsenter"} {
		if _, err := exec.LookPath(program); err != nil {
			missing = append(missing, program)
		}
	}

	for _, plugin := range []string{"ptp", "host-local", "portmap", "loopback"} {
		if path := filepath.Join(cniFolder(), plugin); !isFile(path) {
			missing = append(missing, path)
		}
	}

	if len(missing) == 0 {
		return nil
	}

	return fmt.Errorf("%w: it needs %s; hack/install-node-tools.sh installs the tools", ErrNoRealNode, strings.Join(missing, ", "))
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// nodeSlot is one of the slots for real nodes on this machine: a unique set of addresses, names
// and cgroups.
type nodeSlot struct {
	number int
	lock   *os.File // locked as long as the node may live
}

const maxRealNodes = 8

// The addresses are from the range for benchmarks between networks (RFC 2544), so that they do
// not conflict with others.
func (s nodeSlot) hostAddress() string { return fmt.Sprintf("198.19.%d.1", 2*s.number) }
func (s nodeSlot) nodeAddress() string { return fmt.Sprintf("198.19.%d.2", 2*s.number) }
func (s nodeSlot) podCIDR() string     { return fmt.Sprintf("198.19.%d.0/24", 2*s.number+1) }

// linkName is the name of the link and of the cgroups.
func (s nodeSlot) linkName() string { return fmt.Sprintf("cardquota-%d", s.number) }

// serviceCIDR is the range of ClusterIPs. This machine has a route to it, so each cluster needs
// its own.
func (s nodeSlot) serviceCIDR() string { return fmt.Sprintf("10.%d.0.0/16", 96+s.number) }

// apiServiceIP is the ClusterIP of the Service "kubernetes".
func (s nodeSlot) apiServiceIP() net.IP { return net.IPv4(10, byte(96+s.number), 0, 1) }

// acquireNodeSlot acquires the first free slot and removes what a killed cluster left in it.
func acquireNodeSlot() (nodeSlot, error) {
	for number := range maxRealNodes {
		path := filepath.Join(os.TempDir(), fmt.Sprintf("cardquota-real-node-%d.lock", number))
		lock, err := lockFile(path)
		if errors.Is(err, syscall.EWOULDBLOCK) {
			continue
		}
		if err != nil {
			return nodeSlot{}, fmt.Errorf("real node: %w", err)
		}

		s := nodeSlot{number: number, lock: lock}
		if err := s.removeLeftovers(); err != nil {
			return nodeSlot{}, errors.Join(fmt.Errorf("real node: remains of an earlier one: %w", err), lock.Close())
		}

		return s, nil
	}
	return nodeSlot{}, fmt.Errorf("real node: all %d places of this machine are in use", maxRealNodes)
}

//go:embed realnode
var nodeFiles embed.FS

const (
	containerdSocket = "/run/containerd/containerd.sock"
	pauseImage       = "localhost/pause:local"
)

// startRealNode starts the node and returns when it is Ready and offers its cards.
func (c *Cluster) startRealNode(ctx context.Context) error {
	n := c.realNode
	err := c.startNamespaces(ctx, n)
	if err == nil {
		err = c.startContainerd(ctx, n)
	}

	if err == nil {
		group, ctx := errgroup.WithContext(ctx)
		group.Go(func() error { return c.startKubelet(ctx, n) })
		group.Go(func() error { return c.startKubeProxy(ctx, n) })
		err = group.Wait()
	}
	if err != nil {
		return fmt.Errorf("real node: %w", err)
	}

	return nil
}

func (c *Cluster) startContainerd(ctx context.Context, n *realNode) error {
	values := map[string]any{"Dir": n.dir, "Socket": containerdSocket, "Pause": pauseImage, "CNI": cniFolder(), "Pods": n.slot.podCIDR()}
	config, err := n.renderTemplate("containerd.toml", values)
	if err != nil {
		return err
	}
	if _, err := n.renderTemplate("cni/10-cardquota.conflist", values); err != nil {
		return err
	}

	containerd, err := exec.LookPath("containerd")
	if err != nil {
		return err
	}

	if err := c.startInNode(ctx, n, ProcessSpec{
		Name: "containerd", Path: containerd, Args: []string{"--config=" + config},
		Ready: func(ctx context.Context) error { return c.runCtr(ctx, "version") },
	}); err != nil {
		return err
	}

	pause, err := c.BuildImage(ctx, pauseImage, "./test/cluster/cmd/pause")
	if err != nil {
		return err
	}

	return c.ImportImage(ctx, pause)
}

// ImportImage imports the images of an archive (OCI or docker-archive) into the real node,
// under their names in the archive.
func (c *Cluster) ImportImage(ctx context.Context, archive string) error {
	archive, err := filepath.Abs(archive)
	if err != nil {
		return fmt.Errorf("import image: %w", err)
	}
	if c.realNode == nil {
		return fmt.Errorf("import image %s: the cluster has no real node", archive)
	}
	if err := c.runCtr(ctx, "images", "import", archive); err != nil {
		return fmt.Errorf("import image: %w", err)
	}
	return nil
}

func (c *Cluster) runCtr(ctx context.Context, args ...string) error {
	command := c.realNode.nsenterCommand("ctr", append([]string{"--address=" + containerdSocket, "--namespace=k8s.io"}, args...)...)
	return runCommand(exec.CommandContext(ctx, command[0], command[1:]...))
}
