package explanation

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/cli/nodecards"
	"cardquota.dev/operator/internal/cli/output"
	"cardquota.dev/operator/internal/conditions"
	"cardquota.dev/operator/internal/workload"
)

// gateCheck answers for each gate whether a pod passes it.
type gateCheck struct{ *Input }

// allGates returns the gates in the order in which a pod must pass them. A request without cards has no gates
// of cards, and a job without pods none of single nodes.
func (g gateCheck) allGates() []Gate {
	gates := []Gate{g.enforcementGate(), g.queueGate()}
	gates = append(gates, g.namespaceGates()...)
	gates = append(gates, g.orphanGates()...)
	for _, quota := range g.Path {
		if g.Request.Count > 0 {
			gates = append(gates, g.quotaGate(quota))
		}
		gates = append(gates, g.computeGates(quota)...)
	}

	if g.Request.Count > 0 {
		if len(g.Path) == 0 && g.HidesQuota {
			gates = append(gates, Gate{Name: "quota", Answer: Unknown, Detail: "you may not read the CardQuota of queue " + g.Queue})
		}

		gates = append(gates, g.fleetGate())
		if !g.Request.IsJob {
			gates = append(gates, g.nodeGate())
			gates = append(gates, g.obstacleGates()...)
		}
	}

	return append(gates, g.orderGate())
}

// enforcementGate answers whether the scheduler runs and enforces quotas, by condition Enforced of the policy.
func (g gateCheck) enforcementGate() Gate {
	const name = "scheduler"
	if g.Policy == nil {
		return Gate{name, Unknown, "there is no ServiceTypePolicy, or you may not read it"}
	}

	switch enforced := conditions.Get(g.Policy.Status.Conditions, v1alpha1.ConditionEnforced); {
	case enforced.Status == "":
		return Gate{name, Unknown, "the operator has not seen the policy yet"}
	// A bypass of another pod does not keep the scheduler from enforcing the quota of this one.
	case enforced.Status == metav1.ConditionTrue || enforced.Reason == v1alpha1.ReasonCardBypass:
		return Gate{name, Yes, "it runs and enforces quotas"}
	case enforced.Reason == v1alpha1.ReasonObserving || enforced.Reason == v1alpha1.ReasonRightsMissing: // without rights it observes
		return Gate{name, Unknown, "the policy observes, so another scheduler places the pod, and no quota refuses it"}
	default:
		return Gate{name, No, enforced.Reason + ": " + enforced.Message}
	}
}

// queueGate answers whether the queue takes pods: by its CardQuota, else by the state of the Queue itself.
func (g gateCheck) queueGate() Gate {
	name := "queue " + g.Queue
	switch {
	case g.HasQueue != nil && !*g.HasQueue:
		return Gate{name, No, "it does not exist"}
	case len(g.Path) == 0 && g.HasQueue == nil:
		return Gate{name, Unknown, g.describeUnmanaged() + ", and you may not read Queues"}
	case len(g.Path) == 0:
		return g.unmanagedQueueGate(name)
	}

	// Volcano's state of a held queue is Open, so condition Ready comes first.
	ready := conditions.Get(g.Path[0].Status.Conditions, v1alpha1.ConditionReady)
	state := ptr.Deref(g.Path[0].Status.Queue, v1alpha1.QueueStatus{}).State
	switch {
	case ready.Reason == v1alpha1.ReasonHeld || ready.Reason == v1alpha1.ReasonQueueNotOpen:
		return Gate{name, No, ready.Reason + ": " + ready.Message}
	case state == "":
		return Gate{name, Unknown, "its state is not known"}
	case state != "Open":
		return Gate{name, No, "it is " + state}
	default:
		return Gate{name, Yes, "it is Open"}
	}
}

// describeUnmanaged says why the CardQuota of the queue does not answer.
func (g gateCheck) describeUnmanaged() string {
	if g.HidesQuota {
		return "you may not read its CardQuota"
	}
	return "no CardQuota has it"
}

// unmanagedQueueGate answers for a Queue that no CardQuota has. Its own state decides.
func (g gateCheck) unmanagedQueueGate(name string) Gate {
	switch {
	case g.QueueState == "":
		return Gate{name, Unknown, g.describeUnmanaged() + ", and its Queue has no state yet"}
	case g.QueueState != string(v1beta1.QueueStateOpen):
		return Gate{name, No, g.describeUnmanaged() + ", and its Queue is " + output.Clean(g.QueueState)}
	case g.QueueStop != "" && g.QueueStop != string(v1alpha1.StopPolicyNone):
		return Gate{name, No, fmt.Sprintf("%s, and annotation %s of its Queue is %s", g.describeUnmanaged(), v1alpha1.AnnotationStopPolicy, output.Clean(g.QueueStop))}
	case g.HidesQuota: // it may have a CardQuota that the user does not see
		return Gate{name, Yes, "it is Open"}
	}
	return Gate{name, Yes, "no CardQuota has it: its Queue decides, and the policy's unmanagedQueues"}
}

// namespaceGates returns an answer for each CardQuota that is only for some namespaces.
func (g gateCheck) namespaceGates() []Gate {
	var gates []Gate
	for _, quota := range g.Path {
		if quota.Spec.NamespaceSelector == nil {
			continue
		}
		selector, err := workload.NewNamespaceSelector(quota.Spec.NamespaceSelector)
		if err == nil && selector.Empty() {
			continue
		}

		name := "namespace for " + quota.Name
		gate := Gate{name, Yes, g.Workload.Namespace + " is selected"}
		switch {
		case err != nil: // the scheduler lets no pod into such a queue
			gate = Gate{name, No, err.Error()}
		case g.Namespace == nil:
			gate = Gate{name, Unknown, "it must have " + selector.String()}
		case !selector.Matches(labels.Set(g.Namespace)):
			gate = Gate{name, No, g.Workload.Namespace + " does not have " + selector.String()}
		}
		gates = append(gates, gate)
	}

	return gates
}

// quotaGate answers whether one CardQuota of the path has room for the request. One of its cards with room is
// enough, unless the scheduler refuses the request because of this quota.
func (g gateCheck) quotaGate(quota *v1alpha1.CardQuota) Gate {
	gate := Gate{Name: "quota of " + quota.Name, Answer: No}
	switch {
	case quota.DeletionTimestamp != nil:
		return Gate{gate.Name, No, "it is being deleted and gives no more cards"}
	case quota.Status.Summary == "":
		return Gate{gate.Name, Unknown, "the operator has not counted it yet"}
	}

	// A shortage is stated if the scheduler refused a request with its numbers. If they leave room for this
	// request, the refusal was for an earlier, larger one.
	var details []string
	isRefused := false
	for _, name := range g.Request.Names {
		found := g.shortageOf(quota, name)
		hasRoom := found.left >= g.Request.quotaCount()
		if hasRoom {
			gate.Answer = Yes
		}
		isRefused = isRefused || (found.isStated && !hasRoom)
		details = append(details, found.describe(cardStatus(quota, name)))
	}

	if isRefused { // the scheduler states the card of which most is left, so the others have no room either
		gate.Answer = No
	}

	gate.Detail = strings.Join(details, "; ")
	if g.Request.GangCount > g.Request.Count {
		gate.Detail += fmt.Sprintf("; the whole gang requests %d", g.Request.GangCount)
	}

	// The scheduler may refuse the request because of this quota although these numbers fit.
	if gate.Answer == Yes && g.isRefusing(quota) {
		answer, why := g.explainRefusal(quota)
		gate.Answer = answer
		gate.Detail += why
	}

	return gate
}

// cardStatus returns the usage of a card, without numbers for a card that the status does not list.
func cardStatus(quota *v1alpha1.CardQuota, name card.Name) v1alpha1.CardStatus {
	for _, entry := range quota.Status.Cards {
		if entry.Name == string(name) {
			return entry
		}
	}
	return v1alpha1.CardStatus{Name: string(name)}
}

// fleetGate answers whether enough cards are free on healthy nodes that take pods. Enough of one name of the
// request is enough. A gang must start together, so it needs the cards of its minimum.
func (g gateCheck) fleetGate() Gate {
	gate := Gate{Name: "free cards", Answer: No}
	if g.Inventory == nil {
		return Gate{gate.Name, Unknown, "there is no CardInventory, or you may not read it"}
	}

	var details []string
	for _, name := range g.Request.Names {
		entry, ok := g.inventoryCard(name)
		if !ok || entry.Total == 0 {
			details = append(details, g.describeAbsence(name))
			continue
		}

		// Who may not read nodes gets a range. Only its lower end proves that the cards are free.
		least, most := g.freeCards(name)
		switch wanted := g.Request.nodesCount(); {
		case least >= wanted:
			gate.Answer = Yes
		case most >= wanted && gate.Answer == No:
			gate.Answer = Unknown
		}

		details = append(details, fmt.Sprintf("%s of %d healthy %s", describeRange(least, most), entry.Healthy, name))
	}

	gate.Detail = strings.Join(details, "; ")
	if wanted := g.Request.nodesCount(); wanted > int64(g.Request.Count) {
		gate.Detail += fmt.Sprintf("; its gang needs %d to start", wanted)
	}

	return gate
}

// inventory returns the status of the CardInventory, an empty one if it is unknown.
func (in *Input) inventory() v1alpha1.CardInventoryStatus {
	return ptr.Deref(in.Inventory, v1alpha1.CardInventoryStatus{})
}

// inventoryCard returns the entry of a card in the CardInventory, and whether it has one.
func (in *Input) inventoryCard(name card.Name) (v1alpha1.InventoryCard, bool) {
	for _, entry := range in.inventory().Cards {
		if entry.Name == string(name) {
			return entry, true
		}
	}
	return v1alpha1.InventoryCard{}, false
}

// nodeGate answers whether one node has enough cards for a pod, whatever else the node requires.
func (g gateCheck) nodeGate() Gate {
	gate := Gate{Name: "one node", Answer: No}
	if g.Nodes == nil {
		return Gate{gate.Name, Unknown, "you may not read nodes and pods"}
	}

	var details []string
	for _, name := range g.Request.Names {
		nodes := g.nodesWith(name)
		if len(nodes) == 0 {
			details = append(details, fmt.Sprintf("no Ready node with %s takes pods", name))
			continue
		}

		// nodesWith leaves out nodes whose free cards are unknown, so Free is never nil.
		best := slices.MaxFunc(nodes, func(a, b nodecards.Node) int { return cmp.Compare(*a.Free, *b.Free) })
		if *best.Free >= int64(g.Request.Count) {
			gate.Answer = Yes
		}

		details = append(details, fmt.Sprintf("at most %d %s, on %s", *best.Free, name, best.Name))
	}

	gate.Detail = strings.Join(details, "; ")
	return gate
}

// orderGate says how many workloads of the queue the scheduler tries first. For a user who may not list them
// all, it says how many of those in status.blocked wait longer, which may not be all. Its answer is never No,
// because the workload gets its turn.
func (g gateCheck) orderGate() Gate {
	priority := fmt.Sprintf("priority %d", g.Request.Priority)
	if g.Request.PriorityClass != "" {
		priority = fmt.Sprintf("%s (%s)", priority, g.Request.PriorityClass)
	}

	const name = "order in the queue"
	switch {
	case g.Ahead != nil:
		return Gate{name, Yes, priority + g.Ahead.describe()}
	case g.WaitLonger < 0: // unknown
		return Gate{name, Unknown, priority}
	case g.WaitLonger == 0:
		return Gate{name, Yes, priority + ", nothing in the queue waits longer"}
	case g.WaitLonger == 1:
		return Gate{name, Yes, priority + ", at least 1 other workload waits longer"}
	default:
		return Gate{name, Yes, fmt.Sprintf("%s, at least %d other workloads wait longer", priority, g.WaitLonger)}
	}
}

// describe counts what comes first, as the end of a sentence. "workloads" is written behind the first number
// only.
func (a Ahead) describe() string {
	all := a.Higher + a.Incomplete + a.Older
	verb := "come first"
	if all == 1 {
		verb = "comes first"
	}

	var parts []string
	for _, part := range []struct {
		count int
		words string
	}{{a.Higher, "of higher priority"}, {a.Incomplete, "whose minimum does not run yet"}, {a.Older, "older than it"}} {
		if part.count == 0 {
			continue
		}

		noun := ""
		if len(parts) == 0 {
			noun = " workloads"
			if part.count == 1 {
				noun = " workload"
			}
		}
		parts = append(parts, fmt.Sprintf("%d%s %s", part.count, noun, part.words))
	}

	switch last := len(parts) - 1; last {
	case -1:
		return ", nothing in the queue comes first"
	case 0:
		return ", " + parts[0] + " " + verb
	default:
		return ", " + strings.Join(parts[:last], ", ") + " and " + parts[last] + " " + verb
	}
}
