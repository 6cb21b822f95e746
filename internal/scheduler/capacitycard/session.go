package capacitycard

import (
	"sync"

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
	args         arguments
	argumentsErr error
	cache        *cache.Cache

	ssn        *framework.Session
	inventory  *card.Inventory
	ledger     *quota.Ledger
	queueRules map[api.QueueID]*workload.QueueRules
	// namespaceLister is nil if no queue has a namespace selector.
	namespaceLister corev1listers.NamespaceLister
	// namespaceRefusals says for each namespace why a queue does not allow it.
	namespaceRefusals map[queueNamespace]*workload.Refusal
	namespaceLock     sync.Mutex
	// NotReadyReason says what is missing before the scheduler may decide, "" if nothing is.
	notReadyReason string
	// triedTasks are the pods that the session tried on nodes.
	triedTasks map[api.TaskID]bool
}
