package strip

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/conditions"
	"cardquota.dev/operator/internal/queueusage"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/workload"
)

// newInventory has one node, named node, with 8 NVIDIA-H200.
func newInventory() *card.Inventory {
	return card.NewInventory(map[string]card.Node{"node": {Model: "NVIDIA-H200",
		Cards: []card.NodeCard{{Name: "NVIDIA-H200", Resource: "nvidia.com/gpu", Count: 8}}}})
}

// TestAStrippedPodGroupCountsTheSame: the operator keeps PodGroups without what it does not read. Whatever a
// PodGroup says, it counts the same after it is stripped, alone and with a waiting pod, and its metadata is
// small. The PodGroup is Inqueue (Volcano may create its pods) in queue q, with a minimum of 3 pods and
// minResources of 4 GPUs. Each row changes it. Condition PodGroupCardsRefused says to programs what condition
// Unschedulable says to people. It counts only if both have the same transitionID, here "t".
func TestAStrippedPodGroupCountsTheSame(t *testing.T) {
	unschedulable := func(status corev1.ConditionStatus, reason, message string) v1beta1.PodGroupCondition {
		return v1beta1.PodGroupCondition{
			Type:         v1beta1.PodGroupUnschedulableType,
			Status:       status,
			TransitionID: "t",
			Reason:       reason,
			Message:      message,
		}
	}

	for t, change := range check.Cases(t, map[string]func(*v1beta1.PodGroup){
		"only minResources":   func(*v1beta1.PodGroup) {},
		"a card.request of 8": func(g *v1beta1.PodGroup) { g.Annotations["volcano.sh/card.request"] = `{"NVIDIA-H200":8}` },
		"a card.request with 100 KiB of spaces": func(g *v1beta1.PodGroup) {
			g.Annotations["volcano.sh/card.request"] = `{"NVIDIA-H200":8}` + strings.Repeat(" ", 100<<10)
		},
		"minResources with all resources of a job": func(g *v1beta1.PodGroup) {
			for _, name := range []string{"cpu", "memory", "pods", "count/pods", "requests.cpu", "limits.nvidia.com/gpu", "requests.nvidia.com/gpu"} {
				(*g.Spec.MinResources)[corev1.ResourceName(name)] = resource.MustParse("4")
			}
		},
		"no minResources":  func(g *v1beta1.PodGroup) { g.Spec.MinResources = nil },
		"completed":        func(g *v1beta1.PodGroup) { g.Status.Phase = v1beta1.PodGroupCompleted },
		"a phase of 1 MiB": func(g *v1beta1.PodGroup) { g.Status.Phase = v1beta1.PodGroupPhase(strings.Repeat("p", 1<<20)) },
		"being deleted":    func(g *v1beta1.PodGroup) { g.DeletionTimestamp = &metav1.Time{} },
		"unschedulable": func(g *v1beta1.PodGroup) {
			g.Status.Conditions = []v1beta1.PodGroupCondition{unschedulable(corev1.ConditionTrue, "NotEnoughResources", "full")}
		},
		"unschedulable for an old and a new reason, and other conditions": func(g *v1beta1.PodGroup) {
			g.Status.Conditions = []v1beta1.PodGroupCondition{
				unschedulable(corev1.ConditionTrue, "Old", "old"),
				unschedulable(corev1.ConditionTrue, "New", "new"),
				unschedulable(corev1.ConditionFalse, "No", "no"),
				{Type: v1beta1.PodGroupScheduled, Status: corev1.ConditionTrue, Reason: "Else"},
			}
		},
		"not unschedulable any more": func(g *v1beta1.PodGroup) {
			g.Status.Conditions = []v1beta1.PodGroupCondition{unschedulable(corev1.ConditionFalse, "No", "no")}
		},
		"unschedulable, with a long reason and message": func(g *v1beta1.PodGroup) {
			g.Status.Conditions = []v1beta1.PodGroupCondition{unschedulable(corev1.ConditionTrue, strings.Repeat("卡", 1000),
				strings.Repeat("卡", 100<<10))}
		},
		"running in a namespace that its queue does not select": func(g *v1beta1.PodGroup) {
			g.Namespace = "elsewhere"
			g.Status.Phase = v1beta1.PodGroupRunning
			g.Status.Running = 3
		},
		"running below its minimum": func(g *v1beta1.PodGroup) {
			g.Status.Phase = v1beta1.PodGroupUnknown
			g.Status.Running = 1
		},
		"refused for programs, in other words than for people": func(g *v1beta1.PodGroup) {
			refusal := workload.Refusal{Code: workload.CodeCardQuota, Queue: "q", Cards: "NVIDIA-H200", Requested: 3, Total: 9, Limit: 8}
			refused := unschedulable(corev1.ConditionTrue, "InsufficientScalarQuota", refusal.Data())
			refused.Type = workload.PodGroupCardsRefused
			g.Status.Conditions = []v1beta1.PodGroupCondition{unschedulable(corev1.ConditionTrue, "InsufficientScalarQuota", "in other words"), refused}
		},
		"refused for programs at another time": func(g *v1beta1.PodGroup) {
			refused := unschedulable(corev1.ConditionTrue, "", `{"code":"QueueNotOpen"}`)
			refused.Type = workload.PodGroupCardsRefused
			refused.TransitionID = "earlier"
			g.Status.Conditions = []v1beta1.PodGroupCondition{unschedulable(corev1.ConditionTrue, "InsufficientScalarQuota", "in other words"), refused}
		},
		"without a queue": func(g *v1beta1.PodGroup) { g.Spec.Queue = "" },
	}) {
		whole := &v1beta1.PodGroup{
			ObjectMeta: newHeavyMeta(nil),
			Spec: v1beta1.PodGroupSpec{Queue: "q", MinMember: 3,
				MinResources: &corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("4")}},
			Status: v1beta1.PodGroupStatus{Phase: v1beta1.PodGroupInqueue},
		}

		change(whole)
		stripped := PodGroup(whole.DeepCopy())
		got := weightOf(stripped.ObjectMeta)
		check.That(t, got <= card.MaxTotalsText+1000, "the metadata weighs %d bytes", got)
		check.Equal(t, "count of the PodGroup", countOf(whole), countOf(stripped))

		waits := builder.Pod(whole.Namespace, "waits").PodGroup(whole.Name).Queue(whole.Spec.Queue).GPUs(2).Unschedulable("full").Obj()
		check.Equal(t, "count of the PodGroup and a waiting pod", countOf(whole, waits), countOf(stripped, waits))
		check.Equal(t, "queue", workload.PodGroupQueue(whole), workload.PodGroupQueue(stripped))
	}
}

// countOf is what a count makes of one PodGroup and pods of it, as the status shows it. The queue
// takes no work of the namespace elsewhere.
func countOf(group *v1beta1.PodGroup, pods ...*corev1.Pod) map[string]queueusage.Usage {
	queues := queueusage.Count(queueusage.Input{PodGroups: []*v1beta1.PodGroup{group}, Pods: pods, Inventory: newInventory(),
		AllowsNamespace: func(_, namespace string) bool { return namespace != "elsewhere" }})
	for _, queue := range queues {
		for i := range queue.Blocked {
			b := &queue.Blocked[i]
			b.Message = conditions.Truncate(b.Message, conditions.MaxMessageLength)
		}
	}
	return queues
}

// TestAHeavyPodGroupWeighsLittleInTheCache: a tenant can write each field of a PodGroup up to the size of an
// object, 1 MiB and more. A stripped PodGroup takes at most 8 KiB as JSON, and keeps the 4 cards that the job
// requests in minResources.
func TestAHeavyPodGroupWeighsLittleInTheCache(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	fourGPUsAnd := func(format string, n int) *corev1.ResourceList {
		list := corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("4")}
		for i := range n {
			list[corev1.ResourceName(fmt.Sprintf(format, i))] = resource.MustParse("1")
		}
		return &list
	}

	for t, change := range check.Cases(t, map[string]func(*v1beta1.PodGroup){
		"10,000 conditions": func(g *v1beta1.PodGroup) {
			for i := range 10000 {
				g.Status.Conditions = append(g.Status.Conditions, v1beta1.PodGroupCondition{Type: v1beta1.PodGroupUnschedulableType,
					Status: corev1.ConditionTrue, TransitionID: strconv.Itoa(i), Reason: "r", Message: strings.Repeat("m", 100)})
			}
		},
		"a condition with a reason and a message of 1 MiB": func(g *v1beta1.PodGroup) {
			g.Status.Conditions = []v1beta1.PodGroupCondition{{
				Type:    v1beta1.PodGroupUnschedulableType,
				Status:  corev1.ConditionTrue,
				Reason:  long,
				Message: long,
			}}
		},
		"a condition of another type, with a message of 1 MiB": func(g *v1beta1.PodGroup) {
			g.Status.Conditions = []v1beta1.PodGroupCondition{{Message: long}}
		},
		"50,000 resources":                   func(g *v1beta1.PodGroup) { g.Spec.MinResources = fourGPUsAnd("r%d", 50000) },
		"50,000 extended resources":          func(g *v1beta1.PodGroup) { g.Spec.MinResources = fourGPUsAnd("z.example/r%d", 50000) },
		"extended resources with long names": func(g *v1beta1.PodGroup) { g.Spec.MinResources = fourGPUsAnd("a.example/%0100000d", 10) },
		"a phase of 1 MiB":                   func(g *v1beta1.PodGroup) { g.Status.Phase = v1beta1.PodGroupPhase(long) },
		"a queue of 1 MiB":                   func(g *v1beta1.PodGroup) { g.Spec.Queue = long },
		"an owner with texts of 1 MiB": func(g *v1beta1.PodGroup) {
			g.OwnerReferences = []metav1.OwnerReference{{APIVersion: long, Kind: long, Name: long, UID: types.UID(long), Controller: ptr.To(true)}}
		},
	}) {
		whole := &v1beta1.PodGroup{
			ObjectMeta: metav1.ObjectMeta{Namespace: "lab", Name: "g"},
			Spec:       v1beta1.PodGroupSpec{Queue: "q", MinResources: fourGPUsAnd("", 0)},
		}
		change(whole)
		stripped := PodGroup(whole.DeepCopy())
		got := sizeOf(t, stripped)
		check.That(t, got <= 8<<10, "the stripped PodGroup weighs %d bytes of %d", got, sizeOf(t, whole))

		kept := (*stripped.Spec.MinResources)["nvidia.com/gpu"]
		check.Equal(t, "cards that the job requests", 4, kept.Value())
	}
}

// sizeOf is roughly how many bytes an object has.
func sizeOf(t *testing.T, object any) int {
	return len(check.Value(json.Marshal(object))(t))
}
