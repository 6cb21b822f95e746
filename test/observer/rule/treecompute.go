package rule

import (
	"math/bits"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
)

// CPU and Memory stand for CPU, in millicores, and memory, in bytes, where a tree takes the name of
// a card.
const (
	CPU    = " cpu"
	Memory = " memory"
)

// compute is the CPU or the memory of a queue of a tree. Unlimited stands for no limit.
type compute struct {
	// quota, deserved and guarantee are as written first, and then in force.
	quota, deserved, guarantee int64
	// inherits reports whether the queue has the quota of its parent.
	inherits bool
	// isWritten reports whether the queue writes what it deserves.
	isWritten bool
	// isShared reports whether the queue, or one below it, writes what it deserves or a guarantee.
	// Otherwise its quota is only a ceiling.
	isShared bool
}

// readCompute reads the CPU or memory that a Queue states for itself. limit is its limit without a
// tree. A queue with card.quota that writes what it deserves, but no capability, has its parent's
// quota, and so has one that unlimited.resources calls unlimited. A queue without card.quota has it wherever it
// writes none.
func readCompute(queue *v1beta1.Queue, name corev1.ResourceName, limit int64) *compute {
	_, isManaged := queue.Annotations[v1alpha1.AnnotationCardQuota]
	_, isLimited := queue.Spec.Capability[name]
	deserved, deserves := queue.Spec.Deserved[name]
	guarantee, guarantees := queue.Spec.Guarantee.Resource[name]
	c := &compute{quota: limit, deserved: quantityOf(deserved, name), guarantee: quantityOf(guarantee, name), isWritten: deserves}
	c.isShared = deserves || c.guarantee > 0
	switch {
	case isLimited:
	case queue.Spec.Parent == "" || queue.Spec.Parent == rootQueue: // there is nothing to inherit
	case isManaged:
		c.inherits = deserves || guarantees || limit == Unlimited
	default:
		c.inherits = limit != 0
	}

	return c
}

// quantityOf returns CPU in millicores, or memory in bytes.
func quantityOf(quantity resource.Quantity, name corev1.ResourceName) int64 {
	return capabilityOf(&v1beta1.Queue{Spec: v1beta1.QueueSpec{Capability: corev1.ResourceList{name: quantity}}}, name)
}

// markCompute marks the queues whose CPU or memory is more than a ceiling. It must run before the values come in
// force.
func (t *Tree) markCompute() {
	for name, q := range t.queues {
		for key, c := range q.compute {
			if !c.isShared {
				continue
			}
			for _, above := range t.treeOf(key).Path(name) {
				t.queues[above].compute[key].isShared = true
			}
		}
	}
}

// resolveCompute puts the CPU and memory of siblings in force.
func resolveCompute(siblings []*TreeQueue, parent *TreeQueue) {
	for _, name := range [...]string{CPU, Memory} {
		above := &compute{}
		if parent != nil {
			above = parent.compute[name]
		}

		var shared []*compute
		for _, q := range siblings {
			c := q.compute[name]
			if c.inherits {
				c.quota = above.quota
			}

			if !c.isWritten || c.deserved > c.quota {
				c.deserved = c.quota
			}

			if c.isShared {
				shared = append(shared, c)
			}
		}

		if parent != nil {
			scaleCompute(shared, func(c *compute) *int64 { return &c.deserved }, above.deserved)
		}

		for _, c := range shared {
			c.guarantee = min(c.guarantee, c.deserved)
		}

		if parent != nil {
			scaleCompute(shared, func(c *compute) *int64 { return &c.guarantee }, above.guarantee)
		}
	}
}

func scaleCompute(siblings []*compute, value func(*compute) *int64, limit int64) {
	if limit == Unlimited {
		return
	}
	values := make([]int64, len(siblings))
	for i, c := range siblings {
		values[i] = *value(c)
	}
	for i, n := range scaleValues(values, limit) {
		*value(siblings[i]) = n
	}
}

// scaleValues bounds values by a limit: each by itself, then all in proportion. What is left of
// whole units goes to the largest remainders, then to the first.
func scaleValues(values []int64, limit int64) []int64 {
	scaled := make([]int64, len(values))
	sum := uint64(0)
	for i, n := range values {
		scaled[i] = min(n, limit)
		sum += uint64(scaled[i])
	}

	if sum <= uint64(limit) {
		return scaled
	}

	left := limit
	rest := make([]uint64, len(scaled))
	order := make([]int, len(scaled))
	for i, n := range scaled {
		high, low := bits.Mul64(uint64(n), uint64(limit))
		part, remainder := bits.Div64(high, low, sum)
		scaled[i] = int64(part)
		rest[i] = remainder
		order[i] = i
		left -= scaled[i]
	}

	slices.SortStableFunc(order, func(a, b int) int {
		switch {
		case rest[a] > rest[b]:
			return -1
		case rest[a] < rest[b]:
			return 1
		}
		return 0
	})
	for _, i := range order[:left] {
		scaled[i]++
	}

	return scaled
}

// QuotaOf returns the quota of a card, CPU or memory, Unlimited for none.
func (q *TreeQueue) QuotaOf(name string) int64 {
	switch c := q.compute[name]; {
	case c != nil:
		return c.quota
	case q.AnyCard:
		return Unlimited
	}
	return q.Cards[name]
}

// DeservedOf returns what a queue deserves of a card, CPU or memory, Unlimited for any amount.
func (q *TreeQueue) DeservedOf(name string) int64 {
	switch c := q.compute[name]; {
	case c != nil:
		return c.deserved
	case q.AnyCard:
		return Unlimited
	}
	return q.Deserved[name]
}

// GuaranteeOf returns the guarantee of a card, CPU or memory.
func (q *TreeQueue) GuaranteeOf(name string) int64 {
	if c := q.compute[name]; c != nil {
		return c.guarantee
	}
	return q.Guarantee[name]
}
