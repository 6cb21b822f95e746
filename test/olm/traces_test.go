package olm

import (
	"context"
	"errors"
	"os"
	"path/filepath"
)

// leaveTraces keeps what explains a failure, below dist/olm.
func (a *administrator) leaveTraces() {
	if !a.Failed() {
		return
	}
	ctx := context.WithoutCancel(a.ctx)
	dir := filepath.Join(suite.root, "dist", "olm", a.Name())
	problems := []error{os.RemoveAll(dir), os.CopyFS(dir, os.DirFS(filepath.Dir(a.cluster.LogFile("olm-operator"))))}
	for name, args := range map[string][]string{
		"olm.yaml":   {"get", "csv,subscriptions.operators.coreos.com,installplans,catalogsources,operatorgroups", "-A", "-o", "yaml"},
		"pods.txt":   {"describe", "pods", "-n", namespace},
		"events.txt": {"get", "events", "-A", "--sort-by=.lastTimestamp"},
		"pods.log":   {"logs", "-n", namespace, "-l", ours, "--tail=-1", "--prefix"},
	} {
		out, err := a.cluster.Kubectl(ctx, args...)
		problems = append(problems, err, os.WriteFile(filepath.Join(dir, name), []byte(out), 0o600))
	}
	a.Logf("logs and objects are in %s (%v)", dir, errors.Join(problems...))
}
