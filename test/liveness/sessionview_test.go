package liveness

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"volcano.sh/apis/pkg/apis/scheduling"
	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/internal/testing/session"
	"cardquota.dev/operator/test/observer/rule"
)

// sessionView is a recount of the session's state.
type sessionView struct {
	nodes  []*nodeView
	queues map[string]*queue
	groups []*group
	// tree is the tree of queues, nil while they are flat. rareBorrowers are those that borrow rarely.
	tree          *rule.Tree
	rareBorrowers map[string]bool
	// isHeld are the queues that a stop policy holds.
	isHeld map[string]bool
	// releases reports whether some pod is releasing.
	releases bool
}

// nodeView is a node with its free resources.
type nodeView struct {
	name   string
	card   string
	cards  int
	cpu    int64
	closed bool
	// down reports whether its kubelet does not run, total is how many cards it has.
	down    bool
	total   int
	tainted bool
	// apart are the groups of pods there with anti-affinity to each other.
	apart map[string]int
	// releasing are the pods there that were evicted and still use their cards.
	releasing []*pod
}

type queue struct {
	priority int32
	kind     string
	gives    bool
	// free is the unused part of its quota by card, quota all of it.
	free, quota map[string]int
}

// group is a PodGroup with its pods.
type group struct {
	name, queue          string
	min                  int
	phase                scheduling.PodGroupPhase
	priority             int32
	waiting, placed      []*pod
	releasing, pipelined []*pod
	isProtected, strange bool
	// isVCJob reports whether a Volcano job owns it.
	isVCJob bool
}

// pod is the recount of a pod.
type pod struct {
	name, group, node string
	uid               string
	cards             int
	names             []string // of cards, empty for any
	cpu               int64
	isMIG             bool
	tolerates, apart  bool
	// rank is its task priority.
	rank   int
	object *corev1.Pod
}

// recount recounts the session.
func (w *sequenceRun) recount() *sessionView {
	v := &sessionView{queues: map[string]*queue{}, isHeld: map[string]bool{}}
	all := rule.NewTree(w.queueObjects, rule.UnmanagedEnforce)
	for name := range w.queueObjects {
		q := all.Queue(name)
		v.isHeld[name] = q != nil && q.Stop != ""
	}

	if w.isTree {
		v.tree = all
		v.rareBorrowers = w.rareBorrowers(v.tree)
	}

	byName := map[string]*nodeView{}
	for _, n := range w.ssn.Nodes {
		p := &nodeView{name: n.Name, card: n.Node.Labels["nvidia.com/gpu.product"], closed: n.Node.Spec.Unschedulable, down: w.down[n.Name], tainted: len(n.Node.Spec.Taints) > 0, apart: map[string]int{}}
		gpus := n.Node.Status.Allocatable[session.GPU]
		slices := n.Node.Status.Allocatable[slice]
		cpu := n.Node.Status.Allocatable["cpu"]

		p.cards = int(gpus.Value() + slices.Value())
		p.cpu = cpu.MilliValue()
		p.total = p.cards
		if slices.Value() > 0 {
			p.card += "/mig-1g.18gb-mixed"
		}

		byName[n.Name] = p
		v.nodes = append(v.nodes, p)
		for _, task := range n.Tasks {
			of := readPod(task.Pod)
			p.addPod(of)
			if task.Status == api.Releasing {
				p.releasing = append(p.releasing, of)
				v.releases = true
			}
		}
	}

	slices.SortFunc(v.nodes, func(a, b *nodeView) int { return strings.Compare(a.name, b.name) })
	for _, q := range w.ssn.Queues {
		of := &queue{priority: q.Queue.Spec.Priority, kind: q.Queue.Annotations["volcano.sh/service.type"], gives: q.Reclaimable(), free: map[string]int{}, quota: map[string]int{}}
		if text := q.Queue.Annotations["volcano.sh/card.quota"]; text != "" {
			utilruntime.Must(json.Unmarshal([]byte(text), &of.quota))
		}

		of.free = maps.Clone(of.quota)
		v.queues[q.Name] = of
	}

	for _, j := range w.ssn.Jobs {
		v.groups = append(v.groups, v.groupOf(j, byName))
	}

	slices.SortFunc(v.groups, func(a, b *group) int { return strings.Compare(a.name, b.name) })
	return v
}

// groupOf recounts a job and charges it to its queue.
func (v *sessionView) groupOf(j *api.JobInfo, nodes map[string]*nodeView) *group {
	g := &group{name: j.Name, queue: string(j.Queue), min: int(j.PodGroup.Spec.MinMember), phase: j.PodGroup.Status.Phase, priority: j.Priority}
	for _, task := range j.Tasks {
		p := readPod(task.Pod)
		p.group = j.Name
		p.node = task.NodeName

		g.isVCJob = g.isVCJob || len(task.Pod.OwnerReferences) > 0
		g.isProtected = g.isProtected || task.Pod.Annotations["volcano.sh/preemptable"] == "false"
		switch task.Status {
		case api.Pending:
			p.node = ""
			g.waiting = append(g.waiting, p)
			continue
		case api.Running, api.Bound, api.Binding, api.Allocated:
			g.placed = append(g.placed, p)
		case api.Releasing:
			g.releasing = append(g.releasing, p)
		case api.Pipelined:
			g.pipelined = append(g.pipelined, p)
			continue
		default:
			g.strange = true
			continue
		}

		// An evicted pod that is not terminating yet may stay.
		if n := nodes[p.node]; n != nil && task.Pod.DeletionTimestamp == nil && p.cards > 0 {
			v.queues[g.queue].free[n.card] -= p.cards
		}
	}

	for _, pods := range [][]*pod{g.waiting, g.placed, g.releasing, g.pipelined} {
		slices.SortFunc(pods, func(a, b *pod) int { return cmp.Or(len(a.name)-len(b.name), strings.Compare(a.name, b.name)) })
	}

	return g
}

// readPod reads a pod.
func readPod(object *corev1.Pod) *pod {
	requests := object.Spec.Containers[0].Resources.Requests
	gpus := requests[session.GPU]
	mig := requests[slice]
	cpu := requests["cpu"]
	p := &pod{
		name: object.Name, uid: string(object.UID), cards: int(gpus.Value() + mig.Value()), cpu: cpu.MilliValue(), isMIG: mig.Value() > 0,
		tolerates: len(object.Spec.Tolerations) > 0, apart: object.Spec.Affinity != nil, object: object,
		group: object.Annotations["scheduling.k8s.io/group-name"],
	}

	if text := object.Annotations["volcano.sh/task-priority"]; text != "" {
		p.rank = mustParseInt(text)
	}
	if text := object.Annotations["volcano.sh/card.name"]; text != "" {
		p.names = strings.Split(text, "|")
	}

	return p
}

// addPod adds a pod to a node.
func (n *nodeView) addPod(p *pod) {
	n.cards -= p.cards
	n.cpu -= p.cpu
	if p.apart {
		n.apart[p.group]++
	}
}

func (n *nodeView) removePod(p *pod) {
	n.cards += p.cards
	n.cpu += p.cpu
	if p.apart {
		n.apart[p.group]--
	}
}
