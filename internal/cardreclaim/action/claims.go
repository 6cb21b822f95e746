package action

import (
	"encoding/json"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/account"
	"cardquota.dev/operator/internal/decision"
)

// claim is a group of pods of one job that need the same.
type claim struct {
	tasks []*api.TaskInfo
	needs string
	ask   account.Ask
	// alone tells that a node takes only one of them, and none beside its like.
	alone bool
	// spread is how many of them one node may take at least, 0 for any number.
	spread int
	// excluded are nodes that turned out not to fit, caps is how many of them a
	// node turned out to take.
	excluded map[int]bool
	caps     map[int]int
}

// claimsOf groups pods by what they need, in their order, as far as the CPU and
// memory of their queue go; those that fit nowhere are left out. It is false when
// nobody is left, when all are to be placed and not all can be tried, and when no
// more may go into the job.
func (w *wave) claimsOf(job *api.JobInfo, tasks []*api.TaskInfo, all bool) ([]*claim, bool) {
	var claims []*claim
	byNeeds := map[string]*claim{}
	var milliCPU, memory int64
	for _, task := range tasks {
		if w.spend(effortOfTask); w.exhausted() {
			return nil, false
		}
		if err := w.ssn.PrePredicateFn(task); err != nil {
			klog.V(4).InfoS("A pod fits nowhere, no cards are taken back for it", "pod", klog.KObj(task.Pod), "err", err)
			if all {
				return nil, false
			}
			continue
		}
		ask := w.tide.Ask(task)
		milliCPU, memory = account.Sum(milliCPU, ask.MilliCPU), account.Sum(memory, ask.Memory)
		if !w.tide.FitsCPUMemory(job.Queue, milliCPU, memory) {
			if all {
				return nil, false
			}
			break
		}
		needs := w.needsOf(job, task)
		c, known := byNeeds[needs]
		if !known {
			c = &claim{needs: needs, ask: ask, alone: decision.KeepApart(task.Pod, task.Pod), spread: spreadOf(task.Pod), excluded: map[int]bool{}, caps: map[int]int{}}
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

// needsOf is what a pod needs, as a text.
func (w *wave) needsOf(job *api.JobInfo, task *api.TaskInfo) string {
	text, known := w.needs[task]
	if !known {
		text = needsOf(job, task)
		w.needs[task] = text
	}
	return text
}

func needsOf(job *api.JobInfo, task *api.TaskInfo) string {
	spec := &task.Pod.Spec
	n := needs{
		Resources: task.InitResreq.String(), Card: task.Pod.Annotations[v1alpha1.AnnotationCardName],
		Selector: spec.NodeSelector, Affinity: spec.Affinity, Tolerations: spec.Tolerations,
		Spread: spec.TopologySpreadConstraints, Claims: spec.ResourceClaims, Ports: decision.HostPorts(spec), Zone: task.RevocableZone,
	}
	if task.NumaInfo != nil {
		n.NUMA = task.NumaInfo.Policy
	}
	for _, volume := range spec.Volumes {
		if volume.PersistentVolumeClaim != nil || volume.Ephemeral != nil {
			n.Volumes = append(n.Volumes, volume)
		}
	}
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
		w.spend(effortOfPredicate * len(w.list))
		for i, node := range w.list {
			if !offers(node, task) {
				continue
			}
			if _, ok := w.tide.CardOn(task, node.Name); !ok {
				continue
			}
			if err := w.ssn.PredicateForPreemptAction(task, node); err == nil && !w.keptOff(c, node) {
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

// offers tells that a node has every kind of resource that a pod asks for, in use
// or not.
func offers(node *api.NodeInfo, task *api.TaskInfo) bool {
	for name, quantity := range task.InitResreq.ScalarResources {
		if quantity > 0 && !api.IsIgnoredScalarResource(name) && node.Allocatable.ScalarResources[name] == 0 {
			return false
		}
	}
	return true
}

// prefer sorts nodes by the order of the cards that the pod names, and nodes of
// one card by how much of it is in use, so that whole nodes stay free.
func (w *wave) prefer(task *api.TaskInfo, ask account.Ask, nodes []int) {
	resource := w.tide.Resource(task)
	slices.SortStableFunc(nodes, func(a, b int) int {
		x, _ := w.tide.CardOn(task, w.list[a].Name)
		y, _ := w.tide.CardOn(task, w.list[b].Name)
		if by := slices.Index(ask.Names, x) - slices.Index(ask.Names, y); by != 0 {
			return by
		}
		return int(w.list[a].Idle.ScalarResources[resource] - w.list[b].Idle.ScalarResources[resource])
	})
}
