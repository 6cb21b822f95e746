package strip

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/workload"
)

const (
	// maxKept is what one object may take in the operator's cache, maxListed in a list of the CLI.
	maxKept   = 64 << 10
	maxListed = 256 << 10
)

// heapPerObject returns how much of the heap one of the objects takes that newObject returns.
func heapPerObject[T any](newObject func() T) int {
	const count = 2
	kept := make([]T, count)
	before := heapInUse()
	for i := range kept {
		kept[i] = newObject()
	}
	each := (int(heapInUse()) - int(before)) / count
	runtime.KeepAlive(kept)
	return each
}

func heapInUse() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// worstPods returns the worst pods as the API server returns them, some also with a status of each
// container.
func worstPods() map[string]*corev1.Pod {
	pods := builder.WorstPods("lab")
	for _, pod := range pods {
		workload.DefaultRequests(pod)
	}

	for _, what := range []string{"limits", "long-resources"} {
		pod := pods[what].DeepCopy()
		for _, c := range pod.Spec.Containers {
			pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{
				Name:               c.Name,
				AllocatedResources: c.Resources.Requests,
				Resources:          &c.Resources,
			})
		}
		for range 100 {
			pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{
				Type:    corev1.PodScheduled,
				Reason:  strings.Repeat("r", 8<<10),
				Message: strings.Repeat("m", 8<<10),
			})
		}
		pods[what+" with statuses"] = pod
	}

	return pods
}

// TestTwoHundredOfTheWorstPodsTakeLittle: any tenant may create the largest pods that the API accepts, and the
// operator keeps all pods. Each takes at most 64 KiB of the operator's heap, so 200 of them take 13 MiB. In the
// list of a command each takes at most 256 KiB.
func TestTwoHundredOfTheWorstPodsTakeLittle(t *testing.T) {
	for t, whole := range check.Cases(t, worstPods()) {
		each := heapPerObject(func() *corev1.Pod { return Pod(whole.DeepCopy()) })
		check.That(t, each <= maxKept, "%d bytes are kept of %d", each, whole.Size())

		listed := heapPerObject(func() *corev1.Pod {
			pod := whole.DeepCopy()
			ListedPod(pod)
			return pod
		})
		check.That(t, listed <= maxListed, "%d bytes are kept of each in a list", listed)
	}
}

// TestALargeListedPodKeepsWhatCounts: a pod that a command lists loses its 4,000 labels. It keeps its charge,
// its priority and its priority class.
func TestALargeListedPodKeepsWhatCounts(t *testing.T) {
	whole := builder.Pod("lab", "p").Queue("q").Card("NVIDIA-H200").GPUs(2).Priority(7).PriorityClass("high").Running("node").Obj()
	whole.Labels = map[string]string{}
	for i := range 4_000 {
		whole.Labels[fmt.Sprintf("example.com/l%05d", i)] = strings.Repeat("v", 60)
	}
	kept := whole.DeepCopy()
	ListedPod(kept)
	resolver := workload.Resolver{Inventory: newInventory()}
	check.Equal(t, "charge", resolver.Usage(whole, nil, nil), resolver.Usage(kept, nil, nil))
	check.That(t, len(kept.Labels) == 0 && *kept.Spec.Priority == 7 && kept.Spec.PriorityClassName == "high",
		"it keeps %d labels and class %s", len(kept.Labels), kept.Spec.PriorityClassName)
}

// TestCardsAreKeptOfTooManyResources: a pod requests 500 resources beside CPU, memory and cards. At most maxResources
// are kept: CPU, memory and cards first, then the others by name.
func TestCardsAreKeptOfTooManyResources(t *testing.T) {
	pod := builder.Pod("lab", "p").CPU("4").Memory("1Gi").GPUs(2).With(func(pod *corev1.Pod) {
		for i := range 500 {
			name := corev1.ResourceName(fmt.Sprintf("a.example/r%03d", i))
			pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{
				Name:      fmt.Sprint(i),
				Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{name: resource.MustParse("1")}},
			})
		}
	}).Obj()

	kept := Pod(pod).Spec.Containers[0].Resources.Requests
	check.Equal(t, "resources", maxResources, len(kept))
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, builder.GPU, "a.example/r000"} {
		quantity := kept[name]
		check.That(t, quantity.Sign() > 0, "%s is not kept", name)
	}
}

// TestAForeignLocalCardQuotaIsKeptAsItsName: the operator keeps the LocalCardQuotas of all namespaces. Of the
// metadata it keeps only namespace, name, UID, version, deletion and up to two owners. One that the operator made
// has the CardQuota of its name as the only owner, and keeps its status. A tenant can write others, which keep no
// status. By a finalizer they stay although the operator deletes them, as all of these rows. Each takes at most
// 64 KiB of memory.
func TestAForeignLocalCardQuotaIsKeptAsItsName(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	now := metav1.Now()
	ours := []metav1.OwnerReference{{APIVersion: v1alpha1.GroupVersion.String(), Kind: "CardQuota", Name: "research", UID: "u"}}
	for t, tc := range check.Cases(t, map[string]struct {
		owners     []metav1.OwnerReference
		wantStatus bool
	}{
		"owned by the CardQuota of its name": {
			owners:     ours,
			wantStatus: true,
		},
		"without an owner": {},
		"with two owners": {
			owners: append(ours[:1:1], ours[0]),
		},
		"with three owners, of which two are kept": {
			owners: append(ours[:1:1], ours[0], ours[0]),
		},
		"owned by another kind, with texts of 1 MiB": {
			owners: []metav1.OwnerReference{{APIVersion: long, Kind: long, Name: long, UID: types.UID(long), Controller: ptr.To(true)}},
		},
		"owned by another CardQuota": {
			owners: []metav1.OwnerReference{{APIVersion: "cardquota.dev/v1alpha1", Kind: "CardQuota", Name: "other", UID: "u"}},
		},
	}) {
		view := &v1alpha1.LocalCardQuota{
			ObjectMeta: metav1.ObjectMeta{
				Namespace:         "lab",
				Name:              "research",
				UID:               "v",
				ResourceVersion:   "7",
				DeletionTimestamp: &now,
				OwnerReferences:   tc.owners,
				Annotations:       map[string]string{"a/b": long},
				Labels:            map[string]string{"a": long},
				Finalizers:        []string{long},
				ManagedFields:     []metav1.ManagedFieldsEntry{{Manager: long}},
			},
			Status: v1alpha1.LocalCardQuotaStatus{Queue: "research", Summary: "8 of 8"},
		}

		kept := LocalCardQuota(view)
		want := metav1.ObjectMeta{
			Namespace:         "lab",
			Name:              "research",
			UID:               "v",
			ResourceVersion:   "7",
			DeletionTimestamp: &now,
			OwnerReferences:   kept.OwnerReferences,
		}
		check.Equal(t, "metadata", want, kept.ObjectMeta)
		check.Equal(t, "number of owners", min(2, len(tc.owners)), len(kept.OwnerReferences))
		check.Equal(t, "keeps its status", tc.wantStatus, kept.Status.Queue != "")
		each := heapPerObject(func() *v1alpha1.LocalCardQuota { return LocalCardQuota(view.DeepCopy()) })
		check.That(t, each <= maxKept, "%d bytes are kept of each", each)
	}
}

// TestALargeListedPodGroupTakesLittle: a tenant can write any annotations and conditions into a PodGroup. One
// that a command lists keeps annotation card.request and the newest condition, and takes at most 64 KiB.
func TestALargeListedPodGroupTakesLittle(t *testing.T) {
	newest := v1beta1.PodGroupCondition{
		Type:    v1beta1.PodGroupUnschedulableType,
		Status:  corev1.ConditionTrue,
		Reason:  "New",
		Message: "new",
	}
	each := heapPerObject(func() *v1beta1.PodGroup {
		group := builder.PodGroup("lab", "g").Queue("q").Obj()
		group.Annotations = map[string]string{"a/b": strings.Repeat("x", 200<<10), v1alpha1.AnnotationCardRequest: `{"NVIDIA-H200":8}`}
		for range 1_000 {
			group.Status.Conditions = append(group.Status.Conditions, v1beta1.PodGroupCondition{
				Type:    v1beta1.PodGroupUnschedulableType,
				Message: strings.Repeat("m", 1_000),
			})
		}
		group.Status.Conditions = append(group.Status.Conditions, newest)
		ListedPodGroup(group)

		check.Equal(t, "annotations", map[string]string{v1alpha1.AnnotationCardRequest: `{"NVIDIA-H200":8}`}, group.Annotations)
		check.Equal(t, "newest condition", newest, group.Status.Conditions[len(group.Status.Conditions)-1])
		return group
	})

	check.That(t, each <= maxKept, "%d bytes are kept of each", each)
}

// BenchmarkStripWorstPod strips the pod on which a sum over all sidecars takes longest.
func BenchmarkStripWorstPod(b *testing.B) {
	pod := builder.WorstPods("lab")["sidecars"]
	workload.DefaultRequests(pod)
	for b.Loop() {
		Pod(pod)
	}
}
