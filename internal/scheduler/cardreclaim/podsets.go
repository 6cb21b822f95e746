package cardreclaim

// This file groups pending pods that need the same, and finds the nodes where they could run if there were enough free. It
// caches answers by kind of pod: podKind and its needs. addWork, addPredicateWork and addPairWork count work, which a budget
// bounds.

import (
	"encoding/json"
	"math"
	"slices"
	"unique"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	"volcano.sh/volcano/cmd/scheduler/app/options"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/util"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/scheduler/victims"
	"cardquota.dev/operator/internal/workload"
)

// podSet is a group of pods of one job with the same needs.
type podSet struct {
	tasks []*api.TaskInfo
	// needs is the key of their needs, see needsKey. request is what each of them requests.
	needs   string
	request quota.Request
	// isAlone reports whether a node accepts only one of them, because they conflict with each
	// other.
	isAlone bool
	// maxSkew is the smallest maxSkew of their spread over nodes, 0 if they do not spread.
	maxSkew int
	// excluded are nodes that turned out not to fit. maxByNode is how many pods a node turned
	// out to accept.
	excluded  map[int]bool
	maxByNode map[int]int
	// blocked are the nodes that pods which cannot be evicted keep it off, nil until findBlockedNodes sets
	// it. Pods of one kind may differ in that: the labels and the namespace decide.
	blocked map[int]bool
}

// nodeFinder finds the nodes that pods could run on if there were enough free. It keeps nodes by their index.
type nodeFinder struct {
	*searchSession
	victims *victimFinder
	// fittingNodes are the nodes that pods of one kind could run on if there were enough free.
	fittingNodes map[podKind][]int
	// offeringNodes are the nodes with enough allocatable for pods of one kind, and with a
	// card that they may use.
	offeringNodes map[podKind][]int
	// blockedNodes are the fitting nodes that pods which cannot be evicted block.
	blockedNodes map[conflictKey]map[int]bool
	// antiAffinityNodes are the nodes with a pod that has anti-affinity, nil until needed.
	antiAffinityNodes sets.Set[string]
}

// unfitNode is a node of a plan that does not accept a pod although enough is free there.
type unfitNode struct {
	podSet *podSet
	node   int
	// fits is how many pods of the pod set it accepts.
	fits int
	// waits reports whether it will accept the pod once terminating pods are gone.
	waits bool
}

// groupTasks groups pods by their needs, in their order, as far as the CPU and memory of their
// queue suffice. It drops pods that fit nowhere. It returns false if none is left, if all are to be
// placed and one is dropped, or if the budget is used up.
func (f *nodeFinder) groupTasks(job *api.JobInfo, tasks []*api.TaskInfo, allOrNone bool) ([]*podSet, bool) {
	var podSets []*podSet
	byNeeds := map[string]*podSet{}
	var milliCPU, memory int64
	for _, task := range tasks {
		f.addWork(workPerTask)
		if f.jobExhausted() {
			return nil, false
		}

		needs := f.needsKey(job, task)
		set, known := byNeeds[needs]
		if !f.mayFitSomewhere(task, needs, known) {
			if allOrNone {
				return nil, false
			}
			continue
		}

		request := f.RequestFor(task)
		milliCPU = quota.AddSaturating(milliCPU, request.MilliCPU)
		memory = quota.AddSaturating(memory, request.Memory)
		// The sums keep what this pod requests, so no pod after it fits either.
		if !f.mayReclaimCPUMemory(job.Queue, milliCPU, memory) {
			if allOrNone {
				return nil, false
			}
			break
		}

		if !known {
			set = &podSet{needs: needs, request: request.Request, isAlone: workload.ConflictOnNode(task.Pod, task.Pod), maxSkew: maxSkewOf(task.Pod), excluded: map[int]bool{}, maxByNode: map[int]int{}}
			byNeeds[needs] = set
			podSets = append(podSets, set)
		}
		set.tasks = append(set.tasks, task)
	}

	return podSets, len(podSets) > 0
}

// mayFitSomewhere reports whether some node may fit a pod. isKnown means that it does for another pod with the same
// needs. Then only claims of volumes and devices can differ.
func (f *nodeFinder) mayFitSomewhere(task *api.TaskInfo, needs string, isKnown bool) bool {
	if !isKnown && len(f.offeringNodesFor(podKind{f.reclaimerKeyFor(task), needs}, task)) == 0 {
		return false
	}
	if isKnown && !hasVolumeClaims(task.Pod) {
		return true
	}

	err := f.Volcano.PrePredicateFn(task)
	if err != nil {
		klog.V(4).InfoS("Pod fits nowhere, no cards are reclaimed for it", "pod", klog.KObj(task.Pod), "err", err)
		f.scope.unbound = true // the search history does not notice when that changes
	}
	return err == nil
}

// needs is all that decides which nodes fit a pod. Its JSON is the key of pods that are alike.
type needs struct {
	Resources   string
	Card        string
	Selector    map[string]string
	Affinity    *corev1.Affinity
	Tolerations []corev1.Toleration
	Spread      []corev1.TopologySpreadConstraint
	Claims      []corev1.PodResourceClaim
	Volumes     []corev1.Volume
	Ports       []string
	Zone, NUMA  string // of Volcano's plugins tdm and numaaware
	// Own separates pods for which neighboring pods or volumes matter.
	Own string
}

// hasVolumeClaims reports whether a pod claims volumes or devices. A claim may be bound for
// one pod and missing for another of the same kind.
func hasVolumeClaims(pod *corev1.Pod) bool {
	return len(pod.Spec.ResourceClaims) > 0 || slices.ContainsFunc(pod.Spec.Volumes, isClaimed)
}

func isClaimed(v corev1.Volume) bool { return v.PersistentVolumeClaim != nil || v.Ephemeral != nil }

// needsCache keeps the needsKey of pods, as long as they are pending and do not change: those of this session, and
// those of the session before.
type needsCache struct{ now, before map[*corev1.Pod]string }

// startSession begins a session, and forgets the pods for which the last one did not ask.
func (n *needsCache) startSession() {
	n.now, n.before = make(map[*corev1.Pod]string, len(n.now)), n.now
}

// needsKey returns a text that is the same for pods with the same needs.
func (f *nodeFinder) needsKey(job *api.JobInfo, task *api.TaskInfo) string {
	cache := &f.search.needs
	text, known := cache.now[task.Pod]
	if known {
		return text
	}

	text, known = cache.before[task.Pod]
	if !known {
		// Thousands of pods share few texts, so equal texts share their memory.
		text = unique.Make(encodeNeeds(job, task)).Value()
	}
	cache.now[task.Pod] = text
	return text
}

// encodeNeeds returns the needs of a pod as JSON. Pods with affinity to pods, spread or claims are alike only
// if they have the same job and role.
func encodeNeeds(job *api.JobInfo, task *api.TaskInfo) string {
	spec := &task.Pod.Spec
	n := needs{
		Resources: task.InitResreq.String(), Card: task.Pod.Annotations[v1alpha1.AnnotationCardName],
		Selector: spec.NodeSelector, Affinity: spec.Affinity, Tolerations: spec.Tolerations,
		Spread: spec.TopologySpreadConstraints, Claims: spec.ResourceClaims, Ports: workload.HostPorts(spec), Zone: task.RevocableZone,
	}

	if task.NumaInfo != nil {
		n.NUMA = task.NumaInfo.Policy
	}

	n.Volumes = slices.DeleteFunc(slices.Clone(spec.Volumes), func(v corev1.Volume) bool { return !isClaimed(v) })
	if a := spec.Affinity; (a != nil && (a.PodAffinity != nil || a.PodAntiAffinity != nil)) || len(n.Spread)+len(n.Volumes)+len(n.Claims) > 0 {
		n.Own = string(job.UID) + "/" + task.TaskRole
	}

	text, err := json.Marshal(n)
	if err != nil {
		// A pod whose needs have no text is a kind of its own.
		return string(task.UID)
	}

	return string(text)
}

// nodesOf lists the nodes that a pod set could run on if there were enough free, the preferred ones first: see
// sortByPreference.
func (f *nodeFinder) nodesOf(set *podSet) []int {
	fitting := f.fittingNodesOf(set)
	f.findBlockedNodes(set)
	if len(set.excluded)+len(set.blocked) == 0 {
		return fitting
	}
	return slices.DeleteFunc(slices.Clone(fitting), func(i int) bool { return set.excluded[i] || set.blocked[i] })
}

// fittingNodesOf lists the nodes that Volcano's plugins accept for pods of a pod set's kind if enough is free there. It
// leaves out neither nodes that turned out not to fit nor those that pods which cannot be evicted block.
func (f *nodeFinder) fittingNodesOf(set *podSet) []int {
	key := f.kindOf(set)
	fitting, known := f.fittingNodes[key]
	if !known {
		task := set.tasks[0]
		offering := f.offeringNodesFor(key, task)
		f.addPredicateWork(workPerPredicate * len(offering))
		for _, i := range offering {
			if err := f.Volcano.PredicateForPreemptAction(task, f.nodes[i]); err == nil {
				fitting = append(fitting, i)
			}
		}

		f.sortByPreference(task, set.request, fitting)
		f.fittingNodes[key] = fitting
	}

	return fitting
}

// findBlockedNodes sets which of its fitting nodes are blocked for a pod set: a pod there conflicts with it
// and cannot be evicted. Pod sets of one kind, namespace and labels share the answer.
func (f *nodeFinder) findBlockedNodes(set *podSet) {
	if set.blocked != nil {
		return
	}
	if !f.canConflict(set) {
		set.blocked = map[int]bool{}
		return
	}

	pod := set.tasks[0].Pod
	key := conflictKey{f.kindOf(set), pod.Namespace, labels.Set(pod.Labels).String()}
	known, isKnown := f.blockedNodes[key]
	if !isKnown {
		known = map[int]bool{}
		for _, i := range f.fittingNodesOf(set) {
			if f.isBlockedByOthers(set, f.nodes[i]) {
				known[i] = true
			}
		}
		f.blockedNodes[key] = known
	}
	set.blocked = known
}

// conflictKey is all that decides which pods conflict with pods of a kind by anti-affinity.
type conflictKey struct {
	podKind
	namespace, labels string
}

// canConflict reports whether host ports or anti-affinity can keep a pod set off any node.
func (f *nodeFinder) canConflict(set *podSet) bool {
	f.findAntiAffinityNodes()
	return hasConflicts(set.tasks[0].Pod) || len(f.antiAffinityNodes) > 0
}

// hasConflicts reports whether a pod itself has host ports or anti-affinity.
func hasConflicts(pod *corev1.Pod) bool { return countPorts(pod)+countAntiAffinityTerms(pod) > 0 }

// offeringNodesFor lists the ready nodes of this scheduler with enough allocatable for a pod and with a card
// that it may use, and adds them to the scope of the search. On other nodes no eviction helps: on a node that
// is not ready, victims do not end and the pod does not start.
func (f *nodeFinder) offeringNodesFor(key podKind, task *api.TaskInfo) []int {
	offering, known := f.offeringNodes[key]
	if !known {
		f.addPredicateWork(workPerNode * len(f.nodes))
		for i, node := range f.nodes {
			isReady := node.Node != nil && workload.NodeReady(node.Node)
			if !isReady || f.isOfOthers(node) || !task.InitResreq.LessEqual(node.Allocatable, api.Zero) {
				continue
			}
			if _, ok := f.CardOn(task, node.Name); ok {
				offering = append(offering, i)
			}
		}
		f.offeringNodes[key] = offering
	}

	// The nodes may be known from another job, but the result for this one depends on them too.
	f.scope.addKind(key, task, offering)
	return offering
}

// isInShard reports whether a node belongs to this scheduler, with Volcano's option
// --scheduler-sharding-mode. Nodes of other shards come last in the soft mode.
func (f *nodeFinder) isInShard(node *api.NodeInfo) bool {
	mode := options.ServerOpts.ShardingMode
	return (mode != util.HardShardingMode && mode != util.SoftShardingMode) || f.Volcano.NodesInShard.Has(node.Name)
}

// isOfOthers reports whether only other schedulers use a node.
func (f *nodeFinder) isOfOthers(node *api.NodeInfo) bool {
	return options.ServerOpts.ShardingMode == util.HardShardingMode && !f.isInShard(node)
}

// sortByPreference sorts nodes: first those with the card that the pod prefers, then those of this scheduler's shard,
// then those with the fewest idle cards, so that whole nodes stay free.
func (f *nodeFinder) sortByPreference(task *api.TaskInfo, request quota.Request, nodes []int) {
	resource := f.RequestFor(task).Resource

	slices.SortStableFunc(nodes, func(a, b int) int {
		x, _ := f.CardOn(task, f.nodes[a].Name)
		y, _ := f.CardOn(task, f.nodes[b].Name)
		if by := slices.Index(request.Names, x) - slices.Index(request.Names, y); by != 0 {
			return by
		}
		if by := victims.CompareBool(f.isInShard(f.nodes[b]), f.isInShard(f.nodes[a])); by != 0 {
			return by
		}
		return int(f.nodes[a].Idle.ScalarResources[resource] - f.nodes[b].Idle.ScalarResources[resource])
	})
}

// maxOnNode returns how many pods of a pod set a node accepts at most, however much it has free. If it refused one
// already, that is how many it accepted.
func (set *podSet) maxOnNode(node int) int {
	if n, known := set.maxByNode[node]; known {
		return n
	}
	switch {
	case set.isAlone:
		return 1
	case set.maxSkew > 0:
		return set.maxSkew
	}
	return math.MaxInt32
}

// maxSkewOf returns the smallest skew of the pod's spread over nodes, 0 if it does not spread.
// A node accepts so many of them while others have none.
func maxSkewOf(pod *corev1.Pod) int {
	least := 0
	for i := range pod.Spec.TopologySpreadConstraints {
		c := &pod.Spec.TopologySpreadConstraints[i]
		if c.WhenUnsatisfiable != corev1.DoNotSchedule || c.TopologyKey != corev1.LabelHostname {
			continue
		}
		selector, err := metav1.LabelSelectorAsSelector(c.LabelSelector)
		if err == nil && selector.Matches(labels.Set(pod.Labels)) && (least == 0 || int(c.MaxSkew) < least) {
			least = int(c.MaxSkew)
		}
	}

	return least
}

// excludeNode records that a node accepts no more pods of a pod set. If it accepts none, the fitting nodes that share a
// value of a topology key of the pods are excluded too: the same pods keep the pod set off them.
func (f *nodeFinder) excludeNode(unfit *unfitNode) {
	if unfit.fits > 0 {
		unfit.podSet.maxByNode[unfit.node] = unfit.fits
		return
	}

	unfit.podSet.excluded[unfit.node] = true
	for _, key := range topologyKeys(unfit.podSet.tasks[0].Pod) {
		value, known := f.nodes[unfit.node].Node.Labels[key]
		for _, i := range f.fittingNodes[f.kindOf(unfit.podSet)] {
			if other, has := f.nodes[i].Node.Labels[key]; known && has && other == value {
				unfit.podSet.excluded[i] = true
			}
		}
	}
}

// isBlockedByOthers reports whether a pod that cannot be evicted keeps a pod set off a node,
// by a host port or by anti-affinity. Terminating pods do not count: the pod set waits until they are gone.
func (f *nodeFinder) isBlockedByOthers(set *podSet, node *api.NodeInfo) bool {
	pending := set.tasks[0]
	// A pod set that reclaims nothing has no victims. Yet no node is blocked for it: pods of its gang that
	// reclaim may evict what is in its way.
	if !f.reclaimsFor(&set.request) {
		return false
	}

	// Anti-affinity of either pod is enough for a conflict, ports need both.
	canConflictWithAny := hasConflicts(pending.Pod)
	if !canConflictWithAny && !f.hasAntiAffinity(node) {
		return false
	}

	for _, other := range node.Tasks {
		// Most pods have no such terms, and each pair costs a comparison of labels.
		if !canConflictWithAny && countAntiAffinityTerms(other.Pod) == 0 {
			continue
		}
		f.addPairWork(pending.Pod, other.Pod)
		if workload.ConflictOnNode(pending.Pod, other.Pod) && other.Status != api.Releasing && !f.victims.evictablePodsFor(pending)[other.UID] {
			return true
		}
	}

	return false
}

// hasAntiAffinity reports whether any pod of a node has required anti-affinity.
func (f *nodeFinder) hasAntiAffinity(node *api.NodeInfo) bool {
	f.findAntiAffinityNodes()
	return f.antiAffinityNodes.Has(node.Name)
}

// findAntiAffinityNodes sets antiAffinityNodes: the nodes with a pod that has required anti-affinity. It looks at all
// pods only once, because the session asks for every pod set on every node.
func (f *nodeFinder) findAntiAffinityNodes() {
	if f.antiAffinityNodes != nil {
		return
	}

	f.antiAffinityNodes = sets.New[string]()
	for _, node := range f.nodes {
		for _, task := range node.Tasks {
			if countAntiAffinityTerms(task.Pod) > 0 {
				f.antiAffinityNodes.Insert(node.Name)
				break
			}
		}
	}
}

// evictablePodsFor returns the pods that may be evicted for a reclaiming pod, alone or with their whole job.
func (f *victimFinder) evictablePodsFor(reclaimer *api.TaskInfo) map[api.TaskID]bool {
	key := f.victimKeyFor(f.reclaimerKeyFor(reclaimer))
	if f.evictablePods[key] == nil {
		pods := map[api.TaskID]bool{}
		for _, victim := range f.victimJobsFor(reclaimer) {
			for i, task := range victim.tasks {
				pods[task.UID] = victim.solverJob.Whole || !victim.solverJob.Pods[i].Protected
			}
		}
		f.evictablePods[key] = pods
	}
	return f.evictablePods[key]
}

// topologyKeys lists the keys of node labels by which the spread and the required affinity of a pod group
// nodes. It leaves out the host name, which groups no nodes.
func topologyKeys(pod *corev1.Pod) []string {
	var keys []string
	add := func(key string) {
		if key != corev1.LabelHostname {
			keys = append(keys, key)
		}
	}

	for i := range pod.Spec.TopologySpreadConstraints {
		if c := &pod.Spec.TopologySpreadConstraints[i]; c.WhenUnsatisfiable == corev1.DoNotSchedule {
			add(c.TopologyKey)
		}
	}

	for _, term := range workload.RequiredAffinityTerms(pod) {
		add(term.TopologyKey)
	}

	return keys
}

// waitsForTerminating reports whether terminating pods keep a pod set off a node. One of them conflicts with
// it, there or on a node with the same value of a topology key. Or the node has its maximum number of pods,
// and one terminates.
func (f *nodeFinder) waitsForTerminating(set *podSet, node *api.NodeInfo) bool {
	hasTerminating := false // on the node itself
	for _, task := range f.terminating {
		other, known := f.Volcano.Nodes[task.NodeName]
		if !known || other.Node == nil || node.Node == nil {
			continue
		}

		hasTerminating = hasTerminating || other.Name == node.Name
		f.addPairWork(set.tasks[0].Pod, task.Pod)
		shareValue := func(key string) bool {
			if key == corev1.LabelHostname {
				return other.Name == node.Name
			}
			value, has := node.Node.Labels[key]
			return has && other.Node.Labels[key] == value
		}
		if workload.ConflictBetweenNodes(set.tasks[0].Pod, task.Pod, other.Name == node.Name, shareValue) {
			return true
		}
	}

	return hasTerminating && len(node.Tasks) >= node.Allocatable.MaxTaskNum
}

// firstReclaimer returns the index of the first pod set for which resources are reclaimed, -1 if
// there is none. All such pod sets of a problem reclaim from the same victim jobs.
func (s *searchSession) firstReclaimer(podSets []*podSet) int {
	return slices.IndexFunc(podSets, func(set *podSet) bool { return s.reclaimsFor(&set.request) })
}

// addKind records that the search checks nodes, by index, for pods of one kind.
func (s *searchScope) addKind(key podKind, task *api.TaskInfo, nodes []int) {
	if s.kinds[key] {
		return
	}
	if s.kinds == nil {
		s.kinds = map[podKind]bool{}
	}
	s.kinds[key] = true
	s.nodes = append(s.nodes, nodes)
	s.everywhere = s.everywhere || dependsOnOtherNodes(task.Pod)
}

// dependsOnOtherNodes reports whether pods on other nodes decide where a pod can run, by affinity or spread.
func dependsOnOtherNodes(pod *corev1.Pod) bool {
	a := pod.Spec.Affinity
	return len(topologyKeys(pod)) > 0 || (a != nil && a.PodAffinity != nil)
}

func (s *searchSession) kindOf(set *podSet) podKind {
	return podKind{s.reclaimerKeyFor(set.tasks[0]), set.needs}
}

// reclaimerKeyOf returns the key of the pods that reclaim, which is the same for all of them. If none reclaims, it is
// that of the first pod.
func (s *searchSession) reclaimerKeyOf(podSets []*podSet) reclaimerKey {
	return s.reclaimerKeyFor(podSets[max(0, s.firstReclaimer(podSets))].tasks[0])
}
