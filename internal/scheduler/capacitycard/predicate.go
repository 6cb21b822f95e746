package capacitycard

import (
	"cmp"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/workload"
)

// predicate is the gate of a pod on a node, and the one that makes quota exact:
// the node's own card must be one the pod may run on and must have room in the
// queue.
func (p *plugin) predicate(task *api.TaskInfo, node *api.NodeInfo) error {
	r, refusal, known := p.checkedInput(task)
	switch {
	case !known:
		return p.fitError(task, node, fitErrorKey{reason: jobNotFound})
	case refusal != nil:
		return p.fitError(task, node, fitErrorKey{reason: podRefused, text: refusal.Message})
	}
	for _, check := range nodeChecks {
		if why := check(p, r, node); why != nodeFits {
			return p.fitError(task, node, p.fitErrorKeyFor(why, r, node))
		}
	}
	return nil
}

// ignoresQuota reports whether it is asked now whether a pod could run on a node if its
// queue had quota.
func (p *plugin) ignoresQuota(task *api.TaskInfo) bool {
	of := p.ignoringQuota.Load()
	return of != nil && *of == task.UID
}

// isRefusedIgnoringQuota reports whether a node refuses a pod for something else than quota,
// that no eviction mends. Volcano hears of one reason only, and ours comes first: where
// quota lacks it does not hear of a taint, or that the node is cordoned.
func (p *plugin) isRefusedIgnoringQuota(task *api.TaskInfo, node *api.NodeInfo) bool {
	p.ignoringQuota.Store(&task.UID)
	defer p.ignoringQuota.Store(nil)
	return p.ssn.PredicateForPreemptAction(task, node) != nil
}

// isReclaimer reports whether Volcano looks for a node on which a pod takes cards from other
// queues.
func (p *plugin) isReclaimer(task *api.TaskInfo) bool {
	s := p.search.Load()
	return s != nil && s.mayReclaim && s.task.UID == task.UID
}

// The reasons for which a node does not fit a pod.
const (
	nodeFits = iota
	jobNotFound
	podRefused
	unnamedCard
	cardNotAllowed
	quotaExceeded
	quotaExceededForReclaim
	quotaTerminating
	roomReclaimedByOthers // preempt would find room where there is none to spare
	conflictsWithStuckPod
	conflictNotPreemptable
	roomIsStuck
	roomIsStuckWithoutVictims
)

// fixedMessages are those that are always told in the same words.
var fixedMessages = map[int]string{
	jobNotFound:               "job of the pod is not in this session",
	roomReclaimedByOthers:     "node(s) reserve cards for pods that reclaimed them",
	conflictsWithStuckPod:     "node(s) have terminating pods past their grace period that conflict by anti-affinity or host port",
	conflictNotPreemptable:    "node(s) have pods that conflict by anti-affinity or host port and may not be preempted",
	roomIsStuck:               "node(s) have too little room beside terminating pods past their grace period",
	roomIsStuckWithoutVictims: "node(s) have too little room beside terminating pods past their grace period",
}

// fitErrorKey is everything that the words of a refusal depend on.
type fitErrorKey struct {
	reason int
	text   string
	queue  api.QueueID
	name   card.Name
	count  card.Count
	limit  card.Count
	// within is how long what is ending may take.
	gracePeriod time.Duration
}

// fitErrorKeyFor is what the words depend on in which a node is refused to a pod.
func (p *plugin) fitErrorKeyFor(reason int, r checkInput, node *api.NodeInfo) fitErrorKey {
	key := fitErrorKey{reason: reason}
	switch reason {
	case unnamedCard:
		key.text = string(r.request.Resource)
	case cardNotAllowed:
		key.text = r.request.Named.String()
	case quotaExceeded, quotaExceededForReclaim, quotaTerminating:
		key.queue = r.job.Queue
		key.name, _ = p.inventory.CardOnNode(node.Name, r.request.Resource)
		key.limit = r.rules.Limits.Cards[key.name]
		if key.count = r.request.Count; reason == quotaTerminating {
			key.count = 0 // whatever is asked for
			_, key.gracePeriod = p.ledger.Terminating(string(key.queue), key.name)
		}
	}
	return key
}

// fitErrorCache keeps refusals of nodes. A pod that names a card is refused by
// every node with another one, thousands of times in a session and always in
// the same words, so each refusal is made once. What is in use is told as it was
// when the refusal began, so that a busy queue does not change the words of
// every pod that waits in it.
type fitErrorCache struct {
	sync.RWMutex
	statuses map[fitErrorKey]*cachedFitError
}

type cachedFitError struct {
	statuses []*api.Status
	// session is the one that last refused a node in these words.
	session atomic.Uint64
}

// maxFitErrors bounds the refusals that are kept.
const maxFitErrors = 10_000

func (k fitErrorKey) newStatus(used card.Count) *api.Status {
	status := &api.Status{Code: api.UnschedulableAndUnresolvable, Plugin: PluginName, Reason: cmp.Or(fixedMessages[k.reason], k.text)}
	if k.reason == quotaExceeded || k.reason == roomIsStuck {
		status.Code = api.Unschedulable
	}
	switch k.reason {
	case unnamedCard:
		status.Reason = fmt.Sprintf("node(s) have no named card for %s", k.text)
	case cardNotAllowed:
		status.Reason = fmt.Sprintf("node(s) have another card than <%s>", k.text)
	case quotaExceeded, quotaExceededForReclaim, quotaTerminating: // evictions only make more of what is still ending
		short := quota.InsufficientQuota{
			Kind: quota.Cards, Queue: string(k.queue), Names: []card.Name{k.name},
			Requested: int64(k.count), Total: int64(used.Add(k.count)), Limit: int64(k.limit), GracePeriod: k.gracePeriod,
		}
		if k.reason == quotaTerminating {
			short.Kind = quota.Terminating
		}
		text := workload.RefusalFor(&short).Message
		status.Reason = strings.ToLower(text[:1]) + text[1:]
	}
	return status
}

// fitError is the refusal of one node. Volcano writes the node's name into it, so
// only the words can be shared.
func (p *plugin) fitError(task *api.TaskInfo, node *api.NodeInfo, key fitErrorKey) error {
	u := &p.cache.fitErrors
	u.RLock()
	known, ok := u.statuses[key]
	u.RUnlock()
	if !ok || known.session.Load()+1 < p.cache.session { // new, or not given in this session or the one before
		used := p.ledger.Used(string(key.queue), key.name)
		if key.reason == quotaTerminating {
			used, _ = p.ledger.Terminating(string(key.queue), key.name)
		}
		known = &cachedFitError{statuses: []*api.Status{key.newStatus(used)}}
		u.Lock()
		if len(u.statuses) >= maxFitErrors {
			clear(u.statuses)
		}
		u.statuses[key] = known
		u.Unlock()
	}
	known.session.Store(p.cache.session)
	return api.NewFitErrWithStatus(task, node, known.statuses...)
}
