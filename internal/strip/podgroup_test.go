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
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/cardquota"
	"cardquota.dev/operator/internal/conditions"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/workload"
)

func h200() *card.Inventory {
	return card.NewInventory(map[string]card.Node{"node": {Model: "NVIDIA-H200",
		Cards: []card.NodeCard{{Name: "NVIDIA-H200", Resource: "nvidia.com/gpu", Count: 8}}}})
}

// TestStrippedPodGroupsCountAlike fills what may matter and compares.
func TestStrippedPodGroupsCountAlike(t *testing.T) {
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
		"minResources": func(*v1beta1.PodGroup) {},
		"card.request": func(g *v1beta1.PodGroup) { g.Annotations["volcano.sh/card.request"] = `{"NVIDIA-H200":8}` },
		"a card.request too long": func(g *v1beta1.PodGroup) {
			g.Annotations["volcano.sh/card.request"] = `{"NVIDIA-H200":8}` + strings.Repeat(" ", 100<<10)
		},
		"all resources of a job": func(g *v1beta1.PodGroup) {
			for _, name := range []string{"cpu", "memory", "pods", "count/pods", "requests.cpu", "limits.nvidia.com/gpu", "requests.nvidia.com/gpu"} {
				(*g.Spec.MinResources)[corev1.ResourceName(name)] = resource.MustParse("4")
			}
		},
		"no minResources":  func(g *v1beta1.PodGroup) { g.Spec.MinResources = nil },
		"completed":        func(g *v1beta1.PodGroup) { g.Status.Phase = v1beta1.PodGroupCompleted },
		"of no such phase": func(g *v1beta1.PodGroup) { g.Status.Phase = v1beta1.PodGroupPhase(strings.Repeat("p", 1<<20)) },
		"being deleted":    func(g *v1beta1.PodGroup) { g.DeletionTimestamp = &metav1.Time{} },
		"blocked": func(g *v1beta1.PodGroup) {
			g.Status.Conditions = []v1beta1.PodGroupCondition{unschedulable(corev1.ConditionTrue, "NotEnoughResources", "full")}
		},
		"blocked for a second reason": func(g *v1beta1.PodGroup) {
			g.Status.Conditions = []v1beta1.PodGroupCondition{
				unschedulable(corev1.ConditionTrue, "Old", "old"),
				unschedulable(corev1.ConditionTrue, "New", "new"),
				unschedulable(corev1.ConditionFalse, "No", "no"),
				{Type: v1beta1.PodGroupScheduled, Status: corev1.ConditionTrue, Reason: "Else"},
			}
		},
		"not blocked": func(g *v1beta1.PodGroup) {
			g.Status.Conditions = []v1beta1.PodGroupCondition{unschedulable(corev1.ConditionFalse, "No", "no")}
		},
		"blocked in many words": func(g *v1beta1.PodGroup) {
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
		"of no queue": func(g *v1beta1.PodGroup) { g.Spec.Queue = "" },
	}) {
		whole := &v1beta1.PodGroup{
			ObjectMeta: heavy(nil),
			Spec: v1beta1.PodGroupSpec{Queue: "q", MinMember: 3,
				MinResources: &corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("4")}},
			Status: v1beta1.PodGroupStatus{Phase: v1beta1.PodGroupInqueue},
		}

		change(whole)
		stripped := PodGroup(whole.DeepCopy())
		got := weight(stripped.ObjectMeta)
		check.That(t, got <= card.MaxTotalsText+1000, "its metadata weighs %d bytes", got)
		check.Equal(t, "the stripped PodGroup counts differently", shownOf(whole), shownOf(stripped))

		waits := builder.Pod(whole.Namespace, "waits").PodGroup(whole.Name).Queue(whole.Spec.Queue).GPUs(2).Unschedulable("full").Obj()
		check.Equal(t, "a pod of the stripped PodGroup counts differently", shownOf(whole, waits), shownOf(stripped, waits))
		is := workload.PodGroupQueue(stripped)
		was := workload.PodGroupQueue(whole)
		check.That(t, is == was, "it is in queue %s, as a whole in %s", is, was)
	}
}

// shownOf is what a count makes of one PodGroup and pods of it, as the status shows it. The queue
// takes no work of the namespace elsewhere.
func shownOf(group *v1beta1.PodGroup, pods ...*corev1.Pod) map[string]cardquota.Usage {
	queues := cardquota.CountUsage(cardquota.CountInput{PodGroups: []*v1beta1.PodGroup{group}, Pods: pods, Inventory: h200(),
		AllowsNamespace: func(_, namespace string) bool { return namespace != "elsewhere" }})
	for _, queue := range queues {
		for i := range queue.Blocked {
			b := &queue.Blocked[i]
			b.Message = conditions.Truncate(b.Message, conditions.MaxMessageLength)
		}
	}
	return queues
}

// TestAHeavyPodGroupWeighsLittleInTheCache: all of it is its tenant's to write,
// up to the size of an object.
func TestAHeavyPodGroupWeighsLittleInTheCache(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	yes := true
	many := func(format string, n int) *corev1.ResourceList {
		list := corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("4")}
		for i := range n {
			list[corev1.ResourceName(fmt.Sprintf(format, i))] = resource.MustParse("1")
		}
		return &list
	}

	for t, change := range check.Cases(t, map[string]func(*v1beta1.PodGroup){
		"conditions": func(g *v1beta1.PodGroup) {
			for i := range 10000 {
				g.Status.Conditions = append(g.Status.Conditions, v1beta1.PodGroupCondition{Type: v1beta1.PodGroupUnschedulableType,
					Status: corev1.ConditionTrue, TransitionID: strconv.Itoa(i), Reason: "r", Message: strings.Repeat("m", 100)})
			}
		},
		"one condition": func(g *v1beta1.PodGroup) {
			g.Status.Conditions = []v1beta1.PodGroupCondition{{
				Type:    v1beta1.PodGroupUnschedulableType,
				Status:  corev1.ConditionTrue,
				Reason:  long,
				Message: long,
			}}
		},
		"another condition":       func(g *v1beta1.PodGroup) { g.Status.Conditions = []v1beta1.PodGroupCondition{{Message: long}} },
		"resources":               func(g *v1beta1.PodGroup) { g.Spec.MinResources = many("r%d", 50000) },
		"extended resources":      func(g *v1beta1.PodGroup) { g.Spec.MinResources = many("z.example/r%d", 50000) },
		"long extended resources": func(g *v1beta1.PodGroup) { g.Spec.MinResources = many("a.example/%0100000d", 10) },
		"its phase":               func(g *v1beta1.PodGroup) { g.Status.Phase = v1beta1.PodGroupPhase(long) },
		"its queue":               func(g *v1beta1.PodGroup) { g.Spec.Queue = long },
		"its owner": func(g *v1beta1.PodGroup) {
			g.OwnerReferences = []metav1.OwnerReference{{APIVersion: long, Kind: long, Name: long, UID: types.UID(long), Controller: &yes}}
		},
	}) {
		whole := &v1beta1.PodGroup{
			ObjectMeta: metav1.ObjectMeta{Namespace: "lab", Name: "g"},
			Spec:       v1beta1.PodGroupSpec{Queue: "q", MinResources: many("", 0)},
		}
		change(whole)
		stripped := PodGroup(whole.DeepCopy())
		got := size(t, stripped)
		check.That(t, got <= 8<<10, "it weighs %d bytes of %d", got, size(t, whole))

		_, kept := (*stripped.Spec.MinResources)["nvidia.com/gpu"]
		check.That(t, kept, "what the job asks for is not kept")
	}
}

// size is roughly how many bytes an object holds.
func size(t *testing.T, object any) int {
	return len(check.Value(json.Marshal(object))(t))
}
