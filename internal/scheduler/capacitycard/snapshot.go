package capacitycard

import (
	"fmt"
	"maps"
	"os"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/klog/v2"
	"volcano.sh/volcano/cmd/scheduler/app/options"
	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/workload"
)

// openBooks brings the account up to date: the limits of every queue, what
// every placed pod holds, and what was admitted and waits.
func (p *plugin) openBooks() {
	m := p.cache
	m.session, m.seen = m.session+1, 0
	m.second.begin(m.session, m.completeness.done, m.now())
	before, unlimited := m.inventory, m.unlimited
	m.nodes.Replace(p.nodeObjects())
	m.inventory, m.unlimited = m.nodes.Inventory(), p.args.cardUnlimitedCPUMemory
	if m.unlimited != unlimited || m.inventory != before && !m.inventory.SameNames(before) {
		m.meaning++
	}
	p.inv = m.inventory
	m.resolver = workload.Resolver{Inventory: p.inv, Schedulers: append([]string{}, options.ServerOpts.SchedulerNames...), AllowsNamespace: p.admits}
	p.account = m.account
	p.adoptLostQueues()
	p.openQueues()
	var told []*api.TaskInfo
	for _, job := range p.ssn.Jobs {
		allocated, known := 0, p.exists(string(job.Queue))
		for status, tasks := range job.TaskStatusIndex {
			placed := api.AllocatedStatus(status)
			if placed {
				allocated += len(tasks)
			}
			for _, task := range tasks {
				facts := m.facts(task.Pod)
				if (placed || leaving(task, status)) && m.toldToGo(task, facts) {
					told = append(told, task)
				}
				switch {
				case placed || leaving(task, status):
					p.charge(task.Pod, facts, p.payer(facts, job, known, task.NodeName), task.NodeName, asUsed)
				case status == api.Releasing && p.ends(task.Pod, task.NodeName):
					p.charge(task.Pod, facts, p.payer(facts, job, known, task.NodeName), task.NodeName, asEnding)
				default:
					m.refund(facts)
				}
			}
		}
		p.reserve(job, allocated, !p.admits(string(job.Queue), job.Namespace))
	}
	p.markLeaving(told)
	p.chargeOthers()
	p.reserveUnasked()
	m.sweep()
}

// payer is the queue that a placed pod is charged to: the one that it was
// charged to on its node, which this process knows best; the one that was
// written down when it was bound, for pods of a scheduler before; and only for a
// pod of which neither is known, because an older version or somebody else bound
// it, that of its PodGroup now. A PodGroup that is moved, or deleted and made
// anew in another queue, takes no cards of placed pods along: its owner would
// have its quota back and keep the cards. A pod of another scheduler was let in by
// nobody: the queue that it names pays only if it takes the namespace (see
// workload.Resolver). Known tells that the PodGroup's queue exists: asked once a job, as
// it nearly always is the one that pays.
func (p *plugin) payer(facts *podFacts, job *api.JobInfo, known bool, node string) string {
	if facts.charge != nil && facts.node == node && (known && facts.charge.Queue == string(job.Queue) || p.exists(facts.charge.Queue)) {
		return facts.charge.Queue
	}
	queue := string(job.Queue)
	if facts.charged != "" && p.exists(facts.charged) {
		queue = facts.charged
	}
	if !facts.ours && !p.admits(queue, job.Namespace) {
		return ""
	}
	return queue
}

// admits tells whether a queue takes work of a namespace.
func (p *plugin) admits(queue, namespace string) bool {
	return p.welcome(api.QueueID(queue), p.rules[api.QueueID(queue)], namespace) == nil
}

// chargeIn is what a task is charged in a queue, nil when that is nothing or
// another queue pays for it.
func (p *plugin) chargeIn(queue api.QueueID, task *api.TaskInfo) *quota.Charge {
	if charge := p.account.Charged(string(task.UID)); charge != nil && charge.Queue == string(queue) {
		return charge
	}
	return nil
}

func (p *plugin) exists(queue string) bool {
	_, ok := p.ssn.Queues[api.QueueID(queue)]
	return ok
}

// leaving tells a task that Volcano evicts but whose pod nobody has deleted
// yet. The eviction may still fail; until the API server knows, it holds its
// cards for everybody else.
func leaving(task *api.TaskInfo, status api.TaskStatus) bool {
	return status == api.Releasing && task.Pod.DeletionTimestamp == nil
}

// openQueues reads what every queue may use now.
func (p *plugin) openQueues() {
	p.rules = make(map[api.QueueID]*workload.QueueRules, len(p.ssn.Queues))
	p.waiting = make(map[api.QueueID]*quota.InqueueDemand, len(p.ssn.Queues))
	p.tenants = map[tenant]*workload.Refusal{}
	for id, queue := range p.ssn.Queues {
		rules := p.cache.rules(queue.Queue, p.args.unmanagedQueues)
		p.rules[id] = rules
		if factory := p.ssn.InformerFactory(); rules.Namespaces != nil && p.namespaces == nil && factory != nil {
			p.namespaces = factory.Core().V1().Namespaces().Lister()
		}
		if rules.Refusal != nil && rules.Refusal.Reason == workload.ReasonInvalidNamespaceSelector {
			p.sayOnQueue(queue.Queue, rules.Refusal)
		}
		p.account.SetLimits(queue.Name, rules.Limits)
		p.waiting[id] = &quota.InqueueDemand{}
	}
	p.account.Retain(p.exists)
	maps.DeleteFunc(p.cache.queues, func(name string, _ knownQueue) bool { return !p.exists(name) })
}

// nodeObjects lists all nodes: those of the lister, which is complete from the
// start, and those of the session, which tests may fill without a lister.
func (p *plugin) nodeObjects() map[string]*corev1.Node {
	objects := make(map[string]*corev1.Node, len(p.ssn.Nodes))
	for name, node := range p.ssn.Nodes {
		if node.Node != nil {
			objects[name] = node.Node
		}
	}
	if p.ssn.InformerFactory() == nil {
		return objects
	}
	listed, _ := p.ssn.InformerFactory().Core().V1().Nodes().Lister().List(labels.Everything()) // from memory, which does not fail
	for _, node := range listed {
		objects[node.Name] = node
	}
	return objects
}

// chargeOthers charges placed pods that are in no job of the session: their
// PodGroup or queue is gone, another scheduler placed them, or Volcano's cache
// has not worked them in yet. They hold cards all the same.
func (p *plugin) chargeOthers() {
	for _, pod := range p.podObjects() {
		if p.cache.sawThisSession(pod) {
			continue
		}
		ends := p.ends(pod, pod.Spec.NodeName)
		if !ends && !workload.IsAssigned(pod) {
			p.tellIfLost(pod)
			continue
		}
		facts := p.cache.facts(pod)
		if facts.nowhere {
			p.cache.refund(facts)
			continue
		}
		var last string
		if facts.charge != nil {
			last = facts.charge.Queue
		}
		as := asUsed
		if ends {
			as = asEnding
		}
		p.charge(pod, facts, p.cache.resolver.Queue(pod, nil, last), pod.Spec.NodeName, as)
	}
}

func (p *plugin) podObjects() []*corev1.Pod {
	if p.ssn.InformerFactory() == nil {
		return nil
	}
	pods, _ := p.ssn.InformerFactory().Core().V1().Pods().Lister().List(labels.Everything()) // from memory, which does not fail
	return pods
}

// charge books a pod where it is placed: of the queue and card that it was charged to.
func (p *plugin) charge(pod *corev1.Pod, facts *podFacts, queue, node string, as booking) {
	if !p.settle(facts, queue, node) || facts.booked != as {
		p.book(pod, facts, as)
	}
}

// book has the ledger hold what a pod is charged, as used or as ending.
func (p *plugin) book(pod *corev1.Pod, facts *podFacts, as booking) {
	if facts.booked = as; as == asUsed {
		p.account.Charge(string(pod.UID), facts.charge)
	} else {
		p.account.ChargeTerminating(string(pod.UID), facts.charge, workload.TerminationGracePeriod(pod))
	}
}

// settle works out what a pod is charged on a node, and tells that it was that
// already.
func (p *plugin) settle(facts *podFacts, queue, node string) (known bool) {
	known = facts.placed != nil && facts.charge.Queue == queue && facts.node == node &&
		(facts.placed == p.inv || p.holdsTheSame(facts))
	if !known {
		last := facts.charge
		if facts.node != node {
			last = nil // of another node, and says nothing of this one
		}
		charge := workload.ChargeFor(&facts.ask, queue, node, p.inv, last)
		facts.charge, facts.node, facts.placed = &charge, node, p.inv
	}
	return known
}

// holdsTheSame tells whether a pod is charged for the card that its node has in
// the new inventory too, as most are when the cards of some node changed.
func (p *plugin) holdsTheSame(facts *podFacts) bool {
	ask, held := &facts.ask, facts.charge.Cards
	if len(ask.ExtraResources) > 0 || len(held) > 1 || (len(held) == 0) != (ask.Count == 0) {
		return false
	}
	if len(held) == 1 {
		if name, ok := p.inv.CardOnNode(facts.node, ask.Resource); !ok || name != held[0].Name || ask.Count != held[0].Count {
			return false
		}
	}
	facts.placed = p.inv
	return true
}

// Ask returns what a task asks for, as it counts; nobody may change it.
func (p *plugin) Ask(task *api.TaskInfo) *workload.Request {
	if facts, ok := p.cache.objects[task.Pod]; ok && facts.meaning == p.cache.meaning {
		return &facts.ask
	}
	return &p.cache.newFacts(task.Pod).ask
}

// ends tells a pod that is being deleted and holds its cards until it is gone.
// What hangs on a node that is gone, or does not work, holds them from nobody.
func (p *plugin) ends(pod *corev1.Pod, node string) bool {
	if node == "" || !workload.IsTerminating(pod) {
		return false
	}
	known := p.cache.nodes.Node(node)
	return known != nil && workload.NodeReady(known)
}

// endsTooMuch tells that pods that would be evicted for another one of a queue
// hold more of a card than may be ending there: it could not be placed either
// before they are gone, and neither could any other pod of the queue.
func (p *plugin) endsTooMuch(queue api.QueueID, name card.Name, victims []*api.TaskInfo) bool {
	return p.freedBy(queue, victims...).Cards[name] > p.account.EvictionHeadroom(string(queue), name)
}

// freedBy is what pods hold of a queue, and would give back.
func (p *plugin) freedBy(queue api.QueueID, tasks ...*api.TaskInfo) (freed quota.Released) {
	for _, task := range tasks {
		if charge := p.chargeIn(queue, task); charge != nil {
			freed.Add(charge)
		}
	}
	return freed
}

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
	for name, node := range p.nodeObjects() {
		if _, ok := p.ssn.Nodes[name]; !ok && isScheduled(node) {
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
		if node := p.cache.nodes.Node(pod.Spec.NodeName); node == nil || p.ssn.Nodes[pod.Spec.NodeName] == nil && !isScheduled(node) {
			continue // on a node that is gone, or of others: charged from the lister, no session will have it
		}
		if workload.IsAssigned(pod) && !placed[string(pod.UID)] {
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
