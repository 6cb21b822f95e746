package cardreclaim

import (
	"encoding/json"
	"math"
	"slices"
	"unique"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/klog/v2"
	"volcano.sh/volcano/cmd/scheduler/app/options"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/util"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/scheduler/capacitycard"
	"cardquota.dev/operator/internal/workload"
)

// claim is a group of pods of one job that need the same.
type claim struct {
	tasks []*api.TaskInfo
	needs string
	ask   quota.Request
	// alone tells that a node takes only one of them, and none beside its like.
	alone bool
	// spread is how many of them one node may take at least, 0 for any number.
	spread int
	// excluded are nodes that turned out not to fit, caps is how many of them a
	// node turned out to take.
	excluded map[int]bool
	caps     map[int]int
}

// claimsOf groups pods by what they need, in their order, as far as the CPU and memory of
// their queue go, without those that fit nowhere. It is false when none is left, when not
// all can be tried that are to be placed, and when no more may go into the job.
func (w *wave) claimsOf(job *api.JobInfo, tasks []*api.TaskInfo, all bool) ([]*claim, bool) {
	var claims []*claim
	byNeeds := map[string]*claim{}
	var milliCPU, memory int64
	for _, task := range tasks {
		if w.spend(effortOfTask); w.exhausted() {
			return nil, false
		}
		needs := w.needsOf(job, task)
		c, known := byNeeds[needs]
		if !known && len(w.offeringFor(kind{w.giverKey(task), needs}, task)) == 0 {
			if all {
				return nil, false
			}
			continue
		}
		if !known || hasVolumes(task.Pod) { // which are the same for pods of one kind but for their own volumes
			if err := w.ssn.PrePredicateFn(task); err != nil {
				klog.V(4).InfoS("A pod fits nowhere, no cards are taken back for it", "pod", klog.KObj(task.Pod), "err", err)
				w.looked.unbound = true
				if all {
					return nil, false
				}
				continue
			}
		}
		ask := w.tide.Ask(task)
		milliCPU, memory = quota.Sum(milliCPU, ask.MilliCPU), quota.Sum(memory, ask.Memory)
		if !w.tide.FitsCPUMemory(job.Queue, milliCPU, memory) {
			if all {
				return nil, false
			}
			break
		}
		if !known {
			c = &claim{needs: needs, ask: ask.Request, alone: workload.ConflictOnNode(task.Pod, task.Pod), spread: spreadOf(task.Pod), excluded: map[int]bool{}, caps: map[int]int{}}
			byNeeds[needs] = c
			claims = append(claims, c)
		}
		c.tasks = append(c.tasks, task)
	}
	return claims, len(claims) > 0
}

// needs is everything by which a node may fit one pod and not another.
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
	// Own tells pods apart whose neighbours matter.
	Own string
}

// hasVolumes reports whether a pod has volumes or devices that are claimed: what pods of
// one kind claim by the same name may be there for one of them and not for another.
func hasVolumes(pod *corev1.Pod) bool {
	return len(pod.Spec.ResourceClaims) > 0 || slices.ContainsFunc(pod.Spec.Volumes, isClaimed)
}

func isClaimed(v corev1.Volume) bool { return v.PersistentVolumeClaim != nil || v.Ephemeral != nil }

// texts keeps what pods need, as long as they wait and do not change.
type texts struct{ now, before map[*corev1.Pod]string }

// begin begins a session, and forgets what the last one did not ask for.
func (t *texts) begin() { t.now, t.before = make(map[*corev1.Pod]string, len(t.now)), t.now }

// needsOf is what a pod needs, as a text.
func (w *wave) needsOf(job *api.JobInfo, task *api.TaskInfo) string {
	t := &w.action.texts
	text, known := t.now[task.Pod]
	if known {
		return text
	}
	if text, known = t.before[task.Pod]; !known {
		text = unique.Make(needsOf(job, task)).Value()
	}
	t.now[task.Pod] = text
	return text
}

func needsOf(job *api.JobInfo, task *api.TaskInfo) string {
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
	if a := spec.Affinity; a != nil && (a.PodAffinity != nil || a.PodAntiAffinity != nil) || len(n.Spread)+len(n.Volumes)+len(n.Claims) > 0 {
		n.Own = string(job.UID) + "/" + task.TaskRole
	}
	text, err := json.Marshal(n)
	if err != nil {
		return string(task.UID)
	}
	return string(text)
}

// nodesOf lists the nodes that a claim's pods could run on if there were room,
// in the order in which their card is preferred, then those most in use.
func (w *wave) nodesOf(c *claim) []int {
	key := w.kindOf(c)
	fitting, known := w.fitting[key]
	if !known {
		task := c.tasks[0]
		offering := w.offeringFor(key, task)
		w.ask(effortOfPredicate * len(offering))
		for _, i := range offering {
			if err := w.ssn.PredicateForPreemptAction(task, w.list[i]); err == nil && !w.keptOff(c, w.list[i]) {
				fitting = append(fitting, i)
			}
		}
		w.prefer(task, c.ask, fitting)
		w.fitting[key] = fitting
	}
	if len(c.excluded) == 0 {
		return fitting
	}
	return slices.DeleteFunc(slices.Clone(fitting), func(i int) bool { return c.excluded[i] })
}

// offeringFor lists the nodes that have what a pod asks for, in use or not, and a card
// that it may use, and notes that the search for its job looks at them. What a node does
// not have, nobody can give back there.
func (w *wave) offeringFor(key kind, task *api.TaskInfo) []int {
	offering, known := w.offering[key]
	if !known {
		w.ask(effortOfNode * len(w.list))
		for i, node := range w.list {
			if !task.InitResreq.LessEqual(node.Allocatable, api.Zero) || w.isOfOthers(node) {
				continue
			}
			if _, ok := w.tide.CardOn(task, node.Name); ok {
				offering = append(offering, i)
			}
		}
		w.offering[key] = offering
	}
	w.looked.note(key, task, offering)
	return offering
}

// isInShard reports whether this scheduler has a node for itself, with Volcano's option
// --scheduler-sharding-mode: nodes of others are only used last when that is soft.
func (w *wave) isInShard(node *api.NodeInfo) bool {
	mode := options.ServerOpts.ShardingMode
	return mode != util.HardShardingMode && mode != util.SoftShardingMode || w.ssn.NodesInShard.Has(node.Name)
}

// isOfOthers reports whether only other schedulers use a node.
func (w *wave) isOfOthers(node *api.NodeInfo) bool {
	return options.ServerOpts.ShardingMode == util.HardShardingMode && !w.isInShard(node)
}

// prefer sorts nodes by the order of the cards that the pod names, and nodes of
// one card by how much of it is in use, so that whole nodes stay free.
func (w *wave) prefer(task *api.TaskInfo, ask quota.Request, nodes []int) {
	resource := w.tide.Ask(task).Resource
	slices.SortStableFunc(nodes, func(a, b int) int {
		x, _ := w.tide.CardOn(task, w.list[a].Name)
		y, _ := w.tide.CardOn(task, w.list[b].Name)
		if by := slices.Index(ask.Names, x) - slices.Index(ask.Names, y); by != 0 {
			return by
		}
		if by := capacitycard.CompareBool(w.isInShard(w.list[b]), w.isInShard(w.list[a])); by != 0 {
			return by
		}
		return int(w.list[a].Idle.ScalarResources[resource] - w.list[b].Idle.ScalarResources[resource])
	})
}

// most is how many of a claim's pods a node takes, whatever its room.
func (c *claim) most(node int) int {
	if n, known := c.caps[node]; known {
		return n
	}
	switch {
	case c.alone:
		return 1
	case c.spread > 0:
		return c.spread
	}
	return math.MaxInt32
}

// spreadOf is how many such pods a node can take while others have none: the
// smallest skew of the pod's own spreading over nodes, 0 when it does not spread.
func spreadOf(pod *corev1.Pod) int {
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

// avoid notes that a node takes no more of a claim's pods. If it takes none, and
// the pods care for more of their surroundings than the node itself, it is left
// out with all nodes of the same surroundings, which are no better.
func (w *wave) avoid(u *unfit) {
	if u.beside > 0 {
		u.claim.caps[u.node] = u.beside
		return
	}
	u.claim.excluded[u.node] = true
	for _, key := range surroundings(u.claim.tasks[0].Pod) {
		value, known := w.list[u.node].Node.Labels[key]
		for _, i := range w.fitting[w.kindOf(u.claim)] {
			if other, has := w.list[i].Node.Labels[key]; known && has && other == value {
				u.claim.excluded[i] = true
			}
		}
	}
}

// keptOff reports whether a pod that stays on a node keeps a claim's pods off it, by a
// host port or by anti-affinity: whoever else goes, they cannot run there.
func (w *wave) keptOff(c *claim, node *api.NodeInfo) bool {
	by := c.tasks[0]
	if c.ask.Count == 0 { // its gang may take from others than it could itself
		return false
	}
	wants := portsOf(by.Pod)+termsOf(by.Pod) > 0
	for _, other := range node.Tasks {
		if !wants && termsOf(other.Pod) == 0 {
			continue
		}
		w.pair(by.Pod, other.Pod)
		if workload.ConflictOnNode(by.Pod, other.Pod) && other.Status != api.Releasing && !w.mayGoFor(by)[other.UID] {
			return true
		}
	}
	return false
}

// mayGoFor are the pods that may go for a pod that takes cards back.
func (w *wave) mayGoFor(by *api.TaskInfo) map[api.TaskID]bool {
	key := w.giverKey(by)
	if w.mayGo[key] == nil {
		pods := map[api.TaskID]bool{}
		for _, g := range w.giversFor(by) {
			for i, task := range g.tasks {
				pods[task.UID] = g.shape.Whole || !g.shape.Pods[i].Protected
			}
		}
		w.mayGo[key] = pods
	}
	return w.mayGo[key]
}

// surroundings lists the node labels, other than its name, by which a pod must
// be near to or far from others.
func surroundings(pod *corev1.Pod) []string {
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

// waitsFor tells that a pod cannot be on a node only because pods that are on their way
// out are still there or near, so that it waits for them: beside them it could not be, or
// there are as many pods as the node takes.
func (w *wave) waitsFor(c *claim, node *api.NodeInfo) bool {
	leaving := false
	for _, task := range w.onTheirWay {
		other, known := w.ssn.Nodes[task.NodeName]
		if !known || other.Node == nil || node.Node == nil {
			continue
		}
		leaving = leaving || other.Name == node.Name
		w.pair(c.tasks[0].Pod, task.Pod)
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
	return leaving && len(node.Tasks) >= node.Allocatable.MaxTaskNum
}
