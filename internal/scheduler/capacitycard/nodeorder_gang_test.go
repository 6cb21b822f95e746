package capacitycard

import (
	"cmp"
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

	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/seed"
)

// scoring are the plugins of the shipped configuration that score nodes.
var scoring = []string{"drf", "predicates", "nodeorder", "binpack"}

// placeWith runs the action allocate on a cluster of its own with the objects of a scene, with
// this plugin or with Volcano's capacity, and returns where pods are.
func (s *scene) placeWith(queuePlugin string, more []string, args map[string]framework.Arguments) map[string]string {
	framework.RegisterPluginBuilder(capacity.PluginName, capacity.New)
	framework.RegisterPluginBuilder(PluginName, func(a framework.Arguments) framework.Plugin { return buildPlugin(NewCache(), a) })
	c := *s.Cluster
	c.Cache = nil
	c.Ssn = nil
	c.Open([][]string{{"priority", "gang", queuePlugin}, slices.Concat(scoring, more)}, args)
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

// requestCPU sets what the pods of a job ask for of CPU.
func (s *scene) requestCPU(job, cpu string) *scene {
	for _, pod := range s.Pods {
		if strings.HasPrefix(pod.Name, job+"-") {
			requests(corev1.ResourceCPU, cpu)(pod)
		}
	}
	return s
}

// changePodGroups changes every PodGroup.
func (s *scene) changePodGroups(change func(*v1beta1.PodGroup)) *scene {
	for _, group := range s.Groups {
		change(group)
	}
	return s
}

// nodeGroups makes each node a group of its own name, and has the queue q use the nodes n1 and
// n2, n1 rather than n2.
func (s *scene) nodeGroups() *scene {
	for _, node := range s.Nodes {
		node.Labels["volcano.sh/nodegroup-name"] = node.Name
	}
	return s.changeQueue("q", func(q *v1beta1.Queue) {
		q.Spec.Affinity = &v1beta1.Affinity{NodeGroupAffinity: &v1beta1.NodeGroupAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []string{"n1"}, PreferredDuringSchedulingIgnoredDuringExecution: []string{"n1", "n2"},
		}}
	})
}

// TestHeavierScoresOfVolcanoDecide places the same pods with capacity and with this
// plugin. Each scene has one answer with capacity, and another one where packing decides.
func TestHeavierScoresOfVolcanoDecide(t *testing.T) {
	arguments := func(plugin, argument string, value any) map[string]framework.Arguments {
		return map[string]framework.Arguments{plugin: {argument: value}}
	}
	preferring := func(nodes ...string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			if !strings.HasPrefix(p.Name, "j") {
				return
			}
			p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{
				Weight: 100, Preference: corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: nodes}}},
			}}}}
		}
	}

	fleet := func(text string, changes ...func(*corev1.Pod)) *scene {
		return newScene(t, `queue q quota={"A":99} cpu=1000; `+text, changes...)
	}

	for t, tc := range check.Cases(t, map[string]struct {
		scene *scene
		more  []string
		args  map[string]framework.Arguments
		want  string
		// packed is where pods are with the shipped plugins and weights, "" when there too.
		packed string
	}{
		"binpack by CPU": {
			scene: fleet("node n1,n2 model=A; job a queue=q min=1 running=n1; job b queue=q min=1 running=n2*5; job j queue=q min=1 pending=1").requestCPU("a", "40"),
			args:  arguments("binpack", "binpack.weight", 20), want: "j-0@n1", packed: "j-0@n2",
		},
		"binpack by another weight of packing": {
			scene: fleet("node n1,n2 model=A; job a queue=q min=1 running=n1; job b queue=q min=1 running=n2*5; job j queue=q min=1 pending=1").requestCPU("a", "40"),
			args:  map[string]framework.Arguments{"binpack": {"binpack.weight": 1}, PluginName: {"nodeOrderWeight": 0.01}}, want: "j-0@n1", packed: "j-0@n2",
		},
		"task-topology keeps tasks apart": {
			scene: fleet("node n1,n2 model=A; job a queue=q min=1 running=n1 cards=0; job b queue=q min=1 running=n2*2; job j queue=q min=2 pending=2 task=w,pods:2,min:2").requestCPU("a", "30").changePodGroups(func(g *v1beta1.PodGroup) {
				g.Annotations["volcano.sh/task-topology-anti-affinity"] = "w"
			}),
			more: []string{"task-topology"}, args: arguments("task-topology", "task-topology.weight", 20), want: "j-0@n2 j-1@n1", packed: "j-0@n2 j-1@n2",
		},
		"nodegroup": {
			scene: fleet("node n1,n2 model=A; job b queue=q min=1 running=n2*5; job j queue=q min=1 pending=1").nodeGroups(),
			more:  []string{"nodegroup"}, want: "j-0@n1", packed: "j-0@n2",
		},
		"a preferred node": {
			scene: fleet("node n1,n2 model=A; job b queue=q min=1 running=n2*5; job j queue=q min=1 pending=1", preferring("n1")), want: "j-0@n1",
		},
		"drf: the job with the smaller share goes first": {
			scene: fleet("node n model=A cards=5; job d queue=q min=1 running=n*3 pending=1; job e queue=q min=1 running=n pending=1"),
			want:  "e-1@n",
		},
	}) {
		s := tc.scene
		check.Equal(t, "with capacity", tc.want, newlyPlaced(s, s.placeWith(capacity.PluginName, tc.more, tc.args)))
		check.Equal(t, "with capacity-card", tc.want, newlyPlaced(s, s.placeWith(PluginName, tc.more, tc.args)))
		check.Equal(t, "with the shipped weights", cmp.Or(tc.packed, tc.want), newlyPlaced(s, s.placeWith(PluginName, nil, nil)))
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

// TestGangThatFitsOneNodeIsNotSplit draws fleets that are in use, of CPU as well, and a gang.
// With the shipped scores the gang is on one node if there is one on which all of it fits.
func TestGangThatFitsOneNodeIsNotSplit(t *testing.T) {
	random := seed.Rand(t)
	fits := 0
	for range 150 {
		s := newScene(t, `queue q quota={"A":999,"B":999} cpu=100000`)
		for i := range 2 + random.IntN(7) {
			total := []int{4, 8, 8, 16}[random.IntN(4)]
			s.addObjects(fmt.Sprintf("node n%d model=A cards=%d", i, total))
			if used := random.IntN(total + 1); used > 0 {
				s.addObjects(fmt.Sprintf("job r%d queue=q min=1 running=n%d cards=%d", i, i, used)).requestCPU(fmt.Sprintf("r%d", i), fmt.Sprint(1+random.IntN(40)))
			}
			s.addObjects(fmt.Sprintf("job c%d queue=q min=1 running=n%d cards=0", i, i)).requestCPU(fmt.Sprintf("c%d", i), fmt.Sprint(1+random.IntN(20)))
		}

		gang := 2 + random.IntN(6)
		s.addObjects(fmt.Sprintf("job j queue=q min=%d pending=%d cards=%d", gang, gang, 1+random.IntN(4))).requestCPU("j", fmt.Sprint(1+random.IntN(6)))
		varyRequests(s, random)

		kept := nodesThatFit(s)
		placed := s.placeWith(PluginName, nil, nil)
		own := map[string]bool{}
		for i := range gang {
			own[placed[fmt.Sprint("j-", i)]] = true
		}

		if len(kept) == 0 {
			continue
		}

		fits++
		node := slices.Collect(maps.Keys(own))[0]
		check.Must(t, len(own) == 1 && slices.Contains(kept, node), "the gang is on %v, all of it fits on each of %v\n%s", own, kept, describe(s))
	}

	check.That(t, fits > 20, "only %d gangs fit a node", fits)
}

// TestGangRest: which pods of a job are counted as the rest that is to be on one
// node, and what they need.
func TestGangRest(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		text   string
		change func(*corev1.Pod)
		want   string
	}{
		"the minimum of an elastic job": {"node n1,n2 model=A; job r queue=q min=1 running=n1*4; job j queue=q min=2 pending=4 cards=2", nil, "j-0@n1 j-1@n1 j-2@n2 j-3@n2"},
		"pods that may be on the same card": {"node n1,n2 model=A; node n3 model=B; job r queue=q min=1 running=n1*4; job j queue=q min=4 pending=4 cards=2", func(p *corev1.Pod) {
			if p.Name == "j-2" || p.Name == "j-3" {
				p.Annotations["volcano.sh/card.name"] = "B"
			}
		}, "j-0@n1 j-1@n1 j-2@n3 j-3@n3"},
		"CPU, that of init containers too": {"node n1,n2 model=A; job r queue=q min=1 running=n1 cards=4; job j queue=q min=2 pending=2 cards=2", func(p *corev1.Pod) {
			if p.Name == "r-0" {
				p.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("54")
				return
			}
			p.Spec.InitContainers = []corev1.Container{{Name: "init", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("10")}}}}
		}, "j-0@n2 j-1@n2"},
		"no pods that share no node": {"node n1,n2 model=A; job r queue=q min=1 running=n1*4; job j queue=q min=2 pending=2 cards=4", func(p *corev1.Pod) {
			p.Spec.Containers[0].Ports = []corev1.ContainerPort{{HostPort: 80}}
			if p.Name[0] == 'r' {
				p.Spec.Containers[0].Ports = nil
			}
		}, "j-0@n1 j-1@n2"},
	}) {
		s := newScene(t, `queue q quota={"A":99,"B":99} cpu=1000; `+tc.text, tc.change)

		check.Equal(t, "placed", tc.want, newlyPlaced(s, s.placeWith(PluginName, nil, nil)))
	}
}

// TestFirstAlternativeIsPreferred draws fleets of two cards and a pod that names both. It is on the
// first one if any node with it has room, whatever other plugins score.
func TestFirstAlternativeIsPreferred(t *testing.T) {
	random := seed.Rand(t)
	heavy := map[string]framework.Arguments{"binpack": {"binpack.weight": 1000}, "nodeorder": {"leastrequested.weight": 1000 * random.IntN(2)}}
	seen := map[bool]int{}
	for range 100 {
		s := newScene(t, `queue q quota={"A":999,"B":999} cpu=100000`)
		roomy := false
		for i := range 2 + random.IntN(5) {
			model := []string{"A", "B"}[random.IntN(2)]
			used := 5 + random.IntN(4)
			s.addObjects(fmt.Sprintf("node n%d model=%s; job r%d queue=q min=1 running=n%d cards=%d card=%s", i, model, i, i, used, model)).requestCPU(fmt.Sprint("r", i), fmt.Sprint(1+random.IntN(62)))
			roomy = roomy || (model == "A" && used <= 6)
		}

		s.addObjects("node z model=B; job j queue=q min=1 pending=1 cards=2 card=A|B")
		on := s.placeWith(PluginName, nil, heavy)["j-0"]
		first := on != "" && s.node(on).Labels["nvidia.com/gpu.product"] == "A"
		check.Must(t, on != "" && first == roomy, "the pod is on %q, a node with the first card has room: %v\n%s", on, roomy, describe(s))
		seen[first]++
	}

	check.That(t, seen[true] > 0 && seen[false] > 0, "only one outcome was drawn: %v", seen)
}

// node finds a node by its name.
func (s *scene) node(name string) *corev1.Node {
	return s.Nodes[slices.IndexFunc(s.Nodes, func(node *corev1.Node) bool { return node.Name == name })]
}

// manyNodes is a fleet of which Volcano looks at a part only, drawn nodes of which are nearly
// full.
func manyNodes(t *testing.T, change func(*corev1.Pod)) *scene {
	random := seed.Rand(t)
	s := newScene(t, `queue q quota={"A":9999} cpu=100000`)
	for i := range 400 {
		s.addObjects(fmt.Sprintf("node n%d model=A", i))
		if random.IntN(8) == 0 {
			s.addObjects(fmt.Sprintf("job r%d queue=q min=1 running=n%d cards=7", i, i))
		}
	}
	return s.addObjects("job j0 queue=q min=4 pending=4 cards=2; job j1 queue=q min=4 pending=4 cards=2; job j2 queue=q min=4 pending=4 cards=2; job j3 queue=q min=4 pending=4 cards=2", change)
}

// TestGangsInSampledClusters: the node of the first pod need not be in the sample of the next one. Pods that would
// rather not share a node do not where that weighs more, though plugins give that score to nodes together.
func TestGangsInSampledClusters(t *testing.T) {
	apart := func(p *corev1.Pod) {
		p.Labels["gang"] = p.Annotations["scheduling.k8s.io/group-name"]
		p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{
			Weight: 100, PodAffinityTerm: corev1.PodAffinityTerm{TopologyKey: corev1.LabelHostname, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"gang": p.Labels["gang"]}}},
		}}}}
	}

	for t, tc := range check.Cases(t, map[string]struct {
		change func(*corev1.Pod)
		args   map[string]framework.Arguments
		nodes  int // of each gang
	}{
		"a gang stays together":                    {nil, nil, 1},
		"not where its pods would rather be apart": {apart, map[string]framework.Arguments{"nodeorder": {"podaffinity.weight": 50}}, 4},
	}) {
		placed := manyNodes(t, tc.change).placeWith(PluginName, nil, tc.args)
		for job := range 4 {
			on := map[string]bool{}
			for pod := range 4 {
				on[placed[fmt.Sprintf("j%d-%d", job, pod)]] = true
			}
			check.That(t, len(on) == tc.nodes && !on[""], "gang j%d is on %v, want %d nodes", job, on, tc.nodes)
		}
	}
}

// TestDefaultWeightPacks fills fleets with gangs and single pods. Beside the scores that
// Volcano gives by default, which prefer nodes that are empty, the weight of 1 leaves about as
// many nodes unused as packing alone would, and far more than a weight of next to nothing.
func TestDefaultWeightPacks(t *testing.T) {
	random := seed.Rand(t)
	unused := map[float64]int{}
	for range 10 {
		s := newScene(t, `queue q quota={"A":999} cpu=100000`)
		for i := range 20 {
			s.addObjects(fmt.Sprintf("node n%d model=A; job c%d queue=q min=1 running=n%d cards=0", i, i, i)).requestCPU(fmt.Sprintf("c%d", i), fmt.Sprint(1+random.IntN(30)))
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
			for pod, node := range s.placeWith(PluginName, nil, map[string]framework.Arguments{PluginName: {"nodeOrderWeight": weight}}) {
				if !strings.HasPrefix(pod, "c") {
					used[node] = true
				}
			}
			unused[weight] += len(s.Nodes) - len(used)
		}
	}

	t.Logf("of 200 nodes are unused, by weight: %v", unused)
	check.That(t, float64(unused[1]) >= 0.95*float64(unused[1000]) && unused[1] > 3*unused[0.001]/2,
		"of 200 nodes are unused, by weight: %v, want about as many at 1 as at 1000, and many more than at 0.001", unused)
}

// varyRequests lets the pods of the gang ask for different numbers of cards, in every second fleet.
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

// describe writes what nodes have and pods ask for.
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
