package capacitycard

import (
	"fmt"
	"os"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"volcano.sh/volcano/cmd/scheduler/app/options"

	"cardquota.dev/operator/internal/workload"
)

// startUpEnds is how long an incomplete start may hold everything up. Afterwards
// the missing pods are charged from the lister like any other, and what is
// missing is reported.
const startUpEnds = 60 * time.Second

// completeness holds decisions back after a start. Volcano opens its first
// session before its cache has worked in all nodes and pods; deciding then
// could give cards away a second time.
type completeness struct {
	done  bool
	since time.Time
}

// check returns why nothing may be decided yet, "" once everything was seen
// together in one session. missing names something that is not in the session,
// and is asked only until then.
func (c *completeness) check(missing func() string, now time.Time) string {
	if c.done {
		return ""
	}
	if c.since.IsZero() {
		c.since = now
	}
	absent, waited := missing(), now.Sub(c.since)
	switch {
	case absent == "":
		c.done = true
		klog.InfoS("Every node and pod is in the books, deciding begins", "after", waited.String())
		return ""
	case waited >= startUpEnds:
		c.done = true
		klog.ErrorS(nil, "Deciding begins although Volcano's cache is incomplete; missing pods are charged all the same", "missing", absent)
		return ""
	}
	klog.InfoS("Nothing is decided yet: Volcano's cache is incomplete", "missing", absent)
	// The same words every session, and no names of other tenants' pods.
	return "the scheduler has just started and has not seen every node and pod yet"
}

// missingFromSession names one node or placed pod that the listers know and
// the session does not.
func (p *plugin) missingFromSession() string {
	for name, node := range p.memory.nodes {
		if _, ok := p.ssn.Nodes[name]; !ok && isScheduled(node.object) {
			return fmt.Sprintf("node %s is not in the session", name)
		}
	}
	placed := map[string]bool{}
	for _, node := range p.ssn.Nodes {
		for _, task := range node.Tasks {
			placed[string(task.UID)] = true
		}
	}
	for _, pod := range p.podObjects() {
		if node, exists := p.memory.nodes[pod.Spec.NodeName]; !exists || p.ssn.Nodes[pod.Spec.NodeName] == nil && !isScheduled(node.object) {
			continue // on a node that is gone, or of others: charged from the lister, no session will have it
		}
		if workload.Counted(pod) && !placed[string(pod.UID)] {
			return fmt.Sprintf("pod %s/%s on node %s is not in the session", pod.Namespace, pod.Name, pod.Spec.NodeName)
		}
	}
	return ""
}

// isScheduled reports whether Volcano's cache takes a node: with --node-selector it takes
// those with one of the labels, and of several schedulers each takes a part that it works
// out by itself, so that none can be waited for (pkg/scheduler/cache, nodeCanAddCache).
func isScheduled(node *corev1.Node) bool {
	if os.Getenv("MULTI_SCHEDULER_ENABLE") == "true" {
		return false
	}
	selected := true
	for _, selector := range options.ServerOpts.NodeSelector {
		name, value, ok := strings.Cut(selector, ":")
		if name, value = strings.TrimSpace(name), strings.TrimSpace(value); !ok || value == "" {
			continue // Volcano ignores it
		}
		if found, has := node.Labels[name]; has && found == value {
			return true
		}
		selected = false
	}
	return selected
}
