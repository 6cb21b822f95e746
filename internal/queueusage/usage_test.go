package queueusage

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
	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/waiting"
)

type (
	pods   []*builder.PodBuilder
	groups []*builder.PodGroupBuilder
)

func (all pods) objects() []*corev1.Pod { return objectsOf(all) }

func (all groups) objects() []*v1beta1.PodGroup { return objectsOf(all) }

// objectsOf returns what builders build.
func objectsOf[Builder interface{ Obj() Object }, Object any](builders []Builder) (objects []Object) {
	for _, b := range builders {
		objects = append(objects, b.Obj())
	}
	return objects
}

// pod is a pending pod of namespace lab.
func pod(name string) *builder.PodBuilder { return builder.Pod("lab", name) }

// group is the pending PodGroup lab/g of one member.
func group() *builder.PodGroupBuilder { return builder.PodGroup("lab", "g") }

// TestUsageCountsRunningAndPendingCards: the operator counts what pods of a queue use, and what waits for cards. A
// running pod counts for the card of its node. Nodes h200, h800, 4090 and 4090d have 8 cards each, of the models that
// they are named after. A pending pod counts for a card that it requests. A job without pods counts by its PodGroup,
// g; its minResources name no card, so they count for a card that the queue has quota for. Members are the unfinished
// pods and PodGroups of the queue. Each row has the usage of queue q.
func TestUsageCountsRunningAndPendingCards(t *testing.T) {
	const either = "NVIDIA-GeForce-RTX-4090|NVIDIA-GeForce-RTX-4090-D"
	for t, tc := range check.Cases(t, map[string]struct {
		pods   pods
		groups groups
		quotas map[string]card.Quota
		last   map[types.UID]quota.Charge // of the count before, by the UID of the pod
		want   Usage                      // of queue q, if anything
	}{
		"a running pod with alternatives: the card of its node": {
			pods: pods{pod("a").Queue("q").Card(either).GPUs(2).Running("4090d")},
			want: Usage{Used: cards{"NVIDIA-GeForce-RTX-4090-D": 2}, Members: Members{Pods: 1}}},
		"CPU and memory of a running and of a pending pod: only those of the running one": {
			pods: pods{
				pod("a").Queue("q").Requests("cpu", "1500m").Requests("memory", "2Gi").Running("h200"),
				pod("b").Queue("q").Requests("cpu", "4"),
			},
			want: Usage{MilliCPU: 1500, Memory: 2 << 30, Members: Members{Pods: 2}},
		},
		"the pod names another queue than its PodGroup: that of the PodGroup": {
			pods:   pods{pod("a").Queue("other").PodGroup("g").GPUs(1).Running("h200")},
			groups: groups{group().Queue("q").Phase(v1beta1.PodGroupRunning)},
			want:   Usage{Used: cards{"NVIDIA-H200": 1}, Members: Members{Pods: 1, PodGroups: 1}},
		},
		"a running pod whose PodGroup is gone: the queue that was charged last": {
			pods: pods{pod("a").PodGroup("gone").GPUs(1).Running("h200")},
			last: map[types.UID]quota.Charge{"pod/lab/a": {Queue: "q"}},
			want: Usage{Used: cards{"NVIDIA-H200": 1}, Members: Members{Pods: 1}},
		},
		"a running pod whose node is gone: the card that was charged last": {
			pods: pods{pod("a").Queue("q").GPUs(3).Running("removed")},
			last: map[types.UID]quota.Charge{"pod/lab/a": {Queue: "q", Cards: []card.Amount{{Name: "NVIDIA-H800", Count: 3}}}},
			want: Usage{Used: cards{"NVIDIA-H800": 3}, Members: Members{Pods: 1}},
		},
		"a terminating pod: no cards, but a member of the queue": {
			pods: pods{pod("a").Queue("q").GPUs(1).Running("h200").Deleted(noon)},
			want: Usage{Members: Members{Pods: 1}},
		},
		"finished pods: nothing": {pods: pods{
			pod("a").Queue("q").GPUs(1).Running("h200").Phase(corev1.PodSucceeded),
			pod("b").Queue("q").GPUs(1).Running("h200").Phase(corev1.PodFailed),
		}},
		"pods without a queue: nothing": {pods: pods{pod("a").GPUs(1).Running("h200"), pod("b").GPUs(1)}},
		"a pending pod with alternatives: the first with quota": {
			pods:   pods{pod("a").Queue("q").Card(either).GPUs(2)},
			quotas: map[string]card.Quota{"q": {"NVIDIA-GeForce-RTX-4090-D": 1}},
			want:   Usage{Pending: cards{"NVIDIA-GeForce-RTX-4090-D": 2}, Members: Members{Pods: 1}},
		},
		"a pending pod with alternatives, none with quota: the first": {
			pods: pods{pod("a").Queue("q").Card(either).GPUs(2)},
			want: Usage{Pending: cards{"NVIDIA-GeForce-RTX-4090": 2}, Members: Members{Pods: 1}},
		},
		"a pod with a scheduling gate: waits for the gate, not for cards": {
			pods: pods{pod("a").Queue("q").GPUs(1).Gated().Unschedulable("gated")},
			want: Usage{Members: Members{Pods: 1}},
		},
		"a job without pods: card.request, which is 10 cards, more than minResources": {
			groups: groups{group().Queue("q").Request(`{"NVIDIA-H200":8,"NVIDIA-H800":2}`).MinResource(gpu, "9")},
			want:   Usage{Pending: cards{"NVIDIA-H200": 8, "NVIDIA-H800": 2}, Members: Members{PodGroups: 1}}},
		"a job without pods, and minResources of 99: these in the proportion of card.request, 8 to 2, rounded up": {
			groups: groups{group().Queue("q").Request(`{"NVIDIA-H200":8,"NVIDIA-H800":2}`).MinResource(gpu, "99")},
			want:   Usage{Pending: cards{"NVIDIA-H200": 80, "NVIDIA-H800": 20}, Members: Members{PodGroups: 1}}},
		"a job without pods whose card.request is not valid: blocked, no cards": {
			groups: groups{group().Queue("q").Request("nonsense").MinResource(gpu, "4")},
			want: Usage{
				Members: Members{PodGroups: 1},
				Summary: waiting.Summary{
					BlockedTotal: 1,
					Blocked: []v1alpha1.BlockedStatus{{
						Workload: workloadReference("scheduling.volcano.sh", "PodGroup", "lab", "g"),
						Reason:   "InvalidRequest",
						Message: `PodGroup annotation volcano.sh/card.request: "nonsense" is not a JSON object: write it like ` +
							`{"NVIDIA-H200":8}`,
					}},
				},
			}},
		"a Deployment's PodGroup: minResources, as card.request does not count for a Deployment, which grows": {
			groups: groups{group().Queue("q").Request(`{"NVIDIA-H200":8}`).MinResource(gpu, "1").Owner("apps/v1", "ReplicaSet", "web-abc")},
			quotas: map[string]card.Quota{"q": {"NVIDIA-H800": 8}},
			want:   Usage{Pending: cards{"NVIDIA-H800": 1}, Members: Members{PodGroups: 1}},
		},
		"a job without pods and card.request: minResources": {
			groups: groups{group().Queue("q").MinResource(gpu, "4").Phase(v1beta1.PodGroupInqueue)},
			quotas: map[string]card.Quota{"q": {"NVIDIA-H800": 8}},
			want:   Usage{Pending: cards{"NVIDIA-H800": 4}, Members: Members{PodGroups: 1}},
		},
		"a job with one of its pods: the pod, not card.request": {
			pods:   pods{pod("a").PodGroup("g").Card("NVIDIA-H200").GPUs(1)},
			groups: groups{group().Queue("q").Request(`{"NVIDIA-H200":8}`).Phase(v1beta1.PodGroupInqueue)},
			want:   Usage{Pending: cards{"NVIDIA-H200": 1}, Members: Members{Pods: 1, PodGroups: 1}},
		},
		"a completed job: nothing": {
			groups: groups{group().Queue("q").Request(`{"NVIDIA-H200":8}`).Phase(v1beta1.PodGroupCompleted)}},
	}) {
		want := map[string]Usage{"q": tc.want}
		if cmp.Equal(tc.want, Usage{}) {
			want = nil
		}
		got := Count(Input{
			Pods:        tc.pods.objects(),
			PodGroups:   tc.groups.objects(),
			Inventory:   newInventory(),
			Quotas:      tc.quotas,
			LastCharges: tc.last,
			Nodes:       newNodes(),
		})

		check.Equal(t, "usage by queue", want, got, cmpopts.EquateEmpty())
	}
}

// TestAPodGroupWithoutAQueueIsInDefault: Volcano puts a PodGroup without a queue into queue default, so it counts as
// a member there.
func TestAPodGroupWithoutAQueueIsInDefault(t *testing.T) {
	got := Count(Input{PodGroups: groups{group().Queue("")}.objects(), Inventory: newInventory()})
	check.Equal(t, "usage by queue", map[string]Usage{"default": {Members: Members{PodGroups: 1}}}, got,
		cmpopts.EquateEmpty())
}

// TestOldestPendingIsTheOldestThatWaits: OldestPending of a queue is when its oldest waiting pod was created. In
// queue q pods wait that were created at 10 and 12 o'clock. The older pods do not count: gated has a scheduling gate,
// runs has a node, and other is of another queue. A job without pods, created at 9 o'clock, counts too.
func TestOldestPendingIsTheOldestThatWaits(t *testing.T) {
	at := func(hour int) metav1.Time { return metav1.NewTime(time.Date(2026, 11, 23, hour, 0, 0, 0, time.UTC)) }
	pods := pods{
		pod("noon").Queue("q"),
		pod("ten").Queue("q").Card("NVIDIA-H200").GPUs(1),
		pod("gated").Queue("q").Gated(),
		pod("runs").Queue("q").Running("h200"),
		pod("other").Queue("other"),
	}.objects()
	for i, hour := range []int{12, 10, 1, 2, 3} {
		pods[i].CreationTimestamp = at(hour)
	}
	usage := Count(Input{Pods: pods, Inventory: newInventory(), Nodes: newNodes()})

	check.Equal(t, "oldest pending pod", at(10), usage["q"].OldestPending)
	job := group().Queue("q").Request(`{"NVIDIA-H200":8}`).Obj()
	job.CreationTimestamp = at(9)
	usage = Count(Input{Pods: pods, PodGroups: []*v1beta1.PodGroup{job}, Inventory: newInventory(), Nodes: newNodes()})
	check.Equal(t, "oldest pending job", at(9), usage["q"].OldestPending)
}

// TestOldestWithinQuotaCountsCardsWhoseNodesAreGone: OldestWithinQuota says since when a pod waits for cards that the
// queue has quota for, which raises an alert. The pod requests NVIDIA-H20, which no node has. If the queue has quota
// for NVIDIA-H20, its nodes are gone, and the alert names it to the administrator. If it has none, the name may be
// misspelt, and there is no alert.
func TestOldestWithinQuotaCountsCardsWhoseNodesAreGone(t *testing.T) {
	created := metav1.NewTime(time.Date(2026, 11, 23, 9, 0, 0, 0, time.UTC))
	waits := pod("a").Queue("q").Card("NVIDIA-H20").GPUs(1).
		Unschedulable("no node has <NVIDIA-H20>, 0/4 nodes are unavailable: 4 node(s) have another card than <NVIDIA-H20>.")

	count := func(granted card.Quota) metav1.Time {
		all := pods{waits}.objects()
		all[0].CreationTimestamp = created
		used := Count(Input{
			Pods:      all,
			Inventory: newInventory(),
			Nodes:     newNodes(),
			Quotas:    map[string]card.Quota{"q": granted},
		})["q"]

		check.Must(t, len(used.Blocked) == 1 && used.Blocked[0].Reason == v1alpha1.BlockedUnknownCard, "blocked %+v", used.Blocked)
		return used.OldestWithinQuota
	}
	check.Equal(t, "with quota of the card", created, count(card.Quota{"NVIDIA-H20": 8}))
	check.Equal(t, "with quota of another card", metav1.Time{}, count(card.Quota{"NVIDIA-H200": 8}))
}

// TestOldestWithinQuotaIsTheOldestThatLacksNoQuota: the alert is about pods that wait although there is
// quota. Pods full and younger wait for a free card since 10 and 11 o'clock. Older pods do not count: large
// waits for quota (the message of exhausted), cpu requests no cards, and runs does not wait. A pod waits
// since its creation.
func TestOldestWithinQuotaIsTheOldestThatLacksNoQuota(t *testing.T) {
	const full = "0/4 nodes are unavailable: 1 Insufficient nvidia.com/gpu, 3 node(s) have another card than <NVIDIA-H200>."
	at := func(hour int) time.Time { return time.Date(2026, 11, 23, hour, 0, 0, 0, time.UTC) }
	waiting := func(name, message string) *builder.PodBuilder {
		return pod(name).Queue("q").Card("NVIDIA-H200").GPUs(8).Unschedulable(message)
	}

	pods := pods{
		waiting("large", exhausted("q", 10)).Created(at(1)),
		pod("cpu").Queue("q").Unschedulable("waits").Created(at(2)), // its message names no quota
		waiting("full", full).Created(at(10)),
		waiting("younger", full).Created(at(11)),
		pod("runs").Queue("q").GPUs(8).Running("h200").Created(at(3)),
	}.objects()

	check.Equal(t, "of all pods", metav1.NewTime(at(10)), Count(Input{
		Pods:      pods,
		Inventory: newInventory(),
		Nodes:     newNodes(),
	})["q"].OldestWithinQuota)
	check.Equal(t, "without the pods full, younger and runs", metav1.Time{}, Count(Input{
		Pods:      pods[:2],
		Inventory: newInventory(),
		Nodes:     newNodes(),
	})["q"].OldestWithinQuota)
}

// TestATenantDoesNotRaiseTheStarvingAlert: any pod can select nodes that do not exist. Such a pod waits within its
// quota, but only its tenant can help, so OldestWithinQuota does not count it.
func TestATenantDoesNotRaiseTheStarvingAlert(t *testing.T) {
	waits := pod("a").Queue("q").Card("NVIDIA-H200").GPUs(1).Created(noon).
		Unschedulable("0/4 nodes are unavailable: 4 node(s) didn't match Pod's node affinity/selector.").Obj()
	used := Count(Input{
		Pods:      []*corev1.Pod{waits},
		Inventory: newInventory(),
		Nodes:     newNodes(),
		Quotas:    map[string]card.Quota{"q": {"NVIDIA-H200": 8}},
	})["q"]
	check.Must(t, len(used.Blocked) == 1 && used.Blocked[0].Reason == v1alpha1.BlockedNodesUnsuitable, "blocked %+v", used.Blocked)
	check.Equal(t, "oldest within quota", metav1.Time{}, used.OldestWithinQuota)
}

// TestAnnotationsAloneMakeNoMember: a deleted CardQuota keeps its queue until the queue has no members. Any pod or
// PodGroup can name the queue in an annotation, so that alone makes none. Our scheduler is "volcano" or
// "volcano-batch". A pod of it is a member if q takes its namespace, or if it runs with the record of its binding to
// q. A pod of another scheduler is one only while it runs with cards that are charged to q. They are if it is of
// namespace lab, or was charged before. A PodGroup is one if q takes its namespace, or if its pods run. Queue q takes
// namespace lab, not stranger.
func TestAnnotationsAloneMakeNoMember(t *testing.T) {
	// in sets scheduler and namespace of a pod of queue q.
	in := func(scheduler, namespace string, b *builder.PodBuilder) *corev1.Pod {
		return b.Scheduler(scheduler).Queue("q").With(func(p *corev1.Pod) { p.Namespace = namespace }).Obj()
	}
	groupIn := func(namespace string) *v1beta1.PodGroup {
		return builder.PodGroup(namespace, "g").Queue("q").Request(`{"NVIDIA-H200":8}`).Obj()
	}

	runningIn := func(namespace string) *v1beta1.PodGroup {
		group := groupIn(namespace)
		group.Status.Phase = v1beta1.PodGroupRunning
		group.Status.Running = 1
		return group
	}

	for t, tc := range check.Cases(t, map[string]struct {
		pods   []*corev1.Pod
		groups []*v1beta1.PodGroup
		want   Usage
	}{
		"our scheduler, lab: pending": {
			pods: []*corev1.Pod{in("volcano", "lab", pod("a"))},
			want: Usage{Members: Members{Pods: 1}},
		},
		"our scheduler's second name, lab: pending": {
			pods: []*corev1.Pod{in("volcano-batch", "lab", pod("a"))},
			want: Usage{Members: Members{Pods: 1}},
		},
		"our scheduler, lab: runs without cards": {
			pods: []*corev1.Pod{in("volcano", "lab", pod("a").Running("h200"))},
			want: Usage{Members: Members{Pods: 1}},
		},
		"another scheduler, lab: pending without cards": {pods: []*corev1.Pod{in("default-scheduler", "lab", pod("a"))}},
		"another scheduler, lab: pending, requests cards": {
			pods: []*corev1.Pod{in("default-scheduler", "lab", pod("a").GPUs(1).Unschedulable("full"))},
		},
		"another scheduler, lab: runs without cards": {
			pods: []*corev1.Pod{in("default-scheduler", "lab", pod("a").Running("h200"))},
		},
		"another scheduler, lab: terminating with cards": {
			pods: []*corev1.Pod{in("default-scheduler", "lab", pod("a").GPUs(1).Running("h200").Deleted(noon))},
		},
		"another scheduler, lab: runs with cards": {
			pods: []*corev1.Pod{in("default-scheduler", "lab", pod("a").GPUs(1).Running("h200"))},
			want: Usage{Members: Members{Pods: 1}, Used: cards{"NVIDIA-H200": 1}},
		},
		"our scheduler, stranger: pending, unschedulable": {
			pods: []*corev1.Pod{in("volcano", "stranger", pod("a").GPUs(1).Unschedulable("0/4 nodes are unavailable"))},
		},
		"our scheduler, stranger: runs with cards, and has the record of its binding": {
			pods: []*corev1.Pod{in("volcano", "stranger", pod("a").ChargedQueue("q").GPUs(1).Running("h200"))},
			want: Usage{Members: Members{Pods: 1}, Used: cards{"NVIDIA-H200": 1}},
		},
		"our scheduler, stranger: runs without cards, and has the record of its binding": {
			pods: []*corev1.Pod{in("volcano", "stranger", pod("a").ChargedQueue("q").Running("h200"))},
			want: Usage{Members: Members{Pods: 1}},
		},
		"another scheduler, stranger: runs with cards, and was charged before": {
			pods: []*corev1.Pod{in("default-scheduler", "stranger", pod("charged").GPUs(1).Running("h200"))},
			want: Usage{Members: Members{Pods: 1}, Used: cards{"NVIDIA-H200": 1}},
		},
		"our scheduler, stranger: runs with cards, without a record": {
			pods: []*corev1.Pod{in("volcano", "stranger", pod("a").GPUs(1).Running("h200"))},
		},
		"our scheduler, stranger: runs without cards and without a record": {
			pods: []*corev1.Pod{in("volcano", "stranger", pod("a").Requests("cpu", "30").Running("h200"))},
		},
		"another scheduler, stranger: runs with cards, and has a record, which it may have forged": {
			pods: []*corev1.Pod{in("default-scheduler", "stranger", pod("a").ChargedQueue("q").GPUs(1).Running("h200"))},
		},
		"another scheduler, stranger: runs without cards, and has a record": {
			pods: []*corev1.Pod{in("default-scheduler", "stranger", pod("a").ChargedQueue("q").Requests("cpu", "30").Running("h200"))},
		},
		"another scheduler, lab: runs with a resource that is a card on no node": {
			pods: []*corev1.Pod{in("default-scheduler", "lab", pod("a").ChargedQueue("q").
				Card("NVIDIA-H200").GPUs(0).Requests("evil.example/x", "1000").Running("h200"))},
		},
		"our scheduler, stranger: pending": {pods: []*corev1.Pod{in("volcano", "stranger", pod("a"))}},
		"a PodGroup of stranger, whose pods run": {
			groups: []*v1beta1.PodGroup{runningIn("stranger")},
			want:   Usage{Members: Members{PodGroups: 1}},
		},
		"a PodGroup of lab, which requests cards": {
			groups: []*v1beta1.PodGroup{groupIn("lab")},
			want:   Usage{Members: Members{PodGroups: 1}, Pending: cards{"NVIDIA-H200": 8}},
		},
		"a PodGroup of stranger, which requests cards": {groups: []*v1beta1.PodGroup{groupIn("stranger")}},
	}) {
		got := Count(Input{
			Pods:            tc.pods,
			PodGroups:       tc.groups,
			Inventory:       newInventory(),
			Nodes:           newNodes(),
			Schedulers:      []string{"volcano", "volcano-batch"},
			LastCharges:     map[types.UID]quota.Charge{"pod/lab/charged": {Queue: "q"}}, // the UID of pod charged, in any namespace
			AllowsNamespace: func(queue, namespace string) bool { return queue != "q" || namespace == "lab" },
		})
		check.Equal(t, "usage of q", tc.want, got["q"], cmpopts.EquateEmpty())
	}
}

// TestForgedWorkNeverEntersTheStatusOfAnotherTenant: a user who may write pods and PodGroups can name the queue of
// another tenant, and write a condition that blames the nodes. That would page the administrator about the other
// tenant. The pod and PodGroup of namespace tenant-b do not count for the queue of tenant a: that queue, or the one
// above it, takes only namespace tenant-a.
func TestForgedWorkNeverEntersTheStatusOfAnotherTenant(t *testing.T) {
	const nodes = "0/4 nodes are unavailable: 4 Insufficient nvidia.com/gpu."
	group := builder.PodGroup("tenant-b", "forged").Queue("queue-of-a").Created(noon.Add(-48*time.Hour)).Request(`{"NVIDIA-H200":8}`).
		MinResource("nvidia.com/gpu", "8").Unschedulable(nodes).Obj()

	forged := builder.Pod("tenant-b", "forged").Queue("queue-of-a").Card("NVIDIA-H200").GPUs(8).
		Created(noon.Add(-48 * time.Hour)).Unschedulable(nodes).Obj()
	for t, tc := range check.Cases(t, map[string]struct {
		allows func(queue, namespace string) bool
		tree   *quota.Tree
	}{
		"the queue does not take namespace tenant-b": {func(_, namespace string) bool { return namespace == "tenant-a" }, nil},
		"the queue takes namespace tenant-b, and the queue above does not": {
			func(queue, namespace string) bool { return queue == "queue-of-a" || namespace == "tenant-a" },
			treeOfParents(map[string]string{"queue-of-a": "top-of-a"}),
		},
	}) {
		usage := Count(Input{
			Pods:            []*corev1.Pod{forged},
			PodGroups:       []*v1beta1.PodGroup{group},
			Inventory:       newInventory(),
			Nodes:           newNodes(),
			Quotas:          map[string]card.Quota{"queue-of-a": {"NVIDIA-H200": 8}},
			LocalQueues:     map[string]bool{"queue-of-a": true},
			AllowsNamespace: tc.allows,
			Tree:            tc.tree,
		})["queue-of-a"]
		usage.Members = Members{} // TestAnnotationsAloneMakeNoMember is about these
		check.Equal(t, "usage", Usage{}, usage, cmpopts.EquateEmpty())
	}
}

// workloadReference is a workload as a status names it.
func workloadReference(group, kind, namespace, name string) v1alpha1.WorkloadReference {
	return v1alpha1.WorkloadReference{APIGroup: group, Kind: kind, Namespace: namespace, Name: name}
}

// TestBlockedListsTheLongestWait: a status lists 10 of the 13 workloads that wait, the longest waiting first,
// whatever the order in which pods are counted. Deployment web is first, because one of its two pods waits for an
// hour. Then come pods l to a, which wait for 11 to 0 minutes, so the tenth entry is pod d.
func TestBlockedListsTheLongestWait(t *testing.T) {
	var all pods
	for i := range 12 {
		all = append(all, pod(string(rune('a'+i))).Queue("q").Unschedulable("full").Created(noon.Add(-time.Duration(i)*time.Minute)))
	}

	all = append(all,
		pod("web-old").Queue("q").Unschedulable("full").Created(noon.Add(-time.Hour)).
			Owner("apps/v1", "ReplicaSet", "web-abc").Label("pod-template-hash", "abc"),
		pod("web-new").Queue("q").Unschedulable("full").Created(noon).
			Owner("apps/v1", "ReplicaSet", "web-abc").Label("pod-template-hash", "abc"),
	)

	for range 2 {
		got := Count(Input{Pods: all.objects(), Inventory: newInventory()})["q"]
		check.Must(t, len(got.Blocked) == 10 && got.BlockedTotal == 13, "%d of %d are listed", len(got.Blocked), got.BlockedTotal)

		check.Equal(t, "first workload", "web", got.Blocked[0].Workload.Name)
		check.Equal(t, "first waits since", noon.Add(-time.Hour), got.Blocked[0].Since.Time)
		check.Equal(t, "tenth workload", "d", got.Blocked[9].Workload.Name)
		slices.Reverse(all)
	}
}

// TestBlockedListsWorkloadsWithTheirReason: status.blocked lists workloads that wait, with the card, the count and
// the reason that the scheduler states in the conditions of pods and PodGroups. Other texts have reason Other. Pods
// of one workload for one reason are one entry.
func TestBlockedListsWorkloadsWithTheirReason(t *testing.T) {
	replica := func(name, message string) *builder.PodBuilder {
		return pod(name).Queue("q").Card("NVIDIA-H200").GPUs(2).Unschedulable(message).
			Owner("apps/v1", "ReplicaSet", "web-abc").Label("pod-template-hash", "abc")
	}

	for t, tc := range check.Cases(t, map[string]struct {
		pods   pods
		groups groups
		want   []v1alpha1.BlockedStatus
	}{
		"two pods of a Deployment, 2 cards each: one entry of 4, with the first message by alphabet": {
			pods: pods{replica("a", "second"), replica("b", "first")},
			want: []v1alpha1.BlockedStatus{{
				Workload: workloadReference("apps", "Deployment", "lab", "web"),
				Card:     "NVIDIA-H200",
				Count:    4,
				Reason:   "Other",
				Message:  "first",
			}},
		},
		"a pod with an invalid card name: blocked before the scheduler says so": {
			pods: pods{pod("a").Queue("q").Card("NVIDIA-H200 oops").GPUs(1)},
			want: []v1alpha1.BlockedStatus{{
				Workload: workloadReference("", "Pod", "lab", "a"),
				Card:     "nvidia.com/gpu",
				Count:    1,
				Reason:   "InvalidRequest",
				Message: `Pod annotation volcano.sh/card.name: card name "NVIDIA-H200 oops": the model "NVIDIA-H200 oops" must ` +
					`be a label value (letters, digits, '-', '_', '.', at most 63)`,
			}},
		},
		"a pod without a condition: the newest of its PodGroup": {
			pods:   pods{pod("a").PodGroup("g").GPUs(1).Owner("batch.volcano.sh/v1alpha1", "Job", "train")},
			groups: groups{group().Queue("q").Unschedulable("older").Unschedulable("newest")},
			want: []v1alpha1.BlockedStatus{{
				Workload: workloadReference("batch.volcano.sh", "Job", "lab", "train"),
				Card:     "nvidia.com/gpu",
				Count:    1,
				Reason:   "Other",
				Message:  "newest",
			}}},
		"a job without pods: the condition of its PodGroup": {
			groups: groups{group().Queue("q").Request(`{"NVIDIA-H200":8}`).Unschedulable("no quota").
				Owner("batch.volcano.sh/v1alpha1", "Job", "train")},
			want: []v1alpha1.BlockedStatus{{
				Workload: workloadReference("batch.volcano.sh", "Job", "lab", "train"),
				Card:     "NVIDIA-H200",
				Count:    8,
				Reason:   "Other",
				Message:  "no quota",
			}},
		},
		"a job that requests no cards": {
			groups: groups{group().Queue("q").Unschedulable("no cpu").Owner("batch/v1", "Job", "etl")},
			want: []v1alpha1.BlockedStatus{{
				Workload: workloadReference("batch", "Job", "lab", "etl"),
				Reason:   "Other",
				Message:  "no cpu",
			}},
		},
		"a pod without a condition, which no session of the scheduler has tried: no entry": {pods: pods{pod("a").Queue("q").GPUs(1)}},
		"twelve pods of the same age: the first ten by name": {
			pods: func() (all pods) {
				for i := range 12 {
					all = append(all, pod(string(rune('l'-i))).Queue("q").Unschedulable("full"))
				}
				return all
			}(),
			want: func() (want []v1alpha1.BlockedStatus) {
				for i := range 10 {
					want = append(want, v1alpha1.BlockedStatus{
						Workload: workloadReference("", "Pod", "lab", string(rune('a'+i))),
						Reason:   "Other",
						Message:  "full",
					})
				}
				return want
			}(),
		},
	}) {
		got := Count(Input{
			Pods:      tc.pods.objects(),
			PodGroups: tc.groups.objects(),
			Inventory: newInventory(),
			Nodes:     newNodes(),
		})["q"].Blocked
		check.Equal(t, "blocked", tc.want, got, cmpopts.EquateEmpty())
	}
}

// TestUsageEqualSeesEachField: the operator writes a status only if the usage differs, so Equal must see a change of
// each of these fields.
func TestUsageEqualSeesEachField(t *testing.T) {
	base := func() Usage {
		return Usage{
			Used:     cards{"A": 1},
			Repeated: cards{"A": 1},
			Pending:  cards{"A": 2},
			MilliCPU: 3,
			Memory:   4,
			Members:  Members{Pods: 5},
			Summary: waiting.Summary{
				Blocked: []v1alpha1.BlockedStatus{{Card: "w"}},
				Local:   map[string]waiting.Entries{"lab": {Total: 1, Blocked: []v1alpha1.BlockedStatus{{Card: "w"}}}},
			},
		}
	}
	check.That(t, base().Equal(base()), "a queue must equal itself")

	for name, change := range map[string]func(*Usage){
		"used":                func(q *Usage) { q.Used["A"] = 9 },
		"repeated":            func(q *Usage) { q.Repeated["A"] = 9 },
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
		"blocked cards":       func(q *Usage) { q.BlockedCards = map[v1alpha1.BlockedReason]card.Count{"NoFreeCard": 5} },
		"local":               func(q *Usage) { q.Local = map[string]waiting.Entries{"lab": {Total: 2}} },
		"local entries": func(q *Usage) {
			q.Local = map[string]waiting.Entries{"lab": {Total: 1, Blocked: []v1alpha1.BlockedStatus{{Card: "x"}}}}
		},
	} {
		changed := base()
		change(&changed)
		check.That(t, !changed.Equal(base()), "a change of %s is not seen", name)
	}
}
