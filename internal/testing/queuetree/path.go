// Package queuetree counts a tree of queues as plainly as possible: it sums every number up from scratch. The
// property tests of the ledger and of the scheduler, and the observer, compare the product with it. So it imports
// nothing of the product.
package queuetree

import (
	"maps"
	"slices"
)

// MaxDepth is how many levels below root a queue may be.
const MaxDepth = 6

// Parents is the parent of each queue, "" for root.
type Parents map[string]string

// Break is why a path does not lead to root.
type Break int

// The breaks of a path.
const (
	NoBreak Break = iota
	// ParentNotFound is the break of a path that ends at a queue which does not exist.
	ParentNotFound
	// ParentCycle is the break of a path that comes back to one of its queues.
	ParentCycle
	// TooDeep is the break of a path with more than MaxDepth queues.
	TooDeep
)

// Path returns a queue and its ancestors up to the one directly under root, as far as they exist, and what breaks the
// path.
func (p Parents) Path(queue string) (path []string, broken Break) {
	for at := queue; at != ""; at = p[at] {
		if _, exists := p[at]; !exists {
			return path, ParentNotFound
		}
		if slices.Contains(path, at) {
			return path, ParentCycle
		}
		path = append(path, at)
	}

	if len(path) > MaxDepth {
		return path, TooDeep
	}

	return path, NoBreak
}

// Children returns the children of a queue that have a path to root, sorted. The children of "" are those of root.
func (p Parents) Children(queue string) (children []string) {
	for name, parent := range p {
		if _, broken := p.Path(name); parent == queue && broken == NoBreak {
			children = append(children, name)
		}
	}
	slices.Sort(children)
	return children
}

// Subtree returns a queue, and the queues whose path to root leads through it.
func (p Parents) Subtree(queue string) []string {
	subtree := []string{queue}
	for name := range p {
		path, broken := p.Path(name)
		if name != queue && broken == NoBreak && slices.Contains(path, queue) {
			subtree = append(subtree, name)
		}
	}
	return subtree
}

// Connected returns the parents of a tree in which each queue has a path: one without a path to root is alone, directly
// under root.
func (p Parents) Connected() Parents {
	connected := maps.Clone(p)
	for name := range p {
		if _, broken := p.Path(name); broken != NoBreak {
			connected[name] = ""
		}
	}
	return connected
}
