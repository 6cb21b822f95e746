package capacitycard

import (
	"fmt"
	"time"

	"k8s.io/klog/v2"

	"cardquota.dev/operator/internal/decision"
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
	for name := range p.memory.nodes {
		if _, ok := p.ssn.Nodes[name]; !ok {
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
		if _, exists := p.memory.nodes[pod.Spec.NodeName]; !exists {
			continue // on a node that is gone: charged from the lister, no session will have it
		}
		if decision.Counted(pod) && !placed[string(pod.UID)] {
			return fmt.Sprintf("pod %s/%s on node %s is not in the session", pod.Namespace, pod.Name, pod.Spec.NodeName)
		}
	}
	return ""
}
