package capacitycard

import (
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/scheduler/keptcards"
	"cardquota.dev/operator/internal/scheduler/preemption"
	"cardquota.dev/operator/internal/scheduler/snapshot"
	"cardquota.dev/operator/internal/scheduler/victims"
)

// nodeChoice decides on which node a pod may be, and which one is best.
type nodeChoice struct {
	*snapshot.Session
	fitErrors  *fitErrorCache
	events     *Events
	stuck      *snapshot.StuckPods
	kept       *keptcards.Kept
	victims    *victims.Selection
	preemption *preemption.Preemption
	podReclaim *podReclaim
	allocation *allocation
	// search is the node search that Volcano started last, nil for none.
	search atomic.Pointer[nodeSearch]
	// percentageOfNodes is --percentage-nodes-to-find: the sample for a pod without
	// alternatives. 0 lets Volcano choose.
	percentageOfNodes int32
}

// The reasons why a node does not fit a pod.
const (
	nodeFits = iota
	jobNotFound
	podRefused
	unnamedCard
	cardNotAllowed
	quotaExceeded
	quotaExceededForReclaim
	quotaTerminating
	reclaimedByOthers // preempt would find room that is kept for others
	conflictsWithStuckPod
	conflictNotPreemptable
	cardsAreStuck
	cardsAreStuckWithoutVictims
	cardNotDeserved
	keptForPreemptors
	keptForPreemptorsWithoutVictims
	quotaKeptForPreemptors
	cardsAwaitedByOthers
	cardsAwaitedByOthersWithoutVictims
)

// nodeSearch is the state of one node search for a pod: what the predicate and the score read
// besides the node.
type nodeSearch struct {
	snapshot.CheckInput
	// refused is the message of what PodChecks refuse; known is whether the pod's job is in the session.
	refused string
	known   bool
	// once fills in the rest when the first node is scored, since most searches score none.
	once sync.Once
	// requests are the pod's requests by resource.
	requests map[corev1.ResourceName]float64
	// weight is the highest packing score of a node.
	weight float64
	// gangNodes are the names of nodes with cards of the pod's gang, nil without a gang.
	gangNodes map[string]bool
	// gangRests are the pending pods of the gang that may run on a card, by card.
	gangRests map[card.Name]*gangRest
}

// gangRest is what the pending pods of a gang request together.
type gangRest struct {
	// cards are the cards that the pods name, all if they name none.
	cards card.Request
	// pods is how many of them the gang still needs, including the pod to place.
	pods int
	// requests are their summed requests, in Volcano's units.
	requests map[corev1.ResourceName]float64
}

// fitErrorCache keeps fit errors. Thousands of nodes refuse a pod for the same reason in a
// session, so each message is built once. It keeps the usage of its first refusal, so a busy
// queue does not change the messages of its pending pods.
type fitErrorCache struct {
	sync.RWMutex
	statuses map[fitErrorKey]*cachedFitError
}

type cachedFitError struct {
	statuses []*api.Status
	// session is the last session that used the message.
	session atomic.Uint64
}

// fitErrorKey is everything that the message of a fit error depends on.
type fitErrorKey struct {
	reason int
	text   string
	queue  api.QueueID
	name   card.Name
	count  card.Count
	limit  limitKey
}

// limitKey is the limit on the path of a queue that is exceeded, without the usage.
type limitKey struct {
	kind  quota.LimitKind
	queue string
	limit int64
	// gracePeriod is the longest one of the terminating pods.
	gracePeriod time.Duration
}

// allNodes is the --percentage-nodes-to-find with which Volcano checks every node.
const allNodes = 100
