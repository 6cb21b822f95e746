package rule

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/testing/queuetree"
)

// Annotations of a Queue in a tree of quotas, as docs/hierarchy.md names them.
const (
	cardDeserved  = "volcano.sh/card.deserved"
	cardGuarantee = "volcano.sh/card.guarantee"
	stopPolicy    = "volcano.sh/stop-policy"
	parentOnly    = "cardquota.dev/parent-only"
)

// Tree is the tree of all Queues at one moment, with the values in force.
type Tree struct {
	queues map[string]*TreeQueue
	// written are the parents as the Queues name them, and inForce those of queues with a path to root.
	written, inForce queuetree.Parents
}

// TreeQueue is a Queue in the tree.
type TreeQueue struct {
	Name, Parent string
	// Path is the queue and its ancestors up to the top level, without root. It is empty when the
	// path to root is broken.
	Path []string
	// Closed is why no job starts in the queue, "" when jobs may. A hold is not in it.
	Closed string
	// takesNoJobs is whether the queue by itself takes none, whatever the tree is.
	takesNoJobs bool
	// Stop is the strictest stop-policy of the queue and its ancestors, "" for none.
	Stop string
	// AnyCard reports whether cards are not limited here.
	AnyCard bool
	// Cards, Deserved and Guarantee are in force after inheritance, clamping and scaling.
	Cards, Deserved, Guarantee Quota
	Reclaimable                bool
	ServiceType                string
	Priority                   int32
	Selector                   Selector

	isParentOnly bool
	// compute is the queue's CPU and Memory.
	compute map[string]*compute
}

// Hold and HoldAndDrain are values of the annotation volcano.sh/stop-policy.
const (
	Hold         = "Hold"
	HoldAndDrain = "HoldAndDrain"
)

// NewTree returns the tree that Queues form.
func NewTree(queues map[string]*v1beta1.Queue, unmanaged string) *Tree {
	t := &Tree{queues: map[string]*TreeQueue{}, written: queuetree.Parents{}}
	for _, name := range slices.Sorted(maps.Keys(queues)) {
		if name == rootQueue {
			continue
		}
		q := readTreeQueue(queues[name], unmanaged)
		t.queues[name] = q
		t.written[name] = q.Parent
	}

	t.inForce = t.written.Connected()
	t.markCompute()
	t.resolveBelow("", nil)
	for _, q := range t.queues {
		if len(q.Path) == 0 {
			q.Closed = "its path to root is broken"
			q.Deserved = Quota{}
			q.Guarantee = Quota{}
			for _, c := range q.compute {
				c.deserved = 0
				c.guarantee = 0
			}
		}
	}

	return t
}

// readTreeQueue reads what a Queue states for itself.
func readTreeQueue(queue *v1beta1.Queue, unmanaged string) *TreeQueue {
	limits := LimitsOf(queue, unmanaged)
	q := &TreeQueue{
		Name: queue.Name, Parent: queue.Spec.Parent, Closed: limits.Closed, AnyCard: limits.AnyCard, Cards: Quota{},
		Reclaimable: queue.Spec.Reclaimable == nil || *queue.Spec.Reclaimable, ServiceType: queue.Annotations[v1alpha1.AnnotationServiceType],
		Priority: queue.Spec.Priority, Selector: SelectorOf(queue), Stop: queue.Annotations[stopPolicy], isParentOnly: queue.Annotations[parentOnly] == "true",
		compute: map[string]*compute{
			CPU: readCompute(queue, corev1.ResourceCPU, limits.MilliCPU), Memory: readCompute(queue, corev1.ResourceMemory, limits.Memory),
		},
	}

	maps.Copy(q.Cards, limits.Cards)
	if q.Parent == rootQueue {
		q.Parent = ""
	}

	read := func(annotation string) Quota {
		text, written := queue.Annotations[annotation]
		if !written {
			return Quota{}
		}
		values, err := ParseQuota(text)
		if err != nil {
			q.Closed = annotation + " cannot be read: " + err.Error()
			return Quota{}
		}
		return values
	}

	q.Deserved = read(cardDeserved)
	q.Guarantee = read(cardGuarantee)
	q.takesNoJobs = q.Closed != "" || q.isParentOnly
	return q
}

// resolveBelow puts the values of the children of a queue in force, "" for root, and then those
// treeOf their children.
func (t *Tree) resolveBelow(name string, parent *TreeQueue) {
	siblings := t.resolveChildren(name, parent)
	deserved := func(q *TreeQueue) Quota { return q.Deserved }
	guarantee := func(q *TreeQueue) Quota { return q.Guarantee }

	if parent != nil && !parent.AnyCard {
		scaleDown(siblings, deserved, parent.Deserved)
	}

	for _, q := range siblings {
		for card, n := range q.Guarantee {
			q.Guarantee[card] = min(n, q.Deserved[card])
		}
	}

	if parent != nil {
		scaleDown(siblings, guarantee, parent.Guarantee)
	}

	resolveCompute(siblings, parent)
	for _, q := range siblings {
		t.resolveBelow(q.Name, q)
	}
}

// resolveChildren gives the children of a queue, "" for root, their paths and what they inherit. It
// returns those that have a path to root.
func (t *Tree) resolveChildren(name string, parent *TreeQueue) (siblings []*TreeQueue) {
	for _, child := range t.written.Children(name) {
		q := t.queues[child]
		q.Path, _ = t.written.Path(child)
		if parent != nil {
			q.Stop = stricterStop(q.Stop, parent.Stop)
		}

		if t.IsParent(child) || q.isParentOnly {
			q.Closed = "it is a parent of other queues"
		}

		q.inheritCards(parent)
		siblings = append(siblings, q)
	}

	return siblings
}

// inheritCards applies the defaults of a queue's own entries, and deserved ≤ quota. Below a queue of
// any card the inherited quota is the largest one.
func (q *TreeQueue) inheritCards(parent *TreeQueue) {
	for _, values := range []Quota{q.Deserved, q.Guarantee} {
		for card := range values {
			_, listed := q.Cards[card]
			switch {
			case listed || parent == nil:
			case parent.AnyCard:
				q.Cards[card] = MaxCount
			default:
				q.Cards[card] = parent.Cards[card]
			}
		}
	}

	for card, quota := range q.Cards {
		if deserved, listed := q.Deserved[card]; !listed || deserved > quota {
			q.Deserved[card] = quota
		}
	}

	for card := range q.Deserved {
		q.Deserved[card] = min(q.Deserved[card], q.Cards[card])
	}
}

// scaleDown bounds a value of siblings by their parent's: each by itself, then all in
// proportion. What is left of whole cards goes to the largest remainders, then by name.
func scaleDown(siblings []*TreeQueue, value func(*TreeQueue) Quota, limits Quota) {
	cards := Quota{}
	for _, q := range siblings {
		for card, n := range value(q) {
			value(q)[card] = min(n, limits[card])
			cards[card] += value(q)[card]
		}
	}

	for card, sum := range cards {
		if sum <= limits[card] {
			continue
		}

		values := make([]int64, len(siblings))
		for i, q := range siblings {
			values[i] = value(q)[card]
		}
		for i, n := range scaleValues(values, limits[card]) {
			value(siblings[i])[card] = n
		}
	}
}

func stricterStop(a, b string) string {
	switch {
	case a == HoldAndDrain || b == HoldAndDrain:
		return HoldAndDrain
	case a == Hold || b == Hold:
		return Hold
	}
	return ""
}

// Queue returns a queue of the tree, nil when it does not exist.
func (t *Tree) Queue(name string) *TreeQueue { return t.queues[name] }

// PathOf returns a queue and its ancestors without root. A queue without a path to root is alone.
func (t *Tree) PathOf(name string) []string { return t.treeOf(CPU).Path(name) }

// IsParent reports whether a queue has children, with or without a path to root.
func (t *Tree) IsParent(name string) bool {
	return slices.Contains(slices.Collect(maps.Values(t.written)), name)
}

// Below returns the queue and its ancestors below the lowest ancestor in common with another
// queue, from the queue up.
func (t *Tree) Below(queue, other string) []string { return t.treeOf(CPU).PathBelow(queue, other) }

// String returns a text that differs between different trees.
func (t *Tree) String() string {
	var out strings.Builder
	for _, name := range slices.Sorted(maps.Keys(t.queues)) {
		q := t.queues[name]
		fmt.Fprintln(&out, name, q.Path, q.Closed, q.Stop, q.AnyCard, q.Cards, "deserved", q.Deserved, "guarantee", q.Guarantee,
			q.Reclaimable, q.ServiceType, q.Priority, q.Selector, "cpu", *q.compute[CPU], "memory", *q.compute[Memory])
	}
	return out.String()
}
