package cardquota

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/localquota"
	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
)

type (
	pods   []*builder.PodBuilder
	groups []*builder.PodGroupBuilder
)

func (all pods) objects() (pods []*corev1.Pod) {
	for _, b := range all {
		pods = append(pods, b.Obj())
	}
	return pods
}

func (all groups) objects() (groups []*v1beta1.PodGroup) {
	for _, b := range all {
		groups = append(groups, b.Obj())
	}
	return groups
}

func pod(name string) *builder.PodBuilder { return builder.Pod("lab", name) }

func group() *builder.PodGroupBuilder { return builder.PodGroup("lab", "g") }

func TestCount(t *testing.T) {
	const either = "NVIDIA-GeForce-RTX-4090|NVIDIA-GeForce-RTX-4090-D"
	for t, tc := range check.Cases(t, map[string]struct {
		pods   pods
		groups groups
		quotas map[string]card.Quota
		last   map[types.UID]quota.Charge
		want   Usage // of queue q, if anything
	}{
		"a running pod is charged the card of its node, not the one it prefers": {
			pods: pods{pod("a").Queue("q").Card(either).GPUs(2).Running("4090d")},
			want: Usage{Used: cards{"NVIDIA-GeForce-RTX-4090-D": 2}, Members: Members{Pods: 1}}},
		"CPU and memory of assigned pods are counted, of waiting ones not": {
			pods: pods{
				pod("a").Queue("q").Requests("cpu", "1500m").Requests("memory", "2Gi").Running("h200"),
				pod("b").Queue("q").Requests("cpu", "4"),
			},
			want: Usage{MilliCPU: 1500, Memory: 2 << 30, Members: Members{Pods: 2}},
		},
		"the queue of the PodGroup wins over the pod's annotation": {
			pods:   pods{pod("a").Queue("other").PodGroup("g").GPUs(1).Running("h200")},
			groups: groups{group().Queue("q").Phase(v1beta1.PodGroupRunning)}, want: Usage{Used: cards{"NVIDIA-H200": 1}, Members: Members{Pods: 1, PodGroups: 1}}},
		"a pod whose PodGroup is gone stays in the queue it was charged to": {pods: pods{pod("a").PodGroup("gone").GPUs(1).Running("h200")},
			last: map[types.UID]quota.Charge{"pod/lab/a": {Queue: "q"}}, want: Usage{Used: cards{"NVIDIA-H200": 1}, Members: Members{Pods: 1}}},
		"a pod on a node that is gone keeps the card it was charged": {pods: pods{pod("a").Queue("q").GPUs(3).Running("removed")},
			last: map[types.UID]quota.Charge{"pod/lab/a": {Queue: "q", Cards: []card.Amount{{Name: "NVIDIA-H800", Count: 3}}}},
			want: Usage{Used: cards{"NVIDIA-H800": 3}, Members: Members{Pods: 1}}},
		"a pod being deleted holds nothing but still uses the queue": {
			pods: pods{pod("a").Queue("q").GPUs(1).Running("h200").Deleted(noon)}, want: Usage{Members: Members{Pods: 1}}},
		"a finished pod counts for no queue": {pods: pods{
			pod("a").Queue("q").GPUs(1).Running("h200").Phase(corev1.PodSucceeded),
			pod("b").Queue("q").GPUs(1).Running("h200").Phase(corev1.PodFailed),
		}},
		"a pod without a queue is in none": {pods: pods{pod("a").GPUs(1).Running("h200"), pod("b").GPUs(1)}},
		"a waiting request is shown under the first alternative with quota": {pods: pods{pod("a").Queue("q").Card(either).GPUs(2)},
			quotas: map[string]card.Quota{"q": {"NVIDIA-GeForce-RTX-4090-D": 1}},
			want:   Usage{Pending: cards{"NVIDIA-GeForce-RTX-4090-D": 2}, Members: Members{Pods: 1}}},
		"a waiting request without quota is shown under its first alternative": {pods: pods{pod("a").Queue("q").Card(either).GPUs(2)},
			want: Usage{Pending: cards{"NVIDIA-GeForce-RTX-4090": 2}, Members: Members{Pods: 1}}},
		"a gated pod waits for its gate, not for cards": {pods: pods{pod("a").Queue("q").GPUs(1).Gated().Unschedulable("gated")},
			want: Usage{Members: Members{Pods: 1}}},
		"a job without pods waits for what card.request says": {
			groups: groups{group().Queue("q").Request(`{"NVIDIA-H200":8,"NVIDIA-H800":2}`).MinResource(gpu, "9")},
			want:   Usage{Pending: cards{"NVIDIA-H200": 8, "NVIDIA-H800": 2}, Members: Members{PodGroups: 1}}},
		"a job without pods waits for its minimum where that is more": {
			groups: groups{group().Queue("q").Request(`{"NVIDIA-H200":8,"NVIDIA-H800":2}`).MinResource(gpu, "99")},
			want:   Usage{Pending: cards{"NVIDIA-H200": 80, "NVIDIA-H800": 20}, Members: Members{PodGroups: 1}}},
		"a job whose card.request cannot be read waits for nothing that is known": {
			groups: groups{group().Queue("q").Request("nonsense").MinResource(gpu, "4")},
			want: Usage{Members: Members{PodGroups: 1}, BlockedTotal: 1, Blocked: []v1alpha1.BlockedStatus{{Workload: waits("scheduling.volcano.sh", "PodGroup", "lab", "g"), Reason: "InvalidRequest",
				Message: `PodGroup annotation volcano.sh/card.request: "nonsense" is not a JSON object: write it like {"NVIDIA-H200":8}`}}}},
		"a Deployment waits for its minimum, whatever it says": {
			groups: groups{group().Queue("q").Request(`{"NVIDIA-H200":8}`).MinResource(gpu, "1").Owner("apps/v1", "ReplicaSet", "web-abc")},
			quotas: map[string]card.Quota{"q": {"NVIDIA-H800": 8}}, want: Usage{Pending: cards{"NVIDIA-H800": 1}, Members: Members{PodGroups: 1}}},
		"a job without pods and card.request waits for its minResources": {
			groups: groups{group().Queue("q").MinResource(gpu, "4").Phase(v1beta1.PodGroupInqueue)},
			quotas: map[string]card.Quota{"q": {"NVIDIA-H800": 8}}, want: Usage{Pending: cards{"NVIDIA-H800": 4}, Members: Members{PodGroups: 1}}},
		"a job counts by its pods once it has some": {pods: pods{pod("a").PodGroup("g").Card("NVIDIA-H200").GPUs(1)},
			groups: groups{group().Queue("q").Request(`{"NVIDIA-H200":8}`).Phase(v1beta1.PodGroupInqueue)},
			want:   Usage{Pending: cards{"NVIDIA-H200": 1}, Members: Members{Pods: 1, PodGroups: 1}}},
		"a completed job uses its queue no more": {
			groups: groups{group().Queue("q").Request(`{"NVIDIA-H200":8}`).Phase(v1beta1.PodGroupCompleted)}},
	}) {
		want := map[string]Usage{"q": tc.want}
		if cmp.Equal(tc.want, Usage{}) {
			want = nil
		}
		got := CountUsage(CountInput{Pods: tc.pods.objects(), PodGroups: tc.groups.objects(), Inventory: fleet(), Quotas: tc.quotas, LastCharges: tc.last, Nodes: fleetNodes()})
		check.Equal(t, "use", want, got, cmpopts.EquateEmpty())
	}

	got := CountUsage(CountInput{PodGroups: groups{group().Queue("")}.objects(), Inventory: fleet()})
	check.Equal(t, "a PodGroup that names no queue is in default", map[string]Usage{"default": {Members: Members{PodGroups: 1}}}, got, cmpopts.EquateEmpty())
}

// TestOldestPending: pods with scheduling gates, running pods and other queues do not count.
func TestOldestPending(t *testing.T) {
	at := func(hour int) metav1.Time { return metav1.NewTime(time.Date(2026, 11, 23, hour, 0, 0, 0, time.UTC)) }
	pods := pods{pod("noon").Queue("q"), pod("ten").Queue("q").Card("NVIDIA-H200").GPUs(1), pod("gated").Queue("q").Gated(), pod("runs").Queue("q").Running("h200"), pod("other").Queue("other")}.objects()
	for i, hour := range []int{12, 10, 1, 2, 3} {
		pods[i].CreationTimestamp = at(hour)
	}
	usage := CountUsage(CountInput{Pods: pods, Inventory: fleet(), Nodes: fleetNodes()})
	check.Equal(t, "oldest pending pod", at(10), usage["q"].OldestPending)
	job := group().Queue("q").Request(`{"NVIDIA-H200":8}`).Obj()
	job.CreationTimestamp = at(9)
	usage = CountUsage(CountInput{Pods: pods, PodGroups: []*v1beta1.PodGroup{job}, Inventory: fleet(), Nodes: fleetNodes()})
	check.Equal(t, "oldest pending job", at(9), usage["q"].OldestPending)
}

// TestOldestWithinQuotaCountsCardsWhoseNodesAreGone: such a pod waits within its quota, one with a
// misspelt card does not.
func TestOldestWithinQuotaCountsCardsWhoseNodesAreGone(t *testing.T) {
	created := metav1.NewTime(time.Date(2026, 11, 23, 9, 0, 0, 0, time.UTC))
	waits := pod("a").Queue("q").Card("NVIDIA-H20").GPUs(1).Unschedulable("no node has <NVIDIA-H20>, 0/4 nodes are unavailable: 4 node(s) have another card than <NVIDIA-H20>.")
	count := func(granted card.Quota) metav1.Time {
		all := pods{waits}.objects()
		all[0].CreationTimestamp = created
		used := CountUsage(CountInput{Pods: all, Inventory: fleet(), Nodes: fleetNodes(), Quotas: map[string]card.Quota{"q": granted}})["q"]
		check.Must(t, len(used.Blocked) == 1 && used.Blocked[0].Reason == v1alpha1.BlockedUnknownCard, "blocked %+v", used.Blocked)
		return used.OldestWithinQuota
	}
	check.Equal(t, "of a card whose nodes are gone", created, count(card.Quota{"NVIDIA-H20": 8}))
	check.Equal(t, "of a misspelt card", metav1.Time{}, count(card.Quota{"NVIDIA-H200": 8}))
}

// TestOldestWithinQuota: pods that wait for quota, and pods without cards, do not count.
func TestOldestWithinQuota(t *testing.T) {
	const full = "0/4 nodes are unavailable: 1 Insufficient nvidia.com/gpu, 3 node(s) have another card than <NVIDIA-H200>."
	at := func(hour int) metav1.Time { return metav1.NewTime(time.Date(2026, 11, 23, hour, 0, 0, 0, time.UTC)) }
	waits := func(name, message string) *builder.PodBuilder {
		return pod(name).Queue("q").Card("NVIDIA-H200").GPUs(8).Unschedulable(message)
	}

	pods := pods{waits("large", exhausted("q", 10)), pod("cpu").Queue("q").Unschedulable("0/4 nodes are unavailable: 4 Insufficient cpu."),
		waits("full", full), waits("younger", full), pod("runs").Queue("q").GPUs(8).Running("h200")}.objects()
	for i, hour := range []int{1, 2, 10, 11, 3} {
		pods[i].CreationTimestamp = at(hour)
	}

	check.Equal(t, "of all", at(10), CountUsage(CountInput{Pods: pods, Inventory: fleet(), Nodes: fleetNodes()})["q"].OldestWithinQuota)
	check.Equal(t, "without those that wait for cards", metav1.Time{}, CountUsage(CountInput{Pods: pods[:2], Inventory: fleet(), Nodes: fleetNodes()})["q"].OldestWithinQuota)
}

// TestATenantDoesNotRaiseTheStarvingAlert: any pod can ask for nodes that do not exist.
func TestATenantDoesNotRaiseTheStarvingAlert(t *testing.T) {
	waits := pod("a").Queue("q").Card("NVIDIA-H200").GPUs(1).Created(noon).Unschedulable("0/4 nodes are unavailable: 4 node(s) didn't match Pod's node affinity/selector.").Obj()
	used := CountUsage(CountInput{Pods: []*corev1.Pod{waits}, Inventory: fleet(), Nodes: fleetNodes(), Quotas: map[string]card.Quota{"q": {"NVIDIA-H200": 8}}})["q"]
	check.Must(t, len(used.Blocked) == 1 && used.Blocked[0].Reason == v1alpha1.BlockedNodesUnsuitable, "blocked %+v", used.Blocked)
	check.Equal(t, "oldest within quota", metav1.Time{}, used.OldestWithinQuota)
}

// TestAnnotationsAloneMakeNoMember: the name of a queue can be written on any pod
// and PodGroup. A queue is held up by what holds its cards or may get some, and
// by nothing else.
func TestAnnotationsAloneMakeNoMember(t *testing.T) {
	by := func(scheduler, namespace string, b *builder.PodBuilder) *corev1.Pod {
		return b.Scheduler(scheduler).Queue("q").With(func(p *corev1.Pod) { p.Namespace = namespace }).Obj()
	}
	groupIn := func(namespace string) *v1beta1.PodGroup {
		return builder.PodGroup(namespace, "g").Queue("q").Request(`{"NVIDIA-H200":8}`).Obj()
	}

	runningIn := func(namespace string) *v1beta1.PodGroup {
		g := groupIn(namespace)
		g.Status.Phase = v1beta1.PodGroupRunning
		g.Status.Running = 1
		return g
	}

	for t, tc := range check.Cases(t, map[string]struct {
		pods   []*corev1.Pod
		groups []*v1beta1.PodGroup
		want   Usage
	}{
		"ours waits":                                                 {pods: []*corev1.Pod{by("volcano", "lab", pod("a"))}, want: Usage{Members: Members{Pods: 1}}},
		"our second name waits":                                      {pods: []*corev1.Pod{by("volcano-batch", "lab", pod("a"))}, want: Usage{Members: Members{Pods: 1}}},
		"ours runs without cards":                                    {pods: []*corev1.Pod{by("volcano", "lab", pod("a").Running("h200"))}, want: Usage{Members: Members{Pods: 1}}},
		"another scheduler's waits":                                  {pods: []*corev1.Pod{by("default-scheduler", "lab", pod("a"))}},
		"another scheduler's waits for cards":                        {pods: []*corev1.Pod{by("default-scheduler", "lab", pod("a").GPUs(1).Unschedulable("full"))}},
		"another scheduler's runs without cards":                     {pods: []*corev1.Pod{by("default-scheduler", "lab", pod("a").Running("h200"))}},
		"another scheduler's ends":                                   {pods: []*corev1.Pod{by("default-scheduler", "lab", pod("a").GPUs(1).Running("h200").Deleted(noon))}},
		"another scheduler's holds cards":                            {pods: []*corev1.Pod{by("default-scheduler", "lab", pod("a").GPUs(1).Running("h200"))}, want: Usage{Members: Members{Pods: 1}, Used: cards{"NVIDIA-H200": 1}}},
		"of another namespace, and says why it waits":                {pods: []*corev1.Pod{by("volcano", "stranger", pod("a").GPUs(1).Unschedulable("0/4 nodes are unavailable"))}},
		"of another namespace, was bound, and holds cards":           {pods: []*corev1.Pod{by("volcano", "stranger", pod("a").ChargedQueue("q").GPUs(1).Running("h200"))}, want: Usage{Members: Members{Pods: 1}, Used: cards{"NVIDIA-H200": 1}}},
		"of another namespace, was bound, and runs without cards":    {pods: []*corev1.Pod{by("volcano", "stranger", pod("a").ChargedQueue("q").Running("h200"))}, want: Usage{Members: Members{Pods: 1}}},
		"of another namespace, was charged, and holds cards":         {pods: []*corev1.Pod{by("default-scheduler", "stranger", pod("charged").GPUs(1).Running("h200"))}, want: Usage{Members: Members{Pods: 1}, Used: cards{"NVIDIA-H200": 1}}},
		"of another namespace, and holds cards":                      {pods: []*corev1.Pod{by("volcano", "stranger", pod("a").GPUs(1).Running("h200"))}},
		"of another namespace, and runs without cards":               {pods: []*corev1.Pod{by("volcano", "stranger", pod("a").Requests("cpu", "30").Running("h200"))}},
		"another scheduler's of another namespace, with a record":    {pods: []*corev1.Pod{by("default-scheduler", "stranger", pod("a").ChargedQueue("q").GPUs(1).Running("h200"))}},
		"another scheduler's of another namespace, CPU and a record": {pods: []*corev1.Pod{by("default-scheduler", "stranger", pod("a").ChargedQueue("q").Requests("cpu", "30").Running("h200"))}},
		"another scheduler's, a resource that is a card nowhere": {pods: []*corev1.Pod{by("default-scheduler", "lab", pod("a").ChargedQueue("q").
			Card("NVIDIA-H200").GPUs(0).Requests("evil.example/x", "1000").Running("h200"))}},
		"of another namespace, and waits":                 {pods: []*corev1.Pod{by("volcano", "stranger", pod("a"))}},
		"a PodGroup of another namespace, whose pods run": {groups: []*v1beta1.PodGroup{runningIn("stranger")}, want: Usage{Members: Members{PodGroups: 1}}},
		"a PodGroup":                      {groups: []*v1beta1.PodGroup{groupIn("lab")}, want: Usage{Members: Members{PodGroups: 1}, Pending: cards{"NVIDIA-H200": 8}}},
		"a PodGroup of another namespace": {groups: []*v1beta1.PodGroup{groupIn("stranger")}},
	}) {
		got := CountUsage(CountInput{Pods: tc.pods, PodGroups: tc.groups, Inventory: fleet(), Nodes: fleetNodes(), Schedulers: []string{"volcano", "volcano-batch"},
			LastCharges:     map[types.UID]quota.Charge{"pod/lab/charged": {Queue: "q"}},
			AllowsNamespace: func(queue, namespace string) bool { return queue != "q" || namespace == "lab" }})
		check.Equal(t, "use", tc.want, got["q"], cmpopts.EquateEmpty())
	}
}

// TestForgedWorkNeverEntersTheStatusOfAnotherTenant: who may write PodGroups writes their conditions
// as well. A condition that blames the nodes would page the administrator about the other tenant.
func TestForgedWorkNeverEntersTheStatusOfAnotherTenant(t *testing.T) {
	const nodes = "0/4 nodes are unavailable: 4 Insufficient nvidia.com/gpu."
	group := builder.PodGroup("tenant-b", "forged").Queue("queue-of-a").Created(noon.Add(-48*time.Hour)).Request(`{"NVIDIA-H200":8}`).
		MinResource("nvidia.com/gpu", "8").Unschedulable(nodes).Obj()

	forged := builder.Pod("tenant-b", "forged").Queue("queue-of-a").Card("NVIDIA-H200").GPUs(8).Created(noon.Add(-48 * time.Hour)).Unschedulable(nodes).Obj()
	for t, tc := range check.Cases(t, map[string]struct {
		allows func(queue, namespace string) bool
		above  func(string) []string
	}{
		"the queue does not take the namespace": {func(_, namespace string) bool { return namespace == "tenant-a" }, nil},
		"a queue above does not": {
			func(queue, namespace string) bool { return queue == "queue-of-a" || namespace == "tenant-a" },
			func(queue string) []string { return map[string][]string{"queue-of-a": {"top-of-a"}}[queue] },
		},
	}) {
		usage := CountUsage(CountInput{
			Pods: []*corev1.Pod{forged}, PodGroups: []*v1beta1.PodGroup{group}, Inventory: fleet(), Nodes: fleetNodes(), Quotas: map[string]card.Quota{"queue-of-a": {"NVIDIA-H200": 8}},
			LocalQueues: map[string]bool{"queue-of-a": true}, AllowsNamespace: tc.allows, QueuesAbove: tc.above,
		})["queue-of-a"]
		usage.Members = Members{} // how many may use the queue itself is another question
		check.Equal(t, "usage", Usage{}, usage, cmpopts.EquateEmpty())
	}
}

func waits(group, kind, namespace, name string) v1alpha1.WorkloadReference {
	return v1alpha1.WorkloadReference{APIGroup: group, Kind: kind, Namespace: namespace, Name: name}
}

// TestBlockedListsTheLongestWait: by the oldest of a workload's pods, whatever the order
// in which they are counted.
func TestBlockedListsTheLongestWait(t *testing.T) {
	var all pods
	for i := range 12 {
		all = append(all, pod(string(rune('a'+i))).Queue("q").Unschedulable("full").Created(noon.Add(-time.Duration(i)*time.Minute)))
	}

	old := pod("web-old").Queue("q").Unschedulable("full").Owner("apps/v1", "ReplicaSet", "web-abc").Label("pod-template-hash", "abc")
	all = append(all, old.Created(noon.Add(-time.Hour)), pod("web-new").Queue("q").Unschedulable("full").
		Owner("apps/v1", "ReplicaSet", "web-abc").Label("pod-template-hash", "abc").Created(noon))

	for range 2 {
		got := CountUsage(CountInput{Pods: all.objects(), Inventory: fleet()})["q"]
		check.Must(t, len(got.Blocked) == 10 && got.BlockedTotal == 13, "%d of %d are listed", len(got.Blocked), got.BlockedTotal)
		first := got.Blocked[0]
		last := got.Blocked[9]
		check.That(t, first.Workload.Name == "web" && first.Since.Equal(&metav1.Time{Time: noon.Add(-time.Hour)}), "the first is %+v", first)
		check.That(t, last.Workload.Name == "d", "the last is %+v", last)
		slices.Reverse(all)
	}
}

func TestBlocked(t *testing.T) {
	replica := func(name, message string) *builder.PodBuilder {
		return pod(name).Queue("q").Card("NVIDIA-H200").GPUs(2).Unschedulable(message).Owner("apps/v1", "ReplicaSet", "web-abc").Label("pod-template-hash", "abc")
	}

	for t, tc := range check.Cases(t, map[string]struct {
		pods   pods
		groups groups
		want   []v1alpha1.BlockedStatus
	}{
		"pods of a Deployment are one entry under the Deployment's name": {pods: pods{replica("a", "second"), replica("b", "first")},
			want: []v1alpha1.BlockedStatus{{Workload: waits("apps", "Deployment", "lab", "web"), Card: "NVIDIA-H200", Count: 4, Reason: "Other", Message: "first"}}},
		"a pod that can never run says why before any scheduler did": {pods: pods{pod("a").Queue("q").Card("NVIDIA-H200 oops").GPUs(1)},
			want: []v1alpha1.BlockedStatus{{Workload: waits("", "Pod", "lab", "a"), Card: "nvidia.com/gpu", Count: 1, Reason: "InvalidRequest",
				Message: `Pod annotation volcano.sh/card.name: card name "NVIDIA-H200 oops": the model "NVIDIA-H200 oops" must be a label value (letters, digits, '-', '_', '.', at most 63)`}}},
		"a pod without a condition waits for its PodGroup's reason": {
			pods:   pods{pod("a").PodGroup("g").GPUs(1).Owner("batch.volcano.sh/v1alpha1", "Job", "train")},
			groups: groups{group().Queue("q").Unschedulable("older").Unschedulable("newest")},
			want:   []v1alpha1.BlockedStatus{{Workload: waits("batch.volcano.sh", "Job", "lab", "train"), Card: "nvidia.com/gpu", Count: 1, Reason: "Other", Message: "newest"}}},
		"a job without pods is blocked by its PodGroup's condition": {
			groups: groups{group().Queue("q").Request(`{"NVIDIA-H200":8}`).Unschedulable("no quota").
				Owner("batch.volcano.sh/v1alpha1", "Job", "train")},
			want: []v1alpha1.BlockedStatus{{Workload: waits("batch.volcano.sh", "Job", "lab", "train"), Card: "NVIDIA-H200", Count: 8, Reason: "Other", Message: "no quota"}},
		},
		"a job without cards is blocked too": {groups: groups{group().Queue("q").Unschedulable("no cpu").Owner("batch/v1", "Job", "etl")},
			want: []v1alpha1.BlockedStatus{{Workload: waits("batch", "Job", "lab", "etl"), Reason: "Other", Message: "no cpu"}}},
		"a pod that no session has seen is not blocked": {pods: pods{pod("a").Queue("q").GPUs(1)}},
		"at most ten workloads are listed, of those that are equally old in the order of their names": {
			pods: func() (all pods) {
				for i := range 12 {
					all = append(all, pod(string(rune('l'-i))).Queue("q").Unschedulable("full"))
				}
				return all
			}(),
			want: func() (want []v1alpha1.BlockedStatus) {
				for i := range 10 {
					want = append(want, v1alpha1.BlockedStatus{Workload: waits("", "Pod", "lab", string(rune('a'+i))), Reason: "Other", Message: "full"})
				}
				return want
			}(),
		},
	}) {
		got := CountUsage(CountInput{Pods: tc.pods.objects(), PodGroups: tc.groups.objects(), Inventory: fleet(), Nodes: fleetNodes()})["q"].Blocked
		check.Equal(t, "blocked", tc.want, got, cmpopts.EquateEmpty())
	}
}

func TestEqual(t *testing.T) {
	base := func() Usage {
		return Usage{Used: cards{"A": 1}, Pending: cards{"A": 2}, MilliCPU: 3, Memory: 4, Members: Members{Pods: 5}, Blocked: []v1alpha1.BlockedStatus{{Card: "w"}},
			Local: map[string]localquota.Waiting{"lab": {Total: 1, Blocked: []v1alpha1.BlockedStatus{{Card: "w"}}}}}
	}
	check.That(t, base().Equal(base()), "a queue must equal itself")

	for name, change := range map[string]func(*Usage){
		"used":                func(q *Usage) { q.Used["A"] = 9 },
		"pending":             func(q *Usage) { q.Pending["B"] = 1 },
		"cpu":                 func(q *Usage) { q.MilliCPU++ },
		"memory":              func(q *Usage) { q.Memory++ },
		"member pods":         func(q *Usage) { q.Members.Pods++ },
		"member PodGroups":    func(q *Usage) { q.Members.PodGroups++ },
		"oldest":              func(q *Usage) { q.OldestPending = metav1.Now() },
		"oldest within quota": func(q *Usage) { q.OldestWithinQuota = metav1.Now() },
		"blocked":             func(q *Usage) { q.Blocked[0].Message = "new" },
		"reason":              func(q *Usage) { q.Blocked[0].Reason = "NoQuota" },
		"count":               func(q *Usage) { q.Blocked[0].Count++ },
		"holders":             func(q *Usage) { q.Blocked[0].Holders = []v1alpha1.CardHolder{{Card: "A"}} },
		"total":               func(q *Usage) { q.BlockedTotal++ },
		"local":               func(q *Usage) { q.Local = map[string]localquota.Waiting{"lab": {Total: 2}} },
		"local entries": func(q *Usage) {
			q.Local = map[string]localquota.Waiting{"lab": {Total: 1, Blocked: []v1alpha1.BlockedStatus{{Card: "x"}}}}
		},
	} {
		t.Run("a change of "+name+" is seen", func(t *testing.T) {
			changed := base()
			change(&changed)
			check.That(t, !changed.Equal(base()), "%+v must differ from %+v", changed, base())
		})
	}
}
