package strip

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	resourcehelper "k8s.io/component-helpers/resource"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/enforcement"
	"cardquota.dev/operator/internal/queueusage"
	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/seed"
	"cardquota.dev/operator/internal/workload"
)

// draw draws one of the values.
func draw[V any](t *rapid.T, what string, values ...V) V {
	return rapid.SampledFrom(values).Draw(t, what)
}

// drawRequests draws requests of some resources.
func drawRequests(t *rapid.T, names ...corev1.ResourceName) corev1.ResourceList {
	list := corev1.ResourceList{}
	for range rapid.IntRange(0, 3).Draw(t, "resources") {
		list[draw(t, "resource", names...)] = resource.MustParse(draw(t, "quantity", "0", "1", "2", "7", "100m", "3Gi", "9007199254740993"))
	}
	return list
}

func drawContainer(t *rapid.T, name string) corev1.Container {
	requests := drawRequests(t, "cpu", "memory", "ephemeral-storage", "hugepages-2Mi", builder.GPU, "rdma/hca", "example.com/other")
	c := corev1.Container{Name: name, Image: "image", Resources: corev1.ResourceRequirements{Requests: requests, Limits: requests}}
	if rapid.IntRange(0, 3).Draw(t, "port") == 0 {
		c.Ports = []corev1.ContainerPort{{
			ContainerPort: 80,
			HostPort:      rapid.Int32Range(0, 2).Draw(t, "host port"),
			Protocol:      corev1.ProtocolTCP,
		}}
	}
	return c
}

// drawStatus draws what an in-place resize made of a container. A resize changes CPU and memory only.
func drawStatus(t *rapid.T, c *corev1.Container) corev1.ContainerStatus {
	status := corev1.ContainerStatus{Name: c.Name, ImageID: "id"}
	if rapid.Bool().Draw(t, "has resources") {
		status.Resources = &corev1.ResourceRequirements{Requests: drawRequests(t, "cpu", "memory")}
	}
	if rapid.Bool().Draw(t, "has allocated resources") {
		status.AllocatedResources = drawRequests(t, "cpu", "memory")
	}
	return status
}

func drawContainers(t *rapid.T, pod *corev1.Pod) {
	for i := range rapid.IntRange(1, 4).Draw(t, "containers") {
		pod.Spec.Containers = append(pod.Spec.Containers, drawContainer(t, fmt.Sprint("c", i)))
	}

	for i := range rapid.IntRange(0, 4).Draw(t, "init containers") {
		c := drawContainer(t, fmt.Sprint("i", i))
		c.RestartPolicy = draw(t, "restart policy", nil, ptr.To(corev1.ContainerRestartPolicyAlways))
		pod.Spec.InitContainers = append(pod.Spec.InitContainers, c)
	}

	if rapid.Bool().Draw(t, "has statuses") {
		for i := range pod.Spec.Containers {
			pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, drawStatus(t, &pod.Spec.Containers[i]))
		}
		for i := range pod.Spec.InitContainers {
			pod.Status.InitContainerStatuses = append(pod.Status.InitContainerStatuses, drawStatus(t, &pod.Spec.InitContainers[i]))
		}
	}

	pod.Spec.Overhead = draw(t, "overhead", nil, corev1.ResourceList{"cpu": resource.MustParse("250m")})
	if rapid.IntRange(0, 2).Draw(t, "pod-level") == 0 {
		list := drawRequests(t, "cpu", "memory", "hugepages-2Mi")
		pod.Spec.Resources = &corev1.ResourceRequirements{Requests: list, Limits: list}
	}

	if reason := draw(t, "resize", "", corev1.PodReasonInfeasible, corev1.PodReasonDeferred); reason != "" {
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{
			Type:   corev1.PodResizePending,
			Status: corev1.ConditionTrue,
			Reason: reason,
		})
	}
}

// drawPod draws a pod with all that readers of the cache look at.
func drawPod(t *rapid.T) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "lab", Name: "p", UID: "u", CreationTimestamp: metav1.NewTime(time.Unix(1000, 0)),
		Labels: map[string]string{}, Annotations: map[string]string{"example.com/notes": "x"},
	}}

	for _, written := range []struct {
		key    string
		values []string
	}{
		{"volcano.sh/card.name", []string{"NVIDIA-H200", "NVIDIA-H800", "NVIDIA-H200|NVIDIA-H800", "NVIDIA H200", ""}},
		{"volcano.sh/card.request", []string{`{"NVIDIA-H200":9}`}},
		{"scheduling.volcano.sh/queue-name", []string{"q", "r"}},
		{"volcano.sh/queue-name", []string{"s"}},
		{"cardquota.dev/charged-queue", []string{"q", "t"}},
		{"scheduling.k8s.io/group-name", []string{"g"}},
	} {
		if value := draw(t, written.key, append(written.values, "-", "-")...); value != "-" {
			pod.Annotations[written.key] = value
		}
	}

	pod.Spec.NodeName = draw(t, "node", "", "node", "gone")
	pod.Spec.SchedulerName = draw(t, "scheduler", "volcano", "other")
	pod.Spec.SchedulingGates = draw(t, "gates", nil, nil, []corev1.PodSchedulingGate{{Name: "a"}, {Name: "b"}})
	pod.Status.Phase = draw(t, "phase", corev1.PodPending, corev1.PodPending, corev1.PodRunning, "", corev1.PodFailed)
	pod.DeletionTimestamp = draw(t, "deleted", nil, nil, &metav1.Time{Time: time.Unix(5000, 0)})
	pod.Status.StartTime = draw(t, "start", nil, &metav1.Time{Time: time.Unix(2000, 0)})
	if status := draw(t, "scheduled", "", corev1.ConditionFalse, corev1.ConditionTrue); status != "" {
		message := draw(t, "message", "", "0/2 nodes are unavailable: 2 Insufficient nvidia.com/gpu.",
			"Queue <q> has insufficient <NVIDIA-H200> quota: requested <2>, total would be <9>, but capability is <8>",
			"pod group is not ready, 2 Pending, 2 minAvailable; Pending: 1 Unschedulable; lab/p can possibly be assigned to "+
				"node, once minAvailable is satisfied")
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: corev1.PodReady}, corev1.PodCondition{
			Type:               corev1.PodScheduled,
			Status:             status,
			Reason:             "Unschedulable",
			Message:            message,
			LastTransitionTime: metav1.NewTime(time.Unix(1500, 0)),
		})
	}

	if rapid.Bool().Draw(t, "owned") {
		pod.OwnerReferences = []metav1.OwnerReference{
			{Kind: "ConfigMap", Name: "c"},
			{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web-x", Controller: ptr.To(true)},
		}
		pod.Labels["pod-template-hash"] = draw(t, "hash", "x", "y")
	}

	pod.ManagedFields = draw(t, "managed fields", nil, managedFields(`{"f:spec":{"f:containers":{}}}`),
		managedFields(`{"f:status":{}}`, `{"f:spec":{"f:containers":{},"f:nodeName":{}}}`))
	drawContainers(t, pod)
	return pod
}

// requestsByName returns requests that are not zero, as texts.
func requestsByName(list corev1.ResourceList) map[string]string {
	out := map[string]string{}
	for name, quantity := range list {
		if !quantity.IsZero() {
			out[string(name)] = quantity.AsDec().String()
		}
	}
	return out
}

// expectSameRequests: the functions of Kubernetes find the same requests in both pods.
func expectSameRequests(t *rapid.T, whole, kept *corev1.Pod) {
	for i := range 8 {
		options := resourcehelper.PodResourcesOptions{UseStatusResources: i&1 > 0, SkipPodLevelResources: i&2 > 0, ExcludeOverhead: i&4 > 0}
		check.Equal(t, fmt.Sprintf("requests with %+v", options), requestsByName(resourcehelper.PodRequests(whole, options)),
			requestsByName(resourcehelper.PodRequests(kept, options)))
	}
}

// expectSameFacts: package workload, the usage count and the search for bypasses find the same in both pods.
func expectSameFacts(t *rapid.T, whole, kept *corev1.Pod) {
	inventory := newInventory()
	group := draw(t, "group", nil, &v1beta1.PodGroup{
		ObjectMeta: metav1.ObjectMeta{Namespace: "lab", Name: "g"},
		Spec:       v1beta1.PodGroupSpec{Queue: "q", MinMember: 3},
		Status:     v1beta1.PodGroupStatus{Running: 1},
	})

	schedulers := draw(t, "schedulers", nil, []string{"volcano"})
	resolver := workload.Resolver{Inventory: inventory, Schedulers: schedulers}
	check.Equal(t, "request", resolver.Request(whole), resolver.Request(kept), cmp.AllowUnexported(card.Request{}))
	check.Equal(t, "charge", resolver.Usage(whole, group, nil), resolver.Usage(kept, group, nil))

	describe := func(pod *corev1.Pod) string {
		return fmt.Sprint(workload.IsAssigned(pod), workload.IsPending(pod), workload.IsTerminating(pod), workload.MayBeRunning(pod),
			workload.StartTime(pod), workload.ReferenceFor(pod),
			workload.PodGroupName(pod), workload.ChargedQueue(pod), queueusage.PlacedSince(pod), enforcement.ProvenanceOf(pod))
	}
	check.Equal(t, "facts", describe(whole), describe(kept))

	count := func(pod *corev1.Pod, group *v1beta1.PodGroup) (map[string]queueusage.Usage, map[types.UID]quota.Charge) {
		input := queueusage.Input{
			Pods:            []*corev1.Pod{pod},
			Inventory:       inventory,
			Schedulers:      schedulers,
			ListsAllBlocked: true,
			Quotas:          map[string]card.Quota{"q": {"NVIDIA-H200": 8}},
		}
		if group != nil {
			input.PodGroups = []*v1beta1.PodGroup{group}
		}
		return queueusage.CountWithCharges(input)
	}

	wholeUsage, wholeCharges := count(whole, group)
	if group != nil {
		group = PodGroup(group)
	}

	keptUsage, keptCharges := count(kept, group)
	check.Equal(t, "usage", wholeUsage, keptUsage, cmpopts.EquateEmpty())
	check.Equal(t, "charges", wholeCharges, keptCharges)

	ours := []string{"volcano"}
	check.Equal(t, "bypasses", enforcement.FindBypasses([]*corev1.Pod{whole}, wholeCharges, inventory, ours, enforcement.FirstProvenance{}),
		enforcement.FindBypasses([]*corev1.Pod{kept}, keptCharges, inventory, ours, enforcement.FirstProvenance{}))
}

// TestReadersFindTheSameInAStrippedPod: the operator keeps pods with one container and without what it does not read.
// In random pods, each reader of its cache finds the same before and after. Kubernetes' functions find the requests
// (expectSameRequests), our packages the request, charge, state, usage and bypasses (expectSameFacts). The given pod
// does not change. A pod that is stripped twice is the same as after once.
func TestReadersFindTheSameInAStrippedPod(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		whole := drawPod(t)
		before := whole.DeepCopy()
		kept := Pod(whole)
		check.Equal(t, "the given pod", before, whole)
		check.Equal(t, "containers", 1, len(kept.Spec.Containers))
		check.That(t, len(kept.Spec.InitContainers) <= 1, "%d init containers are kept", len(kept.Spec.InitContainers))
		check.That(t, len(kept.Status.ContainerStatuses) <= 1, "%d statuses are kept", len(kept.Status.ContainerStatuses))

		expectSameRequests(t, whole, kept)
		expectSameFacts(t, whole, kept)
		check.Equal(t, "a pod that is stripped twice", kept, Pod(kept), cmpopts.EquateEmpty())
	})
}

// TestPodsWithEqualRequestsShareThem: most pods request the same, so stripped pods share one container with these
// requests. Random pods keep what they request, whatever the pods before them request. Two pods with equal requests,
// written as 1 and 1000m CPU, share a container. The number of known requests is bounded.
func TestPodsWithEqualRequestsShareThem(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		var pods Pods
		for range rapid.IntRange(1, 8).Draw(t, "pods") {
			whole := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: drawRequests(t,
				"cpu", "memory", builder.GPU)}}}}}
			expectSameRequests(t, whole, pods.Strip(whole))
		}
	})

	var pods Pods
	one := pods.Strip(builder.Pod("lab", "a").GPUs(2).CPU("1").Obj())
	same := pods.Strip(builder.Pod("lab", "b").CPU("1000m").GPUs(2).Obj())
	check.That(t, &one.Spec.Containers[0] == &same.Spec.Containers[0], "equal requests are not shared")
	for i := range 2 * maxKnownRequests {
		pods.Strip(builder.Pod("lab", "c").GPUs(i).Obj())
		check.Must(t, len(pods.known) <= maxKnownRequests, "%d requests are known", len(pods.known))
	}
}

// TestReadersFindTheSameInAListedPod: commands and the simulated scheduler strip the pods that they list. They
// need host ports and scheduling gates, too, which ListedPod keeps. In random pods these readers find the same
// before and after.
func TestReadersFindTheSameInAListedPod(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		whole := drawPod(t)
		kept := whole.DeepCopy()
		ListedPod(kept)
		expectSameRequests(t, whole, kept)
		expectSameFacts(t, whole, kept)
		check.Equal(t, "host ports", workload.HostPorts(&whole.Spec), workload.HostPorts(&kept.Spec))
		check.Equal(t, "gates", whole.Spec.SchedulingGates, kept.Spec.SchedulingGates)
	})
}

// managedFields are entries with these fields.
func managedFields(texts ...string) (fields []metav1.ManagedFieldsEntry) {
	for _, text := range texts {
		fields = append(fields, metav1.ManagedFieldsEntry{Manager: "kubectl", FieldsV1: &metav1.FieldsV1{Raw: []byte(text)}})
	}
	return fields
}
