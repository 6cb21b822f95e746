// Package snapshot is what one session sees: objects, quotas, charges, the rules of queues, and the checks of a
// pod that depend on nothing else.
package snapshot

import (
	"sync"
	"time"

	corev1listers "k8s.io/client-go/listers/core/v1"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/framework"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/scheduler/cache"
	"cardquota.dev/operator/internal/workload"
)

// Session is what one session sees: objects, quotas, charges, and the rules of queues.
type Session struct {
	// Args are the arguments of the plugin. ArgumentsErr says why they are invalid, nil if they are valid.
	Args         Arguments
	ArgumentsErr error
	Cache        *cache.Cache

	// Volcano is the session of Volcano.
	Volcano    *framework.Session
	Inventory  *card.Inventory
	Ledger     *quota.Ledger
	QueueRules map[api.QueueID]*workload.QueueRules
	// NamespaceLister is nil if no queue has a namespace selector.
	NamespaceLister corev1listers.NamespaceLister
	// NamespaceRefusals says for each namespace why a queue does not allow it.
	NamespaceRefusals map[QueueNamespace]*workload.Refusal
	namespaceLock     sync.Mutex
	// AwaitsSync reports whether the scheduler may not decide yet, because the session lacks objects.
	AwaitsSync bool
	// TriedTasks are the pods that the session tried on nodes.
	TriedTasks map[api.TaskID]bool
}

// QueueCard is a card of a queue.
type QueueCard struct {
	Queue api.QueueID
	Name  card.Name
}

// QueueNamespace is a namespace in a queue with a namespace selector.
type QueueNamespace struct {
	queue     api.QueueID
	namespace string
}

// CheckInput is what checks read: the request of a pod, or a job without a task. It is passed
// by value, so the predicate allocates no memory.
type CheckInput struct {
	Job *api.JobInfo
	// Rules are those of the job's queue, nil if it does not exist.
	Rules   *workload.QueueRules
	Task    *api.TaskInfo
	Request *workload.Request
	// Node is where the pod would run, "" before a node is chosen.
	Node string
	// Released is what evictions release before, nil for nothing.
	Released *quota.Released
}

// Milli is the unit in which Volcano counts scalar resources.
const Milli = 1000

// CardFor returns the card that a pod would use on a node, false if it may not run there. A pod
// without cards may run anywhere.
func (s *Session) CardFor(request *workload.Request, node string) (card.Name, bool) {
	switch {
	case request.Denied != nil:
		return "", false
	case request.Count == 0:
		return "", true
	}
	name, ok := s.Inventory.CardOnNode(node, request.Resource)
	return name, ok && request.Named.Allows(name)
}

// Now returns the time of the session.
func (s *Session) Now() time.Time { return s.Cache.Now() }
