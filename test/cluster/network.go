package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	discoveryv1ac "k8s.io/client-go/applyconfigurations/discovery/v1"
)

// Ports are below the range that the kernel uses for outgoing connections (32768 on Linux), so
// that no client socket can take one between its choice and its use.
const (
	firstPort = 20000
	lastPort  = 29999
)

// portLocks are the ports that this process has reserved.
var portLocks struct {
	sync.Mutex
	// file has one locked byte for each of them.
	file     *os.File
	reserved map[int]bool
}

// FreePort reserves a TCP port that no process listens on, on any address of this machine. No
// other process that calls FreePort gets it until this process ends. The kernel releases it
// however the process ends.
func FreePort() (int, error) {
	portLocks.Lock()
	defer portLocks.Unlock()

	if portLocks.file == nil {
		dir, err := locksDir()
		if err != nil {
			return 0, err
		}
		portLocks.file, err = os.OpenFile(filepath.Join(dir, "ports.lock"), os.O_CREATE|os.O_RDWR, 0o600)
		if err != nil {
			return 0, fmt.Errorf("free port: %w", err)
		}
		portLocks.reserved = map[int]bool{}
	}

	for range 200 {
		port := firstPort + rand.IntN(lastPort-firstPort+1)
		if portLocks.reserved[port] || !tryReservePort(portLocks.file, port) {
			continue
		}

		// The wildcard address conflicts with a listener on any single address.
		l, err := net.Listen("tcp", fmt.Sprintf(":%d", port))
		if err != nil {
			continue // it stays reserved: a process listens there that did not reserve it
		}
		if err := l.Close(); err != nil {
			return 0, fmt.Errorf("free port: %w", err)
		}

		portLocks.reserved[port] = true
		return port, nil
	}

	return 0, fmt.Errorf("no free port found between %d and %d in 200 attempts; `ss -ltn` shows who listens there", firstPort, lastPort)
}

// FreeAddress returns a free port on loopback as an address.
func FreeAddress() (string, error) {
	port, err := FreePort()
	return fmt.Sprintf("127.0.0.1:%d", port), err
}

// tryReservePort locks the port's byte of the file for this open file, unless another open file
// has it.
func tryReservePort(file *os.File, port int) bool {
	lock := unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart, Start: int64(port), Len: 1}
	return unix.FcntlFlock(file.Fd(), unix.F_OFD_SETLK, &lock) == nil
}

// ServiceAddress returns the address of this machine for Services: the first IPv4 address that
// is neither loopback nor link-local, because EndpointSlices may not contain those. Test processes
// that serve webhooks listen there.
func ServiceAddress() (string, error) {
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return "", fmt.Errorf("addresses of this machine: %w", err)
	}
	for _, a := range addresses {
		if ipNet, ok := a.(*net.IPNet); ok && ipNet.IP.IsGlobalUnicast() && ipNet.IP.To4() != nil {
			return ipNet.IP.String(), nil
		}
	}
	return "", errors.New("this machine has only loopback and link-local addresses, which EndpointSlices may not contain; " +
		"give it one, e.g. as root: ip address add 198.18.0.1/32 dev lo")
}

// ExposeService directs a Service to a port of this machine, so that the apiserver reaches a
// test process (a webhook) by the Service's name. The process must listen on ServiceAddress (or
// on all addresses) and serve a certificate for <name>.<namespace>.svc.
//
// All ports of the Service, which must exist, lead to the process. Calling it again changes the
// port.
func (c *Cluster) ExposeService(ctx context.Context, namespace, name string, port int) error {
	address, err := ServiceAddress()
	if err != nil {
		return fmt.Errorf("expose service %s/%s: %w", namespace, name, err)
	}

	service, err := c.client.CoreV1().Services(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("expose service %s/%s: %w", namespace, name, err)
	}

	// The prefix avoids the names of the endpoint slice controller.
	slice := discoveryv1ac.EndpointSlice("test-process-"+name, namespace).
		WithLabels(map[string]string{discoveryv1.LabelServiceName: name, discoveryv1.LabelManagedBy: fieldManager}).
		WithAddressType(discoveryv1.AddressTypeIPv4).
		WithEndpoints(discoveryv1ac.Endpoint().
			WithAddresses(address).
			WithConditions(discoveryv1ac.EndpointConditions().WithReady(true)))

	for _, servicePort := range service.Spec.Ports {
		slice.WithPorts(discoveryv1ac.EndpointPort().
			WithName(servicePort.Name).WithPort(int32(port)).WithProtocol(corev1.ProtocolTCP))
	}

	_, err = c.client.DiscoveryV1().EndpointSlices(namespace).Apply(ctx, slice, metav1.ApplyOptions{FieldManager: fieldManager, Force: true})
	if err != nil {
		return fmt.Errorf("expose service %s/%s: %w", namespace, name, err)
	}

	return nil
}
