package realnode

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/childprocess"
)

// findTraces finds the traces of a running cluster's node on this machine, and returns a
// function that returns which of them still exist. Another test's node may reuse names
// meanwhile, so traces are identified by the kernel's ids.
func findTraces(t *testing.T, client kubernetes.Interface, dir string) func() []string {
	g := NewWithT(check.Trail(t))
	endpoints := check.Value(client.DiscoveryV1().EndpointSlices("default").List(t.Context(), metav1.ListOptions{
		LabelSelector: discoveryv1.LabelServiceName + "=kubernetes",
	}))(t)
	g.Expect(endpoints.Items).To(HaveLen(1))

	link := check.Value(linkOf(endpoints.Items[0].Endpoints[0].Addresses[0]))(t)

	first := childprocess.Processes(func(proc string) bool { return commandLineHas(proc, filepath.Join(dir, "node", "init.sh")) })
	g.Expect(first).To(HaveLen(1))
	network := check.Value(os.Readlink(filepath.Join("/proc", first[0], "ns", "net")))(t)

	cgroups := map[string]os.FileInfo{}
	for _, pattern := range []string{"/sys/fs/cgroup/", "/sys/fs/cgroup/*/"} {
		for _, path := range check.Value(filepath.Glob(pattern + link.Name))(t) {
			cgroups[path] = check.Value(os.Stat(path))(t)
		}
	}

	return func() []string {
		var found []string
		note := func(what string, which []string) {
			if len(which) > 0 {
				found = append(found, what+" "+strings.Join(which, " "))
			}
		}

		if _, err := net.InterfaceByIndex(link.Index); err == nil {
			note("link", []string{link.Name})
		}

		note("processes of the cluster", childprocess.Processes(func(proc string) bool { return commandLineHas(proc, dir) }))
		note("processes on the node", childprocess.Processes(func(proc string) bool {
			namespace, err := os.Readlink(filepath.Join(proc, "ns", "net"))
			return err == nil && namespace == network
		}))
		note("cgroups", unchangedFiles(cgroups))
		note("mounts, seen by", childprocess.Processes(func(proc string) bool { return strings.Contains(readFile(filepath.Join(proc, "mountinfo")), dir) }))

		return found
	}
}

// unchangedFiles returns the paths that still lead to the same files.
func unchangedFiles(files map[string]os.FileInfo) []string {
	var found []string
	for path, then := range files {
		if now, err := os.Stat(path); err == nil && os.SameFile(then, now) {
			found = append(found, path)
		}
	}
	slices.Sort(found)
	return found
}

func linkOf(address string) (net.Interface, error) {
	links, err := net.Interfaces()
	if err != nil {
		return net.Interface{}, err
	}

	for _, link := range links {
		addresses, err := link.Addrs()
		if err != nil {
			continue // gone meanwhile
		}
		if slices.ContainsFunc(addresses, func(a net.Addr) bool { return strings.HasPrefix(a.String(), address+"/") }) {
			return link, nil
		}
	}

	return net.Interface{}, fmt.Errorf("no link has the address %s", address)
}

// firewallRules returns the rules of this machine without comments and chains, which contain
// times and counters.
func firewallRules() (string, error) {
	rules, err := exec.Command("iptables-save").Output()
	if err != nil {
		return "", fmt.Errorf("iptables-save: %w", err)
	}
	var kept strings.Builder
	for line := range strings.Lines(string(rules)) {
		if strings.HasPrefix(line, "-") {
			kept.WriteString(line)
		}
	}
	return kept.String(), nil
}

func commandLineHas(proc, text string) bool {
	return strings.Contains(readFile(filepath.Join(proc, "cmdline")), text)
}

// readFile returns "" for a process that has just ended.
func readFile(path string) string {
	text, _ := os.ReadFile(path)
	return string(text)
}
