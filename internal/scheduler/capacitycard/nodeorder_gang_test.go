package capacitycard

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/actions/allocate"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/framework"
	"volcano.sh/volcano/pkg/scheduler/plugins/capacity"

	"cardquota.dev/operator/internal/schedulerconfig"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/seed"
)

// scoring are the plugins of the shipped configuration that score nodes.
var scoring = []string{"drf", "predicates", "nodeorder", "binpack"}

// placeWith opens a session with a new scheduler cache on the objects of a scene. It runs Volcano's action allocate
// and returns the nodes of the placed pods by name. queuePlugin is this plugin or Volcano's capacity. morePlugins are
// loaded beside those of scoring.
func (s *scene) placeWith(queuePlugin string, morePlugins []string, args map[string]framework.Arguments) map[string]string {
	framework.RegisterPluginBuilder(capacity.PluginName, capacity.New)
	framework.RegisterPluginBuilder(schedulerconfig.CapacityCard, func(a framework.Arguments) framework.Plugin { return buildPlugin(NewCache(), a) })
	c := *s.Cluster
	c.Cache = nil
	c.Ssn = nil
	c.Open([][]string{{"priority", "gang", queuePlugin}, slices.Concat(scoring, morePlugins)}, args)
	defer c.Close()

	c.Run(allocate.New())
	nodes := map[string]string{}
	for _, job := range c.Ssn.Jobs {
		for _, task := range job.Tasks {
			if api.AllocatedStatus(task.Status) {
				nodes[task.Name] = task.NodeName
			}
		}
	}

	return nodes
}

// requestCPU sets how much CPU each pod of a job requests.
func (s *scene) requestCPU(job, cpu string) *scene {
	for _, pod := range s.Pods {
		if strings.HasPrefix(pod.Name, job+"-") {
			requests(corev1.ResourceCPU, cpu)(pod)
		}
	}
	return s
}

// changePodGroups changes every PodGroup of a scene.
func (s *scene) changePodGroups(change func(*v1beta1.PodGroup)) *scene {
	for _, group := range s.Groups {
		change(group)
	}
	return s
}

// TestOtherPluginsMayDecideBeforePacking: this plugin packs. It scores the node higher on which more cards are in
// use: n2 with 2 or 5 used cards, beside n1 with at most 1. The score of another plugin decides if its weight is high
// enough. Packing counts only a fifth where the pod, its task-topology annotations or the node groups of its queue
// prefer a node. In each row (want) pods get the nodes that they get with Volcano's plugin capacity, which scores no
// node. The last row has no score: packing does not change the order in which plugin drf serves jobs.
func TestOtherPluginsMayDecideBeforePacking(t *testing.T) {
	preferN1 := func(p *corev1.Pod) {
		if !strings.HasPrefix(p.Name, "j") {
			return
		}
		isN1 := corev1.NodeSelectorRequirement{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{"n1"}}
		p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{
				Weight: 100, Preference: corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{isN1}},
			}},
		}}
	}

	fleet := func(text string, changes ...func(*corev1.Pod)) *scene {
		return newScene(t, `queue q quota={"A":99} cpu=1000
			`+text, changes...)
	}
	// One card and 40 CPU are in use on n1, five cards on n2, and pod j-0 waits.
	cpuOnN1 := func() *scene {
		return fleet(`node n1,n2 model=A
			job a queue=q min=1 running=n1
			job b queue=q min=1 running=n2*5
			job j queue=q min=1 pending=1`).requestCPU("a", "40")
	}

	// n1 has less free CPU, so plugin capacity prefers n2 too.
	tasksApart := fleet(`node n1,n2 model=A
		job a queue=q min=1 running=n1 cards=0
		job b queue=q min=1 running=n2*2
		job j queue=q min=2 pending=2 task=w,pods:2,min:2`).requestCPU("a", "30").changePodGroups(func(group *v1beta1.PodGroup) {
		group.Annotations["volcano.sh/task-topology-anti-affinity"] = "w"
	})

	// Each node is a node group of its own name.
	groups := fleet(`node n1,n2 model=A
		job b queue=q min=1 running=n2*5
		job j queue=q min=1 pending=1`)
	for _, node := range groups.Nodes {
		node.Labels["volcano.sh/nodegroup-name"] = node.Name
	}
	groups.Queues[0].Spec.Affinity = &v1beta1.Affinity{NodeGroupAffinity: &v1beta1.NodeGroupAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: []string{"n1"}, PreferredDuringSchedulingIgnoredDuringExecution: []string{"n1", "n2"},
	}}

	for t, tc := range check.Cases(t, map[string]struct {
		scene       *scene
		morePlugins []string
		args        map[string]framework.Arguments
		want        string
		// wantShipped is where the pods are without morePlugins and args: with the shipped plugins and weights.
		wantShipped string
	}{
		"binpack, which packs CPU, has 20 times its weight: the node with more CPU in use": {
			scene: cpuOnN1(),
			args:  map[string]framework.Arguments{"binpack": {"binpack.weight": 20}},
			want:  "j-0@n1", wantShipped: "j-0@n2",
		},
		"packing of cards has a hundredth of its weight: the node with more CPU in use": {
			scene: cpuOnN1(),
			// The weight 1 of binpack is its default.
			args: map[string]framework.Arguments{"binpack": {"binpack.weight": 1}, schedulerconfig.CapacityCard: {"nodeOrderWeight": 0.01}},
			want: "j-0@n1", wantShipped: "j-0@n2",
		},
		"task-topology keeps the two pods of task w apart: two nodes": {
			scene:       tasksApart,
			morePlugins: []string{"task-topology"},
			args:        map[string]framework.Arguments{"task-topology": {"task-topology.weight": 20}},
			want:        "j-0@n2 j-1@n1", wantShipped: "j-0@n2 j-1@n2",
		},
		"node group n1, which the queue requires, scores higher than n2, which it only prefers; packing counts a fifth: n1": {
			scene:       groups,
			morePlugins: []string{"nodegroup"},
			want:        "j-0@n1", wantShipped: "j-0@n2",
		},
		"the pod itself prefers n1, which leaves packing a fifth of its weight: n1": {
			scene: fleet(`node n1,n2 model=A
				job b queue=q min=1 running=n2*5
				job j queue=q min=1 pending=1`, preferN1),
			want: "j-0@n1", wantShipped: "j-0@n1",
		},
		"drf serves the job with fewer cards first: the last card goes to e, which has 1, not to d with 3": {
			scene: fleet(`node n model=A cards=5
				job d queue=q min=1 running=n*3 pending=1
				job e queue=q min=1 running=n pending=1`),
			want: "e-1@n", wantShipped: "e-1@n",
		},
	}) {
		s := tc.scene
		check.Equal(t, "placed with capacity", tc.want, newlyPlaced(s, s.placeWith(capacity.PluginName, tc.morePlugins, tc.args)))
		check.Equal(t, "placed with capacity-card", tc.want, newlyPlaced(s, s.placeWith(schedulerconfig.CapacityCard, tc.morePlugins, tc.args)))
		check.Equal(t, "placed with the shipped plugins and weights", tc.wantShipped, newlyPlaced(s, s.placeWith(schedulerconfig.CapacityCard, nil, nil)))
	}
}

// newlyPlaced writes where pods are that had no node in the scene, as "pod@node".
func newlyPlaced(s *scene, nodes map[string]string) string {
	var words []string
	for _, pod := range s.Pods {
		if node := nodes[pod.Name]; node != "" && pod.Spec.NodeName == "" {
			words = append(words, pod.Name+"@"+node)
		}
	}
	slices.Sort(words)
	return strings.Join(words, " ")
}

// TestGangThatFitsOneNodeIsNotSplit draws 150 fleets of 2 to 8 nodes on which cards and CPU are in use. A gang j of 2
// to 7 pods waits. Pods of a gang talk to each other, which is fastest on one node. So all of them are on one node if
// one has enough cards, CPU and memory for the gang. More than 20 draws have such a node.
func TestGangThatFitsOneNodeIsNotSplit(t *testing.T) {
	random := seed.Rand(t)
	gangsThatFit := 0
	for range 150 {
		s := newScene(t, `queue q quota={"A":999,"B":999} cpu=100000`)
		for i := range 2 + random.IntN(7) {
			total := []int{4, 8, 8, 16}[random.IntN(4)]
			s.addObjects(fmt.Sprintf("node n%d model=A cards=%d", i, total))
			if used := random.IntN(total + 1); used > 0 {
				s.addObjects(fmt.Sprintf("job r%d queue=q min=1 running=n%d cards=%d", i, i, used)).
					requestCPU(fmt.Sprintf("r%d", i), fmt.Sprint(1+random.IntN(40)))
			}
			s.addObjects(fmt.Sprintf("job c%d queue=q min=1 running=n%d cards=0", i, i)).
				requestCPU(fmt.Sprintf("c%d", i), fmt.Sprint(1+random.IntN(20)))
		}

		gang := 2 + random.IntN(6)
		s.addObjects(fmt.Sprintf("job j queue=q min=%d pending=%d cards=%d", gang, gang, 1+random.IntN(4))).
			requestCPU("j", fmt.Sprint(1+random.IntN(6)))
		varyRequests(s, random) // in every second fleet the pods of j differ in cards

		sufficient := nodesThatFit(s)
		placed := s.placeWith(schedulerconfig.CapacityCard, nil, nil)
		if len(sufficient) == 0 {
			continue
		}

		gangsThatFit++
		nodes := map[string]bool{}
		for i := range gang {
			nodes[placed[fmt.Sprint("j-", i)]] = true
		}
		node := slices.Collect(maps.Keys(nodes))[0]
		check.Must(t, len(nodes) == 1 && slices.Contains(sufficient, node),
			"the gang is on %v, all of it fits on each of %v\n%s", nodes, sufficient, describe(s))
	}

	check.That(t, gangsThatFit > 20, "only %d of 150 gangs fit one node", gangsThatFit)
}

// TestPackingLeavesSpaceForTheWaitingPodsOfTheGang: a node scores higher if the pods that the gang still lacks for
// its minimum fit there too. The test shows which pods count, and what they need. Job r uses 4 of the 8 cards of n1,
// so packing alone prefers n1. n2 has 8 free cards.
func TestPackingLeavesSpaceForTheWaitingPodsOfTheGang(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		scene  string
		change func(*corev1.Pod)
		want   string
	}{
		"an elastic job: only the 2 pods of its minimum count, and their 4 cards fit on n1": {
			scene: `node n1,n2 model=A
				job r queue=q min=1 running=n1*4
				job j queue=q min=2 pending=4 cards=2`,
			want: "j-0@n1 j-1@n1 j-2@n2 j-3@n2",
		},
		"j-2 and j-3 may only use card B: they do not count on n1, so j-0 and j-1 fit there": {
			scene: `node n1,n2 model=A
				node n3 model=B
				job r queue=q min=1 running=n1*4
				job j queue=q min=4 pending=4 cards=2`,
			change: func(p *corev1.Pod) {
				if p.Name == "j-2" || p.Name == "j-3" {
					p.Annotations["volcano.sh/card.name"] = "B"
				}
			},
			want: "j-0@n1 j-1@n1 j-2@n3 j-3@n3",
		},
		"init containers of 10 CPU count: two pods do not fit beside 54 of 64 CPU on n1": {
			scene: `node n1,n2 model=A
				job r queue=q min=1 running=n1 cards=4
				job j queue=q min=2 pending=2 cards=2`,
			change: func(p *corev1.Pod) {
				if p.Name == "r-0" {
					requests(corev1.ResourceCPU, "54")(p)
					return
				}
				needs := corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("10")}}
				p.Spec.InitContainers = []corev1.Container{{Name: "init", Resources: needs}}
			},
			want: "j-0@n2 j-1@n2",
		},
		"a host port keeps the pods off each other's node: the second pod does not count, so j-0 fits on n1": {
			scene: `node n1,n2 model=A
				job r queue=q min=1 running=n1*4
				job j queue=q min=2 pending=2 cards=4`,
			change: func(p *corev1.Pod) {
				if p.Name[0] == 'j' {
					p.Spec.Containers[0].Ports = []corev1.ContainerPort{{HostPort: 80}}
				}
			},
			want: "j-0@n1 j-1@n2",
		},
	}) {
		s := newScene(t, `queue q quota={"A":99,"B":99} cpu=1000
			`+tc.scene, tc.change)

		check.Equal(t, "placed", tc.want, newlyPlaced(s, s.placeWith(schedulerconfig.CapacityCard, nil, nil)))
	}
}

// TestFirstAlternativeIsPreferred draws 100 fleets of nodes with card A or B, and a pod that accepts both in this
// order, "A|B". The order is the user's wish, so no score of another plugin beats it, not even one of 1000 times the
// usual weight. The pod is on an A if any node has 2 free ones, else on a B; node z always has 8 free.
func TestFirstAlternativeIsPreferred(t *testing.T) {
	random := seed.Rand(t)
	heavy := map[string]framework.Arguments{"binpack": {"binpack.weight": 1000}, "nodeorder": {"leastrequested.weight": 1000 * random.IntN(2)}}
	drawn := map[bool]int{}
	for range 100 {
		s := newScene(t, `queue q quota={"A":999,"B":999} cpu=100000`)
		firstFits := false
		for i := range 2 + random.IntN(5) {
			model := []string{"A", "B"}[random.IntN(2)]
			used := 5 + random.IntN(4)
			s.addObjects(fmt.Sprintf(`node n%d model=%s
				job r%d queue=q min=1 running=n%d cards=%d card=%s`, i, model, i, i, used, model)).
				requestCPU(fmt.Sprint("r", i), fmt.Sprint(1+random.IntN(62)))
			firstFits = firstFits || (model == "A" && used <= 8-2)
		}

		s.addObjects(`node z model=B
			job j queue=q min=1 pending=1 cards=2 card=A|B`)
		node := s.placeWith(schedulerconfig.CapacityCard, nil, heavy)["j-0"]
		check.Must(t, node != "", "the pod is not placed\n%s", describe(s))
		isFirst := s.node(node).Labels["nvidia.com/gpu.product"] == "A"
		check.Must(t, isFirst == firstFits, "the pod is on %q, a node has two free A: %v\n%s", node, firstFits, describe(s))
		drawn[isFirst]++
	}

	check.That(t, drawn[true] > 0 && drawn[false] > 0, "only one outcome was drawn: %v", drawn)
}

// node finds a node by its name.
func (s *scene) node(name string) *corev1.Node {
	return s.Nodes[slices.IndexFunc(s.Nodes, func(node *corev1.Node) bool { return node.Name == name })]
}

// TestGangsStayTogetherAlthoughNodesAreSampled: of 400 nodes Volcano looks at a random sample for each pod. So the node
// of a gang's first pod may be missing in the sample of the next. This plugin adds that node to the sample, so gangs j0
// to j3 of four pods with 2 cards are each on one node. If the pods prefer to be apart, and that preference has a high
// weight, each pod is on a node of its own. About every eighth node has one free card, the others have eight.
func TestGangsStayTogetherAlthoughNodesAreSampled(t *testing.T) {
	preferApart := func(p *corev1.Pod) {
		p.Labels["gang"] = p.Annotations["scheduling.k8s.io/group-name"]
		sameGang := &metav1.LabelSelector{MatchLabels: map[string]string{"gang": p.Labels["gang"]}}
		p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
			PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{
				Weight: 100, PodAffinityTerm: corev1.PodAffinityTerm{TopologyKey: corev1.LabelHostname, LabelSelector: sameGang},
			}},
		}}
	}

	for t, tc := range check.Cases(t, map[string]struct {
		change    func(*corev1.Pod)
		args      map[string]framework.Arguments
		wantNodes int // of each gang
	}{
		"pods without preferences: one node a gang": {wantNodes: 1},
		"pods prefer to be apart, with 50 times the usual weight: four nodes a gang": {
			change: preferApart, args: map[string]framework.Arguments{"nodeorder": {"podaffinity.weight": 50}}, wantNodes: 4,
		},
	}) {
		random := seed.Rand(t)
		s := newScene(t, `queue q quota={"A":9999} cpu=100000`)
		for i := range 400 {
			s.addObjects(fmt.Sprintf("node n%d model=A", i))
			if random.IntN(8) == 0 {
				s.addObjects(fmt.Sprintf("job r%d queue=q min=1 running=n%d cards=7", i, i))
			}
		}
		for gang := range 4 {
			s.addObjects(fmt.Sprintf("job j%d queue=q min=4 pending=4 cards=2", gang), tc.change)
		}

		placed := s.placeWith(schedulerconfig.CapacityCard, nil, tc.args)
		for gang := range 4 {
			nodes := map[string]bool{}
			for pod := range 4 {
				nodes[placed[fmt.Sprintf("j%d-%d", gang, pod)]] = true
			}
			check.That(t, len(nodes) == tc.wantNodes && !nodes[""], "gang j%d is on %v, want %d nodes", gang, nodes, tc.wantNodes)
		}
	}
}

// TestDefaultWeightPacks places 14 gangs and single pods on 20 nodes, ten times. Each node has a pod that uses only CPU
// (c0 to c19), and about every third one has a pod with cards (r0 to r19). Volcano's own scores prefer empty nodes. The default nodeOrderWeight of 1 outweighs them. It leaves at least 95 % as many nodes unused as a weight of
// 1000, and more than 1.5 times as many as a weight of 0.001. A node is unused while no card of it is in use. Such nodes
// are what the next large gang needs.
func TestDefaultWeightPacks(t *testing.T) {
	random := seed.Rand(t)
	unused := map[float64]int{}
	for range 10 {
		s := newScene(t, `queue q quota={"A":999} cpu=100000`)
		for i := range 20 {
			s.addObjects(fmt.Sprintf(`node n%d model=A
				job c%d queue=q min=1 running=n%d cards=0`, i, i, i)).
				requestCPU(fmt.Sprintf("c%d", i), fmt.Sprint(1+random.IntN(30)))
			if random.IntN(3) == 0 {
				s.addObjects(fmt.Sprintf("job r%d queue=q min=1 running=n%d cards=%d", i, i, 1+random.IntN(7)))
			}
		}

		for i := range 14 {
			name := fmt.Sprint("j", i)
			pods := "min=1 pending=1"
			cards := 1 + random.IntN(4)
			if i%3 == 0 {
				pods = "min=4 pending=4"
				cards = 1 + random.IntN(2)
			}
			s.addObjects(fmt.Sprintf("job %s queue=q %s cards=%d", name, pods, cards)).requestCPU(name, fmt.Sprint(1+random.IntN(4)))
		}

		for _, weight := range []float64{0.001, 1, 1000} {
			used := map[string]bool{}
			for pod, node := range s.placeWith(schedulerconfig.CapacityCard, nil, map[string]framework.Arguments{schedulerconfig.CapacityCard: {"nodeOrderWeight": weight}}) {
				if !strings.HasPrefix(pod, "c") {
					used[node] = true
				}
			}
			unused[weight] += len(s.Nodes) - len(used)
		}
	}

	t.Logf("nodes without a used card, of 200, by weight: %v", unused)
	check.That(t, float64(unused[1]) >= 0.95*float64(unused[1000]),
		"of 200 nodes are unused, by weight: %v, want about as many at 1 as at 1000", unused)
	check.That(t, unused[1] > 3*unused[0.001]/2, "of 200 nodes are unused, by weight: %v, want half as many more at 1 than at 0.001", unused)
}

// varyRequests has the pods of job j request different numbers of cards, in every second draw.
func varyRequests(s *scene, random *rand.Rand) {
	if random.IntN(2) == 0 {
		return
	}
	for _, pod := range s.Pods {
		if strings.HasPrefix(pod.Name, "j-") {
			cards := resource.MustParse(fmt.Sprint(1 + random.IntN(4)))
			pod.Spec.Containers[0].Resources.Requests[gpu] = cards
			pod.Spec.Containers[0].Resources.Limits[gpu] = cards
		}
	}
}

// nodesThatFit are the nodes on which all waiting pods fit together, by a plain sum.
func nodesThatFit(s *scene) []string {
	var names []string
	for _, node := range s.Nodes {
		fits := true
		for _, name := range []corev1.ResourceName{gpu, corev1.ResourceCPU, corev1.ResourceMemory} {
			left := node.Status.Allocatable[name].DeepCopy()
			for _, pod := range s.Pods {
				if pod.Spec.NodeName == node.Name || pod.Spec.NodeName == "" {
					left.Sub(pod.Spec.Containers[0].Resources.Requests[name])
				}
			}
			fits = fits && left.Sign() >= 0
		}

		if fits {
			names = append(names, node.Name)
		}
	}

	return names
}

// describe writes what nodes have and pods request.
func describe(s *scene) string {
	var lines []string
	for _, node := range s.Nodes {
		lines = append(lines, fmt.Sprint(node.Name, " ", node.Status.Allocatable[gpu]))
	}
	for _, pod := range s.Pods {
		lines = append(lines, fmt.Sprint(pod.Name, " on ", pod.Spec.NodeName, " ", pod.Spec.Containers[0].Resources.Requests))
	}
	return strings.Join(lines, "\n")
}
