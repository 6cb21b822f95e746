package waitingjobs

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/scheduler/gang"
	"cardquota.dev/operator/internal/scheduler/keptcards"
	"cardquota.dev/operator/internal/scheduler/reclaimrules"
	"cardquota.dev/operator/internal/scheduler/snapshot"
	"cardquota.dev/operator/internal/workload"
)

// freeCards are the free cards of all nodes that take pods, and which waiting pods could use them.
type freeCards struct {
	*snapshot.Session
	rules  *reclaimrules.Rules
	stuck  *snapshot.StuckPods
	kept   *keptcards.Kept
	byName map[card.Name][]*freeNode
	// fullByName are the nodes without free cards.
	fullByName map[card.Name][]*freeNode
	// kinds are the pods that were looked at, one of each kind, by job.
	kinds map[api.JobID][]*podKind
	// checksLeft is how many more nodes may be checked for pods.
	checksLeft int
}

// freeNode is a node with free cards of one name.
type freeNode struct {
	*api.NodeInfo
	resource corev1.ResourceName
	// idle are free, future also has those of terminating pods. kept are those of future that are kept
	// for waiting pods.
	idle, future, kept card.Count
}

// podKind is a pod of a job, for all of its pods that fit the same nodes.
type podKind struct {
	task  *api.TaskInfo
	nodes map[*freeNode]*nodeUse
	// fitsNowhere is set if no node has to be checked.
	fitsNowhere bool
}

// nodeUse is how pods of a kind could use a node.
type nodeUse struct {
	// fitsEmpty is set if a pod could run there without other pods.
	fitsEmpty bool
	// fits is set if a pod could run there once all pods are gone from which it may take cards, or which
	// end soon. They use leaving cards. hasLeaving is set once this is known.
	fits, hasLeaving bool
	leaving          card.Count
	// left is what the node has then.
	left *api.Resource
}

// maxFreeCardChecks bounds how many nodes a session checks for waiting pods. Beyond it, free cards are
// not kept, which costs waiting jobs their turn but no time.
const maxFreeCardChecks = 10_000

// newFreeCards lists the nodes that take pods, by the names of their cards: those with free cards in byName,
// the others in fullByName. Cards of terminating pods count as free in future. Cards for which pods were
// evicted count as kept for the pods that caused the evictions. Volcano counts cards in thousandths
// (snapshot.Milli).
func (j *Jobs) newFreeCards() *freeCards {
	f := &freeCards{
		Session: j.Session, rules: j.rules, stuck: j.stuck, kept: j.kept,
		byName: map[card.Name][]*freeNode{}, fullByName: map[card.Name][]*freeNode{}, kinds: map[api.JobID][]*podKind{}, checksLeft: maxFreeCardChecks,
	}

	states := f.Cache.Nodes.Nodes()
	for i := range states {
		node := f.Volcano.Nodes[states[i].Name]
		if node == nil || !states[i].IsReady || states[i].IsCordoned {
			continue
		}

		for _, offered := range states[i].Cards {
			idle := node.Idle.Get(offered.Resource)
			future := snapshot.FutureIdleOf(node, offered.Resource)
			if future < snapshot.Milli {
				f.fullByName[offered.Name] = append(f.fullByName[offered.Name], &freeNode{NodeInfo: node, resource: offered.Resource})
				continue
			}

			at := &freeNode{NodeInfo: node, resource: offered.Resource, idle: card.Count(idle / snapshot.Milli), future: card.Count(future / snapshot.Milli)}
			at.kept = min(at.future, f.kept.PromisedCards(node.Name, offered.Resource))
			f.byName[offered.Name] = append(f.byName[offered.Name], at)
		}
	}

	return f
}

// usesCard reports whether a missing pod of a job may use a card: the quota has room for it, and the queue
// deserves it, unless it borrows with the job.
func (f *freeCards) usesCard(job *Job, r snapshot.CheckInput, name card.Name) bool {
	if !f.Ledger.Fits(string(job.Info.Queue), r.Request.On(name).OnlyCards(), quota.Within{}) {
		return false
	}
	return job.borrows || f.DeservesCard(r, name)
}

// mayHelp reports whether cards are free that some pending pod of a job may use.
func (f *freeCards) mayHelp(job *api.JobInfo) bool {
	if len(f.byName) == 0 {
		return false
	}
	for _, task := range job.TaskStatusIndex[api.Pending] {
		for _, name := range f.RequestFor(task).Names {
			if len(f.byName[name]) > 0 {
				return true
			}
		}
	}
	return false
}

// kindOf returns the kind of a pod: a known one of its job that fits the same nodes, else a new one.
func (f *freeCards) kindOf(task *api.TaskInfo) *podKind {
	for _, kind := range f.kinds[task.Job] {
		if f.fitSameNodes(kind.task, task) {
			return kind
		}
	}

	kind := &podKind{task: task, nodes: map[*freeNode]*nodeUse{}}
	f.kinds[task.Job] = append(f.kinds[task.Job], kind)

	wasTried := f.TriedTasks[task.UID]
	// Volcano's predicates read what this prepares for the pod.
	kind.fitsNowhere = f.Volcano.PrePredicateFn(task) != nil
	if !wasTried { // the hook of this plugin notes the pod as tried, but allocate has not tried it
		delete(f.TriedTasks, task.UID)
	}

	return kind
}

// fitSameNodes reports whether two pods of a job certainly fit the same nodes.
func (f *freeCards) fitSameNodes(a, b *api.TaskInfo) bool {
	x := &a.Pod.Spec
	y := &b.Pod.Spec
	return a.TaskRole == b.TaskRole && a.InitResreq.Equal(b.InitResreq, api.Zero) && f.RequestFor(a).Named.String() == f.RequestFor(b).Named.String() &&
		equality.Semantic.DeepEqual(x.NodeSelector, y.NodeSelector) && equality.Semantic.DeepEqual(x.Affinity, y.Affinity) && equality.Semantic.DeepEqual(x.Tolerations, y.Tolerations)
}

// useOf returns how pods of a kind could use a node, nil if they fit nowhere, or if this session may check no more
// nodes. It checks each node once for a kind.
func (f *freeCards) useOf(kind *podKind, node *freeNode) *nodeUse {
	use := kind.nodes[node]
	if use != nil || kind.fitsNowhere || f.checksLeft == 0 {
		return use
	}
	f.checksLeft--
	use = &nodeUse{}
	kind.nodes[node] = use
	// The predicate of preempt refuses only what no eviction would change.
	use.fitsEmpty = kind.task.InitResreq.LessEqual(node.Allocatable, api.Zero) && f.Volcano.PredicateForPreemptAction(kind.task, node.NodeInfo) == nil
	return use
}

// countFor returns how many cards that are free now the missing pods of a job could use, if others on their
// nodes were gone. It looks at one pod of each kind, and counts each node once.
func (f *freeCards) countFor(job *Job) (count card.Count) {
	counted := map[*freeNode]bool{}
	kinds := map[*podKind]bool{}
	for _, task := range job.missing {
		kind := f.kindOf(task)
		if kinds[kind] {
			continue
		}
		kinds[kind] = true

		r, _ := f.CheckInputFor(task)
		for _, name := range r.Request.Names {
			if !f.usesCard(job, r, name) {
				continue
			}
			for _, node := range f.byName[name] {
				if use := f.useOf(kind, node); use != nil && use.fitsEmpty && !counted[node] {
					counted[node] = true
					count = count.Add(node.idle)
				}
			}
		}
	}

	return count
}

// fitsOnceOthersLeave reports whether a kind of pods fits a node once others are gone: those from which it
// may take cards, and those that end before until. leaving is how many cards these use there. The first
// answer for a kind and node is kept, because until hardly changes within a session.
func (f *freeCards) fitsOnceOthersLeave(kind *podKind, node *freeNode, until time.Time) (leaving card.Count, fits bool) {
	use := f.useOf(kind, node)
	if use == nil || !use.fitsEmpty {
		return 0, false
	}

	if !use.hasLeaving {
		use.hasLeaving = true
		// Terminating pods count as gone, unless they are stuck long past their grace period.
		left := f.stuck.FutureIdleOn(node.NodeInfo)
		before := left.Get(node.resource)

		for _, other := range f.leavingTasks(kind.task, node, until) {
			left.Add(other.Resreq)
		}
		use.leaving = card.Count((left.Get(node.resource) - before) / snapshot.Milli)
		use.left = left
		use.fits = kind.task.InitResreq.LessEqual(left, api.Zero)
	}

	return use.leaving, use.fits
}

// leavingTasks returns the pods with cards of a node from which a pod may take cards by the rules, also
// while they are protected for a time, and those that end before a time.
func (f *freeCards) leavingTasks(task *api.TaskInfo, node *freeNode, until time.Time) (leaving []*api.TaskInfo) {
	name, _ := f.Inventory.CardOnNode(node.Name, node.resource)
	taken := map[string]int64{}
	for _, other := range node.Tasks {
		if other.Status == api.Releasing || other.Status == api.Pipelined || f.RequestFor(other).Count == 0 {
			continue
		}
		if workload.EndsBefore(other.Pod, until) || (!gang.NeverPreempts(task) && f.mayTake(task, other, name, taken)) {
			leaving = append(leaving, other)
		}
	}
	return leaving
}

// mayTake reports whether a pod may take the named cards of another one beside what it has taken already.
// taken is that by queue, and mayTake adds the cards to it. In flat queues the service types alone decide.
//
// In a tree each queue on the path counts: the other pod's queue and those above it that are not above the
// taking pod's own queue. None of them loses cards of its guarantee. By the tree a pod takes only from queues
// that have borrowed. Another pod with more cards than its queue has borrowed is taken too, because pods go
// as a whole.
func (f *freeCards) mayTake(task, other *api.TaskInfo, name card.Name, taken map[string]int64) bool {
	rule := f.rules.ReclaimRule(task, other)
	count := int64(f.RequestFor(other).Count)
	if rule == reclaimrules.NotReclaimable || !f.IsTree() {
		return rule != reclaimrules.NotReclaimable
	}

	resource := quota.Resource(name)
	path := f.PathBelow(f.Volcano.Jobs[task.Job].Queue, f.VictimQueue(other))
	isProtected := func(queue string) bool {
		return taken[queue]+count > f.Ledger.AboveGuarantee(queue, resource) || (rule == reclaimrules.ReclaimableByTree && taken[queue] >= f.Ledger.AboveDeserved(queue, resource))
	}
	if slices.ContainsFunc(path, isProtected) {
		return false
	}

	for _, queue := range path {
		taken[queue] += count
	}

	return true
}
