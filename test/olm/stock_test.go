package olm

import (
	"os"
	"path/filepath"
	"strings"

	. "github.com/onsi/gomega"
)

// runStockScheduler installs the Deployment of Volcano's own scheduler from its installer. Its
// pod runs on the fleet, where kwok plays it: the programs see it, and it schedules nothing.
func (a *administrator) runStockScheduler() {
	a.Helper()
	installer, err := os.ReadFile(filepath.Join(a.cluster.BinDir(), "volcano", "install.yaml"))
	a.Expect(err).NotTo(HaveOccurred())
	for document := range strings.SplitSeq(string(installer), "\n---\n") {
		if strings.Contains(document, "kind: Deployment\n") && strings.Contains(document, "\n  name: volcano-scheduler\n") {
			a.Expect(a.cluster.Apply(a.ctx, []byte(document))).To(Succeed())
			a.kubectl("-n", namespace, "rollout", "status", "deployment/volcano-scheduler", "--timeout=1m")
			return
		}
	}
	a.Fatal("Volcano's installer has no Deployment volcano-scheduler")
}
