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
	r, refusal, known := p.checked(task)
	switch {
	case !known:
		return p.unfit(task, node, unfitKey{why: withoutJob})
	case refusal != nil:
		return p.unfit(task, node, unfitKey{why: refused, text: refusal.Message})
	}
	for _, check := range nodeChecks {
		if why := check(p, r, node); why != fits {
			return p.unfit(task, node, p.keyOf(why, r, node))
		}
	}
	return nil
}

// leavesQuotaOut reports whether it is asked now whether a pod could run on a node if its
// queue had quota.
func (p *plugin) leavesQuotaOut(task *api.TaskInfo) bool {
	of := p.withoutQuota.Load()
	return of != nil && *of == task.UID
}

// refusesWithoutQuota reports whether a node refuses a pod for something else than quota,
// that no eviction mends. Volcano hears of one reason only, and ours comes first: where
// quota lacks it does not hear of a taint, or that the node is cordoned.
func (p *plugin) refusesWithoutQuota(task *api.TaskInfo, node *api.NodeInfo) bool {
	p.withoutQuota.Store(&task.UID)
	defer p.withoutQuota.Store(nil)
	return p.ssn.PredicateForPreemptAction(task, node) != nil
}

// isReclaimer reports whether Volcano looks for a node on which a pod takes cards from other
// queues.
func (p *plugin) isReclaimer(task *api.TaskInfo) bool {
	s := p.search.Load()
	return s != nil && s.reclaims && s.task.UID == task.UID
}

// The reasons for which a node does not fit a pod.
const (
	fits = iota
	withoutJob
	refused
	namelessCard
	otherCard
	noRoom
	noRoomToReclaim
	stillEnding
	heldForOthers // preempt would find room where there is none to spare
	keptOff
	staysApart
	hanging
	hangingWithoutVictims
)

// fixedReasons are those that are always told in the same words.
var fixedReasons = map[int]string{
	withoutJob:            "job of the pod is not in this session",
	heldForOthers:         "node(s) reserve cards for pods that reclaimed them",
	keptOff:               "node(s) have terminating pods past their grace period that conflict by anti-affinity or host port",
	staysApart:            "node(s) have pods that conflict by anti-affinity or host port and may not be preempted",
	hanging:               "node(s) have too little room beside terminating pods past their grace period",
	hangingWithoutVictims: "node(s) have too little room beside terminating pods past their grace period",
}

// unfitKey is everything that the words of a refusal depend on.
type unfitKey struct {
	why   int
	text  string
	queue api.QueueID
	name  card.Name
	count card.Count
	limit card.Count
	// within is how long what is ending may take.
	within time.Duration
}

// keyOf is what the words depend on in which a node is refused to a pod.
func (p *plugin) keyOf(why int, r request, node *api.NodeInfo) unfitKey {
	key := unfitKey{why: why}
	switch why {
	case namelessCard:
		key.text = string(r.ask.Resource)
	case otherCard:
		key.text = r.ask.Named.String()
	case noRoom, noRoomToReclaim, stillEnding:
		key.queue = r.job.Queue
		key.name, _ = p.inv.CardOnNode(node.Name, r.ask.Resource)
		key.limit = r.rules.Limits.Cards[key.name]
		if key.count = r.ask.Count; why == stillEnding {
			key.count = 0 // whatever is asked for
			_, key.within = p.account.Terminating(string(key.queue), key.name)
		}
	}
	return key
}

// unfitness keeps refusals of nodes. A pod that names a card is refused by
// every node with another one, thousands of times in a session and always in
// the same words, so each refusal is made once. What is in use is told as it was
// when the refusal began, so that a busy queue does not change the words of
// every pod that waits in it.
type unfitness struct {
	sync.RWMutex
	statuses map[unfitKey]*unfitStatus
}

type unfitStatus struct {
	words []*api.Status
	// session is the one that last refused a node in these words.
	session atomic.Uint64
}

// mostUnfit bounds the refusals that are kept.
const mostUnfit = 10_000

func (k unfitKey) status(used card.Count) *api.Status {
	status := &api.Status{Code: api.UnschedulableAndUnresolvable, Plugin: PluginName, Reason: cmp.Or(fixedReasons[k.why], k.text)}
	if k.why == noRoom || k.why == hanging {
		status.Code = api.Unschedulable
	}
	switch k.why {
	case namelessCard:
		status.Reason = fmt.Sprintf("node(s) have no named card for %s", k.text)
	case otherCard:
		status.Reason = fmt.Sprintf("node(s) have another card than <%s>", k.text)
	case noRoom, noRoomToReclaim, stillEnding: // evictions only make more of what is still ending
		short := quota.InsufficientQuota{
			Kind: quota.Cards, Queue: string(k.queue), Names: []card.Name{k.name},
			Requested: int64(k.count), Total: int64(used.Add(k.count)), Limit: int64(k.limit), GracePeriod: k.within,
		}
		if k.why == stillEnding {
			short.Kind = quota.Terminating
		}
		text := workload.RefusalFor(&short).Message
		status.Reason = strings.ToLower(text[:1]) + text[1:]
	}
	return status
}

// unfit is the refusal of one node. Volcano writes the node's name into it, so
// only the words can be shared.
func (p *plugin) unfit(task *api.TaskInfo, node *api.NodeInfo, key unfitKey) error {
	u := &p.cache.unfit
	u.RLock()
	known, ok := u.statuses[key]
	u.RUnlock()
	if !ok || known.session.Load()+1 < p.cache.session { // new, or not given in this session or the one before
		used := p.account.Used(string(key.queue), key.name)
		if key.why == stillEnding {
			used, _ = p.account.Terminating(string(key.queue), key.name)
		}
		known = &unfitStatus{words: []*api.Status{key.status(used)}}
		u.Lock()
		if len(u.statuses) >= mostUnfit {
			clear(u.statuses)
		}
		u.statuses[key] = known
		u.Unlock()
	}
	known.session.Store(p.cache.session)
	return api.NewFitErrWithStatus(task, node, known.words...)
}
