package cardreclaim

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
	tasks   []*api.TaskInfo
	needs   string
	request quota.Request
	// isAlone reports whether a node accepts only one of them, because they conflict with each
	// other.
	isAlone bool
	// maxSkew is the strictest spread over nodes, 0 for none.
	maxSkew int
	// excluded are nodes that turned out not to fit. maxByNode is how many pods a node turned
	// out to accept.
	excluded  map[int]bool
	maxByNode map[int]int
	// blocked are the nodes that pods which cannot be evicted keep it off, nil until they are looked
	// for. Pods of one kind may differ in that: the labels and the namespace decide.
	blocked map[int]bool
}

// nodeFinder finds the nodes that pods could run on if there were enough free.
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

// groupTasks groups pods by their needs, in their order, as far as the CPU and memory of their
// queue go. It drops pods that fit nowhere. It returns false if none is left, if all are to be
// placed and cannot be, or if the budget is used up.
func (s *nodeFinder) groupTasks(job *api.JobInfo, tasks []*api.TaskInfo, all bool) ([]*podSet, bool) {
	var podSets []*podSet
	byNeeds := map[string]*podSet{}
	var milliCPU, memory int64
	for _, task := range tasks {
		s.addWork(workPerTask)
		if s.jobExhausted() {
			return nil, false
		}

		needs := s.needsKey(job, task)
		c, known := byNeeds[needs]
		if !s.mayFitSomewhere(task, needs, known) {
			if all {
				return nil, false
			}
			continue
		}

		request := s.plugin.RequestFor(task)
		milliCPU = quota.AddSaturating(milliCPU, request.MilliCPU)
		memory = quota.AddSaturating(memory, request.Memory)
		// The sums keep what this pod requests, so no pod after it fits either.
		if !s.mayReclaimCPUMemory(job.Queue, milliCPU, memory) {
			if all {
				return nil, false
			}
			break
		}

		if !known {
			c = &podSet{needs: needs, request: request.Request, isAlone: workload.ConflictOnNode(task.Pod, task.Pod), maxSkew: maxSkewOf(task.Pod), excluded: map[int]bool{}, maxByNode: map[int]int{}}
			byNeeds[needs] = c
			podSets = append(podSets, c)
		}
		c.tasks = append(c.tasks, task)
	}

	return podSets, len(podSets) > 0
}

// mayFitSomewhere reports whether some node may fit a pod. isKnown means that one with the same
// needs may be placed: pods of one kind differ only in their volumes.
func (s *nodeFinder) mayFitSomewhere(task *api.TaskInfo, needs string, isKnown bool) bool {
	if !isKnown && len(s.offeringNodesFor(podKind{s.reclaimerKeyFor(task), needs}, task)) == 0 {
		return false
	}
	if isKnown && !hasVolumeClaims(task.Pod) {
		return true
	}

	err := s.ssn.PrePredicateFn(task)
	if err != nil {
		klog.V(4).InfoS("Pod fits nowhere, no cards are reclaimed for it", "pod", klog.KObj(task.Pod), "err", err)
		s.scope.unbound = true
	}
	return err == nil
}

// needs is all that decides which nodes fit a pod.
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

// needsCache keeps the needs of pods as text, as long as they are pending and do not change.
type needsCache struct{ now, before map[*corev1.Pod]string }

// startSession begins a session, and forgets what the last one did not use.
func (n *needsCache) startSession() {
	n.now, n.before = make(map[*corev1.Pod]string, len(n.now)), n.now
}

// needsKey returns a pod's needs as text.
func (s *nodeFinder) needsKey(job *api.JobInfo, task *api.TaskInfo) string {
	t := &s.search.needs
	text, known := t.now[task.Pod]
	if known {
		return text
	}

	text, known = t.before[task.Pod]
	if !known {
		// Thousands of pods share few texts, so equal texts share their memory.
		text = unique.Make(encodeNeeds(job, task)).Value()
	}
	t.now[task.Pod] = text
	return text
}

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

// nodesOf lists the nodes that a pod set could run on if there were enough free. Nodes with
// the preferred card come first, then those most in use.
func (s *nodeFinder) nodesOf(c *podSet) []int {
	fitting := s.fittingNodesOf(c)
	s.findBlockedNodes(c)
	if len(c.excluded)+len(c.blocked) == 0 {
		return fitting
	}
	return slices.DeleteFunc(slices.Clone(fitting), func(i int) bool { return c.excluded[i] || c.blocked[i] })
}

// fittingNodesOf lists the nodes of nodesOf, and those that pods which cannot be evicted block.
func (s *nodeFinder) fittingNodesOf(c *podSet) []int {
	key := s.kindOf(c)
	fitting, known := s.fittingNodes[key]
	if !known {
		task := c.tasks[0]
		offering := s.offeringNodesFor(key, task)
		s.addPredicateWork(workPerPredicate * len(offering))
		for _, i := range offering {
			if err := s.ssn.PredicateForPreemptAction(task, s.nodes[i]); err == nil {
				fitting = append(fitting, i)
			}
		}

		s.sortByPreference(task, c.request, fitting)
		s.fittingNodes[key] = fitting
	}

	return fitting
}

// findBlockedNodes finds the fitting nodes that pods which cannot be evicted keep a pod set off.
func (s *nodeFinder) findBlockedNodes(c *podSet) {
	if c.blocked != nil {
		return
	}
	if !s.canConflict(c) {
		c.blocked = map[int]bool{}
		return
	}

	pod := c.tasks[0].Pod
	key := conflictKey{s.kindOf(c), pod.Namespace, labels.Set(pod.Labels).String()}
	known, isKnown := s.blockedNodes[key]
	if !isKnown {
		known = map[int]bool{}
		for _, i := range s.fittingNodesOf(c) {
			if s.isBlockedByOthers(c, s.nodes[i]) {
				known[i] = true
			}
		}
		s.blockedNodes[key] = known
	}
	c.blocked = known
}

// conflictKey is all that decides which pods conflict with pods of a kind by anti-affinity.
type conflictKey struct {
	podKind
	namespace, labels string
}

// canConflict reports whether host ports or anti-affinity can keep a pod set off any node.
func (s *nodeFinder) canConflict(c *podSet) bool {
	s.findAntiAffinityNodes()
	return hasConflicts(c.tasks[0].Pod) || len(s.antiAffinityNodes) > 0
}

// hasConflicts reports whether a pod itself has host ports or anti-affinity.
func hasConflicts(pod *corev1.Pod) bool { return countPorts(pod)+countAntiAffinityTerms(pod) > 0 }

// offeringNodesFor lists the ready nodes with enough allocatable for a pod and with a card that it
// may use. On other nodes victims cannot end, and the pod cannot start. It adds them to the scope of the search. No eviction helps on other nodes.
func (s *nodeFinder) offeringNodesFor(key podKind, task *api.TaskInfo) []int {
	offering, known := s.offeringNodes[key]
	if !known {
		s.addPredicateWork(workPerNode * len(s.nodes))
		for i, node := range s.nodes {
			isReady := node.Node != nil && workload.NodeReady(node.Node)
			if !isReady || s.isOfOthers(node) || !task.InitResreq.LessEqual(node.Allocatable, api.Zero) {
				continue
			}
			if _, ok := s.plugin.CardOn(task, node.Name); ok {
				offering = append(offering, i)
			}
		}
		s.offeringNodes[key] = offering
	}

	// The nodes may be known from another job, but the result for this one depends on them too.
	s.scope.addKind(key, task, offering)
	return offering
}

// isInShard reports whether a node belongs to this scheduler, with Volcano's option
// --scheduler-sharding-mode. Nodes of other shards come last in the soft mode.
func (s *nodeFinder) isInShard(node *api.NodeInfo) bool {
	mode := options.ServerOpts.ShardingMode
	return (mode != util.HardShardingMode && mode != util.SoftShardingMode) || s.ssn.NodesInShard.Has(node.Name)
}

// isOfOthers reports whether only other schedulers use a node.
func (s *nodeFinder) isOfOthers(node *api.NodeInfo) bool {
	return options.ServerOpts.ShardingMode == util.HardShardingMode && !s.isInShard(node)
}

// sortByPreference sorts nodes by the order of the cards that the pod names, then by how many
// cards are in use. So whole nodes stay free.
func (s *nodeFinder) sortByPreference(task *api.TaskInfo, request quota.Request, nodes []int) {
	resource := s.plugin.RequestFor(task).Resource

	slices.SortStableFunc(nodes, func(a, b int) int {
		x, _ := s.plugin.CardOn(task, s.nodes[a].Name)
		y, _ := s.plugin.CardOn(task, s.nodes[b].Name)
		if by := slices.Index(request.Names, x) - slices.Index(request.Names, y); by != 0 {
			return by
		}
		if by := victims.CompareBool(s.isInShard(s.nodes[b]), s.isInShard(s.nodes[a])); by != 0 {
			return by
		}
		return int(s.nodes[a].Idle.ScalarResources[resource] - s.nodes[b].Idle.ScalarResources[resource])
	})
}

// maxOnNode returns how many pods of a pod set a node accepts, whatever it has free.
func (p *podSet) maxOnNode(node int) int {
	if n, known := p.maxByNode[node]; known {
		return n
	}
	switch {
	case p.isAlone:
		return 1
	case p.maxSkew > 0:
		return p.maxSkew
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

// excludeNode records that a node accepts no more pods of a pod set. If it accepts none, all
// nodes with the same topology values are excluded too, because they are no better.
func (s *nodeFinder) excludeNode(u *unfitNode) {
	if u.fits > 0 {
		u.podSet.maxByNode[u.node] = u.fits
		return
	}

	u.podSet.excluded[u.node] = true
	for _, key := range topologyKeys(u.podSet.tasks[0].Pod) {
		value, known := s.nodes[u.node].Node.Labels[key]
		for _, i := range s.fittingNodes[s.kindOf(u.podSet)] {
			if other, has := s.nodes[i].Node.Labels[key]; known && has && other == value {
				u.podSet.excluded[i] = true
			}
		}
	}
}

// isBlockedByOthers reports whether a pod that cannot be evicted keeps a pod set off a node,
// by a host port or by anti-affinity.
func (s *nodeFinder) isBlockedByOthers(c *podSet, node *api.NodeInfo) bool {
	by := c.tasks[0]
	if !s.reclaimsFor(&c.request) { // its gang may have victims that it has not
		return false
	}

	wants := hasConflicts(by.Pod)
	if !wants && !s.hasAntiAffinity(node) {
		return false
	}

	for _, other := range node.Tasks {
		// Most pods have no such terms, and each pair costs a comparison of labels.
		if !wants && countAntiAffinityTerms(other.Pod) == 0 {
			continue
		}
		s.addPairWork(by.Pod, other.Pod)
		if workload.ConflictOnNode(by.Pod, other.Pod) && other.Status != api.Releasing && !s.victims.evictablePodsFor(by)[other.UID] {
			return true
		}
	}

	return false
}

// hasAntiAffinity reports whether any pod of a node has required anti-affinity.
func (s *nodeFinder) hasAntiAffinity(node *api.NodeInfo) bool {
	s.findAntiAffinityNodes()
	return s.antiAffinityNodes.Has(node.Name)
}

// findAntiAffinityNodes looks at all pods once, because the session asks for every pod set on every
// node.
func (s *nodeFinder) findAntiAffinityNodes() {
	if s.antiAffinityNodes != nil {
		return
	}

	s.antiAffinityNodes = sets.New[string]()
	for _, node := range s.nodes {
		for _, task := range node.Tasks {
			if countAntiAffinityTerms(task.Pod) > 0 {
				s.antiAffinityNodes.Insert(node.Name)
				break
			}
		}
	}
}

// evictablePodsFor returns the pods that may be evicted for a reclaiming pod.
func (s *victimFinder) evictablePodsFor(by *api.TaskInfo) map[api.TaskID]bool {
	key := s.victimKeyFor(s.reclaimerKeyFor(by))
	if s.evictablePods[key] == nil {
		pods := map[api.TaskID]bool{}
		for _, g := range s.victimJobsFor(by) {
			for i, task := range g.tasks {
				pods[task.UID] = g.solverJob.Whole || !g.solverJob.Pods[i].Protected
			}
		}
		s.evictablePods[key] = pods
	}
	return s.evictablePods[key]
}

// topologyKeys lists the node labels, except the host name, that a pod's spread and affinity
// use.
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

// waitsForTerminating reports whether only terminating pods keep a pod set off a node. Either
// the pods conflict, or the node has its maximum of pods.
func (s *nodeFinder) waitsForTerminating(c *podSet, node *api.NodeInfo) bool {
	isTerminating := false
	for _, task := range s.terminating {
		other, known := s.ssn.Nodes[task.NodeName]
		if !known || other.Node == nil || node.Node == nil {
			continue
		}

		isTerminating = isTerminating || other.Name == node.Name
		s.addPairWork(c.tasks[0].Pod, task.Pod)
		near := func(key string) bool {
			if key == corev1.LabelHostname {
				return other.Name == node.Name
			}
			value, has := node.Node.Labels[key]
			return has && other.Node.Labels[key] == value
		}
		if workload.ConflictBetweenNodes(c.tasks[0].Pod, task.Pod, other.Name == node.Name, near) {
			return true
		}
	}

	return isTerminating && len(node.Tasks) >= node.Allocatable.MaxTaskNum
}
