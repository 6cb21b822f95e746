package cardquota

import (
	"fmt"
	"slices"
	"strings"

	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/workload"
)

// Wait is why a Queue is not written as the CardQuota says, or not yet.
type Wait struct {
	// Reason is a reason of condition QueueSynced.
	Reason, Message string
	// KeepsQueue reports whether the Queue must not be written at all.
	KeepsQueue bool
}

// Neighbors are the Queues around one Queue of a tree, as last read.
type Neighbors struct {
	// Live is the Queue itself, nil when there is none.
	Live *v1beta1.Queue
	// Parent is the Queue of the parent CardQuota, nil when there is none.
	Parent *v1beta1.Queue
	// AboveParent are the names of the Queues above Parent.
	AboveParent []string
}

// PlaceQueue returns the Queue below which the Queue of a CardQuota can be placed now, root at the top level.
// The Queue stays where it is while its new place is not ready: Volcano refuses a parent that does not exist,
// below a parent without its quota a child may use nothing, and a cycle of Queues would stop Volcano's
// controllers. wait says why the Queue is not where it belongs, nil if it is. A Queue that does not exist
// cannot stay anywhere, so KeepsQueue of the Wait forbids to create it before its place is ready.
func (t *Tree) PlaceQueue(q *v1alpha1.CardQuota, n Neighbors) (parent string, wait *Wait) {
	stay := workload.RootQueue
	if n.Live != nil && n.Live.Spec.Parent != "" {
		stay = n.Live.Spec.Parent
	}

	if !t.isPlaced(q.Name) {
		reason, message := t.describeFault(q.Name)
		return stay, &Wait{Reason: reason, KeepsQueue: n.Live == nil, Message: fmt.Sprintf("queue %s %s: %s", q.QueueName(), keptWhere(n.Live), message)}
	}
	above := t.quotas[q.Spec.Parent]
	if above == nil || q.Spec.Parent == "" { // flat queues, or the top level
		return workload.RootQueue, nil
	}

	// A Queue that is in place stays there, whatever its parent carries: the reconcile of the parent writes
	// that.
	wanted := above.QueueName()
	if n.Live != nil && stay == wanted {
		return wanted, nil
	}

	stayFor := func(format string, values ...any) (string, *Wait) {
		return stay, &Wait{Reason: v1alpha1.ReasonWaitingForParent, KeepsQueue: n.Live == nil,
			Message: fmt.Sprintf("queue %s %s: ", q.QueueName(), keptWhere(n.Live)) + fmt.Sprintf(format, values...)}
	}

	switch {
	case n.Parent == nil:
		return stayFor("queue %s of its parent %s does not exist yet", wanted, above.Name)
	case slices.Contains(n.AboveParent, q.QueueName()):
		return stayFor("queue %s of its parent %s is still below it", wanted, above.Name)
	case !carriesCards(n.Parent, above):
		return stayFor("queue %s does not carry the quota of its parent %s yet", wanted, above.Name)
	}

	return wanted, nil
}

// keptWhere says where a Queue stays while its new place is not ready.
func keptWhere(live *v1beta1.Queue) string {
	switch {
	case live == nil:
		return "is not created"
	case live.Spec.Parent == "" || live.Spec.Parent == workload.RootQueue:
		return "stays at the top level"
	default:
		return "stays below queue " + live.Spec.Parent
	}
}

// MovingChildrenWait returns the Wait of a flat Queue below which there are Queues that the
// operator has yet to move, nil without any.
func MovingChildrenWait(q *v1alpha1.CardQuota, children []*v1beta1.Queue) *Wait {
	if len(children) == 0 {
		return nil
	}
	return &Wait{Reason: v1alpha1.ReasonWaitingForChildren, KeepsQueue: true, Message: fmt.Sprintf(
		"queues are flat now: queue %s keeps what it had in the tree until its child queues %s are at the top level", q.QueueName(), joinQueueNames(children))}
}

// DeletionWait returns the Wait of a CardQuota that is being deleted and has Queues below its
// own, nil without any.
func DeletionWait(q *v1alpha1.CardQuota, children []*v1beta1.Queue) *Wait {
	if len(children) == 0 {
		return nil
	}
	return &Wait{Reason: v1alpha1.ReasonWaitingForChildren, KeepsQueue: true, Message: fmt.Sprintf(
		"being deleted: queue %s keeps its quota until its child queues are gone: %s; delete their CardQuotas, or give them another parent",
		q.QueueName(), joinQueueNames(children))}
}

// carriesCards reports whether a Queue has the cards that a CardQuota of a tree writes.
func carriesCards(live *v1beta1.Queue, q *v1alpha1.CardQuota) bool {
	for key, want := range treeAnnotations(q) {
		if live.Annotations[key] != want {
			return false
		}
	}
	return true
}

// treeAnnotations returns the cards as a Queue of a tree carries them: its quota, and what it deserves and its guarantee
// if there are any.
func treeAnnotations(q *v1alpha1.CardQuota) map[string]string {
	written := TreeQueueFor(q)
	out := map[string]string{v1alpha1.AnnotationCardQuota: written.Quota.Cards().String()}
	for key, amounts := range map[string]quota.Amounts{v1alpha1.AnnotationCardDeserved: written.Deserved, v1alpha1.AnnotationCardGuarantee: written.Guarantee} {
		if cards := amounts.Cards(); len(cards) > 0 {
			out[key] = cards.String()
		}
	}
	return out
}

// DeservedOf returns what a CardQuota says that it deserves.
func DeservedOf(q *v1alpha1.CardQuota) card.Quota { return TreeQueueFor(q).Deserved.Cards() }

// Placement returns what the Queue of a CardQuota carries below a Queue: the CPU and memory in force, its cards,
// and why it is held. In a tree Stage says which of CPU and memory the Queue leaves out. A guarantee is never
// inherited.
func (t *Tree) Placement(q *v1alpha1.CardQuota, parent string) Placement {
	if t.IsFlat() {
		return flatPlacementFor(q, parent)
	}

	resolved := t.Resolved(q.Name)
	p := Placement{
		Parent: parent, HoldMessage: t.holdMessage(q.Name), Annotations: treeAnnotations(q),
		Limit: quota.Amounts{}, Deserved: quota.Amounts{}, Guarantee: quota.Amounts{},
		Inherits: map[quota.Resource]bool{}, InheritsFrom: resolved.Parent,
	}
	written := TreeQueueFor(q)
	for _, key := range quota.Compute {
		p.Limit[key] = t.queues.Limit(t.queueOf(q.Name), key)
		if _, isLimited := written.Quota[key]; !isLimited {
			p.Inherits[key] = resolved.WritesCompute[key]
		}

		if deserved, deservesSome := resolved.Limits.Deserved[key]; deservesSome {
			p.Deserved[key] = deserved
		}

		if _, guarantees := written.Guarantee[key]; guarantees {
			p.Guarantee[key] = resolved.Limits.Guarantee[key]
		}
	}

	// A Queue that deserves CPU only deserves no memory for Volcano, so its children could deserve none.
	for _, key := range quota.Compute {
		if len(p.Deserved) > 0 && p.deservesAny(key) && resolved.WritesCompute[key] {
			p.Deserved[key] = quota.Unlimited
		}
	}

	return p
}

// UnusedTreeFields returns the fields of a CardQuota that have no effect while queues are flat.
func UnusedTreeFields(q *v1alpha1.CardQuota) []string {
	var fields []string
	add := func(isWritten bool, field string) {
		if isWritten && !slices.Contains(fields, field) {
			fields = append(fields, field)
		}
	}

	add(q.Spec.Parent != "", "parent")
	for _, c := range q.Spec.Cards {
		add(c.Deserved != nil, "cards[].deserved")
		add(c.Guarantee != nil, "cards[].guarantee")
	}

	if resources := q.Spec.Resources; resources != nil {
		add(resources.Deserved != nil, "resources.deserved")
		add(resources.Guarantee != nil, "resources.guarantee")
	}

	return fields
}

// describeUnusedFields says what fields of a tree mean while queues are flat, "" if the
// CardQuota has none.
func describeUnusedFields(q *v1alpha1.CardQuota) string {
	var texts []string
	if fields := UnusedTreeFields(q); len(fields) > 0 {
		texts = append(texts, strings.Join(fields, ", ")+" have no effect")
	}

	if q.Spec.ServiceType == "" {
		texts = append(texts, "it grants nothing, because a CardQuota without serviceType is a parent")
	} else if slices.ContainsFunc(q.Spec.Cards, func(c v1alpha1.Card) bool { return c.Quota == nil }) {
		texts = append(texts, "a card without quota has its deserved as quota")
	}

	if len(texts) == 0 {
		return ""
	}

	return "while the ServiceTypePolicy does not say queueHierarchy: Tree, " + strings.Join(texts, "; ")
}
