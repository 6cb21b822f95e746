package cluster

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"sync"
)

// Ports come from below the range the kernel takes for outgoing connections (32768 on
// Linux), so that no client socket can take one between its choice and its use.
const (
	firstPort = 20000
	lastPort  = 29999
)

var (
	handedOutMu sync.Mutex
	handedOut   = map[int]bool{}
)

// FreePort returns a TCP port that nobody listens on, on any address of this machine, and
// that this process has not handed out before.
func FreePort() (int, error) {
	handedOutMu.Lock()
	defer handedOutMu.Unlock()
	for range 200 {
		port := firstPort + rand.IntN(lastPort-firstPort+1)
		if handedOut[port] {
			continue
		}
		// The wildcard address collides with a listener on any single address.
		l, err := net.Listen("tcp", fmt.Sprintf(":%d", port))
		if err != nil {
			continue
		}
		if err := l.Close(); err != nil {
			return 0, fmt.Errorf("free port: %w", err)
		}
		handedOut[port] = true
		return port, nil
	}
	return 0, errors.New("no free port found between 20000 and 29999")
}

// portTaken tells from a component's log that somebody else got its port first.
func portTaken(logFile string) bool {
	text, err := os.ReadFile(logFile)
	return err == nil && strings.Contains(string(text), "address already in use")
}

// ServiceAddress returns the address of this machine that Services lead to: the first
// usable one that is neither loopback nor link-local, because EndpointSlices may not hold
// those. Test processes that serve webhooks listen there.
func ServiceAddress() (string, error) {
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return "", fmt.Errorf("addresses of this machine: %w", err)
	}
	var v6 string
	for _, a := range addresses {
		ipNet, ok := a.(*net.IPNet)
		if !ok || !ipNet.IP.IsGlobalUnicast() {
			continue
		}
		if ipNet.IP.To4() != nil {
			return ipNet.IP.String(), nil
		}
		if v6 == "" {
			v6 = ipNet.IP.String()
		}
	}
	if v6 == "" {
		return "", errors.New("this machine has only loopback and link-local addresses, which EndpointSlices may not hold; " +
			"give it one, e.g. as root: ip address add 198.18.0.1/32 dev lo")
	}
	return v6, nil
}
