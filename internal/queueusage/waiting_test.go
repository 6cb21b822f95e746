package queueusage

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/seed"
)

// podOf is a pod of a Deployment, which has the name of its queue.
func podOf(name, queue string) *builder.PodBuilder {
	return pod(name).Queue(queue).Owner("apps/v1", "ReplicaSet", queue+"-abc").Label("pod-template-hash", "abc")
}

// exhausted is the scheduler's message that a queue has no quota of H200 left, with this limit.
func exhausted(queue string, limit int) string {
	return fmt.Sprintf("Queue <%s> has insufficient <NVIDIA-H200> quota: requested <2>, total would be <9>, but capability is <%d>",
		queue, limit)
}

// TestBlockedNamesReasonAndHolders: each entry of status.blocked says why a workload waits, from the message of the
// scheduler and the state of the nodes. It names who uses the cards that the workload waits for: at most three,
// those with most cards first. Nodes h200, h800, 4090 and 4090d have 8 cards each. Queues q, for training, and r are
// below queue top. Pods of a queue are of a Deployment with its name. A line of want is workload, card, count,
// reason: holders. A holder is count, workload "of" queue (service type). The total counts workloads, not entries.
func TestBlockedNamesReasonAndHolders(t *testing.T) {
	const full = "0/4 nodes are unavailable: 1 Insufficient nvidia.com/gpu, 3 node(s) have another card than <NVIDIA-H200>."
	const skipped = "Task worker-1 with role spec worker has already predicated failed, skip"
	waits := func(name, message string) *builder.PodBuilder {
		return podOf(name, "q").Card("NVIDIA-H200").GPUs(2).Unschedulable(message)
	}

	gang := func(name string) *builder.PodBuilder {
		return pod(name).Queue("q").Card("NVIDIA-H200").GPUs(2).Owner("batch.volcano.sh/v1alpha1", "Job", "train")
	}
	onH200 := func(queue string, count int) *builder.PodBuilder {
		return podOf(fmt.Sprint(queue, "-runs-", count), queue).GPUs(count).Running("h200")
	}

	cordonH200 := func(nodes []card.NodeState) {
		for i := range nodes {
			nodes[i].IsCordoned = nodes[i].Name == "h200"
		}
	}

	for t, tc := range check.Cases(t, map[string]struct {
		pods   pods
		groups groups
		change func([]card.NodeState)
		want   []string
	}{
		"the quota of q is used: pods of q use its H200": {
			pods: pods{waits("a", exhausted("q", 8)), onH200("q", 5), onH200("r", 3), podOf("h800", "q").GPUs(8).Running("h800")},
			want: []string{"q NVIDIA-H200 2 QuotaExhausted: 5 q of q (training)"}},
		"q has no quota of H200: no holders": {
			pods: pods{waits("a", exhausted("q", 0)), onH200("q", 5)},
			want: []string{"q NVIDIA-H200 2 NoQuota"},
		},
		"the quota of its ancestor is used: pods of the queues below it use its H200": {
			pods: pods{waits("a", "Queue <top>, an ancestor of <q>, has insufficient <NVIDIA-H200> quota: requested <2>, total "+
				"would be <9>, but capability is <8>"), onH200("q", 1), onH200("r", 3), onH200("s", 4)},
			want: []string{"q NVIDIA-H200 2 AncestorQuotaExhausted: 3 r of r, 1 q of q (training)"}},
		"no H200 is free: pods of all queues use them, and three are named": {
			pods: pods{waits("a", full), onH200("q", 1), onH200("r", 3), onH200("s", 2), onH200("t", 2)},
			want: []string{"q NVIDIA-H200 2 NoFreeCard: 3 r of r, 2 s of s, 2 t of t"}},
		"no H200 is free: a pod without a queue uses them": {
			pods: pods{waits("a", full), pod("stray").GPUs(8).Running("h200")},
			want: []string{"q NVIDIA-H200 2 NoFreeCard: 8 stray of "},
		},
		"no H200 is free: a terminating pod has them, and is not named": {
			pods: pods{waits("a", full), onH200("q", 8).Deleted(noon)},
			want: []string{"q NVIDIA-H200 2 NoFreeCard"},
		},
		"the node does not suit the pod, and a failed pod uses nothing": {
			pods: pods{waits("a", "0/1 nodes are unavailable: 1 node(s) had untolerated taint {a: b}."), onH200("q", 8).Phase("Failed")},
			want: []string{"q NVIDIA-H200 2 NodesUnsuitable"},
		},
		"the node is cordoned": {
			pods:   pods{waits("a", "0/1 nodes are unavailable: 1 node(s) were unschedulable.")},
			change: cordonH200,
			want:   []string{"q NVIDIA-H200 2 NodesUnsuitable"},
		},
		"the node is cordoned, and the scheduler still says that its cards are used: the message decides": {
			pods:   pods{waits("a", full)},
			change: cordonH200,
			want:   []string{"q NVIDIA-H200 2 NoFreeCard"},
		},
		"no node has the card, and the scheduler only says that quota is missing: UnknownCard": {
			pods: pods{podOf("a", "q").Card("NVIDIA-H2000").GPUs(1).
				Unschedulable("Queue <q> has insufficient <NVIDIA-H2000> quota: requested <1>, total would be <1>, but capability is <0>")},
			want: []string{"q NVIDIA-H2000 1 UnknownCard"}},
		"the card is none of the requested resource": {
			pods: pods{pod("a").Queue("q").Card("NVIDIA-H200").Requests("amd.com/gpu", "1")},
			want: []string{"a NVIDIA-H200 1 WrongCombination"},
		},
		"three equal pods: Volcano tries one, and skips the others": {
			pods: pods{waits("a", skipped), waits("b", exhausted("q", 8)), waits("c", skipped)},
			want: []string{"q NVIDIA-H200 6 QuotaExhausted"},
		},
		"two pods with two reasons: two entries": {
			pods: pods{waits("a", full), waits("b", exhausted("q", 8)), onH200("r", 8)},
			want: []string{"q NVIDIA-H200 2 NoFreeCard: 8 r of r", "q NVIDIA-H200 2 QuotaExhausted"}},
		"a gang of three, r leaves 4 cards: two pods would have a place, one finds no free card": {
			pods: pods{
				gang("a").Unschedulable("Pod lab/a can possibly be assigned to h200, once minAvailable is satisfied"),
				gang("b").Unschedulable("Pod lab/b can possibly be assigned to h200, once minAvailable is satisfied"),
				gang("c").Unschedulable(full),
				onH200("r", 4),
			},
			want: []string{"train NVIDIA-H200 4 GangIncomplete", "train NVIDIA-H200 2 NoFreeCard: 4 r of r"}},
		"a job without pods for two cards: the quota of one is used, the other one waits with it": {
			groups: groups{group().Queue("q").Request(`{"NVIDIA-H200":16,"NVIDIA-GeForce-RTX-4090":2}`).Unschedulable(exhausted("q", 8))},
			pods:   pods{onH200("q", 5), podOf("4090", "q").Card("").GPUs(3).Running("4090")},
			want:   []string{"g NVIDIA-GeForce-RTX-4090 2 GangIncomplete", "g NVIDIA-H200 16 QuotaExhausted: 5 q of q (training)"},
		},
		"a job without pods requests 16 H200, and 8 are free: too few": {
			groups: groups{group().Queue("q").Request(`{"NVIDIA-H200":16}`).
				Unschedulable("1/1 tasks in gang unschedulable: pod group is not ready")},
			want: []string{"g NVIDIA-H200 16 NoFreeCard"}},
	}) {
		nodes := newNodes()
		if tc.change != nil {
			tc.change(nodes)
		}

		got := Count(Input{
			Pods:         tc.pods.objects(),
			PodGroups:    tc.groups.objects(),
			Inventory:    newInventory(),
			Nodes:        nodes,
			ServiceTypes: map[string]string{"q": "training"},
			Tree:         treeOfParents(map[string]string{"q": "top", "r": "top"}),
		})["q"]
		check.Equal(t, "blocked", tc.want, describeBlocked(got.Blocked), cmpopts.SortSlices(func(a, b string) bool { return a < b }))

		workloads := map[string]bool{}
		for _, line := range tc.want {
			workloads[strings.Fields(line)[0]] = true
		}

		check.Equal(t, "total", len(workloads), got.BlockedTotal)
	}
}

// TestGangIncompleteComesLast: pods j-0 and j-1 of gang j have a place and wait for the others. Pods j-2 and j-3 find
// no free card, which keeps the gang waiting. So the entry NoFreeCard comes before GangIncomplete, whichever of their
// pods are older. Both entries wait since the oldest pod of the gang, 20 s ago, and come before pod newer. The
// message is that of j-2, not what Volcano repeats for the gang.
func TestGangIncompleteComesLast(t *testing.T) {
	const full = "too few <NVIDIA-H200> are free, all nodes are unavailable: 1 Insufficient nvidia.com/gpu."
	gang := func(name, message string, age time.Duration) *builder.PodBuilder {
		return pod(name).Queue("q").Card("NVIDIA-H200").GPUs(2).Owner("batch.volcano.sh/v1alpha1", "Job", "j").
			Unschedulable(message).Created(noon.Add(-age))
	}
	placed := func(name string) string {
		return "Pod lab/" + name + " can possibly be assigned to h200, once minAvailable is satisfied"
	}

	for _, age := range []time.Duration{0, 10 * time.Second} { // j-0 is older than j-2, or younger
		got := Count(Input{
			Inventory: newInventory(),
			Nodes:     newNodes(),
			Pods: pods{
				gang("j-0", placed("j-0"), 20*time.Second-age),
				gang("j-1", placed("j-1"), 20*time.Second),
				gang("j-2", full, 10*time.Second+age),
				gang("j-3", "pod group is not ready, 4 Pending, 4 minAvailable; Pending: 2 Schedulable, 2 Unschedulable. Origin "+
					"reason is j-2: "+full, 0),
				pod("newer").Queue("q").GPUs(1).Unschedulable(full).Created(noon.Add(-5 * time.Second)),
				podOf("runs", "r").GPUs(4).Running("h200"),
			}.objects(),
		})["q"]

		check.Equal(t, "blocked", []string{
			"j NVIDIA-H200 4 NoFreeCard: 4 r of r",
			"j NVIDIA-H200 4 GangIncomplete",
			"newer nvidia.com/gpu 1 NoFreeCard: 4 r of r",
		}, describeBlocked(got.Blocked))
		check.Equal(t, "message", full, got.Blocked[0].Message)
		check.Equal(t, "number of workloads", 2, got.BlockedTotal)
		for _, entry := range got.Blocked[:2] {
			check.That(t, entry.Since.Equal(&metav1.Time{Time: noon.Add(-20 * time.Second)}), "it waits since %s", entry.Since)
		}
	}
}

// TestOnlyCardsWithQuotaLeftHelp: a pod requests 4 of H200 or H800. 2 H200 are free on each of two nodes, so they are
// fragmented, and no H800 is free. Free cards and holders of a card matter only if queue q, and queue top above it,
// have quota for 4 more. If neither card has enough quota left, both matter: then the reason is the quota, not the nodes.
// A queue without a CardQuota has no limit. Workload r of queue r uses 6 H200, s of queue s 7 H800, and q of q 1 H800.
func TestOnlyCardsWithQuotaLeftHelp(t *testing.T) {
	const full = "0/4 nodes are unavailable: 2 Insufficient nvidia.com/gpu, 2 node(s) have another card than <NVIDIA-H200|NVIDIA-H800>."
	h200 := card.Name("NVIDIA-H200")
	h800 := card.Name("NVIDIA-H800")

	// Two nodes of H200 have two free cards each, one of H800 has none.
	nodes := newNodes()
	nodes = append(nodes, card.NodeState{
		Name:    "h200-too",
		IsReady: true,
		Node:    card.Node{Model: string(h200), Cards: []card.NodeCard{{Name: h200, Resource: gpu, Count: 2}}},
	})
	running := pods{podOf("a", "r").GPUs(6).Running("h200"), podOf("b", "s").GPUs(7).Running("h800"), podOf("c", "q").GPUs(1).Running("h800")}

	const (
		bothMatter      = "q NVIDIA-H200|NVIDIA-H800 4 Fragmented: 7 s of s, 6 r of r, 1 q of q"
		onlyH800Matters = "q NVIDIA-H200|NVIDIA-H800 4 NoFreeCard: 7 s of s, 1 q of q"
	)

	for t, tc := range check.Cases(t, map[string]struct {
		quotas map[string]card.Quota
		card   string
		want   string
	}{
		"q has quota of both": {
			quotas: map[string]card.Quota{"q": {h200: 4, h800: 8}},
			card:   "NVIDIA-H200|NVIDIA-H800",
			want:   bothMatter,
		},
		"q has quota of H800 only": {
			quotas: map[string]card.Quota{"q": {h800: 8}},
			card:   "NVIDIA-H200|NVIDIA-H800",
			want:   onlyH800Matters,
		},
		"q has quota of 3 H200, too few": {
			quotas: map[string]card.Quota{"q": {h200: 3, h800: 8}},
			card:   "NVIDIA-H200|NVIDIA-H800",
			want:   onlyH800Matters,
		},
		"q has quota of 3 H200, and 4 H800 of which it uses 1: of none is enough left, so both are named": {
			quotas: map[string]card.Quota{"q": {h200: 3, h800: 4}},
			card:   "NVIDIA-H200|NVIDIA-H800",
			want:   bothMatter,
		},
		"q has no CardQuota": {
			quotas: map[string]card.Quota{"r": {h800: 8}},
			card:   "NVIDIA-H200|NVIDIA-H800",
			want:   bothMatter,
		},
		"the pod names no card, and q has quota of H800 only": {
			quotas: map[string]card.Quota{"q": {h800: 8}},
			want:   "q nvidia.com/gpu 4 NoFreeCard: 7 s of s, 1 q of q",
		},
		"the queue above has 8 H200, of which q and r use 6": {
			quotas: map[string]card.Quota{"q": {h200: 8, h800: 8}, "top": {h200: 8, h800: 16}},
			card:   "NVIDIA-H200|NVIDIA-H800",
			want:   onlyH800Matters,
		},
		"the queue above has 10 H200, of which q and r use 6": {
			quotas: map[string]card.Quota{"q": {h200: 8, h800: 8}, "top": {h200: 10, h800: 16}},
			card:   "NVIDIA-H200|NVIDIA-H800",
			want:   bothMatter,
		},
	}) {
		inventory := map[string]card.Node{}
		for _, node := range nodes {
			inventory[node.Name] = node.Node
		}

		got := Count(Input{
			Pods:      append(pods{podOf("w", "q").GPUs(4).Unschedulable(full).Card(tc.card)}, running...).objects(),
			Inventory: card.NewInventory(inventory),
			Nodes:     nodes,
			Quotas:    tc.quotas,
			Tree:      treeOfParents(map[string]string{"q": "top", "r": "top"}),
		})["q"]
		check.Equal(t, "blocked", []string{tc.want}, describeBlocked(got.Blocked))
	}
}

// TestHoldersHaveTheTypeOfTheirQueue: a holder has the service type of its queue, because a pod may state any: here
// all pods that use cards state inference. The type of queue untyped, and of queue odd, whose type is no valid name,
// is shown as none.
func TestHoldersHaveTheTypeOfTheirQueue(t *testing.T) {
	running := func(queue string, count int) *builder.PodBuilder {
		return podOf("in-"+queue, queue).ServiceType("inference").GPUs(count).Running("h200")
	}

	waits := podOf("a", "q").Card("NVIDIA-H200").GPUs(2).Unschedulable("0/4 nodes are unavailable: 1 Insufficient " +
		"nvidia.com/gpu, 3 node(s) have another card than <NVIDIA-H200>.")
	got := Count(Input{
		Pods:         pods{waits, running("q", 4), running("untyped", 2), running("odd", 2)}.objects(),
		Inventory:    newInventory(),
		Nodes:        newNodes(),
		ServiceTypes: map[string]string{"q": "training", "odd": "No Name"},
	})["q"]
	check.Must(t, len(got.Blocked) == 1, "%+v", got.Blocked)

	types := map[string]string{}
	for _, h := range got.Blocked[0].Holders {
		types[h.Workload.Name] = h.ServiceType
	}

	check.Equal(t, "service types", map[string]string{"q": "training", "untyped": "none", "odd": "none"}, types)
}

// TestForgedAncestorNamesNoHolders: the message of a pod names the ancestor that has no quota left, and the entry
// names holders in the queues below that ancestor. But tenants can write conditions of their pods, to learn what
// queues of others use. So only an ancestor of queue q in the tree counts. Queue top is above q and r, other is
// above secret.
func TestForgedAncestorNamesNoHolders(t *testing.T) {
	states := func(name, ancestor string) *builder.PodBuilder {
		return podOf(name, "q").Card("NVIDIA-H200").GPUs(1).
			Unschedulable("Queue <" + ancestor + ">, an ancestor of <q>, " + exhausted("q", 8)[len("Queue <q> "):])
	}

	tree := treeOfParents(map[string]string{"q": "top", "r": "top", "secret": "other"})
	running := pods{podOf("r", "r").GPUs(3).Running("h200"), podOf("secret", "secret").GPUs(4).Running("h200")}
	for t, tc := range check.Cases(t, map[string]struct {
		pods   pods
		isFlat bool
		want   []string
	}{
		"the message names top, an ancestor of q": {
			pods: pods{states("a", "top")},
			want: []string{"q NVIDIA-H200 1 AncestorQuotaExhausted: 3 r of r"},
		},
		"the message names other, which is not above q": {
			pods: pods{states("a", "other")},
			want: []string{"q NVIDIA-H200 1 AncestorQuotaExhausted"},
		},
		"the message names secret, which has no queues below": {
			pods: pods{states("a", "secret")},
			want: []string{"q NVIDIA-H200 1 AncestorQuotaExhausted"},
		},
		"the message names no queue": {
			pods: pods{states("a", "")},
			want: []string{"q NVIDIA-H200 1 AncestorQuotaExhausted"},
		},
		"the message names secret, while queues are flat": {
			pods:   pods{states("a", "secret")},
			isFlat: true,
			want:   []string{"q NVIDIA-H200 1 AncestorQuotaExhausted"},
		},
		"the first pod names top, the second other": {
			pods: pods{states("a", "top"), states("b", "other")},
			want: []string{"q NVIDIA-H200 2 AncestorQuotaExhausted: 3 r of r"},
		},
		"the first pod names other, the second top": {
			pods: pods{states("a", "other"), states("b", "top")},
			want: []string{"q NVIDIA-H200 2 AncestorQuotaExhausted: 3 r of r"},
		},
	}) {
		input := Input{
			Pods:      append(tc.pods, running...).objects(),
			Inventory: newInventory(),
			Nodes:     newNodes(),
			Tree:      tree,
		}
		if tc.isFlat {
			input.Tree = nil
		}
		check.Equal(t, "blocked", tc.want, describeBlocked(Count(input)["q"].Blocked))
	}
}

// TestEachNamespaceHasTenEntriesOfItsOwn: a tenant sees what waits in its own namespace: at most ten entries in each,
// also of pods that are not among the ten of the queue. In queue q, 12 pods wait in namespace old, and 12 younger
// ones in namespace new. No tenant sees queue r.
func TestEachNamespaceHasTenEntriesOfItsOwn(t *testing.T) {
	input := Input{Inventory: newInventory(), Nodes: newNodes(), LocalQueues: map[string]bool{"q": true}}
	for i := range 12 {
		for j, namespace := range []string{"old", "new"} {
			input.Pods = append(input.Pods, builder.Pod(namespace, fmt.Sprintf("p%02d", i)).Queue("q").Unschedulable("full").
				Created(noon.Add(time.Duration(j)*time.Hour)).Obj(),
				builder.Pod(namespace, fmt.Sprintf("r%02d", i)).Queue("r").Unschedulable("full").Obj())
		}
	}

	got := Count(input)
	check.Equal(t, "total", 24, got["q"].BlockedTotal)
	check.Equal(t, "namespaces", 2, len(got["q"].Local))
	for namespace, local := range got["q"].Local {
		check.Equal(t, namespace+": number of entries", 12, local.Total)
		check.Equal(t, namespace+": listed entries", 10, len(local.Blocked))
		check.Equal(t, "first", namespace+"/p00", local.Blocked[0].Workload.Namespace+"/"+local.Blocked[0].Workload.Name)
	}

	check.Equal(t, "namespaces of queue r", 0, len(got["r"].Local))
}

// describeBlocked writes each entry as workload, card, count, reason: holders.
func describeBlocked(all []v1alpha1.BlockedStatus) (lines []string) {
	for _, b := range all {
		line := fmt.Sprint(b.Workload.Name, " ", b.Card, " ", b.Count, " ", b.Reason)
		before := ": "
		for _, h := range b.Holders {
			line += fmt.Sprint(before, h.Count, " ", h.Workload.Name, " of ", h.Queue)
			before = ", "
			if h.ServiceType != "none" {
				line += " (" + h.ServiceType + ")"
			}
		}
		lines = append(lines, line)
	}

	return lines
}

// TestWaitingDoesNotDependOnTheOrderOfPods: watches deliver pods in any order. Random pods of two queues, with any
// message of the scheduler, running or not, count the same in another order. Each entry has a reason, and at most
// three holders.
func TestWaitingDoesNotDependOnTheOrderOfPods(t *testing.T) {
	messages := []string{
		"",
		"full",
		"0/4 nodes are unavailable: 4 Insufficient nvidia.com/gpu.",
		"0/4 nodes are unavailable: 4 node(s) were unschedulable.",
		exhausted("q", 8),
		exhausted("q", 0),
		"Pod lab/a can possibly be assigned to h200, once minAvailable is satisfied",
		"Queue <top>, an ancestor of <q>, " + exhausted("q", 8)[len("Queue <q> "):],
		exhausted("r", 8),
	}

	seed.Check(t, func(t *rapid.T) {
		input := Input{
			Inventory: newInventory(),
			Nodes:     newNodes(),
			Quotas:    map[string]card.Quota{"q": {"NVIDIA-H200": 8, "NVIDIA-H800": 4}, "r": {"NVIDIA-H200": 3}},
		}
		for i := range rapid.IntRange(0, 20).Draw(t, "pods") {
			b := podOf(fmt.Sprint("p", i), rapid.SampledFrom([]string{"q", "r"}).Draw(t, "queue")).GPUs(rapid.IntRange(0, 4).
				Draw(t, "count")).
				Card(rapid.SampledFrom([]string{"", "NVIDIA-H200", "NVIDIA-H200|NVIDIA-H800"}).Draw(t, "card")).
				ServiceType(rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "type"))
			b.Unschedulable(rapid.SampledFrom(messages).Draw(t, "message"))
			if rapid.Bool().Draw(t, "runs") {
				b.Running("h200")
			}
			input.Pods = append(input.Pods, b.Obj())
		}

		want := Count(input)
		input.Pods = rapid.Permutation(input.Pods).Draw(t, "order")
		check.Equal(t, "usage in another order", want, Count(input))
		for _, queue := range want {
			for _, b := range queue.Blocked {
				check.Must(t, b.Reason != "" && len(b.Holders) <= 3, "%+v", b)
			}
		}
	})
}

// newBusyCluster returns 50,000 pods of 1,000 queues on 4 nodes. Of a hundred pods as many wait as given.
func newBusyCluster(waits int) Input {
	input := Input{Inventory: newInventory(), Nodes: newNodes()}
	nodes := []string{"h200", "h800", "4090", "4090d"}
	for i := range 50_000 {
		b := builder.Pod("lab", fmt.Sprint("p", i)).PodGroup(fmt.Sprint("g", i/8)).Card("NVIDIA-H200").GPUs(1).CPU("8").
			Memory("64Gi").Owner("batch.volcano.sh/v1alpha1", "Job", fmt.Sprint("j", i/8))
		switch {
		case i%100 >= waits:
			b.Running(nodes[i%4])
		case i%2 == 0:
			b.Unschedulable("0/4 nodes are unavailable: 1 Insufficient nvidia.com/gpu, 3 node(s) have another card than <NVIDIA-H200>.")
		default:
			b.Unschedulable(exhausted(fmt.Sprint("q", i/8%1000), 8))
		}

		input.Pods = append(input.Pods, b.Obj())
		if i%8 == 0 {
			input.PodGroups = append(input.PodGroups, builder.PodGroup("lab", fmt.Sprint("g", i/8)).
				Queue(fmt.Sprint("q", i/8%1000)).Phase(v1beta1.PodGroupRunning).Obj())
		}
	}

	_, input.LastCharges = CountWithCharges(input)
	return input
}

// BenchmarkCountWaiting counts 50,000 pods. What nothing waits for costs nothing.
func BenchmarkCountWaiting(b *testing.B) {
	for _, waits := range []int{0, 10} {
		b.Run(fmt.Sprint(waits, "%"), func(b *testing.B) {
			input := newBusyCluster(waits)
			b.ReportAllocs()
			for b.Loop() {
				Count(input)
			}
		})
	}
}

// TestAJobBelowItsMinimumSaysSo: a gang needs 2 pods, and one of them was lost, so the other runs without use. The
// message says so before what the scheduler says. If no pod of the gang runs, or only a pod above the minimum waits,
// the message is that of the scheduler alone.
func TestAJobBelowItsMinimumSaysSo(t *testing.T) {
	const full = "too few <NVIDIA-H200> are free, all nodes are unavailable: 1 Insufficient nvidia.com/gpu."
	for t, tc := range check.Cases(t, map[string]struct {
		running int32
		want    string
	}{
		"1 of 2 pods runs":              {1, "runs below its minimum: 1 of 2 pods; " + full},
		"no pod runs":                   {0, full},
		"2 pods run, and a third waits": {2, full},
	}) {
		group := builder.PodGroup("lab", "train").Queue("q").MinMember(2).Obj()
		group.Status.Running = tc.running
		waits := pod("train-1").Queue("q").PodGroup("train").Card("NVIDIA-H200").GPUs(2).Unschedulable(full)

		got := Count(Input{
			Inventory: newInventory(),
			Nodes:     newNodes(),
			Pods:      pods{waits}.objects(),
			PodGroups: []*v1beta1.PodGroup{group},
		})["q"]
		check.Must(t, len(got.Blocked) == 1, "%d entries, want one", len(got.Blocked))
		check.Equal(t, "message", tc.want, got.Blocked[0].Message)
	}
}
